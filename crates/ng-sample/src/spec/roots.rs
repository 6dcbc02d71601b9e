//! Nodes that are drawn for each batch, as GraphSAINT has them (Zeng et al., ICLR 2020,
//! section 3.3).

use std::sync::Arc;

use ng_store::{Catalog, Snapshot};
use ng_types::{EdgeTypeId, NodeId, NodeTypeId};

use crate::{EdgePlaces, Inputs, SampleError};

/// Nodes that are drawn for each batch.
#[derive(Clone, Debug)]
pub struct Roots {
    pub(crate) how: RootsOf,
    pub(crate) count: u64,
    pub(crate) edge_type: EdgeTypeId,
    /// The type of the nodes.
    node_type: NodeTypeId,
    /// Where edges are by their number.
    pub(crate) places: Option<Arc<EdgePlaces>>,
    /// All live nodes, and how many there are.
    pub(crate) live: (Arc<Inputs>, u64),
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
            return refuse(
                "seeds can be drawn only with an edge type that joins a node type with itself",
            );
        };
        if count == 0 {
            return refuse("a batch needs at least 1 draw");
        }
        if meta.num_edges == 0 && how != RootsOf::Nodes {
            return refuse("the store has no edges to draw from");
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
    pub(crate) fn out_lists(&self, catalog: &Catalog) -> Result<EdgeTypeId, SampleError> {
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

    pub(crate) fn live_node(&self, place: u64) -> Option<NodeId> {
        self.live.0.nodes(vec![place]).first().copied()
    }
}
