//! Reading rows by plan, past the caches: which blocks hold them, which requests bring those, and
//! one queue that stays full from one plan to the next.
//!
//! What lives here: [`RowPlan`] and the loop that reads plans. What must not: who wants the rows,
//! when they are wanted, where they are kept. The invariant: a row's bytes are lent only after the
//! checksums of their blocks held; blocks that were read because they lie in a gap are not looked
//! at.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::TensorRef;
use crate::error::ReadError;
use crate::io::{BLOCK_BYTES, READ_BYTES_MAX, ReadOp};
use crate::page::{Located, Segment, data_file, verify_blocks};
use crate::store::Snapshot;
use crate::tensor::layout::RowLayout;

const BLOCK: u64 = BLOCK_BYTES as u64;
const REQUEST_BLOCKS_MAX: u64 = (READ_BYTES_MAX / BLOCK_BYTES) as u64;

/// How requests of a [`RowPlan`] are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// One request for each row, even where rows share a block: what a loader does that hands
    /// every missing row to the device by itself.
    Never,
    /// Blocks at most so many blocks apart come in one request of at most 256 KiB.
    Gaps(u32),
}

/// Where one row is among the blocks of a plan.
#[derive(Clone, Copy, Debug)]
struct RowAt {
    /// Place in the rows that were asked for.
    index: u32,
    /// Place of its first block in `located`.
    first: u32,
    /// First byte in that block.
    offset: u16,
}

/// One device request.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// The first of its wanted blocks in `located`, and how many they are.
    first: u32,
    count: u32,
    /// What is read: wanted blocks and those between them.
    block: u64,
    blocks: u32,
}

/// The requests that bring some rows of one tensor.
#[derive(Debug)]
pub struct RowPlan {
    segment: u32,
    width: usize,
    rows: Vec<RowAt>,
    located: Vec<Located>,
    requests: Vec<Request>,
    /// Rows whose bytes a commit has changed and no checkpoint has written: they are in memory.
    changed: Vec<(u32, u64)>,
}

impl RowPlan {
    /// Bytes that a plan takes for each row, rows of at most a block.
    pub const BYTES_PER_ROW: u64 = 12 + 16 + 24;

    /// Bytes that the requests read.
    pub fn read_bytes(&self) -> u64 {
        self.requests.iter().map(|request| u64::from(request.blocks) * BLOCK).sum()
    }

    /// Cuts the listed blocks into requests.
    fn cut(&mut self, gap: u64) {
        let mut open: Option<Request> = None;
        for (place, located) in self.located.iter().enumerate() {
            if let Some(request) = &mut open {
                let end = request.block + u64::from(request.blocks);
                let len = located.block.wrapping_sub(request.block).wrapping_add(1);
                if located.block >= end && located.block - end <= gap && len <= REQUEST_BLOCKS_MAX {
                    request.count += 1;
                    request.blocks = len as u32;
                    continue;
                }
                self.requests.push(*request);
            }
            open = Some(Request { first: place as u32, count: 1, block: located.block, blocks: 1 });
        }
        self.requests.extend(open);
    }

    /// One request for the blocks of each row; rows wider than a request take several.
    fn cut_by_row(&mut self, blocks_of: impl Fn(&RowAt) -> u64) {
        for row in &self.rows {
            let (mut at, end) = (u64::from(row.first), u64::from(row.first) + blocks_of(row));
            while at < end {
                let rest = &self.located[at as usize..end as usize];
                let first = rest[0];
                let follows = |(step, l): (usize, &Located)| l.block == first.block + step as u64;
                let run = rest.iter().enumerate().take_while(|item| follows(*item)).count() as u64;
                let count = run.min(REQUEST_BLOCKS_MAX) as u32;
                let request =
                    Request { first: at as u32, count, block: first.block, blocks: count };
                self.requests.push(request);
                at += u64::from(count);
            }
        }
    }

    /// What a request brought of every row that it touches.
    fn parts<'a>(&self, request: &Request, bytes: &'a [u8]) -> Vec<RowPart<'a>> {
        let (from, end) = (request.first, request.first + request.count);
        let blocks = |row: &RowAt| (usize::from(row.offset) + self.width).div_ceil(BLOCK_BYTES);
        let start = self.rows.partition_point(|row| row.first + blocks(row) as u32 <= from);
        let mut parts = Vec::with_capacity(request.count as usize);
        for row in &self.rows[start..] {
            if row.first >= end {
                break;
            }
            let last = (row.first + blocks(row) as u32).min(end);
            for place in row.first.max(from)..last {
                let block =
                    (self.located[place as usize].block - request.block) as usize * BLOCK_BYTES;
                let before = (place - row.first) as usize * BLOCK_BYTES;
                let offset = usize::from(row.offset);
                let (start, skip) = if before == 0 { (offset, 0) } else { (0, before - offset) };
                let len = (BLOCK_BYTES - start).min(self.width - skip);
                let part = &bytes[block + start..block + start + len];
                parts.push(RowPart { row: row.index as usize, skip, bytes: part });
            }
        }
        parts
    }
}

/// Bytes of one row that a request brought.
#[derive(Clone, Copy, Debug)]
pub struct RowPart<'a> {
    /// Place of the row in those that were planned.
    pub row: usize,
    /// The first of the bytes in the row.
    pub skip: usize,
    /// The bytes; less than a row where it spans blocks.
    pub bytes: &'a [u8],
}

/// What [`Snapshot::read_plans`] reads: a plan, and whatever its owner needs when rows arrive.
pub trait Planned {
    /// The plan.
    fn plan(&self) -> &RowPlan;
}

impl Snapshot {
    /// Plans the reading of `rows`, which ascend and are distinct, of a tensor: rows of the file,
    /// see [`Snapshot::load_order`].
    ///
    /// # Errors
    /// [`ReadError::RowOutOfRange`], [`ReadError::Missing`], and those of reading the page table.
    pub fn plan_rows(
        &self,
        tensor: TensorRef,
        rows: &[u64],
        merge: Merge,
    ) -> Result<RowPlan, ReadError> {
        let (meta, segment, layout) = self.version.tensor(tensor)?;
        if let Some(row) = rows.last().filter(|row| **row >= meta.num_rows) {
            let (tensor, num_rows) = (meta.name.clone(), meta.num_rows);
            return Err(ReadError::RowOutOfRange { tensor, row: *row, num_rows });
        }
        let mut plan = RowPlan {
            segment: meta.segment,
            width: layout.row_bytes(),
            rows: Vec::with_capacity(rows.len()),
            located: Vec::new(),
            requests: Vec::new(),
            changed: Vec::new(),
        };
        let blocks = list_blocks(segment, layout, rows, merge, &mut plan)?;
        plan.located = self.inner.pages.resolve(segment, &blocks)?;
        if let Some(at) = plan.located.iter().position(|place| *place == Located::NOWHERE) {
            let block = blocks.get(at).copied().unwrap_or(0);
            return Err(segment.nowhere(block / segment.blocks_per_page()));
        }
        match merge {
            Merge::Gaps(gap) => plan.cut(u64::from(gap)),
            Merge::Never => plan.cut_by_row(|row| {
                (u64::from(row.offset) + layout.row_bytes() as u64).div_ceil(BLOCK)
            }),
        }
        Ok(plan)
    }

    /// The 4 KiB blocks of a tensor that row `row` of the file lies on, counted from its first.
    ///
    /// # Errors
    /// [`ReadError::Missing`].
    pub fn blocks_of_row(&self, tensor: TensorRef, row: u64) -> Result<Range<u64>, ReadError> {
        let (_, _, layout) = self.version.tensor(tensor)?;
        let place = layout.place(row);
        Ok(place.block..place.block + layout.blocks(place))
    }

    /// Reads plan after plan through one queue, until `next` has none while nothing is in flight.
    ///
    /// `next` is asked for another plan as soon as all requests of the last are under way, so the
    /// queue stays full from one to the next. `take` gets an item and the rows that one request
    /// brought of it, in parts where a row spans blocks, and is allowed to change their order.
    /// `done` gets an item when all its rows were lent.
    ///
    /// # Errors
    /// [`ReadError::Checksum`], [`ReadError::Io`]: the first that happened; nothing new is begun
    /// after it.
    pub fn read_plans<T: Planned>(
        &self,
        next: &mut dyn FnMut() -> Option<Arc<T>>,
        take: &mut TakeItem<'_, T>,
        done: &mut dyn FnMut(Arc<T>),
    ) -> Result<(), ReadError> {
        let state = State { active: VecDeque::new(), first: 0, failure: None };
        let run = Run {
            snapshot: self,
            state: RefCell::new(state),
            take: RefCell::new(take),
            done: RefCell::new(done),
        };
        let mut admit = || run.admit(next);
        self.inner.pages.reader.read(&mut admit, &mut |op, result| run.answer(op, result))?;
        run.state.into_inner().failure.map_or(Ok(()), Err)
    }
}

/// The blocks of `rows` that are on disk, ascending, while `plan` learns where each row is.
fn list_blocks(
    segment: &Segment,
    layout: RowLayout,
    rows: &[u64],
    merge: Merge,
    plan: &mut RowPlan,
) -> Result<Vec<u64>, ReadError> {
    let per_page = segment.blocks_per_page();
    let mut blocks: Vec<u64> = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let place = layout.place(*row);
        if !segment.changed.is_empty() && segment.changed_page(place.block / per_page)?.is_some() {
            plan.changed.push((index as u32, *row));
            continue;
        }
        let end = place.block + layout.blocks(place);
        let known = match (merge, blocks.last()) {
            (Merge::Gaps(_), Some(last)) => (last + 1).saturating_sub(place.block),
            _ => 0,
        };
        let known = known.min(end - place.block);
        let first = (blocks.len() - known as usize) as u32;
        plan.rows.push(RowAt { index: index as u32, first, offset: place.offset as u16 });
        blocks.extend(place.block + known..end);
    }
    Ok(blocks)
}

/// A plan that is being read.
struct Active<T> {
    item: Arc<T>,
    /// The request to be made next.
    next: usize,
    /// Requests without an answer.
    left: usize,
}

struct State<T> {
    /// Plans under way, by the order of their beginning from `first` on; `None` is done.
    active: VecDeque<Option<Active<T>>>,
    first: u64,
    failure: Option<ReadError>,
}

struct Run<'a, T> {
    snapshot: &'a Snapshot,
    state: RefCell<State<T>>,
    take: RefCell<&'a mut TakeItem<'a, T>>,
    done: RefCell<&'a mut (dyn FnMut(Arc<T>) + 'a)>,
}

/// Takes rows of an item that arrived together.
pub type TakeItem<'a, T> = dyn FnMut(&T, &mut [RowPart<'_>]) + 'a;

impl<T: Planned> Run<'_, T> {
    fn admit(&self, next: &mut dyn FnMut() -> Option<Arc<T>>) -> Option<ReadOp> {
        loop {
            if self.state.borrow().failure.is_some() {
                return None;
            }
            if let Some(op) = self.next_request() {
                return Some(op);
            }
            let item = next()?;
            if let Err(error) = self.lend_changed(&item) {
                self.state.borrow_mut().failure = Some(error);
                return None;
            }
            let left = item.plan().requests.len();
            if left == 0 {
                (self.done.borrow_mut())(item);
                continue;
            }
            self.state.borrow_mut().active.push_back(Some(Active { item, next: 0, left }));
        }
    }

    /// The next request of the newest plan; older ones have none left.
    fn next_request(&self) -> Option<ReadOp> {
        let mut state = self.state.borrow_mut();
        let number = (state.first + state.active.len() as u64).checked_sub(1)?;
        let active = state.active.back_mut()?.as_mut()?;
        let plan = active.item.plan();
        let request = plan.requests.get(active.next)?;
        let segment = self.snapshot.version.segment(plan.segment).ok()?;
        let op = ReadOp {
            tag: number << 32 | active.next as u64,
            file: segment.data,
            offset: request.block * BLOCK,
            len: request.blocks * BLOCK_BYTES as u32,
        };
        active.next += 1;
        Some(op)
    }

    fn answer(&self, op: ReadOp, result: Result<&[u8], crate::io::ReadError>) {
        let number = op.tag >> 32;
        let (place, item) = {
            let state = self.state.borrow();
            let place = (number - state.first) as usize;
            let Some(Some(active)) = state.active.get(place) else { return };
            (place, Arc::clone(&active.item))
        };
        let outcome = result
            .map_err(ReadError::from)
            .and_then(|bytes| self.lend(&item, (op.tag as u32) as usize, bytes));
        let mut state = self.state.borrow_mut();
        if let Err(error) = outcome {
            state.failure.get_or_insert(error);
            return;
        }
        let Some(slot) = state.active.get_mut(place) else { return };
        let Some(active) = slot else { return };
        active.left -= 1;
        if active.left > 0 {
            return;
        }
        *slot = None;
        while state.active.len() > 1 && state.active.front().is_some_and(Option::is_none) {
            state.active.pop_front();
            state.first += 1;
        }
        drop(state);
        (self.done.borrow_mut())(item);
    }

    fn lend(&self, item: &Arc<T>, request: usize, bytes: &[u8]) -> Result<(), ReadError> {
        let plan = item.plan();
        let segment = self.snapshot.version.segment(plan.segment)?;
        let request = &plan.requests[request];
        let name = data_file(&segment.meta.name);
        let wanted = request.first as usize..(request.first + request.count) as usize;
        for located in &plan.located[wanted] {
            let at = (located.block - request.block) as usize * BLOCK_BYTES;
            let block = &bytes[at..at + BLOCK_BYTES];
            verify_blocks(segment, &name, std::slice::from_ref(located), block)?;
        }
        let mut parts = plan.parts(request, bytes);
        let useful: usize = parts.iter().map(|part| part.bytes.len()).sum();
        self.snapshot.inner.pages.reader.stats().add_useful(useful as u64);
        (self.take.borrow_mut())(item, &mut parts);
        Ok(())
    }

    fn lend_changed(&self, item: &Arc<T>) -> Result<(), ReadError> {
        let plan = item.plan();
        if plan.changed.is_empty() {
            return Ok(());
        }
        let segment = self.snapshot.version.segment(plan.segment)?;
        let layout = RowLayout::new(plan.width as u64, segment.meta.page_bytes);
        let mut take = self.take.borrow_mut();
        for (index, row) in &plan.changed {
            segment.changed_row(layout, *row, &mut |skip, part| {
                take(item, &mut [RowPart { row: *index as usize, skip, bytes: part }]);
            })?;
        }
        Ok(())
    }
}
