//! [`ScratchFile`]: a temporary without a name, for what does not fit in memory during an import.
//!
//! It vanishes with its last handle, so a killed process leaves nothing. The invariant: it is never
//! synced and never survives; nothing durable may point into it.

use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, AtFlags, CWD, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use thiserror::Error;

use crate::retry::{read_full, write_full};
use crate::space;
use crate::stats::{IoCounts, IoStats};

/// Why a temporary could not be used.
#[derive(Clone, Debug, Error)]
pub enum ScratchError {
    /// The disk is full; the source says how much was wanted and is free.
    #[error("no space for temporary files in {directory}: {source}")]
    DiskFull {
        /// The directory.
        directory: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// A read past the end: a defect of the caller, or a file system that lost data.
    #[error(
        "a temporary file in {directory} is truncated: {len} bytes at offset {offset} are missing"
    )]
    Truncated {
        /// The directory.
        directory: PathBuf,
        /// The offset of the read.
        offset: u64,
        /// The length of the read.
        len: u64,
    },
    /// The system reported an error.
    #[error("cannot {action} a temporary file in {directory}: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The directory.
        directory: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
}

impl From<ScratchError> for io::Error {
    fn from(error: ScratchError) -> Self {
        let kind = match &error {
            ScratchError::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            ScratchError::DiskFull { source, .. } | ScratchError::Io { source, .. } => {
                source.kind()
            }
        };
        Self::new(kind, error)
    }
}

/// An unnamed temporary file. Threads may append and read at once.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// let file = ng_io::ScratchFile::create_in(dir.path())?;
/// let at = file.append(b"run 1")?;
/// let mut bytes = [0; 5];
/// file.read_exact_at(at, &mut bytes)?;
/// assert_eq!((&bytes, file.len()), (b"run 1", 5));
/// assert_eq!(std::fs::read_dir(dir.path())?.count(), 0); // it has no name
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ScratchFile {
    directory: PathBuf,
    fd: OwnedFd,
    len: AtomicU64,
    stats: Arc<IoStats>,
}

impl ScratchFile {
    /// A new, empty file in `directory`.
    pub fn create_in(directory: &Path) -> Result<Self, ScratchError> {
        let created = create_unnamed(directory);
        let fd = created.map_err(|errno| write_error(directory, errno, "create", 0))?;
        let (len, stats) = (AtomicU64::new(0), Arc::default());
        Ok(Self { directory: directory.to_owned(), fd, len, stats })
    }

    /// Counts its reads, each at depth 1, and the bytes written to it, into counters that others
    /// share.
    #[must_use]
    pub fn counting_into(self, stats: Arc<IoStats>) -> Self {
        Self { stats, ..self }
    }

    /// From now on reads and writes go past the page cache, where the file system can: offsets,
    /// lengths and memory must be whole blocks then ([`crate::BLOCK_BYTES`], [`crate::AnonMap`]).
    pub fn bypass_cache(&self) {
        let flags = rustix::fs::fcntl_getfl(&self.fd);
        // A refusal costs speed alone.
        let _ = flags.and_then(|flags| rustix::fs::fcntl_setfl(&self.fd, flags | OFlags::DIRECT));
    }

    /// Reserves space so that later writes below `len` cannot fail for want of it, where the file
    /// system can.
    pub fn allocate(&self, len: u64) -> Result<(), ScratchError> {
        if len == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, len) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {
                self.len.fetch_max(len, Ordering::AcqRel);
                Ok(())
            }
            Err(errno) => Err(write_error(&self.directory, errno, "reserve space for", len)),
        }
    }

    /// How much was appended, or written further out.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `bytes` and says where they begin.
    pub fn append(&self, bytes: &[u8]) -> Result<u64, ScratchError> {
        let offset = self.len.fetch_add(bytes.len() as u64, Ordering::AcqRel);
        self.write(offset, bytes)?;
        Ok(offset)
    }

    /// Writes `bytes` at `offset`, growing the file where needed.
    pub fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<(), ScratchError> {
        self.len.fetch_max(offset + bytes.len() as u64, Ordering::AcqRel);
        self.write(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), ScratchError> {
        let written = write_full(&self.fd, offset, bytes);
        let wanted = bytes.len() as u64;
        written.map_err(|errno| write_error(&self.directory, errno, "write", wanted))?;
        let scratch_write_bytes = bytes.len() as u64;
        self.stats.add(&IoCounts { scratch_write_bytes, ..IoCounts::default() });
        Ok(())
    }

    /// Fills `buffer` from `offset` on, unless the file ends; says how much arrived.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ScratchError> {
        let arrived = read_full(&self.fd, offset, buffer).map_err(|error| ScratchError::Io {
            action: "read",
            directory: self.directory.clone(),
            source: Arc::new(error),
        })?;
        let read_bytes = arrived as u64;
        self.stats.add(&IoCounts { reads: 1, read_bytes, depth_sum: 1, ..IoCounts::default() });
        Ok(arrived)
    }

    /// Fills `buffer` from `offset` on.
    pub fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ScratchError> {
        if self.read_at(offset, buffer)? == buffer.len() {
            return Ok(());
        }
        let (directory, len) = (self.directory.clone(), buffer.len() as u64);
        Err(ScratchError::Truncated { directory, offset, len })
    }

    /// Asks the kernel to have a part of the file ready soon.
    pub fn will_need(&self, range: Range<u64>) {
        let len = std::num::NonZeroU64::new(range.end.saturating_sub(range.start));
        if let Some(len) = len {
            // A refusal costs speed alone.
            let _ = rustix::fs::fadvise(&self.fd, range.start, Some(len), Advice::WillNeed);
        }
    }

    /// Gives the space of a part that was consumed back to the file system, where that can be done;
    /// reading it gives zeros from then on, or still the old bytes.
    pub fn discard(&self, range: Range<u64>) {
        let len = range.end.saturating_sub(range.start);
        if len > 0 {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // A refusal costs space alone.
            let _ = rustix::fs::fallocate(&self.fd, flags, range.start, len);
        }
    }

    /// Reads a part from front to back. It has no buffer of its own; large ones make it fast.
    pub fn range_reader(&self, range: Range<u64>) -> ScratchReader<'_> {
        ScratchReader { file: self, at: range.start, end: range.end.min(self.len()) }
    }
}

/// A sequential reader of a part of a [`ScratchFile`].
#[derive(Debug)]
pub struct ScratchReader<'a> {
    file: &'a ScratchFile,
    at: u64,
    end: u64,
}

impl Read for ScratchReader<'_> {
    /// As [`Read::read`], except that the buffer is filled unless the part ends.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        self.file.read_exact_at(self.at, &mut buffer[..wanted])?;
        self.at += wanted as u64;
        Ok(wanted)
    }
}

fn write_error(
    directory: &Path,
    errno: Errno,
    action: &'static str,
    wanted_bytes: u64,
) -> ScratchError {
    let source = Arc::new(space::explain(errno, directory, wanted_bytes));
    let directory = directory.to_owned();
    match errno {
        Errno::NOSPC | Errno::DQUOT => ScratchError::DiskFull { directory, source },
        _ => ScratchError::Io { action, directory, source },
    }
}

fn create_unnamed(directory: &Path) -> Result<OwnedFd, Errno> {
    let mode = Mode::from_raw_mode(0o600);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        other => return other,
    }
    // The file system has no unnamed files: a named one loses its name at once.
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".ng-scratch-{}-{number}", std::process::id()));
        match rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
            Ok(fd) => {
                rustix::fs::unlinkat(CWD, &path, AtFlags::empty())?;
                return Ok(fd);
            }
        }
    }
}
