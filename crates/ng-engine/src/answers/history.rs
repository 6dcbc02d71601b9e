//! What is known of a model's answers: up to which commit all changes were noted, and when lists
//! and rows changed last.
//!
//! What must not live here: answers. The invariant: of each list and each row the last change is
//! here, as far as it came after the commit at which the notes begin.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use ng_types::IdHash;
use ng_types::canary::planted;

use crate::answers::changed::ChangedNodes;
use crate::answers::reach::{Key, Reach, key_of};

/// Nodes of a page, of which there are two, and so of a change; more end all answers. A page takes
/// 1.7 MiB.
const NODES_MAX: usize = 1 << 15;
/// Bits that tell in most cases that a node is not noted.
const FILTER_BITS: u32 = 19;

/// A model in a cache.
#[derive(Debug)]
pub(super) struct Model {
    /// Changes are brought one after the other.
    pub turn: Mutex<()>,
    is_dropped: AtomicBool,
    /// All changes up to this commit are noted.
    known_to: AtomicU64,
    notes: RwLock<Notes>,
}

/// The last changes.
#[derive(Debug)]
struct Notes {
    older: Page,
    newer: Page,
}

/// When nodes changed last, of changes after `start`.
#[derive(Debug)]
struct Page {
    start: u64,
    last: HashMap<Key, Last, IdHash>,
    filter: Box<[u64]>,
}

/// The commits by which a node changed last; 0 if it did not.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    list: u64,
    row: u64,
}

/// The word of a filter that a node has, and its bit there.
fn bit(key: Key) -> (usize, u64) {
    let bit = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - FILTER_BITS);
    ((bit / 64) as usize, 1 << (bit % 64))
}

impl Page {
    fn new(start: u64) -> Self {
        let filter = vec![0; (1 << FILTER_BITS) / 64].into();
        Self { start, last: HashMap::default(), filter }
    }

    fn of(&mut self, key: Key) -> &mut Last {
        let (word, bit) = bit(key);
        self.filter[word] |= bit;
        self.last.entry(key).or_default()
    }

    /// Whether a node changed after `lsn`, in its row or, if that counts, in its list.
    fn has(&self, key: Key, has_list: bool, lsn: u64) -> bool {
        let (word, bit) = bit(key);
        let is_noted = self.filter[word] & bit != 0;
        is_noted
            && self
                .last
                .get(&key)
                .is_some_and(|last| last.row.max(if has_list { last.list } else { 0 }) > lsn)
    }
}

impl Model {
    pub fn new(lsn: u64) -> Self {
        Self {
            turn: Mutex::new(()),
            is_dropped: AtomicBool::new(false),
            known_to: AtomicU64::new(lsn),
            notes: RwLock::new(Notes { older: Page::new(lsn), newer: Page::new(lsn) }),
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

    /// Says that all changes up to `lsn` are noted.
    pub fn set_known_to(&self, lsn: u64) {
        self.known_to.store(lsn, Ordering::Release);
    }

    /// Whether what an answer was made of is the same as at the commit `lsn`, up to the one that
    /// [`Model::known_to`] gave before.
    pub fn is_the_same(&self, reach: &Reach, lsn: u64) -> bool {
        let notes = self.notes.read().unwrap_or_else(PoisonError::into_inner);
        if lsn < notes.older.start && !planted("late_answers_are_trusted") {
            return false;
        }
        if planted("answers_outlive_commits") {
            return true;
        }
        let Notes { older, newer } = &*notes;
        // Most answers are looked at often, and so need the newer page alone.
        let pages = [newer, older];
        let pages = if lsn >= newer.start { &pages[..1] } else { &pages[..] };
        !reach.any(|key, is_inner| pages.iter().any(|page| page.has(key, is_inner, lsn)))
    }

    /// Notes what a commit changed, or several up to `to`; false if that is too much.
    pub fn note(&self, changed: &ChangedNodes, to: u64) -> bool {
        if changed.len() > NODES_MAX {
            self.end_all(to);
            return false;
        }
        let mut notes = self.notes.write().unwrap_or_else(PoisonError::into_inner);
        if notes.newer.last.len() + changed.len() > NODES_MAX {
            let start = self.known_to();
            notes.older = std::mem::replace(&mut notes.newer, Page::new(start));
        }
        for (node_type, nodes) in (0..).zip(&changed.lists) {
            nodes.iter().for_each(|node| notes.newer.of(key_of(node_type, *node)).list = to);
        }
        for (node_type, nodes) in (0..).zip(&changed.rows) {
            nodes.iter().for_each(|node| notes.newer.of(key_of(node_type, *node)).row = to);
        }
        true
    }

    /// Ends all answers of snapshots before `to`.
    pub fn end_all(&self, to: u64) {
        let mut notes = self.notes.write().unwrap_or_else(PoisonError::into_inner);
        *notes = Notes { older: Page::new(to), newer: Page::new(to) };
    }
}
