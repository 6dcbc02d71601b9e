//! [`SourceFile`]: reading the files that users import.
//!
//! What must not live here: formats. The invariant: every error names the path, and an interrupted
//! or short read never shows.

use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, FileType, Mode, OFlags};
use thiserror::Error;

use crate::retry::{read_full, read_some};

/// How far ahead of a sequential reader the kernel is asked to read.
const READ_AHEAD_BYTES: u64 = 4 << 20;

/// Why a user's file could not be read.
#[derive(Clone, Debug, Error)]
pub enum SourceError {
    /// The directory does not exist.
    #[error("{path}: no such file")]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// It is a directory.
    #[error("{path} is a directory, not a file")]
    IsADirectory {
        /// The path.
        path: PathBuf,
    },
    /// It ends too early.
    #[error(
        "{path} is truncated: it has {file_bytes} bytes, and {len} bytes at offset {offset} are \
         missing"
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The offset of the read.
        offset: u64,
        /// The length of the read.
        len: u64,
        /// The length of the file.
        file_bytes: u64,
    },
    /// It is a pipe or the like, which has no length and no positions.
    #[error("{path} is not a regular file; copy its content to a regular file")]
    NotSeekable {
        /// The path.
        path: PathBuf,
    },
    /// It is larger than the caller takes.
    #[error("{path} has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        limit: u64,
    },
    /// The system reported an error.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
}

impl From<SourceError> for io::Error {
    fn from(error: SourceError) -> Self {
        let kind = match &error {
            SourceError::NotFound { .. } => io::ErrorKind::NotFound,
            SourceError::IsADirectory { .. } => io::ErrorKind::IsADirectory,
            SourceError::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            SourceError::NotSeekable { .. } => io::ErrorKind::NotSeekable,
            SourceError::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            SourceError::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

/// An input file, open for reading. Shared by threads without locks.
///
/// ```
/// use std::io::Read;
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("edges.txt");
/// std::fs::write(&path, "0 1\n1 2\n")?;
/// let source = ng_io::SourceFile::open(&path)?;
/// let mut text = String::new();
/// source.reader().read_to_string(&mut text)?;
/// assert_eq!((text.len(), source.len()?), (8, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SourceFile {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    fd: OwnedFd,
    regular: bool,
}

impl SourceFile {
    /// Opens `path`, which may be a pipe.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        Self::open_with(path, OFlags::empty())
    }

    /// Opens a regular file. What is a pipe, a socket or a device is refused, and not waited for;
    /// so is a symbolic link at the end of `path`, unless `follows_link`.
    ///
    /// # Errors
    /// [`SourceError::NotSeekable`] for what is not a regular file, [`SourceError::IsADirectory`].
    pub fn open_regular(path: &Path, follows_link: bool) -> Result<Self, SourceError> {
        let link = if follows_link { OFlags::empty() } else { OFlags::NOFOLLOW };
        let opened = Self::open_with(path, OFlags::NONBLOCK | link)?;
        opened.check_regular()?;
        Ok(opened)
    }

    /// All bytes of a regular file, if they are at most `limit`: so much memory is taken.
    ///
    /// # Errors
    /// [`SourceError::TooLarge`], [`SourceError::Truncated`] if it has become shorter meanwhile.
    pub fn read_whole(&self, limit: u64) -> Result<Vec<u8>, SourceError> {
        let bytes = self.len()?;
        let fits = (bytes <= limit).then(|| usize::try_from(bytes).ok()).flatten();
        let path = || self.path().to_owned();
        let len = fits.ok_or_else(|| SourceError::TooLarge { path: path(), bytes, limit })?;
        let mut all = Vec::new();
        let no_memory = |_| self.failed("allocate memory for", io::ErrorKind::OutOfMemory.into());
        all.try_reserve_exact(len).map_err(no_memory)?;
        all.resize(len, 0);
        self.read_exact_at(0, &mut all)?;
        Ok(all)
    }

    fn open_with(path: &Path, more: OFlags) -> Result<Self, SourceError> {
        let here = || path.to_owned();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | more;
        let failed = |errno: rustix::io::Errno| match errno {
            rustix::io::Errno::NOENT => SourceError::NotFound { path: here() },
            _ => SourceError::Io { action: "open", path: here(), source: Arc::new(errno.into()) },
        };
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        let regular = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return Err(SourceError::IsADirectory { path: here() }),
            kind => kind == FileType::RegularFile,
        };
        if regular {
            // A refusal costs speed alone.
            let _ = rustix::fs::fadvise(&fd, 0, None, Advice::Sequential);
        }
        Ok(Self { shared: Arc::new(Shared { path: here(), fd, regular }) })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The length of a regular file in bytes.
    pub fn len(&self) -> Result<u64, SourceError> {
        self.check_regular()?;
        let stat = rustix::fs::fstat(&self.shared.fd);
        let stat = stat.map_err(|errno| self.failed("examine", errno.into()))?;
        Ok(stat.st_size.cast_unsigned())
    }

    /// Whether a regular file has no bytes.
    pub fn is_empty(&self) -> Result<bool, SourceError> {
        Ok(self.len()? == 0)
    }

    /// Fills `buffer` from `offset` on, unless the file ends; says how much arrived.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        self.check_regular()?;
        read_full(&self.shared.fd, offset, buffer).map_err(|error| self.failed("read", error))
    }

    /// Fills `buffer` from `offset` on.
    pub fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        if self.read_at(offset, buffer)? == buffer.len() {
            return Ok(());
        }
        let (path, len, file_bytes) = (self.path().to_owned(), buffer.len() as u64, self.len()?);
        Err(SourceError::Truncated { path, offset, len, file_bytes })
    }

    /// Asks the kernel to have a part of the file ready soon.
    pub fn will_need(&self, range: Range<u64>) {
        let len = std::num::NonZeroU64::new(range.end.saturating_sub(range.start));
        if let (true, Some(len)) = (self.shared.regular, len) {
            // A refusal costs speed alone.
            let _ = rustix::fs::fadvise(&self.shared.fd, range.start, Some(len), Advice::WillNeed);
        }
    }

    /// Reads from front to back, with read-ahead. Works for pipes, too, once.
    pub fn reader(&self) -> SourceReader {
        self.range_reader(0..u64::MAX)
    }

    /// Reads a part of a regular file from front to back, with read-ahead.
    pub fn range_reader(&self, range: Range<u64>) -> SourceReader {
        let file = self.clone();
        SourceReader { file, at: range.start, end: range.end, asked: range.start }
    }

    fn check_regular(&self) -> Result<(), SourceError> {
        if self.shared.regular {
            return Ok(());
        }
        Err(SourceError::NotSeekable { path: self.path().to_owned() })
    }

    fn failed(&self, action: &'static str, source: io::Error) -> SourceError {
        SourceError::Io { action, path: self.path().to_owned(), source: Arc::new(source) }
    }
}

/// A sequential reader of a [`SourceFile`] with a position of its own. Large buffers make it fast;
/// it has none itself.
#[derive(Debug)]
pub struct SourceReader {
    file: SourceFile,
    at: u64,
    end: u64,
    /// Up to where read-ahead was asked for.
    asked: u64,
}

impl SourceReader {
    /// How many bytes of the file are behind it, for progress bars.
    pub fn position(&self) -> u64 {
        self.at
    }
}

impl Read for SourceReader {
    /// As [`Read::read`], except that a regular file fills the buffer unless it ends.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let buffer = &mut buffer[..wanted];
        let got = if self.file.shared.regular {
            let ahead = self.at.saturating_add(wanted as u64);
            if self.asked < ahead.saturating_add(READ_AHEAD_BYTES / 2) {
                let until = ahead.saturating_add(READ_AHEAD_BYTES).min(self.end);
                self.file.will_need(self.asked.max(ahead).min(until)..until);
                self.asked = until;
            }
            self.file.read_at(self.at, buffer)?
        } else {
            let some = read_some(&self.file.shared.fd, buffer);
            some.map_err(|error| self.file.failed("read", error))?
        };
        self.at += got as u64;
        Ok(got)
    }
}
