//! Mini-batches prepared ahead of their consumer, by threads, in order.
//!
//! As many batches are in flight as the budget allows, never fewer than one. Memory for rows is
//! admitted in batch order: were a later batch to take the room first, an earlier one could wait
//! for a consumer who waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ng_types::canary::planted;
use ng_types::{NodeId, NodeTypeId, Reservation};

use crate::gate::{Gate, join_all};
use crate::sampler::Stage;
use crate::{MiniBatch, SampleError, Sampler};

/// How long the next batch waits for memory that only the consumer, or another loader of the same
/// store, can give back.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);

/// How often a waiting thread looks whether the stream was closed.
const POLL: Duration = Duration::from_millis(20);

/// Which batches a stream prepares.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    /// The type of the seeds.
    pub node_type: NodeTypeId,
    /// All seeds, in the order of use.
    pub seeds: Vec<NodeId>,
    /// Seeds of a batch; the last may have fewer.
    pub batch_size: usize,
    /// The stream of the first batch; each batch adds one.
    pub first_stream: u64,
    /// Leave out a last batch that is not full.
    pub drop_last: bool,
    /// Batches prepared ahead of the consumer at most.
    pub prefetch: usize,
    /// Preparing threads.
    pub threads: usize,
}

impl BatchPlan {
    /// How many batches there are.
    pub fn num_batches(&self) -> usize {
        if self.drop_last {
            self.seeds.len() / self.batch_size
        } else {
            self.seeds.len().div_ceil(self.batch_size)
        }
    }

    fn seeds_of(&self, batch: usize) -> &[NodeId] {
        let start = batch * self.batch_size;
        &self.seeds[start..self.seeds.len().min(start + self.batch_size)]
    }
}

/// An iterator over prepared mini-batches. Dropping it stops the threads.
pub struct BatchStream {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    num_batches: usize,
}

struct Shared {
    plan: BatchPlan,
    sampler: Sampler,
    gate: Gate<State>,
}

#[derive(Default)]
struct State {
    /// The next batch that a thread may begin.
    claimed: usize,
    /// The batch whose turn it is to take memory for its rows.
    admitted: usize,
    /// The next batch for the consumer.
    delivered: usize,
    /// The batch whose turn it is finds no memory: later ones, which hold their topology while
    /// they wait, give it back and begin anew.
    starving: bool,
    /// The consumer stands in `next`.
    consumer_waits: bool,
    closed: bool,
    ready: BTreeMap<usize, Result<MiniBatch, SampleError>>,
}

impl BatchStream {
    /// Starts preparing.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if a size or count is 0; [`SampleError::Read`] if rows lie in an order
    /// that cannot be read.
    pub fn new(sampler: Sampler, plan: BatchPlan) -> Result<Self, SampleError> {
        for (what, value) in [
            ("batch_size", plan.batch_size),
            ("prefetch", plan.prefetch),
            ("threads", plan.threads),
        ] {
            if value == 0 {
                return Err(SampleError::Spec(format!("{what} must be at least 1")));
            }
        }
        let sampler = sampler.with_orders_that_fit()?;
        let num_batches = plan.num_batches();
        let threads = plan.threads.min(plan.prefetch).min(num_batches);
        let shared = Arc::new(Shared { plan, sampler, gate: Gate::default() });
        let workers = (0..threads)
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.work(num_batches))
            })
            .collect();
        Ok(Self { shared, workers, num_batches })
    }

    /// How many batches there are.
    pub fn num_batches(&self) -> usize {
        self.num_batches
    }

    /// Waits up to `timeout` for the next batch: `Ok(None)` after the last one, `Err(())` if time
    /// ran out, so that a caller can look at signals and come again.
    #[allow(clippy::result_unit_err)]
    pub fn next_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Result<MiniBatch, SampleError>>, ()> {
        self.shared.gate.look_within(timeout, timeout, |state| {
            if state.delivered >= self.num_batches || state.closed {
                return Some(None);
            }
            let batch = state.ready.remove(&state.delivered);
            state.consumer_waits = batch.is_none();
            if let Some(batch) = batch {
                state.delivered += 1;
                state.closed = batch.is_err();
                return Some(Some(batch));
            }
            let are_gone = self.workers.iter().all(JoinHandle::is_finished);
            are_gone.then_some(Some(Err(SampleError::ThreadLost)))
        })
    }

    /// Stops the threads and drops what they prepared.
    pub fn close(&mut self) {
        self.shared.gate.change(|state| {
            state.closed = true;
            state.ready.clear();
        });
        join_all(&mut self.workers);
    }
}

impl Iterator for BatchStream {
    type Item = Result<MiniBatch, SampleError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Ok(item) = self.next_within(Duration::from_secs(1)) {
                return item;
            }
        }
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn work(&self, num_batches: usize) {
        while let Some(batch) = self.claim(num_batches) {
            let seeds = [(self.plan.node_type, self.plan.seeds_of(batch))];
            let stream = self.plan.first_stream.wrapping_add(batch as u64);
            let admit = |stage, bytes| self.admit(batch, stage, bytes);
            let mut result = self.sampler.sample_admitted(&seeds, stream, &admit);
            while let Err(SampleError::MadeRoom) = result {
                self.wait_for_turn(batch);
                result = self.sampler.sample_admitted(&seeds, stream, &admit);
            }
            // A batch that failed before its turn must not block those behind it.
            self.wait_for_turn(batch);
            self.gate.change(|state| {
                state.starving &= state.admitted != batch;
                state.admitted = state.admitted.max(batch + 1);
                if !state.closed {
                    state.ready.insert(batch, result);
                }
            });
        }
    }

    fn claim(&self, num_batches: usize) -> Option<usize> {
        let mut state = self.gate.lock();
        loop {
            if state.closed || state.claimed >= num_batches {
                return None;
            }
            if state.claimed < state.delivered + self.plan.prefetch {
                state.claimed += 1;
                return Some(state.claimed - 1);
            }
            state = self.gate.wait(state, Duration::from_secs(1));
        }
    }

    /// Takes memory for a batch, in batch order for columns; topology takes what is free at once
    /// and else waits for its turn.
    fn admit(&self, batch: usize, stage: Stage, bytes: u64) -> Result<Reservation, SampleError> {
        let snapshot = self.sampler.snapshot();
        if stage == Stage::Topology
            && let Ok(held) = snapshot.reserve(bytes)
        {
            return Ok(held);
        }
        self.wait_for_turn_or_make_room(batch)?;
        let mut starving_since = None;
        loop {
            match snapshot.reserve(bytes) {
                Ok(held) => {
                    self.gate.change(|state| {
                        state.starving = false;
                        if stage == Stage::Columns {
                            state.admitted = state.admitted.max(batch + 1);
                        }
                    });
                    return Ok(held);
                }
                Err(error) => {
                    self.gate.change(|state| state.starving = true);
                    let state = self.gate.lock();
                    if state.closed {
                        return Err(SampleError::from_budget(error));
                    }
                    let only_consumer_can_help = state.delivered == batch && state.consumer_waits;
                    let since = *starving_since.get_or_insert_with(Instant::now);
                    if only_consumer_can_help && since.elapsed() > MEMORY_PATIENCE {
                        return Err(SampleError::from_budget(error));
                    }
                    if !only_consumer_can_help {
                        starving_since = None;
                    }
                    drop(self.gate.wait(state, POLL));
                }
            }
        }
    }

    /// Waits while holding memory, unless an earlier batch needs it.
    fn wait_for_turn_or_make_room(&self, batch: usize) -> Result<(), SampleError> {
        let mut state = self.gate.lock();
        while state.admitted < batch {
            if state.closed {
                return Err(SampleError::ThreadLost);
            }
            if state.starving && !planted("hold_while_waiting") {
                return Err(SampleError::MadeRoom);
            }
            state = self.gate.wait(state, POLL);
        }
        Ok(())
    }

    /// Waits until every earlier batch has its memory, or the stream is closed.
    fn wait_for_turn(&self, batch: usize) {
        let mut state = self.gate.lock();
        while state.admitted < batch && !state.closed {
            state = self.gate.wait(state, POLL);
        }
    }
}
