//! [`Graph`]: a store that is served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ng_rpc::{Problem, problem_of, v1};
use ng_store::{OpenOptions, Snapshot, Store};

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
}

impl Graph {
    /// Opens the store at `path` below `folder`.
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
            reading_threads: threads,
            ..OpenOptions::default()
        };
        let store = Store::open(&folder.join(path), &options).map_err(|e| problem_of(&e))?;
        Ok(Self { name: name.to_owned(), path: path.to_owned(), store })
    }

    /// The newest commit, or the one that is asked for.
    ///
    /// # Errors
    /// The commit is not pinned.
    pub fn snapshot(&self, at: Option<u64>) -> Result<Arc<Snapshot>, Problem> {
        let newest = self.store.snapshot();
        match at {
            Some(commit) if commit != newest.lsn() => {
                let message = format!("commit {commit} of graph {:?} is not pinned", self.name);
                Err(Problem::missing("SNAPSHOT_NOT_PINNED", message)
                    .at("at_snapshot")
                    .remedy("pin a snapshot while it is the newest one"))
            }
            _ => Ok(newest),
        }
    }
}

/// A snapshot as messages name it.
pub fn named(snapshot: &Snapshot) -> v1::Snapshot {
    v1::Snapshot { commit: snapshot.lsn(), fingerprint: snapshot.fingerprint() }
}
