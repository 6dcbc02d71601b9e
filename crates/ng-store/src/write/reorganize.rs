//! `reorganize`: the same content in fresh files, with the rows of node tensors in another order.
//!
//! What lives here: the public face. How files are rewritten is `compact.rs`, how rows get to their
//! new places with little memory is `buckets.rs`, which order is a good one is for the caller.

use std::sync::Arc;

use crate::catalog::{Owner, TensorMeta};
use crate::rows::order::RowOrder;
use crate::store::Snapshot;
use crate::write::buckets::Plan;
use ng_types::NodeTypeId;

/// A node type and the new order of its rows.
pub type NewOrder = (NodeTypeId, RowOrder);

/// Makes orders for a version of a store.
pub type MakeOrders<'a, E> = dyn FnMut(&Arc<Snapshot>) -> Result<Vec<NewOrder>, E> + 'a;

/// Returns the temporary disk space that [`crate::reorganize`] needs in addition to the store: the
/// new files, and the largest temporary file for rows of `node_types`.
pub fn reorganize_bytes(snapshot: &Snapshot, node_types: &[NodeTypeId]) -> u64 {
    let catalog = snapshot.catalog();
    let limit = snapshot.budget().limit_bytes();
    let of = |tensor: &TensorMeta| {
        let width = match tensor.sparse {
            Some(sparse) => (sparse.num_entries * 8).div_ceil(tensor.num_rows.max(1)),
            None => tensor.row_bytes(),
        };
        Plan::new(tensor.num_rows, width, limit).scratch_bytes()
    };
    let is_moved = |owner: Owner| node_types.iter().any(|id| owner == Owner::Node(*id));
    let refs = catalog.tensor_refs().filter(|tensor| is_moved(tensor.owner));
    let scratch = refs.filter_map(|tensor| catalog.tensor(tensor)).map(of).max().unwrap_or(0);
    let new_order = |id: &NodeTypeId| {
        let meta = catalog.node_types.get(usize::from(id.0));
        meta.map_or(0, |meta| RowOrder::bytes_for(meta.num_nodes))
    };
    catalog.disk_bytes() + scratch + node_types.iter().map(new_order).sum::<u64>()
}
