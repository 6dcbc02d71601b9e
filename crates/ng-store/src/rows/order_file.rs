//! The order of rows on disk: writing it, and the ways from ids to rows that a snapshot has.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use ng_types::{NodeId, NodeTypeId};

use crate::catalog::{OrderMeta, Owner};
use crate::error::{BuildError, ReadError};
use crate::io::Disk;
use crate::page::{FinishedSegment, Pages, Segment, scan_rows};
use crate::rows::order::{ROWS_TOGETHER, RowOrder, decode};
use crate::store::Snapshot;
use crate::tensor::reader::TensorReader;
use crate::tensor::writer::RowsWriter;
use crate::topology::Column;

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
        let mut starts = (0..order.num_nodes()).step_by(ROWS_TOGETHER as usize);
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
