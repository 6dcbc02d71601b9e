//! The planning thread's work: step by step, which rows are read, into which slots, and which
//! slots a batch is gathered from.
//!
//! Step t is about batch t: after it every row of the batch has a slot that was filled or is being
//! filled. Whatever a policy foresaw wrongly is read at the batch's own step, so a policy decides
//! about speed alone.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use ng_store::{Merge, Snapshot, TensorMeta};

use super::pieces::{BatchSlots, Piece, Resolved, Sampled};
use super::places::NOWHERE;
use super::policy::{Future, Reading, Registered, Table};
use super::state::{AheadShared, AheadState};
use crate::SampleError;
use crate::clock::Wait;

/// Rows that are planned together.
const PIECE_ROWS: usize = 8 << 10;

/// Reads of a group of the naive policies, which ends before the next begins.
const NAIVE_GROUP: usize = 256;

/// Batches that may be planned and not gathered.
const OUTSTANDING_MAX: u64 = 3;

/// One pass of the scan over the file: a slice for each of `len` batches.
///
/// The first passes are short, so that the first batches come early: 1, 1, 2, 4, 16, 256 batches
/// and so on, up to the window. Each one knows how long the next one is: a row is read if a batch
/// needs it before the scan comes by its place again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Revolution {
    /// The batch of its first slice.
    from: u64,
    len: u64,
    /// Length of the next one.
    next: u64,
}

impl Revolution {
    /// The rows of the slice of batch `t`, of `rows` in all.
    fn slice(&self, t: u64, rows: u64) -> Range<u64> {
        let place = |slice: u64| (slice * rows).div_ceil(self.len);
        place(t - self.from)..place(t - self.from + 1)
    }

    /// The batch of the slice that `row` lies in when the scan comes by again.
    fn comes_back(&self, row: u64, rows: u64) -> u64 {
        self.from + self.len + row * self.next / rows
    }

    /// Where the rows end that the scan reaches again with batch `back`.
    fn end_of(&self, back: u64, rows: u64) -> u64 {
        ((back + 1 - self.from - self.len) * rows).div_ceil(self.next)
    }

    /// The batch with which the scan comes back to the last row of the slice of batch `t`.
    fn horizon(&self, t: u64) -> u64 {
        self.from + self.len + ((t - self.from + 1) * self.next).div_ceil(self.len) - 1
    }
}

pub(crate) struct Planner<'a> {
    shared: &'a AheadShared,
    snapshot: &'a Snapshot,
    reading: Reading,
    window: u64,
    gap_blocks: u32,
    tables: Vec<Table>,
    /// Batches from `base` on that were sampled and not gathered.
    ahead: VecDeque<Registered>,
    base: u64,
    /// By table: batches before this one are known to its future.
    registered: Vec<u64>,
    /// Slots of batches that were planned and not gathered.
    outstanding: VecDeque<BatchSlots>,
    gathered: u64,
    /// Rows that were planned to be read since the last step.
    rows_read: u64,
    revolution: Revolution,
}

impl<'a> Planner<'a> {
    /// For batches from `from` on, with a window of one batch.
    pub fn new(
        shared: &'a AheadShared,
        snapshot: &'a Snapshot,
        reading: Reading,
        gap_blocks: u32,
        mut tables: Vec<Table>,
        from: u64,
    ) -> Self {
        tables.iter_mut().for_each(|table| table.places.release_through(from as u32));
        Self {
            shared,
            snapshot,
            reading,
            window: 1,
            gap_blocks,
            registered: vec![from; tables.len()],
            tables,
            ahead: VecDeque::new(),
            base: from,
            outstanding: VecDeque::new(),
            gathered: from,
            rows_read: 0,
            revolution: Revolution { from, len: 1, next: 1 },
        }
    }

    /// Looks `window` batches ahead from now on; a scan does so as soon as it has grown so far.
    pub fn set_window(&mut self, window: u64) {
        self.window = window.max(1);
    }

    /// Batches that have to be sampled before step `t`, if there are so many.
    pub fn needs(&self, t: u64) -> u64 {
        match self.reading {
            Reading::Scan => self.revolution_at(t).horizon(t),
            Reading::Window => t + self.window,
            _ => t + 1,
        }
    }

    /// The revolution that batch `t` is part of: the present one or the next.
    fn revolution_at(&self, t: u64) -> Revolution {
        let Revolution { from, len, next } = self.revolution;
        if t < from + len {
            return self.revolution;
        }
        // No step of it reads more for the next one than this one reads for a batch or two.
        let longer = next.saturating_mul(next).max(2);
        Revolution { from: from + len, len: next, next: self.window.min(longer) }
    }

    /// Takes the next sampled batch.
    pub fn push(&mut self, sampled: Sampled) {
        assert_eq!(
            sampled.index,
            self.available(),
            "batches are sampled in any order, taken in one"
        );
        let next = self.tables.iter().map(|table| match table.future {
            Future::Chain { .. } => vec![0; sampled.rows(table.tensor.owner).len()],
            _ => Vec::new(),
        });
        let next = next.collect();
        self.ahead.push_back(Registered { sampled: Some(sampled), next });
    }

    /// The first batch that was not gathered.
    pub fn first(&self) -> u64 {
        self.base
    }

    /// Batches that were pushed so far.
    pub fn available(&self) -> u64 {
        self.base + self.ahead.len() as u64
    }

    /// All slots have memory from now on.
    pub fn grow(&mut self) {
        self.tables.iter_mut().for_each(|table| table.places.grow());
    }

    /// Takes no more slots than these, by table.
    pub fn shrink(&mut self, slots: &[usize]) {
        let tables = self.tables.iter_mut().zip(slots);
        tables.for_each(|(table, slots)| table.places.shrink(*slots));
    }

    /// Whether slots that were taken away have no rows left.
    pub fn is_shrunk(&self) -> bool {
        self.tables.iter().all(|table| table.places.is_shrunk())
    }

    /// What was pushed and not planned.
    pub fn into_rest(self) -> Vec<Sampled> {
        self.ahead.into_iter().filter_map(|registered| registered.sampled).collect()
    }

    /// Batches that were planned so far.
    pub fn planned(&self) -> u64 {
        self.base + self.outstanding.len() as u64
    }

    /// Whether the next step waits for a batch to be gathered.
    pub fn has_to_wait(&self) -> bool {
        self.outstanding.len() as u64 >= OUTSTANDING_MAX
    }

    /// Takes back the slots of batches that have been gathered meanwhile.
    pub fn look_for_gathered(&mut self) {
        let gathered = self.shared.lock().way.gathered;
        self.release(gathered);
    }

    /// Waits until all planned batches have been gathered.
    pub fn wait_for_all(&mut self) -> Result<(), SampleError> {
        while !self.outstanding.is_empty() {
            self.wait()?;
        }
        Ok(())
    }

    /// Plans batch `t`.
    pub fn step(&mut self, t: u64) -> Result<Resolved, SampleError> {
        assert_eq!(t, self.planned(), "batches are planned one after the other");
        // Slots of a batch stay until it has been gathered: each that is outstanding takes slots
        // from those that are read ahead.
        while t >= self.gathered + OUTSTANDING_MAX {
            self.wait()?;
        }
        match self.reading {
            Reading::Scan => self.scan(t)?,
            Reading::Window => self.look_ahead(t),
            _ => {}
        }
        let resolved = self.resolve(t)?;
        self.outstanding.push_back(Arc::clone(&resolved.slots));
        Ok(resolved)
    }

    /// Waits until more batches have been gathered, which gives their slots back.
    fn wait(&mut self) -> Result<(), SampleError> {
        let known = self.gathered;
        let more =
            |state: &mut AheadState| (state.way.gathered > known).then_some(state.way.gathered);
        let gathered = self.shared.wait_until(Wait::PlanForSlots, more)?;
        self.release(gathered);
        Ok(())
    }

    /// Batches before `gathered` need their slots no more.
    fn release(&mut self, gathered: u64) {
        while self.base < gathered {
            let (Some(done), Some(registered)) =
                (self.outstanding.pop_front(), self.ahead.pop_front())
            else {
                panic!("batch {} was gathered before it was planned", self.base);
            };
            for (index, table) in self.tables.iter_mut().enumerate() {
                let Future::Chain { .. } = table.future else { continue };
                let number = self.base as u32 + 1;
                assert_eq!(done[index].len(), registered.next[index].len(), "a slot for each row");
                for (slot, next) in done[index].iter().zip(&registered.next[index]) {
                    match *next {
                        // A later batch was planned with it meanwhile, and decides in its turn.
                        _ if table.places.promised(*slot) != number => {}
                        0 => table.places.rest(*slot),
                        next => table.places.keep(*slot, number + u32::from(next)),
                    }
                }
            }
            self.base += 1;
        }
        self.gathered = gathered;
        self.tables.iter_mut().for_each(|table| table.places.release_through(gathered as u32));
    }

    // The rotating scan.

    /// Reads the rows of the slice of batch `t` that are needed before the scan comes back to them.
    fn scan(&mut self, t: u64) -> Result<(), SampleError> {
        self.revolution = self.revolution_at(t);
        let revolution = self.revolution;
        for index in 0..self.tables.len() {
            let rows = self.tables[index].places.num_rows() as u64;
            let Range { start: mut at, end } = revolution.slice(t, rows);
            // Where the next revolution is longer, the scan comes back to the rows of one slice
            // at different times.
            while at < end {
                let back = revolution.comes_back(at, rows);
                let until = revolution.end_of(back, rows).min(end);
                self.note_needs(index, back);
                self.sweep(index, at..until, t, back)?;
                at = until;
            }
        }
        Ok(())
    }

    /// Notes the rows that batches before `end` need, as far as these are sampled. A row has room
    /// for one note: no batch beyond `end` may be noted while its slice is read.
    fn note_needs(&mut self, index: usize, end: u64) {
        let (registered, table) = (&mut self.registered[index], &mut self.tables[index]);
        while *registered < end {
            let Some(sampled) = find(&self.ahead, self.base, *registered) else { return };
            let Future::Last(stamps) = &mut table.future else { return };
            stamps.want(&sampled.rows(table.tensor.owner), *registered);
            *registered += 1;
        }
    }

    /// Reads those of `rows` that a batch from `t` on and before `back` needs.
    fn sweep(
        &mut self,
        index: usize,
        rows: Range<u64>,
        t: u64,
        back: u64,
    ) -> Result<(), SampleError> {
        let mut at = rows.start;
        while at < rows.end {
            let (mut wanted, mut there) = (Vec::new(), Vec::new());
            let table = &mut self.tables[index];
            let Future::Last(stamps) = &mut table.future else { break };
            while at < rows.end && wanted.len() < PIECE_ROWS {
                let row = at as u32;
                at += 1;
                let Some(distance) = stamps.last(row, t, back - t) else { continue };
                let until = (t + distance) as u32 + 1;
                match table.places.find(row) {
                    Some(slot) => there.push((slot, until)),
                    None => wanted.push((row, until)),
                }
            }
            // Rows that are there are kept before any slot is waited for: else they would go
            // with the batches that are gathered meanwhile, and be read again.
            table.places.keep_all(&there);
            while self.tables[index].places.num_free() < wanted.len() && self.gathered < t {
                self.wait()?;
            }
            let places = &mut self.tables[index].places;
            let (mut rows, mut slots) = (Vec::new(), Vec::new());
            for (row, until) in wanted {
                // Where memory ends, the row is read when its batch comes.
                let Some(slot) = places.take_free() else { break };
                places.put(row, slot, until);
                rows.push(row);
                slots.push(slot);
            }
            self.emit(t, index, &rows, &slots)?;
        }
        Ok(())
    }

    // The window.

    /// Tells every row that the batches up to the end of the window want when that is.
    fn look_ahead(&mut self, t: u64) {
        loop {
            // All tables get to know a batch together.
            let Some(registered) = self.registered.first().copied() else { return };
            if registered >= t + self.window {
                return;
            }
            let Some(sampled) = find(&self.ahead, self.base, registered) else { return };
            let number = registered as u32 + 1;
            // Copied, because the uses of this batch are told to those before it.
            let rows = |table: &Table| sampled.rows(table.tensor.owner).into_owned();
            let rows: Vec<Vec<u32>> = self.tables.iter().map(rows).collect();
            for (index, table) in self.tables.iter_mut().enumerate() {
                let Future::Chain { batch, place } = &mut table.future else { continue };
                for (position, row) in rows[index].iter().copied().enumerate() {
                    let (batch, place) = (&mut batch[row as usize], &mut place[row as usize]);
                    debug_assert!(*batch <= number, "batches are registered in order");
                    // Where the batch that wanted the row before is not gathered yet, it learns
                    // when its row is wanted next, and keeps the slot for that when it lets go of
                    // it. Else the row may lie idle in a slot that no other row has taken.
                    let before = u64::from(*batch).checked_sub(self.base + 1);
                    if let Some(at) = before {
                        let next = &mut self.ahead[at as usize].next[index][*place as usize];
                        *next = (number - *batch).min(u32::from(u16::MAX)) as u16;
                    } else if let Some(slot) = table.places.find(row) {
                        table.places.wake(slot, number);
                    }
                    (*batch, *place) = (number, position as u32);
                }
            }
            self.registered.fill(registered + 1);
        }
    }

    // Every policy.

    /// Gives every row of batch `t` its slot, and reads those that have none.
    fn resolve(&mut self, t: u64) -> Result<Resolved, SampleError> {
        let registered = self.ahead.get_mut((t - self.base) as usize);
        let sampled = registered.and_then(|registered| registered.sampled.take());
        let sampled = sampled.ok_or(SampleError::ThreadLost)?;
        let number = t as u32 + 1;
        // Batches under way do not share rows where nothing is kept on purpose.
        let is_blind = self.reading == Reading::NaiveUring;
        let mut all = Vec::with_capacity(self.tables.len());
        for index in 0..self.tables.len() {
            let table = &mut self.tables[index];
            let wanted = sampled.rows(table.tensor.owner);
            // One look-up does not wait for another: first all slots, then what is known of them.
            let mut slots = match is_blind {
                true => vec![NOWHERE; wanted.len()],
                false => table.places.find_all(&wanted),
            };
            let mut missing: Vec<(u32, u32)> = Vec::new();
            for (position, slot) in slots.iter().enumerate() {
                table.places.prefetch(&slots, position);
                if *slot == NOWHERE {
                    missing.push((wanted[position], position as u32));
                    continue;
                }
                table.places.promise(*slot, number);
                if let Future::Sieve(sieve) = &mut table.future {
                    sieve.touch(*slot);
                }
            }
            // All that is there was promised first: a slot for what is missing takes none of it.
            self.read_missing(t, index, missing, &mut slots)?;
            debug_assert!(!slots.contains(&NOWHERE), "every row of a planned batch has a slot");
            // From now on promises hold the slots; what was due with this batch is decided when it
            // has been gathered.
            if let Future::Chain { .. } = self.tables[index].future {
                self.tables[index].places.forget_due_through(number);
            }
            all.push(slots);
        }
        Ok(Resolved {
            sampled,
            slots: Arc::new(all),
            rows_read: std::mem::take(&mut self.rows_read),
        })
    }

    fn read_missing(
        &mut self,
        t: u64,
        index: usize,
        mut missing: Vec<(u32, u32)>,
        slots: &mut [u32],
    ) -> Result<(), SampleError> {
        missing.sort_unstable();
        let (mut rows, mut into) = (Vec::new(), Vec::new());
        for group in missing.chunk_by(|a, b| a.0 == b.0) {
            let row = group[0].0;
            let slot = self.slot_for(t, index, (row, slots.len()))?;
            for (_, position) in group {
                slots[*position as usize] = slot;
            }
            rows.push(row);
            into.push(slot);
        }
        self.emit(t, index, &rows, &into)
    }

    /// A slot for a row that batch `t`, which has `rows` of them, cannot do without.
    fn slot_for(
        &mut self,
        t: u64,
        index: usize,
        (row, rows): (u32, usize),
    ) -> Result<u32, SampleError> {
        let number = t as u32 + 1;
        loop {
            let Table { places, future, .. } = &mut self.tables[index];
            let slot = match future {
                Future::Sieve(sieve) => places.take_free().or_else(|| {
                    let slot = sieve.evict(|slot| places.is_settled(slot))?;
                    places.empty(slot);
                    Some(slot)
                }),
                _ => places.take_any(),
            };
            if let Some(slot) = slot {
                match future {
                    Future::Sieve(sieve) => {
                        sieve.insert(slot);
                        places.put_unowned(row, slot);
                    }
                    _ => places.put(row, slot, number),
                }
                places.promise(slot, number);
                return Ok(slot);
            }
            if self.gathered >= t && !self.tables[index].places.is_read_through(number) {
                // What was read ahead with this batch may make room once it has come.
                let read = |state: &mut AheadState| state.way.is_read_through(t).then_some(());
                self.shared.wait_until(Wait::PlanForReader, read)?;
                self.tables[index].places.read_through(number);
                continue;
            }
            // Every slot is promised to this very batch or kept for ever: waiting would free none.
            if self.gathered >= t {
                return Err(self.too_small(index, rows));
            }
            self.wait()?;
        }
    }

    fn too_small(&self, index: usize, rows: usize) -> SampleError {
        let catalog = self.snapshot.catalog();
        let width = |table: &Table| catalog.tensor(table.tensor).map_or(0, TensorMeta::row_bytes);
        let slots = |table: &Table| table.places.num_slots() as u64 * width(table);
        let table = &self.tables[index];
        let (wanted_bytes, free_bytes) = (rows as u64 * width(table), slots(table));
        let limit_bytes = self.snapshot.budget().limit_bytes();
        // All tables get slots in proportion, and a topology that fits then takes up to half.
        let times = wanted_bytes / free_bytes.max(1) + 1;
        let more = self.tables.iter().map(slots).sum::<u64>().saturating_mul(times);
        let minimum_bytes = limit_bytes.saturating_add(more).saturating_mul(2);
        SampleError::TooSmallToLookAhead { wanted_bytes, free_bytes, limit_bytes, minimum_bytes }
    }

    /// Hands rows to the reader; waits while it has enough.
    fn emit(
        &mut self,
        step: u64,
        table: usize,
        rows: &[u32],
        slots: &[u32],
    ) -> Result<(), SampleError> {
        let (merge, together) = if self.reading.is_naive() {
            (Merge::Never, NAIVE_GROUP)
        } else {
            (Merge::Gaps(self.gap_blocks), PIECE_ROWS)
        };
        assert_eq!(rows.len(), slots.len(), "each row is read into a slot of its own");
        debug_assert!(rows.is_sorted_by(|a, b| a < b), "rows are read in the order of the file");
        let tensor = self.tables[table].tensor;
        self.tables[table].places.ask(slots, step as u32 + 1);
        self.rows_read += rows.len() as u64;
        for (rows, slots) in rows.chunks(together).zip(slots.chunks(together)) {
            let wide: Vec<u64> = rows.iter().map(|row| u64::from(*row)).collect();
            let plan = self.snapshot.plan_rows(tensor, &wide, merge)?;
            let piece = Piece { step, table, plan, slots: slots.to_vec() };
            // Nobody else adds pieces, so the room stays.
            let room = |state: &mut AheadState| state.way.has_room_for_pieces().then_some(());
            self.shared.wait_until(Wait::PlanForReader, room)?;
            self.shared.change(|state| state.way.add_piece(piece));
        }
        Ok(())
    }
}

/// The batch of that number, if it was sampled and has no slots yet.
fn find(ahead: &VecDeque<Registered>, base: u64, index: u64) -> Option<&Sampled> {
    ahead.get(index.checked_sub(base)? as usize)?.sampled.as_ref()
}
