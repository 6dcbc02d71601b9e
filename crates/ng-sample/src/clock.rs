//! How long the stages of pipelines have worked, and waited for what, so that a profile can say
//! which one bounds them.
//!
//! What lives here: counters that a sampler and all its clones share. What must not: what the work
//! is. The invariant: waiting for memory is not work, and stages that run on several threads count
//! the time of each.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::admission::{Admit, Stage};

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A topology read into memory.
    Load,
    /// Hops: lists read, neighbours drawn and numbered.
    Sample,
    /// Rows, or records of compiled epochs, read ahead of their batches.
    Read,
    /// Rows put into a batch; read as well where nothing was read ahead.
    Gather,
}

/// Who waits for what.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// A sampling thread, until more samples are wanted.
    SampleForDemand,
    /// The planner, for sampled batches.
    PlanForSamples,
    /// The planner, because the reader has enough to do.
    PlanForReader,
    /// The planner, for slots that a gathered batch gives back.
    PlanForSlots,
    /// The reader, for something to read, or for memory to read into.
    ReadForPlans,
    /// The gathering thread, for rows to be read or for the consumer.
    GatherForRows,
    /// The gathering thread, for a buffer that the consumer gives back.
    GatherForBuffers,
    /// The consumer, for a batch.
    Consumer,
}

/// Names for reports, in the order of the variants.
const WORK: [&str; 4] = ["load", "sample", "read", "gather"];
const WAITS: [&str; 8] = [
    "sample_for_demand",
    "plan_for_samples",
    "plan_for_reader",
    "plan_for_slots",
    "read_for_plans",
    "gather_for_rows",
    "gather_for_buffers",
    "consumer",
];

/// Time worked and waited.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    worked_us: [AtomicU64; WORK.len()],
    waited_us: [AtomicU64; WAITS.len()],
    /// Threads that are at it now.
    busy: [AtomicU32; WORK.len()],
}

/// A thread is at some work until this is dropped.
#[derive(Debug)]
pub(crate) struct Busy<'a>(&'a AtomicU32);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Clock {
    /// Seconds worked so far, by name.
    pub fn worked(&self) -> Vec<(&'static str, f64)> {
        seconds(&WORK, &self.worked_us)
    }

    /// Seconds waited so far, by name.
    pub fn waited(&self) -> Vec<(&'static str, f64)> {
        seconds(&WAITS, &self.waited_us)
    }

    /// Seconds worked so far at one work.
    pub fn seconds(&self, work: Work) -> f64 {
        self.worked_us[work as usize].load(Ordering::Relaxed) as f64 / 1e6
    }

    /// Names of the stages that work at this moment.
    pub fn busy(&self) -> Vec<&'static str> {
        let at_it = |(_, busy): &(_, &AtomicU32)| busy.load(Ordering::Relaxed) > 0;
        WORK.iter().zip(&self.busy).filter(at_it).map(|(name, _)| *name).collect()
    }

    /// Begins some work; whoever asks hears of it until what this returns is dropped.
    pub fn begin(&self, work: Work) -> Busy<'_> {
        let busy = &self.busy[work as usize];
        busy.fetch_add(1, Ordering::Relaxed);
        Busy(busy)
    }

    /// Does some work and counts it.
    pub fn count<R>(&self, work: Work, run: impl FnOnce() -> R) -> R {
        let (start, _busy) = (Instant::now(), self.begin(work));
        let result = run();
        self.add(work, start.elapsed());
        result
    }

    /// Counts work that took so long.
    pub fn add(&self, work: Work, took: Duration) {
        self.worked_us[work as usize].fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    /// Counts a wait that began at `since` and ends now.
    pub fn add_wait(&self, wait: Wait, since: Instant) {
        let us = since.elapsed().as_micros() as u64;
        self.waited_us[wait as usize].fetch_add(us, Ordering::Relaxed);
    }

    /// Does some work and counts it, without the time that memory was waited for.
    pub fn time<R>(&self, work: Work, admit: &Admit<'_>, run: impl FnOnce(&Admit<'_>) -> R) -> R {
        let (start, waited) = (Instant::now(), Cell::new(Duration::ZERO));
        let _busy = self.begin(work);
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

fn seconds(names: &[&'static str], us: &[AtomicU64]) -> Vec<(&'static str, f64)> {
    let seconds = us.iter().map(|us| us.load(Ordering::Relaxed) as f64 / 1e6);
    names.iter().copied().zip(seconds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleError;

    #[test]
    fn work_is_counted_by_stage_without_the_time_that_memory_was_waited_for() {
        let clock = Clock::default();
        clock.add(Work::Read, Duration::from_secs(2));
        clock.add(Work::Read, Duration::from_millis(500));
        let expected = [("load", 0.0), ("sample", 0.0), ("read", 2.5), ("gather", 0.0)];
        assert_eq!(clock.worked(), expected);
        let wait = Duration::from_secs(1);
        let refuse = |_: Stage, bytes: u64| {
            std::thread::sleep(wait);
            Err(SampleError::Spec(format!("{bytes}")))
        };
        let refused = clock.time(Work::Gather, &refuse, |admit| admit(Stage::Columns, 7));
        assert_eq!(refused.map_err(|error| error.to_string()).err().as_deref(), Some("7"));
        let gathered = clock.worked()[3].1;
        assert!(gathered < wait.as_secs_f64(), "{gathered}");
    }
}
