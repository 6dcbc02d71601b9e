//! Small files and folders beside stores: what a server keeps of itself.
//!
//! What must not live here: what is in them. The invariant: whoever reads a file that is replaced
//! here finds the old bytes or the new ones, also after a crash.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Makes a file have these bytes, whether or not it was there. They are durable on return.
///
/// # Errors
/// Those of the system; the file is as it was then, or has the bytes already.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let next = Path::new(&next);
    put_in_place(fs::File::create(next)?, (next, path), bytes)
}

fn put_in_place(mut file: fs::File, (from, to): (&Path, &Path), bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(from, to)?;
    sync_folder_of(to)
}

/// Keeps bytes in a file of a folder, both of which this user alone may read and change. They are
/// durable on return.
///
/// # Errors
/// As [`replace_file`], and as [`ensure_folder`].
pub fn keep_privately(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let made = fs::DirBuilder::new().mode(0o700).create(folder);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made.and_then(|()| sync_folder_of(folder))?,
    }
    let (path, next) = (folder.join(name), folder.join(format!("{name}.next")));
    let mut file = fs::OpenOptions::new();
    let file = file.write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    put_in_place(file, (&next, &path), bytes)
}

/// Makes a folder, unless it is there, and its name durable.
///
/// # Errors
/// Those of the system, such as that its parent is not there.
pub fn ensure_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.and_then(|()| sync_folder_of(path)),
    }
}

/// Removes a folder with all that is in it. One that is not there is no error.
///
/// # Errors
/// Those of the system.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.and_then(|()| sync_folder_of(path)),
    }
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if parent != Path::new("") => fs::File::open(parent)?.sync_all(),
        _ => fs::File::open(".")?.sync_all(),
    }
}

/// The exclusive right to change the content of a folder, held by one handle until it is dropped or
/// its process ends.
#[derive(Debug)]
pub struct FolderLock {
    _folder: OwnedFd,
}

impl FolderLock {
    /// Takes the right, without waiting; `None` if another handle has it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _folder: folder })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_leftovers_of_a_crash_are_no_obstacle() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().join("kept");
        ensure_folder(&path).expect("made");
        ensure_folder(&path).expect("there already");
        let file = path.join("list");
        // What a process leaves that was killed between writing and renaming.
        fs::write(path.join("list.next"), "half of").expect("written");
        for bytes in [b"one".as_slice(), b"", b"three"] {
            replace_file(&file, bytes).expect("replaced");
            assert_eq!(fs::read(&file).expect("read"), bytes);
        }
        assert_eq!(fs::read_dir(&path).expect("listed").count(), 1);
        assert!(replace_file(&folder.path().join("none/list"), b"").is_err());
        keep_privately(&path, "mine", b"bytes").expect("written");
        let private = folder.path().join("private");
        for bytes in [b"one".as_slice(), b"two"] {
            keep_privately(&private, "mine", bytes).expect("kept");
            assert_eq!(fs::read(private.join("mine")).expect("read"), bytes);
        }
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!((mode(&private), mode(&private.join("mine"))), (0o700, 0o600));
        remove_folder(&path).expect("removed");
        remove_folder(&path).expect("gone already");
        assert!(ensure_folder(&folder.path().join("a/b")).is_err());
    }

    #[test]
    fn one_handle_has_the_right_to_a_folder() {
        let folder = tempfile::tempdir().expect("made");
        let first = FolderLock::take(folder.path()).expect("locks").expect("free");
        assert!(FolderLock::take(folder.path()).expect("asks").is_none());
        drop(first);
        assert!(FolderLock::take(folder.path()).expect("asks").is_some());
    }
}
