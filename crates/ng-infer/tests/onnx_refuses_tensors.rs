//! Tensors that the ONNX reader refuses: one case for each reason.

use crate::onnx_support::{FLOAT, attribute, external, raw, refuse_graph};
use ng_infer::onnx::proto::TensorProto;

/// The small model with one more initializer.
fn check(tensor: TensorProto, words: &[&str]) {
    refuse_graph(|graph| graph.initializer.push(tensor), words);
}

fn empty(data_type: i32, dims: &[i64]) -> TensorProto {
    TensorProto { raw_data: None, ..raw("t", data_type, dims, &[]) }
}

#[test]
fn element_types_that_the_engine_lacks_are_named() {
    let names = [
        (0, "UNDEFINED"),
        (4, "UINT16"),
        (8, "STRING"),
        (12, "UINT32"),
        (13, "UINT64"),
        (14, "COMPLEX64"),
        (17, "FLOAT8E4M3FN"),
        (21, "UINT4"),
        (28, "FLOAT6E3M2"),
        (29, "29"),
        (-1, "-1"),
    ];
    for (number, name) in names {
        check(raw("t", number, &[1], &[0; 8]), &["tensor \"t\"", name, "not supported"]);
    }
    check(TensorProto { data_type: None, ..empty(0, &[]) }, &["UNDEFINED"]);
}

#[test]
fn impossible_shapes_are_refused() {
    check(raw("t", FLOAT, &[2, -1], &[]), &["tensor \"t\"", "[2, -1]", "negative"]);
    check(raw("t", FLOAT, &[1 << 40, 1 << 40], &[]), &["tensor \"t\"", "exceeds 64 bits"]);
    check(raw("t", FLOAT, &[1 << 62], &[]), &["exceeds 64 bits"]);
    check(raw("t", FLOAT, &[1 << 61], &[]), &["exceeds 64 bits"]);
    check(raw("t", FLOAT, &[1; 33], &[0; 4]), &["more than 32 dimensions"]);
}

#[test]
fn data_that_does_not_fit_the_shape_is_refused() {
    check(raw("t", FLOAT, &[2], &[0; 7]), &["tensor \"t\"", "7 bytes", "needs 8"]);
    check(raw("t", FLOAT, &[], &[]), &["0 bytes", "needs 4"]);
    let floats = TensorProto { float_data: vec![1.0; 3], ..empty(FLOAT, &[2]) };
    check(floats, &["3 elements", "needs 2"]);
    check(empty(FLOAT, &[2]), &["0 elements", "needs 2"]);
}

#[test]
fn data_in_the_wrong_field_is_refused() {
    let ints = || TensorProto { int32_data: vec![1], ..empty(FLOAT, &[1]) };
    check(ints(), &["tensor \"t\"", "int32_data", "expected float_data"]);
    let both = TensorProto { raw_data: Some(vec![0; 4]), ..ints() };
    check(both, &["raw_data and int32_data"]);
    let texts = TensorProto { string_data: vec![vec![]], ..empty(FLOAT, &[1]) };
    check(texts, &["string_data"]);
    let unsigned = TensorProto { uint64_data: vec![1], ..empty(7, &[1]) };
    check(unsigned, &["uint64_data", "expected int64_data"]);
    let inside = TensorProto { raw_data: Some(vec![0; 4]), ..external("t", &[1], "a", "0", "4") };
    check(inside, &["raw_data in addition to a file"]);
    let nowhere = TensorProto { data_location: None, ..external("t", &[1], "a", "0", "4") };
    check(nowhere, &["external_data without a location"]);
    let other = TensorProto { data_location: Some(2), ..empty(FLOAT, &[1]) };
    check(other, &["data_location 2", "not supported"]);
    check(TensorProto { segment: Some(vec![]), ..empty(FLOAT, &[0]) }, &["a segment"]);
}

#[test]
fn elements_that_their_type_cannot_hold_are_refused() {
    let cases = [(9, 2, "bool"), (3, 128, "i8"), (2, -1, "u8"), (5, 1 << 15, "i16")];
    for (data_type, value, dtype) in cases.into_iter().chain([(10, 1 << 16, "f16")]) {
        let tensor = TensorProto { int32_data: vec![0, value], ..empty(data_type, &[2]) };
        check(tensor, &["tensor \"t\"", &value.to_string(), "index 1", dtype]);
    }
    check(raw("t", 9, &[2], &[1, 2]), &["has 2 at index 1", "bool"]);
}

#[test]
fn weights_that_are_not_finite_are_refused_by_index() {
    let cases: [(i32, Vec<u8>, &str); 5] = [
        (1, [1.0f32, f32::NAN].map(f32::to_le_bytes).concat(), "NaN"),
        (1, [1.0f32, f32::INFINITY].map(f32::to_le_bytes).concat(), "inf"),
        (11, [1.0f64, f64::NEG_INFINITY].map(f64::to_le_bytes).concat(), "-inf"),
        (10, [0x3C00u16, 0x7E00].map(u16::to_le_bytes).concat(), "NaN"),
        (16, [0x3F80u16, 0x7F80].map(u16::to_le_bytes).concat(), "inf"),
    ];
    for (data_type, bytes, value) in cases {
        check(raw("t", data_type, &[2], &bytes), &["tensor \"t\"", value, "index 1", "finite"]);
    }
}

#[test]
fn tensors_without_a_name_are_refused() {
    check(TensorProto { name: None, ..empty(FLOAT, &[0]) }, &["an initializer has no name"]);
}

#[test]
fn tensors_in_attributes_are_checked_too() {
    let mut value = attribute("value", 4);
    value.t = Some(Box::new(raw("t", FLOAT, &[2], &[0; 4])));
    let place = ["the tensor in attribute \"value\" of node 0 \"at_xw\"", "needs 8"];
    refuse_graph(|graph| graph.node[0].attribute.push(value), &place);
}
