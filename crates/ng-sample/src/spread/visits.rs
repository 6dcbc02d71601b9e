//! Neighbours by importance (Ying et al., KDD 2018): the nodes that short walks with restart visit
//! most often.

use ng_types::canary::planted;
use ng_types::{DrawKey, Draws, EdgeTypeId, NodeId, NodeTypeId, Purpose};

use super::Collected;
use super::steps::draws;
use crate::admission::{Admit, Growing};
use crate::compact::CompactEdges;
use crate::{HeldOut, SampleError, Sampler, Visits};

/// Memory for a visit that is counted.
const BYTES_PER_VISIT: u64 = 32;
/// Memory for a walker, as of a walk.
const BYTES_PER_WALKER: u64 = 160;
/// Draws of an edge that is not held out before a walker takes its node for one without edges.
const TRIES_MAX: u32 = 64;

/// Nodes, and the visits between them as edges with their shares as weights.
pub(crate) struct Visited {
    pub collected: Collected,
    pub edges: CompactEdges,
}

impl Sampler {
    /// Hops of neighbours by importance from seeds of one type.
    pub(crate) fn collect_visits(
        &self,
        visits: &Visits,
        (node_type, seeds): (NodeTypeId, &[NodeId]),
        (key, first_seed): (DrawKey, u64),
        admit: &Admit<'_>,
    ) -> Result<Visited, SampleError> {
        let catalog = self.snapshot().catalog();
        let own = usize::from(node_type.0);
        self.snapshot().check_nodes(node_type, seeds)?;
        let mut collected = Collected::new(catalog.node_types.len());
        for seed in seeds {
            collected.push_seed(own, *seed);
        }
        collected.end_hop();
        let (mut edges, mut held) = (CompactEdges::default(), Growing::default());
        let key = key.apart(Purpose::Walks);
        // Ranks number the walkers of their own seeds.
        let first_walker = first_seed as usize * visits.walks as usize;
        for (hop, kept) in visits.neighbors.iter().enumerate() {
            let frontier = collected.newest(own).to_vec();
            let first = collected.ids(own).len() - frontier.len();
            let drawn = (key, hop, first_walker);
            let visited = self.count_visits(visits, &frontier, drawn, &mut held, admit)?;
            for counts in visited.chunk_by(|a, b| a.0 == b.0) {
                let most = most_visited(counts, *kept);
                let sum: u32 = most.iter().map(|(count, _)| *count).sum();
                for (count, node) in &most {
                    edges.rows.push(collected.number(own, *node));
                    edges.weights.push(*count as f32 / sum as f32);
                }
                let start = first + counts[0].0;
                edges.counts.resize(start + 1, 0);
                edges.counts[start] = most.len() as u32;
            }
            let before: usize = edges.per_hop.iter().sum();
            edges.per_hop.push(edges.rows.len() - before);
            collected.end_hop();
            edges.counts.resize(first + frontier.len(), 0);
        }
        Ok(Visited { collected, edges })
    }

    /// Which nodes the walks from `frontier` visit: (number of the start, node), in the order of
    /// both, once for each visit. A visit of the start itself does not count.
    fn count_visits(
        &self,
        visits: &Visits,
        frontier: &[NodeId],
        (key, hop, first_walker): (DrawKey, usize, usize),
        held: &mut Growing,
        admit: &Admit<'_>,
    ) -> Result<Vec<(usize, NodeId)>, SampleError> {
        let walkers = frontier.len() * visits.walks as usize;
        let most = walkers as u64 * u64::from(visits.length);
        held.grow(most * BYTES_PER_VISIT + walkers as u64 * BYTES_PER_WALKER, admit)?;
        let starts: Vec<NodeId> =
            frontier.iter().flat_map(|node| vec![*node; visits.walks as usize]).collect();
        let (mut stand, mut found) = (starts.clone(), Vec::with_capacity(most as usize));
        let path = visits.path.len() as u32;
        let first = hop as u32 * visits.length * path;
        for turn in 0..visits.length {
            let mut walkers: Vec<usize> = (0..stand.len()).collect();
            let mut at = stand;
            for (step, edge_type) in visits.path.iter().enumerate() {
                let number = first + turn * path + step as u32;
                let of_walker = |place: usize| draws(key, number, first_walker + walkers[place]);
                let next = self.step_on(*edge_type, &at, visits.held_out.as_ref(), of_walker)?;
                let mut goes_on = next.iter().map(Option::is_some);
                walkers.retain(|_| goes_on.next().unwrap_or(false));
                at = next.into_iter().flatten().collect();
            }
            // Who could not go on begins again at the start.
            stand = starts.clone();
            walkers.iter().zip(&at).for_each(|(walker, node)| stand[*walker] = *node);
            for (walker, (node, start)) in stand.iter_mut().zip(&starts).enumerate() {
                if node != start {
                    found.push((walker / visits.walks as usize, *node));
                }
                let bits = draws(key, first + turn * path, first_walker + walker).bits(1);
                if (bits >> 11) as f64 * 2_f64.powi(-53) < visits.restart {
                    *node = *start;
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// A uniform step of each walker along an edge that is not held out, by rejection; `None` where
    /// there is none.
    fn step_on(
        &self,
        edge_type: EdgeTypeId,
        at: &[NodeId],
        held_out: Option<&HeldOut>,
        draws: impl Fn(usize) -> Draws,
    ) -> Result<Vec<Option<NodeId>>, SampleError> {
        let mut next = self.step(edge_type, at, |place, degree| draws(place).below(0, degree))?;
        let Some(rule) = held_out.filter(|_| !planted("walks_take_held_out_edges")) else {
            return Ok(next);
        };
        let (mut open, mut attempt): (Vec<usize>, u32) = ((0..at.len()).collect(), 0);
        loop {
            open.retain(|place| next[*place].is_some_and(|source| rule.has(source, at[*place])));
            if open.is_empty() || attempt == TRIES_MAX {
                open.iter().for_each(|place| next[*place] = None);
                return Ok(next);
            }
            attempt += 1;
            let nodes: Vec<NodeId> = open.iter().map(|place| at[*place]).collect();
            let found = self.step(edge_type, &nodes, |place, degree| {
                draws(open[place]).below(2 * attempt, degree)
            })?;
            open.iter().zip(found).for_each(|(place, found)| next[*place] = found);
        }
    }
}

/// The most visited of the nodes, and how often each was: more visits first, then smaller ids.
fn most_visited(visits: &[(usize, NodeId)], kept: u32) -> Vec<(u32, NodeId)> {
    let counts = visits.chunk_by(|a, b| a.1 == b.1);
    let mut counts: Vec<(u32, NodeId)> =
        counts.map(|same| (same.len() as u32, same[0].1)).collect();
    counts.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    counts.truncate(kept as usize);
    counts
}
