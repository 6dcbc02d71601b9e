//! What an engine has done, and how long its stages took: counters that all threads add to.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters since an engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineStats {
    /// Batches that were answered; a long request has several.
    pub batches: u64,
    /// Nodes and graphs that were asked for; both nodes of pairs.
    pub seeds: u64,
    /// The same without those that one request repeats.
    pub distinct_seeds: u64,
    /// Neighbour lists that were drawn from.
    pub lists: u64,
    /// Rows of nodes and edges that they took.
    pub rows: u64,
    /// Those that were prepared.
    pub rows_prepared: u64,
    /// Those of them that the model read where they lie.
    pub rows_in_place: u64,
    /// Time in which batches were sampled, summed over threads that asked.
    pub sample_seconds: f64,
    /// The same for gathering rows: reading and copying.
    pub gather_seconds: f64,
    /// The same for the model.
    pub run_seconds: f64,
}

/// A stage of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    Sample,
    Gather,
    Run,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub batches: AtomicU64,
    seeds: AtomicU64,
    distinct_seeds: AtomicU64,
    pub lists: AtomicU64,
    pub rows: AtomicU64,
    pub rows_prepared: AtomicU64,
    pub rows_in_place: AtomicU64,
    nanoseconds: [AtomicU64; 3],
}

/// Time that a thread has spent in the stages of batches since it began, of whatever engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Drawing neighbours, and reading their lists.
    pub sample: Duration,
    /// Reading and copying rows.
    pub gather: Duration,
    /// Running the model.
    pub run: Duration,
}

thread_local! {
    /// In nanoseconds, by stage.
    static OF_THREAD: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

impl StageTimes {
    /// Those of this thread. The difference of two is what lies between.
    pub fn of_thread() -> Self {
        let [sample, gather, run] = OF_THREAD.get().map(Duration::from_nanos);
        Self { sample, gather, run }
    }

    /// What was spent since `before` was read on the same thread.
    pub fn since(self, before: Self) -> Self {
        Self {
            sample: self.sample.saturating_sub(before.sample),
            gather: self.gather.saturating_sub(before.gather),
            run: self.run.saturating_sub(before.run),
        }
    }
}

impl Counters {
    /// Adds the time since `start` to a stage; returns the time now.
    pub fn count(&self, stage: Stage, start: Instant) -> Instant {
        let now = Instant::now();
        let took = now.duration_since(start).as_nanos() as u64;
        self.nanoseconds[stage as usize].fetch_add(took, Ordering::Relaxed);
        let mut of_thread = OF_THREAD.get();
        of_thread[stage as usize] += took;
        OF_THREAD.set(of_thread);
        now
    }

    /// Counts a request.
    pub fn ask(&self, seeds: usize, distinct: usize) {
        self.seeds.fetch_add(seeds as u64, Ordering::Relaxed);
        self.distinct_seeds.fetch_add(distinct as u64, Ordering::Relaxed);
    }

    pub fn stats(&self) -> EngineStats {
        let seconds = |stage: Stage| {
            let all = self.nanoseconds[stage as usize].load(Ordering::Relaxed);
            Duration::from_nanos(all).as_secs_f64()
        };
        EngineStats {
            batches: self.batches.load(Ordering::Relaxed),
            seeds: self.seeds.load(Ordering::Relaxed),
            distinct_seeds: self.distinct_seeds.load(Ordering::Relaxed),
            lists: self.lists.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            rows_prepared: self.rows_prepared.load(Ordering::Relaxed),
            rows_in_place: self.rows_in_place.load(Ordering::Relaxed),
            sample_seconds: seconds(Stage::Sample),
            gather_seconds: seconds(Stage::Gather),
            run_seconds: seconds(Stage::Run),
        }
    }
}
