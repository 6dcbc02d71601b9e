//! Rows on their way into fresh files: in the order that they have, or to where a new order puts
//! them.
//!
//! What must not live here: lists, names, what is done when. The invariant: memory does not grow
//! with a tensor, but for the orders of its node type.

use ng_types::NodeTypeId;

use crate::build::spec::TensorSpec;
use crate::catalog::{Owner, SparseMeta, TensorRef};
use crate::error::ReadError;
use crate::page::scan_rows;
use crate::rows::order::RowOrder;
use crate::store::Snapshot;
use crate::tensor::sparse_writer::SparseWriter;
use crate::tensor::writer::TensorWriter;
use crate::write::buckets::{Buckets, decode_sparse, encode_sparse};
use crate::write::compact::Compaction;
use crate::write::error::UpdateError;
use crate::write::narrow::{Narrowing, is_narrowed};

/// A new order, and where it takes rows from.
pub(super) struct Moving {
    order: RowOrder,
    /// From rows of the old files to new ones, where the old ones have an order, too.
    moves: Option<RowOrder>,
}

impl Moving {
    pub fn new(
        snapshot: &Snapshot,
        node_type: NodeTypeId,
        order: RowOrder,
    ) -> Result<Self, UpdateError> {
        let meta = snapshot.version.node_type(node_type)?;
        if order.num_nodes() != meta.num_nodes {
            let (name, found, expected) = (&meta.name, order.num_nodes(), meta.num_nodes);
            let what =
                format!("the order has {found} nodes, but node type {name:?} has {expected}");
            return Err(ReadError::Order { what }.into());
        }
        let Some(old) = snapshot.load_order(node_type)? else {
            return Ok(Self { order, moves: None });
        };
        let held = snapshot.reserve(order.num_bytes()).map_err(ReadError::from)?;
        let moves = Some(order.after(&old, held)?);
        Ok(Self { order, moves })
    }

    /// Where a row of the old files goes.
    fn target(&self, row: u64) -> u64 {
        self.moves.as_ref().unwrap_or(&self.order).row(row)
    }
}

impl Compaction<'_> {
    /// All tensors.
    pub fn tensors(&mut self) -> Result<(), UpdateError> {
        let snapshot = self.snapshot;
        for tensor in snapshot.catalog().tensor_refs() {
            let (meta, owner) = (snapshot.version.tensor(tensor)?.0, tensor.owner);
            let spec = TensorSpec {
                name: meta.name.clone(),
                dtype: meta.dtype,
                shape: meta.shape.clone(),
                mask_width: meta.mask_width,
            };
            if let Some(SparseMeta { value, .. }) = meta.sparse {
                let rows = self.builder.sparse_tensor(owner, spec, value)?;
                self.sparse_rows(tensor, rows)?;
                continue;
            }
            if let Some(to) = self.narrow.filter(|to| is_narrowed(owner, meta, *to)) {
                self.narrow_rows(tensor, spec, to)?;
                continue;
            }
            let mut rows = match self.snapshot.scales(tensor)? {
                Some(scales) => self.builder.scaled_tensor(owner, spec, &scales)?,
                None if meta.class_names.is_empty() => self.builder.tensor(owner, spec)?,
                None => self.builder.class_tensor(owner, spec, meta.class_names.clone())?,
            };
            self.dense_rows(tensor, &mut rows, None)?;
            self.builder.add(rows.finish()?)?;
        }
        Ok(())
    }

    pub(super) fn dense_rows(
        &mut self,
        tensor: TensorRef,
        rows: &mut TensorWriter,
        mut narrowing: Option<&mut Narrowing<'_>>,
    ) -> Result<(), UpdateError> {
        let width = rows.row_bytes();
        let meta = self.snapshot.version.tensor(tensor)?.0;
        let (num_rows, stored) = (meta.num_rows, meta.row_bytes() as usize);
        // Taken out, because steps are counted meanwhile.
        let moving = moving(&self.orders, tensor.owner);
        let buckets =
            moving.map(|_| Buckets::new(self.snapshot, self.directory, num_rows, width as u64));
        let mut buckets = buckets.transpose()?;
        self.snapshot.scan_tensor(tensor, &mut |first, given: &[u8]| {
            let bytes = match &mut narrowing {
                Some(narrowing) => narrowing.encode(first, given)?,
                None => given,
            };
            let pushed = match (moving, &mut buckets) {
                (Some(moving), Some(buckets)) => (first..)
                    .zip(bytes.chunks_exact(width))
                    .try_for_each(|(row, bytes)| buckets.push(moving.target(row), bytes)),
                _ => rows.push_rows(bytes).map_err(UpdateError::from),
            };
            pushed.and_then(|()| self.steps.step((given.len() / stored) as u64))
        })?;
        if let Some(buckets) = buckets {
            let mut at = 0;
            buckets.finish(&mut |row| {
                at += 1;
                self.steps.go_on(at)?;
                Ok(rows.push_rows(row)?)
            })?;
        }
        Ok(())
    }

    fn sparse_rows(
        &mut self,
        tensor: TensorRef,
        mut rows: SparseWriter,
    ) -> Result<(), UpdateError> {
        let meta = self.snapshot.version.tensor(tensor)?.0;
        let num_rows = meta.num_rows;
        let entries = meta.sparse.map_or(0, |sparse| sparse.num_entries);
        let each = (entries * 8).div_ceil(num_rows.max(1));
        let moving = moving(&self.orders, tensor.owner);
        let buckets = moving.map(|_| Buckets::new(self.snapshot, self.directory, num_rows, each));
        let mut buckets = buckets.transpose()?;
        let mut record = Vec::new();
        self.snapshot.scan_sparse(tensor, &mut |first, found| {
            for (row, ends) in (first..).zip(found.indptr.windows(2)) {
                let columns = &found.columns[ends[0]..ends[1]];
                let values = &found.values[ends[0]..ends[1]];
                let pushed = match (moving, &mut buckets) {
                    (Some(moving), Some(buckets)) => {
                        encode_sparse(columns, values, &mut record);
                        buckets.push(moving.target(row), &record)
                    }
                    _ => rows.push_row(columns, values).map_err(UpdateError::from),
                };
                pushed?;
            }
            self.steps.step(found.indptr.len() as u64 - 1)
        })?;
        if let Some(buckets) = buckets {
            let (mut at, mut columns, mut values) = (0, Vec::new(), Vec::new());
            buckets.finish(&mut |record| {
                at += 1;
                self.steps.go_on(at)?;
                decode_sparse(record, &mut columns, &mut values);
                Ok(rows.push_row(&columns, &values)?)
            })?;
        }
        Ok(self.builder.add(rows.finish()?)?)
    }

    /// The new order of the rows of a node type, or the old one.
    pub fn order(&mut self, id: NodeTypeId) -> Result<(), UpdateError> {
        if let Some(moving) = self.orders.get(usize::from(id.0)).and_then(Option::as_ref) {
            let mut rows = self.builder.row_order(id, moving.order.num_nodes())?;
            rows.push_order(&moving.order)?;
            return Ok(self.builder.add_row_order(rows.finish()?)?);
        }
        let snapshot = self.snapshot;
        let Some(meta) = snapshot.version.node_type(id)?.order else { return Ok(()) };
        let mut rows = self.builder.row_order(id, meta.num_nodes)?;
        let segment = snapshot.version.segment(meta.segment)?;
        let (layout, num_nodes) = (meta.layout(), meta.num_nodes);
        scan_rows(&snapshot.inner, segment, layout, num_nodes, &mut |_, bytes| {
            rows.push(bytes).map_err(UpdateError::from)
        })?;
        Ok(self.builder.add_row_order(rows.finish()?)?)
    }
}

/// The new order of the rows of an owner.
fn moving(orders: &[Option<Moving>], owner: Owner) -> Option<&Moving> {
    let Owner::Node(id) = owner else { return None };
    orders.get(usize::from(id.0))?.as_ref()
}
