//! The order of rows: which row of its tensors belongs to which node, where that is not the row of
//! the node's number.
//!
//! What lives here: the order of a node type in memory, on disk, and the way from ids to rows. What
//! must not: which order is a good one. Everything below the public calls of a snapshot or of a
//! transaction works in rows, users see ids alone. The invariant: an order is a permutation of
//! the nodes that it was made for; nodes that came later have the row of their number.

use std::sync::Weak;

use ng_types::{NodeId, NodeTypeId, Reservation};

use crate::bytes::{ensure, width_below};
use crate::error::{Damage, ReadError};
use crate::topology::{Column, Packed};

/// Rows that are put on disk at a time.
pub(super) const ROWS_TOGETHER: u64 = 1 << 14;

/// The order of a node type in memory: the row of each node, in three to five bytes.
#[derive(Debug)]
pub struct RowOrder {
    pub(super) rows: Column,
    pub(super) num_nodes: u64,
    pub(super) held: Reservation,
}

impl RowOrder {
    /// Bytes of an order of `num_nodes`.
    pub fn bytes_for(num_nodes: u64) -> u64 {
        num_nodes.saturating_mul(width_below(num_nodes) as u64)
    }

    /// The order in which the nodes `ids` come one after the other, each once.
    ///
    /// # Errors
    /// [`ReadError::Order`] unless they are `0..ids.len()` in some order, [`ReadError::NoMemory`].
    pub fn of(ids: &[u32], held: Reservation) -> Result<Self, ReadError> {
        let num_nodes = ids.len() as u64;
        let mut rows = Column::new(num_nodes, width_below(num_nodes))?;
        let mut seen = vec![false; ids.len()];
        for (row, id) in (0..).zip(ids) {
            match seen.get_mut(*id as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => {
                    let what = format!(
                        "the order of {num_nodes} nodes contains node {id} twice, or {id} is out \
                         of range"
                    );
                    return Err(ReadError::Order { what });
                }
            }
            rows.fill(u64::from(*id), 1, row);
        }
        Ok(Self { rows, num_nodes, held })
    }

    /// The row of a node.
    #[inline]
    pub fn row(&self, id: NodeId) -> u64 {
        if id < self.num_nodes { self.rows.packed().get(id as usize) } else { id }
    }

    /// The rows of the nodes that the order was made for.
    pub fn rows(&self) -> Packed<'_> {
        self.rows.packed()
    }

    /// Nodes that the order was made for.
    pub fn num_nodes(&self) -> u64 {
        self.num_nodes
    }

    /// Bytes of the budget that are held for it.
    pub fn num_bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// The other way round: `row` of it takes a row and gives a node.
    pub(crate) fn inverse(&self, held: Reservation) -> Result<Self, ReadError> {
        let mut rows = Column::new(self.num_nodes, self.rows.width())?;
        (0..self.num_nodes).for_each(|id| rows.fill(self.row(id), 1, id));
        Ok(Self { rows, num_nodes: self.num_nodes, held })
    }

    /// From rows of `old` to rows of this order.
    pub(crate) fn after(&self, old: &Self, held: Reservation) -> Result<Self, ReadError> {
        let mut rows = Column::new(self.num_nodes, self.rows.width())?;
        (0..self.num_nodes).for_each(|id| rows.fill(old.row(id), 1, self.row(id)));
        Ok(Self { rows, num_nodes: self.num_nodes, held })
    }

    /// Its bytes on disk, some rows at a time.
    pub(super) fn encode(&self, from: u64) -> Vec<u8> {
        let end = self.num_nodes.min(from + ROWS_TOGETHER);
        let width = self.rows.width();
        let bytes = (from..end).map(|id| self.row(id).to_le_bytes());
        bytes.flat_map(|bytes| bytes.into_iter().take(width)).collect()
    }
}

/// A row of an order of `num_nodes`.
pub(super) fn decode(bytes: &[u8], num_nodes: u64) -> Result<u64, Damage> {
    let row = bytes.iter().rev().fold(0, |high, byte| high << 8 | u64::from(*byte));
    ensure(row < num_nodes, || {
        format!("row {row} is out of range in an order of {num_nodes} nodes")
    })?;
    Ok(row)
}

/// Orders that somebody holds in memory, by node type. They never change while a store is open.
pub(crate) type HeldOrders = std::sync::Mutex<Vec<(NodeTypeId, Weak<RowOrder>)>>;

#[cfg(test)]
mod tests {
    use ng_types::Budget;

    use super::*;

    fn order(ids: &[u32]) -> Result<RowOrder, ReadError> {
        RowOrder::of(ids, Budget::new(1 << 20).reserve(1 << 10).expect("fits"))
    }

    #[test]
    fn an_order_leads_from_nodes_to_rows_and_back() {
        let (first, second) =
            (order(&[3, 0, 2, 1]).expect("sound"), order(&[1, 2, 3, 0]).expect("sound"));
        let rows: Vec<u64> = (0..6).map(|id| first.row(id)).collect();
        assert_eq!(rows, [1, 3, 2, 0, 4, 5]);
        let held = || Budget::new(1 << 20).reserve(1 << 10).expect("fits");
        let back = first.inverse(held()).expect("made");
        assert!((0..6).all(|id| back.row(first.row(id)) == id));
        let moves = second.after(&first, held()).expect("made");
        assert!((0..6).all(|id| moves.row(first.row(id)) == second.row(id)));
        assert_eq!(first.encode(0), [1, 0, 0, 3, 0, 0, 2, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_permutation_is_no_order() {
        for ids in [&[0, 0][..], &[1], &[0, 2, 1, 2], &[0, 1, 3]] {
            assert!(matches!(order(ids), Err(ReadError::Order { .. })), "{ids:?}");
        }
        assert!(decode(&[4, 0, 0], 4).is_err());
        assert_eq!(decode(&[3, 0, 0, 0, 0], 4).ok(), Some(3));
    }
}
