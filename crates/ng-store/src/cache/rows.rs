//! The row cache: one [`SlotCache`] for each wide tensor, all under one share.
//!
//! Rows below [`ROW_BYTES_MIN`] are not kept here: bookkeeping would weigh as much as they do, so
//! their blocks go through the block cache.

use std::convert::Infallible;
use std::sync::OnceLock;

use ng_types::Budget;

use crate::cache::division::Worth;
use crate::cache::slots::{CacheBytes, Inserted, Share, SlotCache};
use crate::costs::DiskCosts;

/// Narrowest row that has a slot of its own.
pub(crate) const ROW_BYTES_MIN: usize = 256;

/// Caches by tensor number.
#[derive(Debug)]
pub(crate) struct RowCache {
    share: Share,
    bytes: CacheBytes,
    pools: Box<[OnceLock<Option<SlotCache>>]>,
}

impl RowCache {
    /// An empty cache for `tensors` tensors.
    pub fn new(budget: Budget, bytes: CacheBytes, tensors: usize) -> Self {
        let pools = (0..tensors).map(|_| OnceLock::new()).collect();
        Self { share: Share::new(budget, bytes.start), bytes, pools }
    }

    /// The share of all pools.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// The pool of a tensor, or `None` where its rows are too wide for the memory there is.
    pub fn pool(&self, tensor: usize, row_bytes: usize) -> Option<RowPool<'_>> {
        let pool = self.pools.get(tensor)?;
        let pool = pool.get_or_init(|| SlotCache::new(row_bytes, self.bytes)).as_ref()?;
        Some(RowPool { rows: self, pool })
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.share.used_bytes()
    }

    /// What a step is worth: given to the pool that gains most, taken from the largest one.
    pub fn take_worth(&self, costs: &DiskCosts) -> Worth {
        let pools = self.pools.iter().filter_map(|pool| pool.get()?.as_ref());
        let (mut worth, mut largest) = (Worth::default(), 0);
        for pool in pools {
            let of = pool.take_worth(costs.seconds(pool.slot_bytes() as u64));
            worth.signs = worth.signs.max(of.signs);
            worth.gain = worth.gain.max(of.gain);
            if pool.bytes() > largest {
                (worth.loss, largest) = (of.loss, pool.bytes());
            }
        }
        worth
    }

    /// Gives back all that is held of a tensor and not being read.
    pub fn empty(&self, tensor: usize) {
        if let Some(Some(pool)) = self.pools.get(tensor).and_then(OnceLock::get) {
            while pool.drop_chunk(&self.share) > 0 {}
        }
    }

    /// Gives back one chunk of the largest pool; returns its bytes.
    pub fn drop_chunk(&self) -> u64 {
        let pools = self.pools.iter().filter_map(|pool| pool.get()?.as_ref());
        let largest = pools.max_by_key(|pool| pool.bytes());
        largest.map_or(0, |pool| pool.drop_chunk(&self.share))
    }
}

/// One tensor's part of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowPool<'a> {
    rows: &'a RowCache,
    pool: &'a SlotCache,
}

impl RowPool<'_> {
    /// Lends the rows that are there to `take`, by the place of their key; returns the places of
    /// the others.
    pub fn copy(&self, keys: &[u64], mut take: impl FnMut(usize, &[u8])) -> Vec<usize> {
        let look = |place: usize, bytes: &[u8]| {
            take(place, bytes);
            Ok::<(), Infallible>(())
        };
        match self.pool.with_each(keys, 0, look) {
            Ok(missing) => missing,
            Err(never) => match never {},
        }
    }

    /// Forgets a row.
    pub fn forget(&self, key: u64) {
        self.pool.remove(key);
    }

    /// Keeps a row, taking memory from the largest pool if this one has none.
    pub fn insert(&self, key: u64, bytes: &[u8]) {
        if self.pool.insert(&self.rows.share, key, bytes) == Inserted::NoMemory
            && self.rows.drop_chunk() > 0
        {
            self.pool.insert(&self.rows.share, key, bytes);
        }
    }
}
