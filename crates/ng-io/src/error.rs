//! What can go wrong, one enum per operation. Each message says what is wrong, where, and what to
//! do. All are cheap to clone, because one failed block may fail many who wait for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ng_types::explain;
use thiserror::Error;

/// A read that did not give the bytes that were asked for.
#[derive(Clone, Debug, Error)]
pub enum ReadError {
    /// A file could not be opened.
    #[error("cannot open {file}: {source}")]
    Open {
        /// The file.
        file: Arc<str>,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The device or the file system failed.
    #[error("cannot read {len} bytes at {offset} of {file}: {source}; check the drive and its log")]
    Io {
        /// The file.
        file: Arc<str>,
        /// Where the read began.
        offset: u64,
        /// How long it was.
        len: u32,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The file ends before the read does.
    #[error(
        "{file} is truncated: it has {file_bytes} bytes, and {len} bytes at {offset} are missing"
    )]
    EndOfFile {
        /// The file.
        file: Arc<str>,
        /// Where the read began.
        offset: u64,
        /// How long it was.
        len: u64,
        /// How long the file is.
        file_bytes: u64,
    },
    /// The read is not one of whole blocks.
    #[error(
        "a read of {len} bytes at {offset} of {file} does not cover whole blocks; this is a \
         defect, report it"
    )]
    Misaligned {
        /// The file.
        file: Arc<str>,
        /// Where the read would begin.
        offset: u64,
        /// How long it would be.
        len: u64,
    },
    /// The device kept answering with nothing, or with "try again".
    #[error(
        "{file}: reading stalled at {offset} after {tries} tries; the last error was: {source}"
    )]
    Stalled {
        /// The file.
        file: Arc<str>,
        /// Where it stands still.
        offset: u64,
        /// How often it was tried.
        tries: u32,
        /// The last answer.
        source: Arc<io::Error>,
    },
    /// The queue itself failed; reads in flight are lost.
    #[error(
        "the {backend} back end failed: {source}; open the store again, or use another back end"
    )]
    Queue {
        /// The back end.
        backend: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The process is a fork of the one that opened the files.
    #[error(
        "opened in process {opened_in} but used in its fork {used_in}; open it again in the fork"
    )]
    Forked {
        /// Who opened the files.
        opened_in: u32,
        /// Who reads.
        used_in: u32,
    },
}

explain! { ReadError {
    EndOfFile => IoFailed [Restore],
    Open | Io | Stalled | Queue | Forked => IoFailed,
    Misaligned => Defect,
} }

/// A write that is not on its way to the disk.
#[derive(Clone, Debug, Error)]
pub enum WriteError {
    /// The file could not be created.
    #[error("cannot create {file}: {source}")]
    Create {
        /// The file.
        file: Arc<str>,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The file could not be opened for writing.
    #[error("cannot open {file} for writing: {source}")]
    Open {
        /// The file.
        file: Arc<str>,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The disk or the quota is full; the source says how much is free.
    #[error("cannot write {wanted_bytes} bytes at {offset} of {file}: {source}")]
    DiskFull {
        /// The file.
        file: Arc<str>,
        /// Where the write began.
        offset: u64,
        /// How much was left to write.
        wanted_bytes: u64,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The device or the file system failed.
    #[error("cannot write at {offset} of {file}: {source}; check the drive and its log")]
    Io {
        /// The file.
        file: Arc<str>,
        /// Where the write began.
        offset: u64,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Making the file durable failed, so what of it is on disk is unknown.
    #[error("cannot sync {file}: {source}; data written to it may be lost")]
    Sync {
        /// The file.
        file: Arc<str>,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// An earlier write or sync of this file failed.
    #[error("an earlier write to {file} failed, so it accepts no more writes")]
    Poisoned {
        /// The file.
        file: Arc<str>,
    },
}

impl WriteError {
    /// Whether the place takes no bytes, though the device works: it is full or read-only.
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

/// A directory that could not be opened with the back end that was asked for.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is nothing there.
    #[error("{path}: no such directory")]
    NotFound {
        /// The directory.
        path: PathBuf,
    },
    /// It is no directory.
    #[error("{path} is not a directory; a store is a directory")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The back end cannot work here.
    #[error("back end {backend} is not available for {path}: {reason}")]
    Unavailable {
        /// The back end that was asked for.
        backend: &'static str,
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The system refused.
    #[error("cannot open {path}: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl OpenError {
    /// What the system said about the directory `path`.
    pub(crate) fn of_directory(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            _ => Self::Io { path, source },
        }
    }
}
