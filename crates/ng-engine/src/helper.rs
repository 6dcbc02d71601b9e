//! Threads that read for requests, kept from request to request.
//!
//! What must not live here: what they read.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::EngineError;

type Job = Box<dyn FnOnce() + Send>;

/// The threads. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Helper {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Helper {
    /// `count` threads.
    pub fn new(count: usize) -> Result<Self, EngineError> {
        let (jobs, inbox) = channel::<Job>();
        let inbox = Arc::new(Mutex::new(inbox));
        let mut this = Self { jobs: Some(jobs), threads: Vec::with_capacity(count) };
        for _ in 0..count {
            let inbox = Arc::clone(&inbox);
            let thread = Builder::new().name("ng-engine-read".into());
            let started = thread.spawn(move || {
                while let Some(job) = next(&inbox) {
                    job()
                }
            });
            this.threads.push(started.map_err(|source| EngineError::NoThread { source })?);
        }
        Ok(this)
    }

    /// Has a thread do `work`; what it gives can be received.
    pub fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (result, receiver) = channel();
        let job: Job = Box::new(move || {
            // Whoever gave up does not wait for it.
            let _ = result.send(work());
        });
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
        receiver
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn next(inbox: &Mutex<Receiver<Job>>) -> Option<Job> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
