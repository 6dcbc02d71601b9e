//! Counter-based randomness: Philox 4x32-10 (Salmon et al., SC 2011).
//!
//! A generator has no state to share or to order, so draws are the same on any thread, back end or
//! layout. The key comes from (seed, stream), the counter from (edge type, destination, block of
//! two draws); `docs/reference/format.md` gives the byte order so that another program can repeat a
//! draw.

use std::ops::Range;

use crate::canary::planted;
use crate::{EdgeTypeId, NodeId, NodeTypeId};

const MULTIPLIER: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Tags in the last counter word, so that draws, keys and seed orders never share a block.
pub(crate) mod domain {
    pub const DRAW: u32 = 0;
    pub const KEY: u32 = 1;
    pub const ORDER: u32 = 2;
    pub const SOURCE: u32 = 3;
    pub const PURPOSE: u32 = 4;
}

/// What numbers are drawn for that are no neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Pairs of nodes that no edge joins.
    Negatives = 1,
    /// Nodes or edges that a subgraph grows from.
    Roots = 2,
    /// Steps of walks.
    Walks = 3,
    /// Nodes that are kept of those that hops have reached.
    Budget = 4,
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

/// `bits` scaled to a number below `bound`.
#[inline]
fn scaled(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
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

    /// The key of draws for another purpose: the first two words of the block with counter
    /// (purpose, 0, 0, PURPOSE).
    pub fn apart(self, purpose: Purpose) -> Self {
        let block = philox4x32_10([purpose as u32, 0, 0, domain::PURPOSE], self.key);
        Self { key: [block[0], block[1]] }
    }

    /// The draws of one destination under one edge type. `destination` is the user-visible id.
    #[inline]
    pub fn draws(self, edge_type: EdgeTypeId, destination: NodeId) -> Draws {
        let high = (destination >> 32) as u32 | u32::from(edge_type.0) << 8;
        Draws { key: self.key, words: [destination as u32, high] }
    }
}

/// The draws of one (key, edge type, destination). Two 64-bit draws share a Philox block.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    key: [u32; 2],
    /// Words 0 and 1 of the counter.
    words: [u32; 2],
}

impl Draws {
    /// Draws 2 `index` and 2 `index` + 1 as 64 uniform bits each.
    #[inline]
    fn block(&self, index: u32) -> [u64; 2] {
        let [low, high] = self.words;
        let b = philox4x32_10([low, high, index, domain::DRAW], self.key);
        [u64::from(b[0]) | u64::from(b[1]) << 32, u64::from(b[2]) | u64::from(b[3]) << 32]
    }

    /// Draw `index` as 64 uniform bits.
    #[inline]
    pub fn bits(&self, index: u32) -> u64 {
        self.block(index / 2)[(index % 2) as usize]
    }

    /// Draw `index` below `bound` (which is not 0), by multiply-high: the bias is below
    /// `bound` / 2^64.
    #[inline]
    pub fn below(&self, index: u32, bound: u64) -> u64 {
        scaled(self.bits(index), bound)
    }

    /// Shows `emit` draws `0..count`: index and bits. No block waits for what is done with others.
    #[inline]
    fn each(&self, count: u32, mut emit: impl FnMut(u32, u64)) {
        for index in 0..count / 2 {
            let [even, odd] = self.block(index);
            emit(2 * index, even);
            emit(2 * index + 1, odd);
        }
        if count % 2 == 1 {
            emit(count - 1, self.bits(count - 1));
        }
    }

    /// Shows `emit` the draws of `range`: index and bits.
    #[inline]
    pub fn each_in(&self, range: Range<u32>, mut emit: impl FnMut(u32, u64)) {
        let mut at = range.start;
        if at % 2 == 1 && at < range.end {
            emit(at, self.bits(at));
            at += 1;
        }
        while at + 1 < range.end {
            let [even, odd] = self.block(at / 2);
            emit(at, even);
            emit(at + 1, odd);
            at += 2;
        }
        if at < range.end {
            emit(at, self.bits(at));
        }
    }

    /// Shows `emit` `count` positions in `0..degree` drawn with replacement; none if `degree` is 0.
    #[inline]
    pub fn with_replacement(&self, degree: u64, count: u32, mut emit: impl FnMut(u64)) {
        if degree > 0 {
            self.each(count, |_, bits| emit(scaled(bits, degree)));
        }
    }

    /// Shows `emit` the first `min(count, degree)` steps of a Fisher-Yates shuffle of `0..degree`,
    /// so the draws of a smaller `count` are a prefix of those of a larger one.
    ///
    /// Takes O(count) space whatever the degree: only moved positions are remembered.
    #[inline]
    pub fn without_replacement(&self, degree: u64, count: u32, mut emit: impl FnMut(u64)) {
        let count = u64::from(count).min(degree) as u32;
        if planted("biased_draws") {
            return self.with_replacement(degree / 2 + 1, count, emit);
        }
        if degree <= SHORT_MAX as u64 {
            let mut positions = ASCENDING;
            self.each(count, |index, bits| {
                // Both are below the bound: the remainder only spares a check of it.
                let from = index as usize % SHORT_MAX;
                let chosen = (from + scaled(bits, degree - from as u64) as usize) % SHORT_MAX;
                let value = positions[chosen];
                positions[chosen] = positions[from];
                emit(u64::from(value));
            });
        } else if count as usize <= MOVED_FEW {
            self.shuffle_long::<MOVED_FEW>(degree, count, emit);
        } else if count as usize <= MOVED_MAX {
            self.shuffle_long::<MOVED_MAX>(degree, count, emit);
        } else {
            let mut moved = std::collections::HashMap::new();
            self.each(count, |index, bits| {
                let from = u64::from(index);
                let chosen = from + scaled(bits, degree - from);
                let value = moved.get(&chosen).copied().unwrap_or(chosen);
                moved.insert(chosen, moved.get(&from).copied().unwrap_or(from));
                emit(value);
            });
        }
    }

    /// The shuffle of a long list of which at most `MOST` positions move.
    #[inline]
    fn shuffle_long<const MOST: usize>(&self, degree: u64, count: u32, mut emit: impl FnMut(u64)) {
        let mut moved = Moved::<MOST>::default();
        self.each(count, |index, bits| {
            let from = u64::from(index);
            emit(moved.swap(from, from + scaled(bits, degree - from)));
        });
    }
}

/// The numbers of all sources of one node type under one (seed, group of streams): what
/// destinations that decide by source, such as those of LABOR, have in common.
#[derive(Clone, Copy, Debug)]
pub struct SourceKey {
    words: [u32; 2],
}

impl SourceKey {
    /// Derives the key: the first two words of the block with counter (group, node type, SOURCE),
    /// keyed by `seed`.
    pub fn new(seed: u64, group: u64, node_type: NodeTypeId) -> Self {
        let counter = [group as u32, (group >> 32) as u32, u32::from(node_type.0), domain::SOURCE];
        let block = philox4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
        Self { words: [block[0], block[1]] }
    }

    /// The number of a source, 32 uniform bits: a mixer of 32 bits (Mueller's `triple32`) with a
    /// word of the key before and one within, which is plain arithmetic for eight at a time.
    #[inline(always)]
    pub fn number(self, source: NodeId) -> u32 {
        let [before, within] = self.words;
        let high = ((source >> 32) as u32).wrapping_mul(WEYL[0]);
        let mut x = source as u32 ^ before;
        x ^= x >> 17;
        x = x.wrapping_mul(0xED5A_D4BB);
        x ^= x >> 11 ^ within ^ high;
        x = x.wrapping_mul(0xAC4C_1B51);
        x ^= x >> 15;
        x = x.wrapping_mul(0x3184_8BAB);
        x ^ x >> 14
    }
}

/// Lists up to this length are shuffled themselves.
const SHORT_MAX: usize = 64;
const ASCENDING: [u8; SHORT_MAX] = {
    let mut positions = [0; SHORT_MAX];
    let mut at = 0;
    while at < SHORT_MAX {
        positions[at] = at as u8;
        at += 1;
    }
    positions
};

/// Counts up to these keep what moved in a list on the stack, which has to be cleared each time.
const MOVED_FEW: usize = 16;
const MOVED_MAX: usize = 48;

/// The positions that a partial Fisher-Yates has moved so far, for the common fanouts.
struct Moved<const MOST: usize> {
    /// A bit for the low byte of each position that moved: mostly none has.
    marks: [u64; 4],
    positions: [u64; MOST],
    values: [u64; MOST],
}

impl<const MOST: usize> Default for Moved<MOST> {
    fn default() -> Self {
        Self { marks: [0; 4], positions: [0; MOST], values: [0; MOST] }
    }
}

impl<const MOST: usize> Moved<MOST> {
    #[inline]
    fn is_marked(&self, position: u64) -> bool {
        self.marks[position as usize / 64 % 4] >> (position % 64) & 1 == 1
    }

    /// What is at `position` after `count` swaps.
    fn get(&self, position: u64, count: usize) -> u64 {
        let before = self.positions[..count].iter().rposition(|at| *at == position);
        before.map_or(position, |at| self.values[at])
    }

    /// Swap number `from`: takes what is at `chosen` and leaves there what was at `from`.
    #[inline]
    fn swap(&mut self, from: u64, chosen: u64) -> u64 {
        let count = from as usize;
        let (mut value, mut left) = (chosen, from);
        if self.is_marked(chosen) || self.is_marked(from) {
            value = self.get(chosen, count);
            left = self.get(from, count);
        }
        self.marks[chosen as usize / 64 % 4] |= 1 << (chosen % 64);
        self.positions[count] = chosen;
        self.values[count] = left;
        value
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
                    let draws = DrawKey::new(7, stream).draws(EdgeTypeId(3), 99);
                    draws.without_replacement(degree, count, |at| out.push(at));
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
    fn draws_of_any_range_are_those_that_are_asked_for_one_by_one() {
        let draws = DrawKey::new(7, 3).draws(EdgeTypeId(2), 5);
        for range in [0..0, 0..1, 0..8, 1..2, 3..9, 4..7, 7..7, u32::MAX - 3..u32::MAX] {
            let mut found = Vec::new();
            draws.each_in(range.clone(), |index, bits| found.push((index, bits)));
            let expected: Vec<(u32, u64)> = range.map(|at| (at, draws.bits(at))).collect();
            assert_eq!(found, expected);
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

    /// Chi-square of counts that should be equal, in standard deviations off its mean.
    fn deviation(counts: &[u32]) -> f64 {
        let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / counts.len() as f64;
        let square = |count: &u32| (f64::from(*count) - mean).powi(2) / mean;
        let free = (counts.len() - 1) as f64;
        (counts.iter().map(square).sum::<f64>() - free) / (2.0 * free).sqrt()
    }

    #[test]
    fn numbers_of_sources_are_uniform_and_independent_over_sources_and_groups() {
        let seed = 2023;
        println!("seed {seed}");
        let mut worst: f64 = 0.0;
        // Neighbours in id, and ids that differ in one bit only, the high ones included.
        for apart in (0..39).map(|bit| 1_u64 << bit) {
            let (mut one, mut two) = (vec![0; 256], vec![0; 256]);
            for group in 0..4096 {
                let key = SourceKey::new(seed, group, NodeTypeId(1));
                for source in 0..16_u64 {
                    let source = source * 77_777_777;
                    let (a, b) = (key.number(source), key.number(source ^ apart));
                    one[(a >> 24) as usize] += 1;
                    two[(a >> 28 << 4 | b >> 28) as usize] += 1;
                }
            }
            worst = worst.max(deviation(&one).abs()).max(deviation(&two).abs());
        }
        // One group: many sources.
        for group in 0..20 {
            let key = SourceKey::new(seed, group, NodeTypeId(0));
            let (mut high, mut low) = (vec![0; 1024], vec![0; 1024]);
            for source in 0..200_000 {
                let number = key.number(source);
                high[(number >> 22) as usize] += 1;
                low[(number % 1024) as usize] += 1;
            }
            worst = worst.max(deviation(&high).abs()).max(deviation(&low).abs());
        }
        assert!(worst < 5.0, "{worst} standard deviations off");
        let number = |seed, group, node_type, source| {
            SourceKey::new(seed, group, NodeTypeId(node_type)).number(source)
        };
        let first = number(0, 0, 0, 0);
        let others = [number(1, 0, 0, 0), number(0, 1, 0, 0), number(0, 0, 1, 0)];
        assert!(!others.contains(&first) && number(0, 0, 0, 1 << 32) != first);
    }

    /// The words of docs/reference/format.md, without any cleverness.
    fn plain(draws: Draws, degree: u64, count: u32, replace: bool) -> Vec<u64> {
        let mut moved = std::collections::BTreeMap::new();
        let count = if replace { count } else { u64::from(count).min(degree) as u32 };
        let step = |index: u32| {
            if replace {
                return draws.below(index, degree);
            }
            let from = u64::from(index);
            let chosen = from + draws.below(index, degree - from);
            let at = |moved: &std::collections::BTreeMap<u64, u64>, position: u64| {
                moved.get(&position).copied().unwrap_or(position)
            };
            let (value, left) = (at(&moved, chosen), at(&moved, from));
            moved.insert(chosen, left);
            value
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn every_way_of_drawing_follows_the_format_word_by_word() {
        let degrees = [1_u64, 2, 9, 48, 63, 64, 65, 66, 100, 255, 256, 257, 5000, (1 << 33) + 7];
        let counts = [0_u32, 1, 2, 7, 8, 9, 10, 15, 16, 17, 47, 48, 49, 64, 100, 300];
        for (degree, count) in degrees.iter().flat_map(|d| counts.map(|c| (*d, c))) {
            for node in 0..20 {
                let draws = DrawKey::new(11, node / 3).draws(EdgeTypeId(2), node << 31);
                let (mut without, mut with) = (Vec::new(), Vec::new());
                draws.without_replacement(degree, count, |at| without.push(at));
                draws.with_replacement(degree, count, |at| with.push(at));
                assert_eq!(without, plain(draws, degree, count, false), "{count} of {degree}");
                assert_eq!(with, plain(draws, degree, count, true), "{count} of {degree}");
            }
        }
        let of_none = |_| panic!("a position of no list");
        DrawKey::new(1, 1).draws(EdgeTypeId(0), 0).with_replacement(0, 5, of_none);
    }
}
