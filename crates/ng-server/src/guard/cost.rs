//! What a request is foreseen to cost: the bytes of rows that its samples take at most.

use ng_store::Snapshot;

use crate::model::Model;
use crate::targets::Targets;

/// Seeds that the graph of a graph's answer is taken to have.
const NODES_OF_GRAPH: u64 = 64;

/// Bytes that a request is foreseen to read: targets x sampled nodes of each x bytes of a row. More
/// than is read where nodes repeat or are cached.
pub fn cost_of(model: &Model, targets: &Targets) -> u64 {
    let snapshot = model.graph.store.snapshot();
    let row = row_bytes(&snapshot);
    let nodes = match targets {
        Targets::Graphs(graphs) => (graphs.len() as u64).saturating_mul(NODES_OF_GRAPH),
        Targets::Nodes(_) => (targets.len() as u64).saturating_mul(nodes_of_seed(model, &snapshot)),
        Targets::Edges(..) => {
            (2 * targets.len() as u64).saturating_mul(nodes_of_seed(model, &snapshot))
        }
    };
    nodes.saturating_mul(row)
}

/// Nodes that the sample of one seed has at most.
fn nodes_of_seed(model: &Model, snapshot: &Snapshot) -> u64 {
    let catalog = snapshot.catalog();
    let fanouts = model.engine.fanouts();
    let all: u64 = catalog.node_types.iter().map(|meta| meta.num_nodes).sum();
    let (mut nodes, mut edge) = (1_u64, 1_u64);
    for hop in 0..fanouts.hops() {
        let types = catalog.edge_types.iter().zip(0_u16..);
        let wide: u64 = types
            .map(|(meta, id)| match u64::try_from(fanouts.get(ng_types::EdgeTypeId(id), hop)) {
                Ok(fanout) => fanout,
                // All neighbours: as many as there are on average.
                Err(_) => meta.num_edges.div_ceil(all.max(1)).max(1),
            })
            .fold(0, u64::saturating_add);
        edge = edge.saturating_mul(wide);
        nodes = nodes.saturating_add(edge);
    }
    nodes.min(all.max(1))
}

/// Bytes of the widest node type's rows.
fn row_bytes(snapshot: &Snapshot) -> u64 {
    let types = snapshot.catalog().node_types.iter();
    let sums = types.map(|meta| meta.tensors.iter().map(ng_store::TensorMeta::row_bytes).sum());
    sums.max().unwrap_or(0).max(8)
}
