//! Functions of the file, and how deep they call each other.
//!
//! What lives here: from the message to [`Function`], and the bounds on calls. What must not:
//! expansion. The invariant: the graph may call functions, and these may call functions that call
//! none; so expanding a model ends, and it makes at most [`NODES_MAX`] nodes.

use std::collections::HashSet;

use super::attributes::read_attributes;
use super::error::{OnnxError, quoted};
use super::model::{AttributeValue, Function, Model};
use super::names::{check_unique, required};
use super::nodes::{Callee, Catalog, check_calls, check_references, read_nodes};
use super::opsets::{canonical, function_place, read_opsets, standard_opset};
use super::proto::FunctionProto;
use super::scan::NODES_MAX;
use super::values::check_order;

/// Reads a function and checks its body.
pub(super) fn read_function(
    function: FunctionProto,
    model_opset: i64,
) -> Result<Function, OnnxError> {
    let name = required(function.name, "name", || "a function".to_owned())?;
    let domain = canonical(function.domain);
    let place = || function_place(&domain, &name);
    if domain.is_empty() {
        return Err(OnnxError::Missing { place: place(), what: "domain of its own" });
    }
    if function.overload.is_some_and(|overload| !overload.is_empty()) {
        return Err(OnnxError::Unsupported { place: place(), what: "an overload".to_owned() });
    }
    let opsets = read_opsets(function.opset_import, place)?;
    let nodes = read_nodes(function.node, &place)?;
    if nodes.iter().any(|node| node.domain.is_empty()) {
        let found = standard_opset(&opsets, place)?;
        if found != model_opset {
            let model = model_opset;
            return Err(OnnxError::FunctionOpset { place: place(), found, model });
        }
    }
    let defaults = read_attributes(function.attribute_proto, &place)?;
    let attributes = function.attribute;
    check_attributes(&attributes, &defaults, &place)?;
    let names = defaults.iter().map(|default| default.name.as_str());
    let declared: HashSet<&str> = attributes.iter().map(String::as_str).chain(names).collect();
    check_references(&nodes, &declared)?;
    let (inputs, outputs) = (function.input, function.output);
    check_unique(outputs.iter().map(String::as_str), "the output", place)?;
    let given = inputs.iter().map(String::as_str);
    check_order(&nodes, given, outputs.iter().map(String::as_str), &place)?;
    Ok(Function { name, domain, inputs, outputs, attributes, defaults, nodes, opsets })
}

/// Attributes have one declaration each, and defaults are values.
fn check_attributes(
    attributes: &[String],
    defaults: &[super::Attribute],
    place: &dyn Fn() -> String,
) -> Result<(), OnnxError> {
    let names = defaults.iter().map(|default| default.name.as_str());
    check_unique(attributes.iter().map(String::as_str).chain(names), "the attribute", place)?;
    for default in defaults {
        if let AttributeValue::Reference(of) = &default.value {
            let (place, name) = (place(), quoted(&default.name));
            let reason =
                format!("whose default value refers to {}, which is not supported", quoted(of));
            return Err(OnnxError::Attribute { place, name, reason });
        }
    }
    Ok(())
}

/// Functions by domain and name.
fn catalog(functions: &[Function]) -> Result<Catalog<'_>, OnnxError> {
    let mut catalog = Catalog::new();
    for (at, function) in functions.iter().enumerate() {
        let domain = catalog.entry(function.domain.as_str()).or_default();
        let (inputs, outputs) = (function.inputs.len(), function.outputs.len());
        if domain.insert(function.name.as_str(), Callee { at, inputs, outputs }).is_some() {
            let (place, what) = ("the model".to_owned(), "the function");
            return Err(OnnxError::DefinedTwice { place, what, name: quoted(&function.name) });
        }
    }
    Ok(catalog)
}

/// Checks all calls: their domains, their depth, and the nodes that they expand to.
pub(super) fn check_functions(model: &Model) -> Result<(), OnnxError> {
    let functions = &model.functions;
    let catalog = catalog(functions)?;
    let bodies = functions.iter().map(|function| check_calls(&function.nodes, &catalog));
    let calls = bodies.collect::<Result<Vec<_>, _>>()?;
    check_depth(functions, &calls)?;
    // Functions that call none come first, so that the sizes of those that call them are known.
    let mut nodes: Vec<u64> =
        functions.iter().map(|function| function.nodes.len() as u64).collect();
    let leaves = nodes.clone();
    for (total, callees) in nodes.iter_mut().zip(&calls) {
        *total += callees.iter().map(|callee| leaves[*callee]).sum::<u64>();
    }
    let called = check_calls(&model.graph.nodes, &catalog)?;
    let expanded = called.iter().map(|function| nodes[*function]);
    let count = expanded.fold(model.graph.nodes.len() as u64, u64::saturating_add);
    if count > NODES_MAX {
        let what = "nodes after its functions are expanded";
        return Err(OnnxError::TooMany { what, count, limit: NODES_MAX });
    }
    Ok(())
}

/// A function may call functions that call none.
fn check_depth(functions: &[Function], calls: &[Vec<usize>]) -> Result<(), OnnxError> {
    let name = |at: usize| function_place(&functions[at].domain, &functions[at].name);
    for (caller, callees) in calls.iter().enumerate() {
        for &callee in callees {
            let Some(&deepest) = calls[callee].first() else {
                continue;
            };
            if callee == caller || calls[callee].contains(&caller) {
                return Err(OnnxError::Recursion { place: name(caller), through: name(callee) });
            }
            let (callee, deepest) = (name(callee), name(deepest));
            return Err(OnnxError::CallDepth { place: name(caller), callee, deepest });
        }
    }
    Ok(())
}
