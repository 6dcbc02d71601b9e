//! Draws from the entries whose source is not later than a time: nodes have times, so that a list
//! has to be looked at whole, whatever its order.
//!
//! Random draws are a partial Fisher-Yates over the entries that are left, in the order of the list
//! (as of a list that has no others), and the latest entries are the last ones by (time, position).

use ng_types::{DrawKey, Draws, EdgeTypeId, NodeId};

use super::piece::Piece;
use crate::SampleError;

/// Keys are kept up to this multiple of the fanout before the earliest are dropped.
const SPARE: usize = 2;

/// How the lists of one edge type are drawn from at one hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dated {
    pub key: DrawKey,
    pub edge_type: EdgeTypeId,
    /// `None` takes all that are left.
    pub fanout: Option<u32>,
    pub replace: bool,
    /// The latest ones are taken.
    pub takes_last: bool,
}

/// Reads the times of nodes.
pub(crate) type TimesOfNodes<'a> = dyn Fn(&[NodeId]) -> Result<Vec<i64>, SampleError> + 'a;

/// Up to when lists are drawn from, and the times of nodes.
#[derive(Clone, Copy)]
pub(crate) struct Dates<'a> {
    /// By list.
    pub untils: &'a [i64],
    /// The times of nodes of the sources' type.
    pub of_nodes: &'a TimesOfNodes<'a>,
}

/// A choice from one list after the other.
pub(super) struct Choice {
    rule: Dated,
    draws: Draws,
    degree: u32,
    /// Entries that this pass has looked at, and those of them that are left.
    seen: u32,
    left: u64,
    is_second_pass: bool,
    /// What is kept: the time or the number of the draw, and the position.
    picked: Vec<(i64, u32)>,
    /// Drawn among those that are left, with the number of the draw; the smallest last.
    targets: Vec<(u64, i64)>,
}

impl Choice {
    pub fn new(rule: Dated) -> Self {
        let draws = rule.key.draws(rule.edge_type, 0);
        let (picked, targets) = (Vec::new(), Vec::new());
        Self { rule, draws, degree: 0, seen: 0, left: 0, is_second_pass: false, picked, targets }
    }

    /// Random ones are drawn once it is known how many are left.
    pub fn passes(&self) -> usize {
        if self.rule.takes_last || self.rule.fanout.is_none() { 1 } else { 2 }
    }

    pub fn begin(&mut self, destination: NodeId, degree: u32) {
        self.draws = self.rule.key.draws(self.rule.edge_type, destination);
        (self.degree, self.seen, self.left, self.is_second_pass) = (degree, 0, 0, false);
        self.picked.clear();
        self.targets.clear();
    }

    pub fn look(
        &mut self,
        list: usize,
        dates: Option<Dates<'_>>,
        piece: Piece<'_>,
    ) -> Result<(), SampleError> {
        let count = piece.sources.len();
        let sources: Vec<NodeId> = (0..count).map(|at| piece.sources.get(at)).collect();
        let (until, times) = match dates {
            Some(dates) => (dates.untils[list], (dates.of_nodes)(&sources)?),
            None => (i64::MAX, vec![0; count]),
        };
        for (position, time) in (piece.first..).zip(times) {
            if time <= until {
                self.take(position, time);
                self.left += 1;
            }
        }
        self.seen += count as u32;
        if self.seen == self.degree && self.passes() == 2 && !self.is_second_pass {
            self.begin_second_pass();
        }
        Ok(())
    }

    /// Takes the next entry that is left.
    fn take(&mut self, position: u32, time: i64) {
        match (self.rule.fanout, self.rule.takes_last) {
            (None, false) => self.picked.push((i64::from(position), position)),
            (None, true) => self.picked.push((time, position)),
            (Some(fanout), true) => {
                self.picked.push((time, position));
                if self.picked.len() > SPARE * fanout as usize {
                    self.drop_earliest(fanout as usize);
                }
            }
            (Some(_), false) if self.is_second_pass => {
                let left = self.left;
                while let Some((_, draw)) = self.targets.pop_if(|(target, _)| *target == left) {
                    self.picked.push((draw, position));
                }
            }
            (Some(_), false) => {}
        }
    }

    fn drop_earliest(&mut self, kept: usize) {
        if let Some(first) = self.picked.len().checked_sub(kept)
            && first > 0
        {
            self.picked.select_nth_unstable(first);
            self.picked.drain(..first);
        }
    }

    fn begin_second_pass(&mut self) {
        let (left, fanout) = (self.left, self.rule.fanout.unwrap_or(0));
        let (targets, mut draw) = (&mut self.targets, 0);
        let mut emit = |target| {
            targets.push((target, draw));
            draw += 1;
        };
        if self.rule.replace {
            self.draws.with_replacement(left, fanout, &mut emit);
        } else {
            self.draws.without_replacement(left, fanout, &mut emit);
        }
        targets.sort_unstable_by(|a, b| b.cmp(a));
        (self.seen, self.left, self.is_second_pass) = (0, 0, true);
    }

    /// Positions that may be chosen, as far as the list has been looked at.
    pub fn candidates(&self) -> impl Iterator<Item = u32> {
        self.picked.iter().map(|(_, position)| *position)
    }

    /// Sets `chosen` to the positions in the order of the draws, or of their times.
    pub fn finish(&mut self, chosen: &mut Vec<u32>) {
        if let (Some(fanout), true) = (self.rule.fanout, self.rule.takes_last) {
            self.drop_earliest(fanout as usize);
        }
        self.picked.sort_unstable();
        chosen.clear();
        chosen.extend(self.candidates());
    }
}
