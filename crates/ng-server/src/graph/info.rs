//! A graph as messages describe it.

use std::time::Instant;

use ng_rpc::v1;
use ng_store::TensorMeta;
use ng_types::{EdgeTypeId, NodeTypeId};

use crate::graph::{Graph, named};

impl Graph {
    /// What is in the graph now.
    pub fn info(&self) -> v1::GraphInfo {
        let snapshot = self.store.snapshot();
        let catalog = snapshot.catalog();
        let name_of = |id: NodeTypeId| {
            let meta = catalog.node_types.get(usize::from(id.0));
            meta.map_or(String::new(), |meta| meta.name.clone())
        };
        let node_types = catalog.node_types.iter().map(|meta| v1::NodeTypeInfo {
            name: meta.name.clone(),
            num_nodes: meta.num_nodes,
            tensors: meta.tensors.iter().map(tensor_info).collect(),
        });
        let edge_types = (0_u16..).map(EdgeTypeId).zip(&catalog.edge_types);
        let edge_types = edge_types.filter(|(id, _)| !catalog.is_reverse_index(*id));
        let edge_types = edge_types.map(|(_, meta)| v1::EdgeTypeInfo {
            name: meta.relation.clone(),
            source: name_of(meta.source),
            destination: name_of(meta.destination),
            num_edges: meta.num_edges,
            has_reverse: meta.reverse.is_some(),
        });
        let because = self.store.read_only_because();
        v1::GraphInfo {
            name: self.name.clone(),
            path: self.path.display().to_string(),
            snapshot: Some(named(&snapshot)),
            node_types: node_types.collect(),
            edge_types: edge_types.collect(),
            read_only: because.is_some(),
            read_only_because: because.unwrap_or_default(),
            bytes_on_disk: catalog.disk_bytes(),
            pinned_commits: self.pins.commits(Instant::now()),
            problem: String::new(),
        }
    }
}

fn tensor_info(meta: &TensorMeta) -> v1::TensorInfo {
    v1::TensorInfo {
        name: meta.name.clone(),
        dtype: meta.dtype.name().to_owned(),
        shape: meta.shape.clone(),
    }
}
