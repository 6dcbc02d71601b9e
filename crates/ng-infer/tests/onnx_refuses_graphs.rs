//! Files, graphs and nodes that the ONNX reader refuses: one case for each reason.

use crate::onnx_support::{
    FLOAT, attribute, entry, node, opset, raw, refuse, refuse_bytes, refuse_graph, small, value,
};
use ng_infer::onnx::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto};
use ng_infer::onnx::{INITIALIZERS_MAX, Model, NODES_MAX};
use prost::{Message, encode_length_delimiter};

#[test]
fn bytes_that_are_not_a_model_are_refused() {
    refuse_bytes(&[0xFF], &["not an ONNX file"]);
    refuse_bytes(b"not a model", &["not an ONNX file"]);
    refuse_bytes(&[], &["the model has no ir_version"]);
    let bytes = small().encode_to_vec();
    refuse_bytes(&bytes[..bytes.len() - 1], &["not an ONNX file"]);
    refuse(|model| model.graph = None, &["the model has no graph"]);
    refuse(|model| model.training_info.push(vec![]), &["the model has training_info"]);
}

#[test]
fn files_larger_than_the_caller_allows_are_refused() {
    let bytes = small().encode_to_vec();
    let message = Model::decode_within(&bytes, 100).expect_err("refused").to_string();
    let expected = format!("the model file has {} bytes, more than the limit of 100", bytes.len());
    assert!(message.contains(&expected), "{message}");
}

/// A model with a graph with an initializer of these fields.
fn around_tensor(fields: &[u8]) -> Vec<u8> {
    let delimited = |key: u8, content: &[u8]| {
        let mut bytes = vec![key];
        encode_length_delimiter(content.len(), &mut bytes).expect("room");
        bytes.extend(content);
        bytes
    };
    delimited(7 << 3 | 2, &delimited(5 << 3 | 2, fields))
}

#[test]
fn small_files_that_decode_to_much_memory_are_refused() {
    // Two bytes each, and many times that in memory.
    let entries = [14 << 3 | 2, 0].repeat(30_000);
    let strings = around_tensor(&[6 << 3 | 2, 0].repeat(30_000));
    let unpacked = around_tensor(&[7 << 3, 0].repeat(30_000));
    // A byte each.
    let zeros = [vec![7 << 3 | 2, 0xE0, 0xD4, 0x03], vec![0; 60_000]].concat();
    let packed = around_tensor(&zeros);
    let behind_group = [vec![0x0B, 0x0C], entries.clone()].concat();
    let malformed = [entries.clone(), vec![0xFF]].concat();
    for bytes in [entries, strings, unpacked, packed, behind_group, malformed] {
        let result = Model::decode_within(&bytes, bytes.len() as u64);
        let message = result.expect_err("refused").to_string();
        assert!(
            message.contains("bytes of decoded protobuf messages, more than the limit of 240"),
            "{message}"
        );
    }
}

#[test]
fn groups_nested_too_deep_are_an_error_and_no_overflow() {
    for depth in [101, 100_000, 10_000_000] {
        let groups = [vec![0x0B; depth], vec![0x0C; depth]].concat();
        refuse_bytes(&groups, &["not an ONNX file"]);
    }
}

#[test]
fn graphs_in_graphs_are_refused_at_any_depth() {
    // Each level is a graph with a node with an attribute with a graph.
    let mut bytes = GraphProto::default().encode_to_vec();
    for _ in 0..300 {
        let attribute = AttributeProto { g: Some(bytes), ..attribute("body", 5) };
        let node = NodeProto { attribute: vec![attribute], ..node("", "Call", &[], &[]) };
        bytes = GraphProto { node: vec![node], ..GraphProto::default() }.encode_to_vec();
    }
    let graph = GraphProto::decode(bytes.as_slice()).expect("a graph");
    let words = ["node 0", "Call", "a graph in its attribute \"body\"", "control flow"];
    refuse(|model| model.graph = Some(graph), &words);
}

#[test]
fn too_many_nodes_and_initializers_are_refused_by_count() {
    let nodes = NODES_MAX as usize;
    refuse_graph(
        |graph| graph.node.resize(nodes + 1, NodeProto::default()),
        &["100002 nodes, more than the limit of 100000"],
    );
    let tensors = INITIALIZERS_MAX as usize + 1;
    refuse_graph(
        |graph| graph.initializer = vec![raw("w", FLOAT, &[0], &[]); tensors],
        &["65537 initializers, more than the limit of 65536"],
    );
}

#[test]
fn control_flow_is_refused() {
    for op in ["If", "Loop", "Scan", "SequenceMap"] {
        for domain in ["", "ai.onnx"] {
            let words = ["node 3 \"at_z\"", op, "control flow"];
            refuse_graph(|graph| graph.node.push(node(domain, op, &["y"], &["z"])), &words);
        }
    }
    for of in [5, 10] {
        let words = ["a graph in its attribute \"body\""];
        refuse_graph(|graph| graph.node[0].attribute.push(attribute("body", of)), &words);
    }
    let hidden = [
        AttributeProto { g: Some(vec![]), ..attribute("n", 2) },
        AttributeProto { graphs: vec![vec![]], ..attribute("n", 2) },
    ];
    for hidden in hidden {
        let words = ["a graph in its attribute \"n\""];
        refuse_graph(|graph| graph.node[0].attribute.push(hidden), &words);
    }
}

#[test]
fn attributes_that_are_not_values_are_refused() {
    let check = |attribute: AttributeProto, words: &[&str]| {
        refuse_graph(|graph| graph.node[0].attribute.push(attribute), words);
    };
    let place = "node 0 \"at_xw\" (operator \"MatMul\")";
    let sparse = AttributeProto { sparse_tensor: Some(vec![]), ..attribute("a", 2) };
    check(sparse, &[place, "a sparse tensor in its attribute \"a\""]);
    let sparse = AttributeProto { sparse_tensors: vec![vec![]], ..attribute("a", 2) };
    check(sparse, &["a sparse tensor"]);
    check(attribute("a", 11), &["a sparse tensor"]);
    check(attribute("a", 9), &["a list of tensors"]);
    check(attribute("a", 13), &["a type in its attribute"]);
    check(attribute("a", 0), &[place, "attribute \"a\" without a type"]);
    check(attribute("a", 99), &["unknown type 99"]);
    check(attribute("a", 4), &["without a tensor"]);
    check(attribute("", 2), &[place, "name of an attribute"]);
    check(AttributeProto { s: Some(vec![0xFF]), ..attribute("a", 3) }, &["not UTF-8"]);
    check(AttributeProto { strings: vec![vec![0xFF]], ..attribute("a", 8) }, &["not UTF-8"]);
    let reference = AttributeProto { ref_attr_name: Some("b".into()), ..attribute("a", 2) };
    check(reference, &[place, "the attribute \"b\", which is not defined"]);
    let twice = [attribute("a", 2), attribute("a", 1)];
    let words = [place, "the attribute \"a\" twice"];
    refuse_graph(|graph| graph.node[0].attribute.extend(twice), &words);
}

#[test]
fn sparse_initializers_are_refused() {
    let words = ["graph \"small\" has a sparse initializer"];
    refuse_graph(|graph| graph.sparse_initializer.push(vec![]), &words);
}

#[test]
fn opsets_outside_18_to_22_are_refused() {
    for version in [17, 23, 0, -1, i64::MAX] {
        let words = ["the model imports opset", &version.to_string(), "18 to 22"];
        refuse(|model| model.opset_import[0] = opset("ai.onnx", version), &words);
    }
    let words = ["the model has no opset of the standard operators"];
    refuse(|model| drop(model.opset_import.remove(0)), &words);
    let words = ["the opset of domain \"\" twice"];
    refuse(|model| model.opset_import.push(opset("ai.onnx", 20)), &words);
}

#[test]
fn domains_that_nothing_defines_are_refused() {
    for domain in ["ai.onnx.ml", "com.microsoft", "pkg.torch", "AI.ONNX"] {
        let words = ["node 3 \"at_z\"", domain, "neither standard"];
        refuse_graph(|graph| graph.node.push(node(domain, "Add", &["y"], &["z"])), &words);
    }
}

#[test]
fn names_are_defined_once() {
    let twice = |change: fn(&mut GraphProto), words: &[&str]| refuse_graph(change, words);
    twice(
        |graph| graph.input.push(value("x", FLOAT, &[])),
        &["graph \"small\" defines the value \"x\" twice"],
    );
    twice(|graph| graph.initializer.push(raw("w", FLOAT, &[0], &[])), &["the value \"w\" twice"]);
    twice(
        |graph| graph.node.push(node("", "Relu", &["x"], &["w"])),
        &["node 3 \"at_w\"", "the value \"w\" twice"],
    );
    twice(|graph| graph.node[0].output.push("xw".into()), &["node 0", "the value \"xw\" twice"]);
    twice(|graph| graph.output.push(value("y", FLOAT, &[])), &["the output \"y\" twice"]);
    twice(|graph| graph.node[1].name = Some("at_xw".into()), &["the node \"at_xw\" twice"]);
    let keys = |model: &mut ModelProto| model.metadata_props = vec![entry("k", ""); 2];
    refuse(keys, &["the metadata key \"k\" twice"]);
    refuse(|model| model.metadata_props = vec![entry("", "v")], &["no key"]);
}

#[test]
fn initializers_that_are_inputs_too_are_refused() {
    let words = ["input \"x\"", "an initializer as its default value"];
    refuse_graph(|graph| graph.initializer.push(raw("x", FLOAT, &[0], &[])), &words);
}

#[test]
fn values_are_defined_before_they_are_read() {
    let words = ["node 0 \"at_xw\"", "the value \"v\", which is not defined"];
    refuse_graph(|graph| graph.node[0].input[1] = "v".into(), &words);
    let words = ["graph \"small\"", "the output \"v\", which is not defined"];
    refuse_graph(|graph| graph.output.push(value("v", FLOAT, &[])), &words);
    let words = ["node 0 \"at_turned\"", "uses \"xw\" before node 1 \"at_xw\"", "topological"];
    refuse_graph(|graph| graph.node.swap(0, 1), &words);
    let words = ["node 0", "uses \"y\" before node 2", "without cycles"];
    refuse_graph(|graph| graph.node[0].input[1] = "y".into(), &words);
    let words = ["node 2 \"at_y\"", "uses \"y\" before node 2 \"at_y\""];
    refuse_graph(|graph| graph.node[2].input[0] = "y".into(), &words);
}

#[test]
fn inputs_and_outputs_are_tensors_with_possible_shapes() {
    let check = |value: ValueInfoProto, words: &[&str]| {
        refuse_graph(|graph| graph.input.push(value), words);
    };
    check(value("v", FLOAT, &["-1"]), &["input \"v\"", "negative"]);
    check(value("v", FLOAT, &["1"; 33]), &["input \"v\"", "33 dimensions"]);
    check(value("v", 8, &[]), &["input \"v\"", "STRING"]);
    check(
        ValueInfoProto { r#type: None, ..value("v", FLOAT, &[]) },
        &["input \"v\"", "no tensor type"],
    );
    check(value("", FLOAT, &[]), &["an input of the graph has no name"]);
    let words = ["output \"y\"", "UINT64"];
    refuse_graph(|graph| graph.output[0] = value("y", 13, &[]), &words);
}

#[test]
fn nodes_without_an_operator_and_with_an_overload_are_refused() {
    refuse_graph(|graph| graph.node[0].op_type = None, &["node 0 \"at_xw\"", "no operator"]);
    let words = ["node 0 \"at_xw\"", "an overload"];
    refuse_graph(|graph| graph.node[0].overload = Some("2".into()), &words);
}

#[test]
fn long_and_odd_names_are_cut_and_escaped_in_messages() {
    let name = format!("a\n{}", "b".repeat(10_000));
    let words = [r#""a\nbbb"#, "bbb\"... twice"];
    refuse_graph(|graph| graph.input = vec![value(&name, FLOAT, &[]); 2], &words);
}
