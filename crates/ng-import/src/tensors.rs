//! Tensors on their way to the store, and when they were written.

use std::time::Instant;

use ng_store::{Owner, TensorSpec, TensorWriter};
use ng_types::Dtype;

use crate::failure::store_error;
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
    pub name: String,
    pub writer: TensorWriter,
    pub row_bytes: u64,
    pub rows: u64,
}

impl Importer {
    /// Begins a tensor of a node or edge type: rows of `shape` elements, row `i` for node or edge
    /// id `i`. `mask_width` is remembered for masks that were turned into splits.
    ///
    /// # Errors
    /// [`ImportError::Store`] for a name that is taken or a row that is too wide.
    pub fn begin_tensor(
        &mut self,
        owner: Owner,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        mask_width: Option<u32>,
    ) -> Result<TensorId, ImportError> {
        self.check_sound()?;
        let now = Instant::now();
        let elements = shape.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        let row_bytes = elements.and_then(|count| count.checked_mul(dtype.size_bytes() as u64));
        let row_bytes = row_bytes.ok_or_else(|| {
            ImportError::spec(format!("tensor {name:?}: a row of shape {shape:?} is too large"))
        })?;
        if let Owner::Edge(id) = owner {
            let index = self.edge_index(id)?;
            if !self.edge_types[index].spec.edge_ids {
                return Err(ImportError::spec(format!(
                    "tensor {name:?}: rows of edge tensors are found by edge ids: declare the \
                     edge type with edge_ids"
                )));
            }
        }
        let name = name.to_owned();
        let spec = TensorSpec { name: name.clone(), dtype, shape: shape.to_vec(), mask_width };
        let writer = self.builder()?.tensor(owner, spec).map_err(store_error)?;
        self.tensors.open.push(OpenTensor { owner, name, writer, row_bytes, rows: 0 });
        self.tensors.span.get_or_insert((now, now));
        Ok(TensorId(self.tensors.open.len() - 1))
    }

    /// Appends whole rows, little-endian, one after the other.
    ///
    /// # Errors
    /// [`ImportError::Spec`] for bytes that are no whole rows, [`ImportError::DiskFull`],
    /// [`ImportError::Store`].
    pub fn push_rows(&mut self, tensor: TensorId, rows: &[u8]) -> Result<(), ImportError> {
        self.check_sound()?;
        let unknown = || ImportError::spec(format!("there is no tensor {}", tensor.0));
        let open = self.tensors.open.get_mut(tensor.0).ok_or_else(unknown)?;
        let bytes = rows.len() as u64;
        if open.row_bytes == 0 || !bytes.is_multiple_of(open.row_bytes) {
            return Err(ImportError::spec(format!(
                "tensor {:?}: {bytes} bytes are no whole rows of {} bytes",
                open.name, open.row_bytes
            )));
        }
        open.rows += bytes / open.row_bytes;
        let pushed = open.writer.push_rows(rows).map_err(store_error);
        self.tensors.written_bytes += bytes;
        if let Some((_, last)) = &mut self.tensors.span {
            *last = Instant::now();
        }
        self.note(pushed)
    }
}
