//! Functions that the ONNX reader refuses: one case for each reason.

use crate::onnx_support::{attribute, function, node, opset, refuse, refuse_graph};
use ng_infer::onnx::proto::{AttributeProto, FunctionProto, NodeProto};

/// The small model with more functions.
fn check(functions: &[FunctionProto], words: &[&str]) {
    refuse(|model| model.functions.extend_from_slice(functions), words);
}

/// A function of the domain `f` whose body calls another one.
fn calling(name: &str, callee: &str) -> FunctionProto {
    FunctionProto { node: vec![node("f", callee, &["a"], &["b"])], ..function("f", name) }
}

#[test]
fn calls_deeper_than_one_level_are_refused() {
    let deep = [calling("A", "B"), calling("B", "C"), function("f", "C")];
    check(&deep, &["function \"A\"", "function \"B\"", "function \"C\"", "only one level"]);
    let cycle = [calling("A", "B"), calling("B", "C"), calling("C", "A")];
    check(&cycle, &["only one level"]);
}

#[test]
fn recursion_is_refused() {
    check(&[calling("A", "A")], &["function \"A\"", "calls itself", "recursion"]);
    let two = [calling("A", "B"), calling("B", "A")];
    check(&two, &["function \"A\"", "through function \"B\"", "recursion"]);
}

#[test]
fn functions_are_defined_once_in_a_domain_of_their_own() {
    let words = ["the function \"A\" twice"];
    check(&[function("f", "A"), function("f", "A")], &words);
    check(&[function("", "A")], &["function \"A\"", "no domain of its own"]);
    check(&[function("ai.onnx", "A")], &["no domain of its own"]);
    check(&[function("f", "")], &["a function has no name"]);
    let overload = FunctionProto { overload: Some("2".into()), ..function("f", "A") };
    check(&[overload], &["function \"A\"", "an overload"]);
}

#[test]
fn functions_that_are_not_there_are_refused() {
    check(&[calling("A", "B")], &["node 0 \"at_b\"", "does not define", "\"f\""]);
}

#[test]
fn calls_give_and_take_no_more_values_than_the_function_has() {
    let words = ["node 1 \"at_turned\"", "2 inputs, but its function has 1"];
    refuse_graph(|graph| graph.node[1].input.push("x".into()), &words);
    let words = ["node 1 \"at_turned\"", "2 outputs, but its function has 1"];
    refuse_graph(|graph| graph.node[1].output.push("v".into()), &words);
}

#[test]
fn functions_use_the_opset_of_the_model() {
    let with = |opsets| FunctionProto { opset_import: opsets, ..function("f", "A") };
    let words = ["function \"A\" of domain \"f\"", "opset 21", "its model imports 20"];
    check(&[with(vec![opset("", 21)])], &words);
    check(&[with(vec![opset("", 17)])], &["function \"A\"", "opset 17", "18 to 22"]);
    check(&[with(vec![])], &["function \"A\"", "no opset of the standard operators"]);
}

#[test]
fn bodies_are_checked_as_graphs_are() {
    let body = |nodes: Vec<NodeProto>| [FunctionProto { node: nodes, ..function("f", "A") }];
    let neg = |from, to| node("", "Neg", &[from], &[to]);
    check(&body(vec![neg("x", "b")]), &["the value \"x\", which is not defined"]);
    check(&body(vec![neg("a", "c")]), &["function \"A\"", "the output \"b\""]);
    check(&body(vec![neg("c", "b"), neg("a", "c")]), &["node 0", "before node 1"]);
    check(&body(vec![neg("a", "a")]), &["the value \"a\" twice"]);
    check(&body(vec![node("", "If", &["a"], &["b"])]), &["If", "control flow"]);
    check(&body(vec![node("com.x", "Neg", &["a"], &["b"])]), &["\"com.x\"", "neither"]);
    let inputs = FunctionProto { input: vec!["a".into(); 2], ..function("f", "A") };
    check(&[inputs], &["function \"A\"", "the value \"a\" twice"]);
    let outputs = FunctionProto { output: vec!["b".into(); 2], ..function("f", "A") };
    check(&[outputs], &["function \"A\"", "the output \"b\" twice"]);
}

#[test]
fn attributes_of_functions_are_declared_once_and_before_they_are_referred_to() {
    let reference = AttributeProto { ref_attr_name: Some("b".into()), ..attribute("a", 2) };
    let mut missing = function("f", "A");
    missing.node[0].attribute.push(reference.clone());
    check(&[missing], &["node 0", "the attribute \"b\", which is not defined"]);
    let mut twice = function("f", "A");
    twice.attribute = vec!["a".into()];
    twice.attribute_proto = vec![attribute("a", 2)];
    check(&[twice], &["function \"A\"", "the attribute \"a\" twice"]);
    let default = FunctionProto { attribute_proto: vec![reference], ..function("f", "A") };
    check(&[default], &["function \"A\"", "\"a\" whose default value refers to \"b\""]);
}

#[test]
fn functions_that_expand_to_too_many_nodes_are_refused() {
    let mut wide = function("f", "Wide");
    let names = |at: usize| if at == 0 { "a".to_owned() } else { format!("v{at}") };
    wide.node.extend((0..400).map(|at| node("", "Neg", &[&names(at)], &[&names(at + 1)])));
    let mut caller = calling("Calls", "Wide");
    let values = 0..300;
    caller.node.extend(values.map(|at| node("f", "Wide", &[&names(at)], &[&names(at + 1)])));
    refuse(
        |model| {
            model.functions.extend([wide, caller]);
            if let Some(graph) = &mut model.graph {
                graph.node.push(node("f", "Calls", &["y"], &["z"]));
            }
        },
        &["121007 nodes after its functions are expanded, more than the limit of 100000"],
    );
}
