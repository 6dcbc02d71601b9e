//! Inputs and outputs of graphs, and where the values between nodes come from.
//!
//! What lives here: names, types and shapes of values, and the check that nodes stand in
//! topological order. What must not: shape inference. The invariant: after [`check_order`], each
//! value has one definition, which stands before its uses.

use std::collections::HashMap;

use super::dtypes::dtype;
use super::error::{OnnxError, quoted};
use super::model::{Dim, Node, Value};
use super::names::required;
use super::nodes::node_place;
use super::proto::{DimensionProto, ValueInfoProto};
use super::tensors::RANK_MAX;

/// Reads an input or an output of the graph; `what` says which.
pub(super) fn read_value(value: ValueInfoProto, what: &'static str) -> Result<Value, OnnxError> {
    let name = required(value.name, "name", || format!("an {what} of the graph"))?;
    let place = || format!("{what} {}", quoted(&name));
    let tensor = value.r#type.and_then(|of| of.tensor_type);
    let Some(tensor) = tensor else {
        return Err(OnnxError::Missing { place: place(), what: "tensor type" });
    };
    let dtype = dtype(tensor.elem_type, place)?;
    let dims = tensor.shape.map(|shape| read_dims(shape.dim, &place)).transpose()?;
    Ok(Value { name, dtype, dims })
}

fn read_dims(dims: Vec<DimensionProto>, place: &dyn Fn() -> String) -> Result<Vec<Dim>, OnnxError> {
    let refuse = |dims, reason| Err(OnnxError::Dims { place: place(), dims, reason });
    if dims.len() > RANK_MAX {
        return refuse(format!("of {} dimensions", dims.len()), "more than 32 dimensions");
    }
    let mut read = Vec::with_capacity(dims.len());
    for dim in dims {
        read.push(match (dim.dim_value, dim.dim_param) {
            (Some(number), _) => match u64::try_from(number) {
                Ok(number) => Dim::Fixed(number),
                Err(_) => return refuse(format!("[.., {number}, ..]"), "a negative dimension"),
            },
            (None, Some(symbol)) if !symbol.is_empty() => Dim::Symbol(symbol),
            (None, _) => Dim::Unknown,
        });
    }
    Ok(read)
}

/// Checks that the nodes of a body read what was defined before them, and define each value once.
///
/// `given` are the names that exist before the first node, `wanted` those that the body must make;
/// `place` names the body.
pub(super) fn check_order<'a>(
    nodes: &'a [Node],
    given: impl IntoIterator<Item = &'a str>,
    wanted: impl IntoIterator<Item = &'a str>,
    place: &dyn Fn() -> String,
) -> Result<(), OnnxError> {
    let twice = |place: String, name: &str| {
        Err(OnnxError::DefinedTwice { place, what: "the value", name: quoted(name) })
    };
    // Each name with the node that makes it; `None` for what is given.
    let mut makers: HashMap<&str, Option<usize>> = HashMap::new();
    for name in given {
        if makers.insert(name, None).is_some() {
            return twice(place(), name);
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        for name in node.outputs.iter().filter(|name| !name.is_empty()) {
            if makers.insert(name, Some(at)).is_some() {
                return twice(node_place(at, node), name);
            }
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        for name in node.inputs.iter().filter(|name| !name.is_empty()) {
            match makers.get(name.as_str()) {
                None => {
                    let (place, name) = (node_place(at, node), quoted(name));
                    return Err(OnnxError::Undefined { place, what: "the value", name });
                }
                Some(Some(maker)) if *maker >= at => {
                    let later = node_place(*maker, &nodes[*maker]);
                    let (place, name) = (node_place(at, node), quoted(name));
                    return Err(OnnxError::Order { place, name, later });
                }
                Some(_) => {}
            }
        }
    }
    match wanted.into_iter().find(|name| !makers.contains_key(name)) {
        Some(name) => {
            Err(OnnxError::Undefined { place: place(), what: "the output", name: quoted(name) })
        }
        None => Ok(()),
    }
}
