//! Operators of ONNX that are several operations, or that say in another way what they do.

use std::collections::BTreeMap;

use super::error::ConvertError;
use crate::dfg::{Attribute, Constant, Dfg, Elements, NamedNode, Op, Source};

/// What an operator becomes.
#[derive(Default)]
pub(super) struct Adapted {
    pub weights: Vec<(String, Constant)>,
    pub nodes: Vec<NamedNode>,
}

/// A node under change.
struct Draft {
    node: NamedNode,
    done: Adapted,
}

impl Draft {
    fn refused<T>(&self, problem: &str) -> Result<T, ConvertError> {
        let (node, op) = (self.node.name.clone(), self.node.op.clone());
        Err(ConvertError::Unsupported { node, op, problem: problem.to_owned() })
    }

    /// A tensor that belongs to the node.
    fn weight(&mut self, what: &str, dims: Vec<usize>, elements: Elements) -> String {
        let name = format!("{}.{what}", self.node.outputs[0]);
        // The callers give as many elements as the shape says.
        if let Some(tensor) = Constant::new(dims, elements) {
            self.done.weights.push((name.clone(), tensor));
        }
        name
    }

    fn indices(&mut self, what: &str, all: Vec<i64>) -> String {
        self.weight(what, vec![all.len()], Elements::I64(all))
    }

    fn scalar(&mut self, what: &str, number: f32) -> String {
        self.weight(what, Vec::new(), Elements::F32(vec![number]))
    }

    /// A step before the last one; returns the name of what it gives.
    fn step(&mut self, what: &str, op: &str, inputs: Vec<String>) -> String {
        let name = format!("{}.{what}", self.node.outputs[0]);
        let outputs = vec![name.clone()];
        let (label, op) = (self.node.name.clone(), op.to_owned());
        let attributes = BTreeMap::new();
        self.done.nodes.push(NamedNode { name: label, op, inputs, outputs, attributes });
        name
    }

    /// The last step, which gives what the node gives.
    fn finish(mut self, op: &str, inputs: Vec<String>) -> Adapted {
        (self.node.op, self.node.inputs) = (op.to_owned(), inputs);
        self.keep()
    }

    fn keep(mut self) -> Adapted {
        self.done.nodes.push(self.node);
        self.done
    }

    fn attribute(&mut self, name: &str) -> Option<Attribute> {
        self.node.attributes.remove(name)
    }

    fn input(&self, at: usize) -> Option<String> {
        self.node.inputs.get(at).filter(|name| !name.is_empty()).cloned()
    }
}

/// What `node` becomes; values that it takes are in `dfg`.
pub(super) fn adapt(dfg: &Dfg, node: NamedNode, is_own: bool) -> Result<Adapted, ConvertError> {
    let mut draft = Draft { node, done: Adapted::default() };
    while draft.node.inputs.last().is_some_and(String::is_empty) {
        draft.node.inputs.pop();
    }
    if is_own {
        return Ok(draft.keep());
    }
    match draft.node.op.as_str() {
        "Constant" => constant(draft),
        "Cast" => cast(draft),
        "Clip" => clip(draft),
        "Dropout" => {
            if draft.node.outputs.len() > 1 {
                return draft.refused("the output \"mask\" is not supported");
            }
            draft.node.attributes.clear();
            let first = draft.node.inputs[0].clone();
            Ok(draft.finish("Identity", vec![first]))
        }
        "Gelu" => gelu(draft),
        "Max" | "Min" | "Sum" => chain(draft),
        "Mod" | "IsNaN" | "IsInf" | "CastLike" => {
            draft.refused("the engine does not support this operator")
        }
        "Size" => {
            let input = draft.node.inputs[0].clone();
            let shape = draft.step("shape", "Shape", vec![input]);
            draft.node.attributes.insert("keepdims".to_owned(), Attribute::Int(0));
            Ok(draft.finish("ReduceProd", vec![shape]))
        }
        "Slice" => slice(dfg, draft),
        "Split" => split(dfg, draft),
        "BatchNormalization" => batch_norm(draft),
        "LayerNormalization" => layer_norm(draft),
        "Squeeze" | "Unsqueeze" | "Reshape" | "Gather" => Ok(draft.keep()),
        _ if draft.node.inputs.iter().any(String::is_empty) => {
            draft.refused("omitting an input before the last is not supported")
        }
        op if is_standard(op) => Ok(draft.keep()),
        _ => draft.refused("the engine does not support this operator"),
    }
}

/// Whether ONNX has an operator of the name that is an operation. Names of the text form and those
/// of graphs are not operators of ONNX.
fn is_standard(op: &str) -> bool {
    let own = [
        "batchpre",
        "spmm",
        "sddmm",
        "scatter",
        "edge",
        "degree",
        "gcnnorm",
        "selfloop",
        "linear",
        "aggregate",
        "segmentmatmul",
        "fixed",
    ];
    let own = own.iter().any(|name| op.to_lowercase().contains(name));
    !own && (op == "Gemm" || op != "GEMM" && Op::names().any(|name| name == op))
}

fn constant(mut draft: Draft) -> Result<Adapted, ConvertError> {
    let (name, value) = match draft.node.attributes.pop_first() {
        Some(found) if draft.node.attributes.is_empty() => found,
        _ => return draft.refused("expected exactly one attribute, which holds the constant"),
    };
    let tensor = match (name.as_str(), value) {
        ("value" | "value_floats", Attribute::Tensor(tensor)) => Some(tensor),
        ("value_int", Attribute::Int(number)) => {
            Constant::new(Vec::new(), Elements::I64(vec![number]))
        }
        ("value_float", Attribute::Float(number)) => {
            Constant::new(Vec::new(), Elements::F32(vec![number]))
        }
        ("value_ints", Attribute::Ints(all)) => Constant::new(vec![all.len()], Elements::I64(all)),
        _ => None,
    };
    let Some(tensor) = tensor else {
        return draft.refused(&format!("a constant given as attribute {name:?} is not supported"));
    };
    let name = draft.node.outputs[0].clone();
    Ok(Adapted { weights: vec![(name, tensor)], nodes: Vec::new() })
}

/// ONNX names types by number.
fn cast(mut draft: Draft) -> Result<Adapted, ConvertError> {
    let to = match draft.attribute("to") {
        Some(Attribute::Int(1)) => "f32",
        Some(Attribute::Int(6 | 7)) => "i64",
        Some(Attribute::Int(9)) => "bool",
        _ => return draft.refused("only casts to f32, i32, i64 and bool are supported"),
    };
    // It is about types that the engine does not have.
    draft.attribute("saturate");
    draft.node.attributes.insert("to".to_owned(), Attribute::Text(to.to_owned()));
    Ok(draft.keep())
}

fn clip(mut draft: Draft) -> Result<Adapted, ConvertError> {
    let value = draft.node.inputs[0].clone();
    match (draft.input(1), draft.input(2)) {
        (None, None) => Ok(draft.finish("Identity", vec![value])),
        (Some(least), None) => Ok(draft.finish("Max", vec![value, least])),
        (None, Some(most)) => Ok(draft.finish("Min", vec![value, most])),
        (Some(least), Some(most)) => {
            let raised = draft.step("raised", "Max", vec![value, least]);
            Ok(draft.finish("Min", vec![raised, most]))
        }
    }
}

/// `x * (1 + erf(x / sqrt(2))) / 2`.
fn gelu(mut draft: Draft) -> Result<Adapted, ConvertError> {
    match draft.attribute("approximate") {
        None => {}
        Some(Attribute::Text(text)) if text == "none" => {}
        Some(_) => return draft.refused("only the exact form is supported, not an approximation"),
    }
    let x = draft.node.inputs[0].clone();
    let [root, one, half] =
        [("root", std::f32::consts::FRAC_1_SQRT_2), ("one", 1.0), ("half", 0.5)]
            .map(|(what, number)| draft.scalar(what, number));
    let scaled = draft.step("scaled", "Mul", vec![x.clone(), root]);
    let erf = draft.step("erf", "Erf", vec![scaled]);
    let sum = draft.step("sum", "Add", vec![erf, one]);
    let halved = draft.step("halved", "Mul", vec![x, half]);
    Ok(draft.finish("Mul", vec![halved, sum]))
}

/// Operators of any number of values.
fn chain(mut draft: Draft) -> Result<Adapted, ConvertError> {
    let op = if draft.node.op == "Sum" { "Add" } else { draft.node.op.as_str() }.to_owned();
    let inputs = std::mem::take(&mut draft.node.inputs);
    let mut inputs = inputs.into_iter();
    let Some(mut so_far) = inputs.next() else { return draft.refused("it has no inputs") };
    let Some(last) = inputs.next_back() else { return Ok(draft.finish("Identity", vec![so_far])) };
    for (at, next) in inputs.enumerate() {
        so_far = draft.step(&at.to_string(), &op, vec![so_far, next]);
    }
    Ok(draft.finish(&op, vec![so_far, last]))
}

/// A list of whole numbers that the model has.
fn known(dfg: &Dfg, name: &str) -> Option<Vec<i64>> {
    match dfg.source(dfg.value(name)?) {
        Source::Weight(tensor) => match tensor.elements() {
            Elements::I64(all) => Some(all.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Steps without axes name all axes from the first on.
fn slice(dfg: &Dfg, mut draft: Draft) -> Result<Adapted, ConvertError> {
    if draft.node.inputs.len() > 3 && draft.input(3).is_none() {
        let Some(starts) = known(dfg, &draft.node.inputs[1]) else {
            return draft.refused("a slice with steps but without axes needs constant starts");
        };
        let axes = draft.indices("axes", (0..starts.len() as i64).collect());
        draft.node.inputs[3] = axes;
    }
    Ok(draft.keep())
}

fn split(dfg: &Dfg, mut draft: Draft) -> Result<Adapted, ConvertError> {
    let axis = match draft.attribute("axis") {
        None => 0,
        Some(Attribute::Int(axis)) => axis,
        Some(_) => return draft.refused("attribute axis is not an integer"),
    };
    let Some(sizes) = draft.input(1).and_then(|sizes| known(dfg, &sizes)) else {
        return draft.refused("the lengths of the parts must be constant");
    };
    if sizes.len() != draft.node.outputs.len() {
        return draft.refused("the number of lengths differs from the number of outputs");
    }
    let axis = draft.indices("axis", vec![axis]);
    let mut start = 0_i64;
    for (at, size) in sizes.iter().enumerate() {
        let end = start.saturating_add(*size);
        let range = [("start", start), ("end", end)];
        let [from, to] = range.map(|(what, n)| draft.indices(&format!("{at}.{what}"), vec![n]));
        draft.done.nodes.push(NamedNode {
            name: draft.node.name.clone(),
            op: "Slice".to_owned(),
            inputs: vec![draft.node.inputs[0].clone(), from, to, axis.clone()],
            outputs: vec![draft.node.outputs[at].clone()],
            attributes: BTreeMap::new(),
        });
        start = end;
    }
    Ok(draft.done)
}

fn epsilon(draft: &mut Draft) -> Result<f32, ConvertError> {
    match draft.attribute("epsilon") {
        None => Ok(1e-5),
        Some(Attribute::Float(number)) if number.is_finite() => Ok(number),
        Some(_) => draft.refused("epsilon is not a finite number"),
    }
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias`, over columns of rows.
fn batch_norm(mut draft: Draft) -> Result<Adapted, ConvertError> {
    let epsilon = epsilon(&mut draft)?;
    draft.attribute("momentum");
    let training = draft.attribute("training_mode");
    if !matches!(training, None | Some(Attribute::Int(0))) || draft.node.outputs.len() > 1 {
        return draft.refused("it is in training mode, not in evaluation mode (eval())");
    }
    let [x, scale, bias, mean, variance] = &draft.node.inputs[..] else {
        return draft.refused("expected five inputs");
    };
    let [x, scale, bias] = [x.clone(), scale.clone(), bias.clone()];
    let [mean, variance] = [mean.clone(), variance.clone()];
    let epsilon = draft.scalar("epsilon", epsilon);
    let sum = draft.step("variance", "Add", vec![variance, epsilon]);
    let root = draft.step("root", "Sqrt", vec![sum]);
    // ONNX means axis 1, which is the last one of rows: this order of axes refuses other ranks.
    let rows = draft.step("rows", "Transpose", vec![x]);
    if let Some(step) = draft.done.nodes.last_mut() {
        step.attributes.insert("perm".to_owned(), Attribute::Ints(vec![0, 1]));
    }
    let centred = draft.step("centred", "Sub", vec![rows, mean]);
    let unit = draft.step("unit", "Div", vec![centred, root]);
    let scaled = draft.step("scaled", "Mul", vec![unit, scale]);
    Ok(draft.finish("Add", vec![scaled, bias]))
}

/// The same over the last axis of each row, whose mean and variance are taken.
fn layer_norm(mut draft: Draft) -> Result<Adapted, ConvertError> {
    let epsilon = epsilon(&mut draft)?;
    draft.attribute("stash_type");
    if !matches!(draft.attribute("axis"), None | Some(Attribute::Int(-1))) {
        return draft.refused("only normalisation over the last axis is supported");
    }
    if draft.node.outputs.len() > 1 {
        return draft.refused("the outputs for mean and deviation are not supported");
    }
    let (x, bias) = (draft.node.inputs[0].clone(), draft.input(2));
    let Some(scale) = draft.input(1) else { return draft.refused("it has no scale") };
    let last = draft.indices("last", vec![-1]);
    let epsilon = draft.scalar("epsilon", epsilon);
    let mean = draft.step("mean", "ReduceMean", vec![x.clone(), last.clone()]);
    let centred = draft.step("centred", "Sub", vec![x, mean]);
    let square = draft.step("square", "Mul", vec![centred.clone(), centred.clone()]);
    let variance = draft.step("variance", "ReduceMean", vec![square, last]);
    let sum = draft.step("sum", "Add", vec![variance, epsilon]);
    let root = draft.step("root", "Sqrt", vec![sum]);
    let unit = draft.step("unit", "Div", vec![centred, root]);
    match bias {
        None => Ok(draft.finish("Mul", vec![unit, scale])),
        Some(bias) => {
            let scaled = draft.step("scaled", "Mul", vec![unit, scale]);
            Ok(draft.finish("Add", vec![scaled, bias]))
        }
    }
}
