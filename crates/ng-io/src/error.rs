//! Errors, one enum per operation. Each message says what is wrong, where, and what to do. All are
//! cheap to clone, because one failed block may fail many waiting reads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ng_types::explain;
use thiserror::Error;

/// An error of reading: the requested bytes were not delivered.
#[derive(Clone, Debug, Error)]
pub enum ReadError {
    /// A file could not be opened.
    #[error("cannot open {file}: {source}")]
    Open {
        /// The file.
        file: Arc<str>,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// The device or the file system failed.
    #[error(
        "cannot read {len} bytes at offset {offset} of {file}: {source}; check the drive and the \
         kernel log"
    )]
    Io {
        /// The file.
        file: Arc<str>,
        /// The offset of the read.
        offset: u64,
        /// The length of the read.
        len: u32,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// The file ends before the end of the read.
    #[error(
        "{file} is truncated: it has {file_bytes} bytes, and {len} bytes at offset {offset} are \
         missing"
    )]
    EndOfFile {
        /// The file.
        file: Arc<str>,
        /// The offset of the read.
        offset: u64,
        /// The length of the read.
        len: u64,
        /// The length of the file.
        file_bytes: u64,
    },
    /// The read does not cover whole blocks.
    #[error(
        "a read of {len} bytes at offset {offset} of {file} does not cover whole blocks; this is a \
         defect, report it"
    )]
    Misaligned {
        /// The file.
        file: Arc<str>,
        /// The offset of the read.
        offset: u64,
        /// The length of the read.
        len: u64,
    },
    /// The device repeatedly returned no bytes, or "try again".
    #[error(
        "{file}: reading stalled at offset {offset} after {tries} tries, last error: {source}; \
         check the drive and the kernel log"
    )]
    Stalled {
        /// The file.
        file: Arc<str>,
        /// The offset at which it stalled.
        offset: u64,
        /// The number of tries.
        tries: u32,
        /// The last error.
        source: Arc<io::Error>,
    },
    /// The queue failed; reads in flight are lost.
    #[error(
        "the {backend} back end failed: {source}; open the store again, or use another back end"
    )]
    Queue {
        /// The back end.
        backend: &'static str,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// The process is a fork of the one that opened the files.
    #[error(
        "files opened in process {opened_in} cannot be used in its fork {used_in}; open the store \
         again in the fork"
    )]
    Forked {
        /// The process that opened the files.
        opened_in: u32,
        /// The process that reads.
        used_in: u32,
    },
}

explain! { ReadError {
    EndOfFile => IoFailed [Restore],
    Open | Io | Stalled | Queue | Forked => IoFailed,
    Misaligned => Defect,
} }

/// An error of writing.
#[derive(Clone, Debug, Error)]
pub enum WriteError {
    /// The file could not be created.
    #[error("cannot create {file}: {source}")]
    Create {
        /// The file.
        file: Arc<str>,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// The file could not be opened for writing.
    #[error("cannot open {file} for writing: {source}")]
    Open {
        /// The file.
        file: Arc<str>,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// The disk or the quota is full; the source says how much is free.
    #[error("cannot write {wanted_bytes} bytes at offset {offset} of {file}: {source}")]
    DiskFull {
        /// The file.
        file: Arc<str>,
        /// The offset of the write.
        offset: u64,
        /// The bytes left to write.
        wanted_bytes: u64,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// The device or the file system failed.
    #[error(
        "cannot write at offset {offset} of {file}: {source}; check the drive and the kernel log"
    )]
    Io {
        /// The file.
        file: Arc<str>,
        /// The offset of the write.
        offset: u64,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// Making the file durable failed, so the content on disk is unknown.
    #[error("cannot sync {file}: {source}; data written to it may be lost")]
    Sync {
        /// The file.
        file: Arc<str>,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// An earlier write or sync of this file failed.
    #[error("{file} accepts no more writes, because an earlier write to it failed")]
    Poisoned {
        /// The file.
        file: Arc<str>,
    },
}

impl WriteError {
    /// Returns whether the target is full or read-only although the device works.
    pub fn is_no_room(&self) -> bool {
        use io::ErrorKind as Kind;
        let (Self::Create { source, .. }
        | Self::Open { source, .. }
        | Self::DiskFull { source, .. }
        | Self::Io { source, .. }
        | Self::Sync { source, .. }) = self
        else {
            return false;
        };
        let kind = source.kind();
        matches!(kind, Kind::PermissionDenied | Kind::ReadOnlyFilesystem)
            || matches!(kind, Kind::StorageFull | Kind::QuotaExceeded)
    }
}

/// An error of opening a directory with the requested back end.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory does not exist.
    #[error("{path}: no such directory")]
    NotFound {
        /// The directory.
        path: PathBuf,
    },
    /// The path is not a directory.
    #[error("{path} is not a directory; a store is a directory")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The back end is not available here.
    #[error("back end {backend} is not available for {path}: {reason}")]
    Unavailable {
        /// The requested back end.
        backend: &'static str,
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The system reported an error.
    #[error("cannot open {path}: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl OpenError {
    /// Converts an error of the system about the directory `path`.
    pub(crate) fn of_directory(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            _ => Self::Io { path, source },
        }
    }
}
