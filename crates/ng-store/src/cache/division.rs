//! How the memory for caches is divided between blocks (topology, indexes, page tables) and rows.
//!
//! What lives here: the shares at the start, and when memory moves. What must not: the caches. A
//! step of memory moves if it saves more time of the disk in the one cache than it costs in the
//! other ([`super::shadow`] says so of each).

use ng_types::MemoryUser;

use crate::cache::slots::CacheBytes;

/// Parts of the memory of both caches that move together.
const STEPS: u64 = 32;

/// Sampled misses by which sizes have to differ before anything is concluded.
const SIGNS: u64 = 1024;

/// Memory moves if it saves so many times what it costs.
const MARGIN: f64 = 1.2;

/// What a step of memory is worth to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Worth {
    /// Sampled misses that say so.
    pub signs: u64,
    /// Seconds of the disk that a step more saves.
    pub gain: f64,
    /// Seconds that a step less costs.
    pub loss: f64,
}

/// The shares of both caches.
#[derive(Debug)]
pub(crate) struct Division {
    pub blocks: CacheBytes,
    pub rows: CacheBytes,
    step: u64,
    /// What blocks have now; rows have the rest.
    blocks_now: u64,
    /// Since something was concluded: of blocks, of rows.
    noted: [Worth; 2],
}

impl Division {
    /// Of `bytes` for caches and batches, with `blocks` and `rows` as what each cache can use at
    /// most: at the start each has its share of `bytes`, and what one cannot
    /// use goes to the other. Batches have the rest for themselves and may take more.
    pub fn new(bytes: u64, blocks: u64, rows: u64) -> Self {
        let for_blocks = MemoryUser::BlockCache.share(bytes);
        let both = for_blocks + MemoryUser::RowCache.share(bytes);
        let rows_now = rows.min(both - blocks.min(for_blocks));
        let blocks_now = blocks.min(both - rows_now);
        let all = blocks_now + rows_now;
        // Where both have all that they can use there is nothing to learn.
        let is_enough = blocks_now == blocks && rows_now == rows;
        let step = if is_enough { 0 } else { all / STEPS };
        // Nobody loses more than half.
        let of = |now: u64, other: u64, use_: u64| CacheBytes {
            start: now,
            most: use_.min(all - other.div_ceil(2)).max(now),
            step,
        };
        let blocks = of(blocks_now, rows_now, blocks);
        Self {
            blocks,
            rows: of(rows_now, blocks_now, rows),
            step,
            blocks_now,
            noted: [Worth::default(); 2],
        }
    }

    /// Bytes for blocks and for rows.
    pub fn now(&self) -> (u64, u64) {
        (self.blocks_now, self.blocks.start + self.rows.start - self.blocks_now)
    }

    /// Notes what a step is worth, and moves one once that is clear.
    pub fn note(&mut self, blocks: Worth, rows: Worth) {
        for (noted, more) in self.noted.iter_mut().zip([blocks, rows]) {
            noted.signs += more.signs;
            noted.gain += more.gain;
            noted.loss += more.loss;
        }
        if self.noted.iter().map(|worth| worth.signs).sum::<u64>() >= SIGNS {
            let [blocks, rows] = std::mem::take(&mut self.noted);
            self.learn(blocks, rows);
        }
    }

    /// Moves a step to where it saves more than it costs; true if anything moved.
    fn learn(&mut self, blocks: Worth, rows: Worth) -> bool {
        let to_blocks = blocks.gain > rows.loss * MARGIN;
        let to_rows = rows.gain > blocks.loss * MARGIN;
        if to_blocks == to_rows {
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
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn worth(seconds: f64) -> Worth {
        Worth { signs: SIGNS, gain: seconds, loss: seconds }
    }

    #[test]
    fn at_the_start_each_has_its_part_or_what_it_can_use() {
        let start = |blocks, rows| Division::new(64 * MIB, blocks * MIB, rows * MIB).now();
        assert_eq!(start(1_000, 1_000), (16 * MIB, 32 * MIB));
        assert_eq!(start(4, 1_000), (4 * MIB, 44 * MIB));
        assert_eq!(start(1_000, 8), (40 * MIB, 8 * MIB));
        assert_eq!(start(4, 8), (4 * MIB, 8 * MIB));
        assert_eq!(Division::new(64 * MIB, 4 * MIB, 8 * MIB).rows, CacheBytes::fixed(8 * MIB));
    }

    #[test]
    fn memory_moves_to_where_it_saves_more_until_the_other_has_half_of_its_start() {
        for to_blocks in [true, false] {
            let mut division = Division::new(64 * MIB, 1_000 * MIB, 1_000 * MIB);
            let (blocks, rows) = if to_blocks { (2.0, 1.0) } else { (1.0, 2.0) };
            let mut moves = 0;
            while division.learn(worth(blocks), worth(rows)) {
                moves += 1;
                let (blocks, rows) = division.now();
                assert_eq!(blocks + rows, 48 * MIB);
            }
            let expected = if to_blocks { (32 * MIB, 16 * MIB) } else { (8 * MIB, 40 * MIB) };
            assert_eq!(division.now(), expected);
            assert!(moves >= 5, "{moves} moves");
        }
    }

    #[test]
    fn nothing_moves_for_little_from_few_signs_or_where_all_has_room() {
        let mut division = Division::new(64 * MIB, 1_000 * MIB, 1_000 * MIB);
        assert!(!division.learn(worth(1.0), worth(1.1)));
        assert!(!division.learn(worth(0.0), worth(0.0)));
        // What one has it needs, however much the other would gain.
        let (needs, gains) = (Worth { gain: 0.0, loss: 9.0, signs: 1 }, worth(5.0));
        assert!(!division.learn(needs, gains) && !division.learn(gains, needs));
        let before = division.now();
        let few = Worth { signs: SIGNS / 4, gain: 1.0, loss: 1.0 };
        (0..3).for_each(|_| division.note(few, Worth::default()));
        assert_eq!(division.now(), before);
        division.note(few, Worth::default());
        assert!(division.now().0 > before.0);
    }

    #[test]
    fn nobody_gets_more_than_it_can_use() {
        let mut division = Division::new(64 * MIB, 18 * MIB, 1_000 * MIB);
        while division.learn(worth(2.0), worth(1.0)) {}
        assert_eq!(division.now().0, 18 * MIB);
        assert_eq!((division.blocks.most, division.rows.most), (18 * MIB, 40 * MIB));
    }
}
