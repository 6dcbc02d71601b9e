//! Which row is in which slot, and until when it is needed. One table has one [`Places`], used by
//! the planning thread alone.
//!
//! Batches are numbered from 1 on here; 0 means none. The invariant: a slot is handed out for
//! another row only after every batch that was promised its row has been gathered, and after the
//! row that was to be read into it has come: reads end in any order.

use std::collections::VecDeque;

use ng_io::vec_in_huge_pages;
use ng_simd::prefetch_at;

/// No slot.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// An empty slot is kept for no batch; batches are numbered from 1 on.
const NEVER: u32 = 0;

/// Needed by no batch that is known.
const IDLE: u32 = u32::MAX;

/// So many places ahead memory is fetched.
pub(crate) const NEAR: usize = 16;

/// What is known of one slot, together because it is looked at together.
#[derive(Clone, Copy, Debug)]
struct Slot {
    row: u32,
    /// The batch that the row is kept for.
    until: u32,
    /// The last batch that was promised it.
    promised: u32,
    /// The batch with whose reads its row was asked for.
    asked: u32,
}

const EMPTY: Slot = Slot { row: NOWHERE, until: NEVER, promised: 0, asked: 0 };

/// The map between rows and slots.
#[derive(Debug)]
pub(crate) struct Places {
    /// By row.
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots from this one on have no memory, or lose it when their rows are not needed any more.
    limit: u32,
    /// Slots from `limit` on that have a row.
    beyond: usize,
    /// Slots by the batch that they are kept for, from `due_from` on; entries that `until` denies
    /// are old.
    due: VecDeque<Vec<u32>>,
    due_from: u32,
    /// Slots that no known batch wants, the longest idle first; the same holds.
    idle: VecDeque<u32>,
    gathered: u32,
    /// What was asked for up to this batch has been read.
    read: u32,
}

impl Places {
    /// Bytes of bookkeeping.
    pub fn num_bytes(rows: usize, slots: usize) -> u64 {
        (rows * 4 + slots * (size_of::<Slot>() + 4 + 2 * 4)) as u64
    }

    /// How many slots there are.
    pub fn num_slots(&self) -> usize {
        self.limit as usize
    }

    /// Slots up to the last one have memory from now on.
    pub fn grow(&mut self) {
        assert_eq!(self.beyond, 0, "slots lose their memory still");
        self.free.extend((self.limit..self.slots.len() as u32).rev());
        self.limit = self.slots.len() as u32;
    }

    /// Slots from `limit` on are not handed out any more; [`Places::is_shrunk`] says when they have
    /// no rows left.
    pub fn shrink(&mut self, limit: usize) {
        let known = self.slots.iter().skip(limit);
        self.beyond = known.filter(|slot| slot.row != NOWHERE).count();
        self.limit = limit as u32;
        self.free.retain(|slot| (*slot as usize) < limit);
    }

    /// Whether no row is left in the slots that were taken away.
    pub fn is_shrunk(&self) -> bool {
        self.beyond == 0
    }

    /// `slots` slots for a table of `rows` rows, of which the first `limit` are free.
    pub fn new(rows: usize, slots: usize, limit: usize) -> Self {
        assert!(limit <= slots, "{limit} of {slots} slots");
        Self {
            slot_of: vec_in_huge_pages(NOWHERE, rows),
            slots: vec_in_huge_pages(EMPTY, slots),
            free: (0..limit as u32).rev().collect(),
            limit: limit as u32,
            beyond: 0,
            due: VecDeque::new(),
            due_from: 1,
            idle: VecDeque::new(),
            gathered: 0,
            read: 0,
        }
    }

    /// Rows of the table.
    pub fn num_rows(&self) -> usize {
        self.slot_of.len()
    }

    fn until(&self, slot: u32) -> u32 {
        self.slots[slot as usize].until
    }

    /// Where a row is.
    pub fn find(&self, row: u32) -> Option<u32> {
        Some(self.slot_of[row as usize]).filter(|slot| *slot != NOWHERE)
    }

    /// Where rows are, [`NOWHERE`] for those that have no slot.
    pub fn find_all(&self, rows: &[u32]) -> Vec<u32> {
        let slot = |(place, row): (usize, &u32)| {
            if let Some(later) = rows.get(place + NEAR) {
                prefetch_at(&self.slot_of, *later as usize);
            }
            self.slot_of[*row as usize]
        };
        rows.iter().enumerate().map(slot).collect()
    }

    /// Keeps what is in each slot until its batch.
    pub fn keep_all(&mut self, slots: &[(u32, u32)]) {
        for (place, (slot, until)) in slots.iter().enumerate() {
            if let Some((later, _)) = slots.get(place + NEAR) {
                prefetch_at(&self.slots, *later as usize);
            }
            self.keep(*slot, *until);
        }
    }

    /// Brings near what is known of the slots some places behind `at`: each would else be waited
    /// for on its own.
    pub fn prefetch(&self, slots: &[u32], at: usize) {
        if let Some(slot) = slots.get(at + NEAR) {
            prefetch_at(&self.slots, *slot as usize);
        }
        if let Some(known) = slots.get(at + NEAR / 2).and_then(|s| self.slots.get(*s as usize)) {
            prefetch_at(&self.slot_of, known.row as usize);
        }
    }

    /// Slots that can be had without taking a row away from anybody.
    pub fn num_free(&self) -> usize {
        self.free.len()
    }

    /// A slot that nobody needs.
    pub fn take_free(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// A free slot, else the longest idle, else the one whose batch is the farthest. `None` if
    /// every slot is promised to a batch that has not been gathered.
    pub fn take_any(&mut self) -> Option<u32> {
        loop {
            let found = self.free.pop().or_else(|| self.evict_idle()).or_else(|| self.evict_last());
            match found {
                Some(slot) if slot >= self.limit => {}
                found => return found,
            }
        }
    }

    /// Puts a row into a slot that was taken, and keeps it until batch `until`.
    pub fn put(&mut self, row: u32, slot: u32, until: u32) {
        self.name(row, slot);
        self.keep(slot, until);
    }

    /// Puts a row into a slot that was taken and keeps it; whoever took it empties it.
    pub fn put_unowned(&mut self, row: u32, slot: u32) {
        self.name(row, slot);
        self.slots[slot as usize].until = IDLE;
    }

    /// A slot has one row at a time. A row may be in an older slot as well, whose batches have
    /// not been gathered: whoever looks for it finds the new one, and the old one empties later.
    fn name(&mut self, row: u32, slot: u32) {
        let known = &mut self.slots[slot as usize];
        debug_assert!(known.row == NOWHERE, "slot {slot} still has row {}, not {row}", known.row);
        known.row = row;
        self.slot_of[row as usize] = slot;
    }

    /// Whether every batch that was promised the slot has been gathered, and its row has come.
    pub fn is_settled(&self, slot: u32) -> bool {
        self.has_settled(&self.slots[slot as usize])
    }

    fn has_settled(&self, known: &Slot) -> bool {
        known.promised <= self.gathered && known.asked <= self.read
    }

    /// Rows are asked for with the reads of `batch`.
    pub fn ask(&mut self, slots: &[u32], batch: u32) {
        for slot in slots {
            self.slots[*slot as usize].asked = batch;
        }
    }

    /// What was asked for up to `batch` has been read.
    pub fn read_through(&mut self, batch: u32) {
        self.read = self.read.max(batch);
    }

    /// Whether that is known already.
    pub fn is_read_through(&self, batch: u32) -> bool {
        self.read >= batch
    }

    /// Keeps what is in a slot until batch `until`, or the first that is not forgotten.
    pub fn keep(&mut self, slot: u32, until: u32) {
        let known = &mut self.slots[slot as usize];
        debug_assert!(known.row != NOWHERE, "slot {slot} is empty and kept until {until}");
        let until = until.max(self.due_from);
        if known.until != until {
            known.until = until;
            let index = (until - self.due_from) as usize;
            if index >= self.due.len() {
                self.due.resize_with(index + 1, Vec::new);
            }
            self.due[index].push(slot);
        }
    }

    /// Keeps an idle slot for a batch that turned up.
    pub fn wake(&mut self, slot: u32, until: u32) {
        if self.until(slot) == IDLE {
            self.keep(slot, until);
        }
    }

    /// Nobody known wants what is in a slot any more; it may be wanted again.
    pub fn rest(&mut self, slot: u32) {
        let known = &mut self.slots[slot as usize];
        if known.until != IDLE {
            known.until = IDLE;
            self.idle.push_back(slot);
        }
    }

    /// Promises a slot to a batch, and keeps it until then at least.
    pub fn promise(&mut self, slot: u32, batch: u32) {
        let known = &mut self.slots[slot as usize];
        debug_assert!(known.row != NOWHERE, "slot {slot} is empty and promised to {batch}");
        debug_assert!(known.promised <= batch, "batches are planned in order");
        known.promised = batch;
        if known.until < batch {
            self.keep(slot, batch);
        }
    }

    /// The last batch that a slot was promised to.
    pub fn promised(&self, slot: u32) -> u32 {
        self.slots[slot as usize].promised
    }

    /// Every batch up to `batch` has been gathered: what was kept for them alone is free.
    pub fn release_through(&mut self, batch: u32) {
        self.gathered = batch;
        self.read_through(batch);
        while self.due_from <= batch {
            let Some(slots) = self.due.pop_front() else { break };
            let due = self.due_from;
            self.due_from += 1;
            for (at, slot) in slots.iter().copied().enumerate() {
                self.prefetch(&slots, at);
                let known = &self.slots[slot as usize];
                if known.until == due && known.promised <= batch {
                    self.empty(slot);
                    if slot < self.limit {
                        self.free.push(slot);
                    }
                }
            }
        }
        self.due_from = self.due_from.max(batch + 1);
    }

    /// Forgets that batches up to `batch` are waited for: they have been promised what they want.
    pub fn forget_due_through(&mut self, batch: u32) {
        let forgotten = (batch + 1).saturating_sub(self.due_from);
        self.due.drain(..self.due.len().min(forgotten as usize));
        self.due_from += forgotten;
    }

    /// The row of a slot is gone.
    pub fn empty(&mut self, slot: u32) {
        let known = &mut self.slots[slot as usize];
        let row = std::mem::replace(&mut known.row, NOWHERE);
        assert!(row != NOWHERE, "slot {slot} is empty and was given up once more");
        if slot >= self.limit {
            self.beyond -= 1;
        }
        // Entries of `due` that were made for this row must not speak for the next one.
        known.until = NEVER;
        // The row may have come again into another slot, which keeps it.
        let place = &mut self.slot_of[row as usize];
        if *place == slot {
            *place = NOWHERE;
        }
    }

    fn evict_idle(&mut self) -> Option<u32> {
        for _ in 0..self.idle.len() {
            let slot = self.idle.pop_front()?;
            if self.until(slot) != IDLE {
                continue;
            }
            if !self.is_settled(slot) {
                self.idle.push_back(slot);
                continue;
            }
            self.empty(slot);
            return Some(slot);
        }
        None
    }

    /// Takes a row away whose batch is the farthest; it will be read again for it.
    fn evict_last(&mut self) -> Option<u32> {
        while self.due.back().is_some_and(Vec::is_empty) {
            self.due.pop_back();
        }
        let slot = (0..self.due.len()).rev().find_map(|index| self.take_settled(index))?;
        self.empty(slot);
        Some(slot)
    }

    /// Takes a slot out of those that are due at a place, unless none has settled.
    fn take_settled(&mut self, index: usize) -> Option<u32> {
        let due = self.due_from + index as u32;
        let mut slots = std::mem::take(&mut self.due[index]);
        let mut kept = Vec::new();
        let found = loop {
            let Some(slot) = slots.pop() else { break None };
            let known = &self.slots[slot as usize];
            match known.until == due {
                true if self.has_settled(known) => break Some(slot),
                true => kept.push(slot),
                false => {}
            }
        };
        slots.append(&mut kept);
        self.due[index] = slots;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_not_taken_while_its_row_is_on_its_way() {
        let mut places = Places::new(10, 2, 2);
        for row in 0..2 {
            let slot = places.take_free().unwrap_or(NOWHERE);
            places.put(row, slot, 7 + row);
            places.ask(&[slot], 3);
        }
        assert_eq!(places.take_any(), None, "two reads into one slot end in any order");
        places.read_through(2);
        assert_eq!(places.take_any(), None);
        places.read_through(3);
        // The one whose batch is the farthest.
        let taken = places.take_any();
        assert_eq!((taken.is_some(), places.find(1), places.find(0).is_some()), (true, None, true));
        // A promise holds as well, however early the row came.
        places.promise(places.find(0).unwrap_or(NOWHERE), 5);
        assert_eq!(places.take_any(), None);
        places.release_through(5);
        assert!(places.take_any().is_some());
    }

    #[test]
    fn a_slot_that_was_taken_away_and_given_again_is_freed_once() {
        let mut places = Places::new(10, 2, 2);
        let (first, second) = (places.take_free(), places.take_free());
        let (first, second) = (first.unwrap_or(NOWHERE), second.unwrap_or(NOWHERE));
        // An entry for batch 9 is left behind when the slot is kept for longer.
        places.put(0, first, 9);
        places.keep(first, 12);
        places.put(1, second, 20);
        places.promise(second, 20);
        assert_eq!(places.take_any(), Some(first));
        places.put(2, first, 7);
        places.keep(first, 9);
        places.release_through(9);
        assert_eq!((places.take_free(), places.take_free()), (Some(first), None));
    }
}
