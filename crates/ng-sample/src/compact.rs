//! A sampled subgraph in the fewest bytes, for those who keep many of them: a look-ahead holds
//! dozens, and needs of most only which rows to read.

use ng_store::Owner;
use ng_types::{NodeTypeId, Reservation};

use crate::columns::Gathered;
use crate::ids::Ids;
use crate::{EdgeBlock, MiniBatch, NodeBlock};

/// The nodes of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactNodes {
    /// Global ids by local number, `[num_nodes]`. Seeds come first, in the order given.
    pub ids: Ids,
    /// How many nodes each hop added; entry 0 counts the seeds, `[hops + 1]`.
    pub per_hop: Vec<usize>,
}

/// The edges of one type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactEdges {
    /// Local numbers of the sources, `[num_edges]`.
    pub rows: Vec<u32>,
    /// How many edges each destination has, by local number, up to the last one that was expanded.
    /// Edges are in the order of destinations, so this stands for a column of their numbers.
    pub counts: Vec<u32>,
    /// Edge ids, `[num_edges]`; empty where the type has none.
    pub edge_ids: Ids,
    /// Times, `[num_edges]`; empty where the type has none.
    pub times: Vec<i64>,
    /// Weights, `[num_edges]`; empty where the type has none.
    pub weights: Vec<f32>,
    /// How many edges each hop added, `[hops]`.
    pub per_hop: Vec<usize>,
}

impl CompactEdges {
    /// Local numbers of the sources and of the destinations, as PyG has them.
    pub fn ends(&self) -> (Vec<i64>, Vec<i64>) {
        let rows = self.rows.iter().map(|row| i64::from(*row)).collect();
        (rows, destinations(&self.counts, self.rows.len()))
    }

    /// Leaves out all edges but those that `kept` says, by place; `counts` and `per_hop` are the
    /// caller's.
    pub fn keep(&mut self, kept: &[bool]) {
        fn some<T: Copy>(all: &mut Vec<T>, kept: &[bool]) {
            let mut kept = kept.iter();
            all.retain(|_| kept.next().copied().unwrap_or(true));
        }
        some(&mut self.rows, kept);
        some(&mut self.times, kept);
        some(&mut self.weights, kept);
        match &mut self.edge_ids {
            Ids::Narrow(ids) => some(ids, kept),
            Ids::Wide(ids) => some(ids, kept),
        }
    }
}

/// What a sample has beside its nodes and edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// By node type, the subgraph that each node is of; empty where all seeds share one.
    pub subgraphs: Vec<Vec<u32>>,
    /// Local numbers of what the seeds were given as: the sources of links and then their
    /// destinations, or the destinations that are none; empty where seeds are nodes.
    pub targets: Vec<u32>,
    /// The time of each subgraph; empty unless sampling looks at times.
    pub times: Vec<i64>,
    /// PinSAGE's edges, which the store does not hold: from a visited node to the start of the
    /// walks, weighted by its share of the visits.
    pub visits: CompactEdges,
}

impl Extras {
    /// Bytes of all arrays.
    pub fn num_bytes(&self) -> u64 {
        let narrow = self.subgraphs.iter().map(Vec::len).sum::<usize>() + self.targets.len();
        let visits = self.visits.rows.len() * 2 + self.visits.counts.len();
        ((narrow + visits) * 4 + self.times.len() * 8) as u64
    }
}

/// A sampled subgraph without features; [`crate::Sampler::sample_compact`] makes it.
#[derive(Debug)]
pub struct CompactSample {
    /// By node type id.
    pub nodes: Vec<CompactNodes>,
    /// By edge type id.
    pub edges: Vec<CompactEdges>,
    /// What it has beside them.
    pub extras: Extras,
    /// Memory held from the store's budget until the sample is dropped.
    pub(crate) _held: Reservation,
}

impl CompactSample {
    /// Bytes of all arrays: what is held of the budget.
    pub fn num_bytes(&self) -> u64 {
        let nodes: u64 = self.nodes.iter().map(|nodes| nodes.ids.num_bytes()).sum();
        let edges = self.edges.iter().map(|edges| {
            let narrow = edges.rows.len() + edges.counts.len() + edges.weights.len();
            (narrow * 4 + edges.times.len() * 8) as u64 + edges.edge_ids.num_bytes()
        });
        nodes + edges.sum::<u64>() + self.extras.num_bytes()
    }

    /// Gives back what was held for making it.
    pub(crate) fn settle(&mut self) {
        // A shrinking reservation always succeeds.
        let _ = self._held.resize(self.num_bytes().min(self._held.bytes()));
    }

    /// The ids of the nodes of a type by local number: the rows that a batch reads.
    pub fn node_ids(&self, node_type: NodeTypeId) -> &Ids {
        &self.nodes[usize::from(node_type.0)].ids
    }

    /// The ids whose rows a tensor of `owner` gives: nodes, or edge ids.
    pub(crate) fn row_ids(&self, owner: Owner) -> &Ids {
        match owner {
            Owner::Node(node_type) => &self.nodes[usize::from(node_type.0)].ids,
            Owner::Edge(edge_type) => &self.edges[usize::from(edge_type.0)].edge_ids,
        }
    }

    /// Bytes of the arrays that a mini-batch in PyG's conventions makes of it.
    pub fn batch_bytes(&self) -> u64 {
        let nodes: usize = self.nodes.iter().map(|nodes| nodes.ids.len()).sum();
        let edges = self.edges.iter().map(|edges| {
            let wide = 2 * edges.rows.len() + edges.edge_ids.len() + edges.times.len();
            wide * 8 + edges.weights.len() * 4
        });
        // Numbers of extras are as wide as local numbers of PyG.
        (nodes * 8 + edges.sum::<usize>()) as u64 + 2 * self.extras.num_bytes()
    }

    /// Rows of the longest column.
    pub(crate) fn most_rows(&self) -> usize {
        let nodes = self.nodes.iter().map(|nodes| nodes.ids.len());
        nodes.chain(self.edges.iter().map(|edges| edges.edge_ids.len())).max().unwrap_or(0)
    }

    /// The same as a mini-batch in PyG's conventions, with what was gathered for it. `held` pays
    /// for its arrays: [`CompactSample::batch_bytes`] of the store's budget.
    pub(crate) fn into_batch(self, held: Reservation, mut gathered: Vec<Gathered>) -> MiniBatch {
        gathered.sort_by_key(|column| column.place);
        let columns = gathered.into_iter().map(|gathered| (gathered.column, gathered.held));
        let (columns, of_columns): (Vec<_>, Vec<_>) = columns.unzip();
        let held = std::iter::once(Some(held)).chain(of_columns).collect();
        let nodes = self.nodes.into_iter();
        let nodes = nodes.map(|n| NodeBlock { ids: n.ids.widened(), per_hop: n.per_hop }).collect();
        let edges = self.edges.into_iter().map(|edges| {
            let (rows, cols) = edges.ends();
            EdgeBlock {
                rows,
                cols,
                edge_ids: edges.edge_ids.widened(),
                times: edges.times,
                weights: edges.weights,
                per_hop: edges.per_hop,
            }
        });
        let edges = edges.collect();
        MiniBatch { nodes, edges, columns, extras: self.extras, held }
    }
}

/// The destination of each of `len` edges.
fn destinations(counts: &[u32], len: usize) -> Vec<i64> {
    let mut cols = Vec::with_capacity(len);
    for (destination, count) in (0..).zip(counts) {
        cols.resize(cols.len() + *count as usize, destination);
    }
    cols
}
