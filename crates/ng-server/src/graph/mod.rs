//! [`Graph`]: a store that is served, and what requests do with it.
//!
//! What must not live here: what is served under which name (`catalogue`), formats of stores. The
//! invariant: nothing of a request is done before its names and sizes are checked.

pub mod bulk;
mod change;
mod info;
mod names;
mod note;
mod pins;
mod read;
mod rows;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_rpc::{Problem, problem_of, v1};
use ng_store::{KeyedCommit, OpenOptions, Snapshot, Store};
use tokio::sync::watch;

use crate::work::{OPENS, READS, STREAMS};

pub use change::Applied;
pub use pins::Pins;

/// How long a transaction waits for memory of others, in a lane that nobody else has meanwhile.
const MEMORY_WAIT: Duration = Duration::from_millis(200);
/// Reads in flight of one thread.
const QUEUE_DEPTH: usize = 64;

/// A store that is served under a name.
pub struct Graph {
    /// What requests call it.
    pub name: String,
    /// Where it lies, relative to the served folder.
    pub path: PathBuf,
    /// The store.
    pub store: Store,
    /// Snapshots that are kept.
    pins: Pins,
    /// The newest commit of this server.
    newest: watch::Sender<u64>,
}

impl Graph {
    /// Opens the store at `path` below `folder`. `threads` of the engines read it, those of streams
    /// of mini-batches, and those of requests that read or change it.
    ///
    /// # Errors
    /// As those of [`Store::open`].
    pub fn open(
        name: &str,
        folder: &Path,
        path: &Path,
        (memory, threads): (Option<u64>, usize),
    ) -> Result<Self, Problem> {
        let options = OpenOptions {
            memory,
            queue_depth: QUEUE_DEPTH,
            reading_threads: threads + READS + OPENS + STREAMS + 1,
            batch_timeout: MEMORY_WAIT,
            ..OpenOptions::default()
        };
        let store = Store::open(&folder.join(path), &options).map_err(|e| problem_of(&e))?;
        let (newest, _) = watch::channel(store.snapshot().lsn());
        let (name, path, pins) = (name.to_owned(), path.to_owned(), Pins::default());
        Ok(Self { name, path, store, pins, newest })
    }

    /// The newest commit, or the one that is asked for.
    ///
    /// # Errors
    /// The commit is not pinned.
    pub fn snapshot(&self, at: Option<u64>) -> Result<Arc<Snapshot>, Problem> {
        let newest = self.store.snapshot();
        let Some(commit) = at.filter(|commit| *commit != newest.lsn()) else { return Ok(newest) };
        self.pins.find(commit, Instant::now()).ok_or_else(|| {
            let message = format!("commit {commit} of graph {:?} is not pinned", self.name);
            Problem::missing("SNAPSHOT_NOT_PINNED", message)
                .at("at_snapshot")
                .remedy("pin a snapshot while it is the newest one")
        })
    }

    /// Keeps the newest commit readable. What it holds is on disk first, so that it takes no
    /// memory from those that come later.
    ///
    /// # Errors
    /// Too many are kept, or for too long.
    pub fn pin(&self, seconds: u32) -> Result<v1::PinSnapshotResponse, Problem> {
        let seconds = pins::seconds_of(seconds)?;
        if self.store.update_stats().is_some() {
            self.store.checkpoint().map_err(|e| problem_of(&e))?;
        }
        let snapshot = self.store.snapshot();
        self.pins.pin(Arc::clone(&snapshot), Instant::now(), seconds)?;
        Ok(v1::PinSnapshotResponse { snapshot: Some(named(&snapshot)), seconds })
    }

    /// Lets go of a commit.
    ///
    /// # Errors
    /// It is not kept.
    pub fn unpin(&self, commit: u64) -> Result<(), Problem> {
        self.pins.unpin(commit, Instant::now())
    }

    /// Lets go of commits whose time is over; how many are kept.
    pub fn pinned(&self) -> usize {
        self.pins.commits(Instant::now()).len()
    }

    /// What was kept with a key, if the graph remembers it.
    pub fn made_under(&self, key: &[u8]) -> Option<KeyedCommit> {
        self.store.snapshot().catalog().keyed_commits().find(|known| *known.key == *key).cloned()
    }

    /// Hears of each commit that this server makes; several may be heard of as one.
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// A problem of a request, which names the graph where the graph's files are what is wrong:
    /// their messages name files and pages alone.
    pub fn blamed(&self, problem: Problem) -> Problem {
        let is_of_files = matches!(
            problem.reason.as_str(),
            "STORE_DAMAGED" | "LOG_DAMAGED" | "IO_FAILED" | "STORE_POISONED"
        );
        if !is_of_files {
            return problem;
        }
        let message = format!("graph {:?}: {}", self.name, problem.message);
        Problem { message, ..problem }
    }

    fn note_commit(&self, commit: u64) {
        self.newest.send_if_modified(|newest| {
            let is_newer = commit > *newest;
            *newest = commit.max(*newest);
            is_newer
        });
    }
}

/// A snapshot as messages name it.
pub fn named(snapshot: &Snapshot) -> v1::Snapshot {
    v1::Snapshot { commit: snapshot.lsn(), fingerprint: snapshot.fingerprint() }
}
