//! Fused operations give the bytes of the operations that they are made of.

use std::sync::Arc;

use crate::plan_support::{
    Batch, Build, WIDTH, models, ops, options, plan, run, tensor, view_of, whole,
};
use ng_infer::dfg::{
    Binary, Constant, Dfg, Dim, Elements, Op, Reduction, TensorType, Unary, Value,
};
use ng_infer::kernel::{Context, Kernel, KernelError, Scalar, View, ViewMut};
use ng_infer::plan::{Options, Plan};
use ng_infer::run::{Devices, RunError};
use ng_testing::Random;
use ng_types::Dtype;

/// Batches of all shapes: with edges, without, of one node, and of none.
fn batches(seed: u64) -> Vec<Batch> {
    let random = &mut Random::new(seed);
    vec![
        Batch::new(random, 3, 3, 4),
        Batch::new(random, 5, 1, 9),
        Batch::new(random, 4, 2, 0),
        Batch::new(random, 1, 0, 0),
        Batch::new(random, 0, 0, 0),
    ]
}

#[test]
fn fused_models_give_the_same_bytes() {
    for (name, dfg) in models() {
        let plain = plan(&dfg, &options(false, false));
        let fused = plan(&dfg, &options(true, false));
        for seed in 0..20 {
            for batch in batches(seed) {
                let wanted = run(&plain, &batch, false);
                let found = run(&fused, &batch, false);
                assert!(wanted.is_ok(), "{name}: {wanted:?}");
                assert_eq!(found, wanted, "{name} with seed {seed}, hops {:?}", batch.hops);
            }
        }
    }
}

#[test]
fn messages_may_stand_before_the_end_of_their_edges() {
    let mut dfg = Dfg::default();
    let of = |dtype, shape: [Dim; 2]| Some(TensorType { dtype, shape: shape.to_vec() });
    let rows = of(Dtype::F32, [Dim::symbol("nodes"), Dim::from(WIDTH as i64)]);
    let x = dfg.create_in("x", rows).expect("new");
    let ends = of(Dtype::I64, [Dim::from(2), Dim::symbol("edges")]);
    let edges = dfg.create_in("edge_index", ends).expect("new");
    let zero = dfg.create_weight("zero", whole(&[], vec![0])).expect("new");
    let one = dfg.create_weight("one", whole(&[], vec![1])).expect("new");
    let mut op = |op: Op, inputs: &[Value]| dfg.create_op(op, inputs).expect("fits")[0];
    let size = op(Op::Shape { start: 0, end: Some(1) }, &[x]);
    let size = op(Op::Squeeze, &[size]);
    let sources = op(Op::Gather { axis: 0 }, &[edges, zero]);
    let messages = op(Op::Gather { axis: 0 }, &[x, sources]);
    let messages = op(Op::Unary(Unary::Relu), &[messages]);
    let destinations = op(Op::Gather { axis: 0 }, &[edges, one]);
    let sums = op(Op::Scatter(Reduction::Sum), &[messages, destinations, size]);
    dfg.create_out("out", sums).expect("new");
    for batch in batches(11) {
        let wanted = run(&plan(&dfg, &options(false, false)), &batch, false).expect("runs");
        for trim in [false, true] {
            let found = run(&plan(&dfg, &options(true, trim)), &batch, false).expect("runs");
            assert_eq!(found, wanted);
        }
    }
}

#[test]
fn negative_nodes_are_refused_whatever_is_fused() {
    let mut batch = Batch::new(&mut Random::new(9), 4, 2, 5);
    let Elements::I64(mut ends) = batch.edges.elements().clone() else { panic!("i64 expected") };
    assert!(ends.len() > 2);
    for place in [1, ends.len() - 1] {
        let before = std::mem::replace(&mut ends[place], -1);
        batch.edges = whole(batch.edges.dims(), ends.clone());
        for (name, dfg) in models() {
            for (fuse, trim) in [(false, false), (true, false), (false, true), (true, true)] {
                let found = run(&plan(&dfg, &options(fuse, trim)), &batch, trim);
                let message = found.expect_err(name).to_string();
                assert!(message.contains("-1"), "{name}, fuse {fuse}, trim {trim}: {message}");
            }
        }
        ends[place] = before;
    }
}

#[test]
fn the_device_cpu_gives_the_same_bytes_on_any_number_of_threads() {
    let batch = Batch::new(&mut Random::new(5), 60, 2, 12);
    for (name, dfg) in models() {
        for options in [options(true, true), options(false, false)] {
            let plan = Plan::new(&dfg, &Devices::with_cpu(), &options).expect("fits");
            let hops = [("nodes", batch.hops.as_slice())];
            let hops = if options.trim { &hops[..] } else { &[] };
            let of = |threads| {
                let answer = plan.run(&batch.inputs(), hops, &Context::new(threads));
                answer.expect("runs").to_constants()
            };
            let one = of(1);
            assert_eq!(of(2), one, "{name}");
            assert_eq!(of(3), one, "{name}");
        }
    }
}

#[test]
fn each_kind_of_fusion_is_found_and_can_be_switched_off() {
    let wanted = [
        (
            "SAGE mean",
            vec!["EdgeLists", "AggregateMean", "LinearSum", "AggregateMean", "LinearSum"],
        ),
        ("GCN", vec!["EdgeLists", "GcnNorm", "AggregateSum", "AggregateSum"]),
        ("GIN", vec!["EdgeLists", "AggregateSum", "Linear", "AggregateSum", "Linear"]),
        ("GAT", vec!["EdgeLists", "SDDMM_Add", "EdgeSoftmax", "AggregateSum", "SDDMM_Add"]),
        ("custom", vec!["EdgeLists", "SDDMM_Sub", "Linear", "AggregateMax"]),
        ("SpMM", vec!["EdgeLists", "AggregateMean", "Linear", "AggregateMax"]),
    ];
    for (name, dfg) in models() {
        let fused = ops(&plan(&dfg, &options(true, true)).explain());
        if let Some((_, wanted)) = wanted.iter().find(|(known, _)| *known == name) {
            for op in wanted {
                let count = |all: &[String]| all.iter().filter(|found| found == op).count();
                let least = wanted.iter().filter(|known| *known == op).count();
                assert!(count(&fused) >= least, "{name}: {op} in {fused:?}");
            }
            // All layers share the lists.
            assert_eq!(fused.iter().filter(|op| *op == "EdgeLists").count(), 1, "{name}");
            let left = |op: &&String| op.starts_with("Scatter") || op.starts_with("SpMM");
            assert_eq!(fused.iter().find(left), None, "{name}: {fused:?}");
        }
        for op in ops(&plan(&dfg, &options(false, false)).explain()) {
            let is_fused = ["EdgeLists", "Aggregate", "SDDMM", "Linear"].iter();
            assert!(!is_fused.clone().any(|fused| op.starts_with(fused)), "{name}: {op}");
        }
    }
}

#[test]
fn a_linear_layer_is_a_product_with_all_that_is_done_to_it() {
    let mut build = Build::new(1, false);
    let (x, weight, bias) = (build.x, build.weight(&[3, WIDTH]), build.weight(&[1, 3]));
    let turned = build.op(Op::Transpose { perm: None }, &[weight]);
    let product = build.op(Op::MatMul, &[x, turned]);
    let sum = build.op(Op::Binary(Binary::Add), &[bias, product]);
    let out = build.relu(sum);
    let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true };
    let weight = build.weight(&[3, WIDTH]);
    let other = build.op(gemm, &[x, weight, bias]);
    build.dfg.create_out("out", out).expect("new");
    build.dfg.create_out("other", other).expect("new");
    let batch = Batch::new(&mut Random::new(2), 5, 1, 3);
    let fused = plan(&build.dfg, &options(true, false));
    assert_eq!(ops(&fused.explain()), ["Linear", "Linear"]);
    let told = fused.explain();
    let nodes: Vec<&str> = told.steps[0].nodes.iter().map(|(_, op)| op.as_str()).collect();
    assert_eq!(nodes, ["MatMul", "Add", "Relu"]);
    let wanted = run(&plan(&build.dfg, &options(false, false)), &batch, false);
    assert_eq!(run(&fused, &batch, false), wanted);
}

#[test]
fn what_others_take_too_or_what_is_scaled_is_not_part_of_a_linear_layer() {
    let mut build = Build::new(1, false);
    let (x, weight, bias) = (build.x, build.weight(&[WIDTH, 3]), build.weight(&[3]));
    let product = build.op(Op::MatMul, &[x, weight]);
    let sum = build.op(Op::Binary(Binary::Add), &[product, bias]);
    let half = Op::Gemm { alpha: 0.5, beta: 1.0, trans_a: false, trans_b: false };
    let half = build.op(half, &[x, weight]);
    let narrow = build.weight(&[1]);
    let shifted = build.op(Op::MatMul, &[x, weight]);
    let shifted = build.op(Op::Binary(Binary::Add), &[shifted, narrow]);
    for (name, value) in [("a", product), ("b", sum), ("c", half), ("d", shifted)] {
        build.dfg.create_out(name, value).expect("new");
    }
    let fused = plan(&build.dfg, &options(true, false));
    let found = ops(&fused.explain());
    assert!(found.contains(&"GEMM".to_owned()), "{found:?}");
    assert_eq!(found.iter().filter(|op| *op == "Add").count(), 2, "{found:?}");
    let batch = Batch::new(&mut Random::new(2), 5, 1, 3);
    let wanted = run(&plan(&build.dfg, &options(false, false)), &batch, false);
    assert_eq!(run(&fused, &batch, false), wanted);
}

/// Does what the reference does.
struct Other;

impl Kernel for Other {
    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        Scalar.run(op, inputs, outputs, context)
    }
}

#[test]
fn an_operation_of_a_preferred_device_is_not_fused_away() {
    let (_, dfg) = models().into_iter().find(|(name, _)| *name == "SpMM").expect("is there");
    let of = |op: &str| {
        let mut devices = Devices::default();
        devices.register_device("other", 5);
        devices.register_op_definition(op, "other", Arc::new(Other)).expect("known");
        let plan = Plan::new(&dfg, &devices, &Options::default()).expect("fits");
        plan.explain()
            .steps
            .into_iter()
            .filter(|step| step.device.as_deref() == Some("other"))
            .count()
    };
    assert_eq!(of("SpMM_Mean"), 1);
    assert_eq!(of("GEMM"), 1);
    assert_eq!(of("Relu"), 1);
    assert_eq!(of("AggregateMean"), 1);
}

fn typed(dtype: Dtype, dims: &[&str]) -> TensorType {
    let dim = |text: &&str| text.parse().map_or_else(|_| Dim::symbol(text), |n: i64| Dim::from(n));
    TensorType { dtype, shape: dims.iter().map(dim).collect() }
}

#[test]
fn inputs_of_the_text_form_get_types_and_are_fused_then() {
    let text = r#"1: "SpMM_Sum"
  in={"edge_index", "x", "weights"}
  out={"1_0"}
"#;
    let dfg = Dfg::from_text(text).expect("fits");
    let types = vec![
        ("edge_index".to_owned(), typed(Dtype::I64, &["2", "edges"])),
        ("x".to_owned(), typed(Dtype::F32, &["nodes", "2"])),
        ("weights".to_owned(), typed(Dtype::F32, &["edges"])),
    ];
    let untyped = plan(&dfg, &Options::default());
    assert_eq!(ops(&untyped.explain()), ["SpMM_Sum"]);
    let fused = plan(&dfg, &Options { types: types.clone(), ..Options::default() });
    assert!(ops(&fused.explain()).contains(&"AggregateSum".to_owned()));
    let given = [
        whole(&[2, 3], vec![0, 1, 1, 1, 0, 1]),
        tensor(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]),
        tensor(&[3], vec![1.0, 2.0, -1.0]),
    ];
    let views: Vec<_> =
        ["edge_index", "x", "weights"].into_iter().zip(given.iter().map(view_of)).collect();
    let of = |plan: &Plan| -> Vec<Constant> {
        plan.run(&views, &[], &Context::default()).expect("runs").to_constants()
    };
    assert_eq!(of(&fused), [tensor(&[2, 2], vec![6.0, 8.0, -2.0, -2.0])]);
    assert_eq!(of(&untyped), of(&fused));
    let narrow = Options {
        types: vec![
            ("x".to_owned(), typed(Dtype::F32, &["nodes"])),
            types[0].clone(),
            types[2].clone(),
        ],
        ..Options::default()
    };
    let refused = Plan::new(&dfg, &Devices::default(), &narrow).expect_err("rows are matrices");
    assert!(refused.to_string().contains("expected 2 dimensions, found 1"), "{refused}");
}

#[test]
fn errors_of_fused_operations_name_the_node_of_the_graph() {
    let (_, dfg) = models().into_iter().find(|(name, _)| *name == "SAGE mean").expect("is there");
    let batch = Batch::new(&mut Random::new(1), 2, 1, 3);
    let edges = whole(&[2, 1], vec![99, 0]);
    let inputs = [("x", view_of(&batch.x)), ("edge_index", view_of(&edges))];
    for (options, words) in [
        (
            options(true, false),
            "ScatterMean, run as AggregateMean: index 99 at place 0 is out of range",
        ),
        (options(false, false), "Gather: index 99 at place 0 is out of range"),
    ] {
        let plan = plan(&dfg, &options);
        let error: Option<RunError> = plan.run(&inputs, &[], &Context::default()).err();
        let error = error.expect("out of range");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn counts_and_rows_of_edges_are_found_by_any_way() {
    let mut build = Build::new(3, false);
    let (x, edges) = (build.x, build.edges);
    let list = |build: &mut Build, n: i64| build.numbers(&[1], &[n]);
    let (zero, one, two) = (list(&mut build, 0), list(&mut build, 1), list(&mut build, 2));
    let first = build.op(Op::Slice, &[edges, zero, one, zero, one]);
    let second = build.op(Op::Slice, &[edges, one, two, zero, one]);
    build.sources = build.op(Op::Squeeze, &[first, zero]);
    build.destinations = build.op(Op::Squeeze, &[second, zero]);
    let lists = build.numbers(&[1], &[-1]);
    let index = build.op(Op::Unsqueeze, &[build.sources, lists]);
    let doubled = build.op(Op::Unary(Unary::Exp), &[x]);
    let shape = build.op(Op::Shape { start: 0, end: None }, &[doubled]);
    let nodes = build.op(Op::Slice, &[shape, zero, one]);
    build.nodes = build.op(Op::Squeeze, &[nodes, zero]);
    let messages = build.op(Op::GatherNd, &[x, index]);
    let sums = build.scattered(Reduction::Sum, messages);
    let messages = build.sent(sums);
    let flat = build.op(Op::Reshape { allow_zero: false }, &[build.destinations, lists]);
    build.destinations = flat;
    let out = build.scattered(Reduction::Sum, messages);
    build.dfg.create_out("out", out).expect("new");
    let fused = plan(&build.dfg, &options(true, true));
    let found = ops(&fused.explain());
    assert_eq!(found.iter().filter(|op| *op == "EdgeLists").count(), 1, "{found:?}");
    assert_eq!(found.iter().filter(|op| *op == "AggregateSum").count(), 2, "{found:?}");
    assert!(!found.contains(&"Exp".to_owned()), "shapes need no elements: {found:?}");
    let batch = Batch::new(&mut Random::new(2), 5, 2, 3);
    let wanted = run(&plan(&build.dfg, &options(false, false)), &batch, false);
    assert_eq!(run(&fused, &batch, false), wanted);
}
