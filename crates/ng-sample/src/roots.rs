//! Seeds that are drawn: the nodes that subgraphs of GraphSAINT grow from (Zeng et al., ICLR 2020,
//! section 3.3).
//!
//! What must not live here: what grows from them. The invariant: what is drawn depends on the batch
//! and the version of the store.

use std::collections::HashSet;
use std::sync::Arc;

use ng_store::{Catalog, Expansion, Snapshot};
use ng_types::canary::planted;
use ng_types::{DrawKey, EdgeTypeId, NodeId, NodeTypeId, Purpose};

use crate::{EdgePlaces, Inputs, SampleError, Sampler};

/// Draws for each edge that is wanted, before it is given up that there are enough.
const TRIES_MAX: u64 = 64;

/// Nodes that are drawn for each batch.
#[derive(Clone, Debug)]
pub struct Roots {
    how: RootsOf,
    count: u64,
    edge_type: EdgeTypeId,
    /// The type of the nodes.
    node_type: NodeTypeId,
    /// Where edges are by their number.
    places: Option<Arc<EdgePlaces>>,
    /// All live nodes, and how many there are.
    live: (Arc<Inputs>, u64),
}

/// How nodes are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootsOf {
    /// Each with the same chance, with replacement.
    Nodes,
    /// By the number of edges that come from a node, with replacement.
    Degrees,
    /// Both ends of edges, which are drawn without replacement by 1 / (in-degree of the
    /// destination) + 1 / (out-degree of the source).
    Edges,
}

impl PartialEq for Roots {
    fn eq(&self, other: &Self) -> bool {
        (self.how, self.count, self.edge_type) == (other.how, other.count, other.edge_type)
    }
}

impl Roots {
    /// `count` draws for each batch, over an edge type that joins a node type with itself.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if the store does not have what is drawn by; those of reading the
    /// deleted nodes and the degrees.
    pub fn new(
        snapshot: &Snapshot,
        how: RootsOf,
        count: u64,
        edge_type: EdgeTypeId,
    ) -> Result<Self, SampleError> {
        let refuse = |what: &str| Err(SampleError::Spec(what.into()));
        let meta = snapshot.catalog().edge_types.get(usize::from(edge_type.0));
        let Some(meta) = meta.filter(|meta| meta.source == meta.destination) else {
            return refuse("subgraphs grow over an edge type that joins a node type with itself");
        };
        if count == 0 {
            return refuse("a batch has at least 1 draw");
        }
        if meta.num_edges == 0 && how != RootsOf::Nodes {
            return refuse("the store has no edges to draw");
        }
        let node_type = meta.source;
        let dead = snapshot.dead_nodes(node_type)?;
        let num_live = snapshot.catalog().node_types[usize::from(node_type.0)].num_nodes_live;
        let live = (Arc::new(Inputs::live(node_type, &dead)), num_live);
        let places = (how == RootsOf::Degrees)
            .then(|| EdgePlaces::new(snapshot, edge_type).map(Arc::new))
            .transpose()?;
        let roots = Self { how, count, edge_type, node_type, places, live };
        roots.out_lists(snapshot.catalog())?;
        Ok(roots)
    }

    /// The edge type whose lists hold the destinations of each source.
    fn out_lists(&self, catalog: &Catalog) -> Result<EdgeTypeId, SampleError> {
        let meta = &catalog.edge_types[usize::from(self.edge_type.0)];
        match meta.reverse {
            _ if meta.undirected || self.how != RootsOf::Edges => Ok(self.edge_type),
            Some(reverse) => Ok(reverse),
            None => Err(SampleError::NoReverse { relation: meta.relation.clone() }),
        }
    }

    /// Whether lists of an edge type are read.
    pub(crate) fn reads(&self, edge_type: EdgeTypeId, catalog: &Catalog) -> bool {
        edge_type == self.edge_type || self.out_lists(catalog).is_ok_and(|out| out == edge_type)
    }

    /// The type of the nodes that are drawn.
    pub(crate) fn node_type(&self) -> NodeTypeId {
        self.node_type
    }

    fn live_node(&self, place: u64) -> Option<NodeId> {
        self.live.0.nodes(vec![place]).first().copied()
    }
}

impl Sampler {
    /// The nodes that the batch of a key grows from; some may be there more than once.
    pub(crate) fn draw_roots(
        &self,
        roots: &Roots,
        key: DrawKey,
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
                self.sources_of(roots.edge_type, places, &edges.collect::<Vec<_>>())
            }
            RootsOf::Edges => self.draw_ends(roots, key),
        }
    }

    fn sources_of(
        &self,
        edge_type: EdgeTypeId,
        places: &EdgePlaces,
        numbers: &[u64],
    ) -> Result<Vec<NodeId>, SampleError> {
        let (nodes, positions) = places.find(self.snapshot(), numbers)?;
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
                    "{} edges of a batch are too many: {drawn} draws found {taken} of them",
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
