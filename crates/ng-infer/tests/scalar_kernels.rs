//! The reference device does what the definitions say, and refuses what does not fit.

use std::slice::from_ref;

use crate::common;
use crate::common::{bools, f32s, i64s, run_op, type_of};
use ng_infer::dfg::{Attribute, Attributes, Binary, Constant, DfgError, Op, Reduction, Unary};
use ng_infer::kernel::Context;
use ng_infer::run::Devices;
use ng_types::Dtype;

const INF: f32 = f32::INFINITY;

fn check(op: Op, inputs: &[Constant], wanted: Constant) {
    let found = run_op(&op, inputs).unwrap_or_else(|error| panic!("{op:?}: {error}"));
    assert_eq!(found, wanted, "{op:?} of {inputs:?}");
    // What is said before the run fits what comes out: all of it where elements say nothing.
    let dfg = common::graph_of(&op, inputs.len());
    let named = ["a", "b", "c", "d", "e"].into_iter().zip(inputs.iter().map(type_of));
    if let Ok(types) = dfg.check(&named.collect::<Vec<_>>()) {
        let place = dfg.values().position(|value| value == dfg.outputs()[0].1);
        let last = &types[place.expect("the result")];
        assert_eq!(last.dtype, wanted.elements().dtype(), "{op:?}");
        assert_eq!(last.shape.len(), wanted.dims().len(), "{op:?}");
        for (dim, found) in last.shape.iter().zip(wanted.dims()) {
            assert!(dim.number().is_none_or(|n| n == *found as i64), "{op:?}: {dim} and {found}");
        }
    }
}

fn refused(op: Op, inputs: &[Constant], words: &str) {
    let error = run_op(&op, inputs).expect_err("does not fit").to_string();
    assert!(error.contains(words), "{op:?}: {error}");
}

#[test]
fn elements_by_themselves() {
    let x = f32s(&[4], &[-2.0, -0.5, 0.0, 3.0]);
    check(Op::Unary(Unary::Relu), from_ref(&x), f32s(&[4], &[0.0, 0.0, 0.0, 3.0]));
    let leaky = Op::LeakyRelu { alpha: 0.5 };
    check(leaky, from_ref(&x), f32s(&[4], &[-1.0, -0.25, 0.0, 3.0]));
    let elu = f32s(&[4], &[(-2_f32).exp_m1(), (-0.5_f32).exp_m1(), 0.0, 3.0]);
    check(Op::Elu { alpha: 1.0 }, from_ref(&x), elu);
    check(Op::Unary(Unary::Abs), &[x], f32s(&[4], &[2.0, 0.5, 0.0, 3.0]));
    check(Op::Unary(Unary::Neg), &[i64s(&[2], &[3, i64::MIN])], i64s(&[2], &[-3, i64::MIN]));
    check(Op::Unary(Unary::Not), &[bools(&[2], &[0, 1])], bools(&[2], &[1, 0]));
    check(Op::Unary(Unary::Sigmoid), &[f32s(&[1], &[0.0])], f32s(&[1], &[0.5]));
    check(Op::Unary(Unary::Softplus), &[f32s(&[1], &[90.0])], f32s(&[1], &[90.0]));
    let kept = run_op(&Op::Unary(Unary::Relu), &[f32s(&[1], &[f32::NAN])]).expect("fits");
    assert!(format!("{kept:?}").contains("NaN"), "ReLU keeps NaN: {kept:?}");
    refused(Op::Unary(Unary::Exp), &[i64s(&[1], &[1])], "expected f32, found i64");
}

#[test]
fn pairs_broadcast() {
    let (column, row) = (f32s(&[2, 1], &[1.0, 2.0]), f32s(&[3], &[10.0, 20.0, 30.0]));
    let sum = f32s(&[2, 3], &[11.0, 21.0, 31.0, 12.0, 22.0, 32.0]);
    check(Op::Binary(Binary::Add), &[column.clone(), row.clone()], sum);
    let less = bools(&[2, 3], &[1, 1, 1, 1, 1, 1]);
    check(Op::Binary(Binary::Less), &[column.clone(), row], less);
    check(Op::Binary(Binary::Div), &[i64s(&[1], &[-7]), i64s(&[1], &[2])], i64s(&[1], &[-3]));
    check(
        Op::Binary(Binary::And),
        &[bools(&[2], &[1, 1]), bools(&[1], &[0])],
        bools(&[2], &[0, 0]),
    );
    let choice = [bools(&[2, 1], &[1, 0]), f32s(&[1, 2], &[1.0, 2.0]), f32s(&[], &[9.0])];
    check(Op::Where, &choice, f32s(&[2, 2], &[1.0, 2.0, 9.0, 9.0]));
    let nothing = f32s(&[0, 3], &[]);
    check(Op::Binary(Binary::Mul), &[nothing.clone(), f32s(&[1], &[2.0])], nothing);
    refused(Op::Binary(Binary::Div), &[i64s(&[1], &[1]), i64s(&[1], &[0])], "division by 0");
    refused(
        Op::Binary(Binary::Add),
        &[column, f32s(&[3, 3], &[0.0; 9])],
        "cannot be broadcast: 2 and 3",
    );
    refused(
        Op::Binary(Binary::Add),
        &[f32s(&[1], &[1.0]), i64s(&[1], &[1])],
        "expected f32, found i64",
    );
}

#[test]
fn softmax_runs_along_an_axis_and_stands_large_numbers() {
    let x = f32s(&[2, 2], &[1000.0, 1000.0, 0.0, 1000.0]);
    check(Op::Softmax { axis: -1 }, from_ref(&x), f32s(&[2, 2], &[0.5, 0.5, 0.0, 1.0]));
    check(Op::Softmax { axis: 0 }, from_ref(&x), f32s(&[2, 2], &[1.0, 0.5, 0.0, 0.5]));
    let log = f32s(&[2, 2], &[-(2_f32.ln()), -(2_f32.ln()), -1000.0, 0.0]);
    check(Op::LogSoftmax { axis: 1 }, from_ref(&x), log);
    refused(Op::Softmax { axis: 2 }, &[x], "axis 2 is out of range: there are 2 axes");
}

#[test]
fn products_of_matrices() {
    let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = f32s(&[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let product = f32s(&[2, 2], &[4.0, 5.0, 10.0, 11.0]);
    check(Op::MatMul, &[a.clone(), b.clone()], product.clone());
    let gemm = |trans_a, trans_b| Op::Gemm { alpha: 1.0, beta: 2.0, trans_a, trans_b };
    check(gemm(false, false), &[a.clone(), b.clone()], product);
    let with_bias = f32s(&[2, 2], &[6.0, 9.0, 12.0, 15.0]);
    check(gemm(false, false), &[a.clone(), b.clone(), f32s(&[2], &[1.0, 2.0])], with_bias);
    let (turned_a, turned_b) = (
        f32s(&[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]),
        f32s(&[2, 3], &[1.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
    );
    let product = f32s(&[2, 2], &[4.0, 5.0, 10.0, 11.0]);
    check(gemm(true, true), &[turned_a, turned_b], product);
    let stacks = f32s(&[2, 1, 1], &[2.0, 3.0]);
    check(Op::MatMul, &[stacks, f32s(&[1, 1], &[5.0])], f32s(&[2, 1, 1], &[10.0, 15.0]));
    check(Op::MatMul, &[f32s(&[0, 3], &[]), b.clone()], f32s(&[0, 2], &[]));
    check(Op::MatMul, &[f32s(&[1, 0], &[]), f32s(&[0, 2], &[])], f32s(&[1, 2], &[0.0, 0.0]));
    refused(
        Op::MatMul,
        &[a.clone(), a.clone()],
        "the inner dimensions of the matrices differ: 3 and 2",
    );
    refused(Op::MatMul, &[a, f32s(&[3], &[0.0; 3])], "expected matrices");
    let of_kinds = |kinds: [i64; 3]| {
        let rows = f32s(&[3, 1], &[1.0, 2.0, 3.0]);
        [rows, i64s(&[3], &kinds), f32s(&[2, 1, 1], &[7.0, 10.0])]
    };
    check(Op::SegmentMatmul, &of_kinds([1, 0, 1]), f32s(&[3, 1], &[10.0, 14.0, 30.0]));
    refused(Op::SegmentMatmul, &of_kinds([1, 2, 1]), "index 2 at place 1 is out of range");
}

#[test]
fn reductions_over_axes() {
    let x = f32s(&[2, 3], &[1.0, 5.0, 3.0, 4.0, 2.0, 6.0]);
    let reduce = |how, keep_dims| Op::Reduce { how, keep_dims };
    let axis = |axis| i64s(&[1], &[axis]);
    check(reduce(Reduction::Sum, true), &[x.clone(), axis(-1)], f32s(&[2, 1], &[9.0, 12.0]));
    check(reduce(Reduction::Mean, false), &[x.clone(), axis(0)], f32s(&[3], &[2.5, 3.5, 4.5]));
    check(reduce(Reduction::Max, false), from_ref(&x), f32s(&[], &[6.0]));
    check(reduce(Reduction::Min, false), &[i64s(&[2], &[3, 2])], i64s(&[], &[2]));
    let nothing = f32s(&[0, 2], &[]);
    check(reduce(Reduction::Sum, false), &[nothing.clone(), axis(0)], f32s(&[2], &[0.0, 0.0]));
    refused(reduce(Reduction::Max, false), &[nothing, axis(0)], "Max of an empty set");
    refused(
        reduce(Reduction::Sum, false),
        &[x, axis(2)],
        "axis 2 is out of range: there are 2 axes",
    );
}

#[test]
fn elements_that_move() {
    let x = i64s(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    check(Op::Shape { start: 0, end: None }, from_ref(&x), i64s(&[2], &[2, 3]));
    check(Op::Shape { start: -1, end: None }, from_ref(&x), i64s(&[1], &[3]));
    check(Op::Shape { start: 2, end: Some(1) }, from_ref(&x), i64s(&[0], &[]));
    check(
        Op::Reshape { allow_zero: false },
        &[x.clone(), i64s(&[2], &[-1, 2])],
        i64s(&[3, 2], &[1, 2, 3, 4, 5, 6]),
    );
    check(Op::Reshape { allow_zero: false }, &[x.clone(), i64s(&[2], &[0, -1])], x.clone());
    check(Op::Expand, &[i64s(&[1, 2], &[1, 2]), i64s(&[2], &[2, 1])], i64s(&[2, 2], &[1, 2, 1, 2]));
    check(Op::Transpose { perm: None }, from_ref(&x), i64s(&[3, 2], &[1, 4, 2, 5, 3, 6]));
    check(
        Op::Concat { axis: 1 },
        &[x.clone(), i64s(&[2, 1], &[7, 8])],
        i64s(&[2, 4], &[1, 2, 3, 7, 4, 5, 6, 8]),
    );
    let one = |n| i64s(&[1], &[n]);
    check(Op::Slice, &[x.clone(), one(1), one(9), one(1)], i64s(&[2, 2], &[2, 3, 5, 6]));
    let reversed = [x.clone(), one(-1), one(i64::MIN), one(1), one(-2)];
    check(Op::Slice, &reversed, i64s(&[2, 2], &[3, 1, 6, 4]));
    check(Op::Squeeze, &[i64s(&[1, 2, 1], &[1, 2]), one(-1)], i64s(&[1, 2], &[1, 2]));
    check(Op::Unsqueeze, &[i64s(&[2], &[1, 2]), i64s(&[2], &[0, -1])], i64s(&[1, 2, 1], &[1, 2]));
    let nothing = [i64s(&[0, 3], &[]), i64s(&[2], &[0, 5])];
    check(Op::Reshape { allow_zero: true }, &nothing, i64s(&[0, 5], &[]));
    let index = i64s(&[1, 3], &[1, -1, 0]);
    check(Op::GatherElements { axis: 0 }, &[x.clone(), index], i64s(&[1, 3], &[4, 5, 3]));
    let tiled = i64s(&[2, 4], &[1, 2, 1, 2, 1, 2, 1, 2]);
    check(Op::Tile, &[i64s(&[1, 2], &[1, 2]), i64s(&[2], &[2, 2])], tiled);
    check(Op::Tile, &[i64s(&[2], &[1, 2]), i64s(&[1], &[0])], i64s(&[0], &[]));
    let pairs = i64s(&[3, 2], &[0, 2, 1, 0, -1, -1]);
    check(Op::GatherNd, &[x.clone(), pairs], i64s(&[3], &[3, 4, 6]));
    check(Op::GatherNd, &[x.clone(), i64s(&[1, 1], &[1])], i64s(&[1, 3], &[4, 5, 6]));
    refused(Op::GatherNd, &[x.clone(), i64s(&[1, 2], &[0, 3])], "index 3 at place 1");
    let index = i64s(&[1, 2], &[-1, 0]);
    check(Op::Gather { axis: 1 }, &[x.clone(), index.clone()], i64s(&[2, 1, 2], &[3, 1, 6, 4]));
    check(
        Op::Compress { axis: Some(1) },
        &[x.clone(), bools(&[2], &[0, 1])],
        i64s(&[2, 1], &[2, 5]),
    );
    check(
        Op::Compress { axis: None },
        &[x.clone(), bools(&[5], &[1, 0, 0, 0, 1])],
        i64s(&[2], &[1, 5]),
    );
    check(Op::Range, &[i64s(&[], &[2]), i64s(&[], &[7]), i64s(&[], &[2])], i64s(&[3], &[2, 4, 6]));
    check(Op::Range, &[i64s(&[], &[2]), i64s(&[], &[0]), i64s(&[], &[1])], i64s(&[0], &[]));
    check(
        Op::Range,
        &[f32s(&[], &[0.0]), f32s(&[], &[1.0]), f32s(&[], &[0.5])],
        f32s(&[2], &[0.0, 0.5]),
    );
    let filled = Op::ConstantOfShape { value: 7.0, dtype: Dtype::I64 };
    check(filled, &[i64s(&[2], &[1, 2])], i64s(&[1, 2], &[7, 7]));
    check(Op::Cast(Dtype::I64), &[f32s(&[2], &[-1.9, 2.9])], i64s(&[2], &[-1, 2]));
    refused(
        Op::Gather { axis: 1 },
        &[x.clone(), i64s(&[1], &[3])],
        "index 3 at place 0 is out of range",
    );
}

#[test]
fn elements_that_cannot_move() {
    let x = i64s(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let one = |n| i64s(&[1], &[n]);
    refused(Op::Gather { axis: 1 }, &[x.clone(), i64s(&[1], &[-4])], "index -4 at place 0");
    refused(
        Op::Reshape { allow_zero: false },
        &[x.clone(), i64s(&[1], &[5])],
        "the new shape differ in the number of elements: 6 and 5",
    );
    let long = [x.clone(), i64s(&[1, 4], &[0; 4])];
    refused(Op::GatherElements { axis: 0 }, &long, "length 4 along axis 1, more than 3");
    refused(Op::Tile, &[x.clone(), i64s(&[1], &[1])], "got 1 repeats, expected 2: one per axis");
    refused(Op::Reshape { allow_zero: false }, &[x.clone(), i64s(&[2], &[-2, -3])], "negative");
    refused(Op::Unsqueeze, &[x.clone(), i64s(&[2], &[0, 0])], "contains an axis twice");
    refused(Op::Slice, &[x.clone(), one(0), one(1), one(0), one(0)], "a step is 0");
    refused(Op::Range, &[i64s(&[], &[0]), i64s(&[], &[1]), i64s(&[], &[0])], "the step is 0");
    refused(
        Op::Compress { axis: Some(0) },
        &[x, bools(&[3], &[1, 1, 1])],
        "got 3 flags for an axis of length 2",
    );
    let huge = Op::ConstantOfShape { value: 0.0, dtype: Dtype::F32 };
    refused(huge, &[i64s(&[2], &[1 << 40, 1 << 40])], "too large");
}

#[test]
fn messages_come_to_their_nodes() {
    let rows = f32s(&[3, 2], &[1.0, 2.0, 3.0, -4.0, -5.0, 6.0]);
    let index = i64s(&[3], &[2, 0, 2]);
    let count = i64s(&[], &[4]);
    let scatter = |how| (Op::Scatter(how), [rows.clone(), index.clone(), count.clone()]);
    let wanted = [
        (Reduction::Sum, [3.0, -4.0, 0.0, 0.0, -4.0, 8.0, 0.0, 0.0]),
        (Reduction::Mean, [3.0, -4.0, 0.0, 0.0, -2.0, 4.0, 0.0, 0.0]),
        (Reduction::Max, [3.0, -4.0, 0.0, 0.0, 1.0, 6.0, 0.0, 0.0]),
        (Reduction::Min, [3.0, -4.0, 0.0, 0.0, -5.0, 2.0, 0.0, 0.0]),
        (Reduction::Mul, [3.0, -4.0, 1.0, 1.0, -5.0, 12.0, 1.0, 1.0]),
    ];
    for (how, wanted) in wanted {
        let (op, inputs) = scatter(how);
        check(op, &inputs, f32s(&[4, 2], &wanted));
    }
    let edges = i64s(&[2, 3], &[0, 1, 2, 2, 0, 2]);
    let sums = f32s(&[3, 2], &[3.0, -4.0, 0.0, 0.0, -4.0, 8.0]);
    check(Op::Spmm(Reduction::Sum), &[edges.clone(), rows.clone()], sums);
    let weighted = f32s(&[3, 2], &[6.0, -8.0, 0.0, 0.0, 1.0, 2.0]);
    let weights = f32s(&[3], &[1.0, 2.0, 0.0]);
    check(Op::Spmm(Reduction::Sum), &[edges.clone(), rows.clone(), weights], weighted);
    let no_edges = i64s(&[2, 0], &[]);
    check(Op::Spmm(Reduction::Max), &[no_edges, rows.clone()], f32s(&[3, 2], &[0.0; 6]));
    check(Op::Degree, &[index.clone(), count.clone()], f32s(&[4], &[1.0, 0.0, 2.0, 0.0]));
    check_loops();
    let logits = f32s(&[3, 1], &[500.0, 3.0, 500.0]);
    let halves = f32s(&[3, 1], &[0.5, 1.0, 0.5]);
    check(Op::EdgeSoftmax, &[logits, index.clone(), count.clone()], halves);
    let infinite = f32s(&[2], &[INF, -INF]);
    check(
        Op::Scatter(Reduction::Max),
        &[infinite, i64s(&[2], &[0, 1]), i64s(&[], &[2])],
        f32s(&[2], &[INF, -INF]),
    );
    refused(
        Op::Spmm(Reduction::Sum),
        &[i64s(&[2, 1], &[3, 0]), rows.clone()],
        "index 3 at place 0",
    );
    refused(
        Op::Spmm(Reduction::Sum),
        &[i64s(&[2, 1], &[0, -1]), rows.clone()],
        "index -1 at place 0",
    );
    refused(
        Op::Spmm(Reduction::Sum),
        &[i64s(&[3, 1], &[0; 3]), rows.clone()],
        "the shape [2, edges]",
    );
    refused(
        Op::Scatter(Reduction::Sum),
        &[rows.clone(), i64s(&[2], &[0; 2]), count],
        "the length of the index differ: 3 and 2",
    );
    refused(
        Op::Scatter(Reduction::Sum),
        &[rows, index, i64s(&[], &[-1])],
        "the count -1 is negative",
    );
}

fn check_loops() {
    // 0 to 2, 1 to 1, 2 to 0, 1 to 1 again.
    let edges = i64s(&[2, 4], &[0, 1, 2, 1, 2, 1, 0, 1]);
    let rows = f32s(&[4, 1], &[1.0, 2.0, 3.0, 4.0]);
    let kept = i64s(&[2, 2], &[0, 2, 2, 0]);
    check(Op::RemoveSelfLoops, from_ref(&edges), kept.clone());
    let both = [edges.clone(), rows.clone()];
    let dfg = common::graph_of(&Op::RemoveSelfLoopsAttr, 2);
    let second = dfg.value("1_1").expect("the rows");
    let mut of_rows = dfg.clone();
    of_rows.create_out("rows", second).expect("new");
    let named = [("a", both[0].clone()), ("b", both[1].clone())];
    let found = ng_infer::run::run(&of_rows, &Devices::default(), &named, &Context::default());
    assert_eq!(found, Ok(vec![kept, f32s(&[2, 1], &[1.0, 3.0])]));
    let added = i64s(&[2, 6], &[0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 0, 1]);
    check(Op::AddSelfLoops, &[edges.clone(), i64s(&[1], &[2])], added);
    let fill = f32s(&[3, 1], &[9.0, 9.0, 9.0]);
    let of_nodes = f32s(&[3, 1], &[9.0, 4.0, 9.0]);
    check(Op::SelfLoopAttr, &[edges.clone(), rows, fill], of_nodes);
    let weights = f32s(&[4], &[4.0, 1.0, 1.0, 3.0]);
    // Sums of weights that come in: 1, 4 and 4.
    let norm = f32s(&[4], &[2.0, 0.25, 0.5, 0.75]);
    check(Op::GcnNorm, &[edges.clone(), weights.clone(), i64s(&[], &[3])], norm);
    refused(Op::GcnNorm, &[edges, weights, i64s(&[], &[2])], "index 2 at place 0");
    let one_way = [i64s(&[2, 1], &[0, 1]), f32s(&[1], &[1.0]), i64s(&[], &[2])];
    check(Op::GcnNorm, &one_way, f32s(&[1], &[0.0]));
}

#[test]
fn every_operation_is_found_by_its_name_and_served_but_those_of_a_store() {
    let int = |name: &str| (name.to_owned(), Attribute::Int(8));
    for name in Op::names() {
        let needs = match name.as_str() {
            "Cast" => vec![("to".to_owned(), Attribute::Text("i64".to_owned()))],
            "Concat" => vec![("axis".to_owned(), Attribute::Int(1))],
            "ToFixed" => ["bits", "fraction"].map(int).to_vec(),
            "FromFixed" => vec![int("fraction")],
            "FixedRescale" => ["bits", "shift"].map(int).to_vec(),
            _ => Vec::new(),
        };
        let given = Attributes::new("node", &name, needs.into_iter().collect());
        let op = Op::from_name(given).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(op.name(), name);
        let again = Op::from_name(Attributes::new("node", &name, op.attributes()));
        assert_eq!(again, Ok(op.clone()));
        assert_eq!(Devices::default().choose(&op).is_some(), name != "BatchPre");
        let strange = [("colour".to_owned(), Attribute::Int(3))].into();
        let refused = Op::from_name(Attributes::new("node", &name, strange));
        assert!(matches!(refused, Err(DfgError::Attribute { .. })), "{name}: {refused:?}");
    }
}

#[test]
fn lists_of_edges_keep_the_order_of_each_destination() {
    let (sources, destinations) = (i64s(&[5], &[4, 3, 2, 1, 0]), i64s(&[5], &[2, 0, 2, 0, 2]));
    let dfg = common::graph_of(&Op::EdgeLists, 3);
    let mut all = dfg.clone();
    for (name, value) in [("sources", "1_1"), ("places", "1_2")] {
        all.create_out(name, dfg.value(value).expect("given")).expect("new");
    }
    let named = [("a", sources.clone()), ("b", destinations.clone()), ("c", i64s(&[], &[3]))];
    let found = ng_infer::run::run(&all, &Devices::default(), &named, &Context::default());
    let lists = [i64s(&[4], &[0, 2, 2, 5]), i64s(&[5], &[3, 1, 4, 2, 0])];
    let places = i64s(&[5], &[1, 3, 0, 2, 4]);
    assert_eq!(found, Ok(lists.into_iter().chain([places]).collect()));
    let none = i64s(&[0], &[]);
    check(Op::EdgeLists, &[none.clone(), none.clone(), i64s(&[1], &[2])], i64s(&[3], &[0; 3]));
    check(Op::EdgeLists, &[none.clone(), none.clone(), i64s(&[], &[0])], i64s(&[1], &[0]));
    let edges = |size| [sources.clone(), destinations.clone(), i64s(&[], &[size])];
    refused(Op::EdgeLists, &edges(2), "index 2 at place 0 is out of range: expected less than 2");
    refused(Op::EdgeLists, &edges(-1), "the count -1 is negative");
    refused(Op::EdgeLists, &[sources, none, i64s(&[], &[3])], "differ in number: 5 and 0");
}

#[test]
fn lists_are_aggregated_as_scattered_messages_are() {
    let rows = f32s(&[3, 2], &[1.0, 2.0, 3.0, -4.0, -5.0, 6.0]);
    let lists = [rows.clone(), i64s(&[4], &[0, 2, 2, 3]), i64s(&[3], &[2, 0, 1])];
    let wanted = [
        (Reduction::Sum, [-4.0, 8.0, 0.0, 0.0, 3.0, -4.0]),
        (Reduction::Mean, [-2.0, 4.0, 0.0, 0.0, 3.0, -4.0]),
        (Reduction::Max, [1.0, 6.0, 0.0, 0.0, 3.0, -4.0]),
        (Reduction::Min, [-5.0, 2.0, 0.0, 0.0, 3.0, -4.0]),
        (Reduction::Mul, [-5.0, 12.0, 1.0, 1.0, 3.0, -4.0]),
    ];
    for (how, wanted) in wanted {
        check(Op::Aggregate(how), &lists, f32s(&[3, 2], &wanted));
    }
    let weighted = |dims: &[usize], weights: &[f32]| {
        let [rows, offsets, sources] = lists.clone();
        [rows, offsets, sources, f32s(dims, weights)]
    };
    let sum = || Op::Aggregate(Reduction::Sum);
    let one_each = f32s(&[3, 2], &[-1.0, 16.0, 0.0, 0.0, -3.0, 4.0]);
    check(
        sum(),
        &weighted(&[3], &[1.0, 4.0, -1.0]),
        f32s(&[3, 2], &[-1.0, 14.0, 0.0, 0.0, -3.0, 4.0]),
    );
    check(
        sum(),
        &weighted(&[3, 1], &[1.0, 4.0, -1.0]),
        f32s(&[3, 2], &[-1.0, 14.0, 0.0, 0.0, -3.0, 4.0]),
    );
    let heads = weighted(&[3, 2], &[1.0, 2.0, 4.0, 2.0, -1.0, -1.0]);
    check(sum(), &heads, one_each);
    let none = [f32s(&[0, 2], &[]), i64s(&[2], &[0, 0]), i64s(&[0], &[])];
    check(sum(), &none, f32s(&[1, 2], &[0.0, 0.0]));
    let narrow = [f32s(&[1, 0], &[]), i64s(&[2], &[0, 1]), i64s(&[1], &[0])];
    check(sum(), &narrow, f32s(&[1, 0], &[]));
    refused(sum(), &weighted(&[2], &[1.0; 2]), "edges and weights differ in number: 3 and 2");
    let words = "weights and messages differ in a dimension: 3 and 2";
    refused(sum(), &weighted(&[3, 3], &[1.0; 9]), words);
    refused(sum(), &weighted(&[3, 1, 2], &[1.0; 6]), "more dimensions than messages");
    let with = |offsets: &[i64], sources: &[i64]| {
        [rows.clone(), i64s(&[offsets.len()], offsets), i64s(&[sources.len()], sources)]
    };
    for offsets in [&[0, 2, 1, 3][..], &[1, 3], &[0, 2], &[0, 4], &[-1, 3]] {
        refused(sum(), &with(offsets, &[0, 0, 0]), "not ascending from 0 to 3");
    }
    refused(sum(), &with(&[0, 1], &[3]), "index 3 at place 0 is out of range");
    refused(sum(), &with(&[], &[]), "length -1 is negative");
}

#[test]
fn pairs_of_rows_of_edges() {
    let (a, b) = (f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), f32s(&[1, 2], &[10.0, 20.0]));
    let ends = [i64s(&[3], &[1, 0, 1]), i64s(&[3], &[0, 0, 0])];
    let [from, to] = ends.clone();
    let inputs = [a.clone(), b.clone(), from, to];
    let less = f32s(&[3, 2], &[-7.0, -16.0, -9.0, -18.0, -7.0, -16.0]);
    check(Op::Sddmm(Binary::Sub), &inputs, less);
    let numbers = [f32s(&[2], &[1.0, 2.0]), f32s(&[1], &[3.0]), ends[0].clone(), ends[1].clone()];
    check(Op::Sddmm(Binary::Mul), &numbers, f32s(&[3], &[6.0, 3.0, 6.0]));
    let none = [a.clone(), b.clone(), i64s(&[0], &[]), i64s(&[0], &[])];
    check(Op::Sddmm(Binary::Add), &none, f32s(&[0, 2], &[]));
    refused(Op::Sddmm(Binary::Less), &inputs, "no device has a kernel for SDDMM_Less");
    let named: Vec<_> = ["a", "b", "c", "d"].into_iter().zip(inputs.iter().map(type_of)).collect();
    let error = common::graph_of(&Op::Sddmm(Binary::Less), 4).check(&named);
    let error = error.expect_err("does not fit").to_string();
    assert!(error.contains("Less does not return numbers"), "{error}");
    let far = [a.clone(), b.clone(), ends[0].clone(), ends[0].clone()];
    let words = "index 1 at place 0 is out of range: expected less than 1";
    refused(Op::Sddmm(Binary::Add), &far, words);
    let wide = [a, f32s(&[1, 3], &[0.0; 3]), ends[0].clone(), ends[1].clone()];
    let words = "the rows of the two inputs differ in a dimension: 2 and 3";
    refused(Op::Sddmm(Binary::Add), &wide, words);
}

#[test]
fn linear_is_product_and_bias_and_relu() {
    let (x, weight) = (f32s(&[2, 1, 2], &[1.0, 2.0, 3.0, -4.0]), f32s(&[2, 1], &[1.0, 2.0]));
    let bias = f32s(&[1], &[0.5]);
    let linear = |relu| Op::Linear { relu };
    check(linear(false), &[x.clone(), weight.clone()], f32s(&[2, 1, 1], &[5.0, -5.0]));
    let inputs = [x.clone(), weight.clone(), bias];
    check(linear(false), &inputs, f32s(&[2, 1, 1], &[5.5, -4.5]));
    check(linear(true), &inputs, f32s(&[2, 1, 1], &[5.5, 0.0]));
    check(linear(true), &[f32s(&[0, 2], &[]), weight.clone()], f32s(&[0, 1], &[]));
    refused(linear(false), &[f32s(&[2, 3], &[0.0; 6]), weight.clone()], "differ: 3 and 2");
    refused(linear(false), &[x, weight, f32s(&[2], &[0.0; 2])], "bias differ: 1 and 2");
}
