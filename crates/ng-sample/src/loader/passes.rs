//! What else takes batches between two epochs of a loader, so that one pipeline makes both.
//!
//! What lives here: which passes others made, and which of them are expected again. What must not:
//! pipelines, memory. The invariant: batches of another loader are made only where it would make
//! the same ones itself, so a wrong guess costs time alone.

use std::sync::Arc;

use crate::seeds::{Inputs, Pass, SeedPlan};
use crate::{Jobs, Sampler};

/// Passes of others that are remembered between two epochs, at most.
const OTHERS_MAX: usize = 4;

/// A pass is made beside a loader's own batches if its batches are larger by this part at most:
/// memory was planned with more to spare.
const LARGER_PART: u64 = 8;

/// What decides a loader's batches.
#[derive(Clone)]
pub(super) struct Origin {
    pub sampler: Sampler,
    pub inputs: Arc<Inputs>,
    pub plan: SeedPlan,
}

impl Origin {
    /// Whether both make the same batches.
    pub fn is_like(&self, other: &Self) -> bool {
        self.plan == other.plan
            && self.sampler.is_like(&other.sampler)
            && (Arc::ptr_eq(&self.inputs, &other.inputs) || self.inputs.are(&other.inputs))
    }
}

/// A pass that a loader has made.
#[derive(Clone)]
pub(super) struct Seen {
    pub origin: Origin,
    pub epoch: u64,
    /// Batches that were taken, from the first one on.
    pub batches: u64,
    /// Bytes of the largest one.
    pub largest: u64,
}

/// A pass that came between two epochs.
struct Between {
    seen: Seen,
    /// Its epoch less that of the one before it.
    step: u64,
}

/// What a loader has seen of its own passes and of those between them.
#[derive(Default)]
pub(super) struct Passes {
    /// Passes of others since its own last one began.
    since: Vec<Seen>,
    /// Those between its last two.
    between: Vec<Between>,
    /// Its own passes that have ended.
    ended: u64,
    /// Batches that were taken of the last one, if it was left early.
    cut: Option<u64>,
    /// Bytes of the largest batch.
    largest: u64,
}

impl Passes {
    /// Another loader has made a pass.
    pub fn note(&mut self, seen: &Seen) {
        if self.since.len() < OTHERS_MAX {
            self.since.push(seen.clone());
        }
    }

    /// A pass of its own begins.
    pub fn begin(&mut self) {
        let before = std::mem::take(&mut self.between);
        let between = |seen: Seen| {
            let last = before.iter().find(|last| last.seen.origin.is_like(&seen.origin));
            let step = last.map_or(1, |last| seen.epoch.saturating_sub(last.seen.epoch));
            Between { seen, step }
        };
        self.between = std::mem::take(&mut self.since).into_iter().map(between).collect();
    }

    /// A pass of its own has ended, early if it was `cut`.
    pub fn end(&mut self, cut: Option<u64>, largest: u64) {
        self.ended += 1;
        self.cut = cut;
        self.largest = self.largest.max(largest);
        self.since.clear();
    }

    /// Whether another pass is likely to follow the next one.
    pub fn are_many(&self) -> bool {
        self.ended > 0
    }

    /// Forgets what others did.
    pub fn forget(&mut self) {
        self.since.clear();
        self.between.clear();
    }

    /// `jobs` with what is expected to come between epochs, and whose that is.
    pub fn expect(&self, origin: &Origin, jobs: Jobs) -> (Jobs, Vec<Origin>) {
        if !jobs.goes_on {
            return (jobs, Vec::new());
        }
        let most = self.largest + self.largest / LARGER_PART;
        let steps = self.cut.unwrap_or(origin.plan.steps());
        // A training prepares its validation, and not the other way round.
        let fits = |Between { seen, .. }: &&Between| {
            seen.batches <= steps
                && seen.largest <= most
                && seen.origin.sampler.has_columns_of(&origin.sampler)
        };
        let pass = |Between { seen, step }: &Between| {
            let Origin { inputs, plan, .. } = seen.origin.clone();
            let (epoch, step, batches) = (seen.epoch + step, *step, seen.batches);
            (Pass { inputs, plan, epoch, step, batches }, seen.origin.clone())
        };
        let (passes, origins) = self.between.iter().filter(fits).map(pass).unzip();
        (Jobs { cut: self.cut, passes, ..jobs }, origins)
    }
}
