//! [`LookAhead`]: what its threads have in common, and the sampling threads' work.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ng_io::ScratchFile;
use ng_simd::RowDecoder;
use ng_store::{DiskCosts, RowOrder, Snapshot, TensorRef};
use ng_types::Reservation;

use super::chosen::{Chosen, InForce};
use super::pieces::Sampled;
use super::policy::Reading;
use super::spill::Spill;
use super::state::{AheadShared, AheadState, Kept, ToSample};
use crate::admission::Stage;
use crate::clock::Wait;
use crate::pipeline::Shared;
use crate::seeds::Jobs;
use crate::{CompactNodes, CompactSample, SampleError, SampleScratch, Sampler};

/// Sampling threads, at most, where none are asked for.
const THREADS_MAX: usize = 4;

/// Finished batches that wait for the consumer where nothing else is asked for: their memory is not
/// there for rows.
const PREFETCH: usize = 1;

/// Settings of reading. `None` means automatic.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How rows are read that memory does not hold.
    pub reading: Reading,
    /// The window in batches; `None` chooses it by the memory.
    pub window: Option<u64>,
    /// Finished batches that wait for the consumer at most.
    pub prefetch: Option<usize>,
    /// Sampling threads.
    pub threads: Option<usize>,
    /// The costs of reads; `None` measures them.
    pub costs: Option<DiskCosts>,
    /// Sample many batches first, and let the memory of the topology serve rows then; `None` does
    /// so where it pays.
    pub two_phase: Option<bool>,
    /// The most bytes of temporary files that an epoch may write for rows, as a multiple of the
    /// bytes of the tensors; `None` is 1. 0 also forbids writing samples to disk.
    pub temporary_writes: Option<f64>,
    /// Where batches that are sampled first are kept, if it can be written to; else it is the
    /// directory for temporary files.
    pub spill_dir: Option<PathBuf>,
    /// The most bytes on disk for batches and their rows; `None` is a quarter of the free space.
    pub spill_bytes: Option<u64>,
}

impl Settings {
    fn check(&self) -> Result<(), SampleError> {
        let what = if self.prefetch() == 0 || self.threads() == 0 || self.window == Some(0) {
            "the numbers of threads, of batches prepared ahead and of batches in the window must \
             be at least 1"
        } else if self.reading == Reading::OnDemand {
            "look-ahead cannot read rows on demand"
        } else if self.reading == Reading::Distribute && self.two_phase == Some(false) {
            "distributing rows needs two phases, which the settings forbid"
        } else if self.reading == Reading::Window && self.two_phase == Some(true) {
            "a window of random reads cannot have two phases"
        } else {
            return Ok(());
        };
        Err(SampleError::Spec(what.into()))
    }

    /// Finished batches that wait for the consumer at most.
    pub(crate) fn prefetch(&self) -> usize {
        self.prefetch.unwrap_or(PREFETCH)
    }

    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(|| cores().min(THREADS_MAX))
    }

    /// Whether a setting of looking ahead is given, which `Auto` honours by doing so.
    pub(crate) fn ask_to_look_ahead(&self) -> bool {
        self.window.is_some() || self.two_phase == Some(true)
    }

    /// Buffers for rows: those of finished batches, and one with the consumer.
    pub(super) fn buffers(&self) -> u64 {
        self.prefetch() as u64 + 1
    }

    /// Bytes on disk for batches and their rows.
    pub(super) fn spill_room(&self) -> u64 {
        let quarter = || ng_io::free_bytes(&self.scratch_dir()).unwrap_or(0) / 4;
        self.spill_bytes.unwrap_or_else(quarter)
    }

    /// Where files without a name are made.
    pub(super) fn scratch_dir(&self) -> PathBuf {
        let can = |directory: &&PathBuf| ScratchFile::create_in(directory).is_ok();
        self.spill_dir.as_ref().filter(can).cloned().unwrap_or_else(std::env::temp_dir)
    }

    pub(super) fn may_have_two_phases(&self) -> bool {
        self.two_phase != Some(false) && !self.reading.is_naive() && self.temporary_writes() > 0.0
    }

    /// Bytes of rows that an epoch may write for a while, as a multiple of those of the tensors.
    pub(super) fn temporary_writes(&self) -> f64 {
        self.temporary_writes.unwrap_or(1.0)
    }
}

/// Batches whose rows are read by looking ahead.
pub(crate) struct LookAhead {
    pub shared: AheadShared,
    /// As it was given.
    pub(super) given: Sampler,
    /// The same, with the topologies that are held in memory.
    sampler: Mutex<Sampler>,
    /// What samples the passes that come between epochs.
    others: Vec<Sampler>,
    pub(super) settings: Settings,
    pub(super) in_force: InForce,
    /// Samples on disk, stretch after stretch.
    spills: Mutex<Vec<Spill>>,
}

impl LookAhead {
    /// Makes `jobs` of what `sampler` draws and, for each of their passes, one of `others`.
    pub fn new(
        sampler: Sampler,
        others: Vec<Sampler>,
        jobs: Jobs,
        settings: Settings,
    ) -> Result<Arc<Self>, SampleError> {
        settings.check()?;
        assert_eq!(others.len(), jobs.passes.len(), "each pass has a sampler");
        let sampler = sampler.without_held_topologies();
        let others = others.into_iter().map(Sampler::without_held_topologies).collect();
        Ok(Arc::new(Self {
            shared: Shared::new(sampler.clock(), jobs, settings.prefetch()),
            sampler: Mutex::new(sampler.clone()),
            others,
            given: sampler,
            settings,
            in_force: InForce::default(),
            spills: Mutex::default(),
        }))
    }

    /// Jobs that are known to come: as many as are of use before the consumer takes another.
    pub(super) fn known(&self, state: &AheadState) -> u64 {
        self.shared.jobs.len().min(state.delivered + self.in_force.ahead())
    }

    /// How batches are read at present.
    pub fn reads_by(&self) -> Option<Chosen> {
        self.in_force.reads_by()
    }

    /// How batches are read by decision.
    pub fn chosen(&self) -> Option<Chosen> {
        self.in_force.chosen()
    }

    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        self.given.snapshot()
    }

    pub(super) fn decoder(&self, tensor: TensorRef) -> Option<&RowDecoder> {
        self.given.columns().tensors().find(|(known, _)| *known == tensor)?.1
    }

    /// Taken before the lock of the state, if both are.
    pub(super) fn spills(&self) -> MutexGuard<'_, Vec<Spill>> {
        self.spills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sampler(&self) -> Sampler {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What samples a job: those of other passes with the memory of this one.
    fn sampler_of(&self, job: u64) -> Sampler {
        let own = self.sampler();
        let pass = self.shared.jobs.place(job).pass;
        pass.map_or_else(|| own.clone(), |pass| self.others[pass].with_memory_of(&own))
    }

    pub(super) fn set_sampler(&self, sampler: Sampler) {
        *self.sampler.lock().unwrap_or_else(PoisonError::into_inner) = sampler;
    }

    /// A sampling thread's work.
    pub fn run_sampler(&self) -> Result<(), SampleError> {
        let mut rests = 0;
        let mut scratch = SampleScratch::default();
        loop {
            let next = |state: &mut AheadState| {
                let known = self.known(state);
                state.way.next_to_sample(rests, known, scratch.num_bytes() > 0)
            };
            match self.shared.wait_until(Wait::SampleForDemand, next)? {
                ToSample::Rest => {
                    scratch = SampleScratch::default();
                    rests += 1;
                    self.shared.change(|state| state.way.resting += 1);
                }
                ToSample::GiveWay => scratch = SampleScratch::default(),
                ToSample::Job(index) => self.sample_job(index, &mut scratch)?,
            }
        }
    }

    fn sample_job(&self, index: u64, scratch: &mut SampleScratch) -> Result<(), SampleError> {
        let job = self.shared.jobs.job(index);
        let admit = |_: Stage, bytes| self.admit_while_sampling(index, bytes);
        // Gone before anybody learns of the sample, so that its memory can go then, too.
        let sampler = self.sampler_of(index);
        let sample = sampler.sample_job(&job, scratch, &admit)?;
        let sampled = self.in_rows(&sampler, index, sample)?;
        drop(sampler);
        let spills = self.shared.lock().way.spill_from.is_some_and(|from| index >= from);
        let kept = if spills {
            self.spill(&sampled)?;
            drop(sampled);
            Kept::Spilled
        } else {
            Kept::Memory(Box::new(sampled))
        };
        self.shared.change(|state| state.way.keep(index, kept));
        Ok(())
    }

    /// Memory for the sample of batch `index`. A planner that waits for more samples than there is
    /// memory for learns so.
    fn admit_while_sampling(&self, index: u64, bytes: u64) -> Result<Reservation, SampleError> {
        if let Ok(held) = self.snapshot().reserve(bytes) {
            return Ok(held);
        }
        self.shared.change(|state| state.way.starved += 1);
        let held = self.shared.admit(self.snapshot(), index, bytes);
        self.shared.change(|state| state.way.starved -= 1);
        held
    }

    /// Waits until the sampling threads hold nothing.
    pub(super) fn rest_samplers(&self) -> Result<(), SampleError> {
        self.shared.change(|state| {
            state.way.rests += 1;
            state.way.resting = 0;
        });
        let all = self.settings.threads();
        let resting = |state: &mut AheadState| (state.way.resting == all).then_some(());
        self.shared.wait_until(Wait::PlanForSamples, resting)
    }

    /// Finds the rows of a sample's nodes, once: all that follows works in rows.
    fn in_rows(
        &self,
        sampler: &Sampler,
        index: u64,
        sample: CompactSample,
    ) -> Result<Sampled, SampleError> {
        let orders = sampler.orders();
        let ordered = orders.iter().zip(&sample.nodes).filter(|(order, _)| order.is_some());
        let bytes: u64 = ordered.map(|(_, nodes)| 4 * nodes.ids.len() as u64).sum();
        let admit = || self.admit_while_sampling(index, bytes);
        let held = (bytes > 0).then(admit).transpose()?;
        let rows = |(order, nodes): (&Option<Arc<RowOrder>>, &CompactNodes)| {
            let order = order.as_ref()?;
            Some(nodes.ids.iter().map(|id| order.row(id) as u32).collect())
        };
        let ordered = orders.iter().zip(&sample.nodes).map(rows).collect();
        Ok(Sampled { index, sample, ordered, held })
    }
}
