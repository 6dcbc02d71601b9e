//! How long the stages of a pipeline have worked, so that a profile can say which one bounds it.
//!
//! What lives here: counters that a sampler and all its clones share. What must not: what the work
//! is. The invariant: waiting for memory is not work, and stages that run on several threads count
//! the time of each.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::sampler::{Admit, Stage};

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Hops: lists read, neighbours drawn and numbered.
    Sample,
    /// Rows read by plan, ahead of their batches.
    Read,
    /// Rows put into a batch; read as well where nothing was read ahead.
    Gather,
}

impl Work {
    /// Names for reports, in the order of the variants.
    const NAMES: [&'static str; 3] = ["sample", "read", "gather"];
}

/// Time worked by stage.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    us: [AtomicU64; Work::NAMES.len()],
}

impl Stages {
    /// Seconds worked so far, by name.
    pub fn seconds(&self) -> Vec<(&'static str, f64)> {
        let seconds = self.us.iter().map(|us| us.load(Ordering::Relaxed) as f64 / 1e6);
        Work::NAMES.into_iter().zip(seconds).collect()
    }

    /// Counts work that took so long.
    pub fn add(&self, work: Work, took: Duration) {
        if let Some(us) = self.us.get(work as usize) {
            us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        }
    }

    /// Does some work and counts it, without the time that memory was waited for.
    pub fn time<R>(&self, work: Work, admit: &Admit<'_>, run: impl FnOnce(&Admit<'_>) -> R) -> R {
        let (start, waited) = (Instant::now(), Cell::new(Duration::ZERO));
        let counted = |stage: Stage, bytes: u64| {
            let since = Instant::now();
            let held = admit(stage, bytes);
            waited.set(waited.get() + since.elapsed());
            held
        };
        let result = run(&counted);
        self.add(work, start.elapsed().saturating_sub(waited.get()));
        result
    }
}
