//! [`Reader`]: the one place where alignment, short reads, EAGAIN, EINTR and the end of a file are
//! handled, and where reads are counted.
//!
//! What must not live here: back ends, caches, formats. The invariant: a completion handed out is
//! whole, exactly as long as asked, or it is an error that names the file and the place.

mod read_log;
mod session;

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use crate::disk::{Access, BLOCK_BYTES, Disk, FileId, NextRead, READ_BYTES_MAX, ReadOp};
use crate::error::ReadError;
use crate::os::process::Home;
use crate::retry::past_signals;
use crate::stats::IoStats;
use read_log::ReadLog;
use session::Session;

/// Takes a whole completion or the error of one read. The bytes are only lent.
pub type WholeRead<'a> = dyn FnMut(ReadOp, Result<&[u8], ReadError>) + 'a;

/// Reads whole blocks from the files of a [`Disk`]. Cheap to clone; clones share their counters.
///
/// ```
/// use std::sync::Arc;
/// use ng_io::{Appender, BackendChoice, OpenOptions, Reader, open_dir};
///
/// let dir = tempfile::tempdir()?;
/// let opened = open_dir(dir.path(), BackendChoice::Auto, &OpenOptions::default())?;
/// let mut file = Appender::create(Arc::clone(&opened.disk), "a.dat")?;
/// file.write(b"hello")?;
/// assert_eq!(file.finish()?, 4096); // padded to whole blocks
///
/// let reader = Reader::new(opened.disk);
/// let id = reader.open("a.dat")?;
/// assert_eq!(&reader.read_at(id, 0, 4096)?[..5], b"hello");
/// assert_eq!(reader.stats().counts().read_bytes, 4096);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

struct Shared {
    disk: Arc<dyn Disk>,
    /// What stands before file names in errors: the path of the directory and a slash, or nothing.
    prefix: String,
    names: RwLock<Vec<(FileId, Arc<str>)>>,
    stats: Arc<IoStats>,
    log: ReadLog,
    home: Home,
}

impl Reader {
    /// A reader of `disk` whose errors name files without a directory.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self::with_prefix(disk, String::new())
    }

    /// A reader of `disk` whose errors name files inside `directory`.
    pub fn in_directory(disk: Arc<dyn Disk>, directory: &Path) -> Self {
        Self::with_prefix(disk, format!("{}/", directory.display()))
    }

    fn with_prefix(disk: Arc<dyn Disk>, prefix: String) -> Self {
        let (names, stats, log) = (RwLock::default(), Arc::default(), ReadLog::default());
        let shared = Shared { disk, prefix, names, stats, log, home: Home::here() };
        Self { shared: Arc::new(shared) }
    }

    /// The disk under it.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.shared.disk
    }

    /// The counters.
    pub fn stats(&self) -> &Arc<IoStats> {
        &self.shared.stats
    }

    /// Starts a log of device requests in a new file. After a header of 16 bytes (`ngreads1` and
    /// zeros) it has 16 bytes per request: the offset (u64), the bytes that arrived (u32) and the
    /// number of the file (u32). The highest bit of the last field is set if the request begins
    /// where the previous one ended. Without this call nothing is recorded.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn log_to(&self, path: &Path) -> io::Result<()> {
        self.shared.log.begin(path)
    }

    /// Ends the log and returns its number of requests. Running calls of [`Reader::read`] may have
    /// up to 63 completions that are not counted or recorded yet.
    ///
    /// # Errors
    /// The file could not be written. The reads themselves are not affected.
    pub fn end_log(&self) -> io::Result<u64> {
        self.shared.log.end()
    }

    fn check_home(&self) -> Result<(), ReadError> {
        let forked = |f: crate::os::process::Forked| ReadError::Forked {
            opened_in: f.opened_in,
            used_in: f.used_in,
        };
        self.shared.home.check().map_err(forked)
    }

    /// Opens a file for reading.
    pub fn open(&self, name: &str) -> Result<FileId, ReadError> {
        self.check_home()?;
        let file: Arc<str> = format!("{}{name}", self.shared.prefix).into();
        let opened = past_signals(|| self.shared.disk.open(name, Access::Read));
        let id = opened.map_err(|source| {
            let file = Arc::clone(&file);
            ReadError::Open { file, source: Arc::new(source) }
        })?;
        let mut names = self.shared.names.write().unwrap_or_else(PoisonError::into_inner);
        if names.iter().all(|(known, _)| *known != id) {
            names.push((id, file));
        }
        Ok(id)
    }

    /// The length of a file in bytes.
    pub fn len(&self, file: FileId) -> Result<u64, ReadError> {
        self.check_home()?;
        self.shared.disk.len(file).map_err(|error| self.io_error(file, 0, 0, error))
    }

    /// The name of a file, for messages.
    pub fn name(&self, file: FileId) -> Arc<str> {
        let names = self.shared.names.read().unwrap_or_else(PoisonError::into_inner);
        let found = names.iter().find(|(id, _)| *id == file);
        found.map_or_else(|| format!("file {}", file.0).into(), |(_, name)| Arc::clone(name))
    }

    fn io_error(&self, file: FileId, offset: u64, len: u32, error: io::Error) -> ReadError {
        ReadError::Io { file: self.name(file), offset, len, source: Arc::new(error) }
    }

    /// Runs reads until `next` returns `None` and no read is in flight.
    ///
    /// It calls `next` for another read after every completion, so the queue stays full while there
    /// is work. `done` is called on this thread, in any order, with exactly `op.len` bytes or the
    /// error of that read; a read that fails does not stop the others. Neither may wait for another
    /// read of the same call; calling `read` from inside them is allowed and uses another queue.
    ///
    /// # Errors
    /// [`ReadError::Queue`] if the queue itself failed (reads in flight then get no completion),
    /// [`ReadError::Forked`] in a fork.
    pub fn read(&self, next: &mut NextRead<'_>, done: &mut WholeRead<'_>) -> Result<(), ReadError> {
        self.check_home()?;
        Session::new(self).run(next, done)
    }

    /// Reads `len` bytes at `offset`, both in whole blocks, in one piece: for roots and headers.
    pub fn read_at(&self, file: FileId, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        let block = BLOCK_BYTES as u64;
        let end = offset.checked_add(len as u64);
        if !offset.is_multiple_of(block) || !(len as u64).is_multiple_of(block) || end.is_none() {
            return Err(ReadError::Misaligned { file: self.name(file), offset, len: len as u64 });
        }
        let file_bytes = self.len(file)?;
        if end.is_none_or(|end| end > file_bytes) {
            let (name, len) = (self.name(file), len as u64);
            return Err(ReadError::EndOfFile { file: name, offset, len, file_bytes });
        }
        let mut bytes = vec![0; len];
        let mut failure = None;
        let mut place = 0;
        let mut next = || {
            let len = (len - place).min(READ_BYTES_MAX);
            let tag = place as u64;
            place += len;
            (len > 0).then_some(ReadOp { tag, file, offset: offset + tag, len: len as u32 })
        };
        self.read(&mut next, &mut |op, result| match result {
            Ok(found) => bytes[op.tag as usize..][..found.len()].copy_from_slice(found),
            Err(error) => failure = Some(error),
        })?;
        failure.map_or(Ok(bytes), Err)
    }
}
