//! Counter-based randomness: Philox 4x32-10 (Salmon et al., SC 2011).
//!
//! A generator has no state to share or to order, so draws are the same on any thread, back end or
//! layout. The key comes from (seed, stream), the counter from (edge type, destination, block of
//! two draws); `docs/format.md` gives the byte order so that another program can repeat a draw.

use crate::canary::planted;
use crate::{EdgeTypeId, NodeId};

const MULTIPLIER: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Tags in the last counter word, so that draws, keys and seed orders never share a block.
pub(crate) mod domain {
    pub const DRAW: u32 = 0;
    pub const KEY: u32 = 1;
    pub const ORDER: u32 = 2;
}

/// One block of Philox 4x32-10.
///
/// ```
/// use ng_types::philox4x32_10;
/// assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
/// ```
#[inline]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let mut c = counter;
    let mut k = key;
    for round in 0..ROUNDS {
        if round > 0 {
            k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
        }
        let low = MULTIPLIER[0] * u64::from(c[0]);
        let high = MULTIPLIER[1] * u64::from(c[2]);
        c = [
            (high >> 32) as u32 ^ c[1] ^ k[0],
            high as u32,
            (low >> 32) as u32 ^ c[3] ^ k[1],
            low as u32,
        ];
    }
    c
}

/// The key of all draws of one (seed, stream).
#[derive(Clone, Copy, Debug)]
pub struct DrawKey {
    key: [u32; 2],
}

impl DrawKey {
    /// Derives the key: the first two words of the block with counter (stream, 0, KEY), keyed by
    /// `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let counter = [stream as u32, (stream >> 32) as u32, 0, domain::KEY];
        let block = philox4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
        Self { key: [block[0], block[1]] }
    }

    /// The draws of one destination under one edge type. `destination` is the user-visible id.
    pub fn draws(self, edge_type: EdgeTypeId, destination: NodeId) -> Draws {
        let high = (destination >> 32) as u32 | u32::from(edge_type.0) << 8;
        let counter = [destination as u32, high, 0, domain::DRAW];
        Draws { key: self.key, counter, block_index: u32::MAX, block: [0; 2] }
    }
}

/// The draws of one (key, edge type, destination). Two 64-bit draws share a Philox block.
#[derive(Clone, Debug)]
pub struct Draws {
    key: [u32; 2],
    counter: [u32; 4],
    block_index: u32,
    block: [u64; 2],
}

impl Draws {
    /// Draw `index` as 64 uniform bits.
    #[inline]
    pub fn bits(&mut self, index: u32) -> u64 {
        let block_index = index / 2;
        if block_index != self.block_index {
            self.counter[2] = block_index;
            let b = philox4x32_10(self.counter, self.key);
            self.block =
                [u64::from(b[0]) | u64::from(b[1]) << 32, u64::from(b[2]) | u64::from(b[3]) << 32];
            self.block_index = block_index;
        }
        self.block[(index % 2) as usize]
    }

    /// Draw `index` below `bound` (which is not 0), by multiply-high: the bias is below
    /// `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, index: u32, bound: u64) -> u64 {
        ((u128::from(self.bits(index)) * u128::from(bound)) >> 64) as u64
    }

    /// Appends `count` positions in `0..degree` drawn with replacement; none if `degree` is 0.
    pub fn with_replacement(&mut self, degree: u64, count: u32, positions: &mut Vec<u64>) {
        if degree > 0 {
            positions.extend((0..count).map(|index| self.below(index, degree)));
        }
    }

    /// Appends the first `min(count, degree)` steps of a Fisher-Yates shuffle of `0..degree`, so
    /// the draws of a smaller `count` are a prefix of those of a larger one.
    ///
    /// Takes O(count) time and space whatever the degree: only moved positions are remembered.
    pub fn without_replacement(&mut self, degree: u64, count: u32, positions: &mut Vec<u64>) {
        let count = u64::from(count).min(degree) as u32;
        let start = positions.len();
        let mut moved = Moved::default();
        for index in 0..count {
            let from = u64::from(index);
            if planted("biased_draws") {
                positions.push(self.below(index, degree / 2 + 1));
                continue;
            }
            let chosen = from + self.below(index, degree - from);
            let value = moved.get(chosen);
            moved.set(chosen, moved.get(from));
            positions.push(value);
        }
        debug_assert_eq!(positions.len() - start, count as usize);
    }
}

/// The positions that a partial Fisher-Yates has moved so far: a short list for the common fanouts,
/// a map for large ones.
#[derive(Default)]
struct Moved {
    short: Vec<(u64, u64)>,
    long: std::collections::HashMap<u64, u64>,
}

impl Moved {
    const SHORT_MAX: usize = 48;

    fn get(&self, position: u64) -> u64 {
        if let Some(value) = self.long.get(&position) {
            return *value;
        }
        let found = self.short.iter().find(|(at, _)| *at == position);
        found.map_or(position, |(_, value)| *value)
    }

    fn set(&mut self, position: u64, value: u64) {
        if let Some(entry) = self.short.iter_mut().find(|(at, _)| *at == position) {
            entry.1 = value;
        } else if self.short.len() < Self::SHORT_MAX {
            self.short.push((position, value));
        } else {
            self.long.insert(position, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_matches_the_known_answers_of_its_authors() {
        let ones = u32::MAX;
        let expected = [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd];
        assert_eq!(philox4x32_10([ones; 4], [ones; 2]), expected);
        let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let expected = [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1];
        assert_eq!(philox4x32_10(counter, [0xa409_3822, 0x299f_31d0]), expected);
    }

    #[test]
    fn a_smaller_fanout_is_a_prefix_of_a_larger_one() {
        for degree in [1_u64, 5, 60, 1 << 33] {
            for stream in 0..20 {
                let draw = |count| {
                    let mut out = Vec::new();
                    let mut draws = DrawKey::new(7, stream).draws(EdgeTypeId(3), 99);
                    draws.without_replacement(degree, count, &mut out);
                    out
                };
                let long = draw(100);
                assert_eq!(long.len() as u64, degree.min(100));
                assert!(long.starts_with(&draw(10)));
                let mut distinct = long.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), long.len());
                assert!(long.iter().all(|position| *position < degree));
            }
        }
    }

    #[test]
    fn draws_differ_by_seed_stream_edge_type_and_destination() {
        let bits = |seed, stream, edge_type, node| {
            DrawKey::new(seed, stream).draws(EdgeTypeId(edge_type), node).bits(0)
        };
        let all = [
            bits(0, 0, 0, 0),
            bits(1, 0, 0, 0),
            bits(0, 1, 0, 0),
            bits(0, 0, 1, 0),
            bits(0, 0, 0, 1),
            bits(0, 0, 0, 1 << 32),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }
}
