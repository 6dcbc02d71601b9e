//! What the threads of a pipeline share: one lock, one condition, the finished batches in order,
//! and the memory that they wait for.
//!
//! What must not live here: how a batch is made; each way has a state of its own for that (`W`).
//! The invariants: batches leave in the order of their numbers; after a failure none follows; a
//! thread that waits is woken by every change, and ends when the pipeline is closed; a thread that
//! panicked with the lock leaves a state that others still see.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use ng_store::Snapshot;
use ng_types::Reservation;

use super::pace::Pace;
use crate::clock::{Clock, Wait};
use crate::seeds::Jobs;
use crate::{MiniBatch, Note, SampleError};

/// How long a wait lasts before the world is looked at again.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// How long a batch waits for memory that only the consumer, or another user of the store, can give
/// back.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);

/// What counts at most of the time between two looks.
const LONGEST_LOOK: Duration = Duration::from_millis(200);

/// How long somebody has waited for what is due. A process that was stopped for a while, or had no
/// processor, did not wait meanwhile.
#[derive(Default)]
struct Patience {
    waited: Duration,
    last: Option<Instant>,
}

impl Patience {
    /// Looks at the time once more; whether that was enough.
    fn is_over(&mut self, is_due: bool, now: Instant) -> bool {
        let passed = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.waited = if is_due { self.waited + passed.min(LONGEST_LOOK) } else { Duration::ZERO };
        self.last = is_due.then_some(now);
        self.waited > MEMORY_PATIENCE
    }
}

/// The state of a pipeline; `way` is that of the threads that make its batches.
#[derive(Debug, Default)]
pub(crate) struct State<W> {
    pub way: W,
    /// Finished batches that the consumer has not taken.
    pub ready: BTreeMap<u64, Result<MiniBatch, SampleError>>,
    /// The next batch for the consumer.
    pub delivered: u64,
    /// The consumer stands in `next`.
    pub consumer_waits: bool,
    pub pace: Pace,
    /// Somebody waits in [`Shared::find_within`], perhaps the consumer itself.
    pub is_asked: bool,
    /// What the consumer should hear.
    pub notes: VecDeque<Note>,
    /// Somebody takes notes: whoever has something to say waits for a while until it was heard.
    pub listens: bool,
    /// It has taken a note and not come back since.
    pub is_hearing: bool,
    /// What ends everything, whatever is ready.
    pub failure: Option<SampleError>,
    pub closed: bool,
}

/// The state with its lock, and what never changes.
pub(crate) struct Shared<W> {
    state: Mutex<State<W>>,
    changed: Condvar,
    pub clock: Arc<Clock>,
    pub jobs: Jobs,
    /// Finished batches that wait for the consumer at most.
    pub prefetch: u64,
}

impl<W: Default> Shared<W> {
    pub fn new(clock: &Arc<Clock>, jobs: Jobs, prefetch: usize) -> Self {
        let (clock, prefetch) = (Arc::clone(clock), prefetch as u64);
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { state, changed, clock, jobs, prefetch }
    }
}

impl<W> Shared<W> {
    pub fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes whoever waits for it.
    pub fn change<R>(&self, change: impl FnOnce(&mut State<W>) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `look` finds something, which is a change; looks again after `poll` even if
    /// nobody changed anything. `Err(())` if `timeout` ran out first.
    fn look_within<R>(
        &self,
        timeout: Duration,
        poll: Duration,
        mut look: impl FnMut(&mut State<W>) -> Option<R>,
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
            let waited = self.changed.wait_timeout(state, left.min(poll));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until `look` finds something.
    ///
    /// # Errors
    /// [`SampleError::Stopped`] when everything stops.
    pub fn wait_until<R>(
        &self,
        why: Wait,
        look: impl FnMut(&mut State<W>) -> Option<R>,
    ) -> Result<R, SampleError> {
        self.wait_polling(why, POLL, look)
    }

    fn wait_polling<R>(
        &self,
        why: Wait,
        poll: Duration,
        mut look: impl FnMut(&mut State<W>) -> Option<R>,
    ) -> Result<R, SampleError> {
        let mut since = None;
        let found = self.look_within(Duration::MAX, poll, |state| {
            if let Some(since) = since.replace(Instant::now()) {
                self.clock.add_wait(why, since);
            }
            let goes_on = !state.closed && state.failure.is_none();
            if goes_on { look(state).map(Some) } else { Some(None) }
        });
        found.ok().flatten().ok_or(SampleError::Stopped)
    }

    /// Tries `take` until it gives something. Its error counts once `is_due` has held all the time
    /// that a consumer is given to drop what it has.
    pub fn wait_for_memory<R>(
        &self,
        poll: Duration,
        mut take: impl FnMut(&mut State<W>) -> Result<Option<R>, SampleError>,
        is_due: impl Fn(&State<W>) -> bool,
    ) -> Result<R, SampleError> {
        let mut patience = Patience::default();
        let look = |state: &mut State<W>| match take(state) {
            Ok(found) => found.map(Ok),
            Err(error) if error.may_pass() => {
                patience.is_over(is_due(state), Instant::now()).then_some(Err(error))
            }
            Err(error) => Some(Err(error)),
        };
        self.wait_polling(Wait::GatherForBuffers, poll, look)?
    }

    /// Memory of the budget for batch `index`, which its way has planned for: what is missing is in
    /// the consumer's hands.
    pub fn admit(
        &self,
        memory: &Snapshot,
        index: u64,
        bytes: u64,
    ) -> Result<Reservation, SampleError> {
        self.admit_until(memory, bytes, |state| index <= state.delivered + 1)
    }

    /// The same, where `is_due` says when it is in the consumer's hands.
    pub fn admit_until(
        &self,
        memory: &Snapshot,
        bytes: u64,
        is_due: impl Fn(&State<W>) -> bool,
    ) -> Result<Reservation, SampleError> {
        if let Ok(held) = memory.reserve(bytes) {
            return Ok(held);
        }
        let take = |_: &mut State<W>| memory.reserve(bytes).map(Some).map_err(SampleError::from);
        self.wait_for_memory(POLL, take, is_due)
    }

    /// Waits up to `timeout` for the next batch: `Ok(None)` after the last one, `Err(())` if time
    /// ran out. `is_lost` says whether a thread has ended that should not have.
    pub fn next_within(
        &self,
        timeout: Duration,
        is_lost: impl Fn() -> bool,
    ) -> Result<Option<Result<MiniBatch, SampleError>>, ()> {
        let mut since = None;
        self.look_within(timeout, POLL, |state| {
            if let Some(since) = since.replace(Instant::now()) {
                self.clock.add_wait(Wait::Consumer, since);
            }
            state.pace.ask();
            state.is_hearing = false;
            let batch = state.ready.remove(&state.delivered);
            state.consumer_waits = batch.is_none();
            if let Some(batch) = batch {
                state.delivered += 1;
                state.pace.take();
                state.closed |= batch.is_err();
                return Some(Some(batch));
            }
            if let Some(error) = state.failure.take() {
                state.closed = true;
                return Some(Some(Err(error)));
            }
            if state.closed || state.delivered >= self.jobs.len() {
                return Some(None);
            }
            is_lost().then_some(Some(Err(SampleError::ThreadLost)))
        })
    }

    /// Waits up to `timeout` until `found` gives something that threads find out; `None` if time
    /// ran out.
    ///
    /// # Errors
    /// What ended them before that.
    pub fn find_within<R>(
        &self,
        timeout: Duration,
        is_lost: impl Fn() -> bool,
        found: impl Fn() -> Option<R>,
    ) -> Result<Option<R>, SampleError> {
        let look = |state: &mut State<W>| {
            state.is_asked = true;
            if let Some(error) = state.failure.take() {
                state.closed = true;
                return Some(Err(error));
            }
            let found = found().map(|found| Ok(Some(found)));
            found.or_else(|| is_lost().then_some(Err(SampleError::ThreadLost)))
        };
        self.look_within(timeout, POLL, look).unwrap_or(Ok(None))
    }

    /// What the consumer should hear next.
    pub fn take_note(&self) -> Option<Note> {
        self.change(|state| {
            let note = state.notes.pop_front();
            state.is_hearing |= note.is_some();
            note
        })
    }

    /// Ends all waits, and drops what was prepared.
    pub fn close(&self) {
        self.change(|state| {
            state.closed = true;
            state.ready.clear();
        });
    }

    /// Stops everything because of an error; the first one is told to the consumer.
    pub fn fail(&self, error: SampleError) {
        self.change(|state| {
            if !matches!(error, SampleError::Stopped) {
                state.failure.get_or_insert(error);
            }
        });
    }

    /// Does a thread's work. Its error stops everything, and so does its panic: others would wait
    /// for ever for what it does not make.
    pub fn run(&self, work: impl FnOnce() -> Result<(), SampleError>) {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) => done.unwrap_or_else(|error| self.fail(error)),
            Err(panic) => {
                self.fail(SampleError::ThreadLost);
                resume_unwind(panic);
            }
        }
    }

    /// Does work that other threads of a scope wait for: they end if it panics.
    pub fn watch<R>(&self, work: impl FnOnce() -> R) -> R {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            self.fail(SampleError::ThreadLost);
            resume_unwind(panic)
        })
    }

    /// Whether everything stops.
    pub fn is_stopping(&self) -> bool {
        let state = self.lock();
        state.closed || state.failure.is_some()
    }

    /// Starts a thread inside `scope` whose error stops everything.
    pub fn start_in<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        name: &str,
        work: impl FnOnce() -> Result<(), SampleError> + Send + 'scope,
    ) -> Result<(), SampleError>
    where
        W: Send,
    {
        let thread = std::thread::Builder::new().name(name.into());
        let started = thread.spawn_scoped(scope, || self.run(work));
        started.map(drop).map_err(|source| SampleError::NoThread { source })
    }
}

#[cfg(test)]
mod tests {
    use ng_types::NodeTypeId;

    use super::*;

    #[test]
    fn a_process_that_was_stopped_did_not_wait_meanwhile() {
        let (mut patience, mut now) = (Patience::default(), Instant::now());
        let mut looks = |count: u32, each: Duration, is_due: bool| {
            let look = |_| {
                now += each;
                patience.is_over(is_due, now)
            };
            (0..count).map(look).filter(|is_over| *is_over).count()
        };
        assert_eq!(looks(400, POLL, true), 0, "8 s");
        assert_eq!(looks(1, Duration::from_secs(3600), true), 0, "stopped for an hour");
        assert_eq!(looks(1, POLL, false), 0, "due no more");
        assert_eq!(looks(500, POLL, true), 0, "10 s again, less the first look");
        assert_eq!(looks(5, POLL, true), 4, "and up to 80 ms more");
    }

    #[test]
    fn a_thread_that_panics_ends_the_wait_of_all_others() {
        let jobs = Jobs::once(NodeTypeId(0), vec![1, 2, 3], 1);
        let shared = Shared::<()>::new(&Arc::default(), jobs, 2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let never = |_: &mut State<()>| None::<()>;
                shared.run(|| shared.wait_until(Wait::GatherForBuffers, never));
            });
            let panics = scope.spawn(|| shared.run(|| panic!("planted")));
            assert!(panics.join().is_err());
            waits.join().expect("ended");
        });
        let told = shared.next_within(Duration::ZERO, || false);
        assert!(matches!(told, Ok(Some(Err(SampleError::ThreadLost)))), "{told:?}");
    }
}
