//! The locks and pins of a [`crate::MemDisk`], which any number of pretended processes share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ng_io::Lock;

#[derive(Debug, Default)]
pub(crate) struct MemLocks {
    processes: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    is_written: bool,
    /// How often each process has pinned each checkpoint.
    pins: BTreeMap<(u64, u64), usize>,
}

impl MemLocks {
    pub fn next_process(&self) -> u64 {
        self.processes.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lock_writer(self: &Arc<Self>) -> Option<Lock> {
        if std::mem::replace(&mut self.held().is_written, true) {
            return None;
        }
        let locks = Arc::clone(self);
        Some(Lock::new(move || locks.held().is_written = false))
    }

    pub fn pin(self: &Arc<Self>, process: u64, checkpoint_id: u64) -> Lock {
        *self.held().pins.entry((checkpoint_id, process)).or_default() += 1;
        let locks = Arc::clone(self);
        Lock::new(move || {
            let pins = &mut locks.held().pins;
            if let Some(count) = pins.get_mut(&(checkpoint_id, process)) {
                *count -= 1;
                if *count == 0 {
                    pins.remove(&(checkpoint_id, process));
                }
            }
        })
    }

    pub fn is_pinned_below(&self, process: u64, checkpoint_id: u64) -> bool {
        let held = self.held();
        held.pins.range(..(checkpoint_id, 0)).any(|((_, owner), _)| *owner != process)
    }
}
