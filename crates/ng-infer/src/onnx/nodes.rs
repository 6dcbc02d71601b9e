//! Nodes: from the message to [`Node`], and whose operators they may call.
//!
//! What lives here: one node, and the domains of all. What must not: which operators of the
//! standard the engine has. The invariant: a node of a domain that is not standard calls a function
//! of the file, or an operator of this project.

use std::collections::{HashMap, HashSet};

use super::attributes::read_attributes;
use super::error::{OnnxError, quoted};
use super::model::{AttributeValue, Node};
use super::names::{check_unique, required};
use super::opsets::{OWN_DOMAIN, canonical};
use super::proto::NodeProto;

/// Standard operators that hold or call graphs.
const CONTROL_FLOW: [&str; 4] = ["If", "Loop", "Scan", "SequenceMap"];

/// A node as messages name it: by its name if it has one, and by its index, which is unique.
pub(super) fn node_place(at: usize, node: &Node) -> String {
    place(at, &node.name, &node.op_type)
}

fn place(at: usize, name: &str, op_type: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!(" {}", quoted(name)) };
    format!("node {at}{name} (operator {})", quoted(op_type))
}

/// Reads the nodes of the graph or of a function; `body` names which.
pub(super) fn read_nodes(
    nodes: Vec<NodeProto>,
    body: &dyn Fn() -> String,
) -> Result<Vec<Node>, OnnxError> {
    let nodes = nodes.into_iter().enumerate().map(|(at, node)| read_node(at, node));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    let names = nodes.iter().map(|node| node.name.as_str());
    check_unique(names.filter(|name| !name.is_empty()), "the node", body)?;
    Ok(nodes)
}

fn read_node(at: usize, node: NodeProto) -> Result<Node, OnnxError> {
    let name = node.name.unwrap_or_default();
    let op_type = required(node.op_type, "operator", || place(at, &name, ""))?;
    let place = || place(at, &name, &op_type);
    let domain = canonical(node.domain);
    if domain.is_empty() && CONTROL_FLOW.contains(&op_type.as_str()) {
        return Err(OnnxError::ControlFlow {
            place: place(),
            what: format!("a subgraph of {op_type}"),
        });
    }
    if node.overload.is_some_and(|overload| !overload.is_empty()) {
        return Err(OnnxError::Unsupported { place: place(), what: "an overload".to_owned() });
    }
    let attributes = read_attributes(node.attribute, &place)?;
    let (inputs, outputs) = (node.input, node.output);
    Ok(Node { name, domain, op_type, inputs, outputs, attributes })
}

/// A function that nodes may call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callee {
    /// Its index in the model.
    pub(super) at: usize,
    /// Its number of inputs; a call may leave out the last ones.
    pub(super) inputs: usize,
    /// Its number of outputs; a call may leave out the last ones.
    pub(super) outputs: usize,
}

/// Functions of the file, by domain, by name.
pub(super) type Catalog<'a> = HashMap<&'a str, HashMap<&'a str, Callee>>;

/// Checks whose operators the nodes call; returns the functions that they call, in node order.
pub(super) fn check_calls(nodes: &[Node], catalog: &Catalog<'_>) -> Result<Vec<usize>, OnnxError> {
    let mut calls = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let functions = catalog.get(node.domain.as_str());
        match functions.and_then(|functions| functions.get(node.op_type.as_str())) {
            Some(callee) => {
                check_call(at, node, *callee)?;
                calls.push(callee.at);
            }
            None if node.domain.is_empty() || node.domain == OWN_DOMAIN => {}
            None => {
                let (place, domain) = (node_place(at, node), quoted(&node.domain));
                return Err(match functions {
                    Some(_) => OnnxError::NoFunction { place, domain },
                    None => OnnxError::Domain { place, domain },
                });
            }
        }
    }
    Ok(calls)
}

/// A call gives and takes no more values than the function has.
fn check_call(at: usize, node: &Node, callee: Callee) -> Result<(), OnnxError> {
    let sides = [
        ("inputs", node.inputs.len(), callee.inputs),
        ("outputs", node.outputs.len(), callee.outputs),
    ];
    match sides.into_iter().find(|(_, given, taken)| given > taken) {
        Some((what, given, taken)) => {
            Err(OnnxError::Call { place: node_place(at, node), what, given, taken })
        }
        None => Ok(()),
    }
}

/// Refuses references to attributes that the function around the nodes does not have.
pub(super) fn check_references(nodes: &[Node], declared: &HashSet<&str>) -> Result<(), OnnxError> {
    for (at, node) in nodes.iter().enumerate() {
        for attribute in &node.attributes {
            if let AttributeValue::Reference(of) = &attribute.value
                && !declared.contains(of.as_str())
            {
                let (place, name) = (node_place(at, node), quoted(of));
                return Err(OnnxError::Undefined { place, what: "the attribute", name });
            }
        }
    }
    Ok(())
}
