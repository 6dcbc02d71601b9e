//! [`SealedWriter`]: a file that has a temporary name until it is whole and durable.
//!
//! The invariants: what an interrupted writer left is never read, and is removed by the next one of
//! the same name; the lock is held from before the first byte until the file has its name.

use std::path::Path;
use std::sync::Arc;

use ng_io::Lock;
use ng_types::checksum;
use serde::Serialize;

use super::{
    END_CRC_AT, MAPS_CRC_AT, PREFIX_BYTES, PREFIX_CRC_AT, SealedError, SealedKind, head_bytes,
};
use crate::bytes::put;
use crate::io::{Appender, BLOCK_BYTES, Disk, open_without_queue};
use crate::limits::HEAD_TEXT_BYTES_MAX;

/// A sealed file that is being written. Nothing of it stays if it is dropped before
/// [`SealedWriter::seal`].
pub struct SealedWriter {
    kind: &'static SealedKind,
    file: Appender,
    prefix_crc: u32,
    partial: Partial,
    _lock: Lock,
}

impl SealedWriter {
    /// Memory that each writer holds.
    pub const BUFFER_BYTES: u64 = Appender::BUFFER_BYTES as u64;

    /// Begins the file `name` of `directory` with a head that has `text` and `maps`. A file of that
    /// name is replaced when this one is sealed.
    ///
    /// # Errors
    /// [`SealedError::Busy`] if somebody else writes into the directory; those of writing.
    pub fn create(
        directory: &Path,
        name: &str,
        kind: &'static SealedKind,
        text: &impl Serialize,
        maps: &[u8],
    ) -> Result<Self, SealedError> {
        let file = directory.join(name).display().to_string();
        let failed = |action| {
            let file = file.clone();
            move |source| SealedError::Directory { action, file, source }
        };
        let disk = open_without_queue(directory)?;
        let lock = disk.lock_writer().map_err(failed("lock the directory of"))?;
        let Some(lock) = lock else { return Err(SealedError::Busy { file }) };
        let head = kind.encode_head(text, maps).map_err(failed("write the head of"))?;
        match disk.remove(&Partial::name_for(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("remove leftovers of")(error));
            }
            _ => {}
        }
        let file = Appender::create(Arc::clone(&disk), &Partial::name_for(name))?;
        let partial = Partial { disk, name: Some(name.to_owned()) };
        let prefix_crc = checksum::of(&head[..PREFIX_BYTES]);
        let mut writer = Self { kind, file, prefix_crc, partial, _lock: lock };
        for part in [&head, maps] {
            writer.append(part)?;
            writer.pad_to(BLOCK_BYTES as u64)?;
        }
        Ok(writer)
    }

    /// Appends `bytes` to all that was written.
    ///
    /// # Errors
    /// [`SealedError::Write`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), SealedError> {
        Ok(self.file.write(bytes)?)
    }

    /// Appends zeros up to a multiple of `bytes`, which is at most a page.
    ///
    /// # Errors
    /// [`SealedError::Write`].
    pub fn pad_to(&mut self, bytes: u64) -> Result<(), SealedError> {
        let missing = self.position().next_multiple_of(bytes) - self.position();
        self.append(&vec![0; missing as usize])
    }

    /// How many bytes the file has so far.
    pub fn position(&self) -> u64 {
        self.file.position()
    }

    /// Reserves space for the first `bytes` of the file, to fail early where there is not enough.
    ///
    /// # Errors
    /// [`SealedError::Write`].
    pub fn allocate(&mut self, bytes: u64) -> Result<(), SealedError> {
        Ok(self.file.in_place()?.allocate(bytes)?)
    }

    /// Writes whole pages at `offset`, in any order.
    ///
    /// # Errors
    /// [`SealedError::Write`].
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), SealedError> {
        Ok(self.file.in_place()?.write_at(offset, bytes)?)
    }

    /// Makes the file durable and gives it its name; says how long it is. `end` is the last block
    /// of a kind that has one, without what every last block has.
    ///
    /// # Errors
    /// [`SealedError::Write`], [`SealedError::Directory`].
    ///
    /// # Panics
    /// If `end` is given for a kind without a last block, or missing for one with it.
    pub fn seal(mut self, end: Option<Vec<u8>>) -> Result<u64, SealedError> {
        assert_eq!(end.is_some(), self.kind.end_magic.is_some(), "a last block as the kind has it");
        if let (Some(mut end), Some(magic)) = (end, self.kind.end_magic) {
            end.resize(BLOCK_BYTES, 0);
            put(&mut end, 0, magic);
            put(&mut end, 8, &self.kind.version.to_le_bytes());
            put(&mut end, PREFIX_CRC_AT, &self.prefix_crc.to_le_bytes());
            checksum::seal(&mut end, 0..END_CRC_AT, END_CRC_AT);
            self.append(&end)?;
        }
        let bytes = self.file.finish()?;
        self.partial.publish()?;
        Ok(bytes)
    }
}

impl SealedKind {
    /// The head before the maps, without the zeros behind it.
    fn encode_head(&self, text: &impl Serialize, maps: &[u8]) -> std::io::Result<Vec<u8>> {
        let text = serde_json::to_vec(text)?;
        if text.len() > HEAD_TEXT_BYTES_MAX {
            let what =
                format!("its text has {} bytes, more than {HEAD_TEXT_BYTES_MAX}", text.len());
            return Err(std::io::Error::other(what));
        }
        let mut bytes = Vec::with_capacity(head_bytes(text.len()));
        bytes.extend(self.magic);
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(checksum::of(&text).to_le_bytes());
        debug_assert_eq!(bytes.len(), MAPS_CRC_AT, "the order of fields");
        bytes.extend(checksum::of(maps).to_le_bytes());
        bytes.resize(PREFIX_BYTES, 0);
        bytes.extend(text);
        Ok(bytes)
    }
}

/// A file under its temporary name, which is removed unless the file gets its own.
struct Partial {
    disk: Arc<dyn Disk>,
    /// The final name.
    name: Option<String>,
}

impl Partial {
    fn name_for(name: &str) -> String {
        format!("{name}.partial")
    }

    /// Gives the file its name.
    fn publish(&mut self) -> Result<(), SealedError> {
        let Some(name) = self.name.take() else { return Ok(()) };
        let renamed = self.disk.rename(&Self::name_for(&name), &name);
        renamed.and_then(|()| self.disk.sync_dir()).map_err(|source| {
            let action = "rename";
            SealedError::Directory { action, file: name, source }
        })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // What cannot be removed now is removed by the next writer.
            let _ = self.disk.remove(&Self::name_for(name));
        }
    }
}
