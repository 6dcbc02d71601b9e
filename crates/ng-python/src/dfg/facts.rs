//! What is in a graph and in its file, as plain data for tables and drawings.

use std::collections::BTreeMap;

use ng_infer::dfg::{Constant, Dfg, Elements, Value};
use ng_infer::onnx::{Data, Model};
use ng_infer::plan::{Cost, Explanation};
use ng_infer::run::Devices;
use serde::Serialize;

/// Tensors of more elements are shown without them.
const ELEMENTS_MAX: usize = 4;

/// A weight as it is in the file.
#[derive(Serialize)]
struct Weight {
    name: String,
    dtype: &'static str,
    shape: Vec<u64>,
    bytes: u64,
    /// The file beside the model that has it; `None` if it is in the model.
    file: Option<String>,
}

/// What a model file says beside its graph.
#[derive(Serialize)]
pub struct FileFacts {
    ir_version: i64,
    opset: i64,
    domains: Vec<(String, i64)>,
    functions: Vec<String>,
    pub metadata: Vec<(String, String)>,
    weights: Vec<Weight>,
}

impl FileFacts {
    /// Those of a model.
    pub fn of(model: &Model) -> Self {
        let weight = |tensor: &ng_infer::onnx::Tensor| Weight {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name(),
            shape: tensor.dims.clone(),
            bytes: tensor.bytes_len(),
            file: match &tensor.data {
                Data::External(range) => Some(range.file.clone()),
                Data::Inline(_) => None,
            },
        };
        Self {
            ir_version: model.ir_version,
            opset: model.opset,
            domains: model.opsets.clone(),
            functions: model.functions.iter().map(|f| f.name.clone()).collect(),
            metadata: model.metadata.clone(),
            weights: model.graph.initializers.iter().map(weight).collect(),
        }
    }
}

#[derive(Serialize)]
struct Tensor {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    /// The elements, if they are few.
    elements: Option<String>,
}

#[derive(Serialize)]
struct Node {
    name: String,
    op: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    attributes: BTreeMap<String, String>,
    /// Whose kernel is chosen; `None` if no device has one.
    device: Option<String>,
}

/// A graph as plain data.
#[derive(Serialize)]
pub struct Parts {
    inputs: Vec<String>,
    weights: Vec<Tensor>,
    nodes: Vec<Node>,
    outputs: Vec<(String, String)>,
    /// By value, its type and the lengths of its shape; empty if an input has no type.
    types: BTreeMap<String, super::Shown>,
    /// Why there are no types.
    problem: Option<String>,
}

fn few(elements: &Elements) -> Option<String> {
    fn listed<T: std::fmt::Debug>(all: &[T]) -> String {
        match all {
            [one] => format!("{one:?}"),
            _ => format!("{all:?}"),
        }
    }
    let text = || match elements {
        Elements::F32(all) => listed(all),
        Elements::I64(all) => listed(all),
        Elements::Bool(all) => listed(all),
        Elements::I8(all) => listed(all),
        Elements::F16(_) => "f16".to_owned(),
    };
    (elements.len() <= ELEMENTS_MAX).then(text)
}

/// The parts of a graph, and the kernels that `devices` choose.
pub fn parts(graph: &Dfg, devices: &Devices) -> Parts {
    let name = |value: &Value| graph.name(*value).to_owned();
    let weight = |(value, tensor): (Value, &Constant)| Tensor {
        name: name(&value),
        dtype: tensor.elements().dtype().name(),
        shape: tensor.dims().to_vec(),
        elements: few(tensor.elements()),
    };
    let node = |node: &ng_infer::dfg::Node| Node {
        name: node.name.clone(),
        op: node.op.name(),
        inputs: node.inputs.iter().map(name).collect(),
        outputs: node.outputs.iter().map(name).collect(),
        attributes: node.op.attributes().iter().map(|(k, v)| (k.clone(), v.to_string())).collect(),
        device: devices.choose(&node.op).map(|binding| binding.device.to_string()),
    };
    let (types, problem) = match graph.check(&[]) {
        Ok(types) => {
            let named = graph.values().zip(&types);
            (named.map(|(value, of)| (name(&value), super::shown(of))).collect(), None)
        }
        Err(error) => (BTreeMap::new(), Some(error.to_string())),
    };
    Parts {
        inputs: graph.inputs().map(|(value, _)| name(&value)).collect(),
        weights: graph.weights().map(weight).collect(),
        nodes: graph.nodes().iter().map(node).collect(),
        outputs: graph.outputs().iter().map(|(out, value)| (out.clone(), name(value))).collect(),
        types,
        problem,
    }
}

/// A step of a run.
#[derive(Serialize)]
pub struct Step {
    op: String,
    device: Option<String>,
    in_place: bool,
    nodes: Vec<(String, String)>,
    shapes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// The steps of a plan, with what they cost in a run, if there was one.
pub fn steps(explained: &Explanation, costs: &[Cost]) -> Vec<Step> {
    let step = |(at, step): (usize, &ng_infer::plan::StepInfo)| Step {
        op: step.op.clone(),
        device: step.device.clone(),
        in_place: step.in_place,
        nodes: step.nodes.clone(),
        shapes: step.shapes.clone(),
        seconds: costs.get(at).map(|cost| cost.time.as_secs_f64()),
        bytes: costs.get(at).map(|cost| cost.bytes),
    };
    explained.steps.iter().enumerate().map(step).collect()
}
