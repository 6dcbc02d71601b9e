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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleError;

    #[test]
    fn work_is_counted_by_stage_without_the_time_that_memory_was_waited_for() {
        let stages = Stages::default();
        stages.add(Work::Read, Duration::from_secs(2));
        stages.add(Work::Read, Duration::from_millis(500));
        assert_eq!(stages.seconds(), [("sample", 0.0), ("read", 2.5), ("gather", 0.0)]);
        let wait = Duration::from_secs(1);
        let refuse = |_: Stage, bytes: u64| {
            std::thread::sleep(wait);
            Err(SampleError::Spec(format!("{bytes}")))
        };
        let refused = stages.time(Work::Gather, &refuse, |admit| admit(Stage::Columns, 7));
        assert_eq!(refused.map_err(|error| error.to_string()).err().as_deref(), Some("7"));
        let gathered = stages.seconds()[2].1;
        assert!(gathered < wait.as_secs_f64(), "{gathered}");
    }
}
