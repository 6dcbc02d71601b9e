//! Accounting. Every read of the engine passes [`crate::Reader`] and every write in place passes
//! [`crate::Writer`], so every one is counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Counters of one [`crate::Reader`] and all its clones.
#[derive(Debug, Default)]
pub struct IoStats {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    useful_bytes: AtomicU64,
    retries: AtomicU64,
    depth_sum: AtomicU64,
    scratch_write_bytes: AtomicU64,
    busy: Mutex<Busy>,
}

/// When the device had something to do.
#[derive(Debug, Default)]
struct Busy {
    /// Calls of [`crate::Reader::read`] that have a read in flight.
    sessions: u64,
    /// Since when there are any.
    since: Option<Instant>,
    before: Duration,
}

impl Busy {
    fn until_now(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Completed device requests, retried ones included.
    pub reads: u64,
    /// Bytes that arrived.
    pub read_bytes: u64,
    /// Bytes of them that a caller took.
    pub useful_bytes: u64,
    /// Requests that were made again after a short answer, EINTR or EAGAIN.
    pub retries: u64,
    /// The sum over completions of the reads in flight at that moment.
    pub depth_sum: u64,
    /// Microseconds in which at least one read was in flight.
    pub busy_us: u64,
    /// Bytes written to temporary files.
    pub scratch_write_bytes: u64,
}

impl IoCounts {
    /// Reads in flight, averaged over completions; 0 if there were none.
    pub fn mean_depth(&self) -> f64 {
        if self.reads == 0 { 0.0 } else { self.depth_sum as f64 / self.reads as f64 }
    }

    /// What happened after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            useful_bytes: self.useful_bytes.saturating_sub(earlier.useful_bytes),
            retries: self.retries.saturating_sub(earlier.retries),
            depth_sum: self.depth_sum.saturating_sub(earlier.depth_sum),
            busy_us: self.busy_us.saturating_sub(earlier.busy_us),
            scratch_write_bytes: self
                .scratch_write_bytes
                .saturating_sub(earlier.scratch_write_bytes),
        }
    }
}

impl IoStats {
    /// The counters now.
    pub fn counts(&self) -> IoCounts {
        IoCounts {
            reads: self.reads.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            useful_bytes: self.useful_bytes.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            depth_sum: self.depth_sum.load(Ordering::Relaxed),
            busy_us: self.busy().until_now().as_micros() as u64,
            scratch_write_bytes: self.scratch_write_bytes.load(Ordering::Relaxed),
        }
    }

    /// Says that a caller took `bytes` from what was read.
    pub fn add_useful(&self, bytes: u64) {
        self.useful_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds what one call of [`crate::Reader::read`] did, or what was counted elsewhere.
    pub fn add(&self, counts: &IoCounts) {
        self.reads.fetch_add(counts.reads, Ordering::Relaxed);
        self.read_bytes.fetch_add(counts.read_bytes, Ordering::Relaxed);
        self.useful_bytes.fetch_add(counts.useful_bytes, Ordering::Relaxed);
        self.retries.fetch_add(counts.retries, Ordering::Relaxed);
        self.depth_sum.fetch_add(counts.depth_sum, Ordering::Relaxed);
        self.scratch_write_bytes.fetch_add(counts.scratch_write_bytes, Ordering::Relaxed);
        if counts.busy_us > 0 {
            self.busy().before += Duration::from_micros(counts.busy_us);
        }
    }

    /// A call of [`crate::Reader::read`] has its first read in flight.
    pub(crate) fn begin_busy(&self) {
        let mut busy = self.busy();
        busy.sessions += 1;
        busy.since.get_or_insert_with(Instant::now);
    }

    /// It has none any more.
    pub(crate) fn end_busy(&self) {
        let mut busy = self.busy();
        busy.sessions = busy.sessions.saturating_sub(1);
        if busy.sessions == 0 {
            busy.before = busy.until_now();
            busy.since = None;
        }
    }

    fn busy(&self) -> MutexGuard<'_, Busy> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counters that one or more [`crate::Writer`]s share.
#[derive(Debug, Default)]
pub struct WriteStats {
    writes: AtomicU64,
    write_bytes: AtomicU64,
    syncs: AtomicU64,
    sync_us: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Pieces that were written whole.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Syncs of files, failed ones included.
    pub syncs: u64,
    /// Microseconds inside them.
    pub sync_us: u64,
}

impl WriteStats {
    /// The counters now.
    pub fn counts(&self) -> WriteCounts {
        WriteCounts {
            writes: self.writes.load(Ordering::Relaxed),
            write_bytes: self.write_bytes.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
            sync_us: self.sync_us.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn add_write(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.write_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_sync(&self, took: Duration) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_differences_are_taken_per_counter() {
        let stats = IoStats::default();
        stats.add(&IoCounts { reads: 4, read_bytes: 400, depth_sum: 10, ..IoCounts::default() });
        let before = stats.counts();
        stats.add_useful(7);
        stats.add(&IoCounts { reads: 1, retries: 1, ..IoCounts::default() });
        let after = stats.counts().since(&before);
        assert_eq!((after.reads, after.useful_bytes, after.retries), (1, 7, 1));
        assert!((before.mean_depth() - 2.5).abs() < 1e-9);
    }
}
