//! The reading thread: records from front to back in long pieces, several in flight. A piece of a
//! checksum is one read.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Instant;

use ng_io::{AnonMap, ReadError, ReadOp};
use ng_simd::{copy_streaming, finish_streaming};
use ng_store::SealedError;
use ng_types::checksum;

use super::{Replay, ReplayState};
use crate::SampleError;
use crate::clock::{Wait, Work};
use crate::compiled::CompiledError;
use crate::compiled::file::EpochFile;
use crate::compiled::format::{Entry, PIECE_BYTES};

/// Places of pieces in a tag; the rest names the record.
const PIECE_BITS: u32 = 32;

/// A record on its way.
struct Arriving {
    job: u64,
    batch: u64,
    entry: Entry,
    memory: AnonMap,
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

fn failed(error: ReadError) -> SampleError {
    CompiledError::from(SealedError::from(error)).into()
}

/// Records in the order of their jobs, and the number of the first.
#[derive(Default)]
struct Session {
    arriving: VecDeque<Arriving>,
    first: u64,
    failure: Option<SampleError>,
}

impl Replay {
    /// Loads what is held in memory, then reads the records of all jobs.
    pub fn run_reader(&self) -> Result<(), SampleError> {
        // Set once, by this thread alone.
        let _ = self.loaded.set(self.load()?);
        let waiting = |state: &mut ReplayState| {
            let is_over = state.way.begun == self.shared.jobs.len();
            (is_over || !state.way.free.is_empty()).then_some((!is_over).then_some(state.way.begun))
        };
        while let Some(job) = self.shared.wait_until(Wait::ReadForPlans, waiting)? {
            let (file, _) = self.place(job);
            let file = &self.files[file];
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
        let since = Cell::new(Instant::now());
        let mut next = || {
            let session = &mut *session.borrow_mut();
            if session.failure.is_some() {
                return None;
            }
            if session.arriving.back().is_none_or(|last| last.next == last.crcs.len()) {
                let begun = self.begin(file)?.map_err(|error| session.failure = Some(error));
                session.arriving.push_back(begun.ok()?);
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
                    arriving.crcs[piece] = checksum::of(bytes);
                    let place = arriving.piece(piece);
                    copy_streaming(bytes, &mut arriving.memory.as_mut_slice()[place]);
                    finish_streaming();
                    arriving.left -= 1;
                }
                (Ok(_), None) => {}
                (Err(error), _) => {
                    session.failure.get_or_insert(failed(error));
                }
            }
            self.hand_over(file, session);
            let now = Instant::now();
            self.shared.clock.add(Work::Read, now - since.replace(now));
        };
        let _busy = self.shared.clock.begin(Work::Read);
        file.reader.read(&mut next, &mut done).map_err(failed)?;
        session.into_inner().failure.map_or(Ok(()), Err)
    }

    /// The next record, if it is of `file` and there is memory for it.
    fn begin(&self, file: &EpochFile) -> Option<Result<Arriving, SampleError>> {
        let mut state = self.shared.lock();
        if state.closed || state.failure.is_some() || state.way.begun == self.shared.jobs.len() {
            return None;
        }
        let job = state.way.begun;
        let (next, batch) = self.place(job);
        if !std::ptr::eq(&self.files[next], file) {
            return None;
        }
        let Some(entry) = file.entries.get(batch as usize).copied() else {
            let what = format!("batch {batch} does not exist in the compiled epoch");
            return Some(Err(SampleError::Spec(what)));
        };
        let memory = state.way.free.pop()?;
        state.way.begun += 1;
        let pieces = (entry.bytes as usize).div_ceil(PIECE_BYTES);
        let crcs = vec![0; pieces];
        Some(Ok(Arriving { job, batch, entry, memory, next: 0, left: pieces, crcs }))
    }

    /// Hands records over that are there, in order. After a failure nothing more is: what came next
    /// would be taken for the one that failed.
    fn hand_over(&self, file: &EpochFile, session: &mut Session) {
        while session.failure.is_none()
            && session.arriving.front().is_some_and(|first| first.left == 0)
        {
            let Some(whole) = session.arriving.pop_front() else { return };
            session.first += 1;
            if let Err(error) = file.check_record(whole.batch, &whole.crcs) {
                session.failure = Some(error.into());
                return;
            }
            file.reader.stats().add_useful(whole.entry.bytes);
            self.shared.change(|state| state.way.read.push_back((whole.job, whole.memory)));
        }
    }
}
