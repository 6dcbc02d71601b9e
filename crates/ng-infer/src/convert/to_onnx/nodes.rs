//! Operations as nodes of ONNX.
//!
//! What lives here: the names and attributes that ONNX gives them. The invariant: an operation that
//! is neither standard nor a function of `ai.neargraph` is refused by name.

use std::collections::HashMap;

use super::SaveError;
use super::functions::{DOMAIN, name_of};
use super::values::number_of;
use crate::dfg::{Attribute, Node, Op, Value};
use crate::onnx::proto::{AttributeProto, NodeProto, TensorProto};

/// A node as ONNX has it; `unnamed` is what a reader calls a node here that has no name.
pub(super) fn written(
    node: &Node,
    names: &HashMap<Value, String>,
    unnamed: &str,
) -> Result<NodeProto, SaveError> {
    let named = |values: &[Value]| values.iter().map(|value| names[value].clone()).collect();
    let mut proto = NodeProto {
        input: named(&node.inputs),
        output: named(&node.outputs),
        name: label(&node.name, unnamed),
        ..NodeProto::default()
    };
    if let Some(function) = name_of(&node.op, node.inputs.len()) {
        (proto.op_type, proto.domain) = (Some(function), Some(DOMAIN.to_owned()));
        proto.attribute = node.op.attributes().iter().filter_map(attribute).collect();
        return Ok(proto);
    }
    let Some(standard) = standard(&node.op) else {
        let (node, op) = (node.name.clone(), node.op.name());
        let problem =
            "ONNX has no such operation; save the graph as it was before this operation was added"
                .to_owned();
        return Err(SaveError::NoCounterpart { node, op, problem });
    };
    proto.op_type = Some(standard);
    proto.attribute = match &node.op {
        Op::Cast(dtype) => vec![int("to", number_of(*dtype).into())],
        Op::ConstantOfShape { value, dtype } => vec![tensor("value", *value, *dtype)],
        op => op.attributes().iter().filter_map(attribute).collect(),
    };
    Ok(proto)
}

/// `Identity`, for a second name of a value.
pub(super) fn copy(from: &str, to: &str) -> NodeProto {
    NodeProto {
        input: vec![from.to_owned()],
        output: vec![to.to_owned()],
        op_type: Some("Identity".to_owned()),
        ..NodeProto::default()
    }
}

/// A reader quotes a name; what is quoted is the name.
fn label(name: &str, unnamed: &str) -> Option<String> {
    if name == unnamed {
        return None;
    }
    let inner = name.strip_prefix("node \"").and_then(|rest| rest.strip_suffix('"'));
    Some(inner.filter(|inner| !inner.contains('\\')).unwrap_or(name).to_owned())
}

/// Whether a file can hold the operation; [`Op::BatchPre`] has a place of its own.
pub fn has_counterpart(op: &Op) -> bool {
    standard(op).is_some() || name_of(op, op.inputs().0).is_some()
}

fn standard(op: &Op) -> Option<String> {
    let name = op.name();
    match op {
        Op::Gemm { .. } => Some("Gemm".to_owned()),
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Elu { .. }
        | Op::LeakyRelu { .. }
        | Op::Where
        | Op::Cast(_)
        | Op::Identity
        | Op::MatMul
        | Op::Reduce { .. }
        | Op::Softmax { .. }
        | Op::LogSoftmax { .. }
        | Op::Shape { .. }
        | Op::Reshape { .. }
        | Op::Expand
        | Op::Transpose { .. }
        | Op::Concat { .. }
        | Op::Slice
        | Op::Squeeze
        | Op::Unsqueeze
        | Op::Gather { .. }
        | Op::GatherNd
        | Op::GatherElements { .. }
        | Op::Tile
        | Op::Compress { .. }
        | Op::Range
        | Op::ConstantOfShape { .. } => Some(name),
        _ => None,
    }
}

fn int(name: &str, number: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        i: Some(number),
        r#type: Some(2),
        ..AttributeProto::default()
    }
}

/// Tensors come in another way.
fn attribute((name, value): (&String, &Attribute)) -> Option<AttributeProto> {
    let named = AttributeProto { name: Some(name.clone()), ..AttributeProto::default() };
    Some(match value {
        Attribute::Int(number) => int(name, *number),
        Attribute::Float(number) => AttributeProto { f: Some(*number), r#type: Some(1), ..named },
        Attribute::Ints(all) => AttributeProto { ints: all.clone(), r#type: Some(7), ..named },
        Attribute::Text(text) => {
            AttributeProto { s: Some(text.clone().into_bytes()), r#type: Some(3), ..named }
        }
        Attribute::Tensor(_) => return None,
    })
}

/// A tensor of one element.
fn tensor(name: &str, value: f64, dtype: ng_types::Dtype) -> AttributeProto {
    let raw = match dtype {
        ng_types::Dtype::I64 => (value as i64).to_le_bytes().to_vec(),
        ng_types::Dtype::Bool => vec![u8::from(value != 0.0)],
        _ => (value as f32).to_le_bytes().to_vec(),
    };
    let tensor = TensorProto {
        dims: vec![1],
        data_type: Some(number_of(dtype)),
        raw_data: Some(raw),
        ..TensorProto::default()
    };
    AttributeProto {
        name: Some(name.to_owned()),
        t: Some(Box::new(tensor)),
        r#type: Some(4),
        ..AttributeProto::default()
    }
}
