//! [`Clock`]: waits to the microsecond on the thread of the loop itself.
//!
//! Timers of the runtime are a millisecond too coarse, and another thread would be one more that
//! has to be woken for each arrival.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A timer among the descriptors that the runtime polls.
pub(crate) struct Clock(AsyncFd<OwnedFd>);

impl Clock {
    /// A timer of the runtime that this is called in.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // What is wrong with it are types that give away their descriptor; this one owns it.
        #[allow(deprecated)]
        let polled = AsyncFd::new(timer)?;
        Ok(Self(polled))
    }

    /// Waits until `at`; returns at once if that is over.
    pub(crate) async fn until(&self, at: Instant) -> io::Result<()> {
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let once = Itimerspec { it_interval: never, it_value: timespec(left) };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
            let mut rung = self.0.readable().await?;
            let mut times = [0; 8];
            let _unset = rustix::io::read(self.0.get_ref(), &mut times);
            rung.clear_ready();
        }
    }
}

fn timespec(left: Duration) -> Timespec {
    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
}
