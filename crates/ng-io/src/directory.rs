//! The directory under every real back end: opening files by name, and the write side.
//!
//! Writes are plain `pwrite` and `fdatasync` on a buffered descriptor whatever the back end reads
//! with; the kernel keeps both views of a file coherent. What must not live here: reading. The
//! invariant: a name is one component of a path, so no catalog can point outside the directory.

use std::ffi::{CStr, CString};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{Advice, AtFlags, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::disk::{Access, FileId};
use crate::error::OpenError;
use crate::locks::{Lock, Locks, PINS};
use crate::named_dir::NamedDir;
use crate::retry::past_signals;
use crate::space;

/// Write-back is started this often, so that the sync at the end finds little left to do.
const WRITE_BACK_BYTES: u64 = 8 << 20;

/// How the descriptors that are read from are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Through the page cache.
    Buffered,
    /// Past it (`O_DIRECT`).
    Direct,
}

/// Keeps other processes from becoming the writer of the directory `path` until the lock is
/// dropped; `None` if there is a writer. Readers are not affected, and several processes may hold
/// such locks.
///
/// # Errors
/// [`OpenError::NotFound`], [`OpenError::NotADirectory`], [`OpenError::Io`] if the directory or its
/// file of locks cannot be opened.
pub fn hold_off_writer(path: &Path) -> Result<Option<Lock>, OpenError> {
    let directory = Directory::new(NamedDir::open(path)?, Caching::Buffered);
    past_signals(|| directory.hold_off_writer())
        .map_err(|source| OpenError::Io { path: path.join(PINS), source })
}

/// One open file.
pub(crate) struct OpenFile {
    /// Its name in the directory.
    pub name: String,
    /// The descriptor to read from.
    pub reads: OwnedFd,
    writes: Option<OwnedFd>,
    /// Bytes written since write-back was last started.
    unflushed: AtomicU64,
}

/// A directory and the files opened in it. Files stay open as long as the directory.
pub(crate) struct Directory {
    place: Arc<NamedDir>,
    caching: Caching,
    files: RwLock<Vec<Arc<OpenFile>>>,
    locks: Arc<Locks>,
}

impl Directory {
    pub fn new(place: Arc<NamedDir>, caching: Caching) -> Self {
        Self { place, caching, files: RwLock::new(Vec::new()), locks: Locks::new() }
    }

    /// Opens `name`. A file that is open already, with this access, keeps its id and descriptors;
    /// else it gets the next id. What was open stays readable by its name when the directory is
    /// replaced and its files are removed.
    pub fn open_file(&self, name: &str, access: Access) -> io::Result<(FileId, Arc<OpenFile>)> {
        check_name(name)?;
        // A link inside a store may lead anywhere: it is good for reading only.
        let (writes, link) = match access {
            Access::Read => (None, OFlags::empty()),
            Access::ReadWrite => (Some(self.open_at(name, OFlags::RDWR)?), OFlags::NOFOLLOW),
            Access::Create => {
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
                (Some(self.open_at(name, flags)?), OFlags::NOFOLLOW)
            }
        };
        let direct = match self.caching {
            Caching::Buffered => OFlags::empty(),
            Caching::Direct => OFlags::DIRECT,
        };
        let reads = match self.open_at(name, OFlags::RDONLY | direct | link) {
            Err(error) if access == Access::Read && is_missing(&error) => {
                let held = if self.place.is_current() { None } else { self.held(name) };
                return held.ok_or(error);
            }
            reads => reads?,
        };
        let unflushed = AtomicU64::new(0);
        let file = Arc::new(OpenFile { name: name.to_owned(), reads, writes, unflushed });
        // What is open keeps its numbers, so another file of this name has others.
        let identity = file.identity()?;
        let serves = |held: &OpenFile| {
            held.name == name
                && held.writes.is_some() == file.writes.is_some()
                && held.identity().is_ok_and(|held| held == identity)
        };
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = files.iter().position(|held| serves(held)) {
            return Ok((FileId(index as u32), Arc::clone(&files[index])));
        }
        let id = u32::try_from(files.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        files.push(Arc::clone(&file));
        Ok((FileId(id), file))
    }

    /// The file that was last open under `name`.
    fn held(&self, name: &str) -> Option<(FileId, Arc<OpenFile>)> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let index = files.iter().rposition(|held| held.name == name)?;
        Some((FileId(index as u32), Arc::clone(files.get(index)?)))
    }

    fn open_at(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let mode = Mode::from_raw_mode(0o644);
        // NONBLOCK keeps a fifo planted in the directory from hanging the open. It must not stay:
        // io_uring takes it as a wish for EAGAIN on some file systems.
        let mut flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        if flags.contains(OFlags::RDWR) {
            flags |= OFlags::NOFOLLOW;
        }
        let fd = rustix::fs::openat(self.place.fd(), name, flags, mode).map_err(|errno| {
            if errno == Errno::LOOP && flags.contains(OFlags::NOFOLLOW) {
                return no_links(name);
            }
            errno.into()
        })?;
        if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) != FileType::RegularFile {
            let message = format!("{name} is not a regular file");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let kept = rustix::fs::fcntl_getfl(&fd)? - OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&fd, kept)?;
        Ok(fd)
    }

    /// The open file of an id.
    pub fn file(&self, id: FileId) -> io::Result<Arc<OpenFile>> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(id.0 as usize).cloned().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("no open file has id {}", id.0))
        })
    }

    pub fn len(&self, id: FileId) -> io::Result<u64> {
        self.file(id)?.len()
    }

    /// Writes what the kernel takes in one call.
    pub fn write(&self, id: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file(id)?;
        let fd = file.writable()?;
        let wrote = rustix::io::pwrite(fd, bytes, offset)
            .map_err(|errno| self.write_error(&file, bytes.len() as u64, errno))?;
        let before = file.unflushed.fetch_add(wrote as u64, Ordering::Relaxed);
        if before + wrote as u64 >= WRITE_BACK_BYTES {
            file.unflushed.store(0, Ordering::Relaxed);
            space::start_write_back(fd.as_fd());
        }
        Ok(wrote)
    }

    pub fn allocate(&self, id: FileId, len: u64) -> io::Result<()> {
        let file = self.file(id)?;
        if len == 0 {
            return Ok(());
        }
        rustix::fs::fallocate(file.writable()?, FallocateFlags::KEEP_SIZE, 0, len)
            .map_err(|errno| self.write_error(&file, len, errno))
    }

    fn write_error(&self, file: &OpenFile, wanted_bytes: u64, errno: Errno) -> io::Error {
        space::explain(errno, &self.place.path().join(&file.name), wanted_bytes)
    }

    pub fn sync(&self, id: FileId) -> io::Result<()> {
        let file = self.file(id)?;
        let fd = file.writes.as_ref().unwrap_or(&file.reads);
        Ok(rustix::fs::fdatasync(fd)?)
    }

    pub fn leave_cache(&self, id: FileId, end: u64) {
        let (Ok(file), Some(end)) = (self.file(id), NonZeroU64::new(end)) else { return };
        let fd = file.writes.as_ref().unwrap_or(&file.reads);
        // Pages that are not on the device yet stay, and go at the next call. A refusal costs
        // memory of the kernel alone.
        let _ = rustix::fs::fadvise(fd, 0, Some(end), Advice::DontNeed);
    }

    pub fn sync_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.place.fd())?)
    }

    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        Ok(rustix::fs::renameat(self.place.fd(), from, self.place.fd(), to)?)
    }

    pub fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        Ok(rustix::fs::unlinkat(self.place.fd(), name, AtFlags::empty())?)
    }

    pub fn lock_writer(&self) -> io::Result<Option<Lock>> {
        let lock = self.locks.lock_writer(&|flags| self.open_pins(flags));
        if matches!(lock, Ok(None)) {
            return lock;
        }
        if !self.place.is_current() {
            let path = self.place.path().display();
            let message = format!("{path} was replaced since it was opened; open it again");
            return Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, message));
        }
        self.refuse_links()?;
        lock
    }

    pub fn hold_off_writer(&self) -> io::Result<Option<Lock>> {
        self.locks.hold_off_writer(&|flags| self.open_at(PINS, flags))
    }

    pub fn pin(&self, checkpoint_id: u64) -> io::Result<Option<Lock>> {
        self.locks.pin(checkpoint_id, &|flags| self.open_pins(flags))
    }

    pub fn is_pinned_below(&self, checkpoint_id: u64) -> io::Result<bool> {
        self.locks.is_pinned_below(checkpoint_id, &|flags| self.open_pins(flags))
    }

    /// Opens file `pins`. It is not created in a directory that was replaced: nobody writes there
    /// any more, so there is nothing to pin, and whoever removes it would find it not empty.
    fn open_pins(&self, flags: OFlags) -> io::Result<OwnedFd> {
        match self.open_at(PINS, flags - OFlags::CREATE) {
            Err(error) if is_missing(&error) && flags.contains(OFlags::CREATE) => {}
            opened => return opened,
        }
        if self.place.is_current() {
            let file = self.open_at(PINS, flags)?;
            if self.place.is_current() {
                return Ok(file);
            }
            // Replaced in between. Somebody else may have removed the file already.
            let _ = rustix::fs::unlinkat(self.place.fd(), PINS, AtFlags::empty());
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// The names of all entries but directories, sorted. Names that are not UTF-8 are none of ours.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for (name, kind) in self.entries()? {
            match name.into_string() {
                Ok(name) if kind != FileType::Directory => names.push(name),
                Ok(_) | Err(_) => {}
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn entries(&self) -> io::Result<Vec<(CString, FileType)>> {
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(self.place.fd())? {
            let entry = entry?;
            let name = entry.file_name();
            let kind = match entry.file_type() {
                FileType::Unknown => self.kind_of(name, AtFlags::SYMLINK_NOFOLLOW)?,
                kind => kind,
            };
            entries.push((name.to_owned(), kind));
        }
        Ok(entries)
    }

    fn kind_of(&self, name: &CStr, flags: AtFlags) -> io::Result<FileType> {
        let stat = rustix::fs::statat(self.place.fd(), name, flags)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    /// Refuses links to files: a writer would stop at one half way.
    fn refuse_links(&self) -> io::Result<()> {
        for (name, kind) in self.entries()? {
            let is_folder =
                || matches!(self.kind_of(&name, AtFlags::empty()), Ok(FileType::Directory));
            if kind == FileType::Symlink && !is_folder() {
                return Err(no_links(&name.to_string_lossy()));
            }
        }
        Ok(())
    }
}

impl OpenFile {
    /// Which file it is, whatever its name.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.reads)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// The length of the file at this moment.
    pub fn len(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.reads)?.st_size.cast_unsigned())
    }

    fn writable(&self) -> io::Result<&OwnedFd> {
        self.writes.as_ref().ok_or_else(|| {
            let message = format!("{} is opened for reading only", self.name);
            io::Error::new(io::ErrorKind::PermissionDenied, message)
        })
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn no_links(name: &str) -> io::Error {
    let message = format!(
        "{name} is a symbolic link, and writes do not follow links; replace the link by the file"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

/// Refuses a name that is not exactly one component of a path.
fn check_name(name: &str) -> io::Result<()> {
    let bad = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']);
    if bad {
        let message = format!("{name:?} is not a valid file name");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_the_directory() {
        for name in ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\0b"] {
            let error = check_name(name).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert!(check_name("t0.dat").is_ok());
    }
}
