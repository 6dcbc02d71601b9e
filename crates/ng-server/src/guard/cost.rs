//! What a request is foreseen to cost: the bytes of rows that its samples take at most, for
//! [`super::admission`], which measures how many of them are computed in a second.

use ng_store::Snapshot;

use crate::model::Model;
use crate::targets::Targets;

/// Seeds that the graph of a graph's answer is taken to have.
const NODES_OF_GRAPH: u64 = 64;

/// A byte of a row that is in memory counts as this part of one that is read: it takes no device,
/// but the model computes with it.
const HELD_SHARE: u64 = 16;

/// Bytes that a request is foreseen to read. What the engine foresees, once it is ready: rows that
/// the model takes, each once, and less for those that are in memory. Before that the bound that
/// [`bound_of`] is, and never more.
pub fn cost_of(model: &Model, targets: &Targets) -> u64 {
    let bound = bound_of(model, targets);
    let is_ready = matches!(model.engine.prepared(), Some(Ok(())));
    if !is_ready || matches!(targets, Targets::Graphs(_)) {
        return bound;
    }
    let foreseen = model.engine.foresee(targets.nodes() as u64);
    let bytes = foreseen.row_bytes.saturating_add(foreseen.held_bytes / HELD_SHARE);
    bytes.clamp(1, bound.max(1))
}

/// Targets x sampled nodes of each x bytes of a row. More than is read where nodes repeat or are
/// in memory, or the model does not take all tensors.
fn bound_of(model: &Model, targets: &Targets) -> u64 {
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
