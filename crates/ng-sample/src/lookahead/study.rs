//! What the first sampled batches tell about those to come: how many distinct rows k batches in a
//! row want, how soon a row is wanted again, which rows nearly every batch wants.
//!
//! Everything is counted on the first batches, which are sampled anyway, and drawn out from there
//! for windows that are longer. The costs are sums over requests of max(1 / reads a second,
//! bytes / bytes a second).

use ng_io::BLOCK_BYTES;
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
    /// By row: the first batch that wants it.
    first: Vec<u8>,
    /// By row: how many batches want it.
    count: Vec<u8>,
    /// Rows by (count, first).
    both: Vec<[u32; BATCHES_MAX]>,
    /// Pairs of uses of a row with so many batches between.
    gaps: Vec<u64>,
    batches: usize,
    wanted: u64,
}

impl TableStudy {
    /// Looks at `batches`.
    pub fn new(tensor: TensorRef, rows: u64, width: u64, batches: &[Sampled]) -> Self {
        let mut first = vec![NEVER; rows as usize];
        let mut count = vec![0_u8; rows as usize];
        let mut last = vec![NEVER; rows as usize];
        let mut gaps = vec![0; BATCHES_MAX + 1];
        let mut wanted = 0;
        let batches = &batches[..batches.len().min(BATCHES_MAX - 1)];
        for (index, sampled) in batches.iter().enumerate() {
            for row in sampled.rows(tensor.owner).iter() {
                let row = *row as usize;
                if last[row] == index as u8 {
                    continue;
                }
                if last[row] != NEVER {
                    gaps[index - usize::from(last[row])] += 1;
                }
                last[row] = index as u8;
                first[row] = first[row].min(index as u8);
                count[row] += 1;
                wanted += 1;
            }
        }
        let mut both = vec![[0; BATCHES_MAX]; BATCHES_MAX];
        for (count, first) in count.iter().zip(&first).filter(|(count, _)| **count > 0) {
            both[usize::from(*count)][usize::from(*first)] += 1;
        }
        let batches = batches.len();
        Self { tensor, rows, width, first, count, both, gaps, batches, wanted }
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

    /// Rows that more than `common` of the batches want, and nothing else about them.
    pub fn num_hot(&self, common: usize) -> u64 {
        self.both.iter().skip(common).flatten().map(|rows| u64::from(*rows)).sum()
    }

    /// These rows, ascending.
    pub fn hot(&self, common: usize) -> Vec<u32> {
        let rows = self.count.iter().enumerate();
        let hot = rows.filter(|(_, count)| usize::from(**count) >= common.max(1));
        hot.map(|(row, _)| row as u32).collect()
    }

    /// Distinct rows below `common` that 1, 2, ... `window` batches in a row want.
    ///
    /// Beyond what was looked at, each batch adds as many as one of the last quarter did. Batches
    /// add ever fewer, so these are too many rather than too few.
    fn distinct(&self, common: usize, window: usize) -> Vec<u64> {
        let mut added = vec![0; self.batches];
        for by_first in self.both.iter().take(common) {
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

    /// Slots that a rotating scan over `window` batches needs beside the hot rows, with `lag`
    /// slices that were read and not used yet.
    pub fn scan_slots(&self, common: usize, window: usize, lag: u64) -> u64 {
        let distinct = self.distinct(common, window);
        let sum: u64 = distinct.iter().sum();
        let window = window.max(1) as u64;
        let slice = distinct.last().map_or(0, |all| all / window);
        sum / window + (lag + 1) * slice
    }

    /// Seconds of the device a batch for a rotating scan, and its requests and bytes. A window
    /// that is longer than what was looked at is taken to read the whole file.
    pub fn scan_cost(&self, common: usize, window: usize, costs: &DiskCosts) -> Cost {
        let gap = u64::from(costs.gap_blocks());
        let block = BLOCK_BYTES as u64;
        let mut requests = Requests { costs: *costs, open: None, total: Cost::default() };
        for (row, (first, count)) in self.first.iter().zip(&self.count).enumerate() {
            let wanted = usize::from(*first) < window && usize::from(*count) < common;
            if wanted || window > self.batches {
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
