//! What destinations add to their reductions, such as `x W` beside the mean of their neighbours: it
//! is computed when their rows come by in a scan, which saves reading them again.
//!
//! The invariant: accumulators take no more memory for it, and rows that a scan would not read
//! anyway are never read for it.

use std::collections::BTreeSet;

use ng_infer::dfg::{Binary, Node, Op, Reduction, Value};

use super::error::LayerwiseError;
use super::part::{Part, PartMaker};
use super::passes::{How, Planner, Reduced, maker};

impl Planner<'_> {
    /// What computes what destinations add to reductions of a scan, from rows that it reads anyway;
    /// these reductions then stand for the sums.
    pub fn added_part(
        &self,
        stage: u32,
        reads: &BTreeSet<Value>,
        reductions: &mut [Reduced],
    ) -> Result<Part, LayerwiseError> {
        let is_there = |value: Value| self.is_there(stage, value);
        let mut maker = PartMaker::new(self.graph, self.levels, &is_there);
        let mut count = 0;
        for reduced in reductions {
            let Some((sum, terms)) = self.sum_of(stage, reads, reduced) else { continue };
            maker.sum(&format!("{} own", self.graph.name(sum)), &terms)?;
            (reduced.value, reduced.added) = (sum, Some(count));
            count += 1;
        }
        Ok(maker.finish())
    }

    /// The sum of a reduction and rows of its destinations that are made of `reads`, and these
    /// terms.
    fn sum_of(
        &self,
        stage: u32,
        reads: &BTreeSet<Value>,
        reduced: &Reduced,
    ) -> Option<(Value, Vec<Value>)> {
        let is_linear = matches!(reduced.how, How::Reduce(Reduction::Sum | Reduction::Mean));
        if !is_linear || reduced.places != 1 || reduced.index.is_some() {
            return None;
        }
        let (mut sum, mut terms) = (reduced.value, Vec::new());
        loop {
            let mut takers = self.takers(sum);
            let (taker, other) = (takers.next()?, takers.next());
            if other.is_some() || self.stored.contains(&sum) || taker.op != Op::Binary(Binary::Add)
            {
                return None;
            }
            let term = *taker.inputs.iter().find(|value| **value != sum)?;
            let next = taker.outputs[0];
            if self.levels.type_of(next).shape != self.levels.type_of(sum).shape {
                return None;
            }
            sum = next;
            terms.push(term);
            if !self.is_constant(term) {
                let is_same = self.levels.type_of(term) == self.levels.type_of(sum);
                let mut found = false;
                let is_read = self.is_made_of(stage, term, reads, &mut found);
                terms.reverse();
                return (is_same && is_read && found).then_some((sum, terms));
            }
        }
    }

    /// The nodes that take a value, once for each time.
    fn takers(&self, value: Value) -> impl Iterator<Item = &Node> {
        let nodes = self.graph.nodes().iter();
        let needed = nodes.filter(|node| self.needed.contains(&node.outputs[0]));
        needed.flat_map(move |node| {
            node.inputs.iter().filter(move |input| **input == value).map(move |_| node)
        })
    }

    /// Whether rows are computed from rows of `reads` alone; `found` is whether from any.
    fn is_made_of(
        &self,
        stage: u32,
        value: Value,
        reads: &BTreeSet<Value>,
        found: &mut bool,
    ) -> bool {
        if self.is_constant(value) {
            return true;
        }
        if self.is_there(stage, value) {
            *found = true;
            return reads.contains(&value);
        }
        let Some((node, _)) = maker(self.graph, value) else { return false };
        self.rows_of_nodes(value).is_some_and(|rows| rows.is_plain())
            && !self.is_reduction(value)
            && node.inputs.iter().all(|input| self.is_made_of(stage, *input, reads, found))
    }
}
