//! Sparse rows: whether a tensor is stored sparsely, and how its rows are pushed.
//!
//! The rule: rows are stored sparsely if that takes at most a third of their bytes. Rows that are
//! given densely must also have at most 10 % nonzero values.

use ng_store::{Owner, SparseValue, TensorSpec};
use ng_types::Dtype;

use crate::failure::store_error;
use crate::tensors::{OpenTensor, TakeRow, Writer, wrong};
use crate::{IdSlice, ImportError, Importer, TensorId};

/// Tensors of fewer bytes are not worth it: their rows could not be changed later.
const DENSE_BYTES_MIN: u64 = 1 << 20;
/// What says where the entries of a row are.
const SPAN_BYTES: u64 = 8;

/// Compressed sparse rows as given. Columns can be in any order; values of repeated columns are
/// added; values can be zero.
#[derive(Clone, Copy, Debug)]
pub struct CsrChunk<'a> {
    /// Row `i` has the entries `indptr[i] - indptr[0]..indptr[i + 1] - indptr[0]`.
    pub indptr: &'a [i64],
    /// Columns.
    pub columns: IdSlice<'a>,
    /// Values; `None` means that all are 1.
    pub values: Option<&'a [f32]>,
}

/// Counts in a first pass over rows of f32 how many bytes they need as sparse rows.
#[derive(Clone, Copy, Debug)]
pub struct SparseProbe {
    columns: u64,
    rows: u64,
    entries: u64,
    value: SparseValue,
    /// The tenth is asked for.
    is_dense: bool,
}

impl SparseProbe {
    /// Creates a probe for rows of `columns` elements.
    pub fn new(columns: u64) -> Self {
        Self { columns, rows: 0, entries: 0, value: SparseValue::One, is_dense: false }
    }

    /// Adds consecutive dense rows of f32. -0 counts as zero, NaN does not.
    pub fn add_dense(&mut self, rows: &[u8]) {
        self.is_dense = true;
        self.rows += rows.len() as u64 / (4 * self.columns).max(1);
        let values = rows.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
        let (mut entries, mut one, mut u8) = (0, true, true);
        for value in values {
            let is_entry = value != 0.0;
            entries += u64::from(is_entry);
            one &= !is_entry | (value == 1.0);
            u8 &= !is_entry | (f32::from(value as u8) == value);
        }
        self.note(entries, one, u8);
    }

    /// Adds compressed sparse rows.
    ///
    /// # Errors
    /// [`ImportError::Spec`] if they are not valid.
    pub fn add_csr(&mut self, chunk: CsrChunk<'_>) -> Result<(), ImportError> {
        for_each_row(chunk, self.columns, self.rows, &mut |_, values| {
            let one = values.iter().all(|value| *value == 1.0);
            let u8 = values.iter().all(|value| f32::from(*value as u8) == *value);
            self.note(values.len() as u64, one, u8);
            Ok(())
        })?;
        self.rows += (chunk.indptr.len() as u64).saturating_sub(1);
        Ok(())
    }

    fn note(&mut self, entries: u64, one: bool, u8: bool) {
        self.entries += entries;
        let value = match (one, u8) {
            (true, _) => SparseValue::One,
            (_, true) => SparseValue::U8,
            _ => SparseValue::F32,
        };
        self.value = self.value.max(value);
    }

    /// The type of values that fits all rows so far.
    pub fn value(&self) -> SparseValue {
        self.value
    }

    /// Whether `rows` rows should be stored sparsely. Before the last row: whether that is still
    /// possible.
    pub fn pays(&self, rows: u64) -> bool {
        let column_bytes = if self.columns <= 1 << 16 { 2 } else { 4 };
        let entry_bytes = column_bytes + self.value.size_bytes() as u64;
        let elements = rows.saturating_mul(self.columns);
        let dense_bytes = elements.saturating_mul(4);
        let bytes = rows.saturating_mul(SPAN_BYTES) + self.entries.saturating_mul(entry_bytes);
        let is_rare = !self.is_dense || self.entries.saturating_mul(10) <= elements;
        is_rare && dense_bytes >= DENSE_BYTES_MIN && bytes.saturating_mul(3) <= dense_bytes
    }
}

impl Importer {
    /// Begins a tensor of sparse rows of f32. `value` is the type of values that a [`SparseProbe`]
    /// found. Sparse rows cannot be changed in the store.
    ///
    /// # Errors
    /// As [`Importer::begin_tensor`].
    pub fn begin_sparse_tensor(
        &mut self,
        owner: Owner,
        name: &str,
        shape: &[u64],
        value: SparseValue,
    ) -> Result<TensorId, ImportError> {
        let (name, shape) = (name.to_owned(), shape.to_vec());
        let spec = TensorSpec { name, dtype: Dtype::F32, shape, mask_width: None };
        let row_bytes = self.check_tensor(owner, &spec, Dtype::F32)?;
        let builder = self.builder()?;
        let writer = builder.sparse_tensor(owner, spec.clone(), value).map_err(store_error)?;
        let writer = Writer::Sparse(Box::new(writer));
        Ok(self.open_tensor(OpenTensor::new(owner, spec, writer, row_bytes)))
    }

    /// Appends rows to a sparse tensor. [`Importer::push_rows`] appends dense rows instead.
    ///
    /// # Errors
    /// [`ImportError::Spec`] for rows that are not valid and values that do not fit,
    /// [`ImportError::DiskFull`], [`ImportError::Store`].
    pub fn push_csr_rows(
        &mut self,
        tensor: TensorId,
        chunk: CsrChunk<'_>,
    ) -> Result<(), ImportError> {
        let open = self.tensor(tensor, &[])?;
        let (columns, spec) = (open.row_bytes / 4, open.spec.clone());
        let OpenTensor { writer, not_finite, .. } = open;
        let Some(Writer::Sparse(writer)) = writer else {
            return Err(wrong(&spec, "it is not a sparse tensor"));
        };
        let first = writer.num_rows();
        let pushed = for_each_row(chunk, columns, first, &mut |columns, values| {
            not_finite.add_values(values, writer.num_rows());
            writer.push_row(columns, values).map_err(store_error)
        });
        let rows = writer.num_rows() - first;
        self.count_rows(tensor, rows, rows * SPAN_BYTES + 4 * chunk.columns.len() as u64);
        self.note(pushed)
    }
}

/// Rows of a chunk in order of columns, each column once, without zeros.
fn for_each_row(
    chunk: CsrChunk<'_>,
    num_columns: u64,
    first_row: u64,
    take: &mut TakeRow<'_>,
) -> Result<(), ImportError> {
    let CsrChunk { indptr, columns: ids, values } = chunk;
    let bad = |row: u64, what: String| {
        let array = "sparse rows".to_owned();
        Err(ImportError::Row { array, row, what: what.into() })
    };
    let start = indptr.first().copied().unwrap_or(0);
    if values.is_some_and(|values| values.len() != ids.len())
        || indptr.last().map_or(Some(0), |last| last.checked_sub(start)) != Some(ids.len() as i64)
    {
        return bad(first_row, "the lengths of indptr, columns and values do not match".into());
    }
    let mut entries: Vec<(u32, f32)> = Vec::new();
    let (mut columns, mut summed) = (Vec::new(), Vec::new());
    for (row, range) in (first_row..).zip(indptr.windows(2)) {
        let end = start.saturating_add(ids.len() as i64);
        if range[0] < start || range[1] < range[0] || end < range[1] {
            return bad(row, "indptr decreases, or exceeds the number of entries".into());
        }
        entries.clear();
        for at in (range[0] - start) as usize..(range[1] - start) as usize {
            let column = ids.at(at);
            if !(0..i128::from(num_columns)).contains(&column) {
                return bad(
                    row,
                    format!("column {column} is out of range: rows have {num_columns} columns"),
                );
            }
            entries.push((column as u32, values.map_or(1.0, |values| values[at])));
        }
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            // Stable, so that equal columns are added up in the order in which they came.
            entries.sort_by_key(|entry| entry.0);
        }
        columns.clear();
        summed.clear();
        for same in entries.chunk_by(|a, b| a.0 == b.0) {
            let value = same.iter().fold(0.0, |sum: f32, entry| sum + entry.1);
            if value != 0.0 {
                columns.push(same[0].0);
                summed.push(value);
            }
        }
        take(&columns, &summed)?;
    }
    Ok(())
}
