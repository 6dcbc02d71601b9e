//! What the threads of a look-ahead share: one lock, one condition, and queues between stages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::pieces::{Job, Piece, Resolved, Sampled};
use crate::gate::Gate;
use crate::{MiniBatch, SampleError};

/// How long a wait lasts before the world is looked at again.
const POLL: Duration = Duration::from_millis(50);

/// How long a stage waits for memory that only the consumer can give back.
pub(crate) const MEMORY_PATIENCE: Duration = Duration::from_secs(10);

/// Rows that may be planned ahead of the reader.
const QUEUED_ROWS_MAX: usize = 96 << 10;

/// What a sampling thread shall do.
#[derive(Debug)]
pub(crate) enum ToSample {
    Job(u64, Job),
    /// Let go of the memory that it works with.
    Rest,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Jobs that no thread has begun, and the number of the first.
    pub jobs: VecDeque<Job>,
    pub begun: u64,
    /// Jobs that were done too early and are done again, by number.
    pub again: BTreeMap<u64, Job>,
    /// There will be no more jobs.
    pub ended: bool,
    /// Batches from this one on are not sampled yet.
    pub sample_until: u64,
    pub sampled: BTreeMap<u64, Sampled>,
    /// The next sampled batch that the planner takes.
    pub planned_input: u64,
    /// Read, or being read: pieces by step, and those that nobody has begun.
    pub unread: BTreeMap<u64, usize>,
    pub pieces: VecDeque<Arc<Piece>>,
    pub queued_rows: usize,
    /// Steps whose planning has ended, and their batches.
    pub planned: u64,
    pub resolved: VecDeque<Resolved>,
    pub gathered: u64,
    pub ready: VecDeque<MiniBatch>,
    pub delivered: u64,
    /// Where the batches end that are read at a time, once all of them are planned.
    pub stretch_end: Option<u64>,
    /// How often sampling threads were told to let go of what they hold, and how many of them have
    /// since the last time.
    pub rests: u64,
    pub resting: usize,
    pub failure: Option<SampleError>,
    pub closed: bool,
}

impl State {
    /// Jobs that were given so far.
    pub fn given(&self) -> u64 {
        self.begun + self.jobs.len() as u64
    }

    /// What a sampling thread that has rested so often does next.
    pub fn next_to_sample(&mut self, rests: u64) -> Option<ToSample> {
        if rests < self.rests {
            return Some(ToSample::Rest);
        }
        if let Some(again) = self.again.first_entry() {
            let is_due = *again.key() < self.sample_until;
            return is_due.then(|| again.remove_entry()).map(|(at, job)| ToSample::Job(at, job));
        }
        if self.begun >= self.sample_until {
            return None;
        }
        let job = self.jobs.pop_front()?;
        self.begun += 1;
        Some(ToSample::Job(self.begun - 1, job))
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

/// Who waits for what.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// A sampling thread, until more samples are wanted.
    SampleForDemand,
    /// The planner, for sampled batches.
    PlanForSamples,
    /// The planner, because the reader has enough to do.
    PlanForReader,
    /// The planner, for slots that a gathered batch gives back.
    PlanForSlots,
    /// The reader, for rows to be planned.
    ReadForPlans,
    /// The gathering thread, for rows to be read or for the consumer.
    GatherForRows,
    /// The gathering thread, for a buffer that the consumer gives back.
    GatherForBuffers,
    /// The consumer, for a batch.
    Consumer,
}

impl Wait {
    /// Names for reports, in the order of the variants.
    pub const NAMES: [&'static str; 8] = [
        "sample_for_demand",
        "plan_for_samples",
        "plan_for_reader",
        "plan_for_slots",
        "read_for_plans",
        "gather_for_rows",
        "gather_for_buffers",
        "consumer",
    ];
}

/// The state, its lock and its condition.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    gate: Gate<State>,
    waited_us: [AtomicU64; Wait::NAMES.len()],
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.gate.lock()
    }

    /// Changes the state and wakes whoever waits for it.
    pub fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.gate.change(change)
    }

    /// Waits for a change, not for long.
    pub fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.gate.wait(state, POLL)
    }

    /// As [`Gate::look_within`], looking again before long.
    pub fn look_within<R>(
        &self,
        timeout: Duration,
        look: impl FnMut(&mut State) -> Option<R>,
    ) -> Result<R, ()> {
        self.gate.look_within(timeout, POLL, look)
    }

    /// Waits until `look` finds something; `None` when everything stops.
    pub fn wait_until<R>(
        &self,
        why: Wait,
        mut look: impl FnMut(&mut State) -> Option<R>,
    ) -> Option<R> {
        let mut since = None;
        let found = self.look_within(Duration::MAX, |state| {
            if let Some(since) = since.replace(Instant::now()) {
                self.add_wait(why, since);
            }
            let goes_on = !state.closed && state.failure.is_none();
            if goes_on { look(state).map(Some) } else { Some(None) }
        });
        found.ok().flatten()
    }

    /// Counts a wait that began at `since` and ends now.
    pub fn add_wait(&self, why: Wait, since: Instant) {
        let us = since.elapsed().as_micros() as u64;
        self.waited_us[why as usize].fetch_add(us, Ordering::Relaxed);
    }

    /// Seconds waited so far, by name.
    pub fn waits(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        let seconds = |us: &AtomicU64| us.load(Ordering::Relaxed) as f64 / 1e6;
        Wait::NAMES.into_iter().zip(self.waited_us.iter().map(seconds))
    }

    /// Whether everything stops.
    pub fn is_stopping(&self) -> bool {
        let state = self.lock();
        state.closed || state.failure.is_some()
    }

    /// Stops everything because of an error; the first one is told to the consumer.
    pub fn fail(&self, error: SampleError) {
        self.change(|state| {
            state.failure.get_or_insert(error);
        });
    }
}
