//! The result of sampling, in PyG's conventions: seeds first, local numbers, counts per hop.

use ng_store::{Owner, TensorRef};
use ng_types::{Dtype, Reservation};

use crate::{Buffer, Extras};

/// The nodes of one type.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NodeBlock {
    /// Global ids by local number, `[num_nodes]`. Seeds come first, in the order given.
    pub ids: Vec<i64>,
    /// How many nodes each hop added; entry 0 counts the seeds, `[hops + 1]`.
    pub per_hop: Vec<usize>,
}

/// The edges of one type.
#[derive(Debug, Default, PartialEq)]
pub struct EdgeBlock {
    /// Local numbers of the sources, `[num_edges]`.
    pub rows: Vec<i64>,
    /// Local numbers of the destinations, `[num_edges]`, not decreasing.
    pub cols: Vec<i64>,
    /// Edge ids, `[num_edges]`; empty where the type has none.
    pub edge_ids: Vec<i64>,
    /// Times, `[num_edges]`; empty where the type has none.
    pub times: Vec<i64>,
    /// Weights, `[num_edges]`; empty where the type has none.
    pub weights: Vec<f32>,
    /// How many edges each hop added, `[hops]`.
    pub per_hop: Vec<usize>,
}

/// The rows of one tensor for the nodes or edges of the batch.
#[derive(Debug, PartialEq, Eq)]
pub struct Column {
    /// Which tensor.
    pub tensor: TensorRef,
    /// The dtype of its elements; on disk they may be narrower.
    pub dtype: Dtype,
    /// Where `bytes` stand in the rows, if rows come without their zeros.
    pub sparse: Option<SparseIndex>,
    /// Rows in the order of the nodes or edges, little-endian, `[rows * row_bytes]`; of sparse rows
    /// what is not 0, `[entries]`.
    ///
    /// A mapping of its own: memory from the allocator would stay with the process after a batch
    /// is dropped, and the budget could not be kept.
    pub bytes: Buffer,
}

/// Which values of sparse rows stand where, as compressed sparse rows of i64, little-endian.
#[derive(Debug, PartialEq, Eq)]
pub struct SparseIndex {
    /// Row `i` has values `indptr[i]..indptr[i + 1]`, `[rows + 1]`.
    pub indptr: Buffer,
    /// Their columns, ascending in each row, `[entries]`.
    pub columns: Buffer,
}

impl Column {
    fn num_bytes(&self) -> usize {
        let index = self
            .sparse
            .as_ref()
            .map_or(0, |index| index.indptr.as_slice().len() + index.columns.as_slice().len());
        self.bytes.as_slice().len() + index
    }
}

/// A sampled subgraph with the requested features.
#[derive(Debug)]
pub struct MiniBatch {
    /// By node type id.
    pub nodes: Vec<NodeBlock>,
    /// By edge type id.
    pub edges: Vec<EdgeBlock>,
    /// In the requested order.
    pub columns: Vec<Column>,
    /// The extra data besides nodes and edges.
    pub extras: Extras,
    /// Memory held from the store's budget until the batch is dropped.
    pub(crate) held: Vec<Option<Reservation>>,
}

impl MiniBatch {
    /// How many seeds it has: they are its first nodes, in the order given.
    pub fn num_seeds(&self) -> usize {
        self.nodes.iter().filter_map(|nodes| nodes.per_hop.first()).sum()
    }

    /// Bytes of all arrays of the batch.
    pub fn num_bytes(&self) -> u64 {
        let columns: usize = self.columns.iter().map(Column::num_bytes).sum();
        self.topology_bytes() + columns as u64
    }

    /// The ids whose rows a tensor of `owner` gives: nodes, or edge ids.
    pub(crate) fn row_ids(&self, owner: Owner) -> &[i64] {
        match owner {
            Owner::Node(node_type) => &self.nodes[usize::from(node_type.0)].ids,
            Owner::Edge(edge_type) => &self.edges[usize::from(edge_type.0)].edge_ids,
        }
    }

    pub(crate) fn topology_bytes(&self) -> u64 {
        let nodes: usize = self.nodes.iter().map(|n| n.ids.len() * 8).sum();
        let edges: usize = self.edges.iter().map(EdgeBlock::num_bytes).sum();
        (nodes + edges) as u64 + 2 * self.extras.num_bytes()
    }

    /// Takes the batch apart, for a consumer whose arrays outlive the struct. The reservations give
    /// the memory back when the last of them is dropped.
    pub fn into_parts(self) -> Parts {
        (self.nodes, self.edges, self.columns, self.extras, self.held)
    }
}

/// The parts of a batch, and its reservations.
pub type Parts = (Vec<NodeBlock>, Vec<EdgeBlock>, Vec<Column>, Extras, Vec<Option<Reservation>>);

impl EdgeBlock {
    fn num_bytes(&self) -> usize {
        let wide = self.rows.len() + self.cols.len() + self.edge_ids.len() + self.times.len();
        wide * 8 + self.weights.len() * 4
    }
}

impl PartialEq for MiniBatch {
    /// Equal content; who holds which memory does not count.
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes
            && self.edges == other.edges
            && self.columns == other.columns
            && self.extras == other.extras
    }
}
