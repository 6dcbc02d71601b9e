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

use ng_io::AnonMap;
use ng_types::Reservation;

use super::error::CompiledError;
use super::file::EpochFile;
use super::hot::HotSet;
use super::memory::{Largest, RECORDS, ReplayMemory, buffer_bytes, room};
use crate::buffer::{Pool, region};
use crate::pipeline::{Shared, State};
use crate::seeds::{Jobs, Place};
use crate::{SampleError, Sampler};
use gather::Loaded;

/// What the threads share.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The next job whose record is read.
    begun: u64,
    /// Records that nobody uses.
    free: Vec<AnonMap>,
    /// Records that were read, in the order of the jobs.
    read: VecDeque<(u64, AnonMap)>,
}

/// The state of a replay.
type ReplayState = State<Records>;

/// Batches of compiled epochs.
pub(crate) struct Replay {
    pub shared: Shared<Records>,
    sampler: Sampler,
    files: Vec<EpochFile>,
    /// What it takes of the budget.
    pub memory: ReplayMemory,
    loaded: OnceLock<Loaded>,
    /// Buffers for rows, by column of the sampler whose rows are not held whole.
    pools: Vec<Arc<Pool>>,
    _reserved: Reservation,
}

impl Replay {
    /// Reserves the memory. The files were checked against what is asked for; epochs that were not
    /// compiled take turns with them. Rows come as `sampler` has them.
    ///
    /// # Errors
    /// [`SampleError::Budget`] where the memory is not there, [`CompiledError::Mismatch`] if the
    /// files have other hot rows than the first.
    pub fn new(
        sampler: Sampler,
        jobs: Jobs,
        files: Vec<EpochFile>,
        prefetch: usize,
    ) -> Result<Arc<Self>, SampleError> {
        let Some(first) = files.first().filter(|_| prefetch > 0) else {
            return Err(SampleError::Spec(
                "a replay needs at least 1 file and at least 1 batch prepared ahead".into(),
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
                Pool::new(buffers, bytes as usize, held)
            });
            pools.extend(pool.transpose()?);
        }
        let free = (0..records).map(|_| region(memory.record as usize));
        let free = free.collect::<Result<_, _>>()?;
        let shared = Shared::new(sampler.clock(), jobs, prefetch);
        shared.change(|state: &mut ReplayState| state.way.free = free);
        let (loaded, _reserved) = (OnceLock::new(), reserved);
        Ok(Arc::new(Self { shared, sampler, files, memory, loaded, pools, _reserved }))
    }

    /// The hot rows of all files.
    fn hot(&self) -> &HotSet {
        self.files[0].hot()
    }

    /// Where the batch of a job is: the file, and the batch's number there. The seeds are those of
    /// the epoch that was compiled.
    fn place(&self, job: u64) -> (usize, u64) {
        let Place { epoch, batch, .. } = self.shared.jobs.place(job);
        let own = self.files.iter().position(|file| file.id().epoch == epoch);
        (own.unwrap_or((epoch % self.files.len() as u64) as usize), batch)
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
    let reserved = sampler.snapshot().reserve(bytes)?;
    Ok((records, reserved))
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
    let digest = |hot: &HotSet| format!("{:08x}", hot.digest());
    match files.iter().find(|file| file.hot() != hot) {
        None => Ok(()),
        Some(other) => Err(other.mismatch("hot rows", digest(other.hot()), digest(hot))),
    }
}

/// Whether the store's rows are as wide as the file's.
fn check_widths(sampler: &Sampler, hot: &HotSet) -> Result<(), SampleError> {
    for table in &hot.tables {
        let meta = sampler.snapshot().catalog().tensor(table.tensor);
        let found = meta.map(|meta| (meta.num_rows, meta.row_bytes()));
        if found != Some((table.hot.num_rows(), table.width)) {
            let what = format!(
                "tensor {:?} of the compiled epochs is not in the store, or its rows have \
                     another size",
                table.tensor
            );
            return Err(SampleError::Spec(what));
        }
    }
    Ok(())
}
