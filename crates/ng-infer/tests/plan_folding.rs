//! What a plan does not run: nodes that nobody needs, that are there twice, or of constants alone.

use crate::plan_support;
use crate::plan_support::{Build, ops, options, plan, tensor, view_of};
use ng_infer::dfg::{Binary, Dfg, Op, Unary};
use ng_infer::kernel::{Context, Data, View};
use ng_infer::plan::Options;
use ng_infer::run::RunError;

#[test]
fn nodes_that_nobody_needs_are_not_run() {
    let text = "1: \"Exp\"\n in={\"x\"}\n out={\"1_0\"}\n2: \"Log\"\n in={\"1_0\"}\n \
                out={\"2_0\"}\n3: \"Neg\"\n in={\"x\"}\n out={\"3_0\"}\n";
    let mut dfg = Dfg::from_text(text).expect("fits");
    let outputs = dfg.outputs().to_vec();
    assert_eq!(outputs.len(), 2);
    let used = plan(&dfg, &Options::default());
    assert_eq!(ops(&used.explain()), ["Exp", "Log", "Neg"]);
    let one = format!("{text}\nout={{\"only\"=\"3_0\"}}");
    dfg = Dfg::from_text(&one).expect("fits");
    assert_eq!(ops(&plan(&dfg, &Options::default()).explain()), ["Neg"]);
}

#[test]
fn nodes_of_constants_are_constants_unless_they_fail() {
    let mut build = Build::new(1, false);
    let (a, b) =
        (build.constant(tensor(&[2], vec![1.0, 4.0])), build.constant(tensor(&[], vec![3.0])));
    let sum = build.op(Op::Binary(Binary::Add), &[a, b]);
    let root = build.op(Op::Unary(Unary::Sqrt), &[sum]);
    build.dfg.create_out("root", root).expect("new");
    let folded = plan(&build.dfg, &Options::default());
    assert_eq!(ops(&folded.explain()), Vec::<String>::new());
    let (x, edges) = (tensor(&[0, 6], vec![]), plan_support::whole(&[2, 0], vec![]));
    let inputs = [("x", view_of(&x)), ("edge_index", view_of(&edges))];
    let answer = folded.run(&inputs, &[], &Context::default()).expect("runs");
    assert_eq!(answer.output(0).f32(), [2.0, 7.0_f32.sqrt()]);

    let (ten, zero) = (build.numbers(&[1], &[10]), build.numbers(&[1], &[0]));
    let nothing = build.op(Op::Binary(Binary::Div), &[ten, zero]);
    build.dfg.create_out("nothing", nothing).expect("new");
    let folded = plan(&build.dfg, &Options::default());
    let error = folded.run(&inputs, &[], &Context::default()).err().expect("is refused");
    assert!(error.to_string().contains("Div: division by 0"), "{error}");
}

#[test]
fn a_large_result_of_little_is_left_to_the_run() {
    let mut build = Build::new(1, false);
    let (one, shape) =
        (build.constant(tensor(&[1], vec![1.0])), build.numbers(&[2], &[1 << 10, 1 << 10]));
    let all = build.op(Op::Expand, &[one, shape]);
    build.dfg.create_out("all", all).expect("new");
    assert_eq!(ops(&plan(&build.dfg, &Options::default()).explain()), ["Expand"]);
}

#[test]
fn constants_that_double_again_and_again_do_not_fill_the_memory() {
    let mut build = Build::new(1, false);
    let mut all = build.constant(tensor(&[2], vec![1.0, 2.0]));
    for _ in 0..34 {
        let other = build.op(Op::Unary(Unary::Neg), &[all]);
        all = build.op(Op::Concat { axis: 0 }, &[all, other]);
    }
    build.dfg.create_out("all", all).expect("new");
    // 64 GB: more than is there is left to the run, which refuses it.
    let limit = 1 << 20;
    let plan = plan(&build.dfg, &Options { bytes_max: limit, ..Options::default() });
    assert!(ops(&plan.explain()).contains(&"Concat".to_owned()));
    let (x, edges) = (tensor(&[0, 6], vec![]), plan_support::whole(&[2, 0], vec![]));
    let inputs = [("x", view_of(&x)), ("edge_index", view_of(&edges))];
    let error = plan.run(&inputs, &[], &Context::default()).err().expect("is refused");
    assert!(matches!(error, RunError::TooLarge { .. }), "{error}");
}

#[test]
fn equal_nodes_are_one() {
    let mut build = Build::new(1, false);
    let x = build.x;
    let ends: Vec<_> = (0..2)
        .map(|_| {
            let (index, axis) = (build.numbers(&[1], &[2]), Op::Gather { axis: 1 });
            let column = build.op(axis, &[x, index]);
            build.op(Op::Unary(Unary::Exp), &[column])
        })
        .collect();
    let product = build.op(Op::Binary(Binary::Mul), &ends);
    build.dfg.create_out("product", product).expect("new");
    let once = plan(&build.dfg, &options(true, false));
    assert_eq!(ops(&once.explain()), ["Gather", "Exp", "Mul"]);
}

#[test]
fn what_moves_no_element_is_no_kernel() {
    let text = "1: \"Identity\"\n in={\"x\"}\n out={\"1_0\"}\n2: \"Neg\"\n in={\"1_0\"}\n \
                out={\"2_0\"}\n3: \"Squeeze\"\n in={\"2_0\"}\n out={\"3_0\"}";
    let plan = plan(&Dfg::from_text(text).expect("fits"), &Options::default());
    let told = plan.explain();
    assert_eq!(ops(&told), ["Neg", "Squeeze"]);
    assert_eq!(told.steps[1].device, None);
    let x = View { dims: &[1, 2, 1], data: Data::F32(&[1.0, 2.0]) };
    let answer = plan.run(&[("x", x)], &[], &Context::default()).expect("runs");
    assert_eq!((answer.output(0).dims, answer.output(0).f32()), (&[2][..], &[-1.0, -2.0][..]));
}
