//! A part of a backup, read front to back.

use std::path::PathBuf;

use ng_types::canary::planted;
use ng_types::checksum;

use crate::error::Damage;
use crate::io::{BLOCK_BYTES, FileId, ReadError, Reader};
use crate::page::{Located, Placed};

use super::error::BackupError;
use super::table::TableSource;

/// What is read at a time.
const WINDOW_BYTES: u64 = 1 << 20;

/// Whether there is no such file.
pub(super) fn is_absent(error: &ReadError) -> bool {
    let is_not_found = |source: &std::io::Error| source.kind() == std::io::ErrorKind::NotFound;
    matches!(error, ReadError::Open { source, .. } if is_not_found(source))
}

pub(super) struct Part {
    reader: Reader,
    file: FileId,
    path: PathBuf,
    /// Whole blocks.
    len: u64,
    window: Vec<u8>,
    /// What of the window was handed out.
    used: usize,
    /// Where the window ends in the file.
    end: u64,
}

impl Part {
    /// Opens the part `name`, which has `len` bytes.
    pub fn open(
        reader: &Reader,
        directory: &std::path::Path,
        name: &str,
        len: u64,
    ) -> Result<Self, BackupError> {
        let path = directory.join(name);
        let damaged = |what: String| BackupError::Damaged { file: directory.join(name), what };
        let file = reader.open(name).map_err(|error| {
            if is_absent(&error) { damaged("the file is missing".into()) } else { error.into() }
        })?;
        let found = reader.len(file)?;
        if found != len || !len.is_multiple_of(BLOCK_BYTES as u64) {
            return Err(damaged(format!("the file has {found} bytes, expected {len}")));
        }
        let (window, used, end) = (Vec::new(), 0, 0);
        Ok(Self { reader: reader.clone(), file, path, len, window, used, end })
    }

    /// The place of the next block.
    pub fn block(&self) -> u64 {
        (self.end - (self.window.len() - self.used) as u64) / BLOCK_BYTES as u64
    }

    pub fn error(&self, what: String) -> BackupError {
        BackupError::Damaged { file: self.path.clone(), what }
    }

    /// Appends the next blocks to `into`, one for each checksum; `of` says whose they are.
    pub fn take(
        &mut self,
        crcs: impl Iterator<Item = u32>,
        into: &mut Vec<u8>,
        of: &dyn Fn() -> String,
    ) -> Result<(), BackupError> {
        for expected in crcs {
            let block = self.block();
            if self.used == self.window.len() {
                self.refill(of)?;
            }
            let bytes = &self.window[self.used..self.used + BLOCK_BYTES];
            let found = checksum::of(bytes);
            if found != expected && !planted("backup_is_not_checked") {
                let what = format!(
                    "block {block} ({}): checksum {found:#010x}, expected {expected:#010x}",
                    of()
                );
                return Err(self.error(what));
            }
            into.extend_from_slice(bytes);
            self.used += BLOCK_BYTES;
        }
        Ok(())
    }

    /// The next bytes, which are whole blocks and have a checksum of their own.
    pub fn next_bytes(&mut self, len: usize) -> Result<Vec<u8>, BackupError> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            if self.used == self.window.len() {
                self.refill(&|| "the catalog".into())?;
            }
            let count = (len - bytes.len()).min(self.window.len() - self.used);
            bytes.extend_from_slice(&self.window[self.used..self.used + count]);
            self.used += count;
        }
        Ok(bytes)
    }

    fn refill(&mut self, of: &dyn Fn() -> String) -> Result<(), BackupError> {
        let len = (self.len - self.end).min(WINDOW_BYTES);
        if len == 0 {
            let what = format!("the file ends at block {}, before {}", self.block(), of());
            return Err(self.error(what));
        }
        self.window = self.reader.read_at(self.file, self.end, len as usize)?;
        (self.used, self.end) = (0, self.end + len);
        Ok(())
    }

    /// That everything was read.
    pub fn finish(&self) -> Result<(), BackupError> {
        let (block, blocks) = (self.block(), self.len / BLOCK_BYTES as u64);
        if block == blocks {
            return Ok(());
        }
        let what = format!("the file has {blocks} blocks, but the page tables list {block}");
        Err(self.error(what))
    }
}

impl TableSource for Part {
    fn read(
        &mut self,
        placed: &Placed,
        places: &[Located],
        into: &mut Vec<u8>,
    ) -> Result<(), BackupError> {
        let of = || format!("the page table of {}", placed.meta.name);
        self.take(places.iter().map(|at| at.crc), into, &of)
    }

    fn damaged(&self, placed: &Placed, page: u64, damage: &Damage) -> BackupError {
        let name = &placed.meta.name;
        self.error(format!("before block {} (page {page} of {name}): {damage}", self.block()))
    }
}
