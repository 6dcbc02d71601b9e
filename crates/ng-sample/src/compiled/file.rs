//! Opening a compiled epoch: everything about a file that is not a batch.

use std::path::Path;
use std::sync::Arc;

use ng_io::{BackendChoice, FileId, OpenOptions, Reader, open_dir};
use ng_store::{Sealed, SealedError};
use ng_types::checksum;

use super::error::CompiledError;
use super::format::{EPOCH, Entry, EpochId, EpochKey, Head, HeadText, PIECE_BYTES, Tail};
use super::hot::HotSet;

/// Reads in flight; staging memory bounds those of the longest kind to 16.
const QUEUE_DEPTH: usize = 128;

/// A whole compiled epoch.
pub struct EpochFile {
    pub(crate) reader: Reader,
    pub(crate) file: FileId,
    name: Arc<str>,
    /// Where hot rows or records begin.
    pub(super) start: u64,
    pub(crate) head: Head,
    pub(crate) tail: Tail,
    pub(crate) entries: Vec<Entry>,
}

impl EpochFile {
    /// Opens files of `directory`, which are read by `backend`.
    ///
    /// # Errors
    /// [`CompiledError::Sealed`] if one is not whole, or was damaged before or behind its
    /// batches; those of opening and reading.
    pub fn open_all<S: AsRef<str>>(
        directory: &Path,
        names: &[S],
        backend: BackendChoice,
    ) -> Result<Vec<Self>, CompiledError> {
        let options = OpenOptions { queue_depth: QUEUE_DEPTH, ..OpenOptions::default() };
        let opened = open_dir(directory, backend, &options).map_err(SealedError::from)?;
        let reader = Reader::in_directory(opened.disk, directory);
        names.iter().map(|name| Self::open(&reader, name.as_ref())).collect()
    }

    fn open(reader: &Reader, name: &str) -> Result<Self, CompiledError> {
        let sealed = EPOCH.open(reader, name, HeadText::map_bytes)?;
        let not = |what: String| EPOCH.not_whole(&sealed.name, &what);
        let head = Head::decode(sealed.text, &sealed.maps).map_err(not)?;
        let tail = Tail::decode(&sealed.last).map_err(not)?;
        if tail.rows_max.len() != head.hot.tables.len() || tail.index_offset > sealed.end {
            return Err(not("its last block belongs to another file".into()).into());
        }
        let hot_bytes = if head.id.has_hot_rows() { head.hot.part_bytes() } else { 0 };
        if hot_bytes == 0 && tail.hot_crc != 0 {
            return Err(not("it has a checksum of hot rows, but no hot rows".into()).into());
        }
        let first = sealed.start.saturating_add(hot_bytes);
        let index_bytes = (sealed.end - tail.index_offset) as usize;
        let index = reader.read_at(sealed.file, tail.index_offset, index_bytes);
        let entries = tail.decode_index(&index.map_err(SealedError::from)?, first);
        let (entries, reader) = (entries.map_err(not)?, reader.clone());
        let Sealed { file, name, start, .. } = sealed;
        Ok(Self { reader, file, name, start, head, tail, entries })
    }

    /// Reads every batch and the hot rows and compares them with their checksums; `progress` gets
    /// bytes that are done and all bytes, and stops with false. Says what is damaged, if `progress`
    /// has not stopped.
    ///
    /// # Errors
    /// Those of reading.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Vec<CompiledError>, CompiledError> {
        let all = self.record_bytes() + self.hot_bytes();
        let (mut done, mut damaged) = (0, Vec::new());
        let goes_on = || progress(0, all);
        match self.read_hot(goes_on, &mut |_, _, _| ()) {
            Ok(true) => done += self.hot_bytes(),
            Ok(false) => return Ok(Vec::new()),
            Err(error @ CompiledError::Sealed(SealedError::NotWhole { .. })) => damaged.push(error),
            Err(error) => return Err(error),
        }
        for (batch, entry) in (0_u64..).zip(&self.entries) {
            let mut crcs = Vec::new();
            for start in (0..entry.bytes).step_by(PIECE_BYTES) {
                if !progress(done, all) {
                    return Ok(Vec::new());
                }
                let len = (PIECE_BYTES as u64).min(entry.bytes - start);
                let piece = self.reader.read_at(self.file, entry.offset + start, len as usize);
                crcs.push(checksum::of(&piece.map_err(SealedError::from)?));
                done += len;
            }
            if let Err(error) = self.check_record(batch, &crcs) {
                damaged.push(error);
            }
        }
        progress(done, all);
        Ok(damaged)
    }

    /// Compares the checksums of a batch's pieces with what the index has.
    pub(crate) fn check_record(&self, batch: u64, crcs: &[u32]) -> Result<(), CompiledError> {
        let (found, expected) = (checksum::of_pieces(crcs), self.entries[batch as usize].crc);
        if found == expected {
            return Ok(());
        }
        Err(self.damaged(batch, format!("checksum {found:#010x}, expected {expected:#010x}")))
    }

    /// What is said of hot rows that are not what the format says.
    pub(super) fn hot_damaged(&self, what: &str) -> CompiledError {
        EPOCH.not_whole(&self.name, &format!("its hot rows: {what}")).into()
    }

    /// What is said of a batch that is not what the format says.
    pub(crate) fn damaged(&self, batch: u64, what: String) -> CompiledError {
        let (file, offset) = (self.name.to_string(), self.entries[batch as usize].offset);
        CompiledError::Damaged { file, batch, offset, what }
    }

    /// What is said of a file that was made from something else.
    pub(crate) fn mismatch(&self, field: &str, found: String, wanted: String) -> CompiledError {
        let (file, field) = (self.name.to_string(), field.to_owned());
        CompiledError::Mismatch { file, field, found, wanted }
    }

    /// Checks that it is epoch `epoch` of the settings `key`.
    ///
    /// # Errors
    /// [`CompiledError::Mismatch`] names the first thing that differs.
    pub fn check_epoch(&self, key: &EpochKey, epoch: u64) -> Result<(), CompiledError> {
        self.check(key)?;
        if self.id().epoch == epoch {
            return Ok(());
        }
        let found = self.id().epoch.to_string();
        Err(self.mismatch("epoch", found, epoch.to_string()))
    }

    /// Checks that it was compiled with the settings `key`.
    ///
    /// # Errors
    /// [`CompiledError::Mismatch`] names the first thing that differs.
    pub fn check(&self, key: &EpochKey) -> Result<(), CompiledError> {
        let own = &self.id().key;
        let differs = key.keys().chain(own.keys()).find(|field| key.get(*field) != own.get(*field));
        let Some(field) = differs else { return Ok(()) };
        let value = |of: &EpochKey| of.get(field).cloned().unwrap_or_else(|| "nothing".into());
        Err(self.mismatch(field, value(own), value(key)))
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
