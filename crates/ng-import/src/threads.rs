//! Running one closure on several scoped threads, and watching it from the caller's.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ImportError;

/// How often a watched run calls its watcher.
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// Runs `work(i)` on `threads` threads, one of them the caller's, and gives the first error.
pub(crate) fn run_on(
    threads: usize,
    work: impl Fn(usize) -> Result<(), ImportError> + Sync,
) -> Result<(), ImportError> {
    let failure = Mutex::new(None);
    let guarded = |index| {
        if let Err(error) = work(index) {
            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    };
    std::thread::scope(|scope| {
        for index in 1..threads.max(1) {
            let guarded = &guarded;
            scope.spawn(move || guarded(index));
        }
        guarded(0);
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Runs `work` on a thread of its own and calls `watch` on the caller's until it ends.
pub(crate) fn watched<T: Send>(
    work: impl FnOnce() -> Result<T, ImportError> + Send,
    mut watch: impl FnMut(),
) -> Result<T, ImportError> {
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let result = work();
            drop(sender);
            result
        });
        while receiver.recv_timeout(WATCH_EVERY) == Err::<(), _>(RecvTimeoutError::Timeout) {
            watch();
        }
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
