//! Batches that threads make one by one, each from its seeds to its rows, through the store's
//! caches or from sections of the direct layout.
//!
//! As many are in flight as the budget allows, never fewer than one. Memory for rows is admitted in
//! batch order: were a later batch to take the room first, an earlier one could wait for a consumer
//! who waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ng_types::Reservation;
use ng_types::canary::planted;

use super::shared::{POLL, Shared, State};
use crate::admission::Stage;
use crate::clock::Wait;
use crate::seeds::Jobs;
use crate::{Job, MiniBatch, SampleError, Sampler};

/// What the threads share.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The next batch that a thread may begin.
    claimed: u64,
    /// The batch whose turn it is to take memory for its rows.
    admitted: u64,
    /// The batch whose turn it is finds no memory: later ones, which hold their topology while
    /// they wait, give it back and begin anew.
    starving: bool,
}

/// Threads that make batches.
pub(crate) struct Each {
    pub shared: Shared<Turns>,
    sampler: Sampler,
    /// It was found out whether holding all in memory pays.
    is_weighed: AtomicBool,
}

impl Each {
    pub fn new(
        sampler: Sampler,
        jobs: Jobs,
        prefetch: usize,
        threads: usize,
    ) -> Result<Arc<Self>, SampleError> {
        if prefetch == 0 || threads == 0 {
            let what = "the numbers of threads and of batches prepared ahead must be at least 1";
            return Err(SampleError::Spec(what.into()));
        }
        let sampler = sampler.with_orders_that_fit()?.with_pool(prefetch + threads);
        let shared = Shared::new(sampler.clock(), jobs, prefetch);
        Ok(Arc::new(Self { shared, sampler, is_weighed: AtomicBool::new(false) }))
    }

    /// A thread's work.
    pub fn run(&self) -> Result<(), SampleError> {
        let shared = &self.shared;
        let claim = |state: &mut State<Turns>| {
            let (next, way) = (state.delivered + shared.prefetch, &mut state.way);
            if way.claimed >= shared.jobs.len() {
                return Some(None);
            }
            (way.claimed < next).then(|| {
                way.claimed += 1;
                Some(way.claimed - 1)
            })
        };
        while let Some(index) = shared.wait_until(Wait::SampleForDemand, claim)? {
            let job = shared.jobs.job(index);
            let mut batch = self.make(index, &job);
            while let Err(SampleError::MadeRoom) = batch {
                self.wait_for_turn(index)?;
                batch = self.make(index, &job);
            }
            if let Err(SampleError::Stopped) = batch {
                return Ok(());
            }
            if let Ok(batch) = &batch
                && !self.is_weighed.swap(true, Ordering::Relaxed)
            {
                let left = shared.jobs.len() - index;
                self.sampler.hold_for(batch, left, shared.prefetch + 1);
            }
            // A batch that failed before its turn must not block those behind it.
            self.wait_for_turn(index)?;
            shared.change(|state| {
                state.way.starving &= state.way.admitted != index;
                state.way.admitted = state.way.admitted.max(index + 1);
                state.ready.insert(index, batch);
            });
        }
        Ok(())
    }

    fn make(&self, index: u64, job: &Job) -> Result<MiniBatch, SampleError> {
        let admit = |stage, bytes| self.admit(index, stage, bytes);
        self.sampler.make_admitted(job, &admit)
    }

    /// Takes memory for a batch, in batch order for columns; topology takes what is free at once
    /// and else waits for its turn.
    fn admit(&self, index: u64, stage: Stage, bytes: u64) -> Result<Reservation, SampleError> {
        let memory = self.sampler.snapshot();
        if stage == Stage::Topology
            && let Ok(held) = memory.reserve(bytes)
        {
            return Ok(held);
        }
        self.shared.wait_until(Wait::GatherForBuffers, |state| {
            let is_next = state.way.admitted >= index;
            let gives_way = state.way.starving && !planted("hold_while_waiting");
            match (is_next, gives_way) {
                (true, _) => Some(Ok(())),
                (false, true) => Some(Err(SampleError::MadeRoom)),
                (false, false) => None,
            }
        })??;
        let take = |state: &mut State<Turns>| {
            let held = memory.reserve(bytes);
            // Giving way helps only where all that is wanted can be free.
            state.way.starving = held.is_err() && bytes <= memory.budget().limit_bytes();
            if held.is_ok() && stage == Stage::Columns {
                state.way.admitted = state.way.admitted.max(index + 1);
            }
            held.map(Some).map_err(SampleError::from)
        };
        self.shared
            .wait_for_memory(POLL, take, |state| state.delivered == index && state.consumer_waits)
    }

    /// Waits until every earlier batch has its memory.
    fn wait_for_turn(&self, index: u64) -> Result<(), SampleError> {
        self.shared
            .wait_until(Wait::GatherForBuffers, |state| (state.way.admitted >= index).then_some(()))
    }
}
