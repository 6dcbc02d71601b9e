//! Which tensors of a file stay as narrow as they are.
//!
//! The invariant: whoever takes such a tensor takes it narrow, so the graph means the same.

use std::collections::{HashMap, HashSet};

use ng_types::Dtype;

use super::to_onnx::DOMAIN;
use crate::onnx::{AttributeValue, Model, Node};

/// A node, and at which place it takes a value.
type Taker<'a> = (&'a Node, usize);

/// Names of weights in half precision that a cast widens, also behind a gather, and of steps that
/// quantised products take.
pub(super) fn narrow(model: &Model) -> HashSet<&str> {
    let mut takers: HashMap<&str, Vec<Taker<'_>>> = HashMap::new();
    for node in &model.graph.nodes {
        for (at, input) in node.inputs.iter().enumerate() {
            takers.entry(input).or_default().push((node, at));
        }
    }
    let outputs: HashSet<&str> = model.graph.outputs.iter().map(|out| out.name.as_str()).collect();
    let all = |name: &str, fits: &dyn Fn(&Taker<'_>) -> bool| {
        let taken = takers.get(name).is_some_and(|takers| takers.iter().all(fits));
        taken && !outputs.contains(name)
    };
    let is_widened = |taker: &Taker<'_>| {
        let gathered = taker.0.domain.is_empty() && taker.0.op_type == "Gather" && taker.1 == 0;
        is_widening(taker) || gathered && all(&taker.0.outputs[0], &is_widening)
    };
    let stays = |dtype, name: &str| match dtype {
        Dtype::F16 => all(name, &is_widened),
        Dtype::I8 => all(name, &is_product),
        _ => false,
    };
    let tensors = model.graph.initializers.iter();
    let kept = tensors.filter(|tensor| stays(tensor.dtype, &tensor.name));
    kept.map(|tensor| tensor.name.as_str()).collect()
}

fn is_widening((node, _): &Taker<'_>) -> bool {
    let to = node.attributes.iter().find(|attribute| attribute.name == "to");
    let is_f32 = to.is_some_and(|to| to.value == AttributeValue::Int(1));
    node.domain.is_empty() && node.op_type == "Cast" && is_f32
}

fn is_product((node, at): &Taker<'_>) -> bool {
    let is_one = ["QuantisedLinear", "FixedMatMul"].contains(&node.op_type.as_str());
    node.domain == DOMAIN && is_one && *at == 1
}
