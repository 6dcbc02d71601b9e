//! The visits of sampling: the lists that were drawn from, the positions, and the nodes found.
//!
//! A trace contains no pages, times or memory, so any layout and device can be simulated with it
//! (`ng-ssdsim`). Entries and draws are parallel columns.

use std::sync::Arc;

use thiserror::Error;

use crate::{NodeId, Places};

/// The visits of some batches.
///
/// An *entry* is a node that a batch visits; those of hop 0 are its seeds. A *draw* is one position
/// of an entry's list. The first draw of a batch that finds an entry is its parent; later draws may
/// find it again, which costs nothing.
///
/// ```
/// use ng_types::Trace;
/// let mut trace = Trace::default();
/// trace.begin_batch();
/// let seed = trace.visit(7, 1000, 0);
/// let found = trace.visit(8, 5, 1);
/// trace.draw(seed, 999, found);
/// trace.end_batch();
/// assert_eq!(trace.batches(), 1);
/// assert_eq!(trace.draws_of(0, seed).collect::<Vec<_>>(), [(999, found)]);
/// assert!(trace.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The visited node, by its id.
    pub node: Vec<NodeId>,
    /// Length of its list.
    pub degree: Vec<u32>,
    /// Steps from the seeds.
    pub hop: Vec<u8>,
    /// First draw of each entry; one more than entries when the last batch has ended.
    pub first_draw: Vec<u64>,
    /// Position in the list.
    pub position: Vec<u32>,
    /// Entry of the same batch that was found, counted from the batch's first.
    pub found: Vec<u32>,
    /// First entry of each batch, and the end of the last.
    pub first_entry: Vec<u64>,
    /// Where all of these nodes lie in a file of the direct layout, if that is known.
    pub places: Option<Arc<Places>>,
}

/// The error that a trace is not valid.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("the trace is truncated or damaged: {what} (entry {entry}); record it again")]
pub struct TraceError {
    /// What is wrong.
    pub what: &'static str,
    /// Where.
    pub entry: u64,
}

impl TraceError {
    pub(crate) fn new(what: &'static str, entry: usize) -> Self {
        Self { what, entry: entry as u64 }
    }
}

impl Trace {
    /// Starts a batch. Its entries have to be visited before they are found by draws.
    pub fn begin_batch(&mut self) {
        if self.first_entry.is_empty() {
            self.first_entry.push(0);
        }
    }

    /// Adds an entry: its number in the batch.
    pub fn visit(&mut self, node: NodeId, degree: u32, hop: u8) -> u32 {
        let first = self.first_entry.last().copied().unwrap_or(0);
        self.node.push(node);
        self.degree.push(degree);
        self.hop.push(hop);
        (self.node.len() as u64 - 1 - first) as u32
    }

    /// Adds a draw. Draws of one entry come together, and entries in ascending order.
    pub fn draw(&mut self, entry: u32, position: u32, found: u32) {
        let first = self.first_entry.last().copied().unwrap_or(0);
        self.fill_to(first + u64::from(entry) + 1);
        self.position.push(position);
        self.found.push(found);
    }

    /// Ends a batch.
    pub fn end_batch(&mut self) {
        self.first_entry.push(self.node.len() as u64);
        self.fill_to(self.node.len() as u64 + 1);
    }

    /// Gives all entries before `count` a first draw.
    fn fill_to(&mut self, count: u64) {
        let draws = self.position.len() as u64;
        while (self.first_draw.len() as u64) < count {
            self.first_draw.push(draws);
        }
    }

    /// How many batches there are.
    pub fn batches(&self) -> usize {
        self.first_entry.len().saturating_sub(1)
    }

    /// The entries of a batch.
    pub fn entries_of(&self, batch: usize) -> std::ops::Range<usize> {
        self.first_entry[batch] as usize..self.first_entry[batch + 1] as usize
    }

    /// (position, found entry) of each draw of an entry of a batch.
    pub fn draws_of(&self, batch: usize, entry: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let at = self.first_entry[batch] as usize + entry as usize;
        let range = self.first_draw[at] as usize..self.first_draw[at + 1] as usize;
        range.map(|draw| (self.position[draw], self.found[draw]))
    }

    /// Checks that all columns fit together.
    pub fn check(&self) -> Result<(), TraceError> {
        let entries = self.node.len();
        let error = |what, entry| Err(TraceError::new(what, entry));
        if self.degree.len() != entries || self.hop.len() != entries {
            return error("the columns of the entries differ in length", entries);
        }
        if self.position.len() != self.found.len() {
            return error("the columns of the draws differ in length", entries);
        }
        let ends = self.first_entry.last().copied().unwrap_or(0) == entries as u64;
        let ascends = self.first_entry.is_sorted_by(|a, b| a < b);
        if !ends || !ascends || self.first_entry.first().unwrap_or(&0) != &0 {
            return error("the batches do not cover all entries", entries);
        }
        let draws = self.position.len() as u64;
        let whole = if entries == 0 { 0 } else { entries + 1 };
        if self.first_draw.len() != whole
            || !self.first_draw.is_sorted()
            || self.first_draw.last().copied().unwrap_or(0) != draws
            || self.first_draw.first().copied().unwrap_or(0) != 0
        {
            return error("the entries do not cover all draws", entries);
        }
        for batch in 0..self.batches() {
            self.check_batch(batch)?;
        }
        let Some(places) = &self.places else { return Ok(()) };
        match self.node.iter().position(|node| places.find(*node).is_none()) {
            Some(at) => error("a node has no place", at),
            None => places.check(),
        }
    }

    /// Whether a batch was drawn hop by hop, from targets on.
    fn check_batch(&self, batch: usize) -> Result<(), TraceError> {
        let range = self.entries_of(batch);
        let hops = &self.hop[range.clone()];
        let error = |what, entry: usize| Err(TraceError::new(what, range.start + entry));
        if hops[0] != 0 {
            return error("a batch has no target", 0);
        }
        if let Some(at) = hops.windows(2).position(|pair| pair[0] > pair[1]) {
            return error("the hops are not ascending", at + 1);
        }
        let mut is_found: Vec<bool> = hops.iter().map(|&hop| hop == 0).collect();
        for entry in 0..range.len() {
            for (position, found) in self.draws_of(batch, entry as u32) {
                if position >= self.degree[range.start + entry] {
                    return error("a draw has a position past the end of its list", entry);
                }
                let found = found as usize;
                if found >= range.len() {
                    return error("a draw leads to a node that is not in its batch", entry);
                }
                let farthest = u16::from(hops[entry]) + 1;
                if u16::from(hops[found]) > farthest {
                    return error("a draw leads to a node more than one hop away", entry);
                }
                is_found[found] |= u16::from(hops[found]) == farthest;
            }
        }
        match is_found.iter().position(|found| !found) {
            Some(entry) => error("no draw of the previous hop leads to a node", entry),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two batches, the first with a node that is found twice and one that is never drawn from.
    fn trace() -> Trace {
        let mut trace = Trace::default();
        trace.begin_batch();
        let (one, two) = (trace.visit(10, 3, 0), trace.visit(11, 0, 0));
        let child = trace.visit(12, 9, 1);
        trace.draw(one, 0, child);
        trace.draw(one, 2, two);
        trace.draw(child, 8, child);
        trace.end_batch();
        trace.begin_batch();
        let seed = trace.visit(20, 1, 0);
        trace.draw(seed, 0, seed);
        trace.end_batch();
        trace
    }

    #[test]
    fn draws_are_those_of_their_entry() {
        let trace = trace();
        assert_eq!(trace.check(), Ok(()));
        let draws = |batch, entry| trace.draws_of(batch, entry).collect::<Vec<_>>();
        assert_eq!(draws(0, 0), [(0, 2), (2, 1)]);
        assert_eq!(draws(0, 1), []);
        assert_eq!(draws(0, 2), [(8, 2)]);
        assert_eq!(draws(1, 0), [(0, 0)]);
        assert_eq!(trace.entries_of(1), 3..4);
    }

    #[test]
    fn a_damaged_trace_is_refused() {
        let broken = |change: fn(&mut Trace)| {
            let mut trace = trace();
            change(&mut trace);
            trace.check().expect_err("damaged").what
        };
        assert!(broken(|t| t.position[0] = 3).contains("past the end"));
        assert!(broken(|t| t.found[3] = 1).contains("not in its batch"));
        assert!(broken(|t| t.position.truncate(2)).contains("differ in length"));
        assert!(broken(|t| t.first_draw.truncate(2)).contains("do not cover all draws"));
        assert!(broken(|t| t.first_entry[1] = 9).contains("do not cover all entries"));
        assert!(broken(|t| t.first_entry.insert(1, 3)).contains("do not cover all entries"));
        assert!(broken(|t| t.hop.truncate(1)).contains("differ in length"));
        assert!(broken(|t| t.hop[3] = 1).contains("no target"));
        assert!(broken(|t| t.hop[1] = 2).contains("not ascending"));
        assert!(broken(|t| t.hop[2] = 255).contains("more than one hop"));
        // Only by itself, as if it had been there before.
        assert!(broken(|t| t.found[0] = 0).contains("no draw of the previous hop"));
        assert!(broken(|t| t.places = Some(Arc::default())).contains("has no place"));
    }
}
