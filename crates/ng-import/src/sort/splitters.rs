//! Partition boundaries, chosen from a sample so that partitions get about equal shares however
//! skewed the degrees are: a hub's list may be split over several partitions, and a value that
//! fills more than a share gets a partition of its own, which needs no sorting.

use super::record::Record;

const TABLE_BITS: u32 = 12;
/// Marks a slice that a boundary runs through. Partitions are far fewer.
const SPLIT: u16 = 1 << 15;

/// `bounds[i]` is the smallest record of partition `i + 1`.
#[derive(Debug)]
pub(super) struct Splitters<R> {
    bounds: Vec<R>,
    base: u64,
    shift: u32,
    /// For each slice of prefixes, the first partition it can belong to, and [`SPLIT`] where there
    /// is another one.
    table: Vec<u16>,
}

impl<R: Record> Splitters<R> {
    /// Boundaries of at most `parts` partitions with equal shares of `sample`.
    pub(super) fn from_sample(mut sample: Vec<R>, parts: usize) -> Self {
        sample.sort_unstable();
        let mut bounds: Vec<R> = Vec::with_capacity(parts);
        for part in 1..parts {
            let Some(bound) = sample.get(part * sample.len() / parts) else {
                break;
            };
            if bounds.last().is_some_and(|last| last >= bound) {
                let after = bound.successor().filter(|after| bounds.last() < Some(after));
                bounds.extend(after);
            } else {
                bounds.push(*bound);
            }
        }
        Self::new(bounds)
    }

    fn new(bounds: Vec<R>) -> Self {
        let base = bounds.first().map_or(0, Record::prefix);
        let span = bounds.last().map_or(0, |last| last.prefix() - base);
        let shift = (u64::BITS - span.leading_zeros()).saturating_sub(TABLE_BITS);
        let slices = (span >> shift) as usize + 1;
        let first = |slice: usize| {
            let from = base + ((slice as u64) << shift);
            bounds.partition_point(|bound| bound.prefix() < from) as u16
        };
        let mut starts: Vec<u16> = (0..slices).map(first).collect();
        starts.push(bounds.len() as u16);
        let entry = |pair: &[u16]| {
            if pair[0] == pair[1] { pair[0] } else { pair[0] | SPLIT }
        };
        let table = starts.windows(2).map(entry).collect();
        Self { bounds, base, shift, table }
    }

    /// How many partitions there are.
    pub(super) fn parts(&self) -> usize {
        self.bounds.len() + 1
    }

    /// The partition of a record.
    #[inline]
    pub(super) fn part_of(&self, record: &R) -> usize {
        let Some(above) = record.prefix().checked_sub(self.base) else {
            return 0;
        };
        let slice = (above >> self.shift) as usize;
        let Some(entry) = self.table.get(slice) else {
            return self.bounds.len();
        };
        if entry & SPLIT == 0 {
            return usize::from(*entry);
        }
        let low = usize::from(entry & !SPLIT);
        let next = self.table.get(slice + 1);
        let high = next.map_or(self.bounds.len(), |next| usize::from(next & !SPLIT));
        low + self.bounds[low..high].partition_point(|bound| bound <= record)
    }

    /// Whether partition `part` can hold one value only.
    pub(super) fn is_single(&self, part: usize) -> bool {
        let low = part.checked_sub(1).and_then(|i| self.bounds.get(i));
        let high = self.bounds.get(part);
        low.is_some_and(|low| low.successor().as_ref() == high && high.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_falls_between_the_bounds_of_its_partition() {
        let sample: Vec<u64> = (0..5_000_u64).map(|i| ((i * i) << 20) | (i % 7)).collect();
        let splitters = Splitters::from_sample(sample.clone(), 64);
        for record in sample.iter().copied().chain([0, u64::MAX, 1 << 50]) {
            let part = splitters.part_of(&record);
            assert!(part == 0 || splitters.bounds[part - 1] <= record);
            assert!(splitters.bounds.get(part).is_none_or(|bound| record < *bound));
        }
    }

    #[test]
    fn a_value_that_fills_many_shares_gets_a_partition_of_its_own() {
        let mut sample = vec![77_u64; 1_000];
        sample.extend(0..50);
        let splitters = Splitters::from_sample(sample, 16);
        let part = splitters.part_of(&77);
        assert!(splitters.is_single(part));
        assert!(splitters.part_of(&76) < part && splitters.part_of(&78) > part);
    }

    #[test]
    fn an_empty_sample_gives_one_partition() {
        let splitters = Splitters::<u64>::from_sample(Vec::new(), 16);
        assert_eq!((splitters.parts(), splitters.part_of(&5)), (1, 0));
        assert!(!splitters.is_single(0));
    }
}
