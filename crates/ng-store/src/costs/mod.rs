//! What reads cost on the disk that a store is on.
//!
//! Two rates are measured on a long file of the store, and kept for other processes and later days
//! (`kept.rs`). What must not live here: what is read, and when.

pub(crate) mod kept;

use crate::error::ReadError;
use crate::io::{BLOCK_BYTES, Gauge, READ_BYTES_MAX, Reader};
use crate::page::Placed;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Random reads of a pass of a measurement: some tens of milliseconds on an SSD.
const RANDOM_READS: u64 = 4096;

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
        let Some(file) = gauge(reader, segment) else { return Ok(None) };
        let reads_per_s = file.random(BLOCK, RANDOM_READS, usize::MAX)?;
        let longest = READ_BYTES_MAX as u64;
        let bytes_per_s = file.sequential(longest)? * longest as f64;
        Ok(Some(Self { reads_per_s, bytes_per_s }))
    }
}

/// Rates of requests of 4 KiB, 8 KiB, ... up to the longest that the engine makes.
pub(crate) fn curve(reader: &Reader, segment: &Placed) -> Result<Vec<RequestRate>, ReadError> {
    let Some(file) = gauge(reader, segment) else { return Ok(Vec::new()) };
    let lengths = (0..).map(|power| BLOCK << power);
    let rates = lengths.take_while(|bytes| *bytes <= READ_BYTES_MAX as u64).map(|bytes| {
        let random_per_s = file.random(bytes, 2 * RANDOM_READS, usize::MAX)?;
        Ok(RequestRate { bytes, random_per_s, sequential_per_s: file.sequential(bytes)? })
    });
    rates.collect()
}

/// The length of a segment's file.
pub(crate) fn file_bytes(segment: &Placed) -> u64 {
    segment.meta.physical_pages() * u64::from(segment.meta.page_bytes)
}

/// What measures on a segment's file, if that is long enough.
fn gauge<'a>(reader: &'a Reader, segment: &Placed) -> Option<Gauge<'a>> {
    let gauge = || Gauge::new(reader, segment.data, file_bytes(segment));
    DiskCosts::are_measurable(segment).then(gauge)
}
