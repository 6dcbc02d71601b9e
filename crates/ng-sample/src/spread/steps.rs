//! Steps of many walkers at once: each reads one entry of the list where it stands.
//!
//! What must not live here: where walks begin and end. The invariant: a step depends on the batch,
//! the walker and the number of the step, not on other walkers.

use std::collections::HashSet;

use ng_store::Expansion;
use ng_types::canary::planted;
use ng_types::{DrawKey, Draws, EdgeTypeId, NodeId};

use crate::admission::Admit;
use crate::draw::{Around, ByEntry, Rule};
use crate::hops::Wanted;
use crate::{SampleError, Sampler};

/// How a walk turns (Grover and Leskovec, KDD 2016): the weight of going back is 1 / p, of going to
/// a neighbour of where it came from 1, and elsewhere 1 / q.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bias {
    pub p: f64,
    pub q: f64,
}

/// Draws that are tried for a step before it is taken for impossible.
const TRIES_MAX: u32 = 10_000;

/// The draws of a walker for one step.
pub(super) fn draws(key: DrawKey, step: u32, walker: usize) -> Draws {
    key.draws(EdgeTypeId(step as u16), walker as u64)
}

impl Sampler {
    /// One entry of the list of each node, at a position that `pick` chooses by place and length;
    /// `None` of an empty list.
    pub(crate) fn step(
        &self,
        edge_type: EdgeTypeId,
        nodes: &[NodeId],
        mut pick: impl FnMut(usize, u64) -> u64,
    ) -> Result<Vec<Option<NodeId>>, SampleError> {
        if let Some(topology) = &self.resident[usize::from(edge_type.0)] {
            let (offsets, sources) = (topology.offsets(), topology.sources());
            let entry = |(at, node): (usize, &NodeId)| {
                let start = offsets.get(*node as usize);
                let degree = offsets.get(*node as usize + 1) - start;
                (degree > 0).then(|| sources.get((start + pick(at, degree)) as usize))
            };
            return Ok(nodes.iter().enumerate().map(entry).collect());
        }
        let mut found = Expansion::default();
        let mut draw = |at: usize, degree: u64, positions: &mut Vec<u64>| {
            if degree > 0 {
                positions.push(pick(at, degree));
            }
        };
        self.snapshot().expand(edge_type, nodes, &mut draw, &mut found)?;
        let entry = |ends: &[usize]| found.sources[ends[0]..ends[1]].first().copied();
        Ok(found.offsets.windows(2).map(entry).collect())
    }

    /// A step of each walker that stands at `at` and came from `before`, by rejection: a neighbour
    /// is drawn, and taken with its weight over the largest one. `None` at an empty list.
    pub(super) fn biased_step(
        &self,
        edge_type: EdgeTypeId,
        (at, before): (&[NodeId], &[NodeId]),
        (key, step, bias): (DrawKey, u32, Bias),
        admit: &Admit<'_>,
    ) -> Result<Vec<Option<NodeId>>, SampleError> {
        let [back, near, far] = [1.0 / bias.p, 1.0, 1.0 / bias.q];
        let largest = back.max(near).max(far);
        let mut next = vec![None; at.len()];
        let mut open: Vec<usize> = (0..at.len()).collect();
        for attempt in 0..TRIES_MAX {
            let nodes: Vec<NodeId> = open.iter().map(|walker| at[*walker]).collect();
            let drawn = self.step(edge_type, &nodes, |place, degree| {
                draws(key, step, open[place]).below(2 * attempt, degree)
            })?;
            let number = |walker: usize| {
                let bits = draws(key, step, walker).bits(2 * attempt + 1);
                (bits >> 11) as f64 * 2_f64.powi(-53) * largest
            };
            // Whether it is near counts only for numbers between the two weights.
            let unsure = |(walker, found): &(usize, NodeId)| {
                let number = number(*walker);
                *found != before[*walker] && (number < near) != (number < far)
            };
            let drawn = open.iter().copied().zip(drawn);
            let proposed: Vec<(usize, NodeId)> =
                drawn.filter_map(|(walker, found)| Some((walker, found?))).collect();
            let asked: Vec<(NodeId, NodeId)> = proposed
                .iter()
                .filter(|pair| unsure(pair))
                .map(|(walker, found)| (before[*walker], *found))
                .collect();
            let asked = if planted("walks_forget_where_they_were") { Vec::new() } else { asked };
            let known = self.neighbours(edge_type, &asked, admit)?;
            open = Vec::new();
            for (walker, found) in proposed {
                let from = before[walker];
                let weight = if found == from {
                    back
                } else if (near > far) == known.contains(&(from, found)) || near == far {
                    near.max(far)
                } else {
                    near.min(far)
                };
                // Where it was not asked, both weights give the same answer.
                if number(walker) < weight {
                    next[walker] = Some(found);
                } else {
                    open.push(walker);
                }
            }
            if open.is_empty() {
                return Ok(next);
            }
        }
        Err(SampleError::Spec(format!(
            "a walk found no next node in {TRIES_MAX} draws; choose p and q closer to each other"
        )))
    }

    /// Those of the pairs whose second node is in the list of the first.
    fn neighbours(
        &self,
        edge_type: EdgeTypeId,
        pairs: &[(NodeId, NodeId)],
        admit: &Admit<'_>,
    ) -> Result<HashSet<(NodeId, NodeId)>, SampleError> {
        let wanted: HashSet<(NodeId, NodeId)> = pairs.iter().copied().collect();
        let mut nodes: Vec<NodeId> = pairs.iter().map(|(node, _)| *node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let is_wanted = &|list: usize, source, _| wanted.contains(&(nodes[list], source));
        let around = Around { is_wanted, ..Around::nothing("") };
        let edge_type = usize::from(edge_type.0);
        let lists = Wanted { edge_type, nodes: &nodes, until: None };
        let found = self.read_lists(lists, (Rule::Entries(ByEntry::Among), around), None, admit)?;
        let of_list = |(node, ends): (&NodeId, &[usize])| {
            let sources = found.sources[ends[0]..ends[1]].iter();
            let node = *node;
            sources.map(move |source| (node, *source)).collect::<Vec<_>>()
        };
        Ok(nodes.iter().zip(found.offsets.windows(2)).flat_map(of_list).collect())
    }
}
