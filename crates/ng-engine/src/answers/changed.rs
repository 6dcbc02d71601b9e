//! [`ChangedNodes`]: what changed between two snapshots that answers can be made of.
//!
//! What must not live here: how that is found out (`between.rs`), or what follows from it.

use ng_types::NodeId;
use thiserror::Error;

/// Nodes that changed, by node type, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedNodes {
    /// Those whose lists changed.
    pub lists: Vec<Vec<NodeId>>,
    /// Those whose rows changed, or what else a model takes of them.
    pub rows: Vec<Vec<NodeId>>,
}

impl ChangedNodes {
    pub(crate) fn of(node_types: usize) -> Self {
        Self { lists: vec![Vec::new(); node_types], rows: vec![Vec::new(); node_types] }
    }

    /// How many lists and rows are named.
    pub fn len(&self) -> usize {
        self.lists.iter().chain(&self.rows).map(Vec::len).sum()
    }

    /// Whether nothing changed that answers are made of.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The reason why all results may have changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WhyAll {
    /// The changes are unknown.
    #[error("the changes between the two snapshots are unknown")]
    Unknown,
    /// Edge rows changed, and the results that depend on them are unknown.
    #[error("edge rows of tensor {tensor:?}, an input of the model, have changed")]
    EdgeRows {
        /// The tensor.
        tensor: String,
    },
    /// Results do not belong to nodes.
    #[error("the model returns results of whole graphs, not of nodes")]
    Graphs,
}
