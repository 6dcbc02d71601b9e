//! Models that the ONNX reader accepts, and what it makes of them.

use crate::onnx_support;
use crate::onnx_support::{full, small};
use ng_infer::onnx::{AttributeValue, Data, Dim, ExternalFiles, Model, Range};
use ng_types::Dtype;
use prost::Message;

fn decoded() -> Model {
    Model::decode(&full().encode_to_vec()).expect("accepted")
}

#[test]
fn the_small_model_is_read_with_its_function() {
    let model = Model::decode(&small().encode_to_vec()).expect("accepted");
    assert_eq!((model.ir_version, model.opset), (10, 20));
    assert_eq!(model.opsets, [("ai.neargraph".to_owned(), 1)]);
    assert_eq!(model.graph.name, "small");
    let ops: Vec<&str> = model.graph.nodes.iter().map(|node| node.op_type.as_str()).collect();
    assert_eq!(ops, ["MatMul", "Turn", "Relu"]);
    assert_eq!(model.functions.len(), 1);
    assert_eq!(model.functions[0].nodes[0].op_type, "Neg");
}

#[test]
fn shapes_are_numbers_symbols_or_unknown() {
    let graph = decoded().graph;
    assert_eq!(graph.inputs[0].dims, Some(vec![Dim::Symbol("n".to_owned()), Dim::Fixed(2)]));
    let dims = vec![Dim::Fixed(2), Dim::Symbol("e".to_owned()), Dim::Unknown];
    assert_eq!(graph.inputs[1].dims, Some(dims));
    assert_eq!(graph.inputs[1].dtype, Dtype::I64);
    assert_eq!(graph.outputs[1].dims, Some(vec![]));
}

#[test]
fn every_dtype_is_read_from_raw_bytes_and_from_its_list() {
    let graph = decoded().graph;
    let list = |name: &str| {
        let tensor = graph.initializers.iter().find(|tensor| tensor.name == name);
        let tensor = tensor.expect("an initializer");
        let Data::Inline(bytes) = &tensor.data else { panic!("{name} is external") };
        (tensor.dtype, bytes.clone())
    };
    let one = |len: usize| [vec![1], vec![0; len - 1]].concat();
    assert_eq!(list("list1"), (Dtype::F32, 1.5f32.to_le_bytes().to_vec()));
    assert_eq!(list("list2"), (Dtype::U8, one(1)));
    assert_eq!(list("list3"), (Dtype::I8, one(1)));
    assert_eq!(list("list5"), (Dtype::I16, one(2)));
    assert_eq!(list("list6"), (Dtype::I32, one(4)));
    assert_eq!(list("list7"), (Dtype::I64, (-3i64).to_le_bytes().to_vec()));
    assert_eq!(list("list9"), (Dtype::Bool, one(1)));
    assert_eq!(list("list10"), (Dtype::F16, one(2)));
    assert_eq!(list("list11"), (Dtype::F64, (-2.5f64).to_le_bytes().to_vec()));
    assert_eq!(list("list16"), (Dtype::Bf16, one(2)));
    for (data_type, size) in onnx_support::TYPES {
        assert_eq!(list(&format!("raw{data_type}")).1, vec![0; size]);
    }
}

#[test]
fn every_kind_of_attribute_is_read() {
    let model = decoded();
    let clip = &model.graph.nodes[3];
    assert_eq!(clip.inputs, ["y", "", "raw1"]);
    let value = |name: &str| {
        let found = clip.attributes.iter().find(|attribute| attribute.name == name);
        found.expect("an attribute").value.clone()
    };
    assert_eq!(value("float"), AttributeValue::Float(0.5));
    assert_eq!(value("int"), AttributeValue::Int(-7));
    assert_eq!(value("str"), AttributeValue::Str("mean".to_owned()));
    assert_eq!(value("floats"), AttributeValue::Floats(vec![1.0, f32::NEG_INFINITY]));
    assert_eq!(value("ints"), AttributeValue::Ints(vec![1, -1]));
    assert_eq!(value("strs"), AttributeValue::Strs(vec!["a".to_owned(), String::new()]));
    let AttributeValue::Tensor(tensor) = value("tensor") else { panic!("not a tensor") };
    assert_eq!((tensor.dtype, tensor.dims.as_slice()), (Dtype::I64, [].as_slice()));
    let outer = &model.functions[1];
    assert_eq!(outer.attributes, ["axis"]);
    assert_eq!(outer.defaults[0].value, AttributeValue::Int(1));
    let softmax = &outer.nodes[1];
    assert_eq!(softmax.domain, "", "ai.onnx is the standard domain");
    assert_eq!(softmax.attributes[0].value, AttributeValue::Reference("axis".to_owned()));
    assert_eq!(model.metadata[0], ("fanouts".to_owned(), "[25, 10]".to_owned()));
}

#[test]
fn external_weights_come_from_the_range_that_the_model_states() {
    let model = decoded();
    let weight = |name: &str| {
        let found = model.graph.initializers.iter().find(|tensor| tensor.name == name);
        found.expect("an initializer")
    };
    let range = Range { file: "a.safetensors".to_owned(), offset: 24, length: 12 };
    assert_eq!(weight("w2").data, Data::External(range));
    assert_eq!(weight("w2").bytes_len(), 12);
    let file: Vec<u8> = (0..36).collect();
    let mut asked = Vec::new();
    let len = |name: &str| {
        asked.push(name.to_owned());
        Ok(36)
    };
    let read = |range: &Range, into: &mut [u8]| {
        into.copy_from_slice(&file[range.offset as usize..][..into.len()]);
        Ok(())
    };
    let mut files = ExternalFiles::new(&model, len, read).expect("inside");
    assert_eq!(files.bytes(weight("w1")).expect("read").as_ref(), &file[8..24]);
    assert_eq!(files.bytes(weight("w2")).expect("read").as_ref(), &file[24..36]);
    assert_eq!(files.bytes(weight("raw1")).expect("inline").as_ref(), [0; 4]);
    drop(files);
    assert_eq!(asked, ["a.safetensors", "b.safetensors"], "each file once");
}

#[test]
fn a_scalar_may_be_infinite() {
    let mut model = small();
    let graph = model.graph.as_mut().expect("a graph");
    let infinity = f32::NEG_INFINITY.to_le_bytes();
    graph.initializer.push(onnx_support::raw("start", 1, &[], &infinity));
    Model::decode(&model.encode_to_vec()).expect("accepted");
}
