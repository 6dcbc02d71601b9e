//! Small files that an operator writes: configuration, certificates, tokens.

use std::fs::{File, OpenOptions, metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

/// Bits of a mode that let others read or change a file, or its group change it.
const OTHERS: u32 = 0o027;

/// Reads a file of `max_bytes` at most.
///
/// # Errors
/// It cannot be read, is larger, or is not a regular file.
pub fn small_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    whole(&opened(path)?, max_bytes)
}

/// Reads a file that holds secrets: others must not be able to read it, nor its group to change it.
///
/// # Errors
/// As [`small_file`], and the mode of the file lets others in.
pub fn private_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = opened(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    if mode & OTHERS != 0 {
        let message =
            format!("other users can read or change the file (mode {mode:03o}): set mode 600");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    whole(&file, max_bytes)
}

/// Opens a file; a pipe is not waited for.
fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

fn whole(file: &File, max_bytes: u64) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("the file has more than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(bytes)
}

/// A stamp that changes when a file is written or replaced: time, length, inode.
pub type Stamp = (Option<SystemTime>, u64, u64);

/// The stamp of a file; `None` if there is no file.
pub fn stamp_of(path: &Path) -> Option<Stamp> {
    let found = metadata(path).ok()?;
    Some((found.modified().ok(), found.len(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

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
}
