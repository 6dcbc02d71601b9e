//! Inputs and outputs of a file, with types and shapes.

use ng_types::Dtype;

use crate::dfg::{Dim, TensorType};
use crate::onnx::proto::{
    DimensionProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};

/// The number of an element type in ONNX.
pub(super) fn number_of(dtype: Dtype) -> i32 {
    match dtype {
        Dtype::F32 => 1,
        Dtype::U8 => 2,
        Dtype::I8 => 3,
        Dtype::I16 => 5,
        Dtype::I32 => 6,
        Dtype::I64 => 7,
        Dtype::Bool => 9,
        Dtype::F16 => 10,
        Dtype::F64 => 11,
        Dtype::Bf16 => 16,
    }
}

/// A value with its type. A sum of counts has no place in ONNX: such a length stays open.
pub(super) fn described(name: &str, of: &TensorType) -> ValueInfoProto {
    let dim = of.shape.iter().map(dimension).collect();
    let tensor = TensorTypeProto {
        elem_type: Some(number_of(of.dtype)),
        shape: Some(TensorShapeProto { dim }),
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { tensor_type: Some(tensor) }),
    }
}

fn dimension(dim: &Dim) -> DimensionProto {
    match dim.number() {
        Some(number) => DimensionProto { dim_value: Some(number), dim_param: None },
        None => DimensionProto { dim_value: None, dim_param: dim.name().map(str::to_owned) },
    }
}
