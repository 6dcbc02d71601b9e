//! [`NamedDir`]: a directory that is held open, and the name that led to it.
//!
//! A store is replaced by exchanging its directory with a new one. Whoever holds the descriptor
//! reaches the files of the old one until they are removed, and can tell that it has happened.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::error::OpenError;

/// An open directory and its name.
#[derive(Debug)]
pub struct NamedDir {
    path: PathBuf,
    fd: OwnedFd,
}

impl NamedDir {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// [`OpenError::NotFound`], [`OpenError::NotADirectory`], [`OpenError::Io`].
    pub fn open(path: &Path) -> Result<Arc<Self>, OpenError> {
        let open = || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let fd = rustix::fs::open(path, flags, Mode::empty())?;
            // The working directory may change before the path is looked at again.
            Ok(Arc::new(Self { path: std::path::absolute(path)?, fd }))
        };
        open().map_err(|error: io::Error| OpenError::of_directory(path, error))
    }

    /// The name, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the name still leads to this directory: not if it was replaced, renamed or removed.
    pub fn is_current(&self) -> bool {
        is_same(&self.fd, &self.path)
    }

    /// Whether both are the same directory, whatever names led to it.
    pub fn is_same_as(&self, other: &Self) -> bool {
        match (rustix::fs::fstat(&self.fd), rustix::fs::fstat(&other.fd)) {
            (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
            _ => false,
        }
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

/// Whether the name leads to what the descriptor holds.
pub(crate) fn is_same(fd: &OwnedFd, path: &Path) -> bool {
    match (rustix::fs::fstat(fd), rustix::fs::stat(path)) {
        (Ok(held), Ok(named)) => (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino),
        _ => false,
    }
}
