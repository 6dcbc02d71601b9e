//! Operators that the engine has in another form give what ONNX says, functions of strangers come
//! in line, and what is not supported is refused by name.

use crate::common::{f32s, i64s};
use ng_infer::convert::ConvertError;
use ng_infer::dfg::{Constant, Dfg};
use ng_infer::kernel::Context;
use ng_infer::onnx::{
    Attribute, AttributeValue, Data, Dim, Function, Graph, Model, Node, Tensor, Value,
};
use ng_infer::run::{Devices, run};
use ng_types::Dtype;

fn node(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[(&str, AttributeValue)],
) -> Node {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let attribute = |(name, value): &(&str, AttributeValue)| Attribute {
        name: (*name).to_owned(),
        value: value.clone(),
    };
    Node {
        name: format!("of_{}", outputs[0]),
        domain: String::new(),
        op_type: op.to_owned(),
        inputs: owned(inputs),
        outputs: owned(outputs),
        attributes: attributes.iter().map(attribute).collect(),
    }
}

fn tensor(name: &str, dtype: Dtype, dims: &[u64], bytes: Vec<u8>) -> Tensor {
    Tensor { name: name.to_owned(), dtype, dims: dims.to_vec(), data: Data::Inline(bytes) }
}

fn numbers(name: &str, all: &[f32]) -> Tensor {
    let bytes = all.iter().flat_map(|x| x.to_le_bytes()).collect();
    tensor(name, Dtype::F32, &[all.len() as u64], bytes)
}

fn indices(name: &str, all: &[i64]) -> Tensor {
    let bytes = all.iter().flat_map(|x| x.to_le_bytes()).collect();
    tensor(name, Dtype::I64, &[all.len() as u64], bytes)
}

/// A model of an input `x` of f32, and the output `y`.
fn model(initializers: Vec<Tensor>, nodes: Vec<Node>) -> Model {
    let value = |name: &str| Value { name: name.to_owned(), dtype: Dtype::F32, dims: None };
    Model {
        ir_version: 10,
        opset: 20,
        opsets: Vec::new(),
        graph: Graph {
            name: String::new(),
            inputs: vec![value("x")],
            outputs: vec![value("y")],
            initializers,
            nodes,
        },
        functions: Vec::new(),
        metadata: Vec::new(),
    }
}

fn convert(model: &Model) -> Result<Dfg, ConvertError> {
    let mut read = |tensor: &Tensor| match &tensor.data {
        Data::Inline(bytes) => Ok(bytes.clone()),
        Data::External(_) => panic!("tests keep tensors in line"),
    };
    Dfg::from_onnx(model, &mut read)
}

fn y_of(model: &Model, x: Constant) -> Constant {
    let dfg = convert(model).expect("supported");
    run(&dfg, &Devices::default(), &[("x", x)], &Context::default()).expect("runs").remove(0)
}

fn near(found: &Constant, wanted: &Constant) {
    assert_eq!(found.dims(), wanted.dims());
    let numbers = |tensor: &Constant| format!("{:?}", tensor.elements());
    let parse = |text: String| -> Vec<f64> {
        let all = text.trim_start_matches("F32([").trim_end_matches("])").to_owned();
        all.split(", ").filter(|part| !part.is_empty()).map(|x| x.parse().expect("f32")).collect()
    };
    for (one, other) in parse(numbers(found)).into_iter().zip(parse(numbers(wanted))) {
        assert!((one - other).abs() < 1e-6, "{found:?} for {wanted:?}");
    }
}

fn refused(model: &Model, words: &str) {
    let error = convert(model).expect_err("not supported").to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn operators_in_another_form_give_what_onnx_says() {
    let x = f32s(&[2, 2], &[-2.0, 0.5, 1.0, 3.0]);
    let bounds = || vec![numbers("low", &[-1.0]), numbers("high", &[1.0])];
    let clip = |inputs: &[&str]| model(bounds(), vec![node("Clip", inputs, &["y"], &[])]);
    assert_eq!(
        y_of(&clip(&["x", "low", "high"]), x.clone()),
        f32s(&[2, 2], &[-1.0, 0.5, 1.0, 1.0])
    );
    assert_eq!(y_of(&clip(&["x", "", "high"]), x.clone()), f32s(&[2, 2], &[-2.0, 0.5, 1.0, 1.0]));
    assert_eq!(y_of(&clip(&["x", "low"]), x.clone()), f32s(&[2, 2], &[-1.0, 0.5, 1.0, 3.0]));
    assert_eq!(y_of(&clip(&["x"]), x.clone()), x);
    let sum = model(bounds(), vec![node("Sum", &["x", "low", "x"], &["y"], &[])]);
    assert_eq!(y_of(&sum, x.clone()), f32s(&[2, 2], &[-5.0, 0.0, 1.0, 5.0]));
    let dropout = model(Vec::new(), vec![node("Dropout", &["x"], &["y"], &[])]);
    assert_eq!(y_of(&dropout, x.clone()), x);
    let cut = vec![indices("starts", &[1]), indices("ends", &[9]), indices("steps", &[1])];
    let slice = node("Slice", &["x", "starts", "ends", "", "steps"], &["y"], &[]);
    assert_eq!(y_of(&model(cut, vec![slice]), x.clone()), f32s(&[1, 2], &[1.0, 3.0]));
    let axis = [("axis", AttributeValue::Int(1))];
    let split = node("Split", &["x", "sizes"], &["left", "right"], &axis);
    let swapped = node("Concat", &["right", "left"], &["y"], &axis);
    let split = model(vec![indices("sizes", &[1, 1])], vec![split, swapped]);
    assert_eq!(y_of(&split, x.clone()), f32s(&[2, 2], &[0.5, -2.0, 3.0, 1.0]));
    let to_long = [("to", AttributeValue::Int(7))];
    let cast = model(Vec::new(), vec![node("Cast", &["x"], &["y"], &to_long)]);
    assert_eq!(y_of(&cast, x.clone()), i64s(&[2, 2], &[-2, 0, 1, 3]));
    let size = model(Vec::new(), vec![node("Size", &["x"], &["y"], &[])]);
    assert_eq!(y_of(&size, x), i64s(&[], &[4]));
}

#[test]
fn norms_and_gelu_give_what_their_formulas_say() {
    let x = f32s(&[2, 2], &[1.0, 3.0, 5.0, 6.0]);
    let parts = ["scale", "bias", "mean", "variance"];
    let values = [[2.0, 1.0], [0.5, 0.0], [1.0, 2.0], [4.0, 0.25]];
    let parts = parts.iter().zip(values).map(|(name, all)| numbers(name, &all)).collect();
    let epsilon = [("epsilon", AttributeValue::Float(0.0))];
    let inputs = ["x", "scale", "bias", "mean", "variance"];
    let norm = model(parts, vec![node("BatchNormalization", &inputs, &["y"], &epsilon)]);
    near(&y_of(&norm, x.clone()), &f32s(&[2, 2], &[0.5, 2.0, 4.5, 8.0]));
    let dfg = convert(&norm).expect("supported");
    let deep =
        run(&dfg, &Devices::default(), &[("x", f32s(&[1, 2, 2], &[0.0; 4]))], &Context::default());
    assert!(deep.is_err(), "channels are axis 1, which is the last one of rows alone");
    let weights = vec![numbers("scale", &[2.0, 1.0]), numbers("bias", &[0.0, 1.0])];
    let layer = node("LayerNormalization", &["x", "scale", "bias"], &["y"], &epsilon);
    near(&y_of(&model(weights, vec![layer]), x), &f32s(&[2, 2], &[-2.0, 2.0, -2.0, 2.0]));
    let gelu = model(Vec::new(), vec![node("Gelu", &["x"], &["y"], &[])]);
    near(
        &y_of(&gelu, f32s(&[3], &[-1.0, 0.0, 2.0])),
        &f32s(&[3], &[-0.158_655_25, 0.0, 1.954_499_7]),
    );
}

/// `scaled(a) = a * factor + a`, where the factor is an attribute.
fn scaled(name: &str, domain: &str) -> Function {
    let factor = [("value_float", AttributeValue::Reference("factor".to_owned()))];
    Function {
        name: name.to_owned(),
        domain: domain.to_owned(),
        inputs: vec!["a".to_owned()],
        outputs: vec!["b".to_owned()],
        attributes: Vec::new(),
        defaults: vec![Attribute { name: "factor".to_owned(), value: AttributeValue::Float(2.0) }],
        nodes: vec![
            node("Constant", &[], &["f"], &factor),
            node("Mul", &["a", "f"], &["product"], &[]),
            node("Add", &["product", "a"], &["b"], &[]),
        ],
        opsets: Vec::new(),
    }
}

#[test]
fn functions_come_in_line_each_time_with_their_attributes() {
    let mut first = node("scaled", &["x"], &["once"], &[]);
    let ten = [("factor", AttributeValue::Float(10.0))];
    let mut second = node("scaled", &["once"], &["y"], &ten);
    (first.domain, second.domain) = ("strange".to_owned(), "strange".to_owned());
    let mut of_two = model(Vec::new(), vec![first, second]);
    of_two.functions.push(scaled("scaled", "strange"));
    assert_eq!(y_of(&of_two, f32s(&[1], &[1.0])), f32s(&[1], &[33.0]));
    // Names of the engine's own domain that it does not know have a body, too.
    let mut new = node("Newest", &["x"], &["y"], &[]);
    new.domain = "ai.neargraph".to_owned();
    let mut of_new = model(Vec::new(), vec![new]);
    of_new.functions.push(scaled("Newest", "ai.neargraph"));
    assert_eq!(y_of(&of_new, f32s(&[1], &[1.0])), f32s(&[1], &[3.0]));
    of_new.functions.clear();
    refused(
        &of_new,
        "node \"of_y\": Newest: the engine does not support this operator, and the file has no \
         function",
    );
}

#[test]
fn narrow_weights_are_widened_and_wide_ones_refused() {
    let of = |dtype, bytes: &[u8]| {
        let weight = tensor("w", dtype, &[1], bytes.to_vec());
        model(vec![weight], vec![node("Add", &["x", "w"], &["y"], &[])])
    };
    let one = f32s(&[1], &[1.0]);
    assert_eq!(y_of(&of(Dtype::F16, &[0x00, 0x3E]), one.clone()), f32s(&[1], &[2.5]));
    assert_eq!(y_of(&of(Dtype::Bf16, &[0xC0, 0x3F]), one), f32s(&[1], &[2.5]));
    refused(&of(Dtype::F64, &[0; 8]), "tensor \"w\" is f64");
    let narrow = tensor("i", Dtype::I8, &[1], vec![0xFF]);
    let last = model(vec![narrow], vec![node("Gather", &["x", "i"], &["y"], &[])]);
    assert_eq!(y_of(&last, f32s(&[2], &[1.0, 7.0])), f32s(&[1], &[7.0]));
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let of = |op: &str, attributes: &[(&str, AttributeValue)]| {
        model(Vec::new(), vec![node(op, &["x"], &["y"], attributes)])
    };
    refused(&of("Conv", &[]), "node \"of_y\": Conv: the engine does not support this operator");
    refused(&of("BatchPre", &[]), "BatchPre: the engine does not support this operator");
    refused(&of("SpMM_Mean", &[]), "SpMM_Mean: the engine does not support this operator");
    refused(
        &of("Relu", &[("slope", AttributeValue::Int(1))]),
        "attribute \"slope\" of Relu: the operation has no such attribute",
    );
    refused(
        &of("Cast", &[("to", AttributeValue::Int(11))]),
        "Cast: only casts to f32, i32, i64 and bool",
    );
    let tanh = [("approximate", AttributeValue::Str("tanh".to_owned()))];
    refused(&of("Gelu", &tanh), "only the exact form is supported");
    refused(&of("Split", &[]), "the lengths of the parts must be constant");
    let mask = model(Vec::new(), vec![node("Dropout", &["x"], &["y", "mask"], &[])]);
    refused(&mask, "Dropout: the output \"mask\" is not supported");
    let hole = model(Vec::new(), vec![node("Where", &["x", "", "x"], &["y"], &[])]);
    refused(&hole, "Where: omitting an input before the last");
    let mut typed = of("Relu", &[]);
    typed.graph.inputs[0].dims =
        Some(vec![Dim::Symbol("n".to_owned()), Dim::Fixed(2), Dim::Unknown]);
    let shown: Vec<String> = convert(&typed)
        .expect("supported")
        .inputs()
        .flat_map(|(_, wanted)| {
            wanted.expect("typed").shape.iter().map(ToString::to_string).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(shown, ["n", "2", "x.2"]);
}
