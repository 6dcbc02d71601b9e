//! The reading thread: records from front to back in long pieces, several in flight. A piece of a
//! checksum is one read.

use std::cell::RefCell;
use std::collections::VecDeque;

use ng_io::{ReadError, ReadOp, Region};
use ng_simd::{copy_streaming, finish_streaming};

use super::{Engine, Job, POLL, State};
use crate::SampleError;
use crate::compiled::CompiledError;
use crate::compiled::file::EpochFile;
use crate::compiled::format::{Entry, PIECE_BYTES};

/// Places of pieces in a tag; the rest names the record.
const PIECE_BITS: u32 = 32;

/// A record on its way.
struct Arriving {
    job: Job,
    entry: Entry,
    memory: Region,
    /// The piece that is asked for next.
    next: usize,
    /// Pieces that are not there yet.
    left: usize,
    /// Checksums by piece.
    crcs: Vec<u32>,
}

impl Arriving {
    /// Where piece `piece` is in the record.
    fn piece(&self, piece: usize) -> std::ops::Range<usize> {
        let start = piece * PIECE_BYTES;
        start..(start + PIECE_BYTES).min(self.entry.bytes as usize)
    }
}

/// Records in the order of their jobs, and the number of the first.
#[derive(Default)]
struct Session {
    arriving: VecDeque<Arriving>,
    first: u64,
    failure: Option<SampleError>,
}

impl Engine {
    /// Loads what is held in memory, then reads records until everything stops.
    pub(super) fn read_all(&self) -> Result<(), SampleError> {
        let begun = |state: &mut State| (!state.jobs.is_empty()).then_some(());
        if self.wait_until(POLL, begun).is_none() {
            return Ok(());
        }
        let Some(held) = self.load()? else { return Ok(()) };
        // Set once, by this thread alone.
        let _ = self.held.set(held);
        let waiting = |state: &mut State| {
            let file = state.jobs.front()?.file;
            (!state.records.is_empty()).then_some(file)
        };
        while let Some(file) = self.wait_until(POLL, waiting) {
            let Some(file) = self.files.get(file) else {
                return Err(SampleError::Spec(format!("there is no file number {file}")));
            };
            let before = file.reader.stats().counts();
            let result = self.read_some(file);
            let counts = file.reader.stats().counts().since(&before);
            self.sampler.snapshot().io_stats().add(&counts);
            result?;
        }
        Ok(())
    }

    /// Reads records of `file` as long as the next job is one and there is memory for it.
    fn read_some(&self, file: &EpochFile) -> Result<(), SampleError> {
        let session = RefCell::new(Session::default());
        let mut next = || {
            let session = &mut *session.borrow_mut();
            if session.failure.is_some() {
                return None;
            }
            if session.arriving.back().is_none_or(|last| last.next == last.crcs.len()) {
                let begun = self.begin(file)?;
                match begun {
                    Ok(arriving) => session.arriving.push_back(arriving),
                    Err(error) => {
                        session.failure = Some(error);
                        return None;
                    }
                }
            }
            let number = session.first + session.arriving.len() as u64 - 1;
            let last = session.arriving.back_mut()?;
            let place = last.piece(last.next);
            let tag = number << PIECE_BITS | last.next as u64;
            last.next += 1;
            let offset = last.entry.offset + place.start as u64;
            Some(ReadOp { tag, file: file.file, offset, len: place.len() as u32 })
        };
        let mut done = |op: ReadOp, result: Result<&[u8], ReadError>| {
            let session = &mut *session.borrow_mut();
            let place = ((op.tag >> PIECE_BITS) - session.first) as usize;
            match (result, session.arriving.get_mut(place)) {
                (Ok(bytes), Some(arriving)) => {
                    let piece = op.tag as u32 as usize;
                    // The bytes are near now, so their checksum costs next to nothing.
                    arriving.crcs[piece] = crc32c::crc32c(bytes);
                    let place = arriving.piece(piece);
                    copy_streaming(bytes, &mut arriving.memory.as_mut_slice()[place]);
                    finish_streaming();
                    arriving.left -= 1;
                }
                (Ok(_), None) => {}
                (Err(error), _) => {
                    session.failure.get_or_insert(CompiledError::from(error).into());
                }
            }
            self.hand_over(file, session);
        };
        file.reader.read(&mut next, &mut done).map_err(CompiledError::from)?;
        session.into_inner().failure.map_or(Ok(()), Err)
    }

    /// The next record, if it is of `file` and there is memory for it.
    fn begin(&self, file: &EpochFile) -> Option<Result<Arriving, SampleError>> {
        let mut state = self.gate.lock();
        if state.closed || state.failure.is_some() {
            return None;
        }
        let next = state.jobs.front().copied()?;
        if !self.files.get(next.file).is_some_and(|next| std::ptr::eq(next, file)) {
            return None;
        }
        let Some(entry) = file.entries.get(next.batch as usize).copied() else {
            let what = format!("the compiled epoch has no batch {}", next.batch);
            return Some(Err(SampleError::Spec(what)));
        };
        let memory = state.records.pop()?;
        state.jobs.pop_front();
        let pieces = (entry.bytes as usize).div_ceil(PIECE_BYTES);
        let crcs = vec![0; pieces];
        Some(Ok(Arriving { job: next, entry, memory, next: 0, left: pieces, crcs }))
    }

    /// Hands records over that are there, in order. After a failure nothing more is: what came next
    /// would be taken for the one that failed.
    fn hand_over(&self, file: &EpochFile, session: &mut Session) {
        while session.failure.is_none()
            && session.arriving.front().is_some_and(|first| first.left == 0)
        {
            let Some(whole) = session.arriving.pop_front() else { return };
            session.first += 1;
            if let Err(error) = file.check_record(whole.job.batch, whole.entry, &whole.crcs) {
                session.failure = Some(error.into());
                return;
            }
            file.reader.stats().add_useful(whole.entry.bytes);
            self.gate.change(|state| state.loaded.push_back((whole.job, whole.memory)));
        }
    }
}

/// An error that names a batch of a file.
pub(super) fn damaged(file: &EpochFile, batch: u64, what: String) -> SampleError {
    let offset = file.entries.get(batch as usize).map_or(0, |entry| entry.offset);
    let file = file.reader.name(file.file).to_string();
    CompiledError::Damaged { file, batch, offset, what }.into()
}
