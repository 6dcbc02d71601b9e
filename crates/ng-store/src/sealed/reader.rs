//! [`Sealed`]: everything about a sealed file that is not its contents, read and checked.
//!
//! The invariant: nothing that the bytes claim is believed, or makes memory grow past the file,
//! before it was checked.

use std::path::Path;
use std::sync::Arc;

use ng_io::OpenError;
use ng_types::checksum;
use serde::de::DeserializeOwned;

use super::{
    END_CRC_AT, MAPS_CRC_AT, PREFIX_BYTES, PREFIX_CRC_AT, SealedError, SealedKind, head_bytes,
};
use crate::bytes::{ensure, is_zero, le_u32};
use crate::error::Damage;
use crate::io::{BLOCK_BYTES, FileId, Reader, open_without_queue};
use crate::limits::HEAD_TEXT_BYTES_MAX;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// An open file whose head, maps and last block were checked. Its contents lie in `start..end`.
#[derive(Debug)]
pub struct Sealed<T> {
    /// The file, open in the reader.
    pub file: FileId,
    /// With its directory, for messages.
    pub name: Arc<str>,
    /// What the head says.
    pub text: T,
    /// What stands behind the text.
    pub maps: Vec<u8>,
    /// Where the contents begin.
    pub start: u64,
    /// Where they end: at the last block, or at the end of the file.
    pub end: u64,
    /// The last block; empty if the kind has none.
    pub last: Vec<u8>,
}

impl SealedKind {
    /// The files of this kind in `directory`, by name; none where there is no directory.
    ///
    /// # Errors
    /// [`SealedError::Open`], [`SealedError::Directory`].
    pub fn list(&self, directory: &Path) -> Result<Vec<String>, SealedError> {
        let disk = open_without_queue(directory);
        if let Err(OpenError::NotFound { .. }) = disk {
            return Ok(Vec::new());
        }
        let file = directory.display().to_string();
        let failed = |source| SealedError::Directory { action: "list", file, source };
        let names = disk?.list().map_err(failed)?;
        Ok(names.into_iter().filter(|name| name.ends_with(self.suffix)).collect())
    }

    /// Opens the file `name`; `map_bytes` says how long the maps are that the text tells of.
    ///
    /// # Errors
    /// [`SealedError::Version`], [`SealedError::NotWhole`], [`SealedError::Read`].
    pub fn open<T: DeserializeOwned>(
        &self,
        reader: &Reader,
        name: &str,
        map_bytes: impl FnOnce(&T) -> u64,
    ) -> Result<Sealed<T>, SealedError> {
        let file = reader.open(name)?;
        let name = reader.name(file);
        let not = |what: Damage| self.not_whole(&name, &what);
        let len = reader.len(file)?;
        let end = len.saturating_sub(if self.end_magic.is_some() { BLOCK } else { 0 });
        let is_cut = end < BLOCK || !len.is_multiple_of(BLOCK);
        ensure(!is_cut, || format!("it has {len} bytes")).map_err(not)?;
        let mut head = reader.read_at(file, 0, BLOCK_BYTES)?;
        let last = reader.read_at(file, end, (len - end) as usize)?;
        let found = self.version_of(&head, &last).map_err(not)?;
        if found != self.version {
            let (file, kind, wanted) = (name.to_string(), self.name, self.version);
            return Err(SealedError::Version { file, kind, found, wanted });
        }
        let maps_at = text_blocks(&head, end).map_err(not)?;
        head.extend(reader.read_at(file, BLOCK, maps_at as usize - BLOCK_BYTES)?);
        let text: T = decode_text(&head).map_err(not)?;
        let map_bytes = map_bytes(&text);
        let start = map_bytes.checked_next_multiple_of(BLOCK).and_then(|b| b.checked_add(maps_at));
        let start = start.filter(|start| *start <= end);
        let start = start.ok_or_else(|| not(Damage::new("its maps are truncated")))?;
        let mut maps = reader.read_at(file, maps_at, (start - maps_at) as usize)?;
        let padding = maps.split_off(map_bytes as usize);
        let is_whole = checksum::of(&maps) == le_u32(&head, MAPS_CRC_AT) && is_zero(&padding);
        ensure(is_whole, || "the checksum of its maps is wrong".into()).map_err(not)?;
        Ok(Sealed { file, name, text, maps, start, end, last })
    }

    /// What is said of a file that its kind does not take for whole.
    pub fn not_whole(&self, name: &str, what: &impl ToString) -> SealedError {
        let (file, what) = (name.to_owned(), what.to_string());
        SealedError::NotWhole { file, kind: self.name, what }
    }

    /// The version of a file, from its first and its last block.
    fn version_of(&self, first: &[u8], last: &[u8]) -> Result<u32, Damage> {
        ensure(first.starts_with(self.magic), || "wrong magic bytes".into())?;
        let version = le_u32(first, 8);
        let Some(magic) = self.end_magic else { return Ok(version) };
        ensure(last.starts_with(magic), || "its end is missing".into())?;
        let is_sealed = checksum::is_sealed(last, 0..END_CRC_AT, END_CRC_AT);
        ensure(is_sealed, || "the checksum of its last block is wrong".into())?;
        let other = le_u32(last, 8);
        ensure(version == other, || {
            format!("its first block has version {version}, its last block version {other}")
        })?;
        // Blocks of other versions have other fields.
        let is_own = version != self.version
            || checksum::of(&first[..PREFIX_BYTES]) == le_u32(last, PREFIX_CRC_AT);
        ensure(is_own, || "its last block belongs to another file".into())?;
        Ok(version)
    }
}

/// How many bytes, in whole blocks, the text takes with all before it, in a file that may have them
/// up to `end`.
fn text_blocks(first: &[u8], end: u64) -> Result<u64, Damage> {
    let bytes = le_u32(first, 12) as usize;
    ensure(bytes <= HEAD_TEXT_BYTES_MAX, || format!("a head of {bytes} bytes is too long"))?;
    let blocks = head_bytes(bytes) as u64;
    ensure(blocks <= end, || "its head is truncated".into())?;
    Ok(blocks)
}

fn decode_text<T: DeserializeOwned>(head: &[u8]) -> Result<T, Damage> {
    let text_end = PREFIX_BYTES + le_u32(head, 12) as usize;
    let (text, padding) = (&head[PREFIX_BYTES..text_end], &head[text_end..]);
    let is_whole = checksum::of(text) == le_u32(head, 16);
    ensure(is_whole, || "the checksum of its head is wrong".into())?;
    let zeros = is_zero(&head[MAPS_CRC_AT + 4..PREFIX_BYTES]) && is_zero(padding);
    ensure(zeros, || "the padding of its head is not 0".into())?;
    serde_json::from_slice(text).map_err(|error| Damage::new(error.to_string()))
}
