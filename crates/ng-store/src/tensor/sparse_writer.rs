//! Writing rows without their zeros in one pass.

use std::sync::Arc;

use crate::build::spec::Part;
use crate::catalog::{Owner, SparseMeta, SparseValue, TensorMeta};
use crate::error::BuildError;
use crate::io::Disk;
use crate::limits::{SPARSE_ENTRIES_MAX, SPARSE_ROW_ENTRIES_MAX};
use crate::tensor::layout::SPAN_BYTES;
use crate::tensor::sparse::{EntryForm, Span};
use crate::tensor::writer::{RowsWriter, TensorPart, checked_row_bytes};

/// Writes the rows of a sparse tensor, in row order. Made by
/// [`crate::StoreBuilder::sparse_tensor`].
pub struct SparseWriter {
    owner: Owner,
    slot: u16,
    meta: TensorMeta,
    form: EntryForm,
    spans: RowsWriter,
    entries: RowsWriter,
    encoded: Vec<u8>,
}

impl SparseWriter {
    /// `entries` is the segment of the entries.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        owner: Owner,
        slot: u16,
        mut meta: TensorMeta,
        (entries, value): (u32, SparseValue),
    ) -> Result<Self, BuildError> {
        checked_row_bytes(&meta)?;
        let form = EntryForm::new(meta.num_columns(), value);
        let column_bytes = form.column_bytes;
        meta.sparse = Some(SparseMeta { entries, num_entries: 0, column_bytes, value });
        let spans = RowsWriter::create(disk, meta.segment, SPAN_BYTES)?;
        let entries = RowsWriter::create(disk, entries, form.entry_bytes() as u64)?;
        Ok(Self { owner, slot, meta, form, spans, entries, encoded: Vec::new() })
    }

    /// Rows pushed so far.
    pub fn num_rows(&self) -> u64 {
        self.spans.num_rows
    }

    /// Appends a row: its columns, ascending, and what stands there, none of it 0.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for columns that do not ascend or are not of the row, for values
    /// that do not fit, and for too many of them; [`BuildError::Write`].
    pub fn push_row(&mut self, columns: &[u32], values: &[f32]) -> Result<(), BuildError> {
        let (count, num_columns) = (columns.len() as u64, self.meta.num_columns());
        let in_row = columns.last().is_none_or(|last| u64::from(*last) < num_columns);
        if values.len() != columns.len() || !columns.is_sorted_by(|a, b| a < b) || !in_row {
            return Err(
                self.wrong("columns must be ascending and in range, and each needs a value")
            );
        }
        let span = Span { start: self.entries.num_rows, count };
        if count > SPARSE_ROW_ENTRIES_MAX || span.end() > SPARSE_ENTRIES_MAX {
            return Err(self.wrong("too many entries for sparse rows; store the tensor dense"));
        }
        self.encoded.clear();
        for (column, value) in columns.iter().zip(values) {
            if !self.form.encode(*column, *value, &mut self.encoded) {
                let kind = self.form.value.name();
                let what = format!(
                    "column {column}: {value} is not a valid sparse value of kind {kind:?}"
                );
                return Err(self.wrong(&what));
            }
        }
        self.entries.push(&self.encoded)?;
        // Zeros for a row without entries, as a new node has them.
        let span = if count == 0 { Span::default() } else { span };
        self.spans.push(&span.encode())
    }

    fn wrong(&self, what: &str) -> BuildError {
        let (name, row) = (&self.meta.name, self.num_rows());
        BuildError::invalid(format!("tensor {name:?}, row {row}: {what}"))
    }

    /// Writes what is left and makes it durable.
    ///
    /// # Errors
    /// [`BuildError::Write`].
    pub fn finish(self) -> Result<Part, BuildError> {
        let Self { owner, slot, mut meta, spans, entries, .. } = self;
        meta.num_rows = spans.num_rows;
        if let Some(sparse) = &mut meta.sparse {
            sparse.num_entries = entries.num_rows;
        }
        let (segment, beside) = (spans.finish()?, Some(entries.finish()?));
        Ok(Part::Tensor(TensorPart { owner, slot, meta, segment, beside }))
    }
}
