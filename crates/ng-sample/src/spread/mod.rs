//! Batches that grow otherwise than by hops of neighbours: walks, nodes that walks visit, and
//! budgets of nodes by type.
//!
//! What lives here: the nodes that each of them collects. What must not: where lists are, edges
//! between the nodes. The invariant: draws are keyed by the batch and by
//! what draws, so that nothing depends on where lists come from.

mod budget;
mod steps;
mod visits;
mod walks;

use ng_store::Catalog;
use ng_types::NodeId;

pub(crate) use self::visits::Visited;
pub use self::walks::WalksOf;
use crate::Ids;
use crate::compact::CompactNodes;
use crate::node_map::NodeMap;

/// Nodes by type while a batch grows, each once.
pub(crate) struct Collected {
    nodes: Vec<NodeMap<u64>>,
    per_hop: Vec<Vec<usize>>,
}

impl Collected {
    pub fn new(node_types: usize) -> Self {
        let mut nodes = Vec::new();
        nodes.resize_with(node_types, NodeMap::default);
        Self { nodes, per_hop: vec![Vec::new(); node_types] }
    }

    /// The number of a node, the next one if it is new.
    pub fn number(&mut self, node_type: usize, id: NodeId) -> u32 {
        self.nodes[node_type].number(id)
    }

    /// A seed, which keeps a place of its own if it is there already.
    pub fn push_seed(&mut self, node_type: usize, id: NodeId) {
        self.nodes[node_type].push_seed(id);
    }

    /// Whether a node is among them.
    pub fn has(&self, node_type: usize, id: NodeId) -> bool {
        self.nodes[node_type].find(id).is_some()
    }

    /// The nodes of a type that the last hop added.
    pub fn newest(&self, node_type: usize) -> &[NodeId] {
        let ids = self.nodes[node_type].ids();
        &ids[ids.len() - self.per_hop[node_type].last().copied().unwrap_or(0)..]
    }

    /// All nodes of a type.
    pub fn ids(&self, node_type: usize) -> &[NodeId] {
        self.nodes[node_type].ids()
    }

    /// What came since the last one was a hop.
    pub fn end_hop(&mut self) {
        for (map, per_hop) in self.nodes.iter().zip(&mut self.per_hop) {
            per_hop.push(map.len() - per_hop.iter().sum::<usize>());
        }
    }

    /// Bytes of all of them, and of the same as a part of a sample.
    pub fn num_bytes(&self) -> u64 {
        self.nodes.iter().map(|map| map.num_bytes() + 8 * map.len() as u64).sum()
    }

    /// The nodes of a sample.
    pub fn into_nodes(self, catalog: &Catalog) -> Vec<CompactNodes> {
        let nodes = self.nodes.iter().zip(self.per_hop).zip(&catalog.node_types);
        nodes
            .map(|((map, per_hop), meta)| CompactNodes {
                ids: Ids::below(meta.num_nodes, map.ids()),
                per_hop,
            })
            .collect()
    }
}
