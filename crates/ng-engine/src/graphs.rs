//! Which nodes make which graph, where a store holds many small ones: the node tensor `graph_id`
//! says it, and the nodes of a graph stand side by side.

use ng_store::{Owner, ReadError, Snapshot};
use ng_types::{Dtype, NodeTypeId, Reservation};

use crate::EngineError;
use crate::bind::GRAPH_ID;

/// The first node of each graph, and the end of the last one.
#[derive(Debug)]
pub(crate) struct GraphsOf {
    starts: Vec<u64>,
    _held: Reservation,
}

impl GraphsOf {
    /// Reads the tensor once.
    pub fn read(snapshot: &Snapshot, node_type: NodeTypeId) -> Result<Self, EngineError> {
        let wrong = |problem: String| EngineError::Input { input: "batch".to_owned(), problem };
        let owner = Owner::Node(node_type);
        let missing = || wrong(format!("node tensor {GRAPH_ID:?} does not exist in the store"));
        let tensor = snapshot.catalog().find_tensor(owner, GRAPH_ID).ok_or_else(missing)?;
        let meta = snapshot.catalog().tensor(tensor).ok_or_else(missing)?;
        let has_order = snapshot
            .catalog()
            .node_types
            .get(usize::from(node_type.0))
            .is_some_and(ng_store::NodeTypeMeta::has_order);
        if meta.dtype != Dtype::I64 || !meta.shape.is_empty() || has_order {
            return Err(wrong(format!(
                "tensor {GRAPH_ID:?} must have one i64 per node, and its rows must be in the \
                 order of node ids"
            )));
        }
        let held = snapshot.reserve_batch(meta.num_rows.saturating_mul(8))?;
        let (mut starts, mut bad) = (Vec::new(), None);
        snapshot.scan_tensor::<ReadError>(tensor, &mut |first, rows| {
            for (node, row) in (first..).zip(rows.as_chunks::<8>().0) {
                let graph = i64::from_le_bytes(*row);
                let known = starts.len() as i64;
                if graph == known {
                    starts.push(node);
                } else if graph + 1 != known {
                    bad = bad.or(Some((node, graph)));
                }
            }
            Ok(())
        })?;
        if let Some((node, graph)) = bad {
            return Err(wrong(format!(
                "node {node} belongs to graph {graph}; graphs must be numbered from 0 in the \
                 order of their nodes"
            )));
        }
        starts.push(meta.num_rows);
        starts.shrink_to_fit();
        Ok(Self { starts, _held: held })
    }

    /// How many graphs there are.
    pub fn len(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    /// The nodes of a graph.
    pub fn nodes(&self, graph: u64) -> std::ops::Range<u64> {
        self.starts[graph as usize]..self.starts[graph as usize + 1]
    }
}
