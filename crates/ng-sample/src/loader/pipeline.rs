//! [`Pipeline`]: batches in order, prepared by threads in one of three ways.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ng_io::trim_allocator;

use crate::compiled::Replay;
use crate::lookahead::LookAhead;
use crate::pipeline::{Each, Shared};
use crate::seeds::Jobs;
use crate::{Chosen, EpochFile, MiniBatch, Note, ReplayMemory, SampleError, Sampler, Settings};

/// How a pipeline makes its batches. They are the same.
pub enum Way {
    /// One by one, through the store's caches or from the direct layout.
    Each {
        /// Batches prepared ahead of the consumer at most.
        prefetch: usize,
        /// Preparing threads.
        threads: usize,
    },
    /// Sampled far ahead of reading.
    Ahead(Settings),
    /// Read from compiled epochs, which take turns for epochs that were not compiled.
    Replay {
        /// The files, in the order of their turns.
        files: Vec<EpochFile>,
        /// Batches prepared ahead of the consumer at most.
        prefetch: usize,
    },
}

enum Engine {
    Each(Arc<Each>),
    Ahead(Arc<LookAhead>),
    Replay(Arc<Replay>),
}

/// An iterator over prepared mini-batches. Dropping it stops its threads.
pub struct Pipeline {
    engine: Engine,
    workers: Vec<JoinHandle<()>>,
}

/// A thread's work, with what hears of its failure.
type Work = Box<dyn FnOnce() + Send>;

fn work<E: Send + Sync + 'static, W: Send + 'static>(
    engine: &Arc<E>,
    shared: fn(&E) -> &Shared<W>,
    run: fn(&E) -> Result<(), SampleError>,
) -> Work {
    let engine = Arc::clone(engine);
    Box::new(move || shared(&engine).run(|| run(&engine)))
}

impl Pipeline {
    /// Starts the threads, which make the batches of `jobs`.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if a count is 0, or settings do not go together;
    /// [`SampleError::Budget`] if compiled epochs do not fit the memory that is free; those of
    /// reading the order of rows.
    pub fn new(sampler: Sampler, jobs: Jobs, way: Way) -> Result<Self, SampleError> {
        Self::with_others(sampler, Vec::new(), jobs, way)
    }

    /// The same with what samples each of the passes between epochs; only [`Way::Ahead`] makes any.
    pub(super) fn with_others(
        sampler: Sampler,
        others: Vec<Sampler>,
        jobs: Jobs,
        way: Way,
    ) -> Result<Self, SampleError> {
        jobs.plan.checked()?;
        let mut threads: Vec<(&str, Work)> = Vec::new();
        let engine = match way {
            Way::Each { prefetch, threads: count } => {
                let each = Each::new(sampler, jobs, prefetch, count)?;
                let count = (count.min(prefetch) as u64).min(each.shared.jobs.len());
                let run = |_| ("ng-batch", work(&each, |each| &each.shared, Each::run));
                threads.extend((0..count).map(run));
                Engine::Each(each)
            }
            Way::Ahead(settings) => {
                let count = settings.threads();
                let ahead = LookAhead::new(sampler, others, jobs, settings)?;
                let run = |run| work(&ahead, |ahead| &ahead.shared, run);
                threads.extend((0..count).map(|_| ("ng-sample", run(LookAhead::run_sampler))));
                threads.push(("ng-plan", run(LookAhead::run_planner)));
                Engine::Ahead(ahead)
            }
            Way::Replay { files, prefetch } => {
                let replay = Replay::new(sampler, jobs, files, prefetch)?;
                let run = |run| work(&replay, |replay| &replay.shared, run);
                threads.push(("ng-read", run(Replay::run_reader)));
                threads.push(("ng-gather", run(Replay::run_gatherer)));
                Engine::Replay(replay)
            }
        };
        let mut this = Self { engine, workers: Vec::new() };
        for (name, work) in threads {
            let started = std::thread::Builder::new().name(name.into()).spawn(work);
            this.workers.push(started.map_err(|source| SampleError::NoThread { source })?);
        }
        Ok(this)
    }

    /// What it makes.
    pub fn jobs(&self) -> &Jobs {
        match &self.engine {
            Engine::Each(each) => &each.shared.jobs,
            Engine::Ahead(ahead) => &ahead.shared.jobs,
            Engine::Replay(replay) => &replay.shared.jobs,
        }
    }

    /// Waits up to `timeout` for the next batch: `Ok(None)` after the last one, `Err(())` on a
    /// timeout, so that a caller can handle signals and try again.
    #[allow(clippy::result_unit_err)]
    pub fn next_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Result<MiniBatch, SampleError>>, ()> {
        let are_gone = || self.workers.iter().all(JoinHandle::is_finished);
        match &self.engine {
            Engine::Each(each) => each.shared.next_within(timeout, are_gone),
            Engine::Ahead(ahead) => ahead.shared.next_within(timeout, are_gone),
            Engine::Replay(replay) => replay.shared.next_within(timeout, are_gone),
        }
    }

    /// How a look-ahead reads at present: the first batches with a short window, the others as was
    /// chosen.
    pub fn chosen(&self) -> Option<Chosen> {
        match &self.engine {
            Engine::Ahead(ahead) => ahead.reads_by(),
            Engine::Each(_) | Engine::Replay(_) => None,
        }
    }

    /// Waits up to `timeout` until it is chosen how rows are read; `None` if time ran out, or
    /// there is nothing to choose.
    ///
    /// # Errors
    /// What ended the threads before that.
    pub fn choose_within(&self, timeout: Duration) -> Result<Option<Chosen>, SampleError> {
        let Engine::Ahead(ahead) = &self.engine else { return Ok(None) };
        let are_gone = || self.workers.iter().all(JoinHandle::is_finished);
        ahead.shared.find_within(timeout, are_gone, || ahead.chosen())
    }

    /// Somebody takes notes from now on.
    pub fn listen(&self) {
        if let Engine::Ahead(ahead) = &self.engine {
            ahead.shared.lock().listens = true;
        }
    }

    /// What the user should hear, once each.
    pub fn take_note(&self) -> Option<Note> {
        match &self.engine {
            Engine::Ahead(ahead) => ahead.shared.take_note(),
            Engine::Each(_) | Engine::Replay(_) => None,
        }
    }

    /// What a replay takes of the budget.
    pub fn memory(&self) -> Option<&ReplayMemory> {
        match &self.engine {
            Engine::Replay(replay) => Some(&replay.memory),
            Engine::Each(_) | Engine::Ahead(_) => None,
        }
    }

    /// Stops the threads and drops what they prepared.
    pub fn close(&mut self) {
        match &self.engine {
            Engine::Each(each) => each.shared.close(),
            Engine::Ahead(ahead) => ahead.shared.close(),
            Engine::Replay(replay) => replay.shared.close(),
        }
        if !self.workers.is_empty() {
            // A panic of one was told as an error before.
            self.workers.drain(..).for_each(|worker| drop(worker.join()));
            // Samples were many small pieces; nobody can plan with what the allocator keeps.
            trim_allocator();
        }
    }
}

impl Iterator for Pipeline {
    type Item = Result<MiniBatch, SampleError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Ok(item) = self.next_within(Duration::from_secs(1)) {
                return item;
            }
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.close();
    }
}
