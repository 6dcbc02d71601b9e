//! [`LookAhead`]: the threads and what starts and stops them.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ng_simd::RowDecoder;
use ng_store::{DiskCosts, RowOrder, Snapshot, TensorRef};
use ng_types::{NodeId, NodeTypeId, Reservation};

use super::gather::{GatherColumn, Gatherer, Source};
use super::memory::{Chosen, Layout, Room, choose};
use super::pieces::{Job, Piece, Sampled};
use super::planner::{Around, Planner};
use super::policy::{Reading, Table};
use super::reader;
use super::resident::ResidentTensor;
use super::slots::Slots;
use super::state::{MEMORY_PATIENCE, Shared, State, Wait};
use super::study::{BATCHES_MAX, TableStudy};
use crate::buffer::Pool;
use crate::sampler::Stage;
use crate::{CompactNodes, CompactSample, MiniBatch, SampleError, SampleScratch, Sampler};

/// Tensors that take at most this share of the budget are held in memory whole.
const RESIDENT_SHARE: u64 = 32;

/// This share of the budget may be taken by batches that are sampled before the plan is made.
const STUDY_SHARE: u64 = 12;

/// Times the size of a finished subgraph that its sampling takes for a while.
const SAMPLING_FACTOR: u64 = 8;

/// Batches that are sampled beyond those that a step needs, so that the next step finds them.
const SAMPLED_BEYOND: u64 = 3;

/// What a sampled batch takes beside its arrays.
const SAMPLE_OVERHEAD_BYTES: u64 = 4096;

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
}

impl Settings {
    /// Buffers for rows: those of finished batches, and one with the consumer.
    fn buffers(&self) -> u64 {
        self.prefetch as u64 + 1
    }
}

/// Batches in the order of their jobs, read by looking ahead. Dropping it stops its threads.
pub struct LookAhead {
    engine: Arc<Engine>,
    workers: Vec<JoinHandle<()>>,
}

struct Engine {
    shared: Shared,
    /// As it was given; and with the topologies that are held in memory.
    given: Sampler,
    sampler: OnceLock<Sampler>,
    settings: Settings,
    slots: Arc<OnceLock<Vec<Slots>>>,
    gatherer: OnceLock<Gatherer>,
    chosen: OnceLock<Chosen>,
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
        let engine = Arc::new(Engine {
            shared: Shared::default(),
            given: sampler,
            sampler: OnceLock::new(),
            settings,
            slots: Arc::default(),
            gatherer: OnceLock::new(),
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
        let window = self.engine.chosen.get().map_or(BATCHES_MAX as u64, |chosen| chosen.window);
        (state.delivered + 2 * window + 16).saturating_sub(state.given()) as usize
    }

    /// What was chosen, once that is known.
    pub fn chosen(&self) -> Option<&Chosen> {
        self.engine.chosen.get()
    }

    /// Waits up to `timeout` for the next batch: `Ok(None)` after the last one, `Err(())` if time
    /// ran out, so that a caller can look at signals and come again.
    #[allow(clippy::result_unit_err)]
    pub fn next_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Result<MiniBatch, SampleError>>, ()> {
        let deadline = Instant::now() + timeout;
        let shared = &self.engine.shared;
        let mut state = shared.lock();
        loop {
            if let Some(batch) = state.ready.pop_front() {
                state.delivered += 1;
                drop(state);
                shared.change(|_| ());
                return Ok(Some(Ok(batch)));
            }
            if let Some(error) = state.failure.take() {
                state.closed = true;
                return Ok(Some(Err(error)));
            }
            if state.closed || (state.ended && state.delivered == state.given()) {
                return Ok(None);
            }
            if self.workers.iter().any(JoinHandle::is_finished) {
                return Ok(Some(Err(SampleError::ThreadLost)));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(());
            }
            let since = Instant::now();
            state = shared.wait_for(state, left);
            shared.add_wait(Wait::Consumer, since);
        }
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
        for worker in self.workers.drain(..) {
            // A panic of a worker was reported as ThreadLost already.
            let _ = worker.join();
        }
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

/// The planner's view of the threads around it.
struct Threads<'a>(&'a Engine);

impl Around for Threads<'_> {
    fn emit(&mut self, piece: Piece) -> Result<(), SampleError> {
        let mut piece = Some(piece);
        let room = |state: &mut State| {
            if !state.has_room_for_pieces() {
                return None;
            }
            piece.take().map(|piece| state.add_piece(piece))
        };
        self.0.shared.wait_until(Wait::PlanForReader, room).ok_or(SampleError::ThreadLost)
    }

    fn wait_gathered(&mut self, gathered: u64) -> Result<u64, SampleError> {
        let more = |state: &mut State| (state.gathered > gathered).then_some(state.gathered);
        self.0.shared.wait_until(Wait::PlanForSlots, more).ok_or(SampleError::ThreadLost)
    }
}

impl Engine {
    fn snapshot(&self) -> &Arc<Snapshot> {
        self.given.snapshot()
    }

    fn decoder(&self, tensor: TensorRef) -> Option<&RowDecoder> {
        self.given.columns().tensors().find(|(known, _)| *known == tensor)?.1
    }

    fn sampler(&self) -> &Sampler {
        self.sampler.get().unwrap_or(&self.given)
    }

    // Sampling.

    fn sample(&self) {
        let next = |state: &mut State| {
            if let Some(again) = state.again.first_entry() {
                let due = *again.key() < state.sample_until;
                return due.then(|| again.remove_entry());
            }
            if state.begun >= state.sample_until {
                return None;
            }
            let job = state.jobs.pop_front()?;
            state.begun += 1;
            Some((state.begun - 1, job))
        };
        let mut scratch = SampleScratch::default();
        while let Some((index, job)) = self.shared.wait_until(Wait::SampleForDemand, next) {
            let seeds = [(self.settings.node_type, job.seeds.as_slice())];
            let admit = |_: Stage, bytes| self.admit(index, bytes);
            let sampler = self.sampler();
            match sampler.sample_compact_admitted(&seeds, job.stream, &mut scratch, &admit) {
                Ok(sample) => match self.in_rows(index, job, sample) {
                    Ok(sampled) => self.shared.change(|state| {
                        state.sampled.insert(index, sampled);
                    }),
                    Err(error) => self.shared.fail(error),
                },
                Err(error) => self.shared.fail(error),
            }
        }
    }

    /// Finds the rows of a sample's nodes, once: all that follows works in rows.
    fn in_rows(&self, index: u64, job: Job, sample: CompactSample) -> Result<Sampled, SampleError> {
        let orders = self.sampler().orders();
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
    fn admit(&self, index: u64, bytes: u64) -> Result<Reservation, SampleError> {
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

    // Planning.

    fn plan(&self) {
        if let Err(error) = self.prepare_and_run() {
            self.shared.fail(error);
        }
    }

    /// Takes sampled batches in order until there are `count`, or no more are to be had.
    fn take_sampled(&self, count: u64, take: &mut dyn FnMut(Sampled)) -> Option<u64> {
        self.shared.wait_until(Wait::PlanForSamples, |state| {
            state.sample_until = state.sample_until.max(count + SAMPLED_BEYOND);
            while let Some(entry) = state.sampled.first_entry() {
                if *entry.key() != state.planned_input {
                    break;
                }
                state.planned_input += 1;
                take(entry.remove());
            }
            let all = state.jobs.is_empty() && state.planned_input == state.begun;
            let enough = state.planned_input >= count || (all && state.planned_input > 0);
            (enough || (all && state.ended)).then_some(state.planned_input)
        })
    }

    fn prepare_and_run(&self) -> Result<(), SampleError> {
        let mut first = Vec::new();
        let some = |state: &mut State| (state.ended || state.given() > 0).then_some(());
        if self.shared.wait_until(Wait::PlanForSamples, some).is_none() {
            return Ok(());
        }
        // Set once, by this thread alone.
        let _ = self.sampler.set(self.given.clone().with_topology_that_fits()?.with_orders()?);
        if self.take_sampled(1, &mut |sampled| first.push(sampled)).is_none() || first.is_empty() {
            return Ok(());
        }
        let budget = self.snapshot().budget().limit_bytes();
        let sample_bytes = first[0].num_bytes() + SAMPLE_OVERHEAD_BYTES;
        let study = (budget / STUDY_SHARE / sample_bytes).clamp(2, BATCHES_MAX as u64 - 1);
        if self.take_sampled(study, &mut |sampled| first.push(sampled)).is_none() {
            return Ok(());
        }
        let (tables, residents) = self.split_tensors(budget)?;
        let studies = self.study(&tables, &first);
        let (layout, all_bytes, pool_bytes) = self.lay_out(&studies, &first)?;
        self.give_back(&mut first, layout.chosen.window + SAMPLED_BEYOND);
        let held = self.snapshot().reserve(all_bytes).map_err(SampleError::from_budget)?;
        let planner = self.build(layout, &studies, residents, held, &pool_bytes, first)?;
        drop(studies);
        let reading = self.chosen.get().map_or(self.settings.reading, |c| c.reading);
        std::thread::scope(|scope| {
            let read = || reader::read(&self.shared, self.snapshot(), reading, &self.slots);
            let gather = || {
                if let Some(gatherer) = self.gatherer.get() {
                    gatherer.run(&self.shared);
                }
            };
            let named = |name: &str| std::thread::Builder::new().name(name.into());
            let started = named("ng-read")
                .spawn_scoped(scope, read)
                .and_then(|_| named("ng-gather").spawn_scoped(scope, gather))
                .map_err(|source| SampleError::NoThread { source });
            if let Err(error) = started.and_then(|_| self.run(planner)) {
                self.shared.fail(error);
            }
        });
        Ok(())
    }

    /// Drops batches that were sampled for the study alone; they are sampled again in their time.
    fn give_back(&self, first: &mut Vec<Sampled>, keep: u64) {
        let keep = (keep as usize).min(first.len());
        let again = first.split_off(keep);
        self.shared.change(|state| {
            state.planned_input = keep as u64;
            state.sample_until = keep as u64;
            state.again.extend(again.into_iter().map(|sampled| (sampled.index, sampled.job)));
        });
    }

    /// The tensors that go through slots, and those that are held in memory.
    fn split_tensors(&self, budget: u64) -> Result<(Vec<TensorRef>, Residents), SampleError> {
        let (mut tables, mut residents) = (Vec::new(), Vec::new());
        for (tensor, _) in self.given.columns().tensors() {
            let Some(meta) = self.snapshot().catalog().tensor(tensor) else { continue };
            if meta.is_sparse() {
                continue;
            }
            if meta.num_rows.saturating_mul(meta.row_bytes()) <= budget / RESIDENT_SHARE {
                residents.push((tensor, ResidentTensor::load(self.snapshot(), tensor)?));
            } else if meta.num_rows >= u64::from(u32::MAX) {
                return Err(SampleError::Spec(format!(
                    "tensor {:?} has {} rows, too many to look ahead; use reading=\"direct\"",
                    meta.name, meta.num_rows
                )));
            } else {
                tables.push(tensor);
            }
        }
        Ok((tables, residents))
    }

    fn study(&self, tables: &[TensorRef], first: &[Sampled]) -> Vec<TableStudy> {
        let catalog = self.snapshot().catalog();
        let known = tables.iter().filter_map(|tensor| Some((tensor, catalog.tensor(*tensor)?)));
        known.map(|(t, meta)| TableStudy::new(*t, meta.num_rows, meta.row_bytes(), first)).collect()
    }

    /// Chooses, and says what that takes: slots, maps and pools together, and each pool.
    fn lay_out(
        &self,
        studies: &[TableStudy],
        first: &[Sampled],
    ) -> Result<(Layout, u64, Vec<u64>), SampleError> {
        let snapshot = self.snapshot();
        let limit = snapshot.budget().limit_bytes();
        let costs = match (self.settings.costs, studies.first()) {
            (Some(costs), _) => costs,
            (None, Some(study)) => snapshot.disk_costs(study.tensor)?,
            (None, None) => DiskCosts::default(),
        };
        let most = |study: &TableStudy| {
            let rows = first.iter().map(|s| s.rows(study.tensor.owner).len() as u64);
            let rows = rows.max().unwrap_or(0);
            let out_bytes = self.decoder(study.tensor).map_or(0, RowDecoder::out_bytes) as u64;
            ((rows + rows / 64 + 64) * out_bytes).next_multiple_of(2 << 20)
        };
        let buffers = self.settings.buffers();
        let pool_bytes: Vec<u64> = studies.iter().map(|study| buffers * most(study)).collect();
        let sample_bytes = first.iter().map(Sampled::num_bytes).max().unwrap_or(0);
        let sample_bytes = sample_bytes + SAMPLE_OVERHEAD_BYTES;
        let threads = self.settings.threads as u64;
        let table_pages: u64 = studies.iter().map(|s| s.rows * s.width / 800).sum();
        let blocks = table_pages + (16 << 20) + self.sampler().block_cache_bytes();
        let held_samples = first.len() as u64 * sample_bytes;
        let others = pool_bytes.iter().sum::<u64>()
            + threads * SAMPLING_FACTOR * sample_bytes
            + studies.iter().map(|s| s.rows_per_batch() * 16 * 4).sum::<u64>()
            + (128 << 10) * ng_store::RowPlan::BYTES_PER_ROW
            + limit / 64;
        let free = snapshot.free_beside_blocks(blocks) + held_samples;
        let room = Room {
            bytes: free.saturating_sub(others),
            sample_bytes,
            batches: first.len().min(BATCHES_MAX - 1),
        };
        let layout = choose(self.settings.reading, self.settings.window, studies, &room, &costs)?;
        let reading = layout.chosen.reading;
        let bytes = |(study, slots): (&TableStudy, &usize)| {
            Slots::num_bytes(study.width as usize, *slots)
                + Table::num_bytes(reading, study.rows as usize, *slots)
        };
        let tables: u64 = studies.iter().zip(&layout.slots).map(bytes).sum();
        let all = tables + pool_bytes.iter().sum::<u64>();
        Ok((layout, all, pool_bytes))
    }

    fn build(
        &self,
        layout: Layout,
        studies: &[TableStudy],
        residents: Residents,
        mut held: Reservation,
        pool_bytes: &[u64],
        first: Vec<Sampled>,
    ) -> Result<BuiltPlanner, SampleError> {
        let no_memory = |bytes: usize| move |source| SampleError::NoMemory { bytes, source };
        let buffers = self.settings.buffers() as usize;
        let reading = layout.chosen.reading;
        let (mut tables, mut slots, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for (index, study) in studies.iter().enumerate() {
            let (count, width) = (layout.slots[index], study.width as usize);
            slots.push(Slots::new(width, count).map_err(no_memory(count * width))?);
            tables.push(Table::new(reading, study.tensor, study.rows as usize, count));
            let bytes = pool_bytes[index];
            let each = (bytes / buffers as u64) as usize;
            let pool = Pool::new(buffers, each, held.split(bytes)).map_err(no_memory(each))?;
            sources.push((study.tensor, Source::Table(index, pool)));
        }
        sources.extend(residents.into_iter().map(|(tensor, r)| (tensor, Source::Resident(r))));
        let columns = self.given.columns();
        let column = |(place, (tensor, decoder)): (usize, (TensorRef, Option<&RowDecoder>))| {
            let at = sources.iter().position(|(known, _)| *known == tensor);
            let source = at.map_or(Source::Store, |at| sources.swap_remove(at).1);
            let plain = columns.only(&[place]);
            GatherColumn { tensor, decoder: decoder.cloned(), source, plain }
        };
        let columns = columns.tensors().enumerate().map(column).collect();
        let gatherer = Gatherer {
            snapshot: Arc::clone(self.snapshot()),
            columns,
            slots: Arc::clone(&self.slots),
            prefetch: self.settings.prefetch,
        };
        let costs = match (self.settings.costs, studies.first()) {
            (Some(costs), _) => costs,
            (None, Some(study)) => self.snapshot().disk_costs(study.tensor)?,
            (None, None) => DiskCosts::default(),
        };
        let mut planner = Planner::new(
            Arc::clone(self.snapshot()),
            reading,
            layout.chosen.window,
            costs.gap_blocks(),
            tables,
        );
        first.into_iter().for_each(|sampled| planner.push(sampled));
        let hot = studies.iter().map(|study| {
            if layout.common == usize::MAX { Vec::new() } else { study.hot(layout.common) }
        });
        let hot = hot.collect();
        // Set once, by this thread alone.
        let _ = self.slots.set(slots);
        let _ = self.gatherer.set(gatherer);
        let _ = self.chosen.set(layout.chosen);
        Ok(BuiltPlanner { planner, hot, _held: held })
    }

    fn run(&self, mut built: BuiltPlanner) -> Result<(), SampleError> {
        let mut around = Threads(self);
        let planner = &mut built.planner;
        for (table, rows) in built.hot.iter().enumerate() {
            planner.keep_hot(table, rows, &mut around)?;
        }
        let mut t = 0;
        loop {
            let needs = planner.needs(t);
            let mut arrived = Vec::new();
            if self.take_sampled(needs, &mut |sampled| arrived.push(sampled)).is_none() {
                return Ok(());
            }
            arrived.into_iter().for_each(|sampled| planner.push(sampled));
            if planner.available() <= t {
                let more = |state: &mut State| {
                    let ended = state.ended && state.given() == t;
                    (ended || state.given() > t).then_some(ended)
                };
                match self.shared.wait_until(Wait::PlanForSamples, more) {
                    Some(false) => continue,
                    _ => return Ok(()),
                }
            }
            let resolved = planner.step(t, &mut around)?;
            t += 1;
            self.shared.change(|state| {
                state.planned = t;
                state.resolved.push_back(resolved);
            });
        }
    }
}

/// Tensors that are held in memory whole.
type Residents = Vec<(TensorRef, ResidentTensor)>;

struct BuiltPlanner {
    planner: Planner,
    hot: Vec<Vec<u32>>,
    _held: Reservation,
}
