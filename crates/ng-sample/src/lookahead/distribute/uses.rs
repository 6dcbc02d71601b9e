//! How many batches of a stretch want each row of a table.

use ng_io::vec_in_huge_pages;

use super::memory::Extent;

/// Marks a row that no batch has wanted.
const NEVER: u16 = u16::MAX;

#[derive(Debug, Default)]
pub(super) struct Uses {
    counts: Vec<u16>,
    /// By row: the last batch that wanted it.
    last: Vec<u16>,
    batches: u16,
    largest: u64,
}

impl Uses {
    /// Bytes for a table of `rows` rows.
    pub fn num_bytes(rows: u64) -> u64 {
        rows * 4
    }

    pub fn new(rows: usize) -> Self {
        let (counts, last) = (vec_in_huge_pages(0, rows), vec_in_huge_pages(NEVER, rows));
        Self { counts, last, batches: 0, largest: 0 }
    }

    /// Counts the rows of the next batch, of which there are fewer than [`NEVER`].
    pub fn count(&mut self, rows: &[u32]) {
        // The number would come round to that of an earlier batch, whose rows would not be counted.
        assert!(self.batches < NEVER, "more batches than numbers of two bytes tell apart");
        let before = self.batches;
        let mut distinct = 0;
        for row in rows {
            let row = *row as usize;
            if self.last[row] != before {
                self.last[row] = before;
                self.counts[row] += 1;
                distinct += 1;
            }
        }
        self.largest = self.largest.max(distinct);
        self.batches += 1;
    }

    /// By row: how many batches want it.
    pub fn counts(&self) -> &[u16] {
        &self.counts
    }

    /// By row: what [`Uses::count`] worked with, empty now.
    pub fn take_last(&mut self) -> Vec<u16> {
        assert_eq!(self.last.len(), self.counts.len(), "it was taken before");
        let mut last = std::mem::take(&mut self.last);
        last.fill(NEVER);
        last
    }

    pub fn extent(&self, width: u64) -> Extent {
        let mut by_count = vec![0; usize::from(self.batches) + 1];
        for count in &self.counts {
            by_count[usize::from(*count)] += 1;
        }
        Extent { rows: self.counts.len() as u64, width, by_count, largest: self.largest }
    }
}
