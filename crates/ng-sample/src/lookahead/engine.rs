//! [`LookAhead`]: the threads and what starts and stops them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ng_io::{ScratchFile, trim_allocator};
use ng_simd::RowDecoder;
use ng_store::{DiskCosts, RowOrder, Snapshot, TensorRef};
use ng_types::{NodeId, NodeTypeId, Reservation};

use super::memory::{Chosen, STRETCH_MIN};
use super::pieces::{Job, Sampled};
use super::policy::Reading;
use super::state::{MEMORY_PATIENCE, Shared, State, ToSample, Wait};
use crate::gate::join_all;
use crate::sampler::Stage;
use crate::{CompactNodes, CompactSample, MiniBatch, SampleError, SampleScratch, Sampler};

/// How a look-ahead works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The type of the seeds.
    pub node_type: NodeTypeId,
    /// How rows are read; [`Reading::Direct`] is not this type's work.
    pub reading: Reading,
    /// Batches to look ahead; `None` is as many as memory rewards.
    pub window: Option<u64>,
    /// Finished batches that wait for the consumer at most.
    pub prefetch: usize,
    /// Sampling threads.
    pub threads: usize,
    /// What reads cost; `None` measures.
    pub costs: Option<DiskCosts>,
    /// Sample many batches first, and let the memory of the topology serve rows then; `None` does
    /// so where it pays.
    pub two_phase: Option<bool>,
    /// Where batches that are sampled first are kept, if it can be written to; else it is the
    /// directory for temporary files.
    pub spill_dir: Option<PathBuf>,
    /// Bytes on disk for batches and their rows; `None` is a quarter of what is free.
    pub spill_bytes: Option<u64>,
}

impl Settings {
    /// Buffers for rows: those of finished batches, and one with the consumer.
    pub(super) fn buffers(&self) -> u64 {
        self.prefetch as u64 + 1
    }

    /// Bytes on disk for batches and their rows.
    pub(super) fn spill_room(&self) -> u64 {
        let quarter = || {
            let can = |directory: &&PathBuf| ScratchFile::create_in(directory).is_ok();
            let beside = self.spill_dir.as_ref().filter(can).cloned();
            let directory = beside.unwrap_or_else(std::env::temp_dir);
            ng_io::free_bytes(&directory).unwrap_or(0) / 4
        };
        self.spill_bytes.unwrap_or_else(quarter)
    }

    pub(super) fn may_have_two_phases(&self) -> bool {
        self.two_phase != Some(false) && !self.reading.is_naive()
    }
}

/// Batches in the order of their jobs, read by looking ahead. Dropping it stops its threads.
pub struct LookAhead {
    engine: Arc<Engine>,
    workers: Vec<JoinHandle<()>>,
}

pub(super) struct Engine {
    pub shared: Shared,
    /// As it was given.
    pub given: Sampler,
    /// The same, with the topologies that are held in memory.
    sampler: Mutex<Sampler>,
    pub settings: Settings,
    pub chosen: OnceLock<Chosen>,
}

impl LookAhead {
    /// Starts the threads. They begin when jobs come.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if a count is 0, or the policy is not one of looking ahead.
    pub fn new(sampler: Sampler, settings: Settings) -> Result<Self, SampleError> {
        if settings.prefetch == 0 || settings.threads == 0 || settings.window == Some(0) {
            let what = "prefetch, threads and window must be at least 1";
            return Err(SampleError::Spec(what.into()));
        }
        if settings.reading == Reading::Direct {
            return Err(SampleError::Spec("reading \"direct\" does not look ahead".into()));
        }
        if settings.reading == Reading::Distribute && settings.two_phase == Some(false) {
            let what = "reading \"distribute\" writes to disk, which is forbidden";
            return Err(SampleError::Spec(what.into()));
        }
        let engine = Arc::new(Engine {
            shared: Shared::default(),
            sampler: Mutex::new(sampler.clone()),
            given: sampler,
            settings,
            chosen: OnceLock::new(),
        });
        let start = |name: &str, work: fn(&Engine)| {
            let engine = Arc::clone(&engine);
            std::thread::Builder::new().name(name.into()).spawn(move || work(&engine))
        };
        let samplers = (0..engine.settings.threads).map(|_| start("ng-sample", Engine::sample));
        let planner = std::iter::once_with(|| start("ng-plan", Engine::plan));
        let workers = samplers.chain(planner).collect::<std::io::Result<_>>();
        let workers = workers.map_err(|source| SampleError::NoThread { source })?;
        Ok(Self { engine, workers })
    }

    /// Gives a job: the seeds of the next batch and its random stream.
    pub fn push(&self, seeds: Vec<NodeId>, stream: u64) {
        self.engine.shared.change(|state| state.jobs.push_back(Job { seeds, stream }));
    }

    /// Says that no more jobs will come.
    pub fn end(&self) {
        self.engine.shared.change(|state| state.ended = true);
    }

    /// How many more jobs can be used now.
    pub fn wanted(&self) -> usize {
        let state = self.engine.shared.lock();
        let ahead = match self.engine.chosen.get() {
            Some(chosen) => chosen.sampled_first.unwrap_or(2 * chosen.window + 16),
            None => STRETCH_MIN,
        };
        (state.delivered + ahead).saturating_sub(state.given()) as usize
    }

    /// What was chosen, once that is known.
    pub fn chosen(&self) -> Option<&Chosen> {
        self.engine.chosen.get()
    }

    /// Waits up to `timeout` until it is chosen how rows are read; `None` if time ran out.
    ///
    /// # Errors
    /// What ended the threads before that.
    pub fn choose_within(&self, timeout: Duration) -> Result<Option<&Chosen>, SampleError> {
        let found = self.engine.shared.look_within(timeout, |state| {
            if let Some(error) = state.failure.take() {
                state.closed = true;
                return Some(Err(error));
            }
            if self.chosen().is_some() {
                return Some(Ok(()));
            }
            let is_one_gone = self.workers.iter().any(JoinHandle::is_finished);
            is_one_gone.then_some(Err(SampleError::ThreadLost))
        });
        found.unwrap_or(Ok(())).map(|()| self.chosen())
    }

    /// Waits up to `timeout` for the next batch: `Ok(None)` after the last one, `Err(())` if time
    /// ran out, so that a caller can look at signals and come again.
    #[allow(clippy::result_unit_err)]
    pub fn next_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Result<MiniBatch, SampleError>>, ()> {
        let shared = &self.engine.shared;
        let mut since = None;
        shared.look_within(timeout, |state| {
            if let Some(since) = since.replace(Instant::now()) {
                shared.add_wait(Wait::Consumer, since);
            }
            if let Some(batch) = state.ready.pop_front() {
                state.delivered += 1;
                return Some(Some(Ok(batch)));
            }
            if let Some(error) = state.failure.take() {
                state.closed = true;
                return Some(Some(Err(error)));
            }
            if state.closed || (state.ended && state.delivered == state.given()) {
                return Some(None);
            }
            let is_one_gone = self.workers.iter().any(JoinHandle::is_finished);
            is_one_gone.then_some(Some(Err(SampleError::ThreadLost)))
        })
    }

    /// Seconds that each stage has waited so far, and for what: the stage that waits least bounds
    /// the whole.
    pub fn waits(&self) -> Vec<(&'static str, f64)> {
        self.engine.shared.waits().collect()
    }

    /// Stops the threads and drops what they prepared.
    pub fn close(&mut self) {
        self.engine.shared.change(|state| {
            state.closed = true;
            state.ready.clear();
        });
        if self.workers.is_empty() {
            return;
        }
        join_all(&mut self.workers);
        // Samples were many small pieces; what the allocator keeps of them nobody can plan with.
        trim_allocator();
    }
}

impl Iterator for LookAhead {
    type Item = Result<MiniBatch, SampleError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Ok(item) = self.next_within(Duration::from_secs(1)) {
                return item;
            }
        }
    }
}

impl Drop for LookAhead {
    fn drop(&mut self) {
        self.close();
    }
}

impl Engine {
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        self.given.snapshot()
    }

    pub fn decoder(&self, tensor: TensorRef) -> Option<&RowDecoder> {
        self.given.columns().tensors().find(|(known, _)| *known == tensor)?.1
    }

    pub fn sampler(&self) -> Sampler {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_sampler(&self, sampler: Sampler) {
        *self.sampler.lock().unwrap_or_else(PoisonError::into_inner) = sampler;
    }

    fn plan(&self) {
        if let Err(error) = self.prepare_and_run() {
            self.shared.fail(error);
        }
    }

    fn sample(&self) {
        let mut rests = 0;
        let mut scratch = SampleScratch::default();
        loop {
            let next = |state: &mut State| state.next_to_sample(rests);
            match self.shared.wait_until(Wait::SampleForDemand, next) {
                None => return,
                Some(ToSample::Rest) => {
                    scratch = SampleScratch::default();
                    rests += 1;
                    self.shared.change(|state| state.resting += 1);
                }
                Some(ToSample::Job(index, job)) => self.sample_job(index, job, &mut scratch),
            }
        }
    }

    fn sample_job(&self, index: u64, job: Job, scratch: &mut SampleScratch) {
        let seeds = [(self.settings.node_type, job.seeds.as_slice())];
        let admit = |_: Stage, bytes| self.admit(index, bytes);
        // Gone before anybody learns of the sample, so that its memory can go then, too.
        let sampler = self.sampler();
        let made = sampler.sample_compact_admitted(&seeds, job.stream, scratch, &admit);
        let made = made.and_then(|sample| self.in_rows(&sampler, index, job, sample));
        drop(sampler);
        match made {
            Ok(sampled) => self.shared.change(|state| {
                state.sampled.insert(index, sampled);
            }),
            Err(error) => self.shared.fail(error),
        }
    }

    /// Waits until the sampling threads hold nothing; false if everything stops.
    pub fn rest_samplers(&self) -> bool {
        self.shared.change(|state| {
            state.rests += 1;
            state.resting = 0;
        });
        let all = self.settings.threads;
        let resting = |state: &mut State| (state.resting == all).then_some(());
        self.shared.wait_until(Wait::PlanForSamples, resting).is_some()
    }

    /// Finds the rows of a sample's nodes, once: all that follows works in rows.
    fn in_rows(
        &self,
        sampler: &Sampler,
        index: u64,
        job: Job,
        sample: CompactSample,
    ) -> Result<Sampled, SampleError> {
        let orders = sampler.orders();
        let ordered = orders.iter().zip(&sample.nodes).filter(|(order, _)| order.is_some());
        let bytes: u64 = ordered.map(|(_, nodes)| 4 * nodes.ids.len() as u64).sum();
        let held = if bytes > 0 { Some(self.admit(index, bytes)?) } else { None };
        let rows = |(order, nodes): (&Option<Arc<RowOrder>>, &CompactNodes)| {
            let order = order.as_ref()?;
            Some(nodes.ids.iter().map(|id| order.row(id) as u32).collect())
        };
        let ordered = orders.iter().zip(&sample.nodes).map(rows).collect();
        Ok(Sampled { index, job, sample, ordered, held })
    }

    /// Memory for sampling. It was planned, so what is missing is in the consumer's hands.
    pub fn admit(&self, index: u64, bytes: u64) -> Result<Reservation, SampleError> {
        let start = Instant::now();
        loop {
            match self.snapshot().reserve(bytes) {
                Ok(held) => return Ok(held),
                Err(error) => {
                    let state = self.shared.lock();
                    let is_due = index <= state.delivered + 1;
                    if state.closed || (is_due && start.elapsed() > MEMORY_PATIENCE) {
                        return Err(SampleError::from_budget(error));
                    }
                    drop(self.shared.wait(state));
                }
            }
        }
    }
}
