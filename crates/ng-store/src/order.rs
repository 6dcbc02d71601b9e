//! The order of rows: which row of its tensors belongs to which node, where that is not the row of
//! the node's number.
//!
//! What lives here: the order of a node type in memory, on disk, and the way from ids to rows. What
//! must not: which order is a good one. Everything below the public calls of a snapshot or of a
//! batch of updates works in rows, users see ids alone. The invariant: an order is a permutation of
//! the nodes that it was made for; nodes that came later have the row of their number.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, Weak};

use ng_types::{NodeId, NodeTypeId, Reservation};

use crate::bytes::ensure;
use crate::catalog::{OrderMeta, Owner};
use crate::error::{BuildError, Damage, ReadError};
use crate::io::Disk;
use crate::pages::{Pages, Segment};
use crate::scan::scan_rows;
use crate::segment::FinishedSegment;
use crate::snapshot::Snapshot;
use crate::tensor::reader::TensorReader;
use crate::tensor::writer::RowsWriter;
use crate::topology::resident::{Column, Packed, width_below};

/// Rows that are put on disk at a time.
const ROWS_TOGETHER: u64 = 1 << 14;

/// The order of a node type in memory: the row of each node, in three to five bytes.
#[derive(Debug)]
pub struct RowOrder {
    rows: Column,
    num_nodes: u64,
    held: Reservation,
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
                    let what = format!("node {id} is twice in an order of {num_nodes} nodes");
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
    fn encode(&self, from: u64) -> Vec<u8> {
        let end = self.num_nodes.min(from + ROWS_TOGETHER);
        let width = self.rows.width();
        let bytes = (from..end).map(|id| self.row(id).to_le_bytes());
        bytes.flat_map(|bytes| bytes.into_iter().take(width)).collect()
    }
}

/// Writes the order of a node type, node by node.
pub(crate) struct OrderWriter {
    node_type: NodeTypeId,
    meta: OrderMeta,
    rows: RowsWriter,
}

/// A finished order.
pub(crate) struct OrderPart {
    pub node_type: NodeTypeId,
    pub meta: OrderMeta,
    pub segment: FinishedSegment,
}

impl OrderWriter {
    pub fn create(
        disk: &Arc<dyn Disk>,
        node_type: NodeTypeId,
        segment: u32,
        num_nodes: u64,
    ) -> Result<Self, BuildError> {
        let meta = OrderMeta { segment, num_nodes };
        let rows = RowsWriter::create(disk, segment, meta.layout().row_bytes() as u64)?;
        Ok(Self { node_type, meta, rows })
    }

    /// Appends rows as they are on disk.
    pub fn push(&mut self, rows: &[u8]) -> Result<(), BuildError> {
        self.rows.push(rows)
    }

    /// Appends all of an order.
    pub fn push_order(&mut self, order: &RowOrder) -> Result<(), BuildError> {
        let mut starts = (0..order.num_nodes).step_by(ROWS_TOGETHER as usize);
        starts.try_for_each(|from| self.push(&order.encode(from)))
    }

    pub fn finish(self) -> Result<OrderPart, BuildError> {
        let Self { node_type, meta, rows } = self;
        let (expected, found) = (meta.num_nodes, rows.num_rows);
        if expected != found {
            return Err(BuildError::RowCount { what: "order of rows".into(), expected, found });
        }
        Ok(OrderPart { node_type, meta, segment: rows.finish()? })
    }
}

/// The rows of `ids`, read through the block cache.
pub(crate) fn read_rows(
    pages: &Pages,
    meta: &OrderMeta,
    segment: &Segment,
    ids: &[u64],
) -> Result<Vec<u64>, ReadError> {
    let (layout, width) = (meta.layout(), meta.layout().row_bytes());
    let known: Vec<u64> = ids.iter().copied().filter(|id| *id < meta.num_nodes).collect();
    let mut bytes = vec![0; known.len() * width];
    TensorReader { pages, segment, layout, pool: None }.gather(&known, &mut bytes)?;
    let mut found = bytes.chunks_exact(width);
    let mut rows = Vec::with_capacity(ids.len());
    for id in ids {
        if *id >= meta.num_nodes {
            rows.push(*id);
            continue;
        }
        let page = layout.place(*id).block / segment.blocks_per_page();
        let row = decode(found.next().unwrap_or_default(), meta.num_nodes);
        rows.push(row.map_err(|damage| segment.damaged(page, &damage))?);
    }
    Ok(rows)
}

/// A row of an order of `num_nodes`.
fn decode(bytes: &[u8], num_nodes: u64) -> Result<u64, Damage> {
    let row = bytes.iter().rev().fold(0, |high, byte| high << 8 | u64::from(*byte));
    ensure(row < num_nodes, || format!("row {row} in an order of {num_nodes} nodes"))?;
    Ok(row)
}

/// Orders that somebody holds in memory, by node type. They never change while a store is open.
pub(crate) type HeldOrders = std::sync::Mutex<Vec<(NodeTypeId, Weak<RowOrder>)>>;

impl Snapshot {
    /// What [`Snapshot::load_order`] takes of the budget; 0 where there is no order.
    pub fn order_bytes(&self, node_type: NodeTypeId) -> u64 {
        let meta = self.version.node_type(node_type).ok().and_then(|meta| meta.order);
        meta.map_or(0, |order| RowOrder::bytes_for(order.num_nodes))
    }

    /// Reads the order of the rows of a node type into memory, where all calls of this store find
    /// it as long as somebody holds it; `None` where rows are in the order of nodes. Its bytes are
    /// reserved from the budget first.
    ///
    /// # Errors
    /// [`ReadError::Budget`], [`ReadError::NoMemory`], [`ReadError::Missing`],
    /// [`ReadError::Checksum`], [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn load_order(&self, node_type: NodeTypeId) -> Result<Option<Arc<RowOrder>>, ReadError> {
        let Some(meta) = self.version.node_type(node_type)?.order else { return Ok(None) };
        if let Some(held) = self.held_order(node_type) {
            return Ok(Some(held));
        }
        let num_nodes = meta.num_nodes;
        let held = self.reserve(RowOrder::bytes_for(num_nodes))?;
        let mut rows = Column::new(num_nodes, meta.layout().row_bytes())?;
        self.scan_order(node_type, &mut |id, row| rows.fill(id, 1, row))?;
        let order = Arc::new(RowOrder { rows, num_nodes, held });
        let mut all = self.inner.orders.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, order)| *known != node_type && order.strong_count() > 0);
        all.push((node_type, Arc::downgrade(&order)));
        Ok(Some(order))
    }

    /// Reads the order of a node type front to back: `visit(node, row)`.
    pub(crate) fn scan_order(
        &self,
        node_type: NodeTypeId,
        visit: &mut dyn FnMut(NodeId, u64),
    ) -> Result<(), ReadError> {
        let Some(meta) = self.version.node_type(node_type)?.order else { return Ok(()) };
        let segment = self.version.segment(meta.segment)?;
        let (layout, num_nodes) = (meta.layout(), meta.num_nodes);
        scan_rows(&self.inner, segment, layout, num_nodes, &mut |first, bytes| {
            for (id, row) in (first..).zip(bytes.chunks_exact(layout.row_bytes())) {
                let page = layout.place(id).block / segment.blocks_per_page();
                let row = decode(row, num_nodes).map_err(|damage| segment.damaged(page, &damage));
                visit(id, row?);
            }
            Ok(())
        })
    }

    fn held_order(&self, node_type: NodeTypeId) -> Option<Arc<RowOrder>> {
        let all = self.inner.orders.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(known, _)| *known == node_type)?.1.upgrade()
    }

    /// The node of each row of a node type, in memory, for those who read all rows in the order of
    /// the file: `row` of what is given takes a row and gives a node. `None` where they are the
    /// same.
    ///
    /// # Errors
    /// As [`Snapshot::load_order`].
    pub fn load_nodes_of_rows(&self, node_type: NodeTypeId) -> Result<Option<RowOrder>, ReadError> {
        let Some(order) = self.load_order(node_type)? else { return Ok(None) };
        order.inverse(self.reserve(order.num_bytes())?).map(Some)
    }

    /// The rows of nodes, or of edges, in tensors of `owner`; ids were checked.
    pub(crate) fn rows_of<'i>(
        &self,
        owner: Owner,
        ids: &'i [u64],
    ) -> Result<Cow<'i, [u64]>, ReadError> {
        let Owner::Node(node_type) = owner else { return Ok(Cow::Borrowed(ids)) };
        let Some(meta) = self.version.node_type(node_type)?.order else {
            return Ok(Cow::Borrowed(ids));
        };
        if let Some(order) = self.held_order(node_type) {
            return Ok(ids.iter().map(|id| order.row(*id)).collect());
        }
        let segment = self.version.segment(meta.segment)?;
        read_rows(&self.inner.pages, &meta, segment, ids).map(Cow::Owned)
    }
}

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
