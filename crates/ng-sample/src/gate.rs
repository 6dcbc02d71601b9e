//! [`Gate`]: a state that threads share, its lock, and waits for its changes.
//!
//! What must not live here: what the state means. The invariant: whoever changes the state wakes
//! all who wait, and a thread that panicked with the lock leaves a state that others still see.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A state behind one lock and one condition.
#[derive(Debug, Default)]
pub(crate) struct Gate<S> {
    state: Mutex<S>,
    changed: Condvar,
}

impl<S> Gate<S> {
    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes whoever waits for it.
    pub fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits for a change, `time` at the most.
    pub fn wait<'a>(&self, state: MutexGuard<'a, S>, time: Duration) -> MutexGuard<'a, S> {
        let waited = self.changed.wait_timeout(state, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until `look` finds something, which is a change; looks again after `poll` even if
    /// nobody changed anything. `Err(())` if `timeout` ran out first.
    pub fn look_within<R>(
        &self,
        timeout: Duration,
        poll: Duration,
        mut look: impl FnMut(&mut S) -> Option<R>,
    ) -> Result<R, ()> {
        // None: a time that never comes.
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state) {
                drop(state);
                self.changed.notify_all();
                return Ok(found);
            }
            let until = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
            let left = deadline.map_or(Duration::MAX, until);
            if left.is_zero() {
                return Err(());
            }
            state = self.wait(state, left.min(poll));
        }
    }
}

/// Waits for threads to end. A panic of one was told as [`crate::SampleError::ThreadLost`] before.
pub(crate) fn join_all(workers: &mut Vec<JoinHandle<()>>) {
    workers.drain(..).for_each(|worker| drop(worker.join()));
}
