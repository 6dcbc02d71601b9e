//! How the memory for caches is divided between blocks (topology, indexes, page tables) and rows.
//!
//! What lives here: the shares at the start, and when memory moves. What must not: the caches. A
//! step of memory moves to the cache in which it saves more time of the disk, as told by the keys
//! that came back soon after they had to leave ([`super::ghost`]). Where a move was wrong, it is
//! taken back, and the next one needs twice as many signs.

use crate::cache::slots::CacheBytes;

/// Parts of the memory of both caches that move together.
const STEPS: u64 = 32;

/// Keys that came back before anything is concluded from them; at most so many times more after
/// moves that were taken back.
const SIGNS: u64 = 128;
const SIGNS_FACTOR_MAX: u64 = 64;

/// Memory moves if it saves so many times as much on the other side.
const MARGIN: f64 = 1.5;

/// What came back to a cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Returns {
    pub keys: u64,
    /// Seconds of the disk to read them.
    pub seconds: f64,
}

/// The shares of both caches.
#[derive(Debug)]
pub(crate) struct Division {
    pub blocks: CacheBytes,
    pub rows: CacheBytes,
    step: u64,
    /// What blocks have now; rows have the rest.
    blocks_now: u64,
    signs: u64,
    /// Whether the last step went to the blocks.
    last: Option<bool>,
    /// What came back since something was concluded: to blocks, to rows.
    noted: [Returns; 2],
}

impl Division {
    /// Of `bytes` for caches and batches, with `blocks` and `rows` as what each cache can use at
    /// most: at the start a quarter of `bytes` for blocks and half for rows, and what one cannot
    /// use goes to the other. Batches have the rest for themselves and may take more.
    pub fn new(bytes: u64, blocks: u64, rows: u64) -> Self {
        let both = bytes / 4 * 3;
        let rows_now = rows.min(both - blocks.min(bytes / 4));
        let blocks_now = blocks.min(both - rows_now);
        let all = blocks_now + rows_now;
        let step = all / STEPS;
        // Nobody loses more than half.
        let of = |now: u64, other: u64, use_: u64| CacheBytes {
            start: now,
            most: use_.min(all - other.div_ceil(2)).max(now),
            ghost: step,
        };
        let blocks = of(blocks_now, rows_now, blocks);
        Self {
            blocks,
            rows: of(rows_now, blocks_now, rows),
            step,
            blocks_now,
            signs: SIGNS,
            last: None,
            noted: [Returns::default(); 2],
        }
    }

    /// Bytes for blocks and for rows.
    pub fn now(&self) -> (u64, u64) {
        (self.blocks_now, self.blocks.start + self.rows.start - self.blocks_now)
    }

    /// Notes what came back, and moves a step of memory once that tells where; true if it did.
    pub fn note(&mut self, blocks: Returns, rows: Returns) -> bool {
        for (noted, more) in self.noted.iter_mut().zip([blocks, rows]) {
            noted.keys += more.keys;
            noted.seconds += more.seconds;
        }
        let [blocks, rows] = self.noted;
        if blocks.keys + rows.keys < self.signs {
            return false;
        }
        self.noted = [Returns::default(); 2];
        self.learn(blocks, rows)
    }

    /// Moves a step to where more came back; true if anything moved.
    fn learn(&mut self, blocks: Returns, rows: Returns) -> bool {
        let to_blocks = blocks.seconds > rows.seconds * MARGIN;
        let to_rows = rows.seconds > blocks.seconds * MARGIN;
        if !to_blocks && !to_rows {
            return false;
        }
        let (for_blocks, for_rows) = self.now();
        let (from, least, to, most) = if to_blocks {
            (for_rows, self.rows.start.div_ceil(2), for_blocks, self.blocks.most)
        } else {
            (for_blocks, self.blocks.start.div_ceil(2), for_rows, self.rows.most)
        };
        let moved = self.step.min(from.saturating_sub(least)).min(most.saturating_sub(to));
        if moved == 0 {
            return false;
        }
        self.blocks_now =
            if to_blocks { for_blocks + moved } else { for_blocks.saturating_sub(moved) };
        if self.last.replace(to_blocks).is_some_and(|last| last != to_blocks) {
            self.signs = (self.signs * 2).min(SIGNS * SIGNS_FACTOR_MAX);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn returns(seconds: f64) -> Returns {
        Returns { keys: 1_000, seconds }
    }

    #[test]
    fn at_the_start_each_has_its_part_or_what_it_can_use() {
        let start = |blocks, rows| Division::new(64 * MIB, blocks * MIB, rows * MIB).now();
        assert_eq!(start(1_000, 1_000), (16 * MIB, 32 * MIB));
        assert_eq!(start(4, 1_000), (4 * MIB, 44 * MIB));
        assert_eq!(start(1_000, 8), (40 * MIB, 8 * MIB));
        assert_eq!(start(4, 8), (4 * MIB, 8 * MIB));
    }

    #[test]
    fn memory_moves_to_where_it_saves_more_until_the_other_has_half_of_its_start() {
        for to_blocks in [true, false] {
            let mut division = Division::new(64 * MIB, 1_000 * MIB, 1_000 * MIB);
            let (blocks, rows) = if to_blocks { (2.0, 1.0) } else { (1.0, 2.0) };
            let mut moves = 0;
            while division.learn(returns(blocks), returns(rows)) {
                moves += 1;
                let (blocks, rows) = division.now();
                assert_eq!(blocks + rows, 48 * MIB);
            }
            let expected = if to_blocks { (32 * MIB, 16 * MIB) } else { (8 * MIB, 40 * MIB) };
            assert_eq!(division.now(), expected);
            assert!(moves >= 5, "{moves} moves");
            assert_eq!(division.signs, SIGNS);
        }
    }

    #[test]
    fn nothing_moves_for_little_and_a_move_back_makes_the_next_one_slower() {
        let mut division = Division::new(64 * MIB, 1_000 * MIB, 1_000 * MIB);
        assert!(!division.learn(returns(1.0), returns(1.2)));
        assert!(!division.learn(returns(0.0), returns(0.0)));
        for _ in 0..20 {
            assert!(division.learn(returns(2.0), returns(1.0)));
            assert!(division.learn(returns(1.0), returns(2.0)));
        }
        assert_eq!(division.signs, SIGNS * SIGNS_FACTOR_MAX);
    }

    #[test]
    fn nothing_is_concluded_from_few_signs() {
        let mut division = Division::new(64 * MIB, 1_000 * MIB, 1_000 * MIB);
        let few = Returns { keys: SIGNS / 4, seconds: 1.0 };
        let none = Returns::default();
        let moved: Vec<bool> = (0..8).map(|_| division.note(few, none)).collect();
        assert_eq!(moved, [false, false, false, true, false, false, false, true]);
    }

    #[test]
    fn nobody_gets_more_than_it_can_use() {
        let mut division = Division::new(64 * MIB, 18 * MIB, 1_000 * MIB);
        while division.learn(returns(2.0), returns(1.0)) {}
        assert_eq!(division.now().0, 18 * MIB);
        assert_eq!((division.blocks.most, division.rows.most), (18 * MIB, 40 * MIB));
    }
}
