//! [`Replay`]: batches of compiled epochs, read from front to back.
//!
//! One thread loads the hot rows and then reads records, a few ahead; another takes them apart and
//! puts cold and hot rows together. What must not live here: formats. The invariant: batches come
//! in the order of the jobs, each after its checksum held.

mod gather;
mod hot;
mod read;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use ng_io::Region;
use ng_types::Reservation;

use super::error::CompiledError;
use super::file::EpochFile;
use super::hot::HotSet;
use super::memory::{Largest, RECORDS, ReplayMemory, buffer_bytes, room};
use crate::buffer::Pool;
use crate::gate::{Gate, join_all};
use crate::{MiniBatch, SampleError, Sampler};
pub(crate) use gather::{COLD, copy_rows};
use hot::Held;

/// How long a wait lasts before the world is looked at again.
const POLL: Duration = Duration::from_millis(20);

/// A batch of one of the files.
#[derive(Clone, Copy, Debug)]
struct Job {
    file: usize,
    batch: u64,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Records that nobody uses.
    records: Vec<Region>,
    /// Records that were read, in the order of the jobs.
    loaded: VecDeque<(Job, Region)>,
    ready: VecDeque<MiniBatch>,
    given: u64,
    delivered: u64,
    failure: Option<SampleError>,
    closed: bool,
}

struct Engine {
    sampler: Sampler,
    files: Vec<EpochFile>,
    prefetch: usize,
    memory: ReplayMemory,
    held: OnceLock<Held>,
    /// By column of the sampler: buffers for rows, where they are not held whole.
    pools: Vec<Option<Arc<Pool>>>,
    gate: Gate<State>,
    _reserved: Reservation,
}

/// Batches of compiled epochs in the order of their jobs. Dropping it stops its threads.
pub struct Replay {
    engine: Arc<Engine>,
    workers: Vec<JoinHandle<()>>,
}

impl Replay {
    /// Reserves the memory and starts the threads, which begin when jobs come. The files were
    /// checked against what is asked for; rows come as `sampler` has them.
    ///
    /// # Errors
    /// [`SampleError::Budget`] where the memory is not there, [`CompiledError::Mismatch`] if the
    /// files have other hot rows than the first.
    pub fn new(
        sampler: Sampler,
        files: Vec<EpochFile>,
        prefetch: usize,
    ) -> Result<Self, SampleError> {
        let Some(first) = files.first().filter(|_| prefetch > 0) else {
            return Err(SampleError::Spec(
                "a replay needs files, and prefetch of 1 or more".into(),
            ));
        };
        check_hot(&files, first.hot())?;
        check_widths(&sampler, first.hot())?;
        let largest = largest(&files, first.hot().tables.len());
        let memory = ReplayMemory::new(&sampler, first.hot(), &largest, prefetch as u64);
        let (records, mut reserved) = reserve(&sampler, &memory)?;
        let mut pools = Vec::new();
        for (tensor, decoder) in sampler.columns().tensors() {
            let table = first.hot().tables.iter().position(|table| table.tensor == tensor);
            let pool = table.zip(decoder).map(|(table, decoder)| {
                let bytes = buffer_bytes(largest.rows[table], decoder.out_bytes() as u64);
                let buffers = prefetch + 1;
                let held = reserved.split(bytes * buffers as u64);
                Pool::new(buffers, bytes as usize, held).map_err(no_memory(bytes))
            });
            pools.push(pool.transpose()?);
        }
        let region = |_| Region::with_huge_pages(memory.record as usize);
        let records = (0..records).map(region).collect::<std::io::Result<_>>();
        let records = records.map_err(no_memory(memory.record))?;
        let engine = Arc::new(Engine {
            sampler,
            files,
            prefetch,
            memory,
            held: OnceLock::new(),
            pools,
            gate: Gate::new(State { records, ..State::default() }),
            _reserved: reserved,
        });
        let start = |name: &str, work: fn(&Engine) -> Result<(), SampleError>| {
            let engine = Arc::clone(&engine);
            let run = move || {
                if let Err(error) = work(&engine) {
                    engine.gate.change(|state| state.failure.get_or_insert(error).to_string());
                }
            };
            std::thread::Builder::new().name(name.into()).spawn(run)
        };
        let read = start("ng-read", Engine::read_all);
        let gather = start("ng-gather", Engine::gather_all);
        let workers = [read, gather].into_iter().collect::<std::io::Result<_>>();
        let workers = workers.map_err(|source| SampleError::NoThread { source })?;
        Ok(Self { engine, workers })
    }

    /// Gives a job: batch `batch` of file number `file`.
    pub fn push(&self, file: usize, batch: u64) {
        self.engine.gate.change(|state| {
            state.jobs.push_back(Job { file, batch });
            state.given += 1;
        });
    }

    /// What it takes of the budget.
    pub fn memory(&self) -> &ReplayMemory {
        &self.engine.memory
    }

    /// Waits up to `timeout` for the next batch: `Ok(None)` if there is no job left, `Err(())` if
    /// time ran out, so that a caller can look at signals and come again.
    #[allow(clippy::result_unit_err)]
    pub fn next_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Result<MiniBatch, SampleError>>, ()> {
        self.engine.gate.look_within(timeout, POLL, |state| {
            if let Some(batch) = state.ready.pop_front() {
                state.delivered += 1;
                return Some(Some(Ok(batch)));
            }
            if let Some(error) = state.failure.take() {
                state.closed = true;
                return Some(Some(Err(error)));
            }
            if state.closed || state.delivered == state.given {
                return Some(None);
            }
            let is_one_gone = self.workers.iter().any(JoinHandle::is_finished);
            is_one_gone.then_some(Some(Err(SampleError::ThreadLost)))
        })
    }

    /// Stops the threads and drops what they prepared.
    pub fn close(&mut self) {
        self.engine.gate.change(|state| {
            state.closed = true;
            state.ready.clear();
        });
        join_all(&mut self.workers);
    }
}

impl Iterator for Replay {
    type Item = Result<MiniBatch, SampleError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Ok(item) = self.next_within(Duration::from_secs(1)) {
                return item;
            }
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.close();
    }
}

impl Engine {
    /// Waits until `look` finds something; `None` when everything stops.
    fn wait_until<R>(
        &self,
        poll: Duration,
        mut look: impl FnMut(&mut State) -> Option<R>,
    ) -> Option<R> {
        let found = self.gate.look_within(Duration::MAX, poll, |state| {
            let goes_on = !state.closed && state.failure.is_none();
            if goes_on { look(state).map(Some) } else { Some(None) }
        });
        found.ok().flatten()
    }

    fn is_stopping(&self) -> bool {
        let state = self.gate.lock();
        state.closed || state.failure.is_some()
    }

    /// The hot rows of all files.
    fn hot(&self) -> &HotSet {
        self.files[0].hot()
    }
}

/// Reserves what a replay holds as long as it lives; says how many records that has room for.
fn reserve(sampler: &Sampler, memory: &ReplayMemory) -> Result<(u64, Reservation), SampleError> {
    let free = room(sampler.snapshot());
    let fits = |records: &u64| memory.with_records(*records) <= free;
    let records = (1..=RECORDS).rev().find(fits).ok_or_else(|| {
        let budget = sampler.snapshot().budget();
        let (wanted_bytes, limit_bytes) = (memory.with_records(1), budget.limit_bytes());
        let held_bytes = limit_bytes.saturating_sub(free);
        let minimum_bytes = memory.budget_for(1) + budget.used_bytes();
        SampleError::Budget { wanted_bytes, held_bytes, limit_bytes, minimum_bytes }
    })?;
    let bytes = memory.hot + memory.buffers + memory.record * records;
    let reserved = sampler.snapshot().reserve(bytes).map_err(SampleError::from_budget)?;
    Ok((records, reserved))
}

fn no_memory(bytes: u64) -> impl Fn(std::io::Error) -> SampleError {
    move |source| SampleError::NoMemory { bytes: bytes as usize, source }
}

fn largest(files: &[EpochFile], tables: usize) -> Largest {
    let mut largest = Largest { rows: vec![0; tables], ..Largest::default() };
    for EpochFile { tail, .. } in files {
        largest.record_bytes = largest.record_bytes.max(tail.record_bytes_max);
        largest.batch_bytes = largest.batch_bytes.max(tail.batch_bytes_max);
        for (most, rows) in largest.rows.iter_mut().zip(&tail.rows_max) {
            *most = (*most).max(*rows);
        }
    }
    largest
}

fn check_hot(files: &[EpochFile], hot: &HotSet) -> Result<(), CompiledError> {
    match files.iter().find(|file| file.hot() != hot) {
        None => Ok(()),
        Some(other) => Err(CompiledError::Mismatch {
            file: other.reader.name(other.file).to_string(),
            field: "hot rows".into(),
            found: format!("{:08x}", other.hot().digest()),
            wanted: format!("{:08x}", hot.digest()),
        }),
    }
}

/// Whether the store's rows are as wide as the file's.
fn check_widths(sampler: &Sampler, hot: &HotSet) -> Result<(), SampleError> {
    for table in &hot.tables {
        let meta = sampler.snapshot().catalog().tensor(table.tensor);
        let found = meta.map(|meta| (meta.num_rows, meta.row_bytes()));
        if found != Some((table.hot.num_rows(), table.width)) {
            let what =
                format!("tensor {:?} of the compiled epochs is not in the store", table.tensor);
            return Err(SampleError::Spec(what));
        }
    }
    Ok(())
}
