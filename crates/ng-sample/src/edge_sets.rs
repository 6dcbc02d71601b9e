//! Edges turned round: for each edge of a sample the one in the other direction.
//!
//! What must not live here: lists of a store. The invariant: edges of a type are in the order of
//! their destinations and then of their sources, and none is there twice.

use ng_store::{Catalog, EdgeTypeMeta};
use ng_types::EdgeTypeId;

use crate::Ids;
use crate::compact::{CompactEdges, CompactSample};

/// An edge: both ends, and which edge of which part it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    destination: u32,
    source: u32,
    /// 0 for an edge as it was drawn, 1 for one that was turned round.
    part: u8,
    at: u32,
}

/// Adds to each edge type the edges of the type that `others` names for it, turned round. Times and
/// weights stay where both types keep them.
pub(crate) fn both_ways(
    sample: &mut CompactSample,
    others: &[Option<EdgeTypeId>],
    catalog: &Catalog,
) {
    let drawn = sample.edges.clone();
    for (at, (own, edges)) in drawn.iter().zip(sample.edges.iter_mut()).enumerate() {
        let Some(id) = others.get(at).copied().flatten() else { continue };
        let Some(other) = drawn.get(usize::from(id.0)) else { continue };
        let metas = [&catalog.edge_types[at], &catalog.edge_types[usize::from(id.0)]];
        let mut all: Vec<Edge> = ends(own).map(|(s, d, at)| edge((s, d), 0, at)).collect();
        all.extend(ends(other).map(|(s, d, at)| edge((d, s), 1, at)));
        all.sort_unstable();
        all.dedup_by_key(|edge| (edge.destination, edge.source));
        *edges = columns(&all, [own, other], metas);
    }
}

fn edge((source, destination): (u32, u32), part: u8, at: u32) -> Edge {
    Edge { destination, source, part, at }
}

/// Source, destination and place of each edge.
fn ends(edges: &CompactEdges) -> impl Iterator<Item = (u32, u32, u32)> {
    let destinations = (0..).zip(&edges.counts);
    let destinations =
        destinations.flat_map(|(to, count)| std::iter::repeat_n(to, *count as usize));
    edges.rows.iter().zip(destinations).zip(0..).map(|((from, to), at)| (*from, to, at))
}

/// The columns of edges, from those that they come from. Ids of an edge type say nothing of edges
/// of another one.
fn columns(all: &[Edge], parts: [&CompactEdges; 2], metas: [&EdgeTypeMeta; 2]) -> CompactEdges {
    let last = all.last().map_or(0, |edge| edge.destination as usize + 1);
    let mut counts = vec![0; last];
    all.iter().for_each(|edge| counts[edge.destination as usize] += 1);
    let of = |edge: &Edge| (parts[usize::from(edge.part)], edge.at as usize);
    let is_one_type = std::ptr::eq(metas[0], metas[1]);
    let edge_ids = match (&parts[0].edge_ids, is_one_type) {
        (_, false) => Ids::default(),
        (Ids::Narrow(ids), true) if !ids.is_empty() => {
            Ids::Narrow(all.iter().map(|edge| ids[edge.at as usize]).collect())
        }
        (Ids::Wide(ids), true) if !ids.is_empty() => {
            Ids::Wide(all.iter().map(|edge| ids[edge.at as usize]).collect())
        }
        _ => Ids::default(),
    };
    let (mut times, mut weights) = (Vec::new(), Vec::new());
    if metas.iter().all(|meta| meta.has_time) {
        times = all.iter().map(|edge| of(edge).0.times[of(edge).1]).collect();
    }
    if metas.iter().all(|meta| meta.has_weight) {
        weights = all.iter().map(|edge| of(edge).0.weights[of(edge).1]).collect();
    }
    CompactEdges {
        rows: all.iter().map(|edge| edge.source).collect(),
        counts,
        edge_ids,
        times,
        weights,
        per_hop: vec![all.len()],
    }
}
