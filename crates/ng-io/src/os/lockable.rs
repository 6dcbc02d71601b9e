//! Lockable memory: what io_uring may pin for registered buffers.
//!
//! The limit holds for all processes of a user together, and the kernel charges rings to it, too.
//! So this process registers at most half of it: a later ring, or another process, still gets in.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

static HELD_BYTES: AtomicU64 = AtomicU64::new(0);

/// RLIMIT_MEMLOCK; `None` if there is none.
pub(crate) fn limit_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Whether this thread may lock memory past the limit.
pub(crate) fn is_exempt() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}

/// A share of the lockable memory; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: u64,
}

impl Share {
    /// Takes `bytes`, unless this process would hold more than half of what its user may lock.
    pub fn take(bytes: u64) -> Option<Self> {
        let most = match limit_bytes() {
            Some(limit) if !is_exempt() => limit / 2,
            _ => u64::MAX,
        };
        Self::take_below(bytes, most)
    }

    fn take_below(bytes: u64, most: u64) -> Option<Self> {
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= most);
        HELD_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Self { bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        HELD_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_refused_past_the_most_and_comes_back_when_dropped() {
        let most = 1 << 40;
        let first = Share::take_below((1 << 40) - (1 << 35), most).expect("fits");
        assert!(Share::take_below(1 << 36, most).is_none());
        drop(first);
        assert!(Share::take_below(1 << 36, most).is_some());
    }
}
