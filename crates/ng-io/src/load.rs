//! Loading one whole file into memory through a back end, timed: what a back end is worth without
//! an engine above it.
//!
//! What lives here: one function. What must not: which files, page formats. The invariant: the
//! requests are those that the engine makes for neighbouring blocks.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::disk::{BLOCK_BYTES, READ_BYTES_MAX, ReadOp};
use crate::error::{OpenError, ReadError};
use crate::open::{BackendChoice, OpenOptions, open_dir};
use crate::reader::Reader;

/// A file that was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// Its whole blocks.
    pub bytes: Vec<u8>,
    /// Which back end it was, in a sentence.
    pub note: String,
    /// Time for opening the file; the back end `memory` reads it then.
    pub opening: Duration,
    /// Time until all bytes were in one piece of memory.
    pub reading: Duration,
}

/// Why a file could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The back end cannot be used there.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Loads the whole blocks of the file `name` in `directory`. Memory for it is there before the time
/// begins, and what a back end finds out about the directory is not counted either.
///
/// # Errors
/// As [`open_dir`] and [`Reader::read`].
pub fn load_file(directory: &Path, name: &str, choice: BackendChoice) -> Result<Loaded, LoadError> {
    let opened = open_dir(directory, choice, &OpenOptions::default())?;
    let reader = Reader::in_directory(Arc::clone(&opened.disk), directory);
    let start = Instant::now();
    let file = reader.open(name)?;
    let opening = start.elapsed();
    let len = reader.len(file)? as usize / BLOCK_BYTES * BLOCK_BYTES;
    // Touched here, so that no page of it is made while the time runs.
    let mut bytes = vec![1; len];
    let start = Instant::now();
    let mut at = 0;
    let mut next = || {
        let part = (len - at).min(READ_BYTES_MAX);
        let op = ReadOp { tag: 0, file, offset: at as u64, len: part as u32 };
        at += part;
        (part > 0).then_some(op)
    };
    let mut failure = None;
    reader.read(&mut next, &mut |op, result| match result {
        Ok(found) => {
            let start = op.offset as usize;
            if let Some(target) = bytes.get_mut(start..start + found.len()) {
                target.copy_from_slice(found);
            }
        }
        Err(error) => failure = Some(error),
    })?;
    let reading = start.elapsed();
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(Loaded { bytes, note: opened.note, opening, reading }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_back_end_loads_the_same_bytes() {
        let dir = tempfile::tempdir().expect("directory");
        let content: Vec<u8> = (0..READ_BYTES_MAX * 2 + 3 * BLOCK_BYTES + 5)
            .map(|at| (at * 31 + at / 251) as u8)
            .collect();
        std::fs::write(dir.path().join("a.dat"), &content).expect("written");
        for choice in [BackendChoice::Memory, BackendChoice::Mmap, BackendChoice::Pread] {
            let loaded = load_file(dir.path(), "a.dat", choice).expect("loaded");
            assert_eq!(loaded.bytes, content[..content.len() - 5], "{}", loaded.note);
        }
        let missing = load_file(dir.path(), "b.dat", BackendChoice::Pread);
        assert!(matches!(missing, Err(LoadError::Read(_))));
    }
}
