//! Tensors of files as tensors that are computed with.

use ng_types::Dtype;

use super::error::ConvertError;
use crate::dfg::{Constant, Elements, from_f16};
use crate::onnx::Tensor;

/// The type that elements of `dtype` are computed with.
pub(super) fn computed(tensor: &str, dtype: Dtype) -> Result<Dtype, ConvertError> {
    match dtype {
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 => Ok(Dtype::F32),
        Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Ok(Dtype::I64),
        Dtype::Bool => Ok(Dtype::Bool),
        Dtype::F64 => {
            let (tensor, dtype) = (tensor.to_owned(), dtype.name().to_owned());
            Err(ConvertError::Dtype { tensor, dtype })
        }
    }
}

/// The elements in the type that they are computed with; nothing is rounded.
///
/// # Errors
///
/// They are of f64, which f32 cannot hold.
pub fn widened(tensor: &Tensor, bytes: &[u8]) -> Result<Constant, ConvertError> {
    computed(&format!("tensor {:?}", tensor.name), tensor.dtype)?;
    macro_rules! each {
        ($n:literal, $of:expr) => {
            bytes.as_chunks::<$n>().0.iter().map(|raw| $of(*raw)).collect()
        };
    }
    let elements = match tensor.dtype {
        Dtype::F32 | Dtype::F64 => Elements::F32(each!(4, f32::from_le_bytes)),
        Dtype::F16 => Elements::F32(each!(2, |raw| from_f16(u16::from_le_bytes(raw)))),
        Dtype::Bf16 => {
            let wide = |raw| f32::from_bits(u32::from(u16::from_le_bytes(raw)) << 16);
            Elements::F32(each!(2, wide))
        }
        Dtype::I8 => Elements::I64(each!(1, |raw: [u8; 1]| i64::from(raw[0] as i8))),
        Dtype::U8 => Elements::I64(each!(1, |raw: [u8; 1]| i64::from(raw[0]))),
        Dtype::I16 => Elements::I64(each!(2, |raw| i64::from(i16::from_le_bytes(raw)))),
        Dtype::I32 => Elements::I64(each!(4, |raw| i64::from(i32::from_le_bytes(raw)))),
        Dtype::I64 => Elements::I64(each!(8, i64::from_le_bytes)),
        Dtype::Bool => Elements::Bool(each!(1, |raw: [u8; 1]| raw[0] != 0)),
    };
    Ok(shaped(tensor, elements, bytes.len()))
}

/// The elements as they are, of f16 or i8.
///
/// # Errors
///
/// As of [`widened`], which does all other types.
pub(super) fn as_stored(tensor: &Tensor, bytes: &[u8]) -> Result<Constant, ConvertError> {
    let elements = match tensor.dtype {
        Dtype::F16 => {
            let halves = bytes.as_chunks::<2>().0.iter().map(|raw| u16::from_le_bytes(*raw));
            Elements::F16(halves.collect())
        }
        Dtype::I8 => Elements::I8(bytes.iter().map(|raw| *raw as i8).collect()),
        _ => return widened(tensor, bytes),
    };
    Ok(shaped(tensor, elements, bytes.len()))
}

fn shaped(tensor: &Tensor, elements: Elements, len: usize) -> Constant {
    let dims = tensor.dims.iter().map(|dim| *dim as usize).collect();
    // The reader of the file compared the bytes with the shape.
    Constant::new(dims, elements)
        .unwrap_or_else(|| panic!("tensor {:?} of {:?} has {len} bytes", tensor.name, tensor.dims))
}
