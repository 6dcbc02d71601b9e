//! [`Appender`]: writes one new file from front to back.
//!
//! The invariant: what is appended comes behind everything that the file has. After the first
//! failure nothing more is written, so `finish` succeeds only if every byte is durable.

use std::sync::Arc;

use crate::disk::{BLOCK_BYTES, Disk};
use crate::error::WriteError;
use crate::os::anon_map::AnonMap;
use crate::writer::Writer;

const BUFFER_BYTES: usize = 1 << 20;
/// How often what was written leaves the page cache.
const LEAVE_EVERY: u64 = 32 << 20;

/// A sequential writer of one new file, buffered by 1 MiB.
///
/// See [`crate::Reader`] for an example.
pub struct Appender {
    file: Writer,
    buffer: AnonMap,
    filled: usize,
    /// The length at which what was written leaves the page cache.
    leave_at: u64,
}

impl Appender {
    /// Memory that each appender holds.
    pub const BUFFER_BYTES: usize = BUFFER_BYTES;

    /// Creates the file; it must not exist.
    pub fn create(disk: Arc<dyn Disk>, name: &str) -> Result<Self, WriteError> {
        let no_memory = |error| WriteError::Create { file: name.into(), source: Arc::new(error) };
        let buffer = AnonMap::new(BUFFER_BYTES).map_err(no_memory)?;
        let file = Writer::create(disk, name)?;
        Ok(Self { file, buffer, filled: 0, leave_at: u64::MAX })
    }

    /// The same, but a file that gets longer than `from` does not stay in the page cache. Otherwise
    /// a file of the size of memory pushes everything else out, and each page that it takes anew
    /// costs the kernel several times what writing to one in use does.
    #[must_use]
    pub fn leaving_cache(self, from: u64) -> Self {
        Self { leave_at: from, ..self }
    }

    /// Appends `bytes`.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        self.file.check()?;
        while !bytes.is_empty() {
            let room = BUFFER_BYTES - self.filled;
            if self.filled == 0 && bytes.len() >= BUFFER_BYTES {
                // Long pieces need no copy; whole buffers keep every write aligned.
                let (whole, rest) = bytes.split_at(bytes.len() / BUFFER_BYTES * BUFFER_BYTES);
                self.file.write_at(self.file.len(), whole)?;
                self.leave_cache();
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
        self.file.len() + self.filled as u64
    }

    /// The file, in which everything stands that was appended so far, to write further parts of it
    /// in place.
    pub fn in_place(&mut self) -> Result<&mut Writer, WriteError> {
        self.flush()?;
        Ok(&mut self.file)
    }

    /// Appends zeros up to a whole block, makes the file durable and says how long it is. The
    /// caller makes its name durable with [`Disk::sync_dir`].
    pub fn finish(mut self) -> Result<u64, WriteError> {
        let padded = self.filled.next_multiple_of(BLOCK_BYTES);
        self.buffer.as_mut_slice()[self.filled..padded].fill(0);
        self.filled = padded;
        self.flush()?;
        self.file.sync()?;
        Ok(self.file.len())
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let len = std::mem::take(&mut self.filled);
        self.file.write_at(self.file.len(), &self.buffer.as_slice()[..len])?;
        self.leave_cache();
        Ok(())
    }

    fn leave_cache(&mut self) {
        let len = self.file.len();
        if len >= self.leave_at {
            self.file.leave_cache(len);
            self.leave_at = len + LEAVE_EVERY;
        }
    }
}
