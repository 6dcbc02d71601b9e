//! What the log files hold, as recovery, `verify` and whoever opens a store read them.
//!
//! A file may have any length and content. Invariant: work and memory are bounded by the records
//! that are there, not by the length of a file.

use crate::bytes::is_zero;
use crate::error::{Damage, OpenError, ReadError};
use crate::io::{BLOCK_BYTES, FileId, Reader};
use crate::limits::RECORD_BYTES_MAX;
use crate::version::base::Version;
use crate::write::error::UpdateError;
use crate::write::log::{BlockHeader, LOG_STEP_BYTES, LOGS, LogPlace, Record, payload};

/// Blocks of a log that are read at once.
const WINDOW_BLOCKS: u64 = 64;
/// Blocks that are looked at to see whether a log goes on.
const LOOK_BLOCKS: u64 = 256;
/// Blocks of no record that there may be: those of one that was torn, or made zeros, and the room
/// that every record has behind it.
const GAP_BLOCKS: u64 = (RECORD_BYTES_MAX + LOG_STEP_BYTES) / BLOCK;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Sees the offset of a block and its header, if it is sound.
type Visit<'a> = dyn FnMut(u64, Option<BlockHeader>, &[u8]) -> Result<(), UpdateError> + 'a;

/// Both log files, open for reading.
pub(super) struct LogFiles<'a> {
    reader: &'a Reader,
    path: &'a str,
    /// Asked many times a second whether to go on.
    go_on: fn() -> bool,
    files: [FileId; 2],
    lens: [u64; 2],
}

/// What the blocks of both files say, whatever their place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Survey {
    /// All commits below were durable once.
    pub durable_below: u64,
    /// The newest commit of which each file has a block.
    pub last_lsn: [u64; 2],
    /// Blocks that are neither sound nor empty.
    pub is_spoiled: bool,
}

/// The record of a commit.
pub(super) struct Found {
    /// Of which file.
    pub file: u8,
    /// Where it ends.
    pub end: u64,
    /// What it holds, or why that is damaged although its blocks are not.
    pub record: Result<Record, Damage>,
}

impl<'a> LogFiles<'a> {
    pub fn open(
        reader: &'a Reader,
        path: &'a str,
        go_on: fn() -> bool,
    ) -> Result<Self, UpdateError> {
        let mut this = Self { reader, path, go_on, files: [FileId(0); 2], lens: [0; 2] };
        for (number, name) in LOGS.into_iter().enumerate() {
            let file = reader.open(name).map_err(ReadError::from)?;
            let len = reader.len(file).map_err(ReadError::from)?;
            if is_cut(len, 0) {
                return Err(this.cut(number as u8, len, LOG_STEP_BYTES));
            }
            (this.files[number], this.lens[number]) = (file, len);
        }
        Ok(this)
    }

    pub fn len(&self, file: u8) -> u64 {
        self.lens[usize::from(file & 1)]
    }

    /// An error unless `file` is as long as it was when the next record was to go to `offset`.
    pub fn check_len(&self, LogPlace { file, offset }: LogPlace) -> Result<(), UpdateError> {
        let len = self.len(file);
        if is_cut(len, offset) {
            return Err(self.cut(file, len, offset.saturating_add(LOG_STEP_BYTES)));
        }
        Ok(())
    }

    pub fn cut(&self, file: u8, found: u64, expected: u64) -> UpdateError {
        let (path, file) = (self.path.to_owned(), LOGS[usize::from(file & 1)].to_owned());
        OpenError::Truncated { path, file, expected, found }.into()
    }

    /// An error if the caller stops the work.
    pub fn go_on(&self) -> Result<(), UpdateError> {
        if (self.go_on)() { Ok(()) } else { Err(UpdateError::Stopped) }
    }

    fn read(&self, file: u8, at: u64, blocks: u64) -> Result<Vec<u8>, UpdateError> {
        let file = self.files[usize::from(file & 1)];
        let bytes = self.reader.read_at(file, at, (blocks * BLOCK) as usize);
        Ok(bytes.map_err(ReadError::from)?)
    }

    /// Shows `visit` the blocks of a file, in order, as long as no more of them are of no record
    /// than there may be, before `place` and behind it; and the last one, which may be a note.
    pub fn walk(
        &self,
        file: u8,
        place: LogPlace,
        visit: &mut Visit<'_>,
    ) -> Result<(), UpdateError> {
        // Power that is lost while the log grows leaves any part of what it would have grown by.
        let end = self.len(file) / BLOCK * BLOCK;
        let place = if file == place.file { place.offset.min(end - BLOCK) } else { 0 };
        let (mut at, mut gap) = (0, GAP_BLOCKS);
        while at < end {
            if gap == 0 {
                at = if at < place { place } else { end - BLOCK };
            }
            self.go_on()?;
            let window = WINDOW_BLOCKS.min((end - at) / BLOCK);
            for block in self.read(file, at, window)?.chunks_exact(BLOCK_BYTES) {
                if at == place {
                    gap = GAP_BLOCKS;
                }
                let header = BlockHeader::decode(block).ok();
                gap = gap.saturating_sub(u64::from(header.is_none()));
                visit(at, header, block)?;
                at += BLOCK;
            }
        }
        Ok(())
    }

    /// Looks at all blocks that may tell of commits; the log goes on at `place`.
    pub fn survey(&self, place: LogPlace) -> Result<Survey, UpdateError> {
        let mut survey = Survey::default();
        for file in 0..2 {
            self.walk(file, place, &mut |_, header, block| {
                match header {
                    Some(header) => {
                        survey.durable_below = survey.durable_below.max(header.group);
                        if !header.is_note() {
                            let last = &mut survey.last_lsn[usize::from(file)];
                            *last = header.lsn.max(*last);
                        }
                    }
                    None => survey.is_spoiled |= !is_zero(block),
                }
                Ok(())
            })?;
        }
        Ok(survey)
    }

    /// The record of commit `lsn`: at `place`, or at the start of the other file.
    pub fn next_record(&self, place: LogPlace, lsn: u64) -> Result<Option<Found>, UpdateError> {
        match self.record_at(place, lsn)? {
            None => self.record_at(LogPlace { file: 1 - place.file, offset: 0 }, lsn),
            found => Ok(found),
        }
    }

    fn record_at(&self, place: LogPlace, lsn: u64) -> Result<Option<Found>, UpdateError> {
        let LogPlace { file, offset } = place;
        let len = self.len(file);
        if !offset.is_multiple_of(BLOCK) || len < offset.saturating_add(BLOCK) {
            return Ok(None);
        }
        let mut bytes = self.read(file, offset, 1)?;
        let Ok(first) = BlockHeader::decode(&bytes) else { return Ok(None) };
        let end = offset.saturating_add(u64::from(first.blocks) * BLOCK);
        if first.lsn != lsn || first.index != 0 || end > len {
            return Ok(None);
        }
        let (mut index, mut joined) = (0, Vec::new());
        loop {
            for block in bytes.chunks_exact(BLOCK_BYTES) {
                if BlockHeader::decode(block) != Ok(BlockHeader { index, ..first }) {
                    return Ok(None);
                }
                joined.extend_from_slice(payload(block));
                index += 1;
            }
            let left = u64::from(first.blocks - index);
            if left == 0 {
                return Ok(Some(Found { file, end, record: Record::decode(joined) }));
            }
            let at = offset + u64::from(index) * BLOCK;
            bytes = self.read(file, at, left.min(WINDOW_BLOCKS))?;
        }
    }
}

/// Whether the log goes on after the root of `version`, or may do so, looked up without reading all
/// of it. The first block of a record may be damaged, so some that follow are looked at, too, and
/// the last of each file, which may be a note.
pub(crate) fn log_goes_on(reader: &Reader, version: &Version) -> Result<bool, ReadError> {
    let Some(log) = version.catalog.log else {
        return Ok(false);
    };
    for (file, offset) in [(log.file, log.offset), (1 - log.file, 0)] {
        let file = reader.open(LOGS[usize::from(file)])?;
        let len = reader.len(file)?;
        if is_cut(len, offset) {
            return Ok(true);
        }
        let left = (len - offset) / BLOCK;
        let look = left.min(LOOK_BLOCKS);
        let last = (left > look).then_some((offset + (left - 1) * BLOCK, 1));
        for (at, blocks) in [Some((offset, look)), last].into_iter().flatten() {
            let bytes = reader.read_at(file, at, (blocks * BLOCK) as usize)?;
            let mut headers = bytes.chunks_exact(BLOCK_BYTES).map(BlockHeader::decode);
            if headers.any(|header| header.is_ok_and(|header| header.leads_past(version.lsn))) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a log is shorter than it was when the next record was to go to `offset`. It may have any
/// length beyond that: power may be lost while it grows.
fn is_cut(len: u64, offset: u64) -> bool {
    len < offset.saturating_add(LOG_STEP_BYTES)
}
