//! A temporary file that is written once from front to back, and then read.

use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::Path;

use ng_io::{ScratchFile, ScratchReader};

use crate::ImportError;
use crate::failure::scratch_error;

const BUFFER_BYTES: usize = 256 << 10;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Spool {
    file: ScratchFile,
    buffer: Vec<u8>,
    written: u64,
}

impl Spool {
    pub(super) fn create(directory: &Path) -> Result<Self, ImportError> {
        let file = ScratchFile::create_in(directory).map_err(scratch_error)?;
        Ok(Self { file, buffer: Vec::new(), written: 0 })
    }

    pub(super) fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), ImportError> {
        self.file.write_all_at(self.written, &self.buffer).map_err(scratch_error)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Reads a part that has been flushed.
    pub(super) fn reader(&self, range: Range<u64>, buffer_bytes: usize) -> SpoolReader<'_> {
        SpoolReader(BufReader::with_capacity(buffer_bytes, self.file.range_reader(range)))
    }
}

/// Reads a part of a [`Spool`].
pub(super) struct SpoolReader<'a>(BufReader<ScratchReader<'a>>);

impl SpoolReader<'_> {
    /// Fills `bytes`; `false` if nothing is left.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> Result<bool, ImportError> {
        match self.0.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(ImportError::spec(format!("cannot read temporary data: {error}"))),
        }
    }
}
