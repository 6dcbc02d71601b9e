//! Keys to slot numbers: linear probing over `u32`, the keys themselves stand with the slots.

/// Spreads a key over 64 bits; the top ones pick the bucket, the low ones the shard.
pub(super) fn hash(key: u64) -> u64 {
    let mixed = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// A table from hashes to slot numbers. It grows with the slots and never holds more than half.
#[derive(Debug, Default)]
pub(super) struct KeyMap {
    /// Slot + 1, or 0.
    buckets: Vec<u32>,
    shift: u32,
}

impl KeyMap {
    /// A table for up to `slots` keys.
    pub fn with_slots(slots: usize) -> Self {
        let len = (slots * 2).next_power_of_two().max(16);
        Self { buckets: vec![0; len], shift: u64::BITS - len.trailing_zeros() }
    }

    /// Whether the table has room for `slots` keys.
    pub fn fits(&self, slots: usize) -> bool {
        slots * 2 <= self.buckets.len()
    }

    /// The slot of the key with this hash; `is_it` tells whether a slot holds the key.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let mask = self.buckets.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            let slot = self.buckets[at].checked_sub(1)?;
            if is_it(slot) {
                return Some(slot);
            }
            at = (at + 1) & mask;
        }
    }

    /// Enters a slot whose key is not in the table.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        let mask = self.buckets.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        while self.buckets[at] != 0 {
            at = (at + 1) & mask;
        }
        self.buckets[at] = slot + 1;
    }

    /// Removes a slot; `hash_of` gives the hash of the key of any slot in the table.
    pub fn remove(&mut self, slot: u32, hash_of: impl Fn(u32) -> u64) {
        let mask = self.buckets.len() - 1;
        let mut hole = (hash_of(slot) >> self.shift) as usize;
        while self.buckets[hole] != slot + 1 {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(moved) = self.buckets[at].checked_sub(1) else {
                break;
            };
            let home = (hash_of(moved) >> self.shift) as usize;
            // An entry may fill the hole unless its home lies after the hole on the way to it.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.buckets[hole] = moved + 1;
                hole = at;
            }
        }
        self.buckets[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_agrees_with_a_plain_map_under_random_churn() {
        let mut keys = vec![0_u64; 64];
        let mut map = KeyMap::with_slots(64);
        let mut present = std::collections::HashMap::new();
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = hash(state.wrapping_add(0x1234_5678_9abc));
            let (slot, key) = ((state % 64) as u32, state >> 50);
            if let Some(old) = present.iter().find(|(_, s)| **s == slot).map(|(k, _)| *k) {
                map.remove(slot, |s| hash(keys[s as usize]));
                present.remove(&old);
            }
            if let std::collections::hash_map::Entry::Vacant(entry) = present.entry(key) {
                keys[slot as usize] = key;
                map.insert(hash(key), slot);
                entry.insert(slot);
            }
            for probe in 0..100 {
                let found = map.find(hash(probe), |s| keys[s as usize] == probe);
                assert_eq!(found, present.get(&probe).copied());
            }
        }
    }
}
