//! From a node id to its number inside the batch.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ng_types::NodeId;

/// Spreads node ids by one multiplication (Fibonacci hashing): ids are not chosen by an adversary
/// who gains from collisions, and the default hasher would dominate the time of a hop.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The nodes of one type in a batch: ids in order of their number, and the number of each id.
#[derive(Default)]
pub(crate) struct NodeMap {
    pub ids: Vec<i64>,
    numbers: HashMap<NodeId, u32, BuildHasherDefault<IdHasher>>,
}

impl NodeMap {
    /// Bytes that an id costs while a batch is sampled: the id, and its map slot at half load.
    pub const BYTES_PER_NODE: u64 = 8 + 2 * 17;

    /// Appends a seed. A repeated seed keeps its place; its id stays with the first one's number.
    pub fn push_seed(&mut self, id: NodeId) {
        let number = self.ids.len() as u32;
        self.ids.push(id as i64);
        self.numbers.entry(id).or_insert(number);
    }

    /// The number of `id`, the next free one if it is new.
    pub fn number(&mut self, id: NodeId) -> u32 {
        let next = self.ids.len() as u32;
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.ids.push(id as i64);
        }
        number
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_first_appearance_and_repeated_seeds_keep_their_place() {
        let mut map = NodeMap::default();
        for id in [9, 4, 9] {
            map.push_seed(id);
        }
        assert_eq!(map.number(4), 1);
        assert_eq!(map.number(7), 3);
        assert_eq!(map.number(9), 0);
        assert_eq!(map.ids, [9, 4, 9, 7]);
    }
}
