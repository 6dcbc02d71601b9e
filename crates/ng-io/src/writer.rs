//! [`Writer`]: changes one file in place.
//!
//! What must not live here: what is written where, and in which order files are synced. The
//! invariant: after the first failed write or sync nothing more is written and nothing is retried,
//! so a sync that succeeds stands for every byte written before it.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::disk::{Access, Disk, FileId};
use crate::error::WriteError;
use crate::retry::{is_passing, past_signals};
use crate::stats::WriteStats;

/// So many interrupted or refused writes in a row end the file.
const TRIES_MAX: u32 = 64;

/// One file, open for reading and writing in place.
///
/// ```
/// use std::sync::Arc;
/// use ng_io::{BackendChoice, OpenOptions, Reader, Writer, open_dir};
///
/// let dir = tempfile::tempdir()?;
/// let disk = open_dir(dir.path(), BackendChoice::Auto, &OpenOptions::default())?.disk;
/// let mut file = Writer::open_or_create(Arc::clone(&disk), "log.ng")?;
/// file.allocate(1 << 20)?;
/// file.write_at(0, &[7; 4096])?;
/// file.sync()?;
/// disk.sync_dir()?;
/// assert_eq!(file.len(), 4096);
/// assert_eq!(Reader::new(disk).read_at(file.file(), 0, 4096)?, [7; 4096]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer {
    disk: Arc<dyn Disk>,
    file: FileId,
    name: Arc<str>,
    len: u64,
    stats: Arc<WriteStats>,
    poisoned: bool,
}

impl Writer {
    /// Opens a file that exists.
    ///
    /// # Errors
    /// [`WriteError::Open`].
    pub fn open(disk: Arc<dyn Disk>, name: &str) -> Result<Self, WriteError> {
        Self::open_as(disk, name, Access::ReadWrite).map_err(|source| open_error(name, source))
    }

    /// Opens a file, after creating it empty if it does not exist. The caller makes its name
    /// durable with [`Disk::sync_dir`].
    ///
    /// # Errors
    /// [`WriteError::Open`], [`WriteError::Create`].
    pub fn open_or_create(disk: Arc<dyn Disk>, name: &str) -> Result<Self, WriteError> {
        match Self::open_as(Arc::clone(&disk), name, Access::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::create(disk, name),
            opened => opened.map_err(|source| open_error(name, source)),
        }
    }

    /// Creates a file, which must not exist.
    pub(crate) fn create(disk: Arc<dyn Disk>, name: &str) -> Result<Self, WriteError> {
        Self::open_as(disk, name, Access::Create)
            .map_err(|source| WriteError::Create { file: name.into(), source: Arc::new(source) })
    }

    fn open_as(disk: Arc<dyn Disk>, name: &str, access: Access) -> io::Result<Self> {
        let file = past_signals(|| disk.open(name, access))?;
        let len = disk.len(file)?;
        let stats = Arc::default();
        Ok(Self { disk, file, name: name.into(), len, stats, poisoned: false })
    }

    /// The same writer, counting into `stats`, which several writers may share.
    #[must_use]
    pub fn counting_into(self, stats: Arc<WriteStats>) -> Self {
        Self { stats, ..self }
    }

    /// The counters.
    pub fn stats(&self) -> &Arc<WriteStats> {
        &self.stats
    }

    /// The open file, to read it through the same disk.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// The length of the file in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a length is an offset here, not a count")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Writes all of `bytes` at `offset`. What lies between the old end of the file and `offset`
    /// becomes zeros.
    ///
    /// # Errors
    /// [`WriteError::DiskFull`], [`WriteError::Io`], [`WriteError::Poisoned`]; nothing more is
    /// written after any of them.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.check()?;
        let written = write_all(&*self.disk, self.file, &self.name, offset, bytes);
        self.poisoned = written.is_err();
        written?;
        if !bytes.is_empty() {
            self.len = self.len.max(offset + bytes.len() as u64);
            self.stats.add_write(bytes.len() as u64);
        }
        Ok(())
    }

    /// Reserves space for the first `len` bytes, so that writes below do not meet a full disk. It
    /// does not lengthen the file. A file system that cannot reserve is not asked again: there, a
    /// full disk shows at the write.
    ///
    /// # Errors
    /// [`WriteError::DiskFull`] and [`WriteError::Io`], after which the writer works on;
    /// [`WriteError::Poisoned`].
    pub fn allocate(&mut self, len: u64) -> Result<(), WriteError> {
        self.check()?;
        let Err(error) = past_signals(|| self.disk.allocate(self.file, len)) else {
            return Ok(());
        };
        let file = Arc::clone(&self.name);
        match error.kind() {
            io::ErrorKind::Unsupported => Ok(()),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let source = Arc::new(error);
                Err(WriteError::DiskFull { file, offset: 0, wanted_bytes: len, source })
            }
            _ => Err(WriteError::Io { file, offset: 0, source: Arc::new(error) }),
        }
    }

    /// Makes everything written so far durable. It is never tried again: a second sync may succeed
    /// though the bytes are lost.
    ///
    /// # Errors
    /// [`WriteError::Sync`], [`WriteError::Poisoned`]; nothing more is written after either.
    pub fn sync(&mut self) -> Result<(), WriteError> {
        self.check()?;
        let start = Instant::now();
        let result = self.disk.sync(self.file);
        self.stats.add_sync(start.elapsed());
        result.map_err(|source| {
            self.poisoned = true;
            WriteError::Sync { file: Arc::clone(&self.name), source: Arc::new(source) }
        })
    }

    /// Lets what is written below `end` leave the page cache.
    pub(crate) fn leave_cache(&self, end: u64) {
        self.disk.leave_cache(self.file, end);
    }

    /// [`WriteError::Poisoned`] after a failure.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        if self.poisoned {
            return Err(WriteError::Poisoned { file: Arc::clone(&self.name) });
        }
        Ok(())
    }
}

fn open_error(name: &str, source: io::Error) -> WriteError {
    WriteError::Open { file: name.into(), source: Arc::new(source) }
}

/// Writes all of `bytes` at `offset`, past signals and short writes.
fn write_all(
    disk: &dyn Disk,
    file: FileId,
    name: &Arc<str>,
    mut offset: u64,
    mut bytes: &[u8],
) -> Result<(), WriteError> {
    let mut tries = 0;
    while !bytes.is_empty() {
        let error = match disk.write(file, offset, bytes) {
            Ok(0) => io::Error::new(io::ErrorKind::WriteZero, "the device accepts no more bytes"),
            Ok(len) => {
                let len = len.min(bytes.len());
                (tries, offset, bytes) = (0, offset + len as u64, &bytes[len..]);
                continue;
            }
            Err(error) => error,
        };
        let passing = is_passing(&error) || error.kind() == io::ErrorKind::WriteZero;
        tries += 1;
        if passing && tries < TRIES_MAX {
            continue;
        }
        let (file, wanted_bytes) = (Arc::clone(name), bytes.len() as u64);
        let full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let source = Arc::new(error);
        return Err(if full {
            WriteError::DiskFull { file, offset, wanted_bytes, source }
        } else {
            WriteError::Io { file, offset, source }
        });
    }
    Ok(())
}
