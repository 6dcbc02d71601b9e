//! What reads cost on the disk that a store is on, measured once for an open store.

use std::cell::Cell;
use std::time::Instant;

use crate::error::ReadError;
use crate::io::{BLOCK_BYTES, READ_BYTES_MAX, ReadOp, Reader};
use crate::pages::Placed;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Random reads of a measurement: some tens of milliseconds on an SSD.
const RANDOM_READS: u64 = 4096;

/// Bytes of the sequential part.
const SEQUENTIAL_BYTES: u64 = 96 << 20;

/// Files below this are too short to say anything.
const FILE_BYTES_MIN: u64 = 64 << 20;

/// Rates of a disk with a full queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskCosts {
    /// Random reads of one 4 KiB block a second.
    pub reads_per_s: f64,
    /// Bytes a second of long reads, one after the other.
    pub bytes_per_s: f64,
}

impl Default for DiskCosts {
    /// A common NVMe SSD.
    fn default() -> Self {
        Self { reads_per_s: 112_000.0, bytes_per_s: 1.17e9 }
    }
}

impl DiskCosts {
    /// Seconds of the device for one request.
    pub fn seconds(&self, bytes: u64) -> f64 {
        (1.0 / self.reads_per_s).max(bytes as f64 / self.bytes_per_s)
    }

    /// Blocks between two wanted ones that are cheaper to read than to skip.
    pub fn gap_blocks(&self) -> u32 {
        let bytes = self.bytes_per_s / self.reads_per_s;
        (bytes / BLOCK as f64).clamp(0.0, 63.0) as u32
    }

    /// Measures the file of a segment, if it is long enough.
    pub(crate) fn measure(reader: &Reader, segment: &Placed) -> Result<Self, ReadError> {
        let bytes = segment.meta.physical_pages() * u64::from(segment.meta.page_bytes);
        if bytes < FILE_BYTES_MIN {
            return Ok(Self::default());
        }
        let blocks = bytes / BLOCK;
        let random = |number: u64| {
            // Weyl steps by the golden ratio visit places far apart from each other.
            let place = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            ((u128::from(place) * u128::from(blocks)) >> 64) as u64
        };
        let block = BLOCK_BYTES as u32;
        let read = |count: u64, len: u32, place: &dyn Fn(u64) -> u64| -> Result<f64, ReadError> {
            let (at, failure) = (Cell::new(0), Cell::new(None));
            let start = Instant::now();
            let mut next = || {
                let number = at.get();
                at.set(number + 1);
                let op = ReadOp { tag: 0, file: segment.data, offset: place(number) * BLOCK, len };
                (number < count).then_some(op)
            };
            reader.read(&mut next, &mut |_, result| {
                if let Err(error) = result {
                    failure.set(Some(error));
                }
            })?;
            let seconds = start.elapsed().as_secs_f64();
            failure.take().map_or(Ok(seconds), |error| Err(error.into()))
        };
        let reads = RANDOM_READS.min(blocks / 4);
        let seconds = read(reads, block, &random)?;
        let reads_per_s = reads as f64 / seconds;
        let count = SEQUENTIAL_BYTES.min(bytes) / READ_BYTES_MAX as u64;
        let in_a_read = READ_BYTES_MAX as u64 / BLOCK;
        let seconds = read(count, READ_BYTES_MAX as u32, &|number| number * in_a_read)?;
        let bytes_per_s = (count * READ_BYTES_MAX as u64) as f64 / seconds;
        Ok(Self { reads_per_s, bytes_per_s })
    }
}
