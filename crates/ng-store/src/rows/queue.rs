//! Rows that are asked for before anybody waits for them: they go along with the next reads of
//! lists, and what is left of them is read in one go.
//!
//! What must not live here: which rows are wanted, and what becomes of them. The invariant: rows
//! are those of one snapshot, and are handed out only after the checksums of their blocks held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalog::TensorRef;
use crate::error::ReadError;
use crate::io::{BLOCK_BYTES, READ_BYTES_MAX, ReadOp};
use crate::page::{Beside, Place, Segment, verify_blocks};
use crate::store::Snapshot;
use crate::tensor::layout::RowLayout;
use crate::tensor::reader::{GatherStats, TensorReader, Unread};

const BLOCK: u64 = BLOCK_BYTES as u64;
const REQUEST_BLOCKS_MAX: usize = READ_BYTES_MAX / BLOCK_BYTES;

/// Rows of a snapshot that one thread has asked for.
///
/// What is in memory is copied when it is asked for. [`Snapshot::expand_beside`] and
/// [`RowQueue::read`] read the rest.
pub struct RowQueue {
    snapshot: Snapshot,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    /// The first of them that has reads which were not begun.
    next: usize,
    failure: Option<ReadError>,
}

/// Some rows of a tensor.
struct Asked {
    segment: u32,
    layout: RowLayout,
    /// As they are stored, in the order in which they were asked for.
    rows: Vec<u8>,
    unread: Unread,
    /// Whether rows that are read are kept.
    is_cached: bool,
    /// Blocks whose reads were begun.
    begun: usize,
}

impl Asked {
    /// The blocks of the next read: as many as stand side by side.
    fn next_run(&mut self) -> Option<(usize, u64, usize)> {
        let from = self.begun;
        let rest = self.unread.located.get(from..)?;
        let first = rest.first()?.block;
        let follows = |(step, block): &(u64, u64)| *block == first + step;
        let blocks = (0..).zip(rest.iter().map(|located| located.block));
        let len = blocks.take(REQUEST_BLOCKS_MAX).take_while(follows).count().max(1);
        self.begun += len;
        Some((from, first, len))
    }
}

/// The rows that a call of [`RowQueue::ask`] asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(usize);

impl RowQueue {
    /// An empty one.
    pub fn new(snapshot: &Snapshot) -> Arc<Self> {
        let (inner, version) = (Arc::clone(&snapshot.inner), Arc::clone(&snapshot.version));
        Arc::new(Self { snapshot: Snapshot { inner, version }, state: Mutex::default() })
    }

    /// Asks for the rows of `ids`, as they are stored.
    ///
    /// # Errors
    /// As [`Snapshot::gather`], of what is found out before rows are read.
    pub fn ask(&self, tensor: TensorRef, ids: &[u64]) -> Result<Ticket, ReadError> {
        let snapshot = &self.snapshot;
        let (meta, segment, layout) = snapshot.version.tensor(tensor)?;
        meta.check_rows(ids)?;
        let mut rows = vec![0; ids.len().saturating_mul(meta.row_bytes() as usize)];
        let unread = if meta.is_sparse() {
            snapshot.gather_uncounted(tensor, ids, &mut rows)?;
            (Unread::default(), false)
        } else {
            let numbers = snapshot.rows_of(tensor.owner, ids)?;
            self.find(segment, layout, &numbers, &mut rows)?
        };
        let ((unread, is_cached), segment) = (unread, segment.id);
        let mut state = self.lock();
        state.asked.push(Asked { segment, layout, rows, unread, is_cached, begun: 0 });
        Ok(Ticket(state.asked.len() - 1))
    }

    /// Copies what is in memory of rows of the file, and finds the others; whether they will be
    /// kept.
    fn find(
        &self,
        segment: &Segment,
        layout: RowLayout,
        rows: &[u64],
        out: &mut [u8],
    ) -> Result<(Unread, bool), ReadError> {
        let table = self.snapshot.inner.tables.get(&segment.placed);
        let (is_cached, width) = (table.is_none(), layout.row_bytes());
        let missing: Vec<(usize, u64)> = match table {
            None => rows.iter().copied().enumerate().collect(),
            Some(table) => {
                let missing = table.each(segment, rows, |place, row| {
                    crate::bytes::put(out, place * width, row);
                });
                missing.into_iter().map(|place| (place, rows[place])).collect()
            }
        };
        let unread = self.reader(segment, layout, is_cached).find_rows(&missing, out)?;
        let rows_cached = (rows.len() - missing.len()) as u64 + unread.rows_cached;
        self.snapshot.count_rows(GatherStats { rows: rows.len() as u64, rows_cached });
        Ok((unread, is_cached))
    }

    fn reader<'a>(
        &'a self,
        segment: &'a Segment,
        layout: RowLayout,
        is_cached: bool,
    ) -> TensorReader<'a> {
        let inner = &self.snapshot.inner;
        let pool = inner.row_pool(segment, layout).filter(|_| is_cached);
        TensorReader { pages: &inner.pages, segment, layout, pool }
    }

    /// Reads what was asked for and did not go along with other reads.
    ///
    /// # Errors
    /// As [`Snapshot::gather`], also those of rows that went along.
    pub fn read(&self) -> Result<(), ReadError> {
        let is_left = {
            let state = self.lock();
            let rest = state.asked.get(state.next..).unwrap_or_default();
            rest.iter().any(|asked| asked.begun < asked.unread.located.len())
        };
        if is_left {
            let reader = &self.snapshot.inner.pages.reader;
            reader.read(&mut || self.next(), &mut |op, result| self.done(op, result))?;
        }
        let state = &mut *self.lock();
        let failure = state.failure.take();
        if failure.is_some() {
            *state = State::default();
        }
        failure.map_or(Ok(()), Err)
    }

    /// Hands out rows that were read; none after an error.
    pub fn take(&self, ticket: Ticket) -> Vec<u8> {
        let mut state = self.lock();
        state
            .asked
            .get_mut(ticket.0)
            .map(|asked| std::mem::take(&mut asked.rows))
            .unwrap_or_default()
    }

    fn begin(&self) -> Result<Option<ReadOp>, ReadError> {
        let state = &mut *self.lock();
        if state.failure.is_some() {
            return Ok(None);
        }
        while let Some(asked) = state.asked.get_mut(state.next) {
            let Some((from, block, len)) = asked.next_run() else {
                state.next += 1;
                continue;
            };
            let file = self.snapshot.version.segment(asked.segment)?.data;
            let tag = (state.next as u64) << 32 | from as u64;
            let len = (len * BLOCK_BYTES) as u32;
            return Ok(Some(ReadOp { tag, file, offset: block * BLOCK, len }));
        }
        Ok(None)
    }

    fn finish(&self, op: ReadOp, bytes: &[u8]) -> Result<(), ReadError> {
        let (at, from) = ((op.tag >> 32) as usize, op.tag as u32 as usize);
        let state = &mut *self.lock();
        let Some(asked) = state.asked.get_mut(at) else { return Ok(()) };
        let segment = self.snapshot.version.segment(asked.segment)?;
        let expected = asked.unread.located.get(from..).unwrap_or_default();
        verify_blocks(segment, &segment.file(Place::Data).1, expected, bytes)?;
        let reader = self.reader(segment, asked.layout, asked.is_cached);
        reader.take(&asked.unread, from, bytes, &mut asked.rows);
        Ok(())
    }

    fn fail(&self, error: ReadError) {
        self.lock().failure.get_or_insert(error);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Beside for RowQueue {
    fn next(&self) -> Option<ReadOp> {
        self.begin().unwrap_or_else(|error| {
            self.fail(error);
            None
        })
    }

    fn done(&self, op: ReadOp, result: Result<&[u8], crate::io::ReadError>) {
        let taken = result.map_err(ReadError::from).and_then(|bytes| self.finish(op, bytes));
        taken.unwrap_or_else(|error| self.fail(error));
    }
}
