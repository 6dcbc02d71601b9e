//! [`Appender`]: writes one new file from front to back.
//!
//! The invariant: after the first failure nothing more is written and nothing is retried, so
//! `finish` succeeds only if every byte is durable.

use std::io;
use std::sync::Arc;

use crate::disk::{Access, BLOCK_BYTES, Disk, FileId};
use crate::error::WriteError;
use crate::os::region::Region;
use crate::retry::{is_passing, past_signals};

const BUFFER_BYTES: usize = 1 << 20;

/// So many interrupted or refused writes in a row end the file.
const TRIES_MAX: u32 = 64;

/// A sequential writer of one new file, buffered by 1 MiB.
///
/// See [`crate::Reader`] for an example.
pub struct Appender {
    disk: Arc<dyn Disk>,
    file: FileId,
    name: Arc<str>,
    buffer: Region,
    filled: usize,
    /// Bytes that the disk has taken.
    flushed: u64,
    poisoned: bool,
}

impl Appender {
    /// Memory that each appender holds.
    pub const BUFFER_BYTES: usize = BUFFER_BYTES;

    /// Creates the file; it must not exist.
    pub fn create(disk: Arc<dyn Disk>, name: &str) -> Result<Self, WriteError> {
        let failed =
            |error: io::Error| WriteError::Create { file: name.into(), source: Arc::new(error) };
        let buffer = Region::new(BUFFER_BYTES).map_err(failed)?;
        let file = past_signals(|| disk.open(name, Access::Create)).map_err(failed)?;
        let name = name.into();
        Ok(Self { disk, file, name, buffer, filled: 0, flushed: 0, poisoned: false })
    }

    /// Appends `bytes`.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        self.check()?;
        while !bytes.is_empty() {
            let room = BUFFER_BYTES - self.filled;
            if self.filled == 0 && bytes.len() >= BUFFER_BYTES {
                // Long pieces need no copy; whole buffers keep every write aligned.
                let (whole, rest) = bytes.split_at(bytes.len() / BUFFER_BYTES * BUFFER_BYTES);
                let (disk, at) = (Arc::clone(&self.disk), self.flushed);
                let written = write_all(&*disk, self.file, &self.name, at, whole);
                self.note(written, whole.len())?;
                bytes = rest;
                continue;
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(room));
            self.buffer.as_mut_slice()[self.filled..][..piece.len()].copy_from_slice(piece);
            self.filled += piece.len();
            bytes = rest;
            if self.filled == BUFFER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// How many bytes were appended so far.
    pub fn position(&self) -> u64 {
        self.flushed + self.filled as u64
    }

    /// Appends zeros up to a whole block, makes the file durable and says how long it is. The
    /// caller makes its name durable with [`Disk::sync_dir`].
    pub fn finish(mut self) -> Result<u64, WriteError> {
        self.check()?;
        let padded = self.filled.next_multiple_of(BLOCK_BYTES);
        self.buffer.as_mut_slice()[self.filled..padded].fill(0);
        self.filled = padded;
        self.flush()?;
        match self.disk.sync(self.file) {
            Ok(()) => Ok(self.flushed),
            Err(source) => {
                Err(WriteError::Sync { file: Arc::clone(&self.name), source: Arc::new(source) })
            }
        }
    }

    fn check(&self) -> Result<(), WriteError> {
        if self.poisoned {
            return Err(WriteError::Poisoned { file: Arc::clone(&self.name) });
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let bytes = &self.buffer.as_slice()[..self.filled];
        let written = write_all(&*self.disk, self.file, &self.name, self.flushed, bytes);
        let len = std::mem::take(&mut self.filled);
        self.note(written, len)
    }

    fn note(&mut self, written: Result<(), WriteError>, len: usize) -> Result<(), WriteError> {
        self.poisoned = written.is_err();
        self.flushed += len as u64;
        written
    }
}

/// Writes all of `bytes` at `offset`, past signals and short writes.
pub(crate) fn write_all(
    disk: &dyn Disk,
    file: FileId,
    name: &Arc<str>,
    mut offset: u64,
    mut bytes: &[u8],
) -> Result<(), WriteError> {
    let mut tries = 0;
    while !bytes.is_empty() {
        let error = match disk.write(file, offset, bytes) {
            Ok(0) => io::Error::new(io::ErrorKind::WriteZero, "the device takes no more bytes"),
            Ok(len) => {
                let len = len.min(bytes.len());
                (tries, offset, bytes) = (0, offset + len as u64, &bytes[len..]);
                continue;
            }
            Err(error) => error,
        };
        let passing = is_passing(&error) || error.kind() == io::ErrorKind::WriteZero;
        tries += 1;
        if passing && tries < TRIES_MAX {
            continue;
        }
        let (file, wanted_bytes) = (Arc::clone(name), bytes.len() as u64);
        let full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let source = Arc::new(error);
        return Err(if full {
            WriteError::DiskFull { file, offset, wanted_bytes, source }
        } else {
            WriteError::Io { file, offset, source }
        });
    }
    Ok(())
}
