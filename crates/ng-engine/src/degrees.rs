//! In-degrees in the whole graph, for models that norm by them: a batch has only some of the edges.
//!
//! What must not live here: degrees of a batch, which models count for themselves.

use std::collections::HashMap;
use std::sync::Arc;

use ng_store::{Expansion, ReadError, Snapshot};
use ng_types::{EdgeTypeId, NodeId, Reservation};

/// One of so many degrees may have changed before all are counted anew.
const CHANGED_PARTS: usize = 64;

/// The in-degrees of all nodes under one edge type, edges from a node to itself not counted.
#[derive(Debug)]
pub(crate) struct InDegrees {
    counted: Arc<(Vec<u32>, Reservation)>,
    /// Those that commits have changed since.
    changed: HashMap<NodeId, u32>,
}

/// Edges of a list that count.
fn count(node: NodeId, list: &[NodeId], is_one_type: bool) -> u32 {
    list.iter().filter(|source| !is_one_type || **source != node).count() as u32
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
                let count = count(*node, list, is_one_type);
                if let Some(degree) = by_node.get_mut(*node as usize) {
                    *degree = degree.saturating_add(count);
                }
            }
            Ok(())
        })?;
        Ok(Self { counted: Arc::new((by_node, held)), changed: HashMap::new() })
    }

    /// Those of a later snapshot, in which the lists of `changed` are others. `None` if so many
    /// are that all should be counted.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn for_newer(
        &self,
        snapshot: &Snapshot,
        edge_type: EdgeTypeId,
        changed: &[NodeId],
    ) -> Result<Option<Self>, ReadError> {
        let counted = &self.counted.0;
        if (self.changed.len() + changed.len()) * CHANGED_PARTS > counted.len() {
            return Ok(None);
        }
        let mut lists = Expansion::default();
        snapshot.neighbors(edge_type, changed, &mut lists)?;
        let meta = snapshot.catalog().edge_types.get(usize::from(edge_type.0));
        let is_one_type = meta.is_some_and(|meta| meta.source == meta.destination);
        let mut newer = self.changed.clone();
        for (node, ends) in changed.iter().zip(lists.offsets.windows(2)) {
            let list = lists.sources.get(ends[0]..ends[1]).unwrap_or_default();
            newer.insert(*node, count(*node, list, is_one_type));
        }
        Ok(Some(Self { counted: Arc::clone(&self.counted), changed: newer }))
    }

    /// The in-degree of a node, as models take it.
    #[inline]
    pub fn of(&self, node: u64) -> f32 {
        let changed = if self.changed.is_empty() { None } else { self.changed.get(&node) };
        changed.or_else(|| self.counted.0.get(node as usize)).copied().unwrap_or(0) as f32
    }
}
