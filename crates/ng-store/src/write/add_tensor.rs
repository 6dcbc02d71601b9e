//! A tensor that a store gets after its import: rows from front to back into a segment of their
//! own, then a checkpoint whose catalog has it, which is the commit.
//!
//! What must not live here: what rows mean, and how roots are written (`checkpoint.rs`). The
//! invariants: no root names the files before they are durable; memory does not grow with the
//! rows, but for the order of the node type; the writer's files are locked before its head is
//! taken, as checkpoints do it, and both are held to the end, so nothing else is committed.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use ng_types::NodeTypeId;
use ng_types::canary::planted;

use crate::build::spec::TensorSpec;
use crate::catalog::{Catalog, TensorMeta};
use crate::error::ReadError;
use crate::io::{Disk, WriteError, open_again, past_signals, sync_dir};
use crate::limits::{SEGMENTS_MAX, TYPES_MAX};
use crate::page::{FinishedSegment, Placed, Segment, data_file, table_file};
use crate::rows::order::RowOrder;
use crate::store::Snapshot;
use crate::tensor::writer::{RowsWriter, checked_row_bytes};
use crate::version::base::Version;
use crate::write::buckets::Buckets;
use crate::write::checkpoint::{CheckpointFiles, CheckpointReport};
use crate::write::error::UpdateError;
use crate::write::log::chain;
use crate::write::writer::{Head, Writer};

/// A tensor to add to a store.
#[derive(Clone, Debug)]
pub struct NewTensor {
    /// Whose nodes the rows belong to.
    pub node_type: NodeTypeId,
    /// Name, element type and shape of a row.
    pub spec: TensorSpec,
    /// Rows that will be given, one for each node in the order of ids.
    pub num_rows: u64,
    /// The commit that the rows are for; `None` is the newest one. Nodes that came after it get
    /// rows of zeros, as if they had come after the tensor.
    pub lsn: Option<u64>,
}

/// Gives the next rows, whole ones, little-endian, one after the other; leaves the buffer, which is
/// empty, as it is when there are no more.
pub type NextRows<'a, E> = dyn FnMut(&mut Vec<u8>) -> Result<(), E> + 'a;

/// Takes some rows, and the first of their nodes.
type TakeRows<'a> = dyn FnMut(u64, &[u8]) -> Result<(), UpdateError> + 'a;

/// Adds a tensor to the store of `writer`. After an error the store does not have it, unless the
/// writer is poisoned: then it may have it or not.
pub(crate) fn add_tensor<E: From<UpdateError>>(
    writer: &Writer,
    new: &NewTensor,
    next: &mut NextRows<'_, E>,
) -> Result<CheckpointReport, E> {
    let files = &mut *writer.files.lock().unwrap_or_else(PoisonError::into_inner);
    let mut head = writer.take_durable_head()?;
    let done = add_to(writer, files, &mut head, new, next);
    match &done {
        Ok(_) => writer.give_back_rebased(head),
        Err(_) => writer.give_back(head),
    }
    writer.count_checkpoint(files);
    let _ = writer.pool.settle(|bytes| writer.inner.try_reserve(bytes));
    done
}

fn add_to<E: From<UpdateError>>(
    writer: &Writer,
    files: &mut CheckpointFiles,
    head: &mut Head,
    new: &NewTensor,
    next: &mut NextRows<'_, E>,
) -> Result<CheckpointReport, E> {
    let inner = &writer.inner;
    let meta = check(&head.version, new)?;
    let disk = match &inner.place {
        // Files that are given up before the tensor is known are closed with this one.
        Some(place) => open_again(place).map_err(|error| unsupported(error.to_string()))?,
        None => Arc::clone(inner.pages.reader.disk()),
    };
    let catalog = Arc::clone(&head.version.catalog);
    remove_leftovers(disk.as_ref(), &catalog).map_err(UpdateError::from)?;
    let run = Addition { writer, version: &head.version, new, disk: &disk };
    let done = run.write(&meta, next).and_then(|segment| {
        if !planted("skip_tensor_name_sync") {
            // After a failed sync another one proves nothing.
            let synced = sync_dir(disk.as_ref()).inspect_err(|error| writer.poison(error));
            synced.map_err(UpdateError::from)?;
        }
        Ok(run.version_with(meta, segment)?)
    });
    let done = done.and_then(|next| Ok(writer.publish_as_checkpoint(files, head, next)?));
    if done.is_err() && writer.check().is_ok() {
        // No root was written that may name them. What stays is removed by the next writer.
        let _ = remove_leftovers(disk.as_ref(), &catalog);
    }
    done
}

/// What the catalog will say of the tensor, if it may have it.
fn check(version: &Version, new: &NewTensor) -> Result<TensorMeta, UpdateError> {
    let NewTensor { node_type, spec, num_rows, lsn } = new;
    let catalog = &version.catalog;
    let owner = catalog.node_type(*node_type)?;
    let (of, name, live) = (&owner.name, &spec.name, owner.num_nodes);
    if name.is_empty() {
        return Err(unsupported("a tensor needs a name".into()));
    }
    if owner.tensor(name).is_some() {
        return Err(unsupported(format!(
            "node type {of:?} already has a tensor {name:?}: choose another name, or update its \
             rows"
        )));
    }
    if owner.tensors.len() >= TYPES_MAX || catalog.segments.len() >= SEGMENTS_MAX {
        return Err(unsupported(format!(
            "cannot add tensor {name:?}: the store has reached its limit of tensors"
        )));
    }
    if let Some(lsn) = lsn.filter(|lsn| *lsn > version.lsn) {
        return Err(unsupported(format!(
            "the rows of tensor {name:?} are for commit {lsn}, but the store is at commit {}: the \
             store was rewritten; compute the rows again",
            version.lsn
        )));
    }
    let is_newest = lsn.is_none_or(|lsn| lsn == version.lsn);
    if (is_newest && *num_rows != live) || *num_rows > live {
        return Err(unsupported(format!(
            "tensor {name:?} has {num_rows} rows, but node type {of:?} has {live} ids: give a row \
             for every id, including deleted nodes"
        )));
    }
    if !is_newest && catalog.reuse_ids {
        let (then, now) = (lsn.unwrap_or_default(), version.lsn);
        return Err(unsupported(format!(
            "the rows of tensor {name:?} are for commit {then}, but the store is at commit {now} \
             and reuses ids of deleted nodes: compute the rows again"
        )));
    }
    let segment = catalog.segments.len() as u32;
    let file = segment_name(segment);
    if catalog.segments.iter().any(|other| other.name == file) {
        return Err(unsupported(format!("the store already has a file {file}; compact the store")));
    }
    let meta = TensorMeta {
        name: name.clone(),
        dtype: spec.dtype,
        shape: spec.shape.clone(),
        num_rows: live,
        mask_width: spec.mask_width,
        segment,
        scales: None,
        sparse: None,
        class_names: Vec::new(),
    };
    checked_row_bytes(&meta).map_err(|error| unsupported(error.to_string()))?;
    match meta.layout().num_pages(live) {
        Some(_) => Ok(meta),
        None => Err(unsupported(format!(
            "tensor {name:?}: {live} rows exceed the size limit of a file"
        ))),
    }
}

fn unsupported(what: String) -> UpdateError {
    UpdateError::Unsupported { what }
}

fn segment_name(segment: u32) -> String {
    format!("t{segment}")
}

/// Removes the files that a tensor would get that is added to a store with this catalog: an
/// addition that was not finished has left them.
pub(crate) fn remove_leftovers(disk: &dyn Disk, catalog: &Catalog) -> Result<(), WriteError> {
    let name = segment_name(catalog.segments.len() as u32);
    if catalog.segments.iter().any(|segment| segment.name == name) {
        return Ok(());
    }
    for file in [data_file(&name), table_file(&name)] {
        match past_signals(|| disk.remove(&file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let source = Arc::new(error);
                return Err(WriteError::Create { file: file.into(), source });
            }
            _ => {}
        }
    }
    Ok(())
}

/// An addition under way.
struct Addition<'a> {
    writer: &'a Writer,
    version: &'a Version,
    new: &'a NewTensor,
    disk: &'a Arc<dyn Disk>,
}

impl Addition<'_> {
    /// Writes all rows and makes them durable.
    fn write<E: From<UpdateError>>(
        &self,
        meta: &TensorMeta,
        next: &mut NextRows<'_, E>,
    ) -> Result<FinishedSegment, E> {
        let (inner, version) = (Arc::clone(&self.writer.inner), Arc::new(self.version.clone()));
        let snapshot = Snapshot { inner, version };
        let order = snapshot.load_order(self.new.node_type).map_err(UpdateError::from)?;
        let width = meta.row_bytes();
        let rows = RowsWriter::create(self.disk, meta.segment, width).map_err(UpdateError::from)?;
        let mut rows = rows.of_checkpoint(self.version.base.checkpoint_id + 1);
        match order {
            None => self.each(meta, next, &mut |_, bytes| Ok(rows.push(bytes)?))?,
            Some(order) => self.in_order(&snapshot, &order, meta, &mut rows, next)?,
        }
        Ok(rows.finish().map_err(UpdateError::from)?)
    }

    /// Lends some rows after the other, with the first of their nodes; then those of zeros.
    fn each<E: From<UpdateError>>(
        &self,
        meta: &TensorMeta,
        next: &mut NextRows<'_, E>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), E> {
        let (width, given) = (meta.row_bytes() as usize, self.new.num_rows);
        let mut buffer = Vec::new();
        let mut at = 0;
        loop {
            buffer.clear();
            next(&mut buffer)?;
            // Somebody may have closed the store.
            self.writer.check()?;
            if buffer.is_empty() {
                break;
            }
            let count = (buffer.len() / width) as u64;
            if !buffer.len().is_multiple_of(width) || count > given - at {
                let (name, len) = (&meta.name, buffer.len());
                let what = format!(
                    "tensor {name:?}: got {len} bytes after {at} rows; expected {given} rows of \
                     {width} bytes each"
                );
                return Err(unsupported(what).into());
            }
            take(at, &buffer)?;
            at += count;
        }
        if at != given {
            let what = format!("tensor {:?}: got {at} rows, expected {given}", meta.name);
            return Err(unsupported(what).into());
        }
        buffer.resize(width, 0);
        Ok((given..meta.num_rows).try_for_each(|row| take(row, &buffer))?)
    }

    /// Puts rows where the order of the node type has them.
    fn in_order<E: From<UpdateError>>(
        &self,
        snapshot: &Snapshot,
        order: &RowOrder,
        meta: &TensorMeta,
        rows: &mut RowsWriter,
        next: &mut NextRows<'_, E>,
    ) -> Result<(), E> {
        let width = meta.row_bytes();
        let directory = Path::new(&snapshot.inner.path);
        let mut buckets = Buckets::new(snapshot, directory, meta.num_rows, width)?;
        self.each(meta, next, &mut |first, bytes| {
            let mut each = (first..).zip(bytes.chunks_exact(width as usize));
            each.try_for_each(|(node, row)| buckets.push(order.row(node), row))
        })?;
        Ok(buckets.finish(&mut |row| Ok(rows.push(row)?))?)
    }

    /// The version that has the tensor.
    fn version_with(
        &self,
        meta: TensorMeta,
        segment: FinishedSegment,
    ) -> Result<Version, UpdateError> {
        let (version, inner) = (self.version, &self.writer.inner);
        let NewTensor { node_type, .. } = self.new;
        let placed = Placed::open(&inner.pages.reader, &inner.path, segment.id, &segment.meta)?;
        let mut operations = node_type.0.to_le_bytes().to_vec();
        for part in [serde_json::to_vec(&meta), serde_json::to_vec(&segment.meta)] {
            operations.extend(part.map_err(|error| unsupported(error.to_string()))?);
        }
        let mut catalog = Catalog::clone(&version.catalog);
        catalog.segments.push(segment.meta);
        let owner = catalog.node_types.get_mut(usize::from(node_type.0));
        let missing = || ReadError::Missing { what: format!("node type {}", node_type.0) };
        owner.ok_or_else(missing)?.tensors.push(meta);
        let mut segments = version.segments.clone();
        segments.push(Segment::unchanged(Arc::new(placed)));
        let lsn = version.lsn + 1;
        let fingerprint = chain(version.fingerprint, lsn, &operations);
        let (base, catalog) = (Arc::clone(&version.base), Arc::new(catalog));
        Ok(Version { base, catalog, segments, lsn, fingerprint })
    }
}
