//! Element types: from the numbers of ONNX to those of the project.
//!
//! What lives here: the table. What must not: data. The invariant: a number that is not in the
//! table is refused with the name that ONNX gives it.

use ng_types::Dtype;

use super::error::OnnxError;

/// Names of the types 0 to 28 in `onnx.proto3`.
const NAMES: [&str; 29] = [
    "UNDEFINED",
    "FLOAT",
    "UINT8",
    "INT8",
    "UINT16",
    "INT16",
    "INT32",
    "INT64",
    "STRING",
    "BOOL",
    "FLOAT16",
    "DOUBLE",
    "UINT32",
    "UINT64",
    "COMPLEX64",
    "COMPLEX128",
    "BFLOAT16",
    "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ",
    "UINT4",
    "INT4",
    "FLOAT4E2M1",
    "FLOAT8E8M0",
    "UINT2",
    "INT2",
    "FLOAT6E2M3",
    "FLOAT6E3M2",
];

/// The dtype of the number `data_type` of ONNX, or the refusal of what stands at `place`.
pub(super) fn dtype(
    data_type: Option<i32>,
    place: impl FnOnce() -> String,
) -> Result<Dtype, OnnxError> {
    let number = data_type.unwrap_or(0);
    Ok(match number {
        1 => Dtype::F32,
        2 => Dtype::U8,
        3 => Dtype::I8,
        5 => Dtype::I16,
        6 => Dtype::I32,
        7 => Dtype::I64,
        9 => Dtype::Bool,
        10 => Dtype::F16,
        11 => Dtype::F64,
        16 => Dtype::Bf16,
        _ => {
            let name = usize::try_from(number).ok().and_then(|at| NAMES.get(at));
            let dtype = name.map_or_else(|| number.to_string(), ToString::to_string);
            return Err(OnnxError::Dtype { place: place(), dtype });
        }
    })
}
