//! Types and shapes before a batch is there, with counts as symbols.

use crate::common;
use crate::common::{f32s, i64s};
use ng_infer::dfg::{Binary, Dfg, DfgError, Dim, Op, Reduction, TensorType, Value};
use ng_infer::kernel::Context;
use ng_types::Dtype;

fn typed(dtype: Dtype, dims: &[&str]) -> TensorType {
    let dim = |text: &&str| text.parse().map_or_else(|_| Dim::symbol(text), |n: i64| Dim::from(n));
    TensorType { dtype, shape: dims.iter().map(dim).collect() }
}

/// The graph of GCN's normalisation as exporters write it: loops, degrees, a weight for each edge.
fn normalisation(dfg: &mut Dfg) -> Result<Vec<Value>, DfgError> {
    let x = dfg.create_in("x", Some(typed(Dtype::F32, &["nodes", "16"])))?;
    let edges = dfg.create_in("edge_index", Some(typed(Dtype::I64, &["2", "edges"])))?;
    let zero = dfg.create_weight("zero", i64s(&[], &[0]))?;
    let one = dfg.create_weight("one", i64s(&[], &[1]))?;
    let shape = dfg.create_op(Op::Shape { start: 0, end: None }, &[x])?[0];
    let nodes = dfg.create_op(Op::Gather { axis: 0 }, &[shape, zero])?[0];
    let looped = dfg.create_op(Op::RemoveSelfLoops, &[edges])?[0];
    let looped = dfg.create_op(Op::AddSelfLoops, &[looped, nodes])?[0];
    let to = dfg.create_op(Op::Gather { axis: 0 }, &[looped, one])?[0];
    let degree = dfg.create_op(Op::Degree, &[to, nodes])?[0];
    let of_edge = dfg.create_op(Op::Gather { axis: 0 }, &[degree, to])?[0];
    let last = dfg.create_weight("last", i64s(&[1], &[-1]))?;
    let column = dfg.create_op(Op::Unsqueeze, &[of_edge, last])?[0];
    let from = dfg.create_op(Op::Gather { axis: 0 }, &[looped, zero])?[0];
    let rows = dfg.create_op(Op::Gather { axis: 0 }, &[x, from])?[0];
    let messages = dfg.create_op(Op::Binary(Binary::Mul), &[rows, column])?[0];
    let sum = dfg.create_op(Op::Scatter(Reduction::Sum), &[messages, to, nodes])?[0];
    dfg.create_out("out", sum)?;
    Ok(vec![nodes, looped, degree, column, messages, sum])
}

#[test]
fn counts_go_through_shapes_as_symbols() {
    let mut dfg = Dfg::default();
    let values = normalisation(&mut dfg).expect("builds");
    let types = dfg.check(&[]).expect("fits");
    let place = |value: &Value| dfg.values().position(|known| known == *value).expect("known");
    let shown: Vec<String> = values
        .iter()
        .map(|value| {
            let TensorType { dtype, shape } = &types[place(value)];
            let dims: Vec<String> = shape.iter().map(Dim::to_string).collect();
            format!("{}[{}]", dtype.name(), dims.join(", "))
        })
        .collect();
    let wanted = [
        "i64[]",
        "i64[2, nodes + u1]",
        "f32[nodes]",
        "f32[nodes + u1, 1]",
        "f32[nodes + u1, 16]",
        "f32[nodes, 16]",
    ];
    assert_eq!(shown, wanted);
}

#[test]
fn reshapes_keep_symbols() {
    let mut dfg = Dfg::default();
    let heads = |dfg: &mut Dfg| -> Result<(), DfgError> {
        let x = dfg.create_in("x", Some(typed(Dtype::F32, &["nodes", "8"])))?;
        let split = dfg.create_weight("split", i64s(&[3], &[-1, 2, 4]))?;
        let split = dfg.create_op(Op::Reshape { allow_zero: false }, &[x, split])?[0];
        let joined = dfg.create_weight("joined", i64s(&[2], &[0, -1]))?;
        let joined = dfg.create_op(Op::Reshape { allow_zero: false }, &[split, joined])?[0];
        dfg.create_out("split", split)?;
        dfg.create_out("joined", joined)
    };
    heads(&mut dfg).expect("builds");
    let types = dfg.check(&[]).expect("fits");
    assert_eq!(types[2], typed(Dtype::F32, &["nodes", "2", "4"]));
    assert_eq!(types[4], typed(Dtype::F32, &["nodes", "8"]));
}

#[test]
fn what_does_not_fit_is_named_before_a_batch_is_there() {
    let check = |types: [TensorType; 2], op: Op, words: &str| {
        let dfg = common::graph_of(&op, 2);
        let [a, b] = types;
        let error = dfg.check(&[("a", a), ("b", b)]).expect_err("does not fit").to_string();
        assert!(error.contains(words), "{op:?}: {error}");
    };
    let f32s = |dims: &[&str]| typed(Dtype::F32, dims);
    let words = "node 1: MatMul: the inner dimensions of the matrices differ: 4 and 5";
    check([f32s(&["n", "4"]), f32s(&["5", "2"])], Op::MatMul, words);
    let words = "node 1: Add: expected f32, found i64";
    check([f32s(&["n"]), typed(Dtype::I64, &["n"])], Op::Binary(Binary::Add), words);
    let words = "node 1: Gather: axis 1 is out of range: there are 1 axes";
    check([f32s(&["n"]), typed(Dtype::I64, &["e"])], Op::Gather { axis: 1 }, words);
    let words = "input \"a\": input: length -4 is negative";
    check([f32s(&["-4"]), f32s(&["1"])], Op::MatMul, words);
    let words = "input \"b\": input: it is f16, expected f32, i64 or bool";
    check([f32s(&["n", "1"]), typed(Dtype::F16, &["1", "1"])], Op::MatMul, words);
    let dfg = common::graph_of(&Op::MatMul, 2);
    let error = dfg.check(&[("a", f32s(&["1", "1"]))]).expect_err("unknown").to_string();
    assert_eq!(error, "input \"b\" has no type");
    let mut dfg = Dfg::default();
    dfg.create_weight("w", common::f32s(&[1], &[1.0])).expect("new");
    assert_eq!(dfg.check(&[]), Err(DfgError::NoOutput));
}

#[test]
fn one_symbol_is_one_length_in_a_run() {
    let mut dfg = Dfg::default();
    let build = |dfg: &mut Dfg| -> Result<(), DfgError> {
        let a = dfg.create_in("a", Some(typed(Dtype::F32, &["n", "2"])))?;
        let b = dfg.create_in("b", Some(typed(Dtype::F32, &["n"])))?;
        dfg.create_out("a", a)?;
        dfg.create_out("b", b)
    };
    build(&mut dfg).expect("builds");
    let run = |a, b| {
        let devices = ng_infer::run::Devices::default();
        ng_infer::run::run(&dfg, &devices, &[("a", a), ("b", b)], &Context::default())
            .map_err(|e| e.to_string())
    };
    assert!(run(f32s(&[3, 2], &[0.0; 6]), f32s(&[3], &[0.0; 3])).is_ok());
    let cases = [
        (
            f32s(&[3, 2], &[0.0; 6]),
            f32s(&[2], &[0.0; 2]),
            "axis 0 has length 2, expected n, which is 3",
        ),
        (f32s(&[3, 1], &[0.0; 3]), f32s(&[3], &[0.0; 3]), "axis 1 has length 1, expected 2"),
        (f32s(&[3], &[0.0; 3]), f32s(&[3], &[0.0; 3]), "expected 2 dimensions, found shape [3]"),
        (i64s(&[3, 2], &[0; 6]), f32s(&[3], &[0.0; 3]), "expected f32, found i64"),
    ];
    for (a, b, words) in cases {
        let error = run(a, b).expect_err("does not fit");
        assert!(error.contains(words), "{error}");
    }
}
