//! What a request can take at most: for those who decide how many of them are computed together.
//!
//! What must not live here: decisions. The invariant: a bound holds for each batch of the snapshot.

use ng_io::BLOCK_BYTES;
use ng_sample::Fanouts;
use ng_store::{Owner, Snapshot};
use ng_types::{EdgeTypeId, NodeTypeId};

use crate::Engine;
use crate::bind::RowsOf;
use crate::measured::PerNode;
use crate::request::BYTES_PER_INPUT_BYTE;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Memory that sampling takes for an entry that is drawn, beside its edge data, and that is kept
/// of it while the model runs.
const BYTES_PER_DRAW: u64 = 320;

/// Memory that numbering takes for a node type, however few nodes there are.
const BYTES_PER_NODE_TYPE: u64 = 64 << 10;

/// Upper bounds of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreseen {
    /// Neighbour lists that are drawn from.
    pub lists: u64,
    /// Rows of nodes and edges.
    pub rows: u64,
    /// Bytes that are read if no cache has any of them. What was prepared is not read.
    pub read_bytes: u64,
    /// Bytes of rows that are read, each once, without what else is in their blocks.
    pub row_bytes: u64,
    /// Bytes of rows that are in memory, each once.
    pub held_bytes: u64,
    /// Bytes of the memory budget.
    pub memory_bytes: u64,
}

/// How far subgraphs may reach.
struct Extent {
    lists: u64,
    /// Reads of entries, by edge type: at most one for each that is drawn.
    draws: Vec<u64>,
    /// By node type, with repeats, and each once.
    nodes: Vec<u64>,
    distinct: Vec<u64>,
}

impl Extent {
    /// Of so many subgraphs around one node each.
    fn of(
        snapshot: &Snapshot,
        fanouts: &Fanouts,
        (node_type, subgraphs): (NodeTypeId, u64),
    ) -> Self {
        let catalog = snapshot.catalog();
        let known: Vec<u64> = catalog.node_types.iter().map(|meta| meta.num_nodes).collect();
        let mut frontier = vec![0; known.len()];
        frontier[usize::from(node_type.0)] = subgraphs;
        let (mut nodes, mut lists) = (frontier.clone(), 0_u64);
        let mut draws = vec![0_u64; catalog.edge_types.len()];
        for hop in 0..fanouts.hops() {
            let mut found = vec![0_u64; known.len()];
            for (at, meta) in catalog.edge_types.iter().enumerate() {
                let fanout = fanouts.get(EdgeTypeId(at as u16), hop);
                let destinations = frontier[usize::from(meta.destination.0)];
                if fanout == 0 || destinations == 0 {
                    continue;
                }
                let most = subgraphs.saturating_mul(meta.num_edges);
                let of_lists = u64::try_from(fanout).map(|n| destinations.saturating_mul(n));
                let drawn = of_lists.map_or(most, |drawn| drawn.min(most));
                lists =
                    lists.saturating_add(destinations.min(known[usize::from(meta.destination.0)]));
                draws[at] = draws[at].saturating_add(drawn);
                let source = &mut found[usize::from(meta.source.0)];
                *source = source.saturating_add(drawn);
            }
            for ((found, known), nodes) in found.iter_mut().zip(&known).zip(&mut nodes) {
                *found = (*found).min(subgraphs.saturating_mul(*known));
                *nodes = nodes.saturating_add(*found);
            }
            frontier = found;
        }
        let distinct = nodes.iter().zip(&known).map(|(nodes, known)| *nodes.min(known)).collect();
        Self { lists, draws, nodes, distinct }
    }

    fn rows_of(&self, owner: Owner) -> (u64, u64) {
        let of = |all: &[u64], at: u16| all.get(usize::from(at)).copied().unwrap_or(0);
        match owner {
            Owner::Node(id) => (of(&self.distinct, id.0), of(&self.nodes, id.0)),
            Owner::Edge(id) => (of(&self.draws, id.0), of(&self.draws, id.0)),
        }
    }
}

impl Engine {
    /// Returns upper bounds of [`Engine::each`] for a batch of `nodes` distinct nodes. Fanouts of
    /// -1 are bounded only by the edges of the store.
    pub fn foresee(&self, nodes: u64) -> Foreseen {
        let (pinned, binding) = (self.pinned(), &self.server.binding);
        let snapshot = &pinned.snapshot;
        let extent = Extent::of(snapshot, &self.options.fanouts, (self.node_type(), nodes));
        let all = |list: &[u64]| list.iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
        let draws = all(&extent.draws);
        let blocks = if pinned.has_lists(true) { 0 } else { extent.lists.saturating_add(draws) };
        let mut read_bytes = blocks.saturating_mul(BLOCK);
        let edge_data = snapshot
            .catalog()
            .edge_types
            .iter()
            .any(|meta| meta.has_edge_ids || meta.has_time || meta.has_weight);
        let per_draw = BYTES_PER_DRAW * if edge_data { 2 } else { 1 };
        let sampled = draws.saturating_add(nodes).saturating_mul(per_draw);
        let (mut row_bytes, mut held_bytes) = (0_u64, 0_u64);
        let (mut rows, mut inputs) = (0_u64, all(&extent.nodes).saturating_mul(8));
        inputs = inputs.saturating_add(draws.saturating_mul(16));
        for (at, of) in binding.rows() {
            let (once, repeated) = extent.rows_of(of.tensor.owner);
            rows = rows.saturating_add(once);
            inputs = inputs.saturating_add(repeated.saturating_mul(of.width() as u64 * 4));
            let is_here = match of.tensor.owner {
                Owner::Node(id) => {
                    let table = pinned.tables[at].get();
                    table.is_some_and(|table| table.has_all(pinned.num_nodes(id)))
                }
                Owner::Edge(_) => false,
            };
            let bytes = once.saturating_mul(of.decoder.stored_bytes() as u64);
            if is_here {
                held_bytes = held_bytes.saturating_add(bytes);
            } else {
                row_bytes = row_bytes.saturating_add(bytes);
                read_bytes = read_bytes.saturating_add(once.saturating_mul(bytes_of_row(of)));
            }
        }
        let least = snapshot.catalog().node_types.len() as u64 * BYTES_PER_NODE_TYPE;
        let sampled = sampled.saturating_add(least);
        let memory_bytes = inputs.saturating_mul(BYTES_PER_INPUT_BYTE).saturating_add(sampled);
        let lists = extent.lists;
        Foreseen { lists, rows, read_bytes, row_bytes, held_bytes, memory_bytes }
    }

    /// Returns the mean costs per node, weighted towards recent batches; `None` before the first
    /// batch.
    pub fn per_node(&self) -> Option<PerNode> {
        self.server.measured.mean()
    }
}

/// Bytes of the blocks that a row may lie in.
fn bytes_of_row(of: &RowsOf) -> u64 {
    let bytes = of.decoder.stored_bytes() as u64;
    (bytes.saturating_sub(1) / BLOCK + 1 + u64::from(!BLOCK.is_multiple_of(bytes.max(1)))) * BLOCK
}
