//! Plain loops over `pread`, `pwrite` and `read` that hide EINTR and short transfers, for files
//! that are not read through a [`crate::Disk`]: the importer's inputs and temporaries.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;

/// Reads until `buffer` is full or the file ends; says how much arrived.
pub(crate) fn read_full(fd: impl AsFd, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(&fd, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(filled)
}

/// Writes all of `bytes`; a device that takes nothing is an error and not an endless loop.
pub(crate) fn write_full(fd: impl AsFd, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::pwrite(&fd, &bytes[written..], offset + written as u64) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(len) => written += len,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Reads from the current position, once, past signals.
pub(crate) fn read_some(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::io::read(&fd, &mut *buffer) {
            Ok(len) => return Ok(len),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// So many interrupted or postponed calls in a row are an error.
const TRIES_MAX: u32 = 64;

/// Whether the same call may well succeed the next time.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// Makes a call that moves no bytes again while its error is a passing one.
///
/// # Errors
/// That of the call, a passing one too if it comes again and again.
pub fn past_signals<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES_MAX {
        match call() {
            Err(error) if is_passing(&error) => {}
            result => return result,
        }
    }
    call()
}
