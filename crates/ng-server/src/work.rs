//! Blocking work of the services, on threads that are not those of the network.
//!
//! What must not live here: the work itself. The invariant: running and waiting work is limited,
//! and work whose caller has gone is not started.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ng_rpc::{Code, Problem};
use tokio::sync::Semaphore;

use crate::guard::{deadline, shutting_down};

/// Commits in flight. Commits that wait for the device share a sync.
const WRITES: usize = 32;
/// Reads of single requests, registrations and similar work in flight.
pub const READS: usize = 2;
/// Models in requests that are being hashed and opened.
pub const OPENS: usize = 2;
/// Streams of mini-batches.
pub const STREAMS: usize = 8;
/// Bulk updates in flight.
const BULK: usize = 2;
/// Waiting requests of each kind.
const WAITING_MAX: usize = 4096;
/// The time after which a rejected request can be retried.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Limits and threads of blocking work.
pub struct Work {
    writes: Lane,
    reads: Lane,
    opens: Lane,
    chores: Lane,
    copies: Lane,
    bulk: Lane,
}

impl Default for Work {
    fn default() -> Self {
        let rooms = [WRITES, READS, OPENS, 1, 1, BULK];
        let [writes, reads, opens, chores, copies, bulk] = rooms.map(Lane::new);
        Self { writes, reads, opens, chores, copies, bulk }
    }
}

impl Work {
    /// Changes a graph.
    ///
    /// # Errors
    /// Those of `work`, too many requests, a passed deadline.
    pub async fn write<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.writes.run(deadline, work).await
    }

    /// Reads a graph.
    ///
    /// # Errors
    /// As [`Work::write`].
    pub async fn read<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.reads.run(deadline, work).await
    }

    /// Opens a model that comes with a request.
    ///
    /// # Errors
    /// As [`Work::write`].
    pub async fn open<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.opens.run(deadline, work).await
    }

    /// Runs long work that must not run twice at the same time, such as opening and rewriting.
    ///
    /// # Errors
    /// As [`Work::write`].
    pub async fn chore<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.chores.run(deadline, work).await
    }

    /// Receives streamed columns until the sender ends.
    ///
    /// # Errors
    /// As [`Work::write`].
    pub async fn bulk<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.bulk.run(deadline, work).await
    }

    /// Backs up a graph, which reads all of it.
    ///
    /// # Errors
    /// As [`Work::write`].
    pub async fn copy<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.copies.run(deadline, work).await
    }
}

struct Lane {
    room: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Counts a request that waits, for as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lane {
    fn new(room: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(room)), waiting: AtomicUsize::new(0) }
    }

    async fn run<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            let message =
                format!("{WAITING_MAX} requests of the same kind are waiting, which is the limit");
            return Err(Problem::new(Code::ResourceExhausted, "TOO_MANY_REQUESTS", message)
                .remedy("try again later")
                .retry_about(RETRY_AFTER));
        }
        let room = Arc::clone(&self.room).acquire_owned().await;
        let room = room.map_err(|_closed| shutting_down())?;
        drop(waiting);
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(deadline::over());
        }
        let run = move || {
            let done = work();
            drop(room);
            done
        };
        tokio::task::spawn_blocking(run).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request panicked");
            Err(Problem::new(
                Code::Internal,
                "DEFECT",
                "the request failed because of a server bug",
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_late_is_not_begun_and_a_panic_is_an_answer() {
        let work = Work::default();
        let late = work.write(Some(Instant::now()), || Ok(())).await;
        assert_eq!(late.map_err(|problem| problem.code), Err(Code::DeadlineExceeded));
        let broken = work.read::<()>(None, || panic!("as a defect does")).await;
        assert_eq!(broken.map_err(|problem| problem.code), Err(Code::Internal));
        assert_eq!(work.read(None, || Ok(7)).await, Ok(7));
        assert_eq!(work.writes.waiting.load(Ordering::Relaxed), 0);
    }
}
