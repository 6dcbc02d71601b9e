//! What the first sampled batches tell about those to come: how many distinct rows k batches in a
//! row want, how soon a row is wanted again, which rows nearly every batch wants.
//!
//! Everything is counted on the first batches, which are sampled anyway, and drawn out from there
//! for windows that are longer. The costs are sums over requests of max(1 / reads a second,
//! bytes / bytes a second).

use ng_io::{BLOCK_BYTES, vec_in_huge_pages};
use ng_store::{DiskCosts, TensorRef};

use super::distribute::Extent;
use super::pieces::Sampled;

/// Longest request.
const REQUEST_BYTES_MAX: u64 = 256 << 10;

/// Batches that a study looks at, at most.
pub(crate) const BATCHES_MAX: usize = 128;

const NEVER: u8 = u8::MAX;

/// One tensor's part of a study.
pub(crate) struct TableStudy {
    pub tensor: TensorRef,
    pub rows: u64,
    pub width: u64,
    /// By row: the first batch that has it.
    first: Vec<u8>,
    /// By row: how many batches have it.
    count: Vec<u8>,
    /// By row: the last batch that has it.
    last: Vec<u8>,
    /// Rows by (count, first).
    both: Vec<[u32; BATCHES_MAX]>,
    /// Pairs of uses of a row with so many batches between.
    gaps: Vec<u64>,
    batches: usize,
    wanted: u64,
}

impl TableStudy {
    /// Bytes for a table of `rows` rows.
    pub fn num_bytes(rows: u64) -> u64 {
        3 * rows + (BATCHES_MAX * BATCHES_MAX * 4) as u64
    }

    /// A study without batches.
    pub fn new(tensor: TensorRef, rows: u64, width: u64) -> Self {
        let of_rows = |value| vec_in_huge_pages(value, rows as usize);
        Self {
            tensor,
            rows,
            width,
            first: of_rows(NEVER),
            count: of_rows(0),
            last: of_rows(NEVER),
            both: vec![[0; BATCHES_MAX]; BATCHES_MAX],
            gaps: vec![0; BATCHES_MAX + 1],
            batches: 0,
            wanted: 0,
        }
    }

    /// Counts the rows of the next batch. Batches beyond the first [`BATCHES_MAX`] - 1 are ignored:
    /// their numbers have one byte.
    pub fn add(&mut self, sampled: &Sampled) {
        if self.batches == BATCHES_MAX - 1 {
            return;
        }
        let index = self.batches as u8;
        for row in sampled.rows(self.tensor.owner).iter() {
            let row = *row as usize;
            let (first, count) = (&mut self.first[row], &mut self.count[row]);
            if self.last[row] == index {
                continue;
            }
            if self.last[row] == NEVER {
                *first = index;
            } else {
                self.gaps[usize::from(index - self.last[row])] += 1;
                self.both[usize::from(*count)][usize::from(*first)] -= 1;
            }
            *count += 1;
            self.both[usize::from(*count)][usize::from(*first)] += 1;
            self.last[row] = index;
            self.wanted += 1;
        }
        self.batches += 1;
    }

    /// Batches that were counted.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// Rows a batch wants on average.
    pub fn rows_per_batch(&self) -> u64 {
        self.wanted.div_ceil(self.batches.max(1) as u64)
    }

    /// How many rows so many batches want.
    pub fn extent(&self) -> Extent {
        let by_count = self.both.iter().take(self.batches + 1);
        let by_count = by_count.map(|by_first| by_first.iter().map(|rows| u64::from(*rows)).sum());
        let by_count = by_count.collect();
        let largest = self.rows_per_batch();
        Extent { rows: self.rows, width: self.width, by_count, largest }
    }

    /// Distinct rows that 1, 2, ... `window` batches in a row have.
    ///
    /// Beyond what was looked at, each batch adds as many as one of the last quarter did. Batches
    /// add ever fewer, so these are too many rather than too few.
    fn distinct(&self, window: usize) -> Vec<u64> {
        let mut added = vec![0; self.batches];
        for by_first in &self.both {
            for (sum, rows) in added.iter_mut().zip(by_first) {
                *sum += u64::from(*rows);
            }
        }
        let last = &added[self.batches - self.batches.div_ceil(4)..];
        let beyond = last.iter().sum::<u64>().div_ceil(last.len().max(1) as u64);
        added.resize(window, beyond);
        let mut total = 0;
        for sum in &mut added {
            total = self.rows.min(total + *sum);
            *sum = total;
        }
        added
    }

    /// Slots that a rotating scan over `window` batches needs, with `lag` slices that were read and
    /// not used yet.
    pub fn scan_slots(&self, window: usize, lag: u64) -> u64 {
        let distinct = self.distinct(window);
        let sum: u64 = distinct.iter().sum();
        let window = window.max(1) as u64;
        let slice = distinct.last().map_or(0, |all| all / window);
        sum / window + (lag + 1) * slice
    }

    /// Seconds of the device a batch for a rotating scan, and its requests and bytes. A window
    /// that is longer than what was looked at is taken to read the whole file.
    pub fn scan_cost(&self, window: usize, costs: &DiskCosts) -> Cost {
        let gap = u64::from(costs.gap_blocks());
        let block = BLOCK_BYTES as u64;
        let mut requests = Requests { costs: *costs, open: None, total: Cost::default() };
        for (row, first) in self.first.iter().enumerate() {
            if usize::from(*first) < window || window > self.batches {
                let start = row as u64 * self.width;
                requests.add(start / block, (start + self.width).div_ceil(block), gap);
            }
        }
        requests.finish().divided_by(window.max(1) as f64)
    }

    /// Rows a batch that a window with best replacement misses with `slots` rows in memory.
    pub fn window_misses(&self, slots: u64) -> f64 {
        let per_batch = self.rows_per_batch() as f64;
        let mut held = per_batch;
        let mut misses = per_batch;
        for (gap, pairs) in self.gaps.iter().enumerate().skip(1).take(self.batches / 2) {
            let rate = *pairs as f64 / (self.batches - gap) as f64;
            held += rate * gap as f64;
            if held > slots as f64 {
                break;
            }
            misses -= rate;
        }
        misses.max(0.0)
    }

    /// Seconds of the device a batch for `misses` random rows.
    pub fn window_cost(&self, misses: f64, costs: &DiskCosts) -> Cost {
        let bytes = self.width.div_ceil(BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
        let each = costs.seconds(bytes);
        Cost { seconds: misses * each, reads: misses, bytes: misses * bytes as f64 }
    }
}

/// What a batch costs the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Summed over requests: the longer of the time of a request and that of its bytes.
    pub seconds: f64,
    /// Requests.
    pub reads: f64,
    /// Bytes.
    pub bytes: f64,
}

impl Cost {
    fn divided_by(self, by: f64) -> Self {
        Self { seconds: self.seconds / by, reads: self.reads / by, bytes: self.bytes / by }
    }

    /// Both costs.
    pub fn plus(self, other: Self) -> Self {
        Self {
            seconds: self.seconds + other.seconds,
            reads: self.reads + other.reads,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Requests over ascending blocks, as a plan would cut them.
struct Requests {
    costs: DiskCosts,
    open: Option<(u64, u64)>,
    total: Cost,
}

impl Requests {
    fn add(&mut self, start: u64, end: u64, gap: u64) {
        if let Some((from, to)) = &mut self.open {
            let longest = REQUEST_BYTES_MAX / BLOCK_BYTES as u64;
            if start <= *to + gap && end - *from <= longest {
                *to = end.max(*to);
                return;
            }
        }
        self.close();
        self.open = Some((start, end));
    }

    fn close(&mut self) {
        if let Some((from, to)) = self.open.take() {
            let bytes = (to - from) * BLOCK_BYTES as u64;
            let seconds = self.costs.seconds(bytes);
            self.total = self.total.plus(Cost { seconds, reads: 1.0, bytes: bytes as f64 });
        }
    }

    fn finish(mut self) -> Cost {
        self.close();
        self.total
    }
}
