//! The user's own files.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ng_io::{SourceFile, SourceReader};

use crate::ImportError;

/// A file that is read once, from its beginning to its end, with the bytes counted.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) file: SourceFile,
    reader: SourceReader,
    read_bytes: Arc<AtomicU64>,
}

/// Opens a file of the user.
pub(crate) fn open(path: &Path) -> Result<SourceFile, ImportError> {
    SourceFile::open(path).map_err(ImportError::Source)
}

impl TextFile {
    pub(crate) fn open(path: &Path) -> Result<Self, ImportError> {
        let file = open(path)?;
        Ok(Self { reader: file.reader(), file, read_bytes: Arc::default() })
    }

    /// The bytes of the file; 0 for a pipe.
    pub(crate) fn len(&self) -> u64 {
        self.file.len().unwrap_or(0)
    }

    /// Counts the bytes that have been read, for progress bars.
    pub(crate) fn read_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read_bytes)
    }
}

impl Read for TextFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
