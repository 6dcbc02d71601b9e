//! One call of [`Reader::read`]: which reads are in flight, and what is done with answers that are
//! not whole.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ng_types::canary::planted;

use super::read_log::LoggedRead;
use super::{Reader, WholeRead};
use crate::disk::{BLOCK_BYTES, FileId, NextRead, READ_BYTES_MAX, ReadOp};
use crate::error::ReadError;
use crate::retry::is_passing;
use crate::stats::IoCounts;

/// So many answers in a row without a new block end a read with [`ReadError::Stalled`].
const TRIES_MAX: u32 = 64;

/// A long session adds to the shared counters after so many answers.
const READS_BETWEEN_COUNTS: u64 = 64;

/// From this try on, the device is given time between tries.
const TRIES_BEFORE_PAUSE: u32 = 8;

const PAUSE: Duration = Duration::from_micros(200);

/// A read that the disk was asked for and has not answered in full.
struct Pending {
    op: ReadOp,
    /// What has arrived so far: whole blocks. Empty unless an answer was short.
    arrived: Vec<u8>,
    /// Answers in a row that brought no new block.
    tries: u32,
    /// Whether it begins where the read before it ended.
    follows: bool,
}

/// What to do with an answer.
enum Verdict {
    /// Hand the device's own bytes out.
    Lend,
    /// Hand out what was put together from several answers.
    Joined(Vec<u8>),
    /// Ask again.
    Again,
    /// Give up.
    Fail(ReadError),
}

#[derive(Default)]
struct State {
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
    again: Vec<usize>,
    in_flight: u64,
    counts: IoCounts,
    /// What goes into a log of reads together with `counts`.
    logged: Vec<LoggedRead>,
    /// Where the last new read ends.
    last_end: Option<(FileId, u64)>,
}

pub(super) struct Session<'a> {
    reader: &'a Reader,
    state: RefCell<State>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.in_flight > 0 {
            self.reader.stats().end_busy();
        }
        state.count(self.reader);
    }
}

impl State {
    /// Hands over what was counted.
    fn count(&mut self, reader: &Reader) {
        reader.stats().add(&std::mem::take(&mut self.counts));
        if !self.logged.is_empty() {
            reader.shared.log.append(&self.logged);
            self.logged.clear();
        }
    }
}

impl<'a> Session<'a> {
    pub fn new(reader: &'a Reader) -> Self {
        Self { reader, state: RefCell::default() }
    }

    pub fn run(self, next: &mut NextRead<'_>, done: &mut WholeRead<'_>) -> Result<(), ReadError> {
        // A read that is refused without asking the device has its answer here, until `done` can
        // be called.
        let refused = RefCell::new(Vec::new());
        let disk = self.reader.disk();
        let mut admit = || {
            loop {
                if let Some(op) = self.repeat() {
                    return Some(op);
                }
                let op = next()?;
                match self.check(&op) {
                    Ok(()) => return Some(self.start(op)),
                    Err(error) => refused.borrow_mut().push((op, error)),
                }
            }
        };
        let result = disk.read(&mut admit, &mut |op, answer| {
            for (op, error) in refused.take() {
                done(op, Err(error));
            }
            self.answer(op, answer, done);
        });
        for (op, error) in refused.take() {
            done(op, Err(error));
        }
        result.and_then(|()| self.check_all_answered()).map_err(|source| ReadError::Queue {
            backend: disk.backend(),
            source: Arc::new(source),
        })
    }

    fn check_all_answered(&self) -> io::Result<()> {
        let lost = self.state.borrow().in_flight;
        if lost == 0 {
            return Ok(());
        }
        Err(io::Error::other(format!("{lost} reads never completed")))
    }

    fn check(&self, op: &ReadOp) -> Result<(), ReadError> {
        let block = BLOCK_BYTES as u64;
        let len = u64::from(op.len);
        let whole = op.offset.is_multiple_of(block) && len % block == 0;
        let sized = len > 0 && len <= READ_BYTES_MAX as u64;
        if whole && sized && op.offset <= i64::MAX as u64 - len {
            return Ok(());
        }
        Err(ReadError::Misaligned { file: self.reader.name(op.file), offset: op.offset, len })
    }

    /// Gives a new read its place, which is the tag that the disk sees.
    fn start(&self, op: ReadOp) -> ReadOp {
        let state = &mut *self.state.borrow_mut();
        let place = state.free.pop().unwrap_or_else(|| {
            state.pending.push(None);
            state.pending.len() - 1
        });
        let follows = state.last_end == Some((op.file, op.offset));
        state.last_end = Some((op.file, op.offset + u64::from(op.len)));
        state.pending[place] = Some(Pending { op, arrived: Vec::new(), tries: 0, follows });
        if state.in_flight == 0 {
            self.reader.stats().begin_busy();
        }
        state.in_flight += 1;
        ReadOp { tag: place as u64, ..op }
    }

    /// The next read that has to be made again, less what has arrived of it.
    fn repeat(&self) -> Option<ReadOp> {
        let state = &mut *self.state.borrow_mut();
        let place = state.again.pop()?;
        let pending = state.pending[place].as_ref()?;
        let arrived = pending.arrived.len() as u32;
        state.counts.retries += 1;
        if pending.tries >= TRIES_BEFORE_PAUSE {
            std::thread::sleep(PAUSE);
        }
        let offset = pending.op.offset + u64::from(arrived);
        let len = pending.op.len - arrived;
        Some(ReadOp { tag: place as u64, offset, len, ..pending.op })
    }

    /// Takes one answer of the disk.
    fn answer(&self, op: ReadOp, answer: io::Result<&[u8]>, done: &mut WholeRead<'_>) {
        let place = op.tag as usize;
        let taken = {
            let state = &mut *self.state.borrow_mut();
            let bytes = answer.as_ref().map_or(0, |bytes| bytes.len());
            state.counts.reads += 1;
            state.counts.read_bytes += bytes as u64;
            state.counts.depth_sum += state.in_flight;
            let taken = state.pending.get_mut(place).and_then(Option::take);
            if self.reader.shared.log.is_on() {
                let follows = taken.as_ref().is_some_and(|pending| pending.follows);
                let (file, offset, bytes) = (op.file, op.offset, bytes as u32);
                state.logged.push(LoggedRead { file, offset, bytes, follows });
            }
            if state.counts.reads >= READS_BETWEEN_COUNTS {
                state.count(self.reader);
            }
            taken
        };
        // An answer to nothing would be a defect of the back end; there is nobody to tell.
        let Some(mut pending) = taken else { return };
        let verdict = self.judge(&mut pending, &answer);
        if let Verdict::Again = verdict {
            let state = &mut *self.state.borrow_mut();
            state.pending[place] = Some(pending);
            state.again.push(place);
            return;
        }
        {
            let state = &mut *self.state.borrow_mut();
            state.free.push(place);
            state.in_flight -= 1;
            if state.in_flight == 0 {
                self.reader.stats().end_busy();
            }
        }
        match (verdict, answer) {
            (Verdict::Joined(bytes), _) => done(pending.op, Ok(&bytes)),
            (Verdict::Fail(error), _) => done(pending.op, Err(error)),
            (_, Ok(bytes)) => done(pending.op, Ok(bytes)),
            (_, Err(_)) => {}
        }
    }

    fn judge(&self, pending: &mut Pending, answer: &io::Result<&[u8]>) -> Verdict {
        let wanted = pending.op.len as usize - pending.arrived.len();
        match answer {
            Ok(bytes) if bytes.len() == wanted && pending.arrived.is_empty() => Verdict::Lend,
            Ok(bytes) if bytes.len() >= wanted => {
                pending.arrived.extend_from_slice(&bytes[..wanted]);
                Verdict::Joined(std::mem::take(&mut pending.arrived))
            }
            // The planted defect: what did not arrive is taken for zeros.
            Ok(bytes) if planted("ignore_short_read") => {
                pending.arrived.extend_from_slice(bytes);
                pending.arrived.resize(pending.op.len as usize, 0);
                Verdict::Joined(std::mem::take(&mut pending.arrived))
            }
            Ok(bytes) => self.judge_short(pending, bytes),
            Err(error) if is_passing(error) => {
                self.once_more(pending, || io::Error::new(error.kind(), error.to_string()))
            }
            Err(error) => {
                let source = io::Error::new(error.kind(), error.to_string());
                let source = error.raw_os_error().map_or(source, io::Error::from_raw_os_error);
                Verdict::Fail(self.reader.io_error(
                    pending.op.file,
                    pending.op.offset,
                    pending.op.len,
                    source,
                ))
            }
        }
    }

    /// Keeps the whole blocks of a short answer; the rest of it is read again, as direct reads have
    /// to start on a block.
    fn judge_short(&self, pending: &mut Pending, bytes: &[u8]) -> Verdict {
        let whole = bytes.len() / BLOCK_BYTES * BLOCK_BYTES;
        if whole > 0 {
            pending.arrived.extend_from_slice(&bytes[..whole]);
            pending.tries = 0;
            return Verdict::Again;
        }
        // Either the file ends here or the device stopped early: only the length can tell.
        let op = pending.op;
        match self.reader.disk().len(op.file) {
            Ok(file_bytes) if file_bytes < op.offset + u64::from(op.len) => {
                let (file, len) = (self.reader.name(op.file), u64::from(op.len));
                Verdict::Fail(ReadError::EndOfFile { file, offset: op.offset, len, file_bytes })
            }
            Ok(_) => self.once_more(pending, || {
                io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the read returned no bytes before \
                                                              the end of the file",
                )
            }),
            Err(error) => Verdict::Fail(self.reader.io_error(op.file, op.offset, op.len, error)),
        }
    }

    fn once_more(&self, pending: &mut Pending, last: impl FnOnce() -> io::Error) -> Verdict {
        pending.tries += 1;
        if pending.tries < TRIES_MAX {
            return Verdict::Again;
        }
        let offset = pending.op.offset + pending.arrived.len() as u64;
        let (file, tries) = (self.reader.name(pending.op.file), pending.tries);
        Verdict::Fail(ReadError::Stalled { file, offset, tries, source: Arc::new(last()) })
    }
}
