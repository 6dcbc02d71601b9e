//! Disk space: turns a bare ENOSPC into an error that says where, how much was wanted and how much
//! is left, and starts write-back early.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The payload of an [`io::Error`] of kind `StorageFull`.
#[derive(Debug)]
struct DiskFull {
    path: PathBuf,
    wanted_bytes: u64,
    free_bytes: Option<u64>,
}

impl fmt::Display for DiskFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "no space left to write {} bytes to {path}", self.wanted_bytes)?;
        if let Some(free) = self.free_bytes {
            write!(f, " ({free} bytes free on its file system)")?;
        }
        f.write_str("; free some space or choose another directory")
    }
}

impl Error for DiskFull {}

/// Explains a failed write: a full disk or quota gets the path and the bytes, all else stays as the
/// system said it.
pub(crate) fn explain(errno: Errno, path: &Path, wanted_bytes: u64) -> io::Error {
    if errno != Errno::NOSPC && errno != Errno::DQUOT {
        return errno.into();
    }
    let free_bytes = free_bytes(path);
    let payload = DiskFull { path: path.to_owned(), wanted_bytes, free_bytes };
    io::Error::new(io::ErrorKind::StorageFull, payload)
}

/// Returns the bytes that an unprivileged process can still write to the file system of `path`, if
/// known.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let stat = rustix::fs::statvfs(path)
        .or_else(|_| rustix::fs::statvfs(parent.unwrap_or(Path::new("."))))
        .ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Asks the kernel to start writing the dirty pages of a file, without waiting. It is a hint: an
/// error shows up again at the sync, so it is not looked at here.
pub(crate) fn start_write_back(fd: BorrowedFd<'_>) {
    #[cfg(target_os = "linux")]
    // SAFETY: the descriptor is open for the duration of the call, and no memory is passed.
    let _ = unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_names_the_path_and_both_byte_counts() {
        let error = explain(Errno::NOSPC, Path::new("/tmp/x.dat"), 12_345);
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let text = error.to_string();
        assert!(text.contains("/tmp/x.dat") && text.contains("12345"), "{text}");
        assert!(text.contains("bytes free"), "{text}");
        assert_eq!(explain(Errno::IO, Path::new("x"), 1).raw_os_error(), Some(libc::EIO));
    }
}
