//! Opening a compiled epoch: everything about a file that is not a batch.

use std::path::Path;

use ng_io::{BLOCK_BYTES, BackendChoice, FileId, OpenOptions, Reader, open_dir};
use ng_types::checksum;

use super::error::CompiledError;
use super::format::{Entry, EpochId, EpochKey, Head, PIECE_BYTES, Tail, VERSION};
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
    /// The names of all files of `directory`.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn names(directory: &Path) -> Result<Vec<String>, CompiledError> {
        let options = OpenOptions { queue_depth: 1, ..OpenOptions::default() };
        let disk = open_dir(directory, BackendChoice::Pread, &options)?.disk;
        disk.list().map_err(|source| CompiledError::Directory {
            action: "list",
            file: directory.display().to_string(),
            source,
        })
    }

    /// Opens files of `directory`, which are read by `backend`.
    ///
    /// # Errors
    /// [`CompiledError::NotAnEpoch`] if one is not whole, or was damaged before or behind its
    /// batches; those of opening and reading.
    pub fn open_all<S: AsRef<str>>(
        directory: &Path,
        names: &[S],
        backend: BackendChoice,
    ) -> Result<Vec<Self>, CompiledError> {
        let options = OpenOptions { queue_depth: QUEUE_DEPTH, ..OpenOptions::default() };
        let opened = open_dir(directory, backend, &options)?;
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
        let last = reader.read_at(file, bytes - BLOCK, BLOCK_BYTES)?;
        let found = Head::version(&first).map_err(not)?;
        // Where the end does not agree, the version is damaged.
        if found != VERSION && Tail::version(&last) == Ok(found) {
            let file = reader.name(file).to_string();
            return Err(CompiledError::Version { file, found, wanted: VERSION });
        }
        let text_bytes = Head::text_blocks(&first).map_err(not)?;
        let text = reader.read_at(file, 0, text_bytes)?;
        let (parts, map_bytes) = Head::decode(&text).map_err(not)?;
        let first_record = (text_bytes as u64).saturating_add(map_bytes as u64);
        if first_record > bytes {
            return Err(not("its maps are cut off".into()));
        }
        let maps = reader.read_at(file, text_bytes as u64, map_bytes)?;
        let head = parts.with_maps(&maps).map_err(not)?;
        let tail = Tail::decode(&last).map_err(not)?;
        if tail.head_digest != Head::digest(&first)
            || tail.rows_max.len() != head.hot.tables.len()
            || tail.index_offset > bytes - BLOCK
        {
            return Err(not("its last block is of another file".into()));
        }
        let index_bytes = (bytes - BLOCK - tail.index_offset) as usize;
        let index = reader.read_at(file, tail.index_offset, index_bytes)?;
        let entries = tail.decode_index(&index, first_record).map_err(not)?;
        Ok(Self { reader: reader.clone(), file, head, tail, entries })
    }

    /// Reads every batch and compares it with its checksum; `progress` gets bytes that are done and
    /// all bytes, and stops with false. Says what is damaged, if `progress` has not stopped.
    ///
    /// # Errors
    /// Those of reading.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Vec<CompiledError>, CompiledError> {
        let (all, mut done, mut damaged) = (self.record_bytes(), 0, Vec::new());
        for (batch, entry) in (0_u64..).zip(&self.entries) {
            let mut crcs = Vec::new();
            for start in (0..entry.bytes).step_by(PIECE_BYTES) {
                if !progress(done, all) {
                    return Ok(Vec::new());
                }
                let len = (PIECE_BYTES as u64).min(entry.bytes - start);
                let piece = self.reader.read_at(self.file, entry.offset + start, len as usize)?;
                crcs.push(checksum::of(&piece));
                done += len;
            }
            if let Err(error) = self.check_record(batch, *entry, &crcs) {
                damaged.push(error);
            }
        }
        progress(done, all);
        Ok(damaged)
    }

    /// Compares the checksums of a batch's pieces with what the index has.
    pub(crate) fn check_record(
        &self,
        batch: u64,
        entry: Entry,
        crcs: &[u32],
    ) -> Result<(), CompiledError> {
        let found = checksum::of_pieces(crcs);
        if found == entry.crc {
            return Ok(());
        }
        let what = format!("checksum {found:#010x}, expected {:#010x}", entry.crc);
        let file = self.reader.name(self.file).to_string();
        Err(CompiledError::Damaged { file, batch, offset: entry.offset, what })
    }

    /// Whether it is epoch `train_epoch` of what `key` says.
    ///
    /// # Errors
    /// [`CompiledError::Mismatch`] names the first thing that differs.
    pub fn check_epoch(&self, key: &EpochKey, train_epoch: u64) -> Result<(), CompiledError> {
        self.check(key)?;
        if self.id().train_epoch == train_epoch {
            return Ok(());
        }
        Err(CompiledError::Mismatch {
            file: self.reader.name(self.file).to_string(),
            field: "epoch".into(),
            found: self.id().train_epoch.to_string(),
            wanted: train_epoch.to_string(),
        })
    }

    /// Whether it was made from what `key` says.
    ///
    /// # Errors
    /// [`CompiledError::Mismatch`] names the first thing that differs.
    pub fn check(&self, key: &EpochKey) -> Result<(), CompiledError> {
        let missing = || "nothing".to_owned();
        let fields = key.keys().chain(self.id().key.keys());
        for field in fields {
            let (wanted, found) = (key.get(field), self.id().key.get(field));
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

    /// Which epoch it is.
    pub fn id(&self) -> &EpochId {
        &self.head.id
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
