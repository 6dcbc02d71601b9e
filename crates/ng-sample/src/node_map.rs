//! From a node id to its number inside the batch.
//!
//! An open-addressing table with linear probing: a slot holds the low half of an id and a number,
//! so that a probe is one load. Ids are spread by one multiplication (Fibonacci hashing): they are
//! not chosen by an adversary who gains from collisions. The memory stays for the next batch.

use crate::ids::Id;

/// Slots of the smallest table.
const SLOTS_MIN: usize = 1024;

/// Ids whose slots are loaded before any of them is looked at, so that none waits for another.
const LOOKED_AT_TOGETHER: usize = 32;

/// A table with more slots than this for each node that it held is not kept.
const SLOTS_KEPT: usize = 32;

/// The nodes of one type in a batch: ids in order of their number, and the number of each id.
#[derive(Default)]
pub(crate) struct NodeMap<I> {
    ids: Vec<I>,
    /// Low 32 bits of the id, then its number plus 1; 0 where the slot is free. A power of two.
    slots: Vec<u64>,
    /// What is left of a product of 64 bits are as many bits as the table has.
    shift: u32,
}

impl<I: Id> NodeMap<I> {
    /// Bytes that a new node may cost while a batch is sampled: its id in a list that may have room
    /// for twice as many, three slots, and the table before it grew.
    pub const BYTES_PER_NODE: u64 = 2 * size_of::<I>() as u64 + 3 * 8 + 2 * 8;

    /// Forgets all nodes.
    pub fn clear(&mut self) {
        if self.slots.len() > SLOTS_MIN.max(self.ids.len() * SLOTS_KEPT) {
            self.slots = Vec::new();
        } else if !self.ids.is_empty() {
            self.slots.fill(0);
        }
        self.ids.clear();
    }

    /// Appends a seed. A repeated seed keeps its place; its id stays with the first one's number.
    pub fn push_seed(&mut self, id: I) {
        let next = self.ids.len();
        if self.number(id) as usize != next {
            self.ids.push(id);
        }
    }

    /// The number of `id`, the next free one if it is new.
    #[inline]
    pub fn number(&mut self, id: I) -> u32 {
        self.reserve(1);
        self.number_from(id, self.home(id))
    }

    /// The number of `id`, if it has one.
    #[inline]
    pub fn find(&self, id: I) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = self.home(id);
        loop {
            let slot = self.slots[at & mask];
            if slot == 0 {
                return None;
            }
            if self.is_of(slot, id) {
                return Some(slot as u32 - 1);
            }
            at += 1;
        }
    }

    /// Appends the numbers of `ids` to `rows`.
    pub fn number_all(&mut self, ids: &[I], rows: &mut Vec<u32>) {
        // A guess spares a large table most of its growth, and a small one its size.
        self.reserve(ids.len() / 2);
        for ids in ids.chunks(LOOKED_AT_TOGETHER) {
            self.reserve(ids.len());
            let mut seen = [(0, 0); LOOKED_AT_TOGETHER];
            for (seen, id) in seen.iter_mut().zip(ids) {
                let home = self.home(*id);
                *seen = (home, self.slots[home]);
            }
            rows.extend(ids.iter().zip(seen).map(|(id, (home, slot))| {
                if self.is_of(slot, *id) { slot as u32 - 1 } else { self.number_from(*id, home) }
            }));
        }
    }

    /// Whether a slot is taken, and by `id`.
    #[inline]
    fn is_of(&self, slot: u64, id: I) -> bool {
        let low = id.get() & u64::from(u32::MAX);
        slot as u32 != 0
            && slot >> 32 == low
            && (I::IS_NARROW || self.ids[slot as u32 as usize - 1] == id)
    }

    /// The number of `id`, looked for from its home on; there is a free slot.
    #[inline]
    fn number_from(&mut self, id: I, home: usize) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = home;
        loop {
            let slot = self.slots[at & mask];
            if slot == 0 {
                self.ids.push(id);
                let low = id.get() & u64::from(u32::MAX);
                self.slots[at & mask] = low << 32 | self.ids.len() as u64;
                return self.ids.len() as u32 - 1;
            }
            if self.is_of(slot, id) {
                return slot as u32 - 1;
            }
            at += 1;
        }
    }

    /// Makes room for `count` more nodes.
    #[inline]
    fn reserve(&mut self, count: usize) {
        if (self.ids.len() + count) * 4 > self.slots.len() * 3 {
            self.grow(count);
        }
    }

    #[inline]
    fn home(&self, id: I) -> usize {
        (id.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[cold]
    fn grow(&mut self, count: usize) {
        let slots = ((self.ids.len() + count) * 4).div_ceil(3).next_power_of_two().max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        self.shift = 64 - slots.trailing_zeros();
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            let mut at = self.home(self.ids[slot as u32 as usize - 1]);
            while self.slots[at & (slots - 1)] != 0 {
                at += 1;
            }
            self.slots[at & (slots - 1)] = slot;
        }
    }

    /// Ids by number.
    pub fn ids(&self) -> &[I] {
        &self.ids
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Bytes of what it keeps.
    pub fn num_bytes(&self) -> u64 {
        (self.ids.capacity() * size_of::<I>() + self.slots.capacity() * size_of::<u64>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_first_appearance_and_repeated_seeds_keep_their_place() {
        let mut map = NodeMap::<u32>::default();
        for id in [9, 4, 9] {
            map.push_seed(id);
        }
        let mut rows = Vec::new();
        map.number_all(&[4, 7, 9, 7], &mut rows);
        assert_eq!(rows, [1, 3, 0, 3]);
        assert_eq!(map.ids(), [9, 4, 9, 7]);
        assert_eq!([9, 4, 7, 8].map(|id| map.find(id)), [Some(0), Some(1), Some(3), None]);
        assert_eq!(NodeMap::<u32>::default().find(9), None);
    }

    /// Compares with a plain map, over several batches in the same memory.
    fn compare<I: Id + std::hash::Hash + std::fmt::Debug>(id: impl Fn(u64) -> u64) {
        let mut map = NodeMap::<I>::default();
        for count in [70_000_u64, 3, 5000, 1] {
            map.clear();
            let mut plain = std::collections::HashMap::new();
            for step in 0..count {
                let id = I::new(id(step * step % 65_537));
                let next = plain.len() as u32;
                assert_eq!(map.number(id), *plain.entry(id).or_insert(next));
            }
            assert_eq!(map.len(), plain.len());
            assert!(map.ids().iter().enumerate().all(|(at, id)| plain[id] == at as u32));
        }
        map.clear();
        assert!(map.num_bytes() < 1 << 20, "{}", map.num_bytes());
    }

    #[test]
    fn equal_ids_have_equal_numbers_through_growth_and_reuse() {
        compare::<u32>(|id| id);
        compare::<u32>(|id| id << 15);
        compare::<u64>(|id| id << 20);
        // All of them have the same low half.
        compare::<u64>(|id| id << 32 | 5);
    }
}
