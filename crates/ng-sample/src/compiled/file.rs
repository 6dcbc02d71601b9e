//! Opening a compiled epoch: everything about a file that is not a batch.

use std::path::Path;

use ng_io::{BLOCK_BYTES, BackendChoice, FileId, OpenOptions, Reader, open_dir};

use super::error::CompiledError;
use super::format::{Entry, EpochKey, Head, Tail};
use super::hot::HotSet;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Reads in flight; staging memory bounds those of the longest kind to 16.
const QUEUE_DEPTH: usize = 128;

/// A whole compiled epoch.
pub struct EpochFile {
    pub(crate) reader: Reader,
    pub(crate) file: FileId,
    pub(crate) head: Head,
    pub(crate) tail: Tail,
    pub(crate) entries: Vec<Entry>,
}

impl EpochFile {
    /// Opens files of `directory`.
    ///
    /// # Errors
    /// [`CompiledError::NotAnEpoch`] if one is not whole, or was damaged before or behind its
    /// batches; those of opening and reading.
    pub fn open_all<S: AsRef<str>>(
        directory: &Path,
        names: &[S],
    ) -> Result<Vec<Self>, CompiledError> {
        let options = OpenOptions { queue_depth: QUEUE_DEPTH, ..OpenOptions::default() };
        let opened = open_dir(directory, BackendChoice::Auto, &options)?;
        let reader = Reader::in_directory(opened.disk, directory);
        names.iter().map(|name| Self::open(&reader, name.as_ref())).collect()
    }

    fn open(reader: &Reader, name: &str) -> Result<Self, CompiledError> {
        let file = reader.open(name)?;
        let bytes = reader.len(file)?;
        let not =
            |what: String| CompiledError::NotAnEpoch { file: reader.name(file).to_string(), what };
        if bytes < 2 * BLOCK || !bytes.is_multiple_of(BLOCK) {
            return Err(not(format!("it has {bytes} bytes")));
        }
        let first = reader.read_at(file, 0, BLOCK_BYTES)?;
        let text_bytes = Head::text_blocks(&first).map_err(not)?;
        let text = reader.read_at(file, 0, text_bytes)?;
        let (parts, map_bytes) = Head::decode(&text).map_err(not)?;
        let first_record = text_bytes as u64 + map_bytes as u64;
        if first_record > bytes {
            return Err(not("its maps are cut off".into()));
        }
        let maps = reader.read_at(file, text_bytes as u64, map_bytes)?;
        let head = parts.with_maps(&maps).map_err(not)?;
        let last = reader.read_at(file, bytes - BLOCK, BLOCK_BYTES)?;
        let tail = Tail::decode(&last).map_err(not)?;
        if tail.rows_max.len() != head.hot.tables.len() || tail.index_offset > bytes - BLOCK {
            return Err(not("its last block is of another file".into()));
        }
        let index_bytes = (bytes - BLOCK - tail.index_offset) as usize;
        let index = reader.read_at(file, tail.index_offset, index_bytes)?;
        let entries = tail.decode_index(&index, first_record).map_err(not)?;
        Ok(Self { reader: reader.clone(), file, head, tail, entries })
    }

    /// Whether it was made from what `key` says.
    ///
    /// # Errors
    /// [`CompiledError::Mismatch`] names the first thing that differs.
    pub fn check(&self, key: &EpochKey) -> Result<(), CompiledError> {
        let missing = || "nothing".to_owned();
        let fields = key.keys().chain(self.head.key.keys());
        for field in fields {
            let (wanted, found) = (key.get(field), self.head.key.get(field));
            if wanted != found {
                return Err(CompiledError::Mismatch {
                    file: self.reader.name(self.file).to_string(),
                    field: field.clone(),
                    found: found.cloned().unwrap_or_else(missing),
                    wanted: wanted.cloned().unwrap_or_else(missing),
                });
            }
        }
        Ok(())
    }

    /// Everything that shaped it, but for the number of the epoch.
    pub fn key(&self) -> &EpochKey {
        &self.head.key
    }

    /// Which epoch it is.
    pub fn train_epoch(&self) -> u64 {
        self.head.train_epoch
    }

    /// Which rows its batches do not carry.
    pub fn hot(&self) -> &HotSet {
        &self.head.hot
    }

    /// How many batches it has.
    pub fn num_batches(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Bytes of all batches.
    pub fn record_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }
}
