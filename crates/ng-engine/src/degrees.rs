//! In-degrees in the whole graph, for models that norm by them: a batch has only some of the edges.
//!
//! What must not live here: degrees of a batch, which models count for themselves.

use ng_store::{ReadError, Snapshot};
use ng_types::{EdgeTypeId, Reservation};

/// The in-degrees of all nodes under one edge type, edges from a node to itself not counted.
#[derive(Debug)]
pub(crate) struct InDegrees {
    by_node: Vec<u32>,
    _held: Reservation,
}

impl InDegrees {
    /// Counts them in one pass over the lists of an edge type. They take 4 bytes a node.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(snapshot: &Snapshot, edge_type: EdgeTypeId) -> Result<Self, ReadError> {
        let catalog = snapshot.catalog();
        let missing = || ReadError::Missing { what: format!("edge type {edge_type:?}") };
        let meta = catalog.edge_types.get(usize::from(edge_type.0)).ok_or_else(missing)?;
        let nodes = catalog.node_types.get(usize::from(meta.destination.0)).ok_or_else(missing)?;
        let (num_nodes, is_one_type) = (nodes.num_nodes, meta.source == meta.destination);
        let held = snapshot.reserve(num_nodes.saturating_mul(size_of::<u32>() as u64))?;
        let mut by_node = vec![0_u32; num_nodes as usize];
        snapshot.scan_topology(edge_type, &mut |nodes, lists| {
            for (node, ends) in nodes.iter().zip(lists.offsets.windows(2)) {
                let list = lists.sources.get(ends[0]..ends[1]).unwrap_or_default();
                let is_counted = |source: &&u64| !is_one_type || *source != node;
                let count = list.iter().filter(is_counted).count() as u32;
                if let Some(degree) = by_node.get_mut(*node as usize) {
                    *degree = degree.saturating_add(count);
                }
            }
            Ok(())
        })?;
        Ok(Self { by_node, _held: held })
    }

    /// The in-degree of a node, as models take it.
    #[inline]
    pub fn of(&self, node: u64) -> f32 {
        self.by_node.get(node as usize).copied().unwrap_or(0) as f32
    }
}
