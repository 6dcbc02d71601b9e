//! What commits change: which lists and rows, and which nodes come and go.
//!
//! An edit notes what it touches ([`Touched`]); an open store keeps the notes of its last commits
//! ([`ChangeLog`]), and two snapshots of it are compared by them. What must not live here: what the
//! changes mean to anybody. The invariant: nothing that differs between two versions is left out;
//! where that cannot be promised there are no changes at all, and the caller has to take all for
//! changed.

use std::collections::{BTreeMap, VecDeque};

use ng_types::{EdgeTypeId, NodeId, NodeTypeId, Reservation};

use crate::catalog::TensorRef;

/// Bytes that a note of a commit takes beside its ids.
const NOTE_BYTES: u64 = 512;

/// What differs between two snapshots of one open store, or more than that, and never less.
///
/// All lists of ids are ascending and without repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Nodes that came into being.
    pub added: BTreeMap<NodeTypeId, Vec<NodeId>>,
    /// Nodes that went.
    pub deleted: BTreeMap<NodeTypeId, Vec<NodeId>>,
    /// By edge type, the destinations whose neighbour lists changed, be it in times or weights.
    pub lists: BTreeMap<EdgeTypeId, Vec<NodeId>>,
    /// By tensor, the nodes or edges whose rows changed. Rows of new nodes and edges are not
    /// included, unless they changed later or their id was reused.
    pub rows: BTreeMap<TensorRef, Vec<u64>>,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.columns().all(<[u64]>::is_empty)
    }

    /// How many nodes, lists and rows are named.
    pub fn len(&self) -> u64 {
        self.columns().map(|ids| ids.len() as u64).sum()
    }

    fn columns(&self) -> impl Iterator<Item = &[u64]> {
        let nodes = self.added.values().chain(self.deleted.values());
        nodes.chain(self.lists.values()).chain(self.rows.values()).map(Vec::as_slice)
    }

    fn columns_mut(&mut self) -> impl Iterator<Item = &mut Vec<u64>> {
        let nodes = self.added.values_mut().chain(self.deleted.values_mut());
        nodes.chain(self.lists.values_mut()).chain(self.rows.values_mut())
    }

    fn add(&mut self, other: &Self) {
        fn join<K: Ord + Copy>(to: &mut BTreeMap<K, Vec<u64>>, from: &BTreeMap<K, Vec<u64>>) {
            for (key, ids) in from {
                to.entry(*key).or_default().extend_from_slice(ids);
            }
        }
        join(&mut self.added, &other.added);
        join(&mut self.deleted, &other.deleted);
        join(&mut self.lists, &other.lists);
        join(&mut self.rows, &other.rows);
    }

    fn sort(&mut self) {
        for ids in self.columns_mut() {
            ids.sort_unstable();
            ids.dedup();
        }
    }
}

/// What an edit has touched so far.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    changes: Changes,
    /// Ids that were noted since they were last put in order.
    noted: u64,
    /// More of them are not noted.
    noted_max: u64,
    is_too_much: bool,
}

impl Touched {
    /// Notes that take up to `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { noted_max: bytes / 8, ..Self::default() }
    }

    /// Forgets what was touched.
    pub fn restart(&mut self) {
        *self = Self { noted_max: self.noted_max, ..Self::default() };
    }

    pub fn added(&mut self, node_type: NodeTypeId, id: u64) {
        self.note(|changes| changes.added.entry(node_type).or_default(), id);
    }

    pub fn deleted(&mut self, node_type: NodeTypeId, id: u64) {
        self.note(|changes| changes.deleted.entry(node_type).or_default(), id);
    }

    pub fn list(&mut self, edge_type: EdgeTypeId, destination: u64) {
        self.note(|changes| changes.lists.entry(edge_type).or_default(), destination);
    }

    pub fn row(&mut self, tensor: TensorRef, row: u64) {
        self.note(|changes| changes.rows.entry(tensor).or_default(), row);
    }

    #[inline]
    fn note(&mut self, column: impl FnOnce(&mut Changes) -> &mut Vec<u64>, id: u64) {
        if self.is_too_much {
            return;
        }
        let ids = column(&mut self.changes);
        if ids.last() == Some(&id) {
            return;
        }
        ids.push(id);
        self.noted += 1;
        if self.noted > self.noted_max {
            self.changes.sort();
            self.noted = self.changes.len();
            // Or else the same few would be put in order again and again.
            if self.noted > self.noted_max / 2 {
                *self = Self { is_too_much: true, ..Self::default() };
            }
        }
    }

    /// The changes; `None` if they were too many to be noted.
    fn into_changes(mut self) -> Option<Changes> {
        self.changes.sort();
        (!self.is_too_much).then_some(self.changes)
    }
}

/// What one commit made of another version.
#[derive(Debug)]
struct Note {
    /// Fingerprints of both versions.
    from: u64,
    to: u64,
    changes: Changes,
    bytes: u64,
}

/// What the last commits of an open store changed: each note goes on where the one before ends.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    notes: VecDeque<Note>,
    bytes: u64,
    /// What the last commit that found no room lacked.
    lacks: u64,
    held: Option<Reservation>,
}

impl ChangeLog {
    /// Bytes that it should get before the next commit, where it may take `share` in all.
    pub fn wants(&self, share: u64) -> Option<u64> {
        let held = self.held_bytes();
        let step = (share / 16).max(self.lacks).min(share.saturating_sub(held));
        (step > 0 && (self.lacks > 0 || self.bytes + step / 2 >= held)).then_some(step)
    }

    pub fn pay(&mut self, more: Reservation) {
        self.lacks = self.lacks.saturating_sub(more.bytes());
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
    }

    pub fn held_bytes(&self) -> u64 {
        self.held.as_ref().map_or(0, Reservation::bytes)
    }

    /// Notes a commit, and forgets the oldest ones as far as there is no room for it.
    pub fn push(&mut self, from: u64, to: u64, touched: Touched) {
        // A commit that never became durable, or one that somebody else made in between.
        while self.notes.back().is_some_and(|last| last.to != from) {
            self.pop(VecDeque::pop_back);
        }
        let Some(changes) = touched.into_changes() else { return self.clear() };
        let bytes = NOTE_BYTES + 8 * changes.len();
        self.lacks = (self.bytes + bytes).saturating_sub(self.held_bytes());
        while self.bytes + bytes > self.held_bytes() {
            if !self.pop(VecDeque::pop_front) {
                return;
            }
        }
        self.bytes += bytes;
        self.notes.push_back(Note { from, to, changes, bytes });
    }

    fn pop(&mut self, end: fn(&mut VecDeque<Note>) -> Option<Note>) -> bool {
        let popped = end(&mut self.notes);
        self.bytes -= popped.as_ref().map_or(0, |note| note.bytes);
        popped.is_some()
    }

    fn clear(&mut self) {
        self.notes.clear();
        self.bytes = 0;
    }

    /// What differs between the versions with these fingerprints, if all commits between them are
    /// known.
    pub fn between(&self, from: u64, to: u64) -> Option<Changes> {
        if from == to {
            return Some(Changes::default());
        }
        // Whoever asks mostly asks for the last few.
        let last = self.notes.iter().rposition(|note| note.to == to)?;
        let first = self.notes.range(..=last).rposition(|note| note.from == from)?;
        let mut all = Changes::default();
        self.notes.range(first..=last).for_each(|note| all.add(&note.changes));
        all.sort();
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ng_types::Budget;

    const TYPE: NodeTypeId = NodeTypeId(0);
    const TOUCHED_MAX: u64 = 1 << 12;

    fn touched(ids: impl IntoIterator<Item = u64>) -> Touched {
        let mut touched = Touched::new(8 * TOUCHED_MAX);
        ids.into_iter().for_each(|id| touched.deleted(TYPE, id));
        touched
    }

    fn log(bytes: u64) -> ChangeLog {
        let mut log = ChangeLog::default();
        log.pay(Budget::new(1 << 30).reserve(bytes).expect("budget"));
        log
    }

    #[test]
    fn commits_are_joined_and_a_gap_makes_all_before_it_unknown() {
        let mut log = log(1 << 20);
        log.push(1, 2, touched([5, 3, 5]));
        log.push(2, 3, touched([4]));
        let ids = |changes: Option<Changes>| changes.map(|mut all| all.deleted.remove(&TYPE));
        assert_eq!(ids(log.between(1, 3)), Some(Some(vec![3, 4, 5])));
        assert_eq!(ids(log.between(2, 3)), Some(Some(vec![4])));
        assert_eq!(ids(log.between(3, 3)), Some(None));
        assert_eq!((log.between(3, 1), log.between(0, 3)), (None, None));
        // Commit 3 was lost with its writer.
        log.push(2, 30, touched([9]));
        assert_eq!(ids(log.between(1, 30)), Some(Some(vec![3, 5, 9])));
        assert_eq!(log.between(1, 3), None);
        log.push(31, 32, touched([1]));
        assert_eq!((log.between(30, 32), log.between(1, 30)), (None, None));
        assert_eq!(ids(log.between(31, 32)), Some(Some(vec![1])));
    }

    #[test]
    fn the_oldest_commits_go_first_and_one_without_room_makes_all_unknown() {
        let (mut log, budget) = (ChangeLog::default(), Budget::new(1 << 30));
        log.pay(budget.reserve(4 * (NOTE_BYTES + 8)).expect("budget"));
        (1..=6).for_each(|at| log.push(at, at + 1, touched([at])));
        assert!(log.between(3, 7).is_some() && log.between(2, 7).is_none());
        assert_eq!(log.bytes, log.held_bytes());
        log.push(7, 8, touched(0..2_000));
        assert!(log.between(7, 8).is_none() && log.between(6, 7).is_none());
        assert_eq!(log.bytes, 0);
        // It asks for the room, as far as there is any.
        let share = 1 << 20;
        let more = log.wants(share).expect("room");
        log.pay(budget.reserve(more).expect("budget"));
        log.push(8, 9, touched(0..2_000));
        assert!(log.between(8, 9).is_some());
        let held = log.held_bytes();
        assert_eq!(log.wants(held), None);
    }

    #[test]
    fn repeats_are_no_reason_to_give_up_and_too_many_ids_are() {
        let mut few = touched((0..3 * TOUCHED_MAX).map(|at| at % 1_000));
        few.added(TYPE, 7);
        assert_eq!(few.into_changes().map(|all| all.len()), Some(1_001));
        assert_eq!(touched(0..2 * TOUCHED_MAX).into_changes(), None);
        let mut log = log(1 << 30);
        log.push(1, 2, touched([1]));
        log.push(2, 3, touched(0..2 * TOUCHED_MAX));
        assert!(log.between(1, 2).is_none() && log.between(2, 3).is_none());
    }
}
