//! Graphs in fewer bits: names stay, weights shrink, outputs are near, and what does not fit is
//! refused by name.

use crate::common::{f32s, i64s};
use ng_infer::dfg::{Constant, Dfg, Dim, Elements, FixedFormat, Op, Reduction, TensorType, Unary};
use ng_infer::kernel::Context;
use ng_infer::quantise::{
    Calibration, Found, QuantiseError, Search, Target, fixed_point, fixed_values, half, steps,
};
use ng_infer::run::{Devices, run};
use ng_testing::Random;
use ng_types::Dtype;

const WIDTH: usize = 24;
const HIDDEN: usize = 16;
const CLASSES: usize = 3;

fn typed(dtype: Dtype, shape: &[Dim]) -> Option<TensorType> {
    Some(TensorType { dtype, shape: shape.to_vec() })
}

fn random(rng: &mut Random, dims: &[usize], scale: f32) -> Constant {
    let mut one = || (rng.below(2001) as f32 / 1000.0 - 1.0) * scale;
    f32s(dims, &(0..dims.iter().product()).map(|_| one()).collect::<Vec<_>>())
}

/// Two layers of mean aggregation, each with a product, a bias and a ReLU between.
fn model(rng: &mut Random) -> Dfg {
    let mut dfg = Dfg::default();
    let (nodes, edges) = (Dim::symbol("nodes"), Dim::symbol("edges"));
    let rows = typed(Dtype::F32, &[nodes, Dim::from(WIDTH as i64)]);
    let x = dfg.create_in("x", rows).expect("new");
    let ends = typed(Dtype::I64, &[Dim::from(2), edges]);
    let edge_index = dfg.create_in("edge_index", ends).expect("new");
    let weight = |dfg: &mut Dfg, name: &str, tensor| dfg.create_weight(name, tensor).expect("new");
    let [first, second] = ["first", "second"].map(|name| {
        let row = i64s(&[], &[i64::from(name == "second")]);
        let row = weight(&mut dfg, name, row);
        dfg.create_op(Op::Gather { axis: 0 }, &[edge_index, row]).expect("fits")[0]
    });
    let size = dfg.create_op(Op::Shape { start: 0, end: Some(1) }, &[x]).expect("fits")[0];
    let mut h = x;
    for (layer, (from, to)) in [(WIDTH, HIDDEN), (HIDDEN, CLASSES)].into_iter().enumerate() {
        let matrix = random(rng, &[from, to], 0.3);
        let matrix = weight(&mut dfg, &format!("{layer}.weight"), matrix);
        let bias = random(rng, &[to], 0.1);
        let bias = weight(&mut dfg, &format!("{layer}.bias"), bias);
        let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false };
        let messages = dfg.create_op(Op::Gather { axis: 0 }, &[h, first]).expect("fits")[0];
        let mean = [messages, second, size];
        let mean = dfg.create_op(Op::Scatter(Reduction::Mean), &mean).expect("fits")[0];
        h = dfg.create_op(gemm, &[mean, matrix, bias]).expect("fits")[0];
        if layer == 0 {
            h = dfg.create_op(Op::Unary(Unary::Relu), &[h]).expect("fits")[0];
        }
    }
    dfg.create_out("out", h).expect("new");
    dfg
}

fn batch(rng: &mut Random, nodes: usize, edges: usize) -> Vec<(&'static str, Constant)> {
    let mut ends = Vec::new();
    ends.extend((0..2 * edges).map(|_| rng.below(nodes as u64) as i64));
    vec![("x", random(rng, &[nodes, WIDTH], 1.0)), ("edge_index", i64s(&[2, edges], &ends))]
}

fn numbers(tensor: &Constant) -> &[f32] {
    let Elements::F32(all) = tensor.elements() else { panic!("f32 expected") };
    all
}

fn out(dfg: &Dfg, inputs: &[(&str, Constant)]) -> Constant {
    run(dfg, &Devices::default(), inputs, &Context::default()).expect("runs").remove(0)
}

fn difference(one: &Constant, other: &Constant) -> f32 {
    assert_eq!(one.dims(), other.dims());
    let pairs = numbers(one).iter().zip(numbers(other));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn search(dfg: &Dfg, bits: u32, inputs: &[(&str, Constant)], target: Target) -> Found {
    let calibration = Calibration { inputs, target };
    let (devices, context) = (Devices::default(), Context::default());
    Search { bits, rounds: 2 }
        .search(dfg, &calibration, &devices, &context, &mut |_, _, _| true)
        .expect("finds formats")
}

fn weight_of(dfg: &Dfg, name: &str) -> Constant {
    let value = dfg.value(name).expect("there");
    dfg.weights().find(|(known, _)| *known == value).expect("a weight").1.clone()
}

#[test]
fn linear_layers_in_steps_are_near_and_keep_their_names() {
    let mut rng = Random::new(1);
    let dfg = model(&mut rng);
    let done = steps(&dfg).expect("has linear layers");
    assert_eq!(done.narrowed, ["0.weight", "1.weight"]);
    assert_eq!(done.kept, []);
    done.dfg.check(&[]).expect("types fit");
    assert_eq!(weight_of(&done.dfg, "0.weight").elements().dtype(), Dtype::I8);
    assert_eq!(done.dfg.outputs()[0].0, "out");
    for (nodes, edges) in [(50, 300), (1, 0), (0, 0)] {
        let batch = if nodes == 0 {
            vec![("x", f32s(&[0, WIDTH], &[])), ("edge_index", i64s(&[2, 0], &[]))]
        } else {
            batch(&mut rng, nodes, edges)
        };
        let (found, wanted) = (out(&done.dfg, &batch), out(&dfg, &batch));
        let largest = numbers(&wanted).iter().fold(0.0_f32, |top, x| top.max(x.abs()));
        let bound = 0.03 * largest.max(0.1);
        assert!(difference(&found, &wanted) < bound, "{nodes} nodes: {found:?} for {wanted:?}");
        assert!(nodes < 2 || found != wanted, "steps round");
    }
}

#[test]
fn rows_of_zeros_give_the_bias() {
    let mut rng = Random::new(2);
    let dfg = model(&mut rng);
    let zeros = [("x", f32s(&[3, WIDTH], &[0.0; 3 * WIDTH])), ("edge_index", i64s(&[2, 0], &[]))];
    let wanted = weight_of(&dfg, "1.bias");
    let found = out(&steps(&dfg).expect("linear").dfg, &zeros);
    for row in numbers(&found).chunks(CLASSES) {
        assert_eq!(row, numbers(&wanted));
    }
}

/// One product of a matrix with what `gemm` says, and a bias of a single number.
fn one_product(matrix: Constant, gemm: Op, bias: f32) -> Dfg {
    let mut dfg = Dfg::default();
    let x = dfg.create_in("x", None).expect("new");
    let matrix = dfg.create_weight("w", matrix).expect("new");
    let bias = dfg.create_weight("b", f32s(&[1, 1], &[bias])).expect("new");
    let made = dfg.create_op(gemm, &[x, matrix, bias]).expect("fits");
    dfg.create_out("y", made[0]).expect("new");
    dfg
}

#[test]
fn factors_and_turned_matrices_are_taken_into_the_weights() {
    let turned = Op::Gemm { alpha: -2.0, beta: 0.5, trans_a: false, trans_b: true };
    // Values are whole steps, so that nothing is rounded.
    let matrix = f32s(&[2, 3], &[127.0, 1.0, 2.0, 0.0, -127.0, 4.0]);
    let dfg = one_product(matrix, turned, 4.0);
    let x = f32s(&[1, 3], &[127.0, 1.0, 2.0]);
    let found = out(&steps(&dfg).expect("linear").dfg, &[("x", x.clone())]);
    let wanted = out(&dfg, &[("x", x)]);
    assert!(difference(&found, &wanted) < 1e-2, "{found:?} for {wanted:?}");
    let done = steps(&dfg).expect("linear");
    assert_eq!(weight_of(&done.dfg, "w.T*-2").dims(), [3, 2]);
    assert_eq!(numbers(&weight_of(&done.dfg, "b*0.5")), [2.0, 2.0]);
}

#[test]
fn weights_that_have_no_step_are_named() {
    let plain = || Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false };
    let bad = one_product(f32s(&[2, 2], &[1.0, 2.0, 3.0, f32::NAN]), plain(), 0.0);
    let words = |error: QuantiseError| error.to_string();
    let text = words(steps(&bad).expect_err("NaN"));
    assert_eq!(text, "weight \"w\": row 1, column 1 is NaN");
    let bad = one_product(f32s(&[2, 2], &[1.0; 4]), plain(), f32::INFINITY);
    assert_eq!(words(steps(&bad).expect_err("inf")), "weight \"b\": column 0 is inf");
    let mut wide = vec![0.5; 32];
    wide[17] = 70_000.0;
    let bad = one_product(f32s(&[2, 16], &wide), plain(), 0.0);
    let text = words(half(&bad).expect_err("too large"));
    assert_eq!(text, "weight \"w\": element 17 is 70000, which f16 cannot represent");
    wide[17] = f32::NAN;
    let bad = one_product(f32s(&[2, 16], &wide), plain(), 0.0);
    let formats: Vec<_> = fixed_values(&bad, &[("x", type_of_x())])
        .expect("types fit")
        .into_iter()
        .map(|name| (name.to_owned(), FixedFormat { bits: 8, fraction: 3 }))
        .collect();
    let text = words(fixed_point(&bad, &[("x", type_of_x())], &formats).expect_err("NaN"));
    assert_eq!(text, "weight \"w\": element 17 is NaN");
}

fn type_of_x() -> TensorType {
    TensorType { dtype: Dtype::F32, shape: vec![Dim::symbol("rows"), Dim::from(2)] }
}

#[test]
fn products_of_a_batch_with_itself_stay_and_that_is_said() {
    let mut dfg = Dfg::default();
    let x = dfg.create_in("x", None).expect("new");
    let table = f32s(&[3, 2], &[1.0; 6]);
    let table = dfg.create_weight("table", table).expect("new");
    let turned = dfg.create_op(Op::Transpose { perm: None }, &[table]).expect("fits")[0];
    let made = dfg.create_op(Op::MatMul, &[x, turned]).expect("fits")[0];
    dfg.create_out("y", made).expect("new");
    let error = steps(&dfg).expect_err("nothing to do").to_string();
    let words = "\"table\" is used other than as the matrix of a linear layer";
    assert!(error.contains(words), "{error}");
}

#[test]
fn half_precision_halves_weights_and_widens_them_where_they_are_used() {
    let mut rng = Random::new(3);
    let dfg = model(&mut rng);
    let done = half(&dfg).expect("has weights");
    assert_eq!(done.narrowed, ["0.bias", "0.weight", "1.weight"]);
    assert_eq!(done.kept, [("1.bias".to_owned(), "has fewer than 16 elements".to_owned())]);
    done.dfg.check(&[]).expect("types fit");
    assert_eq!(weight_of(&done.dfg, "0.weight").elements().dtype(), Dtype::F16);
    let batch = batch(&mut rng, 40, 200);
    let off = difference(&out(&done.dfg, &batch), &out(&dfg, &batch));
    assert!(off > 0.0 && off < 2e-3, "{off}");
}

#[test]
fn rows_of_a_narrow_table_are_widened_after_they_are_taken() {
    let mut dfg = Dfg::default();
    let ids = dfg.create_in("ids", None).expect("new");
    let table = (0..32).map(|i| i as f32 * 0.5).collect::<Vec<_>>();
    let table = dfg.create_weight("table", f32s(&[16, 2], &table)).expect("new");
    let made = dfg.create_op(Op::Gather { axis: 0 }, &[table, ids]).expect("fits")[0];
    dfg.create_out("y", made).expect("new");
    let done = half(&dfg).expect("a table").dfg;
    let names: Vec<String> = done.nodes().iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["Gather", "Cast"]);
    let ids = [("ids", i64s(&[2], &[15, 0]))];
    assert_eq!(out(&done, &ids), f32s(&[2, 2], &[15.0, 15.5, 0.0, 0.5]));
}

#[test]
fn what_is_multiplied_has_a_format_and_sums_have_none() {
    let dfg = model(&mut Random::new(4));
    let names = fixed_values(&dfg, &[]).expect("types fit");
    // Rows, means, matrices, what a ReLU gives, the output; not a bias, not messages, and no sum.
    let relu = dfg.nodes().iter().find(|node| node.op == Op::Unary(Unary::Relu));
    let relu = dfg.name(relu.expect("one").outputs[0]);
    assert_eq!(names, ["x", "0.weight", "5_0", relu, "1.weight", "9_0", "10_0"]);
}

#[test]
fn more_bits_are_nearer_and_the_search_makes_no_formats_worse() {
    let mut rng = Random::new(5);
    let dfg = model(&mut rng);
    let batch = batch(&mut rng, 60, 400);
    let wanted = out(&dfg, &batch);
    let mut last = f64::INFINITY;
    for bits in [4, 6, 8, 12, 16, 32] {
        let found = search(&dfg, bits, &batch, Target::Itself);
        assert!(found.loss < last, "{bits} bits: {} after {last}", found.loss);
        assert!(found.runs <= 1 + 2 * 3 * 7, "{} runs", found.runs);
        let first = Search { bits, rounds: 0 };
        let calibration = Calibration { inputs: &batch, target: Target::Itself };
        let (devices, context) = (Devices::default(), Context::default());
        let first = first.search(&dfg, &calibration, &devices, &context, &mut |_, _, _| true);
        assert!(found.loss <= first.expect("finds").loss, "{bits} bits");
        let graph = fixed_point(&dfg, &[], &found.formats).expect("fits").dfg;
        graph.check(&[]).expect("types fit");
        let off = difference(&out(&graph, &batch), &wanted);
        assert!(bits < 16 || off < 1e-3, "{bits} bits: {off}");
        last = found.loss;
    }
}

#[test]
fn the_same_data_give_the_same_formats_and_bits() {
    let dfg = model(&mut Random::new(6));
    let batch = batch(&mut Random::new(6), 30, 100);
    let (rows, labels) = ((0..30).collect(), (0..30).map(|i| i % CLASSES).collect());
    let target = Target::Labels { rows, labels };
    let [one, other] = [(); 2].map(|()| search(&dfg, 8, &batch, target.clone()));
    assert_eq!(one, other);
    let graph = |found: &Found| fixed_point(&dfg, &[], &found.formats).expect("fits").dfg;
    assert_eq!(graph(&one), graph(&other));
    assert_eq!(weight_of(&graph(&one), &weight_name(&graph(&one))).elements().dtype(), Dtype::I8);
}

fn weight_name(dfg: &Dfg) -> String {
    let named = dfg.weights().map(|(value, _)| dfg.name(value).to_owned());
    named.into_iter().find(|name| name.starts_with("0.weight")).expect("there")
}

/// A product and a sum whose bits are known: 3 bits behind the point for both factors.
#[test]
fn products_round_once() {
    let plain = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false };
    let dfg = one_product(f32s(&[2, 1], &[0.625, -0.5]), plain, 0.015625);
    let format = |fraction| FixedFormat { bits: 8, fraction };
    let formats = [("x", 3), ("w", 3), ("1_0", 2)].map(|(name, f)| (name.to_owned(), format(f)));
    let graph = fixed_point(&dfg, &[("x", type_of_x())], &formats).expect("fits").dfg;
    // 0.4 is 3 eighths; (3 * 5 + 8 * -4 + 1) / 64 is -0.25, a whole quarter.
    let y = out(&graph, &[("x", f32s(&[1, 2], &[0.4, 1.0]))]);
    assert_eq!(numbers(&y), [-0.25]);
    // Beyond 31.75 a number of 8 bits with 2 behind the point is the largest.
    let y = out(&graph, &[("x", f32s(&[1, 2], &[1e9, -1e9]))]);
    assert_eq!(
        numbers(&y),
        [f32::min(31.75, 15.875 * 0.625 + 16.0 * 0.5 + 0.015625).floor_to(4.0)]
    );
}

trait FloorTo {
    fn floor_to(self, per_one: f32) -> f32;
}

impl FloorTo for f32 {
    fn floor_to(self, per_one: f32) -> f32 {
        (self * per_one).round_ties_even() / per_one
    }
}

#[test]
fn the_search_refuses_what_it_cannot_use() {
    let dfg = model(&mut Random::new(7));
    let batch = batch(&mut Random::new(7), 10, 20);
    let (devices, context) = (Devices::default(), Context::default());
    let search = |bits, inputs: &[(&str, Constant)], target, go_on| {
        let calibration = Calibration { inputs, target };
        let found = Search { bits, rounds: 1 }.search(
            &dfg,
            &calibration,
            &devices,
            &context,
            &mut |_, _, _| go_on,
        );
        found.expect_err("refused").to_string()
    };
    let labels = |rows: &[usize], labels: &[usize]| Target::Labels {
        rows: rows.to_vec(),
        labels: labels.to_vec(),
    };
    assert_eq!(
        search(33, &batch, Target::Itself, true),
        "33 is not a valid number of bits: fixed-point numbers have 2 to 32"
    );
    assert_eq!(search(8, &batch, Target::Itself, false), "the search was stopped");
    let text = search(8, &batch, labels(&[1], &[CLASSES]), true);
    assert_eq!(text, "labels: row 1 (of 10 rows) or class 3 (of 3 classes) is out of range");
    assert_eq!(search(8, &batch, labels(&[], &[]), true), "labels: got 0 rows but 0 labels");
    let mut bad = numbers(&batch[0].1).to_vec();
    bad[3] = f32::NAN;
    let bad = [("x", f32s(&[10, WIDTH], &bad)), batch[1].clone()];
    let text = search(8, &bad, Target::Itself, true);
    assert!(text.starts_with("value \"x\" is NaN on the calibration data"), "{text}");
    let formats = [("x".to_owned(), FixedFormat { bits: 8, fraction: 3 })];
    let text = fixed_point(&dfg, &[], &formats).expect_err("more values").to_string();
    assert_eq!(text, "formats: value \"0.weight\" has no format");
    let formats = [("0.bias".to_owned(), FixedFormat { bits: 8, fraction: 3 })];
    let text = fixed_point(&dfg, &[], &formats).expect_err("a sum").to_string();
    assert_eq!(text, "formats: \"0.bias\" is not the name of a value that needs a format");
}

#[test]
fn layers_in_steps_are_cut_where_those_in_single_precision_are() {
    let dfg = model(&mut Random::new(9));
    let plain = dfg.levels(&[]).expect("is followed");
    for narrow in [steps(&dfg).expect("linear").dfg, half(&dfg).expect("weights").dfg] {
        let levels = narrow.levels(&[]).expect("is followed");
        assert_eq!(levels.cuts().len(), plain.cuts().len());
        assert_eq!(levels.cuts().len(), 2);
    }
    let found = search(&dfg, 8, &batch(&mut Random::new(9), 20, 60), Target::Itself);
    let graph = fixed_point(&dfg, &[], &found.formats).expect("fits").dfg;
    assert!(graph.levels(&[]).is_err(), "whole numbers are not followed, which is said");
}
