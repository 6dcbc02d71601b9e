//! Constant tensors: shape, element type, and data from whichever field holds it.
//!
//! What lives here: from the message to [`Tensor`]. What must not: external files, beyond asking
//! for their range. The invariant: the data of a tensor has exactly the bytes of its shape, and
//! each element is one that its type can hold.

use ng_types::Dtype;

use super::dtypes::dtype;
use super::error::{OnnxError, quoted};
use super::external::read_range;
use super::model::{Data, Tensor};
use super::proto::TensorProto;

/// Dimensions of a tensor.
pub(super) const RANK_MAX: usize = 32;
const RAW: &str = "raw_data";

/// Reads a tensor; `place` names it in errors.
pub(super) fn read_tensor(
    tensor: TensorProto,
    place: &dyn Fn() -> String,
) -> Result<Tensor, OnnxError> {
    let dtype = dtype(tensor.data_type, place)?;
    let unsupported =
        |what: &str| Err(OnnxError::Unsupported { place: place(), what: what.to_owned() });
    if tensor.segment.is_some() {
        return unsupported("a segment of a larger tensor");
    }
    let (dims, bytes) = read_dims(&tensor.dims, dtype, place)?;
    let name = tensor.name.clone().unwrap_or_default();
    let data = match tensor.data_location.unwrap_or(0) {
        0 => Data::Inline(read_data(tensor, dtype, bytes, place)?),
        1 => {
            if let Some(field) = fields(&tensor).first() {
                let found = format!("{} in addition to a file", field.name);
                let expected = "external_data";
                return Err(OnnxError::DataField { place: place(), found, expected });
            }
            Data::External(read_range(tensor.external_data, bytes, place)?)
        }
        location => return unsupported(&format!("data_location {location}")),
    };
    Ok(Tensor { name, dtype, dims, data })
}

/// The shape, and the bytes of its elements.
fn read_dims(
    dims: &[i64],
    dtype: Dtype,
    place: &dyn Fn() -> String,
) -> Result<(Vec<u64>, u64), OnnxError> {
    let refuse = |reason| {
        let shown = &dims[..dims.len().min(RANK_MAX)];
        Err(OnnxError::Dims { place: place(), dims: format!("{shown:?}"), reason })
    };
    if dims.len() > RANK_MAX {
        return refuse("more than 32 dimensions");
    }
    let Ok(known) = dims.iter().map(|dim| u64::try_from(*dim)).collect::<Result<Vec<_>, _>>()
    else {
        return refuse("a negative dimension");
    };
    let size = dtype.size_bytes() as u64;
    let bytes = known.iter().try_fold(size, |bytes, dim| bytes.checked_mul(*dim));
    match bytes.filter(|bytes| i64::try_from(*bytes).is_ok()) {
        Some(bytes) => Ok((known, bytes)),
        None => refuse("its size exceeds 64 bits"),
    }
}

/// A field that holds data.
struct Field {
    name: &'static str,
    elements: usize,
}

/// The fields of a tensor that hold data; an empty `raw_data` counts, an empty list does not.
fn fields(tensor: &TensorProto) -> Vec<Field> {
    let lists = [
        ("float_data", tensor.float_data.len()),
        ("int32_data", tensor.int32_data.len()),
        ("string_data", tensor.string_data.len()),
        ("int64_data", tensor.int64_data.len()),
        ("double_data", tensor.double_data.len()),
        ("uint64_data", tensor.uint64_data.len()),
    ];
    let lists = lists.into_iter().filter(|(_, elements)| *elements > 0);
    let raw = tensor.raw_data.as_ref().map(|raw| (RAW, raw.len()));
    raw.into_iter().chain(lists).map(|(name, elements)| Field { name, elements }).collect()
}

/// The list that ONNX uses for a dtype, if not `raw_data`.
fn list_of(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "float_data",
        Dtype::F64 => "double_data",
        Dtype::I64 => "int64_data",
        Dtype::F16
        | Dtype::Bf16
        | Dtype::I8
        | Dtype::U8
        | Dtype::I16
        | Dtype::I32
        | Dtype::Bool => "int32_data",
    }
}

/// The elements of a tensor that are inside the model file.
fn read_data(
    tensor: TensorProto,
    dtype: Dtype,
    bytes: u64,
    place: &dyn Fn() -> String,
) -> Result<Vec<u8>, OnnxError> {
    let expected = list_of(dtype);
    let found = fields(&tensor);
    let field_error = |found: String| Err(OnnxError::DataField { place: place(), found, expected });
    if !tensor.external_data.is_empty() {
        return field_error("external_data without a location".to_owned());
    }
    let (name, elements) = match found.as_slice() {
        [] => (expected, 0),
        [field] => (field.name, field.elements as u64),
        [first, second, ..] => {
            return field_error(format!("{} and {}", first.name, second.name));
        }
    };
    if name != RAW && name != expected {
        return field_error(name.to_owned());
    }
    let size = if name == RAW { 1 } else { dtype.size_bytes() as u64 };
    if elements.checked_mul(size) != Some(bytes) {
        let unit = if name == RAW { "bytes" } else { "elements" };
        let expected = bytes / size;
        return Err(OnnxError::DataLength { place: place(), unit, found: elements, expected });
    }
    match tensor.raw_data {
        Some(raw) => {
            check_raw_bools(&raw, dtype, place)?;
            Ok(raw)
        }
        None => read_list(tensor, dtype, place),
    }
}

/// The elements of a list, little-endian.
fn read_list(
    tensor: TensorProto,
    dtype: Dtype,
    place: &dyn Fn() -> String,
) -> Result<Vec<u8>, OnnxError> {
    let narrow = |range: std::ops::RangeInclusive<i32>| {
        let outside =
            tensor.int32_data.iter().enumerate().find(|(_, value)| !range.contains(value));
        let Some((index, value)) = outside else {
            let bytes = tensor.int32_data.iter().map(|value| value.to_le_bytes());
            return Ok(bytes.flat_map(|b| b.into_iter().take(dtype.size_bytes())).collect());
        };
        let (index, value) = (index as u64, i64::from(*value));
        Err(OnnxError::Element { place: place(), index, value, dtype: dtype.name() })
    };
    match dtype {
        Dtype::F32 => Ok(tensor.float_data.into_iter().flat_map(f32::to_le_bytes).collect()),
        Dtype::F64 => Ok(tensor.double_data.into_iter().flat_map(f64::to_le_bytes).collect()),
        Dtype::I64 => Ok(tensor.int64_data.into_iter().flat_map(i64::to_le_bytes).collect()),
        Dtype::I32 => narrow(i32::MIN..=i32::MAX),
        Dtype::I16 => narrow(i16::MIN.into()..=i16::MAX.into()),
        Dtype::I8 => narrow(i8::MIN.into()..=i8::MAX.into()),
        Dtype::U8 => narrow(0..=u8::MAX.into()),
        Dtype::Bool => narrow(0..=1),
        Dtype::F16 | Dtype::Bf16 => narrow(0..=u16::MAX.into()),
    }
}

/// Refuses bytes that are not 0 or 1 in a tensor of bools.
pub(super) fn check_raw_bools(
    raw: &[u8],
    dtype: Dtype,
    place: &dyn Fn() -> String,
) -> Result<(), OnnxError> {
    let odd = (dtype == Dtype::Bool).then(|| raw.iter().position(|byte| *byte > 1)).flatten();
    match odd {
        Some(at) => {
            let (index, value) = (at as u64, i64::from(raw[at]));
            Err(OnnxError::Element { place: place(), index, value, dtype: dtype.name() })
        }
        None => Ok(()),
    }
}

/// The initializer as messages name it.
pub(super) fn tensor_place(name: &str) -> String {
    format!("tensor {}", quoted(name))
}
