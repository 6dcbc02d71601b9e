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

    /// The number of parts that `work`, in simple steps, is divided into: a few for each thread, so
    /// that none waits long for the last.
    pub(crate) fn parts(&self, work: usize) -> usize {
        if work < WORK_MIN { 1 } else { (work / (WORK_MIN / 4)).min(self.threads() * 4) }
    }

    /// Calls `each` with all of `parts`, on the threads if there is more than one part. Of several
    /// errors it gives that of the first part.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn each<P: Send>(
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn all_parts_are_done_once_and_the_first_error_is_told() {
        for context in [1, 2, 5].map(Context::new) {
            let mut all = [0; 100];
            let failing = |at: usize| KernelError::Misfit(at.to_string());
            for _ in 0..50 {
                let parts = all.chunks_mut(3).enumerate();
                let found = context.each(parts, |(at, part)| {
                    part.iter_mut().for_each(|x| *x += 1);
                    if [20, 30].contains(&at) && context.threads() > 1 {
                        return Err(failing(at));
                    }
                    Ok(())
                });
                assert_eq!(found.is_err(), context.threads() > 1);
                assert!(found.is_ok() || found == Err(failing(20)));
            }
            assert_eq!(all, [50; 100]);
        }
    }

    #[test]
    fn one_run_at_a_time_has_the_threads_and_those_beside_it_go_on() {
        let context = Context::new(2);
        let is_inside = || context.pool().and_then(ThreadPool::current_thread_index).is_some();
        assert!(context.enter(WORK_MIN, is_inside) && !context.enter(WORK_MIN - 1, is_inside));
        let done = AtomicUsize::new(0);
        let beside = || {
            assert!(!context.enter(WORK_MIN, is_inside));
            let each = |_| {
                assert!(!is_inside());
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            assert_eq!(context.each(0..7, each), Ok(()));
        };
        context.enter(WORK_MIN, || std::thread::scope(|scope| scope.spawn(beside).join()).is_ok());
        assert_eq!(done.into_inner(), 7);
        // They are given back.
        assert!(context.enter(WORK_MIN, is_inside));
    }
}
