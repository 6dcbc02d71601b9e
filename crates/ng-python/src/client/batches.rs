//! Mini-batches that were received, as arrays.

use ng_rpc::v1;
use pyo3::prelude::*;

use super::replies::{snapshot, tensor};
use crate::arrays::owned;

/// A mini-batch whose numbers have the types of NumPy already, so that the thread that holds the
/// interpreter only hands them over.
pub struct Batch {
    /// Number of the batch, of how many, seeds, those of them that only fill.
    counts: (u64, u64, u64, u64),
    nodes: Vec<Nodes>,
    edges: Vec<Edges>,
    snapshot: Option<v1::Snapshot>,
}

struct Nodes {
    node_type: String,
    ids: Vec<i64>,
    tensors: Vec<(String, v1::Tensor)>,
    per_hop: Vec<u64>,
}

struct Edges {
    edge_type: String,
    /// Sources, then destinations.
    ends: Vec<i64>,
    edge_ids: Vec<i64>,
    times: Vec<i64>,
    weights: Vec<f32>,
    per_hop: Vec<u64>,
}

impl From<v1::SampleResponse> for Batch {
    fn from(message: v1::SampleResponse) -> Self {
        let signed = |ids: Vec<u64>| ids.into_iter().map(|id| id as i64).collect();
        let nodes = message.nodes.into_iter().map(|nodes| Nodes {
            node_type: nodes.node_type,
            ids: signed(nodes.ids),
            tensors: nodes.tensors.into_iter().collect(),
            per_hop: nodes.per_hop,
        });
        let edges = message.edges.into_iter().map(|edges| Edges {
            edge_type: edges.edge_type,
            ends: edges
                .sources
                .iter()
                .chain(&edges.destinations)
                .map(|at| i64::from(*at))
                .collect(),
            edge_ids: signed(edges.edge_ids),
            times: edges.times,
            weights: edges.weights,
            per_hop: edges.per_hop,
        });
        Self {
            counts: (message.batch, message.num_batches, message.num_seeds, message.num_padding),
            nodes: nodes.collect(),
            edges: edges.collect(),
            snapshot: message.snapshot,
        }
    }
}

impl Batch {
    pub fn python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let mut nodes = Vec::new();
        for block in self.nodes {
            let tensors = block.tensors.into_iter();
            let tensors: Vec<_> = tensors.map(|(name, rows)| (name, tensor(py, rows))).collect();
            nodes.push((block.node_type, owned(py, block.ids, None)?, tensors, block.per_hop));
        }
        let mut edges = Vec::new();
        for block in self.edges {
            edges.push((
                block.edge_type,
                owned(py, block.ends, None)?.call_method1("reshape", ((2, -1),))?,
                owned(py, block.edge_ids, None)?,
                owned(py, block.times, None)?,
                owned(py, block.weights, None)?,
                block.per_hop,
            ));
        }
        let all = (self.counts, nodes, edges, snapshot(self.snapshot));
        all.into_pyobject(py).map(Bound::into_any)
    }
}
