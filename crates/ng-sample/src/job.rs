//! What one batch is asked for: its seeds and its random stream.
//!
//! What must not live here: which seeds stand in which batch, and what a batch has. The invariant:
//! a job holds all that a batch depends on beside its sampler.

use ng_types::{NodeId, NodeTypeId};

/// One batch to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The seeds.
    pub seeds: Seeds,
    /// The number that, with the seed of the sampler, determines its draws.
    pub stream: u64,
    /// The place of its first seed in the global batch, of which each rank makes a part.
    pub first: u64,
}

/// The seeds of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// Nodes of one type.
    Nodes {
        /// The type of all of them.
        node_type: NodeTypeId,
        /// The seeds, in their order.
        ids: Vec<NodeId>,
        /// The time of each; empty where they have none, or their nodes have.
        times: Vec<i64>,
    },
    /// Links of the edge type that the sampler scores.
    Links {
        /// Where each comes from.
        sources: Vec<NodeId>,
        /// Where each leads.
        destinations: Vec<NodeId>,
        /// The time of each; empty where they have none.
        times: Vec<i64>,
    },
    /// Edges of that type, which are links themselves.
    Edges {
        /// The number of each: how many edges of lists before its own, and before it in that,
        /// there are.
        numbers: Vec<u64>,
        /// The time of each; empty where they have none, or the edges have.
        times: Vec<i64>,
    },
    /// Nodes that the sampler draws.
    Drawn,
}

impl Job {
    /// A batch around nodes without times.
    pub fn of_nodes(node_type: NodeTypeId, ids: Vec<NodeId>, stream: u64) -> Self {
        Self { seeds: Seeds::Nodes { node_type, ids, times: Vec::new() }, stream, first: 0 }
    }

    /// How many seeds it has.
    pub fn num_seeds(&self) -> usize {
        match &self.seeds {
            Seeds::Nodes { ids, .. } => ids.len(),
            Seeds::Links { sources, .. } => sources.len(),
            Seeds::Edges { numbers, .. } => numbers.len(),
            Seeds::Drawn => 0,
        }
    }

    /// Its seeds, if these are nodes.
    pub fn nodes(&self) -> Option<&[NodeId]> {
        match &self.seeds {
            Seeds::Nodes { ids, .. } => Some(ids),
            Seeds::Links { .. } | Seeds::Edges { .. } | Seeds::Drawn => None,
        }
    }
}
