//! Memory for rows that were read and are waiting for their batches: equally long slots.
//!
//! Who owns which slot is settled by the planner ([`super::places`]); here are only the bytes. The
//! locks keep the borrow checker's promise, not the order of things: a slot is written before its
//! batch is gathered and not again before that batch is done. Reading and gathering go on at once,
//! so nobody holds more than one lock, and none for long.

use std::sync::{PoisonError, RwLock};

use ng_io::AnonMap;
use ng_simd::copy_streaming;
use ng_store::RowPart;

use super::each_near;
use crate::SampleError;
use crate::buffer::region;

/// Slots are spread over so many locks.
const SHARDS: usize = 32;

/// Rows that are copied under one taking of a lock, so that the reader gets its turn.
const ROWS_TOGETHER: usize = 64;

/// Slots of one length.
#[derive(Debug)]
pub(crate) struct Slots {
    width: usize,
    per_shard: usize,
    shards: Vec<RwLock<AnonMap>>,
}

impl Slots {
    /// `count` slots of `width` bytes.
    pub fn new(width: usize, count: usize) -> Result<Self, SampleError> {
        let per_shard = count.div_ceil(SHARDS).max(1);
        let shard = |_| region(per_shard * width).map(RwLock::new);
        let shards = (0..SHARDS).map(shard).collect::<Result<_, _>>()?;
        Ok(Self { width, per_shard, shards })
    }

    /// Bytes that `count` slots take.
    pub fn num_bytes(width: usize, count: usize) -> u64 {
        (count.div_ceil(SHARDS).max(1) * SHARDS * width) as u64
    }

    /// The largest multiple of what has memory of its own that is not above `slots`, of `count`.
    pub fn whole_shards(slots: usize, count: usize) -> usize {
        let per_shard = count.div_ceil(SHARDS).max(1);
        if slots >= count { count } else { slots / per_shard * per_shard }
    }

    /// Gives back the memory of the slots from `first` on, which begin a shard and have no rows.
    pub fn rest_from(&self, first: usize) -> Result<(), SampleError> {
        for shard in self.shards.iter().skip(first.div_ceil(self.per_shard)) {
            let mut memory = shard.write().unwrap_or_else(PoisonError::into_inner);
            *memory = region(self.per_shard * self.width)?;
        }
        Ok(())
    }

    fn place(&self, slot: u32) -> (usize, usize) {
        let slot = slot as usize;
        (slot / self.per_shard, slot % self.per_shard * self.width)
    }

    /// Writes rows that arrived together: each part into the slot that `slots` has for its row.
    /// They are sorted, so that a lock is taken once: taking one waits for all earlier stores.
    /// Others see them after [`ng_simd::finish_streaming`].
    pub fn write(&self, slots: &[u32], parts: &mut [RowPart<'_>]) {
        let slot = |part: &RowPart<'_>| slots[part.row];
        parts.sort_unstable_by_key(slot);
        for parts in parts.chunk_by(|a, b| self.place(slot(a)).0 == self.place(slot(b)).0) {
            let shard = &self.shards[self.place(slot(&parts[0])).0];
            let mut memory = shard.write().unwrap_or_else(PoisonError::into_inner);
            for part in parts {
                let at = self.place(slot(part)).1 + part.skip;
                copy_streaming(part.bytes, &mut memory.as_mut_slice()[at..at + part.bytes.len()]);
            }
        }
    }

    /// Lends the bytes of each of `slots`, with its place among them, shard by shard.
    pub fn each(&self, slots: &[u32], mut look: impl FnMut(usize, &[u8])) {
        let places = self.by_shard(slots);
        let shard_of = |place: &u32| self.place(slots[*place as usize]).0;
        for of_shard in places.chunk_by(|a, b| shard_of(a) == shard_of(b)) {
            let shard = &self.shards[shard_of(&of_shard[0])];
            for places in of_shard.chunks(ROWS_TOGETHER) {
                let memory = shard.read().unwrap_or_else(PoisonError::into_inner);
                let row = |step: usize| {
                    let at = self.place(slots[places[step] as usize]).1;
                    &memory.as_slice()[at..at + self.width]
                };
                each_near(places.len(), row, |step, row| look(places[step] as usize, row));
            }
        }
    }

    /// The places of `slots`, those of a shard together.
    fn by_shard(&self, slots: &[u32]) -> Vec<u32> {
        let shard_of = |slot: &u32| self.place(*slot).0;
        let mut starts = [0; SHARDS + 1];
        slots.iter().for_each(|slot| starts[shard_of(slot) + 1] += 1);
        for shard in 0..SHARDS {
            starts[shard + 1] += starts[shard];
        }
        let mut places = vec![0; slots.len()];
        for (place, slot) in slots.iter().enumerate() {
            let next = &mut starts[shard_of(slot)];
            places[*next] = place as u32;
            *next += 1;
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_lent_once_with_its_place_and_bytes() {
        let (width, count) = (5, 1000);
        let slots = Slots::new(width, count).expect("memory");
        // Scattered, and in all shards.
        let of_row: Vec<u32> = (0..count as u32).map(|row| row * 377 % 1000).collect();
        let bytes: Vec<[u8; 5]> =
            (0..count).map(|row| [row as u8, (row >> 8) as u8, 1, 2, 3]).collect();
        let part = |row: usize| RowPart { row, skip: 0, bytes: &bytes[row] };
        let mut parts: Vec<RowPart<'_>> = (0..count).map(part).collect();
        slots.write(&of_row, &mut parts);
        ng_simd::finish_streaming();
        let rows: Vec<usize> = (0..4000).map(|place| place * 13 % count).collect();
        let wanted: Vec<u32> = rows.iter().map(|row| of_row[*row]).collect();
        let mut seen = vec![0; wanted.len()];
        slots.each(&wanted, |place, row| {
            seen[place] += 1;
            assert_eq!(row, bytes[rows[place]], "place {place}");
        });
        assert!(seen.iter().all(|times| *times == 1));
        slots.each(&[], |_, _| panic!("nothing was asked for"));
    }
}
