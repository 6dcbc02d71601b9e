//! What reads cost on the disk that a store is on.
//!
//! Two rates are measured on a long file of the store, and kept for other processes and later days
//! (`kept.rs`). What must not live here: what is read, and when.

pub(crate) mod kept;

use std::cell::Cell;
use std::time::Instant;

use crate::error::ReadError;
use crate::io::{BLOCK_BYTES, READ_BYTES_MAX, ReadOp, Reader};
use crate::pages::Placed;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Random reads of a pass of a measurement: some tens of milliseconds on an SSD.
const RANDOM_READS: u64 = 4096;

/// Bytes of a pass with longer reads.
const LONG_BYTES: u64 = 96 << 20;

/// Passes go on for so long, and the later half counts: what limits a rented volume or a container
/// lets a burst through first.
const STEADY_SECONDS: f64 = 0.25;

/// Files below this are too short to say anything.
const FILE_BYTES_MIN: u64 = 64 << 20;

/// What any disk or memory may do.
const READS_PER_S: std::ops::RangeInclusive<f64> = 1.0..=1e9;
const BYTES_PER_S: std::ops::RangeInclusive<f64> = 1e3..=1e13;

/// Rates of a disk with a full queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskCosts {
    /// Random reads of one 4 KiB block a second.
    pub reads_per_s: f64,
    /// Bytes a second of long reads, one after the other.
    pub bytes_per_s: f64,
}

/// Rates of requests of one length with a full queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestRate {
    /// Their length.
    pub bytes: u64,
    /// How many a second in random places.
    pub random_per_s: f64,
    /// How many a second, one after the other.
    pub sequential_per_s: f64,
}

impl Default for DiskCosts {
    /// A common NVMe SSD.
    fn default() -> Self {
        Self { reads_per_s: 112_000.0, bytes_per_s: 1.17e9 }
    }
}

impl DiskCosts {
    /// These rates, if a disk can have them.
    pub fn possible(reads_per_s: f64, bytes_per_s: f64) -> Option<Self> {
        let is_possible = READS_PER_S.contains(&reads_per_s) && BYTES_PER_S.contains(&bytes_per_s);
        is_possible.then_some(Self { reads_per_s, bytes_per_s })
    }

    /// Seconds of the device for one request.
    pub fn seconds(&self, bytes: u64) -> f64 {
        (1.0 / self.reads_per_s).max(bytes as f64 / self.bytes_per_s)
    }

    /// Blocks between two wanted ones that are cheaper to read than to skip.
    pub fn gap_blocks(&self) -> u32 {
        let bytes = self.bytes_per_s / self.reads_per_s;
        (bytes / BLOCK as f64).clamp(0.0, 63.0) as u32
    }

    /// Whether the file of a segment is long enough to measure on.
    pub(crate) fn are_measurable(segment: &Placed) -> bool {
        file_bytes(segment) >= FILE_BYTES_MIN
    }

    /// Measures the file of a segment; `None` if it is too short.
    pub(crate) fn measure(reader: &Reader, segment: &Placed) -> Result<Option<Self>, ReadError> {
        let Some(file) = Measured::new(reader, segment) else { return Ok(None) };
        let reads_per_s = file.random(BLOCK, RANDOM_READS)?;
        let longest = READ_BYTES_MAX as u64;
        let bytes_per_s = file.sequential(longest)? * longest as f64;
        Ok(Some(Self { reads_per_s, bytes_per_s }))
    }
}

/// Rates of requests of 4 KiB, 8 KiB, ... up to the longest that the engine makes.
pub(crate) fn curve(reader: &Reader, segment: &Placed) -> Result<Vec<RequestRate>, ReadError> {
    let Some(file) = Measured::new(reader, segment) else { return Ok(Vec::new()) };
    let lengths = (0..).map(|power| BLOCK << power);
    let rates = lengths.take_while(|bytes| *bytes <= READ_BYTES_MAX as u64).map(|bytes| {
        let random_per_s = file.random(bytes, 2 * RANDOM_READS)?;
        Ok(RequestRate { bytes, random_per_s, sequential_per_s: file.sequential(bytes)? })
    });
    rates.collect()
}

/// The length of a segment's file.
pub(crate) fn file_bytes(segment: &Placed) -> u64 {
    segment.meta.physical_pages() * u64::from(segment.meta.page_bytes)
}

/// A file that is long enough to measure on.
struct Measured<'a> {
    reader: &'a Reader,
    segment: &'a Placed,
    bytes: u64,
}

impl<'a> Measured<'a> {
    fn new(reader: &'a Reader, segment: &'a Placed) -> Option<Self> {
        let bytes = file_bytes(segment);
        DiskCosts::are_measurable(segment).then_some(Self { reader, segment, bytes })
    }

    /// Requests a second in random places, of at most `most` requests.
    fn random(&self, bytes: u64, most: u64) -> Result<f64, ReadError> {
        let places = (self.bytes - bytes) / BLOCK + 1;
        // A quarter of the blocks, so that few are read twice.
        let count = most.min(places / 4 * BLOCK / bytes).min(LONG_BYTES / bytes);
        self.rate(bytes, count, &|number| {
            // Weyl steps by the golden ratio visit places far apart from each other.
            let place = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            ((u128::from(place) * u128::from(places)) >> 64) as u64 * BLOCK
        })
    }

    /// Requests a second, one after the other from the front of the file, and again.
    fn sequential(&self, bytes: u64) -> Result<f64, ReadError> {
        let count = (LONG_BYTES.min(self.bytes) / bytes).max(1);
        self.rate(bytes, count, &|number| number % (self.bytes / bytes) * bytes)
    }

    /// Passes of `count` requests each.
    fn rate(&self, bytes: u64, count: u64, offset: &dyn Fn(u64) -> u64) -> Result<f64, ReadError> {
        let start = Instant::now();
        let mut ends: Vec<f64> = Vec::new();
        while ends.last().is_none_or(|end| *end < STEADY_SECONDS) {
            self.pass(bytes, ends.len() as u64 * count, count, offset)?;
            ends.push(start.elapsed().as_secs_f64());
        }
        Ok(count as f64 * later_passes_per_s(&ends))
    }

    /// Requests from `first` on, all in one queue.
    fn pass(
        &self,
        bytes: u64,
        first: u64,
        count: u64,
        offset: &dyn Fn(u64) -> u64,
    ) -> Result<(), ReadError> {
        let (at, failure) = (Cell::new(first), Cell::new(None));
        let (file, len) = (self.segment.data, bytes as u32);
        let mut next = || {
            let number = at.get();
            at.set(number + 1);
            (number < first + count).then(|| ReadOp { tag: 0, file, offset: offset(number), len })
        };
        self.reader.read(&mut next, &mut |_, result| {
            if let Err(error) = result {
                failure.set(Some(error));
            }
        })?;
        failure.take().map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The rate of the passes that began in the later half of the time, from when each ended; of the
/// only one, if there is one.
fn later_passes_per_s(ends: &[f64]) -> f64 {
    let last = ends.last().copied().unwrap_or(f64::INFINITY);
    let early = ends.iter().take_while(|end| **end < last / 2.0).count();
    match ends.get(early).filter(|_| early + 1 < ends.len()) {
        Some(begin) => (ends.len() - 1 - early) as f64 / (last - begin),
        None => ends.len() as f64 / last,
    }
}

#[cfg(test)]
mod tests {
    use super::later_passes_per_s;

    #[test]
    fn a_burst_at_the_start_does_not_count() {
        let close = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9);
        close(later_passes_per_s(&[0.5]), 2.0);
        close(later_passes_per_s(&[0.1, 0.2, 0.3, 0.4]), 10.0);
        // Five quick passes, then four of a tenth of a second.
        close(later_passes_per_s(&[0.01, 0.02, 0.03, 0.04, 0.05, 0.15, 0.25, 0.35, 0.45]), 10.0);
        // Only the last one began late enough.
        close(later_passes_per_s(&[0.02, 0.3]), 2.0 / 0.3);
    }
}
