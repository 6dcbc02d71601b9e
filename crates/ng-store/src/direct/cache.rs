//! Pages of one file in memory: those of primary sections, which may be several pages long, and the
//! others.
//!
//! The invariants: memory is taken from the store's budget, and the store takes it back when a
//! batch needs it; what is kept here was checked.

use std::sync::Weak;

use ng_types::{Budget, MemoryUser};

use super::error::DirectError;
use super::format::{Kind, Shape};
use crate::cache::slots::{CacheBytes, Inserted, Share, SlotCache};

/// The cache.
#[derive(Debug)]
pub(crate) struct PageCache {
    share: Share,
    primary: Option<SlotCache>,
    others: Option<SlotCache>,
}

/// The caches of all files that are open.
pub(crate) type PageCaches = std::sync::Mutex<Vec<Weak<PageCache>>>;

impl PageCache {
    /// A cache for a file of `file_bytes`, of at most its share of the budget.
    pub fn new(budget: &Budget, shape: &Shape, file_bytes: u64) -> Self {
        // Shards fill unevenly, so more than the bare file is allowed.
        let most = budget.share(MemoryUser::DirectPages);
        let cap_bytes = most.min((file_bytes / 2).saturating_mul(3)).max(1 << 20);
        Self {
            share: Share::new(budget.clone(), cap_bytes),
            primary: SlotCache::new(shape.unit_bytes(), CacheBytes::fixed(cap_bytes)),
            others: SlotCache::new(shape.page_bytes, CacheBytes::fixed(cap_bytes)),
        }
    }

    fn of(&self, kind: Kind) -> Option<&SlotCache> {
        if kind == Kind::Primary { self.primary.as_ref() } else { self.others.as_ref() }
    }

    /// Lends the pages that are there to `look`, by the place of their number; returns the places
    /// of the others. `look` must not use the cache.
    pub fn with_each(
        &self,
        kind: Kind,
        pages: &[u64],
        look: impl FnMut(usize, &[u8]) -> Result<(), DirectError>,
    ) -> Result<Vec<usize>, DirectError> {
        match self.of(kind) {
            Some(cache) => cache.with_each(pages, 0, look),
            None => Ok((0..pages.len()).collect()),
        }
    }

    /// Keeps a page, taking memory from the larger part if its own has none.
    pub fn keep(&self, kind: Kind, page: u64, bytes: &[u8]) {
        let Some(cache) = self.of(kind) else { return };
        if cache.insert(&self.share, page, bytes) == Inserted::NoMemory && self.drop_chunk() > 0 {
            cache.insert(&self.share, page, bytes);
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.share.used_bytes()
    }

    /// Gives one chunk of the larger part back; returns its bytes.
    pub fn drop_chunk(&self) -> u64 {
        let parts = [&self.primary, &self.others].into_iter().flatten();
        let largest = parts.max_by_key(|part| part.bytes());
        largest.map_or(0, |part| part.drop_chunk(&self.share))
    }
}
