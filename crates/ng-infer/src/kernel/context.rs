//! What a run lends its kernels.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::error::KernelError;

/// Simple steps, such as sums, below which one thread is done before another has woken up.
const WORK_MIN: usize = 1 << 17;

/// The threads of a run. Copies share them; one run at a time has them, and those beside it go on
/// with the thread that each was called on.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pool: Option<Arc<Pool>>,
}

#[derive(Debug)]
struct Pool {
    threads: ThreadPool,
    is_taken: AtomicBool,
}

/// Gives the threads back.
struct Taken<'a>(&'a Pool);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}

impl Pool {
    fn take(&self) -> Option<Taken<'_>> {
        (!self.is_taken.swap(true, Ordering::Acquire)).then_some(Taken(self))
    }
}

impl Context {
    /// With so many threads; the thread that runs the graph alone if one, or if they cannot be
    /// started.
    pub fn new(threads: usize) -> Self {
        let build = || ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = (threads > 1).then(build).and_then(Result::ok);
        let pool = pool.map(|threads| Pool { threads, is_taken: AtomicBool::new(false) });
        Self { pool: pool.map(Arc::new) }
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.threads.current_num_threads())
    }

    /// The threads, if there are more than one.
    pub fn pool(&self) -> Option<&ThreadPool> {
        self.pool.as_deref().map(|pool| &pool.threads)
    }

    /// Calls `run` on one of the threads if `work` is worth it, which counts simple steps: what
    /// `run` divides then waits for no thread to wake up.
    pub(crate) fn enter<R: Send>(&self, work: usize, run: impl FnOnce() -> R + Send) -> R {
        let pool = self.pool.as_deref().filter(|_| work >= WORK_MIN);
        match pool.and_then(|pool| Some((pool, pool.take()?))) {
            None => run(),
            Some((pool, _taken)) => pool.threads.install(run),
        }
    }

    /// Into how many parts so many simple steps are divided: some more than there are threads, so
    /// that none waits long for the last.
    pub(crate) fn parts(&self, work: usize) -> usize {
        if work < WORK_MIN { 1 } else { (work / (WORK_MIN / 4)).min(self.threads() * 4) }
    }

    /// Calls `each` with all of `parts`, on the threads if there is more than one part. Of several
    /// errors it gives that of the first part.
    pub(crate) fn each<P: Send>(
        &self,
        parts: impl ExactSizeIterator<Item = P> + Send,
        each: impl Fn(P) -> Result<(), KernelError> + Sync,
    ) -> Result<(), KernelError> {
        let count = parts.len();
        let Some(pool) = self.pool.as_deref().filter(|_| count > 1) else {
            return parts.into_iter().try_for_each(each);
        };
        let is_inside = pool.threads.current_thread_index().is_some();
        let taken = if is_inside { None } else { pool.take() };
        if !is_inside && taken.is_none() {
            return parts.into_iter().try_for_each(each);
        }
        let parts = Mutex::new(parts.enumerate());
        let failed: Mutex<Option<(usize, KernelError)>> = Mutex::new(None);
        let next = || parts.lock().ok().and_then(|mut parts| parts.next());
        let work = || {
            while let Some((at, part)) = next() {
                let Err(error) = each(part) else { continue };
                if let Ok(mut failed) = failed.lock()
                    && failed.as_ref().is_none_or(|(first, _)| at < *first)
                {
                    *failed = Some((at, error));
                }
            }
        };
        // This thread works, too: one that wakes up late finds nothing left.
        pool.threads.in_place_scope(|scope| {
            for _ in 1..self.threads().min(count) {
                scope.spawn(|_| work());
            }
            work();
        });
        failed.into_inner().ok().flatten().map_or(Ok(()), |(_, error)| Err(error))
    }
}
