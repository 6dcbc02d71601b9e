//! The shuffled order of seeds: a keyed permutation evaluated point by point, so that a resumed
//! epoch, another rank or a prefetch thread finds seed `i` without the seeds before it.

use crate::rng::{domain, philox4x32_10};

const ROUNDS: u32 = 6;

/// A pseudo-random permutation of `0..len`, keyed by (seed, epoch).
///
/// A Feistel network over the next even power of two, walked until it lands inside the range.
#[derive(Clone, Copy, Debug)]
pub struct SeedOrder {
    len: u64,
    half_bits: u32,
    key: [u32; 2],
    epoch: u64,
}

impl SeedOrder {
    /// The order of `len` seeds in `epoch`.
    pub fn new(len: u64, seed: u64, epoch: u64) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let key = [seed as u32, (seed >> 32) as u32];
        Self { len, half_bits: bits.div_ceil(2).max(1), key, epoch }
    }

    /// How many seeds there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no seeds.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the place in the unshuffled order of the seed at place `index` of the shuffled one.
    ///
    /// # Panics
    /// If `index` is not below [`SeedOrder::len`].
    pub fn at(&self, index: u64) -> u64 {
        assert!(index < self.len, "index {index} of {} seeds", self.len);
        let mut value = index;
        loop {
            value = self.encrypt(value);
            if value < self.len {
                return value;
            }
        }
    }

    fn encrypt(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..ROUNDS {
            let word = (self.epoch >> 32) as u32 ^ round << 24;
            let counter = [right as u32, self.epoch as u32, word, domain::ORDER];
            let block = philox4x32_10(counter, self.key);
            (left, right) = (right, left ^ (u64::from(block[0]) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_a_permutation_for_every_small_length() {
        for len in 1..300 {
            let order = SeedOrder::new(len, 3, len);
            let mut seen: Vec<u64> = (0..len).map(|i| order.at(i)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn epochs_and_seeds_give_different_orders() {
        let list = |seed, epoch| {
            let order = SeedOrder::new(1000, seed, epoch);
            (0..1000).map(|i| order.at(i)).collect::<Vec<_>>()
        };
        assert_ne!(list(0, 0), list(0, 1));
        assert_ne!(list(0, 0), list(1, 0));
        assert_ne!(list(0, 0), (0..1000).collect::<Vec<_>>());
    }
}
