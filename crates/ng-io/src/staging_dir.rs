//! [`StagingDir`]: a directory that appears under its final name complete and durable, or not at
//! all.
//!
//! It is built as `.NAME.partial` beside the final name, under a lock that ends with the process.
//! The invariant: whoever holds the lock of the directory that the name leads to is its only user,
//! so leftovers of a dead process can be removed without asking anybody.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ng_types::explain;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use thiserror::Error;

use crate::named_dir::is_same;
use crate::os::process::Home;
use crate::source::SourceFile;

/// Another process may remove and rename the directory while this one opens it; each round means
/// that some other process has made progress.
const ROUNDS_MAX: u32 = 100;

/// How often, and how long after each other, a replaced directory is removed: a reader that has it
/// open may create a file in it until it notices.
const REMOVALS_MAX: u32 = 20;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// Why a directory could not be staged or published.
#[derive(Debug, Error)]
pub enum StagingError {
    /// There is something under the final name already.
    #[error("{path} already exists; choose another name, or allow it to be replaced")]
    Exists {
        /// The final name.
        path: PathBuf,
    },
    /// Another process is building the same directory.
    #[error("another process is building {path}; wait for it to finish, or stop it")]
    Busy {
        /// The staging directory.
        path: PathBuf,
    },
    /// The final name has no last component, such as `/` or `..`.
    #[error("{path} is not a valid name for a new directory")]
    BadName {
        /// The name.
        path: PathBuf,
    },
    /// The directory that the new one shall be in is not there.
    #[error("{path}: the parent directory does not exist; create it first")]
    NoParent {
        /// The parent.
        path: PathBuf,
    },
    /// The system reported an error.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

explain! { StagingError {
    Io => IoFailed,
    Exists | Busy | BadName | NoParent => ImportFailed,
} }

/// What to do if a directory with the final name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keep it and fail.
    Refuse,
    /// Replace it in one step when the new one is complete; it stays usable until then. The caller
    /// has made sure that it is nothing but an older version of the new one, and that nobody writes
    /// to it. A symbolic link stays, and the directory that it leads to is replaced. A file system
    /// that cannot swap two names in one step replaces nothing: then publishing fails.
    Replace,
}

/// A directory under construction. Dropping it removes it.
///
/// ```
/// use ng_io::{Existing, StagingDir};
/// let parent = tempfile::tempdir()?;
/// let name = parent.path().join("cora.ng");
/// let staging = StagingDir::create(&name, Existing::Refuse)?;
/// std::fs::write(staging.path().join("root.a"), b"...")?;
/// assert!(!name.exists());
/// staging.publish()?;
/// assert!(name.join("root.a").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StagingDir {
    staging: PathBuf,
    target: PathBuf,
    parent: PathBuf,
    existing: Existing,
    /// The descriptor of the directory itself, which holds the lock; a rename does not lose it.
    _lock: OwnedFd,
    published: bool,
    home: Home,
}

impl StagingDir {
    /// Creates the staging directory for `target`, after removing leftovers of a dead process.
    ///
    /// # Errors
    /// [`StagingError::Exists`], [`StagingError::Busy`], [`StagingError::BadName`],
    /// [`StagingError::NoParent`], [`StagingError::Io`].
    pub fn create(target: &Path, existing: Existing) -> Result<Self, StagingError> {
        let bad = || StagingError::BadName { path: target.to_owned() };
        // The working directory may change before the directory is published.
        let mut target = std::path::absolute(target).map_err(|_| bad())?;
        if existing == Existing::Replace && target.is_symlink() {
            let resolved = fs::canonicalize(&target);
            target = resolved.map_err(|source| failed("follow the link", &target, source))?;
        }
        let target = target.as_path();
        let name = target.file_name().ok_or_else(bad)?;
        let parent = target.parent().ok_or_else(bad)?;
        if !parent.is_dir() {
            return Err(StagingError::NoParent { path: parent.to_owned() });
        }
        if existing == Existing::Refuse && fs::symlink_metadata(target).is_ok() {
            return Err(StagingError::Exists { path: target.to_owned() });
        }
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        let staging = parent.join(hidden);
        let _lock = lock_directory(&staging)?;
        let (target, parent) = (target.to_owned(), parent.to_owned());
        let (published, home) = (false, Home::here());
        let this = Self { staging, target, parent, existing, _lock, published, home };
        remove_contents(&this.staging)
            .map_err(|source| failed("remove leftovers in", &this.staging, source))?;
        Ok(this)
    }

    /// Where to build.
    pub fn path(&self) -> &Path {
        &self.staging
    }

    /// Puts a new file with these bytes into the directory.
    ///
    /// # Errors
    /// [`StagingError::Io`].
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StagingError> {
        let path = self.staging.join(name);
        let written = fs::File::create_new(&path).and_then(|mut file| file.write_all(bytes));
        written.map_err(|source| failed("write", &path, source))
    }

    /// Puts a copy of a file into the directory.
    ///
    /// # Errors
    /// [`StagingError::Io`].
    pub fn put_copy(&self, name: &str, from: &SourceFile) -> Result<(), StagingError> {
        let path = self.staging.join(name);
        let created = fs::File::create_new(&path);
        let copied = created.and_then(|mut file| io::copy(&mut from.reader(), &mut file));
        copied.map(drop).map_err(|source| failed("write", &path, source))
    }

    /// The name it will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Makes every file and the directory durable, renames it to its final name, and makes the name
    /// durable. It then removes the replaced directory. If that fails, the new directory is in
    /// place nevertheless, and the returned error names the leftovers. The next
    /// [`StagingDir::create`] for this name removes them.
    ///
    /// # Errors
    /// [`StagingError::Exists`] if the name was taken meanwhile, [`StagingError::Io`]. After an
    /// error the staging directory is removed.
    pub fn publish(mut self) -> Result<Option<StagingError>, StagingError> {
        sync_tree(&self.staging)?;
        let older = self.rename()?;
        self.published = true;
        sync_path(&self.parent)?;
        Ok(older.and_then(|older| older.remove().err()))
    }

    /// Gives the directory its final name; gives back what had that name before, which now has the
    /// staging name.
    fn rename(&self) -> Result<Option<Older>, StagingError> {
        let rename =
            |flags| rustix::fs::renameat_with(CWD, &self.staging, CWD, &self.target, flags);
        let failed_here = |errno: Errno| failed("rename to", &self.target, errno.into());
        match (rename(RenameFlags::NOREPLACE), self.existing) {
            (Ok(()), _) => Ok(None),
            (Err(Errno::EXIST), Existing::Replace) => {
                let older = Older::lock(&self.target, &self.staging)?;
                rename(RenameFlags::EXCHANGE).map_err(failed_here)?;
                Ok(Some(older))
            }
            (Err(Errno::EXIST), Existing::Refuse) => {
                Err(StagingError::Exists { path: self.target.clone() })
            }
            // Some file systems know the plain rename only, which replaces an empty directory and
            // nothing else.
            (Err(Errno::INVAL | Errno::NOSYS), _) => {
                match fs::rename(&self.staging, &self.target) {
                    Ok(()) => Ok(None),
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                        Err(StagingError::Exists { path: self.target.clone() })
                    }
                    Err(error) => Err(failed("rename to", &self.target, error)),
                }
            }
            (Err(errno), _) => Err(failed_here(errno)),
        }
    }
}

/// What had the final name before. Under the staging name it would look like the leftovers of a
/// dead builder, so it is locked as if it had a living one until it is gone.
struct Older {
    path: PathBuf,
    _lock: OwnedFd,
}

impl Older {
    fn lock(target: &Path, staging: &Path) -> Result<Self, StagingError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = rustix::fs::open(target, flags, Mode::empty());
        let lock = open.map_err(|errno| failed("open", target, errno.into()))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: staging.to_owned(), _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(StagingError::Busy { path: target.to_owned() }),
            Err(errno) => Err(failed("lock", target, errno.into())),
        }
    }

    fn remove(self) -> Result<(), StagingError> {
        let remove = || match self.path.is_dir() {
            true => fs::remove_dir_all(&self.path),
            false => fs::remove_file(&self.path),
        };
        let mut removed = remove();
        for _ in 1..REMOVALS_MAX {
            if removed.is_ok() {
                break;
            }
            std::thread::sleep(REMOVAL_PAUSE);
            removed = remove();
        }
        removed.map_err(|source| failed("remove the replaced directory", &self.path, source))
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        // A fork of the builder must not remove what its parent builds.
        if !self.published && self.home.check().is_ok() {
            // What cannot be removed now is removed by the next `create`.
            let _ = fs::remove_dir_all(&self.staging);
        }
    }
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> StagingError {
    StagingError::Io { action, path: path.to_owned(), source }
}

/// Makes the directory if need be and locks it. The name may change hands between the steps, so it
/// is looked at again under the lock.
fn lock_directory(path: &Path) -> Result<OwnedFd, StagingError> {
    for _ in 0..ROUNDS_MAX {
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("create", path, error));
            }
            _ => {}
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            other => other.map_err(|errno| failed("open", path, errno.into()))?,
        };
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                return Err(StagingError::Busy { path: path.to_owned() });
            }
            other => other.map_err(|errno| failed("lock", path, errno.into()))?,
        }
        if is_same(&fd, path) {
            return Ok(fd);
        }
    }
    Err(StagingError::Busy { path: path.to_owned() })
}

fn remove_contents(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes every file below `path`, and the directories themselves, durable.
fn sync_tree(path: &Path) -> Result<(), StagingError> {
    let entries = fs::read_dir(path).map_err(|source| failed("list", path, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| failed("list", path, source))?;
        let kind = entry.file_type().map_err(|source| failed("examine", path, source))?;
        if kind.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            sync_path(&entry.path())?;
        }
    }
    sync_path(path)
}

fn sync_path(path: &Path) -> Result<(), StagingError> {
    let file = fs::File::open(path).map_err(|source| failed("open", path, source))?;
    file.sync_all().map_err(|source| failed("sync", path, source))
}
