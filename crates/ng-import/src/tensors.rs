//! Tensors on their way to the store, and when they were written.

use std::sync::Arc;
use std::time::Instant;

use ng_simd::{ColumnRange, RowEncoder};
use ng_store::{Owner, Part, SparseWriter, TensorSpec, TensorWriter};
use ng_types::Dtype;

use crate::failure::store_error;
use crate::finite::NotFinite;
use crate::{ImportError, Importer};

/// A tensor of an import, by the order of [`Importer::begin_tensor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorId(pub usize);

/// The tensors of an import.
#[derive(Default)]
pub(crate) struct Tensors {
    pub open: Vec<OpenTensor>,
    /// When tensors were written first and last.
    pub span: Option<(Instant, Instant)>,
    pub written_bytes: u64,
}

pub(crate) struct OpenTensor {
    pub owner: Owner,
    pub rows: u64,
    pub spec: TensorSpec,
    /// Bytes of a row as it is pushed.
    pub row_bytes: u64,
    pub not_finite: NotFinite,
    narrow: Option<Narrow>,
    /// `None` until the scales are known.
    pub writer: Option<Writer>,
}

/// Where rows go.
pub(crate) enum Writer {
    Rows(Box<TensorWriter>),
    Sparse(Box<SparseWriter>),
}

impl OpenTensor {
    pub fn new(owner: Owner, spec: TensorSpec, writer: Writer, row_bytes: u64) -> Self {
        Self {
            owner,
            spec,
            writer: Some(writer),
            row_bytes,
            not_finite: NotFinite::default(),
            narrow: None,
            rows: 0,
        }
    }
}

impl Writer {
    fn push_rows(&mut self, rows: &[u8], row_bytes: u64) -> Result<(), ImportError> {
        match self {
            Self::Rows(writer) => writer.push_rows(rows).map_err(store_error),
            Self::Sparse(writer) => for_each_dense_row(rows, row_bytes, &mut |columns, values| {
                writer.push_row(columns, values).map_err(store_error)
            }),
        }
    }

    fn finish(self) -> Result<Part, ImportError> {
        match self {
            Self::Rows(writer) => writer.finish(),
            Self::Sparse(writer) => writer.finish(),
        }
        .map_err(store_error)
    }
}

/// Takes the columns of a row that are not 0, and what stands there.
pub(crate) type TakeRow<'a> = dyn FnMut(&[u32], &[f32]) -> Result<(), ImportError> + 'a;

/// What is not 0 in rows of f32 that stand one after the other, row by row.
fn for_each_dense_row(
    rows: &[u8],
    row_bytes: u64,
    take: &mut TakeRow<'_>,
) -> Result<(), ImportError> {
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for row in rows.chunks_exact((row_bytes as usize).max(4)) {
        columns.clear();
        values.clear();
        let all = row.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
        for (column, value) in (0..).zip(all).filter(|(_, value)| *value != 0.0) {
            columns.push(column);
            values.push(value);
        }
        take(&columns, &values)?;
    }
    Ok(())
}

/// Rows that come as f32 and are stored as something else.
struct Narrow {
    /// Of the first pass.
    range: Option<ColumnRange>,
    encoder: Option<RowEncoder>,
    encoded: Vec<u8>,
}

impl Importer {
    /// Begins a tensor of a node or edge type: rows of `shape` elements, row `i` for node or edge
    /// id `i`. `mask_width` is stored for masks that were converted to splits.
    ///
    /// # Errors
    /// [`ImportError::Store`] for a name that is in use or a row that is too wide.
    pub fn begin_tensor(
        &mut self,
        owner: Owner,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        mask_width: Option<u32>,
    ) -> Result<TensorId, ImportError> {
        let spec = TensorSpec { name: name.to_owned(), dtype, shape: shape.to_vec(), mask_width };
        let row_bytes = self.check_tensor(owner, &spec, dtype)?;
        let writer = self.builder()?.tensor(owner, spec.clone()).map_err(store_error)?;
        Ok(self.open_tensor(OpenTensor::new(
            owner,
            spec,
            Writer::Rows(Box::new(writer)),
            row_bytes,
        )))
    }

    /// Begins a tensor of classes, one i64 for each node or edge: an index into `class_names`, or
    /// -1 for none. The store keeps the names.
    ///
    /// # Errors
    /// As [`Importer::begin_tensor`].
    pub fn begin_class_tensor(
        &mut self,
        owner: Owner,
        name: &str,
        class_names: Vec<String>,
    ) -> Result<TensorId, ImportError> {
        let (name, shape) = (name.to_owned(), Vec::new());
        let spec = TensorSpec { name, dtype: Dtype::I64, shape, mask_width: None };
        let row_bytes = self.check_tensor(owner, &spec, Dtype::I64)?;
        let builder = self.builder()?;
        let writer = builder.class_tensor(owner, spec.clone(), class_names).map_err(store_error)?;
        let writer = Writer::Rows(Box::new(writer));
        Ok(self.open_tensor(OpenTensor::new(owner, spec, writer, row_bytes)))
    }

    /// Begins a tensor whose rows are pushed as f32 and stored as `stored`: f16, bf16, f32, or i8
    /// with a scale for each column. For i8, pass all rows twice: first to
    /// [`Importer::measure_rows`], which finds the scales, then to [`Importer::push_rows`].
    ///
    /// # Errors
    /// As [`Importer::begin_tensor`]; [`ImportError::Spec`] for another `stored`.
    pub fn begin_narrow_tensor(
        &mut self,
        owner: Owner,
        name: &str,
        stored: Dtype,
        shape: &[u64],
    ) -> Result<TensorId, ImportError> {
        let (name, shape) = (name.to_owned(), shape.to_vec());
        let spec = TensorSpec { name, dtype: stored, shape, mask_width: None };
        let row_bytes = self.check_tensor(owner, &spec, Dtype::F32)?;
        let columns = (row_bytes / 4) as usize;
        let mut narrow = Narrow { range: None, encoder: None, encoded: Vec::new() };
        let mut writer = None;
        if stored == Dtype::I8 {
            narrow.range = Some(ColumnRange::new(columns));
        } else {
            let encoder = RowEncoder::new(stored, columns, None);
            narrow.encoder = Some(encoder.map_err(|error| wrong(&spec, &error.to_string()))?);
            let rows = self.builder()?.tensor(owner, spec.clone()).map_err(store_error)?;
            writer = Some(Writer::Rows(Box::new(rows)));
        }
        let narrow = Some(narrow);
        let not_finite = NotFinite::default();
        let open = OpenTensor { owner, spec, writer, row_bytes, not_finite, narrow, rows: 0 };
        Ok(self.open_tensor(open))
    }

    /// The first pass over the rows of an i8 tensor: finds the largest magnitude of each column.
    ///
    /// # Errors
    /// [`ImportError::Spec`] for a NaN or an infinity, an incomplete row, or a tensor that needs no
    /// first pass.
    pub fn measure_rows(&mut self, tensor: TensorId, rows: &[u8]) -> Result<(), ImportError> {
        let open = self.tensor(tensor, rows)?;
        let range = open.narrow.as_mut().and_then(|narrow| narrow.range.as_mut());
        let range = range.filter(|_| open.writer.is_none());
        let spec = &open.spec;
        let range = range.ok_or_else(|| {
            wrong(spec, "rows can be measured only for int8, and only before the first push")
        })?;
        range.add_rows(rows).map_err(|misfit| {
            wrong(
                spec,
                &format!(
                    "{misfit}, which int8 cannot represent; use f16 or bf16, or replace the value"
                ),
            )
        })
    }

    /// Appends consecutive rows, little-endian.
    ///
    /// # Errors
    /// [`ImportError::Spec`] for an incomplete row or a value that does not fit,
    /// [`ImportError::DiskFull`], [`ImportError::Store`].
    pub fn push_rows(&mut self, tensor: TensorId, rows: &[u8]) -> Result<(), ImportError> {
        self.tensor(tensor, rows)?;
        self.settle_scales(tensor)?;
        let open = self.tensor(tensor, rows)?;
        let (first, count) = (open.rows, rows.len() as u64 / open.row_bytes);
        let given = if open.narrow.is_some() { Dtype::F32 } else { open.spec.dtype };
        open.not_finite.add(given, rows, open.row_bytes, first);
        let writer = open.writer.as_mut().ok_or_else(|| wrong(&open.spec, "it has no writer"))?;
        let mut stored = rows;
        if let Some(Narrow { encoder: Some(encoder), encoded, .. }) = &mut open.narrow {
            encoded.clear();
            encoder.encode_rows(rows, encoded).map_err(|mut misfit| {
                misfit.row += first;
                wrong(&open.spec, &format!("{misfit}, which its dtype cannot represent; use f32"))
            })?;
            stored = encoded;
        }
        let pushed = writer.push_rows(stored, open.row_bytes);
        let bytes = stored.len() as u64;
        self.count_rows(tensor, count, bytes);
        self.note(pushed)
    }

    /// Counts rows that were written.
    pub(crate) fn count_rows(&mut self, tensor: TensorId, rows: u64, bytes: u64) {
        if let Some(open) = self.tensors.open.get_mut(tensor.0) {
            open.rows += rows;
        }
        self.tensors.written_bytes += bytes;
        if let Some((_, last)) = &mut self.tensors.span {
            *last = Instant::now();
        }
    }

    /// The finished tensors.
    pub(crate) fn finish_tensors(&mut self) -> Result<Vec<Part>, ImportError> {
        for index in 0..self.tensors.open.len() {
            self.settle_scales(TensorId(index))?;
        }
        let open = std::mem::take(&mut self.tensors.open);
        for tensor in &open {
            self.note_tensor(tensor);
        }
        let writers = open.into_iter().filter_map(|tensor| tensor.writer);
        writers.map(Writer::finish).collect()
    }

    /// Ends the first pass over an i8 tensor, if that is not done yet.
    fn settle_scales(&mut self, tensor: TensorId) -> Result<(), ImportError> {
        let Some(open) = self.tensors.open.get(tensor.0).filter(|open| open.writer.is_none())
        else {
            return Ok(());
        };
        let (owner, spec) = (open.owner, open.spec.clone());
        let range = open.narrow.as_ref().and_then(|narrow| narrow.range.as_ref());
        let scales: Arc<[f32]> = range.map(ColumnRange::scales).unwrap_or_default().into();
        let encoder = RowEncoder::new(spec.dtype, scales.len(), Some(Arc::clone(&scales)));
        let encoder = encoder.map_err(|error| wrong(&spec, &error.to_string()))?;
        let writer = self.builder()?.scaled_tensor(owner, spec, &scales).map_err(store_error)?;
        if let Some(open) = self.tensors.open.get_mut(tensor.0) {
            open.writer = Some(Writer::Rows(Box::new(writer)));
            open.narrow = Some(Narrow { range: None, encoder: Some(encoder), encoded: Vec::new() });
        }
        Ok(())
    }

    /// Bytes of a row of `given` elements.
    pub(crate) fn check_tensor(
        &mut self,
        owner: Owner,
        spec: &TensorSpec,
        given: Dtype,
    ) -> Result<u64, ImportError> {
        self.check_sound()?;
        let shape = &spec.shape;
        let elements = shape.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        let row_bytes = elements.and_then(|count| count.checked_mul(given.size_bytes() as u64));
        let row_bytes = row_bytes
            .ok_or_else(|| wrong(spec, &format!("a row of shape {shape:?} is too large")))?;
        if let Owner::Edge(id) = owner {
            let index = self.edge_index(id)?;
            if !self.edge_types[index].spec.edge_ids {
                let what = "an edge tensor needs edge ids: declare the edge type with edge ids";
                return Err(wrong(spec, what));
            }
        }
        Ok(row_bytes)
    }

    pub(crate) fn open_tensor(&mut self, tensor: OpenTensor) -> TensorId {
        let now = Instant::now();
        self.tensors.open.push(tensor);
        self.tensors.span.get_or_insert((now, now));
        TensorId(self.tensors.open.len() - 1)
    }

    /// An open tensor that `rows` are whole rows of.
    pub(crate) fn tensor(
        &mut self,
        tensor: TensorId,
        rows: &[u8],
    ) -> Result<&mut OpenTensor, ImportError> {
        self.check_sound()?;
        let unknown = || ImportError::spec(format!("tensor {} does not exist", tensor.0));
        let open = self.tensors.open.get_mut(tensor.0).ok_or_else(unknown)?;
        let (bytes, row_bytes) = (rows.len() as u64, open.row_bytes);
        if row_bytes == 0 || !bytes.is_multiple_of(row_bytes) {
            let what =
                format!("{bytes} bytes is not a multiple of the row size, {row_bytes} bytes");
            return Err(wrong(&open.spec, &what));
        }
        Ok(open)
    }
}

pub(crate) fn wrong(spec: &TensorSpec, what: &str) -> ImportError {
    ImportError::spec(format!("tensor {:?} ({}): {what}", spec.name, spec.dtype))
}
