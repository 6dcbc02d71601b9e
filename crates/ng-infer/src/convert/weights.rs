//! Tensors of files as tensors that are computed with.

use ng_types::Dtype;

use super::error::ConvertError;
use crate::dfg::{Constant, Elements};
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
    let dims = tensor.dims.iter().map(|dim| *dim as usize).collect();
    // The reader of the file compared the bytes with the shape.
    Ok(Constant::new(dims, elements).unwrap_or_else(|| {
        panic!("tensor {:?} of {:?} has {} bytes", tensor.name, tensor.dims, bytes.len())
    }))
}

/// Half precision as single: every value has its equal.
fn from_f16(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let (exponent, fraction) = (u32::from(half >> 10 & 0x1F), u32::from(half & 0x3FF));
    match exponent {
        0 => f32::from_bits(sign | 0x3F80_0000) * (fraction as f32 * 2_f32.powi(-24)),
        0x1F => f32::from_bits(sign | 0x7F80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::from_f16;

    #[test]
    fn halves_are_what_the_standard_says() {
        let table = [
            (0x0000, 0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03FF, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3C00, 1.0),
            (0xC500, -5.0),
            (0x7BFF, 65_504.0),
            (0xFC00, f32::NEG_INFINITY),
        ];
        for (half, wanted) in table {
            assert_eq!(from_f16(half), wanted, "{half:#06x}");
        }
        assert!(from_f16(0x7E00).is_nan());
        assert!(from_f16(0x8000).is_sign_negative());
    }
}
