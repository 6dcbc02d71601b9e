//! Threads that block in `pread` so that the calling thread need not: a queue depth for kernels
//! and containers without io_uring.
//!
//! Workers start as they are needed and end with the disk. What must not live here: which file or
//! descriptor is read, and what becomes of the bytes. The invariant: every job that was pushed is
//! answered exactly once, in its inbox.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::directory::OpenFile;
use crate::os::process::Home;

/// A worker only ever waits and reads.
const STACK_BYTES: usize = 128 * 1024;

/// One read for a worker.
pub(super) struct Job {
    pub file: Arc<OpenFile>,
    pub offset: u64,
    pub len: usize,
    pub address: Target,
    pub index: u32,
    pub inbox: Arc<Inbox>,
}

/// The frame a job reads into.
#[derive(Clone, Copy)]
pub(super) struct Target(pub *mut u8);

// SAFETY: a frame is owned by the job that names it from the push until the answer is in its inbox;
// the caller keeps the arena alive at least that long (`pool::Lease`).
unsafe impl Send for Target {}

/// Where the answers of one calling thread arrive.
#[derive(Default)]
pub(super) struct Inbox {
    answers: Mutex<Vec<(u32, io::Result<usize>)>>,
    arrived: Condvar,
}

impl Inbox {
    fn post(&self, index: u32, result: io::Result<usize>) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        self.arrived.notify_one();
    }

    /// Waits for at least one answer and moves all there are into `into`.
    pub fn wait(&self, into: &mut Vec<(u32, io::Result<usize>)>) {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answers = self
            .arrived
            .wait_while(answers, |answers| answers.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        into.append(&mut answers);
    }
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Workers that wait for a job.
    idle: usize,
    stopped: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The workers of one disk.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    threads_max: usize,
    home: Home,
}

impl Workers {
    pub fn new(threads_max: usize) -> Self {
        let shared = Arc::default();
        let threads_max = threads_max.max(1);
        Self { shared, threads: Mutex::new(Vec::new()), threads_max, home: Home::here() }
    }

    /// Hands jobs over, leaving `jobs` empty. Fails only while there is no worker at all and the
    /// system gives none; then no job was taken.
    pub fn push(&self, jobs: &mut Vec<Job>) -> io::Result<()> {
        let missing = {
            let state = self.shared.lock();
            (state.jobs.len() + jobs.len()).saturating_sub(state.idle)
        };
        if missing > 0 {
            self.hire(missing)?;
        }
        let count = jobs.len();
        self.shared.lock().jobs.extend(jobs.drain(..));
        for _ in 0..count {
            self.shared.work.notify_one();
        }
        Ok(())
    }

    fn hire(&self, missing: usize) -> io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..missing.min(self.threads_max - threads.len()) {
            let shared = Arc::clone(&self.shared);
            let builder = std::thread::Builder::new().name("ng-io-read".into());
            match builder.stack_size(STACK_BYTES).spawn(move || work(&shared)) {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The threads of a parent do not exist here, and its locks may be held for ever.
        if self.home.check().is_err() {
            let threads = std::mem::take(&mut self.threads);
            std::mem::forget(threads);
            return;
        }
        self.shared.lock().stopped = true;
        self.shared.work.notify_all();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A worker that panicked has nothing left to tell.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared) {
    loop {
        let mut state = shared.lock();
        let job = loop {
            if let Some(job) = state.jobs.pop_front() {
                break job;
            }
            if state.stopped {
                return;
            }
            state.idle += 1;
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        };
        drop(state);
        let Job { file, offset, len, address, index, inbox } = job;
        // SAFETY: the frame is `len` bytes long, initialised, and this job's alone until the
        // answer is posted (see `Target`).
        let frame = unsafe { std::slice::from_raw_parts_mut(address.0, len) };
        let result = rustix::io::pread(&file.reads, frame, offset).map_err(io::Error::from);
        inbox.post(index, result);
    }
}
