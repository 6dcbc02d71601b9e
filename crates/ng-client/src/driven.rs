//! [`Driven`]: a runtime that the thread which waits drives itself, so that an answer wakes that
//! thread at once and no other one in between.
//!
//! While nobody waits, a keeper drives it: connections answer pings and see their end.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// How long nobody has waited when the keeper takes over.
const IDLE: Duration = Duration::from_millis(100);

/// A runtime that the waiting threads drive.
#[derive(Debug)]
pub struct Driven {
    shared: Arc<Shared>,
    keeper: OnceLock<Option<Thread>>,
}

#[derive(Debug)]
struct Shared {
    runtime: Runtime,
    /// Waits that have begun, and those that have ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Whether the keeper drives.
    kept: AtomicBool,
    /// Tells the keeper to let go.
    leave: Notify,
    over: AtomicBool,
}

impl Driven {
    /// Creates a runtime without a thread. The first wait starts the keeper.
    ///
    /// # Errors
    /// The operating system provides no poller.
    pub fn new() -> io::Result<Self> {
        let runtime =
            Builder::new_current_thread().thread_name("ng-client").enable_all().build()?;
        let shared = Shared {
            runtime,
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            kept: AtomicBool::new(false),
            leave: Notify::new(),
            over: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared), keeper: OnceLock::new() })
    }

    /// The runtime, to spawn tasks.
    pub fn runtime(&self) -> &Runtime {
        &self.shared.runtime
    }

    /// Waits for `work`. Threads that wait at the same time drive in turn.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        let shared = &self.shared;
        shared.begun.fetch_add(1, Ordering::SeqCst);
        let _ended = Ended(shared);
        if shared.kept.load(Ordering::SeqCst) {
            shared.leave.notify_one();
        }
        self.keeper.get_or_init(|| self.keep());
        shared.runtime.block_on(work)
    }

    /// Starts the keeper. Without one calls work as well; only an idle connection may be lost.
    fn keep(&self) -> Option<Thread> {
        let shared = Arc::clone(&self.shared);
        let keeper = thread::Builder::new().name("ng-client".into()).spawn(move || shared.keep());
        keeper.ok().map(|keeper| keeper.thread().clone())
    }
}

/// A wait that ends, even by a panic.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Shared {
    fn is_idle(&self, begun: u64) -> bool {
        self.begun.load(Ordering::SeqCst) == begun && self.ended.load(Ordering::SeqCst) == begun
    }

    /// Drives while nobody waits, until it is over.
    fn keep(&self) {
        while !self.over.load(Ordering::SeqCst) {
            let begun = self.begun.load(Ordering::SeqCst);
            thread::park_timeout(IDLE);
            if self.over.load(Ordering::SeqCst) || !self.is_idle(begun) {
                continue;
            }
            self.kept.store(true, Ordering::SeqCst);
            // Who begins after this has seen that the keeper drives, and tells it to leave.
            if self.is_idle(begun) && !self.over.load(Ordering::SeqCst) {
                self.runtime.block_on(self.leave.notified());
            }
            self.kept.store(false, Ordering::SeqCst);
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.shared.leave.notify_one();
        if let Some(keeper) = self.keeper.get().and_then(Option::as_ref) {
            keeper.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(20), "never {what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn tasks_go_on_while_nobody_waits_and_end_with_it() {
        let driven = Driven::new().expect("a runtime");
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        driven.wait(async {
            let _task = tokio::spawn(async move {
                loop {
                    counted.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        });
        until("driven by its keeper", || steps.load(Ordering::SeqCst) > 20);
        // The keeper lets go of it, and takes it back.
        driven.wait(async { tokio::time::sleep(Duration::from_millis(1)).await });
        let before = steps.load(Ordering::SeqCst);
        until("driven again", || steps.load(Ordering::SeqCst) > before + 20);
        let shared = Arc::downgrade(&driven.shared);
        drop(driven);
        until("ended", || shared.strong_count() == 0);
    }

    #[test]
    fn threads_that_wait_at_once_all_get_their_answers() {
        let driven = Driven::new().expect("a runtime");
        thread::scope(|scope| {
            for thread in 0..8_u64 {
                let driven = &driven;
                scope.spawn(move || {
                    for at in 0..200 {
                        let answer = driven.wait(async move {
                            let work = tokio::spawn(async move {
                                tokio::task::yield_now().await;
                                thread * 1000 + at
                            });
                            work.await.expect("not panicked")
                        });
                        assert_eq!(answer, thread * 1000 + at);
                    }
                });
            }
        });
        let (begun, ended) = (&driven.shared.begun, &driven.shared.ended);
        assert_eq!(begun.load(Ordering::SeqCst), 1600);
        assert_eq!(ended.load(Ordering::SeqCst), 1600);
    }
}
