//! The weights of a graph: small ones in the ONNX file, the others as safetensors beside it.

use std::fmt::Write;

use ng_types::Dtype;

use super::SaveError;
use super::values::number_of;
use crate::dfg::{Constant, Dfg, Elements, Node, Op, Value};
use crate::onnx::proto::{StringStringEntryProto, TensorProto};

/// Smaller tensors stay in the ONNX file: the header of a weight would be larger than it.
const SMALLEST_BYTES: usize = 64;
/// Of the first weight in the file.
const ALIGNMENT_BYTES: usize = 64;

/// The weights of a file.
pub(super) struct Packed {
    /// For the ONNX file, in the order of the graph.
    pub initializers: Vec<TensorProto>,
    /// The safetensors file.
    pub file: Vec<u8>,
}

/// A weight with its bytes.
struct Weight<'a> {
    name: &'a str,
    dtype: Dtype,
    dims: &'a [usize],
    bytes: Vec<u8>,
    /// Where its bytes begin behind the header of the file.
    begin: Option<usize>,
}

pub(super) fn packed(dfg: &Dfg, file_name: &str) -> Result<Packed, SaveError> {
    let mut weights = Vec::new();
    for (value, tensor) in dfg.weights() {
        let name = dfg.name(value);
        check_finite(name, tensor)?;
        let (dtype, bytes) = match tensor.elements() {
            Elements::I64(all) if is_factor(dfg, value) => narrowest(all),
            elements => (elements.dtype(), bytes(elements)),
        };
        weights.push(Weight { name, dtype, dims: tensor.dims(), bytes, begin: None });
    }
    // Wide elements first, so that each tensor is aligned to its elements without gaps.
    let mut order: Vec<usize> =
        (0..weights.len()).filter(|at| weights[*at].bytes.len() >= SMALLEST_BYTES).collect();
    order.sort_by_key(|at| std::cmp::Reverse(weights[*at].dtype.size_bytes()));
    let mut end = 0;
    for at in &order {
        weights[*at].begin = Some(end);
        end += weights[*at].bytes.len();
    }
    let mut file = header(order.iter().map(|at| &weights[*at]));
    let start = file.len();
    for at in &order {
        file.extend_from_slice(&weights[*at].bytes);
    }
    let place = |weight: Weight<'_>| initializer(weight, file_name, start);
    Ok(Packed { initializers: weights.into_iter().map(place).collect(), file })
}

/// A single number may be infinite: a maximum starts with it.
fn check_finite(name: &str, tensor: &Constant) -> Result<(), SaveError> {
    let Elements::F32(all) = tensor.elements() else { return Ok(()) };
    match all.iter().position(|element| !element.is_finite()) {
        Some(index) if all.len() > 1 || all[index].is_nan() => {
            let (name, value) = (name.to_owned(), all[index].to_string());
            Err(SaveError::NotFinite { name, index, value })
        }
        _ => Ok(()),
    }
}

fn bytes(elements: &Elements) -> Vec<u8> {
    match elements {
        Elements::F32(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Elements::I64(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Elements::Bool(all) => all.iter().map(|flag| u8::from(*flag)).collect(),
        Elements::F16(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Elements::I8(all) => all.iter().map(|x| *x as u8).collect(),
    }
}

/// Whether only exact products take a weight: they take whole numbers of any width.
fn is_factor(dfg: &Dfg, weight: Value) -> bool {
    let mut takers = dfg.nodes().iter().filter(|node| node.inputs.contains(&weight)).peekable();
    let is_output = dfg.outputs().iter().any(|(_, value)| *value == weight);
    let is_one = |node: &Node| node.op == Op::FixedMatMul && node.inputs[0] != weight;
    !is_output && takers.peek().is_some() && takers.all(is_one)
}

/// Whole numbers in the narrowest type that holds all.
fn narrowest(all: &[i64]) -> (Dtype, Vec<u8>) {
    let fits = |low: i64, high: i64| all.iter().all(|x| (low..=high).contains(x));
    if fits(i8::MIN.into(), i8::MAX.into()) {
        (Dtype::I8, all.iter().map(|x| *x as u8).collect())
    } else if fits(i16::MIN.into(), i16::MAX.into()) {
        (Dtype::I16, all.iter().flat_map(|x| (*x as i16).to_le_bytes()).collect())
    } else if fits(i32::MIN.into(), i32::MAX.into()) {
        (Dtype::I32, all.iter().flat_map(|x| (*x as i32).to_le_bytes()).collect())
    } else {
        (Dtype::I64, all.iter().flat_map(|x| x.to_le_bytes()).collect())
    }
}

/// Its length in eight bytes, then JSON, then spaces.
fn header<'a>(weights: impl Iterator<Item = &'a Weight<'a>>) -> Vec<u8> {
    let mut text = "{".to_owned();
    for (at, weight) in weights.enumerate() {
        let begin = weight.begin.unwrap_or(0);
        let end = begin + weight.bytes.len();
        let dtype = match weight.dtype {
            Dtype::F16 => "F16",
            Dtype::I8 => "I8",
            Dtype::I16 => "I16",
            Dtype::I32 => "I32",
            Dtype::I64 => "I64",
            Dtype::Bool => "BOOL",
            _ => "F32",
        };
        let comma = if at == 0 { "" } else { "," };
        let name = serde_json::Value::from(weight.name);
        let dims = weight.dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        // Writing to a text does not fail.
        let _ = write!(
            text,
            "{comma}{name}:{{\"dtype\":\"{dtype}\",\"shape\":[{dims}],\
             \"data_offsets\":[{begin},{end}]}}"
        );
    }
    text.push('}');
    while !(8 + text.len()).is_multiple_of(ALIGNMENT_BYTES) {
        text.push(' ');
    }
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(text.as_bytes());
    file
}

fn initializer(weight: Weight<'_>, file_name: &str, start: usize) -> TensorProto {
    let mut tensor = TensorProto {
        dims: weight.dims.iter().map(|dim| *dim as i64).collect(),
        data_type: Some(number_of(weight.dtype)),
        name: Some(weight.name.to_owned()),
        ..TensorProto::default()
    };
    let Some(begin) = weight.begin else {
        tensor.raw_data = Some(weight.bytes);
        return tensor;
    };
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value),
    };
    tensor.external_data = vec![
        entry("location", file_name.to_owned()),
        entry("offset", (start + begin).to_string()),
        entry("length", weight.bytes.len().to_string()),
    ];
    tensor.data_location = Some(1);
    tensor
}
