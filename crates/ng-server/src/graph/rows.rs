//! Rows of tensors as messages have them.

use ng_rpc::{Problem, v1};
use ng_store::TensorMeta;
use ng_types::Dtype;

/// The elements of a store's tensor as a message names them.
pub fn dtype_of(dtype: Dtype) -> v1::Dtype {
    match dtype {
        Dtype::F16 => v1::Dtype::F16,
        Dtype::Bf16 => v1::Dtype::Bf16,
        Dtype::F32 => v1::Dtype::F32,
        Dtype::F64 => v1::Dtype::F64,
        Dtype::I8 => v1::Dtype::I8,
        Dtype::U8 => v1::Dtype::U8,
        Dtype::I16 => v1::Dtype::I16,
        Dtype::I32 => v1::Dtype::I32,
        Dtype::I64 => v1::Dtype::I64,
        Dtype::Bool => v1::Dtype::Bool,
    }
}

/// How given rows get into the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// They are f32 and the store encodes them.
    Encoded,
    /// As they are.
    AsStored,
}

/// Checks `count` rows that are given for a tensor.
///
/// # Errors
/// The shape, the elements or the number of bytes is another.
pub fn check(
    given: &v1::Tensor,
    meta: &TensorMeta,
    count: usize,
    field: &str,
) -> Result<How, Problem> {
    let wrong =
        |message: String| Problem::argument(field, format!("tensor {:?}: {message}", meta.name));
    let stored = dtype_of(meta.dtype);
    let how = match given.dtype() {
        v1::Dtype::F32 if meta.dtype != Dtype::F32 => How::Encoded,
        same if same == stored && !meta.is_scaled() => How::AsStored,
        other => {
            let scales = if meta.is_scaled() { " with scales" } else { "" };
            let message = format!(
                "the rows have {}, but the tensor has dtype {}{scales}",
                other.as_str_name(),
                meta.dtype
            );
            let remedy = if meta.is_scaled() || stored == v1::Dtype::F32 {
                "give DTYPE_F32".to_owned()
            } else {
                format!("give DTYPE_F32 or {}", stored.as_str_name())
            };
            return Err(wrong(message).remedy(remedy));
        }
    };
    let rows: Vec<u64> = std::iter::once(count as u64).chain(meta.shape.iter().copied()).collect();
    if given.shape != rows && !(count == 1 && given.shape == meta.shape) {
        return Err(wrong(format!("the rows have shape {:?}, expected {rows:?}", given.shape)));
    }
    let element = if how == How::Encoded { Dtype::F32 } else { meta.dtype }.size_bytes() as u64;
    let expected = meta.num_columns().checked_mul(element * count as u64);
    if expected != Some(given.data.len() as u64) {
        let len = given.data.len();
        return Err(wrong(format!("the rows have {len} bytes, which does not match their shape")));
    }
    Ok(how)
}
