//! Small files that an operator writes: configuration, certificates, tokens; and sockets that
//! stand among them.

use std::fs::{self, File, Permissions, metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::SystemTime;

/// Bits of a mode that let others read or change a file, or its group change it.
const OTHERS: u32 = 0o027;

/// Reads a file of `max_bytes` at most.
///
/// # Errors
/// It cannot be read, is larger, or is not a regular file.
pub fn small_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    whole(&File::open(path)?, max_bytes)
}

/// Reads a file that holds secrets: others must not be able to read it, nor its group to change it.
///
/// # Errors
/// As [`small_file`], and the mode of the file lets others in.
pub fn private_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    if mode & OTHERS != 0 {
        let message = format!("others can read or change it (mode {mode:03o}): use mode 600");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    whole(&file, max_bytes)
}

fn whole(file: &File, max_bytes: u64) -> io::Result<Vec<u8>> {
    // A pipe would be waited for without end.
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("it has more than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(bytes)
}

/// What changes when a file is written or replaced: time, length, inode.
pub type Stamp = (Option<SystemTime>, u64, u64);

/// The stamp of a file; `None` if there is no file.
pub fn stamp_of(path: &Path) -> Option<Stamp> {
    let found = metadata(path).ok()?;
    Some((found.modified().ok(), found.len(), found.ino()))
}

/// Binds a Unix socket that only this user can connect to. One that nobody listens at any more is
/// replaced.
///
/// # Errors
/// Another process listens there, something else stands there, or the folder cannot be written.
pub fn private_socket(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is not a socket"));
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err(io::Error::from(io::ErrorKind::AddrInUse));
        }
        _ => {}
    }
    // Under another name until nobody else can connect.
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(format!(".{}", std::process::id()));
    let listener = UnixListener::bind(&hidden)?;
    let shown = fs::set_permissions(&hidden, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&hidden, path));
    if let Err(error) = shown {
        let _gone = fs::remove_file(&hidden);
        return Err(error);
    }
    Ok(listener)
}

/// Removes a socket that nobody listens at any more.
pub fn remove_socket(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        let _gone = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{set_permissions, write};

    use super::*;

    #[test]
    fn secrets_that_others_can_read_are_refused() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("tokens");
        write(&path, "secret").expect("written");
        for (mode, is_private) in [(0o600, true), (0o640, true), (0o644, false), (0o660, false)] {
            set_permissions(&path, Permissions::from_mode(mode)).expect("mode");
            assert_eq!(private_file(&path, 6).is_ok(), is_private, "{mode:o}");
        }
        assert!(small_file(&path, 5).is_err(), "larger than the limit");
        assert!(small_file(dir.path(), 5).is_err(), "a folder");
        let before = stamp_of(&path);
        write(&path, "longer secret").expect("written");
        assert_ne!(before, stamp_of(&path));
        assert_eq!(stamp_of(&dir.path().join("none")), None);
    }

    #[test]
    fn a_socket_is_for_this_user_and_replaces_one_that_is_dead_alone() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("socket");
        let listener = private_socket(&path).expect("bound");
        assert_eq!(metadata(&path).expect("socket").mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        let taken = private_socket(&path).expect_err("taken");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        let again = private_socket(&path).expect("the old one is dead");
        drop(again);
        remove_socket(&path);
        assert!(metadata(&path).is_err());
        write(&path, "a file").expect("written");
        assert!(private_socket(&path).is_err());
        remove_socket(&path);
        assert!(metadata(&path).is_ok(), "a file is not removed");
    }
}
