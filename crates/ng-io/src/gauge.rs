//! [`Gauge`]: what requests cost on the disk of a file, measured by making them.
//!
//! What must not live here: what the figures are used for. Blocks are read and thrown away.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::disk::{BLOCK_BYTES, FileId, ReadOp};
use crate::error::ReadError;
use crate::reader::Reader;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Bytes of a pass with longer reads.
const LONG_BYTES: u64 = 96 << 20;

/// Passes go on for so long, and the later half counts: what limits a rented volume or a container
/// lets a burst through first.
const STEADY_SECONDS: f64 = 0.25;

/// Measures on one file.
#[derive(Clone, Copy)]
pub struct Gauge<'a> {
    reader: &'a Reader,
    file: FileId,
    bytes: u64,
}

/// Reads of which some bring forth others.
#[derive(Clone, Copy, Debug)]
pub struct DependentReads<'a> {
    /// The offset of each read in blocks. Offsets beyond the end of the file wrap around to its
    /// start.
    pub blocks: &'a [u64],
    /// The first read that each brings forth; those of one lie side by side. One more than reads.
    pub children: &'a [u32],
    /// Reads that nothing brings forth; they come first.
    pub roots: u32,
}

impl<'a> Gauge<'a> {
    /// On a file of `bytes`.
    pub fn new(reader: &'a Reader, file: FileId, bytes: u64) -> Self {
        Self { reader, file, bytes }
    }

    /// Requests of `bytes` a second in random places, at most `depth` of them at a time, in passes
    /// of at most `most` requests.
    ///
    /// # Errors
    /// A read that failed.
    pub fn random(&self, bytes: u64, most: u64, depth: usize) -> Result<f64, ReadError> {
        let places = (self.bytes - bytes) / BLOCK + 1;
        // A quarter of the blocks, so that few are read twice.
        let count = most.min(places / 4 * BLOCK / bytes).min(LONG_BYTES / bytes).max(1);
        self.rate(bytes, count, depth, &|number| {
            // Weyl steps by the golden ratio visit places far apart from each other.
            let place = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            ((u128::from(place) * u128::from(places)) >> 64) as u64 * BLOCK
        })
    }

    /// Requests of `bytes` a second, one after the other from the front of the file, and again.
    ///
    /// # Errors
    /// A read that failed.
    pub fn sequential(&self, bytes: u64) -> Result<f64, ReadError> {
        let count = (LONG_BYTES.min(self.bytes) / bytes).max(1);
        self.rate(bytes, count, usize::MAX, &|number| number % (self.bytes / bytes).max(1) * bytes)
    }

    /// Reads one block for each of `reads`, each as soon as the one that brings it forth has come
    /// and less than `depth` are under way; how long that takes.
    ///
    /// # Errors
    /// A read that failed.
    pub fn replay(&self, reads: &DependentReads<'_>, depth: usize) -> Result<Duration, ReadError> {
        let blocks = (self.bytes / BLOCK).max(1);
        let waiting: RefCell<VecDeque<u32>> = RefCell::new((0..reads.roots).collect());
        let start = Instant::now();
        self.read(
            depth,
            &|| {
                let read = waiting.borrow_mut().pop_front()?;
                let offset = reads.blocks.get(read as usize)? % blocks * BLOCK;
                Some((u64::from(read), offset, BLOCK))
            },
            &|read| {
                let first = read as usize;
                if let Some(&[from, to]) = reads.children.get(first..first + 2) {
                    waiting.borrow_mut().extend(from..to);
                }
            },
        )?;
        Ok(start.elapsed())
    }

    /// Time of the processor for each random read of a block, with a full queue.
    ///
    /// # Errors
    /// A read that failed.
    pub fn cpu_of_read(&self, reads: u64) -> Result<Duration, ReadError> {
        let before = thread_time();
        let counted = self.reader.stats().counts().reads;
        self.random(BLOCK, reads, usize::MAX)?;
        let counted = self.reader.stats().counts().reads - counted;
        Ok(thread_time().saturating_sub(before) / (counted as u32).max(1))
    }

    /// Passes of `count` requests each.
    fn rate(
        &self,
        bytes: u64,
        count: u64,
        depth: usize,
        offset: &dyn Fn(u64) -> u64,
    ) -> Result<f64, ReadError> {
        let start = Instant::now();
        let mut ends: Vec<f64> = Vec::new();
        while ends.last().is_none_or(|end| *end < STEADY_SECONDS) {
            let first = ends.len() as u64 * count;
            let number = Cell::new(first);
            let next = || {
                let now = number.replace(number.get() + 1);
                (now < first + count).then(|| (now, offset(now), bytes))
            };
            self.read(depth, &next, &|_| ())?;
            ends.push(start.elapsed().as_secs_f64());
        }
        Ok(count as f64 * later_passes_per_s(&ends))
    }

    /// Makes the reads (number, offset, bytes) that `next` gives until there is none and none is
    /// under way; `came` hears of each.
    fn read(
        &self,
        depth: usize,
        next: &dyn Fn() -> Option<(u64, u64, u64)>,
        came: &dyn Fn(u64),
    ) -> Result<(), ReadError> {
        let (flying, failure) = (Cell::new(0), Cell::new(None));
        let mut admit = || {
            if flying.get() >= depth {
                return None;
            }
            let (tag, offset, bytes) = next()?;
            flying.set(flying.get() + 1);
            Some(ReadOp { tag, file: self.file, offset, len: bytes as u32 })
        };
        self.reader.read(&mut admit, &mut |op, result| {
            flying.set(flying.get() - 1);
            match result {
                Ok(_) => came(op.tag),
                Err(error) => failure.set(Some(error)),
            }
        })?;
        failure.take().map_or(Ok(()), Err)
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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
    use super::*;
    use crate::{BackendChoice, OpenOptions, open_dir};

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

    #[test]
    fn dependent_reads_are_all_made_within_the_depth_and_the_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.dat"), vec![7; 64 * BLOCK_BYTES]).unwrap();
        let opened = open_dir(dir.path(), BackendChoice::Auto, &OpenOptions::default()).unwrap();
        let reader = Reader::new(opened.disk);
        let file = reader.open("a.dat").unwrap();
        let gauge = Gauge::new(&reader, file, 64 * BLOCK);
        // Two roots; the first brings forth 2 to 5, of which the last brings forth 6.
        let blocks = [0, 63, 64, 1_000, 5, 6, 7];
        let reads =
            DependentReads { blocks: &blocks, children: &[2, 6, 6, 6, 6, 6, 7, 7], roots: 2 };
        for depth in [1, 3, usize::MAX] {
            let before = reader.stats().counts();
            gauge.replay(&reads, depth).unwrap();
            let made = reader.stats().counts();
            assert_eq!(made.reads - before.reads, 7);
            let mean = (made.depth_sum - before.depth_sum) as f64 / 7.0;
            assert!(mean <= depth.min(7) as f64, "{mean} of {depth}");
        }
        assert!(gauge.random(BLOCK, 64, 4).unwrap() > 0.0);
        assert!(gauge.sequential(4 * BLOCK).unwrap() > 0.0);
    }
}
