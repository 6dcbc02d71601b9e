//! What the threads of a look-ahead share beside finished batches: queues between its stages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ng_types::canary::planted;

use super::pieces::{Piece, Resolved, Sampled};
use crate::pipeline::{Shared, State};

/// Rows that may be planned ahead of the reader.
const QUEUED_ROWS_MAX: usize = 96 << 10;

/// What a sampling thread shall do.
#[derive(Debug)]
pub(crate) enum ToSample {
    /// The job of this number.
    Job(u64),
    /// Let go of the memory that it works with, as it was told to.
    Rest,
    /// The same, because another thread waits for memory.
    GiveWay,
}

/// The state of a look-ahead.
pub(crate) type AheadState = State<Ahead>;

/// A look-ahead's state with its lock.
pub(crate) type AheadShared = Shared<Ahead>;

/// A batch that was sampled.
#[derive(Debug)]
pub(crate) enum Kept {
    Memory(Box<Sampled>),
    /// On disk.
    Spilled,
}

#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The first job that no thread has begun.
    pub begun: u64,
    /// Jobs that threads are sampling.
    pub sampling: usize,
    /// Of these, jobs whose threads wait for memory.
    pub starved: usize,
    /// Batches from this one on are not sampled yet.
    pub sample_until: u64,
    /// Nor are those from this one on, before the topology is in memory.
    pub sample_before: Option<u64>,
    /// Whether it is on its way there.
    pub topology_comes: bool,
    /// Samples from this batch on go to disk.
    pub spill_from: Option<u64>,
    pub sampled: BTreeMap<u64, Kept>,
    /// The next sampled batch that the planner takes.
    pub planned_input: u64,
    /// Read, or being read: pieces by step, and those that nobody has begun.
    pub unread: BTreeMap<u64, usize>,
    pub pieces: VecDeque<Arc<Piece>>,
    pub queued_rows: usize,
    /// Batches whose rows have their slots, in order.
    pub resolved: VecDeque<Resolved>,
    /// Batches before this one have theirs, or had.
    pub planned: u64,
    pub gathered: u64,
    /// Where the batches end that are read at a time, once all of them are planned.
    pub stretch_end: Option<u64>,
    /// How often sampling threads were told to let go of what they hold, and how many of them have
    /// since the last time.
    pub rests: u64,
    pub resting: usize,
}

impl AheadState {
    /// Whether the consumer waits while nothing is on its way to it.
    pub fn is_idle(&self) -> bool {
        let made = self.way.planned.max(self.way.gathered);
        self.consumer_waits && self.ready.is_empty() && made == self.delivered
    }

    /// Whether there will be no more samples before batches are made of those that there are: the
    /// samples have all the memory.
    pub fn is_starved(&self) -> bool {
        self.is_idle() && self.way.sampling > 0 && self.way.starved == self.way.sampling
    }
}

impl Ahead {
    /// What a sampling thread that has rested so often does next, of the first `known` jobs.
    /// `holds` says whether it keeps memory for them.
    pub fn next_to_sample(&mut self, rests: u64, known: u64, holds: bool) -> Option<ToSample> {
        if rests < self.rests {
            return Some(ToSample::Rest);
        }
        // A batch that was begun comes first: were its memory taken for a later one, which would
        // keep it, the consumer could wait for the earlier one for ever.
        if self.starved > 0 && !planted("keep_memory_that_others_wait_for") {
            return holds.then_some(ToSample::GiveWay);
        }
        let until = self.sample_until.min(self.sample_before.unwrap_or(u64::MAX));
        if self.begun >= until.min(known) {
            return None;
        }
        self.begun += 1;
        self.sampling += 1;
        Some(ToSample::Job(self.begun - 1))
    }

    /// Batches before this one can be waited for, of `known` ones.
    pub fn sampled_in_time(&self, known: u64) -> u64 {
        match self.sample_before {
            Some(before) if !self.topology_comes => known.min(before),
            _ => known,
        }
    }

    /// A thread has sampled a batch.
    pub fn keep(&mut self, index: u64, kept: Kept) {
        self.sampling -= 1;
        self.sampled.insert(index, kept);
    }

    /// The next sampled batch in order, if it is there.
    pub fn take_next(&mut self) -> Option<(u64, Kept)> {
        let entry = self.sampled.first_entry()?;
        let index = *entry.key();
        if index != self.planned_input {
            return None;
        }
        self.planned_input += 1;
        Some((index, entry.remove()))
    }

    /// Whether the next sampled batch in order is there.
    pub fn has_next(&self) -> bool {
        self.sampled.contains_key(&self.planned_input)
    }

    /// Whether all batches before `end` are sampled.
    pub fn is_sampled_through(&self, end: u64) -> bool {
        self.begun >= end && self.sampling == 0
    }

    /// The next batch that can be gathered, if its rows are there.
    pub fn next_complete(&mut self) -> Option<Resolved> {
        let first = self.resolved.front()?.sampled.index;
        if self.is_read_through(first) { self.resolved.pop_front() } else { None }
    }

    /// Whether all pieces up to `step` have been read.
    pub fn is_read_through(&self, step: u64) -> bool {
        self.unread.first_key_value().is_none_or(|(first, _)| *first > step)
    }

    pub fn add_piece(&mut self, piece: Piece) {
        *self.unread.entry(piece.step).or_default() += 1;
        self.queued_rows += piece.slots.len();
        self.pieces.push_back(Arc::new(piece));
    }

    pub fn has_room_for_pieces(&self) -> bool {
        self.queued_rows < QUEUED_ROWS_MAX
    }

    pub fn piece_was_read(&mut self, piece: &Piece) {
        self.queued_rows -= piece.slots.len();
        if let Some(left) = self.unread.get_mut(&piece.step) {
            *left -= 1;
            if *left == 0 {
                self.unread.remove(&piece.step);
            }
        }
    }
}
