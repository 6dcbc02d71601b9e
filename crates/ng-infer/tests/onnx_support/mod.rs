//! Models that the tests of the ONNX reader start from, built from its own messages.
//!
//! What lives here: builders of messages, and two valid models. What must not: damage to them.
#![allow(dead_code, missing_docs, clippy::expect_used)] // Each user needs a part of it.

pub mod fuzz;
mod wire;

use ng_infer::onnx::Model;
use ng_infer::onnx::proto::{
    AttributeProto, DimensionProto, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};
use prost::Message;

/// Numbers of element types.
pub const FLOAT: i32 = 1;

pub fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.to_owned()) }
}

pub fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) }
}

/// A dimension: a number, or else a symbol.
pub fn dim(text: &str) -> DimensionProto {
    match text.parse() {
        Ok(number) => DimensionProto { dim_value: Some(number), dim_param: None },
        Err(_) => DimensionProto { dim_value: None, dim_param: Some(text.to_owned()) },
    }
}

pub fn value(name: &str, elem_type: i32, dims: &[&str]) -> ValueInfoProto {
    let shape = TensorShapeProto { dim: dims.iter().map(|text| dim(text)).collect() };
    let tensor = TensorTypeProto { elem_type: Some(elem_type), shape: Some(shape) };
    let r#type = Some(TypeProto { tensor_type: Some(tensor) });
    ValueInfoProto { name: Some(name.to_owned()), r#type }
}

/// A node whose name is `at_` and its first output.
pub fn node(domain: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    NodeProto {
        name: Some(format!("at_{}", outputs.first().unwrap_or(&""))),
        op_type: Some(op.to_owned()),
        domain: (!domain.is_empty()).then(|| domain.to_owned()),
        input: owned(inputs),
        output: owned(outputs),
        ..NodeProto::default()
    }
}

/// An attribute of the number `of` of a type, without a value.
pub fn attribute(name: &str, of: i32) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), r#type: Some(of), ..AttributeProto::default() }
}

pub fn raw(name: &str, data_type: i32, dims: &[i64], bytes: &[u8]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(data_type),
        dims: dims.to_vec(),
        raw_data: Some(bytes.to_vec()),
        ..TensorProto::default()
    }
}

/// A tensor whose data is in a file; 4 bytes an element.
pub fn external(name: &str, dims: &[i64], file: &str, offset: &str, length: &str) -> TensorProto {
    let external_data =
        vec![entry("location", file), entry("offset", offset), entry("length", length)];
    TensorProto {
        raw_data: None,
        data_location: Some(1),
        external_data,
        ..raw(name, FLOAT, dims, &[])
    }
}

/// A function of one node that negates its input.
pub fn function(domain: &str, name: &str) -> FunctionProto {
    FunctionProto {
        name: Some(name.to_owned()),
        domain: Some(domain.to_owned()),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![node("", "Neg", &["a"], &["b"])],
        opset_import: vec![opset("", 20)],
        ..FunctionProto::default()
    }
}

/// relu(x W) with a function in between.
pub fn small() -> ModelProto {
    let graph = GraphProto {
        name: Some("small".to_owned()),
        input: vec![value("x", FLOAT, &["n", "2"])],
        output: vec![value("y", FLOAT, &["n", "2"])],
        initializer: vec![raw("w", FLOAT, &[2, 2], &[0; 16])],
        node: vec![
            node("", "MatMul", &["x", "w"], &["xw"]),
            node("ai.neargraph", "Turn", &["xw"], &["turned"]),
            node("", "Relu", &["turned"], &["y"]),
        ],
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset("", 20), opset("ai.neargraph", 1)],
        graph: Some(graph),
        functions: vec![function("ai.neargraph", "Turn")],
        ..ModelProto::default()
    }
}

/// A tensor of one element in the list of its type.
fn listed(name: &str, data_type: i32) -> TensorProto {
    let mut tensor = TensorProto { raw_data: None, ..raw(name, data_type, &[1], &[]) };
    match data_type {
        1 => tensor.float_data = vec![1.5],
        11 => tensor.double_data = vec![-2.5],
        7 => tensor.int64_data = vec![-3],
        _ => tensor.int32_data = vec![1],
    }
    tensor
}

/// Element types that are read, with the bytes of an element.
pub const TYPES: [(i32, usize); 10] =
    [(1, 4), (2, 1), (3, 1), (5, 2), (6, 4), (7, 8), (9, 1), (10, 2), (11, 8), (16, 2)];

/// One attribute of each kind.
pub fn attributes() -> Vec<AttributeProto> {
    vec![
        AttributeProto { f: Some(0.5), ..attribute("float", 1) },
        AttributeProto { i: Some(-7), ..attribute("int", 2) },
        AttributeProto { s: Some(b"mean".to_vec()), ..attribute("str", 3) },
        AttributeProto {
            t: Some(Box::new(raw("", 7, &[], &[1, 0, 0, 0, 0, 0, 0, 0]))),
            ..attribute("tensor", 4)
        },
        AttributeProto { floats: vec![1.0, f32::NEG_INFINITY], ..attribute("floats", 6) },
        AttributeProto { ints: vec![1, -1], ..attribute("ints", 7) },
        AttributeProto { strings: vec![b"a".to_vec(), vec![]], ..attribute("strs", 8) },
    ]
}

/// A model with every dtype, every kind of attribute, two domains of functions, a call inside a
/// function, and external data.
pub fn full() -> ModelProto {
    let mut model = small();
    model.metadata_props = vec![entry("fanouts", "[25, 10]"), entry("made by", "a test")];
    model.opset_import.push(opset("pkg.torch", 1));
    let mut outer = function("pkg.torch", "Outer");
    outer.attribute = vec!["axis".to_owned()];
    outer.attribute_proto = vec![AttributeProto { i: Some(1), ..attribute("keep", 2) }];
    outer.opset_import.push(opset("ai.neargraph", 1));
    outer.node = vec![
        node("ai.neargraph", "Turn", &["a"], &["m"]),
        NodeProto {
            attribute: vec![AttributeProto {
                ref_attr_name: Some("axis".to_owned()),
                ..attribute("axis", 2)
            }],
            ..node("ai.onnx", "Softmax", &["m"], &["b"])
        },
    ];
    model.functions.push(outer);
    if let Some(graph) = &mut model.graph {
        graph.input.push(value("edge_index", 7, &["2", "e", ""]));
        for (data_type, size) in TYPES {
            graph.initializer.push(raw(
                &format!("raw{data_type}"),
                data_type,
                &[1],
                &vec![0; size],
            ));
            graph.initializer.push(listed(&format!("list{data_type}"), data_type));
        }
        graph.initializer.push(external("w1", &[2, 2], "a.safetensors", "8", "16"));
        graph.initializer.push(external("w2", &[3], "a.safetensors", "24", "12"));
        graph.initializer.push(external("w3", &[3], "b.safetensors", "24", "12"));
        let mut scale = node("", "Clip", &["y", "", "raw1"], &["z", ""]);
        scale.attribute = attributes();
        graph.node.push(scale);
        let mut outer = node("pkg.torch", "Outer", &["z"], &["o"]);
        outer.attribute.push(AttributeProto { i: Some(1), ..attribute("axis", 2) });
        graph.node.push(outer);
        // An operator of this project that has no body.
        graph.node.push(node("ai.neargraph", "BatchPre", &["o", "edge_index"], &["last"]));
        graph.output.push(value("last", FLOAT, &[]));
    }
    model
}

/// The graph of the small model after a change, refused with all of `words` in the message.
pub fn refuse_graph(change: impl FnOnce(&mut GraphProto), words: &[&str]) {
    refuse(|model| change(model.graph.as_mut().expect("a graph")), words);
}

/// The small model after a change, refused with all of `words` in the message.
pub fn refuse(change: impl FnOnce(&mut ModelProto), words: &[&str]) {
    let mut model = small();
    change(&mut model);
    refuse_bytes(&model.encode_to_vec(), words);
}

/// Bytes that are refused with all of `words` in the message.
pub fn refuse_bytes(bytes: &[u8], words: &[&str]) {
    let message = match Model::decode(bytes) {
        Ok(model) => panic!("accepted, expected {words:?}: {model:?}"),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
}
