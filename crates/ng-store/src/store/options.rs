//! How a store is opened, and what it counts.

use std::time::Duration;

use ng_io::BackendChoice;
use ng_types::MemoryUser;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Memory budget in bytes; `None` is a quarter of the cgroup limit or of RAM.
    pub memory: Option<u64>,
    /// How files are read. With [`BackendChoice::Memory`], all topologies and dense tensors are
    /// read once, in the background, and stay in memory; opening fails with
    /// [`OpenError::BudgetTooSmall`] if they do not fit. The budget is then their size plus a share
    /// of the machine's memory, unless `memory` is given.
    ///
    /// [`OpenError::BudgetTooSmall`]: crate::OpenError::BudgetTooSmall
    pub backend: BackendChoice,
    /// Most reads in flight for each reading thread.
    pub queue_depth: usize,
    /// Threads that will read at the same time; their staging memory is set aside at once, as long
    /// as it stays below a quarter of the budget.
    pub reading_threads: usize,
    /// How long [`crate::Store::reserve_batch`] waits for other batches.
    pub batch_timeout: Duration,
    /// A checkpoint is started when the log is this long.
    pub log_bytes_max: u64,
    /// Whether opening applies the commits that a crashed writer left in the log. If not, the last
    /// checkpoint is read.
    pub recover: bool,
    /// How long a call that needs to write waits for another handle or process to stop writing.
    pub busy_timeout: Duration,
    /// Asked many times a second by long work without a progress function, such as reading the
    /// log; `false` stops it.
    pub go_on: fn() -> bool,
}

impl OpenOptions {
    /// The same for work that goes once through the files: nothing is held for later.
    pub fn passing(&self) -> Self {
        let backend = match self.backend {
            BackendChoice::Memory => BackendChoice::Auto,
            other => other,
        };
        Self { backend, ..self.clone() }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            memory: None,
            backend: BackendChoice::Auto,
            queue_depth: 64,
            reading_threads: 1,
            batch_timeout: Duration::from_secs(60),
            log_bytes_max: 64 << 20,
            recover: true,
            busy_timeout: Duration::from_secs(5),
            go_on: || true,
        }
    }
}

/// Counters since open or the last [`crate::Store::reset_stats`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreStats {
    /// Completed device requests.
    pub reads: u64,
    /// Bytes asked from the device.
    pub read_bytes: u64,
    /// Bytes that callers took from those.
    pub useful_bytes: u64,
    /// Reads that had to be issued again.
    pub retries: u64,
    /// Reads in flight, averaged over completions.
    pub mean_queue_depth: f64,
    /// Microseconds in which at least one read was in flight.
    pub device_busy_us: u64,
    /// Bytes written to temporary files on behalf of its readers.
    pub scratch_write_bytes: u64,
    /// Rows handed out by gathers.
    pub rows_served: u64,
    /// Rows handed out without a device read.
    pub rows_cached: u64,
    /// Bytes held by the block cache.
    pub block_cache_bytes: u64,
    /// Bytes held by the row cache.
    pub row_cache_bytes: u64,
    /// Which back end reads, and why.
    pub backend_note: String,
    /// How the budget is divided now.
    pub memory: Vec<MemoryShare>,
}

/// The share and the current memory of one user of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShare {
    /// Who.
    pub user: MemoryUser,
    /// At most; caches, as much as they have been given so far.
    pub share_bytes: u64,
    /// Now; `None` where the store does not know.
    pub held_bytes: Option<u64>,
}

impl StoreStats {
    /// Rows served without a device read, as a share of all; 0 if there were none.
    pub fn hit_rate(&self) -> f64 {
        if self.rows_served == 0 { 0.0 } else { self.rows_cached as f64 / self.rows_served as f64 }
    }
}
