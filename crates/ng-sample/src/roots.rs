//! Seeds that are drawn: the nodes that subgraphs of GraphSAINT grow from (Zeng et al., ICLR 2020,
//! section 3.3).
//!
//! What must not live here: what grows from them. The invariant: what is drawn depends on the batch
//! and the version of the store.

use std::collections::HashSet;

use ng_store::Expansion;
use ng_types::canary::planted;
use ng_types::{DrawKey, EdgeTypeId, NodeId, Purpose};

use crate::admission::Admit;
use crate::{EdgePlaces, Roots, RootsOf, SampleError, Sampler};

/// Draws for each edge that is wanted, before it is given up that there are enough.
const TRIES_MAX: u64 = 64;

impl Sampler {
    /// The nodes that the batch of a key grows from; some may be there more than once.
    pub(crate) fn draw_roots(
        &self,
        roots: &Roots,
        key: DrawKey,
        admit: &Admit<'_>,
    ) -> Result<Vec<NodeId>, SampleError> {
        let key = key.apart(Purpose::Roots);
        let draws = |number: u64| key.draws(EdgeTypeId(0), number);
        match roots.how {
            RootsOf::Nodes if roots.live.1 == 0 => Ok(Vec::new()),
            RootsOf::Nodes => {
                let places = (0..roots.count).map(|number| draws(number).below(0, roots.live.1));
                Ok(roots.live.0.nodes(places.collect()))
            }
            RootsOf::Degrees => {
                let places = roots.places.as_ref();
                let places = places.ok_or_else(|| SampleError::Spec("no places".into()))?;
                let edges = (0..roots.count).map(|n| draws(n).below(0, places.num_edges()));
                self.sources_of(roots.edge_type, places, &edges.collect::<Vec<_>>(), admit)
            }
            RootsOf::Edges => self.draw_ends(roots, key),
        }
    }

    fn sources_of(
        &self,
        edge_type: EdgeTypeId,
        places: &EdgePlaces,
        numbers: &[u64],
        admit: &Admit<'_>,
    ) -> Result<Vec<NodeId>, SampleError> {
        let (nodes, positions) = places.find(self.snapshot(), numbers, admit)?;
        let mut found = Expansion::default();
        let mut one = |at: usize, _: u64, to: &mut Vec<u64>| to.push(positions[at]);
        self.snapshot().expand(edge_type, &nodes, &mut one, &mut found)?;
        Ok(found.sources)
    }

    /// Both ends of edges. A node is drawn among those that have edges at all, and then one of its
    /// in-edges or out-edges: that is half of the wanted chance each. An edge that came before does
    /// not count, so that the others keep their chances to each other.
    fn draw_ends(&self, roots: &Roots, key: DrawKey) -> Result<Vec<NodeId>, SampleError> {
        let out = roots.out_lists(self.snapshot().catalog())?;
        let (mut seen, mut ends, mut drawn, mut taken) = (HashSet::new(), Vec::new(), 0, 0);
        while taken < roots.count {
            if drawn >= roots.count.saturating_mul(TRIES_MAX) {
                return Err(SampleError::Spec(format!(
                    "a batch cannot have {} edges: {drawn} draws found only {taken} different \
                     edges",
                    roots.count
                )));
            }
            let numbers: Vec<u64> = (drawn..drawn + roots.count).collect();
            drawn += roots.count;
            let edges = self.draw_edges(roots, (key, out), &numbers)?;
            for edge in edges {
                let is_new = seen.insert(edge) || planted("edges_are_drawn_twice");
                if taken < roots.count && is_new {
                    ends.extend(edge);
                    taken += 1;
                }
            }
        }
        Ok(ends)
    }

    /// The edge of each draw with these numbers, as source and destination; none where the node has
    /// no such edge.
    fn draw_edges(
        &self,
        roots: &Roots,
        (key, out): (DrawKey, EdgeTypeId),
        numbers: &[u64],
    ) -> Result<Vec<[NodeId; 2]>, SampleError> {
        let draws = |number: u64| key.draws(EdgeTypeId(1), number);
        let is_out = |number: u64| draws(number).below(2, 2) == 1;
        let mut edges = vec![None; numbers.len()];
        for (edge_type, side) in [(roots.edge_type, false), (out, true)] {
            let of_side: Vec<usize> =
                (0..numbers.len()).filter(|at| is_out(numbers[*at]) == side).collect();
            let node = |at: &usize| roots.live_node(draws(numbers[*at]).below(0, roots.live.1));
            let nodes: Vec<NodeId> = of_side.iter().filter_map(node).collect();
            let found = self.step(edge_type, &nodes, |place, degree| {
                draws(numbers[of_side[place]]).below(1, degree)
            })?;
            for ((at, node), other) in of_side.iter().zip(&nodes).zip(found) {
                let turned = |other| if side { [*node, other] } else { [other, *node] };
                edges[*at] = other.map(turned);
            }
        }
        Ok(edges.into_iter().flatten().collect())
    }
}
