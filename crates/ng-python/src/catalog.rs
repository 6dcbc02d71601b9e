//! The catalog as the JSON that `_core.pyi` describes: what users may know, without file layout.

use ng_store::{EdgeTypeMeta, NodeTypeMeta, Snapshot, TensorMeta};
use ng_types::EdgeTypeId;
use serde_json::{Value, json};

/// Everything a store says about itself.
pub fn describe(snapshot: &Snapshot) -> Value {
    let catalog = snapshot.catalog();
    let name_of = |id: usize| catalog.node_types.get(id).map(|t| t.name.clone());
    json!({
        "page_bytes": catalog.page_bytes,
        "checkpoint_id": snapshot.checkpoint_id().0,
        "disk_bytes": catalog.disk_bytes(),
        "reuse_ids": catalog.reuse_ids,
        "format_version": catalog.format_version(),
        "node_types": catalog.node_types.iter().map(node_type).collect::<Vec<_>>(),
        "edge_types": catalog
            .edge_types
            .iter()
            .zip((0..).map(EdgeTypeId))
            .map(|(meta, id)| {
                let source = name_of(usize::from(meta.source.0));
                let destination = name_of(usize::from(meta.destination.0));
                edge_type(meta, source, destination, catalog.is_reverse_index(id))
            })
            .collect::<Vec<_>>(),
    })
}

fn node_type(meta: &NodeTypeMeta) -> Value {
    json!({
        "name": meta.name,
        "num_nodes": meta.num_nodes,
        "num_nodes_live": meta.num_nodes_live,
        "has_dictionary": meta.has_dictionary(),
        "has_order": meta.has_order(),
        "tensors": meta.tensors.iter().map(tensor).collect::<Vec<_>>(),
    })
}

fn edge_type(
    meta: &EdgeTypeMeta,
    source: Option<String>,
    destination: Option<String>,
    is_reverse_index: bool,
) -> Value {
    json!({
        "source": source,
        "relation": meta.relation,
        "destination": destination,
        "source_id": meta.source.0,
        "destination_id": meta.destination.0,
        "num_edges": meta.num_edges,
        "num_edge_ids": meta.num_edge_ids,
        "undirected": meta.undirected,
        "unique": meta.unique,
        "reverse": meta.reverse.map(|id| id.0),
        "is_reverse_index": is_reverse_index,
        "has_edge_ids": meta.has_edge_ids,
        "has_time": meta.has_time,
        "has_weight": meta.has_weight,
        "tensors": meta.tensors.iter().map(tensor).collect::<Vec<_>>(),
    })
}

fn tensor(meta: &TensorMeta) -> Value {
    let mut value = json!({
        "name": meta.name,
        "dtype": meta.dtype.name(),
        "read_dtype": meta.read_dtype().name(),
        "scaled": meta.is_scaled(),
        "sparse": meta.is_sparse(),
        "shape": meta.shape,
        "num_rows": meta.num_rows,
    });
    if !meta.class_names.is_empty() {
        value["class_names"] = meta.class_names.clone().into();
    }
    if let Some(width) = meta.mask_width {
        value["mask_width"] = width.into();
    }
    value
}
