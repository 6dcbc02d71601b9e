//! Sleeping until the other side has changed its index, and waking it.
//!
//! The word on which a side sleeps is a flag of its own: 1 while it sleeps or is about to. In each
//! direction there are two parties:
//!
//! ```text
//! the side that sleeps             the side that wakes
//!   S1  flag = 1                     W1  index = new        (release)
//!   S2  fence (SeqCst)               W2  fence (SeqCst)
//!   S3  index unchanged?             W3  flag == 1?
//!   S4  futex wait while flag == 1   W4  flag = 0
//!                                    W5  futex wake
//! ```
//!
//! No wake-up is lost. The fences have one order. If W2 comes before S2, then S3 sees the new
//! index and the side does not sleep. If S2 comes before W2, then W3 sees the 1 of S1, or a 0 that
//! a waker stored after S1, in this round or at the end of an older one. Either way some W4 comes
//! after S1, and its W5 follows. If that W4 comes before the kernel compares the flag in S4, the
//! wait returns at once; otherwise the sleeper is queued already, because the kernel compares and
//! queues under one lock, and W5 finds it. A W4 of an older round can end a sleep too early, and
//! then S1 to S4 are done again. A waker that dies between W1 and W5, and one that is hostile,
//! cost the time until the sleeper looks by itself: `slice`.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use rustix::thread::futex::{Flags, wait, wake as futex_wake};
use rustix::time::Timespec;

/// Wakes the side that sleeps on `flag`, after what it waits for was stored.
pub(super) fn wake(flag: &AtomicU32) {
    fence(Ordering::SeqCst);
    if flag.load(Ordering::Relaxed) != 0 {
        wake_always(flag);
    }
}

/// The same without asking whether it sleeps.
pub(super) fn wake_always(flag: &AtomicU32) {
    fence(Ordering::SeqCst);
    flag.store(0, Ordering::Relaxed);
    // Not private: the word is shared between processes. It cannot fail but for a bad address.
    let _ = futex_wake(flag, Flags::empty(), 1);
}

/// Sleeps on `flag` for at most `slice`, unless `is_over` after the flag was raised. Returns early
/// at will: the caller looks and comes again.
pub(super) fn sleep(flag: &AtomicU32, slice: Duration, is_over: impl FnOnce() -> bool) {
    flag.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if !is_over() {
        let slice = Timespec {
            tv_sec: i64::try_from(slice.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(slice.subsec_nanos()),
        };
        // Woken, timed out, a signal, or the flag is down already: all are looked at alike.
        let _ = wait(flag, Flags::empty(), 1, Some(&slice));
    }
    flag.store(0, Ordering::Relaxed);
}
