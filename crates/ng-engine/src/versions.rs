//! The version that answers come from, and the thread that brings into memory what it shall have.
//!
//! Commits may come before that is done. The thread goes on with the version that it began with,
//! and the newest one takes over what has not changed since: otherwise rows that take longer to
//! load than the time between two commits would never be in memory. What must not live here: what
//! is prepared, and how. The invariant: one thread at a time prepares.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread::Builder;
use std::time::Duration;

use crate::EngineError;
use crate::pinned::Pinned;
use crate::prepare::Preparing;

/// How long memory of a snapshot that was left is waited for: requests under way still use it.
const LEAVING_LOOKS: u32 = 3_000;
const LEAVING_POLL: Duration = Duration::from_millis(10);

/// The version that answers come from.
pub(crate) struct Versions {
    newest: RwLock<Arc<Pinned>>,
    turn: Mutex<Turn>,
    pub preparing: Preparing,
}

/// The right to go on to another version: one comes after the other.
pub(crate) struct Turn {
    /// Whether a thread prepares.
    pub is_loading: bool,
}

impl Versions {
    pub fn new(first: Arc<Pinned>, preparing: Preparing) -> Arc<Self> {
        let turn = Mutex::new(Turn { is_loading: false });
        Arc::new(Self { newest: RwLock::new(first), turn, preparing })
    }

    pub fn newest(&self) -> Arc<Pinned> {
        Arc::clone(&self.newest.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers come from `newest` from now on.
    pub fn set(&self, newest: Arc<Pinned>) {
        *self.newest.write().unwrap_or_else(PoisonError::into_inner) = newest;
    }

    /// Has a thread bring in what the newest version lacks of what was in memory of the one
    /// `before`, unless one is at it.
    pub fn prepare(
        self: &Arc<Self>,
        turn: &mut Turn,
        before: Option<Arc<Pinned>>,
    ) -> Result<(), EngineError> {
        let newest = self.newest();
        if turn.is_loading {
            return Ok(());
        }
        if self.preparing.has_all(&newest, before.as_deref()) {
            newest.progress.end(Ok(()));
            return Ok(());
        }
        let (this, preparing) = (Arc::downgrade(self), self.preparing.clone());
        let before = before.map_or_else(Weak::new, |before| Arc::downgrade(&before));
        let thread = Builder::new().name("ng-engine-load".into());
        let started = thread.spawn(move || load(&this, &preparing, before));
        started.map_err(|source| EngineError::NoThread { source })?;
        turn.is_loading = true;
        Ok(())
    }
}

/// Brings in what the newest version shall have, as long as the engine is there.
fn load(versions: &Weak<Versions>, preparing: &Preparing, mut before: Weak<Pinned>) {
    let goes_on = || versions.strong_count() > 0;
    loop {
        for _ in 0..LEAVING_LOOKS {
            if before.strong_count() == 0 || !goes_on() {
                break;
            }
            std::thread::sleep(LEAVING_POLL);
        }
        let Some(of) = versions.upgrade().map(|versions| versions.newest()) else { return };
        let loaded = preparing.load(&of, &goes_on);
        let Some(versions) = versions.upgrade() else { return };
        let mut turn = versions.turn();
        let newest = versions.newest();
        let is_newest = Arc::ptr_eq(&newest, &of);
        let take_over = || if is_newest { Ok(()) } else { newest.take_over(&of, preparing) };
        let result = loaded.and_then(|()| take_over());
        if is_newest || result.is_err() || preparing.has_as_much(&newest, &of) {
            newest.progress.end(result);
            turn.is_loading = false;
            return;
        }
        // Too much has changed meanwhile.
        before = Arc::downgrade(&of);
    }
}
