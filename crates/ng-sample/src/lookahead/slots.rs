//! Memory for rows that were read and are waiting for their batches: equally long slots.
//!
//! Who owns which slot is settled by the planner ([`super::places`]); here are only the bytes. The
//! locks keep the borrow checker's promise, not the order of things: a slot is written before its
//! batch is gathered and not again before that batch is done.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use ng_io::Region;
use ng_simd::{copy_streaming, finish_streaming, prefetch};
use ng_store::RowPart;

/// Slots are spread over so many locks.
const SHARDS: usize = 16;

/// Rows that are copied under one taking of the locks, so that the reader gets its turn.
const ROWS_TOGETHER: usize = 64;

/// Rows whose memory is on its way while another is copied.
const NEAR: usize = 3;

/// The part of a row that is fetched early; the processor foresees the rest.
fn near(row: &[u8]) -> &[u8] {
    &row[..row.len().min(1024)]
}

/// Slots of one length.
#[derive(Debug)]
pub(crate) struct Slots {
    width: usize,
    per_shard: usize,
    shards: Vec<RwLock<Region>>,
}

impl Slots {
    /// `count` slots of `width` bytes.
    pub fn new(width: usize, count: usize) -> std::io::Result<Self> {
        let per_shard = count.div_ceil(SHARDS).max(1);
        let shard = |_| Region::with_huge_pages(per_shard * width).map(RwLock::new);
        let shards = (0..SHARDS).map(shard).collect::<std::io::Result<_>>()?;
        Ok(Self { width, per_shard, shards })
    }

    /// Bytes that `count` slots take.
    pub fn num_bytes(width: usize, count: usize) -> u64 {
        (count.div_ceil(SHARDS).max(1) * SHARDS * width) as u64
    }

    fn place(&self, slot: u32) -> (usize, usize) {
        let slot = slot as usize;
        (slot / self.per_shard, slot % self.per_shard * self.width)
    }

    /// Writes rows that arrived together: each part into the slot that `slots` has for its row.
    /// They are sorted, so that a lock is taken once: taking one waits for all earlier stores.
    pub fn write(&self, slots: &[u32], parts: &mut [RowPart<'_>]) {
        let slot = |part: &RowPart<'_>| slots.get(part.row).copied().unwrap_or(u32::MAX);
        parts.sort_unstable_by_key(slot);
        for parts in parts.chunk_by(|a, b| self.place(slot(a)).0 == self.place(slot(b)).0) {
            let shard = parts.first().and_then(|part| self.shards.get(self.place(slot(part)).0));
            let Some(shard) = shard else { continue };
            let mut memory = shard.write().unwrap_or_else(PoisonError::into_inner);
            for part in parts {
                let at = self.place(slot(part)).1 + part.skip;
                let target = memory.as_mut_slice().get_mut(at..at + part.bytes.len());
                if let Some(target) = target {
                    copy_streaming(part.bytes, target);
                }
            }
        }
    }

    /// What this thread wrote is seen by whoever is told of it afterwards.
    pub fn finish_writing(&self) {
        finish_streaming();
    }

    /// Lends the bytes of each of `slots`, with its place among them.
    pub fn each(&self, slots: &[u32], mut look: impl FnMut(usize, &[u8])) {
        for (group, slots) in slots.chunks(ROWS_TOGETHER).enumerate() {
            // Always in this order, and a writer holds one shard alone: nobody waits in a ring.
            let shards: Vec<RwLockReadGuard<'_, Region>> = self
                .shards
                .iter()
                .map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner))
                .collect();
            let row = |slot: &u32| {
                let (shard, at) = self.place(*slot);
                let bytes = shards.get(shard).and_then(|s| s.as_slice().get(at..at + self.width));
                bytes.unwrap_or_default()
            };
            slots.iter().take(NEAR).for_each(|slot| prefetch(near(row(slot))));
            for (step, slot) in slots.iter().enumerate() {
                if let Some(later) = slots.get(step + NEAR) {
                    prefetch(near(row(later)));
                }
                look(group * ROWS_TOGETHER + step, row(slot));
            }
        }
    }
}
