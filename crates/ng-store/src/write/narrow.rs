//! `narrow`: a copy of a store whose rows of floats take fewer bits (GLIST, section 4.1:
//! registration quantises the feature vectors).
//!
//! The copy is built apart and gets its name in one step; the store that it is of is only read.
//! What must not live here: what else is rewritten (`compact.rs`), how numbers are rounded
//! (`ng-simd`).

use std::path::Path;
use std::sync::Arc;

use ng_io::{Existing, StagingDir};
use ng_simd::{ColumnRange, Misfit, RowDecoder, RowEncoder};
use ng_types::Dtype;

use crate::build::spec::TensorSpec;
use crate::catalog::{Owner, TensorMeta, TensorRef};
use crate::store::Snapshot;
use crate::write::compact::{CompactReport, Compaction, Steps, staging_error};
use crate::write::error::UpdateError;

/// Whether the rows of a tensor become narrower: vectors of floats of nodes that are stored wider
/// than that. Single numbers stay, as labels, and so do rows that are stored without their zeros.
pub(super) fn is_narrowed(owner: Owner, meta: &TensorMeta, to: Dtype) -> bool {
    let is_float = matches!(meta.dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16);
    let is_vector = !meta.shape.is_empty() && !meta.is_sparse();
    let is_wider = meta.dtype.size_bytes() > to.size_bytes();
    matches!(owner, Owner::Node(_)) && is_float && is_vector && is_wider
}

/// Copies the snapshot to a store at `target` in which floating-point vectors of nodes are stored
/// as `to`: f16 or bf16, rounded, or i8 with a scale per column. The copy has its own history. An
/// existing copy is replaced; a crash leaves the old one, the new one, or none. `progress` is that
/// of [`crate::compact`]; the first pass over rows that become i8 is not counted.
///
/// # Errors
/// [`UpdateError::Unsupported`] for another `to`, a value that it cannot hold, and where no tensor
/// would become narrower; those of [`crate::compact`].
pub fn narrow(
    snapshot: &Snapshot,
    target: &Path,
    to: Dtype,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<CompactReport, UpdateError> {
    let catalog = snapshot.catalog();
    let is_narrowed = |tensor: TensorRef| {
        catalog.tensor(tensor).is_some_and(|meta| is_narrowed(tensor.owner, meta, to))
    };
    if !matches!(to, Dtype::F16 | Dtype::Bf16 | Dtype::I8) {
        return Err(unsupported(format!("rows cannot be narrowed to {to}; use f16, bf16 or i8")));
    }
    if !catalog.tensor_refs().any(is_narrowed) {
        let what = format!("no node type has floating-point vectors wider than {to}");
        return Err(unsupported(what));
    }
    let staging = StagingDir::create(target, Existing::Replace).map_err(staging_error)?;
    let mut run = Compaction::new(snapshot, staging.path(), progress)?;
    run.narrow = Some(to);
    run.rewrite()?;
    let summary = run.builder.commit()?;
    let leftover = staging.publish().map_err(staging_error)?.map(|error| error.to_string());
    let (bytes_before, bytes_after) = (catalog.disk_bytes(), summary.disk_bytes);
    Ok(CompactReport { bytes_before, bytes_after, checkpoint_id: 1, leftover })
}

fn unsupported(what: String) -> UpdateError {
    UpdateError::Unsupported { what }
}

impl Compaction<'_> {
    /// Writes the rows of a tensor as `to`.
    pub(super) fn narrow_rows(
        &mut self,
        tensor: TensorRef,
        spec: TensorSpec,
        to: Dtype,
    ) -> Result<(), UpdateError> {
        let snapshot = self.snapshot;
        let decoder = snapshot.decoder(tensor, Dtype::F32)?;
        let columns = decoder.out_bytes() / 4;
        let name = spec.name.clone();
        let spec = TensorSpec { dtype: to, ..spec };
        let mut wide = Wide { snapshot, tensor, to, name: &name, decoder, rows: Vec::new() };
        let steps = &mut self.steps;
        let scales = (to == Dtype::I8).then(|| wide.scales(columns, steps)).transpose()?;
        let owner = tensor.owner;
        let mut rows = match &scales {
            Some(scales) => self.builder.scaled_tensor(owner, spec, scales)?,
            None => self.builder.tensor(owner, spec)?,
        };
        let encoder = RowEncoder::new(to, columns, scales)
            .map_err(|error| unsupported(format!("tensor {name:?}: {error}")))?;
        let mut narrowing = Narrowing { wide, encoder, rows: Vec::new() };
        self.dense_rows(tensor, &mut rows, Some(&mut narrowing))?;
        Ok(self.builder.add(rows.finish()?)?)
    }
}

/// Rows of a tensor as f32.
struct Wide<'a> {
    snapshot: &'a Snapshot,
    tensor: TensorRef,
    to: Dtype,
    name: &'a str,
    decoder: RowDecoder,
    rows: Vec<u8>,
}

impl Wide<'_> {
    fn decode(&mut self, stored: &[u8]) {
        let count = stored.len() / self.decoder.stored_bytes().max(1);
        self.rows.resize(count * self.decoder.out_bytes(), 0);
        self.decoder.decode_rows(stored, &mut self.rows);
    }

    /// The scales of the columns, from a pass over all rows.
    fn scales(&mut self, columns: usize, steps: &mut Steps<'_>) -> Result<Arc<[f32]>, UpdateError> {
        let mut range = ColumnRange::new(columns);
        let (snapshot, tensor) = (self.snapshot, self.tensor);
        snapshot.scan_tensor(tensor, &mut |_, stored| {
            self.decode(stored);
            range.add_rows(&self.rows).map_err(|misfit| self.refused(misfit))?;
            steps.step(0)
        })?;
        Ok(range.scales().into())
    }

    fn refused(&self, misfit: Misfit) -> UpdateError {
        let Owner::Node(node_type) = self.tensor.owner else {
            return unsupported(format!("tensor {:?}: {misfit}", self.name));
        };
        // Rows of the file may be in another order.
        let node = match self.snapshot.load_nodes_of_rows(node_type) {
            Ok(Some(nodes)) => nodes.row(misfit.row),
            Ok(None) | Err(_) => misfit.row,
        };
        let Misfit { column, value, .. } = misfit;
        unsupported(format!(
            "tensor {:?}: column {column} of node {node} is {value}, which {} cannot represent; \
             choose a wider type, or change that row",
            self.name, self.to
        ))
    }
}

/// Turns rows as they are stored into narrower ones.
pub(super) struct Narrowing<'a> {
    wide: Wide<'a>,
    encoder: RowEncoder,
    rows: Vec<u8>,
}

impl Narrowing<'_> {
    /// The rows from `first` on.
    pub fn encode(&mut self, first: u64, stored: &[u8]) -> Result<&[u8], UpdateError> {
        self.wide.decode(stored);
        self.rows.clear();
        let encoded = self.encoder.encode_rows(&self.wide.rows, &mut self.rows);
        encoded.map_err(|mut misfit| {
            misfit.row += first;
            self.wide.refused(misfit)
        })?;
        Ok(&self.rows)
    }
}
