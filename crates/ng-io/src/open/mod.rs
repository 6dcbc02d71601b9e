//! Opening a directory with a back end: the names of the back ends, the probe of what works here,
//! and the choice between them.

mod choice;
mod findings;
pub(crate) mod mounts;
mod report;

use std::path::Path;
use std::sync::Arc;

use crate::backend::{MemoryDisk, MmapDisk, PoolDisk, UringDisk};
use crate::directory::{Caching, Directory};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::named_dir::NamedDir;
use crate::queue::{QUEUE_DEPTH_MAX, QueueSize};
pub use choice::BackendChoice;
use choice::{Plan, choose};
use findings::Findings;
pub use report::{Finding, ProbeReport, probe};

/// How to open a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// The most reads in flight for each thread that reads: 1 to 1024, default 64.
    pub queue_depth: usize,
    /// Bytes of the reads in flight for each thread that reads, at most 16 MiB: a few of the
    /// longest reads in flight are not enough for devices that give gigabytes a second. 0, the
    /// default, is 32 KiB for each place of the queue.
    pub staging_bytes: usize,
    /// Threads of the back ends `pread` and `odirect`, shared by all callers; 0, the default, means
    /// as many as `queue_depth`, but at most 64.
    pub threads: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { queue_depth: 64, staging_bytes: 0, threads: 0 }
    }
}

impl OpenOptions {
    fn size(&self) -> QueueSize {
        QueueSize::new(self.queue_depth, self.staging_bytes)
    }

    fn pool_threads(&self) -> usize {
        if self.threads == 0 {
            self.size().depth.min(64)
        } else {
            self.threads.min(QUEUE_DEPTH_MAX)
        }
    }
}

/// An open directory.
pub struct Opened {
    /// What reads and writes it.
    pub disk: Arc<dyn Disk>,
    /// Which back end was picked and why, with any fallback: one sentence for reports.
    pub note: String,
    /// Staging memory that each thread holds while it reads (and that stays with the disk for its
    /// next read): what a memory budget has to set aside per reading thread.
    pub staging_bytes_per_queue: u64,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("note", &self.note).finish_non_exhaustive()
    }
}

/// Opens the directory `path` with the back end that `choice` names.
///
/// [`BackendChoice::Auto`] always finds a back end: storage in memory (tmpfs, DAX) is mapped.
/// Otherwise it uses io_uring with O_DIRECT if both work, else O_DIRECT with a thread pool, else
/// buffered reads with a thread pool. A named back end works as named, or the call fails. There are
/// two exceptions, which `note` reports: `uring` reads through the page cache if O_DIRECT does not
/// work, and without registered buffers if the limit of locked memory is too small.
///
/// # Errors
/// [`OpenError::NotFound`], [`OpenError::NotADirectory`], [`OpenError::Unavailable`] if the named
/// back end cannot work here, [`OpenError::Io`].
pub fn open_dir(
    path: &Path,
    choice: BackendChoice,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    open_named(&NamedDir::open(path)?, choice, options)
}

/// Like [`open_dir`], for an open directory: all files are opened relative to its descriptor, even
/// if its name leads elsewhere meanwhile.
///
/// # Errors
/// As [`open_dir`].
pub fn open_named(
    place: &Arc<NamedDir>,
    choice: BackendChoice,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let findings = Findings::gather(place, choice, options.size())
        .map_err(|source| OpenError::of_directory(place.path(), source))?;
    open_with(place, choice, options, findings)
}

/// Opens the directory as the findings allow.
fn open_with(
    place: &Arc<NamedDir>,
    choice: BackendChoice,
    options: &OpenOptions,
    mut findings: Findings,
) -> Result<Opened, OpenError> {
    let unavailable = |reason: String| OpenError::Unavailable {
        backend: choice.name(),
        path: place.path().to_owned(),
        reason,
    };
    let (plan, note) = choose(choice, &findings, options).map_err(unavailable)?;
    let size = options.size();
    let directory = |caching| Directory::new(Arc::clone(place), caching);
    let (disk, size): (Arc<dyn Disk>, QueueSize) = match plan {
        Plan::Memory => {
            (Arc::new(MemoryDisk::new(directory(Caching::Buffered))), QueueSize::new(1, 0))
        }
        Plan::Mmap => (Arc::new(MmapDisk::new(directory(Caching::Buffered))), QueueSize::new(1, 0)),
        Plan::Pool(caching) => {
            let threads = options.pool_threads();
            (Arc::new(PoolDisk::new(directory(caching), caching, size, threads)), size)
        }
        Plan::Uring(caching) => {
            let Some(ring) = findings.take_ring() else {
                return Err(unavailable("the ring of the probe is gone".into()));
            };
            let register = findings.register();
            (Arc::new(UringDisk::new(directory(caching), size, register, ring)), size)
        }
    };
    let staging_bytes_per_queue = size.staging_bytes as u64;
    Ok(Opened { disk, note, staging_bytes_per_queue })
}

#[cfg(test)]
mod tests;
