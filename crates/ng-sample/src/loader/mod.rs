//! From seeds to batches, epoch after epoch, by whatever way serves best.
//!
//! What lives here: the choice between ways, which compiled epochs serve a loader, whose batches
//! one pipeline makes, and who gives memory back to whom. What must not: how a way works. The
//! invariant: which batches come, and their bytes, depend on sampler, seeds and plan alone.

mod epochs;
mod passes;
mod pipeline;
mod run;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use ng_store::Tenant;
use ng_types::{ErrorKind, Explain};

use crate::seeds::{Inputs, Jobs, Place, SeedPlan};
use crate::{Chosen, Reading, ReplayMemory, SampleError, Sampler, Settings};
pub use epochs::Epochs;
use passes::{Origin, Passes, Seen};
pub use pipeline::{Pipeline, Way};
pub use run::Run;

/// Batches ahead of the consumer where each is made by itself.
const PREFETCH: usize = 4;

/// Epochs that need fewer batches than this are over before looking ahead has paid.
const LOOKED_AHEAD_MIN: u64 = 4;

/// If an epoch has at least this many batches, the first one prepares the second unasked.
const GOES_ON_MIN: u64 = 64;

/// Who takes batches from what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Nobody,
    Run(u64),
    /// Others read from the store at the same time, so whoever took them goes on batch by batch.
    Shared,
}

/// A pipeline that is kept from epoch to epoch.
struct Kept {
    pipeline: Pipeline,
    /// Whose passes it makes between epochs.
    others: Vec<Origin>,
    /// The job of the batch that it gives next.
    next: u64,
}

impl Kept {
    /// The batch that it gives after the next `skipped` ones.
    fn place(&self, skipped: u64) -> Place {
        self.pipeline.jobs().place(self.next + skipped)
    }

    /// How many batches come before the one at `place`, if there are `most` at most.
    fn find(&self, place: Place, most: u64) -> Option<u64> {
        let job = self.pipeline.jobs().find(place, self.next, most)?;
        Some(job - self.next)
    }

    /// Batches between two epochs.
    fn between(&self) -> u64 {
        self.pipeline.jobs().between()
    }
}

struct State {
    kept: Option<Kept>,
    /// How a pipeline has read that is gone, or that another loader keeps.
    last: Option<Chosen>,
    owner: Owner,
    /// A batch is being waited for, so the memory is in use.
    is_busy: bool,
    /// Memory is too small, or a file is damaged: batches are made one by one.
    gave_up: bool,
    /// Runs that were begun.
    runs: u64,
}

/// The batches of a plan, epoch after epoch.
///
/// What it reads ahead with keeps its memory between epochs, so that the next one starts at full
/// speed, and gives it up when somebody else starts to read from the same store. Where that is in
/// the midst of an epoch, it takes the memory back when its next batch is asked for, or leaves the
/// rest of the epoch to what makes batches one by one, if the others have not ended.
///
/// Where another loader of the same columns makes a pass after each epoch, such as a validation,
/// its batches are prepared after those of the next epoch, by the same threads and in the same
/// memory.
pub struct Loader {
    origin: Origin,
    settings: Settings,
    /// Compiled epochs, and whether it is an error if they cannot serve.
    compiled: Option<(Epochs, bool)>,
    /// After an epoch the next one follows.
    goes_on: bool,
    /// Compiled epochs or a look-ahead make its batches, and keep their memory from epoch to epoch.
    keeps_memory: bool,
    tenant: Arc<Tenant>,
    state: Mutex<State>,
    /// Never held while another lock is taken.
    passes: Mutex<Passes>,
}

impl Loader {
    /// A loader that has read nothing yet. With `goes_on` it prepares the next epoch when one ends.
    ///
    /// # Errors
    /// [`SampleError::Compiled`] if compiled epochs that are insisted on cannot be opened.
    pub fn new(
        sampler: Sampler,
        inputs: Arc<Inputs>,
        plan: SeedPlan,
        settings: Settings,
        compiled: Option<(Epochs, bool)>,
        goes_on: bool,
    ) -> Result<Arc<Self>, SampleError> {
        let compiled = compiled.filter(|_| !sampler.is_direct());
        if compiled.is_some() && !sampler.spec().is_plain() {
            let what = "compiled epochs support only plain neighbour sampling (no links, disjoint \
                        subgraphs, times, walks or induced edges); sample these batches instead";
            return Err(SampleError::Spec(what.into()));
        }
        let keeps_memory = compiled.is_some() || looks_ahead(&sampler, &plan, &settings);
        let is_optional = matches!(compiled, Some((_, false)));
        let loader = Arc::new_cyclic(|me: &Weak<Self>| {
            let (owner, me) = (me.clone(), me.clone());
            let give_way = move |for_good| me.upgrade().is_some_and(|me| me.give_way(for_good));
            let tenant = Tenant::new(owner, give_way);
            let state = Mutex::new(State {
                kept: None,
                last: None,
                owner: Owner::Nobody,
                is_busy: false,
                gave_up: false,
                runs: 0,
            });
            let (origin, passes) = (Origin { sampler, inputs, plan }, Mutex::default());
            Self { origin, settings, compiled, goes_on, keeps_memory, tenant, state, passes }
        });
        if is_optional { loader.unless_it_does_not_fit() } else { Ok(loader) }
    }

    /// The loader, or one that does without compiled epochs where the budget has no room for them
    /// now.
    fn unless_it_does_not_fit(self: Arc<Self>) -> Result<Arc<Self>, SampleError> {
        self.sampler().snapshot().tenants().make_room(Some(&self.tenant));
        match self.start((0, 0)) {
            Err(error) if error.kind() == ErrorKind::BudgetTooSmall => {
                let (Origin { sampler, inputs, plan }, settings) =
                    (self.origin.clone(), self.settings.clone());
                Self::new(sampler, inputs, plan, settings, None, self.goes_on)
            }
            Err(error) => Err(error),
            Ok(_) => Ok(self),
        }
    }

    /// Batches `first` ... of an epoch.
    pub fn run(self: &Arc<Self>, epoch: u64, first: u64) -> Run {
        Run::new(Arc::clone(self), epoch, first)
    }

    fn sampler(&self) -> &Sampler {
        &self.origin.sampler
    }

    /// The compiled epochs that serve it.
    pub fn epochs(&self) -> Option<&Epochs> {
        self.compiled.as_ref().map(|(epochs, _)| epochs)
    }

    /// Returns how look-ahead reads, once it is chosen, or how the last epoch was read.
    pub fn chosen(&self) -> Option<Chosen> {
        let state = self.lock();
        let chosen = state.kept.as_ref().and_then(|kept| kept.pipeline.chosen());
        chosen.or_else(|| state.last.clone())
    }

    /// What a replay takes of the budget, while it does.
    pub fn memory(&self) -> Option<ReplayMemory> {
        self.lock().kept.as_ref().and_then(|kept| kept.pipeline.memory()).copied()
    }

    /// Waits up to `timeout` until the reading of an epoch is chosen; `None` on a timeout.
    ///
    /// # Errors
    /// What keeps it from being read.
    pub fn choose_within(
        &self,
        epoch: u64,
        timeout: Duration,
    ) -> Result<Option<Chosen>, SampleError> {
        let mut state = self.lock();
        let kept = match &mut state.kept {
            Some(kept) => kept,
            // A run of that epoch takes it over.
            none => none.insert(self.start((epoch, 0))?),
        };
        kept.pipeline.choose_within(timeout)
    }

    /// Frees the memory that is kept between epochs.
    pub fn close(&self) {
        self.lock().kept = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept, begun anew at an epoch and batch.
    fn start(&self, first: (u64, u64)) -> Result<Kept, SampleError> {
        let (jobs, others, way) = match self.epochs() {
            Some(epochs) => {
                let files = epochs.open(self.sampler().snapshot())?;
                let way = Way::Replay { files, prefetch: self.settings.prefetch() };
                (self.jobs(first, self.goes_on), Vec::new(), way)
            }
            None => {
                let passes = self.passes();
                let is_long = self.origin.plan.steps() >= GOES_ON_MIN;
                let jobs = self.jobs(first, self.goes_on && (is_long || passes.are_many()));
                let (jobs, others) = passes.expect(&self.origin, jobs);
                (jobs, others, Way::Ahead(self.settings.clone()))
            }
        };
        let samplers = others.iter().map(|origin| origin.sampler.clone()).collect();
        let pipeline = Pipeline::with_others(self.sampler().clone(), samplers, jobs, way)?;
        Ok(Kept { pipeline, others, next: 0 })
    }

    /// Batches one by one, to the end of an epoch.
    fn start_each(&self, first: (u64, u64)) -> Result<Pipeline, SampleError> {
        let prefetch = self.settings.prefetch.unwrap_or(PREFETCH);
        let way = Way::Each { prefetch, threads: self.settings.threads() };
        Pipeline::new(self.sampler().clone(), self.jobs(first, false), way)
    }

    fn jobs(&self, first: (u64, u64), goes_on: bool) -> Jobs {
        Jobs::new(Arc::clone(&self.origin.inputs), self.origin.plan, first, goes_on)
    }

    /// Gives memory back unless a batch is just being made; whether there was any.
    fn give_way(&self, for_good: bool) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if state.is_busy {
            return false;
        }
        if state.owner != Owner::Nobody {
            state.owner = if for_good { Owner::Shared } else { Owner::Nobody };
            self.tenant.set_reading(false);
        }
        state.kept.take().is_some()
    }
}

/// Whether batches are sampled far ahead of reading, where none are compiled.
fn looks_ahead(sampler: &Sampler, plan: &SeedPlan, settings: &Settings) -> bool {
    let is_asked = match settings.reading {
        Reading::OnDemand => false,
        Reading::Auto if !settings.ask_to_look_ahead() => {
            plan.steps() >= LOOKED_AHEAD_MIN && sampler.is_larger_than_memory()
        }
        _ => true,
    };
    is_asked && !sampler.is_direct()
}
