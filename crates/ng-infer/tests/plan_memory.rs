//! Memory of plans: what is kept, what is lent, and what runs do not share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::plan_support;
use crate::plan_support::{Batch, Build, WIDTH, models, ops, options, plan, run, view_of, whole};
use ng_infer::dfg::{Binary, Dfg, Op, Unary};
use ng_infer::kernel::{Context, Data, Kernel, KernelError, Scalar, TableRows, View, ViewMut};
use ng_infer::plan::{Options, Plan};
use ng_infer::run::{Devices, RunError};
use ng_simd::Rows;
use ng_testing::Random;

#[test]
fn a_run_of_a_size_that_was_there_before_allocates_no_tensors() {
    let (large, small) =
        (Batch::new(&mut Random::new(1), 20, 2, 6), Batch::new(&mut Random::new(2), 2, 2, 3));
    for devices in [Devices::default(), Devices::with_cpu()] {
        for (name, dfg) in models() {
            let plan = Plan::new(&dfg, &devices, &Options::default()).expect("fits");
            let growths = |batch: &Batch| {
                let hops = [("nodes", batch.hops.as_slice())];
                let answer = plan.run(&batch.inputs(), &hops, &Context::default()).expect("runs");
                answer.growths()
            };
            let first = growths(&large);
            assert!(first > 0, "{name}");
            assert_eq!(growths(&large), first, "{name}");
            assert_eq!(growths(&small), first, "{name}");
            assert_eq!(growths(&large), first, "{name}");
        }
    }
}

#[test]
fn fewer_slots_than_tensors_are_enough() {
    for (name, dfg) in models() {
        let told = plan(&dfg, &options(true, true)).explain();
        let made = told.steps.iter().filter(|step| step.device.is_some()).count();
        assert!(told.slots < made, "{name}: {} slots for {made} results", told.slots);
    }
}

#[test]
fn a_run_whose_values_are_too_large_is_refused_before_they_have_memory() {
    for (op, of) in [(Op::Expand, 1), (Op::Tile, 1 << 10)] {
        let mut build = Build::new(1, false);
        let rows = build.constant(plan_support::tensor(&[1, of], vec![1.0; of]));
        let shape = build.numbers(&[2], &[1 << 20, (1 << 16) / of as i64]);
        let all = build.op(op.clone(), &[rows, shape]);
        let sum = build.op(Op::Unary(Unary::Exp), &[build.x]);
        build.dfg.create_out("all", all).expect("new");
        build.dfg.create_out("sum", sum).expect("new");
        let plan = plan(&build.dfg, &Options { bytes_max: 1 << 30, ..Options::default() });
        let batch = Batch::new(&mut Random::new(1), 20, 2, 6);
        let error = run(&plan, &batch, false).expect_err("256 GB");
        assert!(matches!(error, RunError::TooLarge { .. }), "{error}");
        let says = format!("{}: ", op.name());
        assert!(error.to_string().contains(&says), "{error}");
        assert_eq!(plan.idle_bytes(), 0, "what failed leaves nothing behind");
    }
}

#[test]
fn what_other_runs_have_left_is_not_in_the_way_of_one_that_fits_alone() {
    let (_, dfg) = models().swap_remove(0);
    let batches = [20, 30, 40].map(|nodes| Batch::new(&mut Random::new(1), nodes, 2, 6));
    let wanted = batches.each_ref().map(|batch| {
        let plan = plan(&dfg, &Options::default());
        let rows = run(&plan, batch, true).expect("runs");
        (rows, plan.idle_bytes())
    });
    let limit = wanted.iter().map(|(_, bytes)| *bytes).max().expect("three");
    let tight = plan(&dfg, &Options { bytes_max: limit, ..Options::default() });
    for (batch, (rows, _)) in batches.iter().zip(&wanted) {
        assert_eq!(run(&tight, batch, true).as_ref(), Ok(rows));
    }
    let less = plan(&dfg, &Options { bytes_max: limit - 1, ..Options::default() });
    assert!(matches!(run(&less, &batches[2], true), Err(RunError::TooLarge { .. })));
}

#[test]
fn idle_memory_is_told_and_given_back() {
    let (_, dfg) = models().swap_remove(0);
    let plan = plan(&dfg, &Options::default());
    let batch = Batch::new(&mut Random::new(1), 20, 2, 6);
    let hops = [("nodes", batch.hops.as_slice())];
    assert_eq!(plan.idle_bytes(), 0);
    let answer = plan.run(&batch.inputs(), &hops, &Context::default()).expect("runs");
    assert_eq!(plan.idle_bytes(), 0, "an answer holds the memory of its run");
    drop(answer);
    assert!(plan.idle_bytes() >= 20 * 3 * 4);
    plan.release();
    assert_eq!(plan.idle_bytes(), 0);
}

#[test]
fn runs_at_one_time_have_memory_of_their_own() {
    let (_, dfg) = models().into_iter().find(|(name, _)| *name == "GAT").expect("is there");
    let plan = plan(&dfg, &Options::default());
    let batches: Vec<Batch> =
        (0..4).map(|seed| Batch::new(&mut Random::new(seed), 5, 2, 5)).collect();
    let wanted: Vec<_> = batches.iter().map(|batch| run(&plan, batch, true)).collect();
    std::thread::scope(|scope| {
        for (batch, wanted) in batches.iter().zip(&wanted) {
            let plan = &plan;
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(run(plan, batch, true), *wanted);
                }
            });
        }
    });
    // Two answers that are held have different memory, too.
    let hops = [("nodes", batches[0].hops.as_slice())];
    let one = plan.run(&batches[0].inputs(), &hops, &Context::default()).expect("runs");
    let two = plan.run(&batches[1].inputs(), &[], &Context::default()).expect("runs");
    assert_eq!(Ok(one.to_constants()), wanted[0]);
    drop(two);
}

#[test]
fn an_operation_overwrites_an_input_that_nobody_needs() {
    let mut build = Build::new(1, false);
    let (x, weight) = (build.x, build.weight(&[WIDTH, 4]));
    let product = build.op(Op::MatMul, &[x, weight]);
    let kept = build.op(Op::Unary(Unary::Exp), &[product]);
    let sum = build.op(Op::Binary(Binary::Sub), &[product, kept]);
    let gone = build.op(Op::Unary(Unary::Neg), &[sum]);
    let column = build.weight(&[1, 4]);
    let gone = build.op(Op::Binary(Binary::Div), &[column, gone]);
    let twice = build.op(Op::Binary(Binary::Mul), &[gone, gone]);
    build.dfg.create_out("kept", kept).expect("new");
    build.dfg.create_out("out", twice).expect("new");
    let batch = Batch::new(&mut Random::new(3), 7, 1, 4);
    for devices in [Devices::default(), Devices::with_cpu()] {
        let plan = Plan::new(&build.dfg, &devices, &options(false, false)).expect("fits");
        let told = plan.explain();
        let in_place: Vec<_> = told.steps.iter().map(|step| step.in_place).collect();
        // Exp may not, since the product is taken again; a number times itself has one input.
        assert_eq!(ops(&told), ["MatMul", "Exp", "Sub", "Neg", "Div", "Mul"]);
        assert_eq!(in_place, [false, false, true, true, true, false]);
        let found = run(&plan, &batch, false).expect("runs");
        let separate =
            Plan::new(&build.dfg, &without_overwriting(&devices), &options(false, false));
        assert_eq!(Ok(found), run(&separate.expect("fits"), &batch, false));
    }
}

/// A device that is asked for all and overwrites nothing.
struct Separate(Arc<dyn Kernel>);

impl Kernel for Separate {
    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        self.0.run(op, inputs, outputs, context)
    }
}

fn without_overwriting(devices: &Devices) -> Devices {
    let mut separate = devices.clone();
    separate.register_device("separate", 100);
    for op in [Op::Binary(Binary::Sub), Op::Binary(Binary::Div), Op::Unary(Unary::Neg)] {
        let kernel = Arc::clone(&devices.choose(&op).expect("is there").kernel);
        let kernel = Arc::new(Separate(kernel));
        separate.register_op_definition(&op.name(), "separate", kernel).expect("known");
    }
    separate
}

#[test]
fn an_input_of_another_shape_than_the_result_is_not_overwritten() {
    // The sum has the shape of neither: a column and a row that are results, too.
    let text = "1: \"Neg\"\n in={\"a\"}\n out={\"column\"}\n2: \"Neg\"\n in={\"b\"}\n \
                out={\"row\"}\n3: \"Add\"\n in={\"column\", \"row\"}\n out={\"sum\"}";
    let dfg = Dfg::from_text(text).expect("fits");
    let plan = plan(&dfg, &Options::default());
    assert!(plan.explain().steps[2].in_place);
    let (a, b) = (plan_support::tensor(&[2, 1], vec![1.0, 2.0]), [1.0, 2.0, 3.0]);
    let b = plan_support::tensor(&[3], b.to_vec());
    for _ in 0..2 {
        let inputs = [("a", view_of(&a)), ("b", view_of(&b))];
        let answer = plan.run(&inputs, &[], &Context::default()).expect("runs");
        assert_eq!(answer.output(0).dims, [2, 3]);
        assert_eq!(answer.output(0).f32(), [-2.0, -3.0, -4.0, -3.0, -4.0, -5.0]);
    }
}

#[test]
fn rows_of_a_larger_table_are_read_there_or_copied() {
    let batch = Batch::new(&mut Random::new(4), 5, 2, 5);
    let (nodes, all) = (batch.x.dims()[0], view_of(&batch.x).f32());
    // The table has the rows in reverse, with others between them.
    let mut table = vec![7.0; 2 * nodes * WIDTH];
    let rows: Vec<u32> = (0..nodes).map(|node| 2 * (nodes - 1 - node) as u32).collect();
    for (row, from) in rows.iter().zip(all.chunks(WIDTH)) {
        table[*row as usize * WIDTH..][..WIDTH].copy_from_slice(from);
    }
    let lying = TableRows { table: Rows::F32(&table), len: 2 * nodes, rows: &rows };
    let x = View { dims: batch.x.dims(), data: Data::Rows(lying) };
    let inputs = [("x", x), ("edge_index", view_of(&batch.edges))];
    let hops = [("nodes", batch.hops.as_slice())];
    for devices in [Devices::default(), Devices::with_cpu()] {
        for (name, dfg) in models() {
            for options in [options(true, true), options(false, true)] {
                let plan = Plan::new(&dfg, &devices, &options).expect("fits");
                let wanted = run(&plan, &batch, true);
                for _ in 0..2 {
                    let found = plan.run(&inputs, &hops, &Context::default());
                    assert_eq!(found.map(|answer| answer.to_constants()), wanted, "{name}");
                }
            }
        }
    }
    let outside = [vec![9999], rows[1..].to_vec()].concat();
    let lying = TableRows { rows: &outside, ..lying };
    let x = View { dims: batch.x.dims(), data: Data::Rows(lying) };
    let inputs = [("x", x), inputs[1]];
    let (_, dfg) = models().swap_remove(0);
    for devices in [Devices::default(), Devices::with_cpu()] {
        let plan = Plan::new(&dfg, &devices, &Options::default()).expect("fits");
        let error = plan.run(&inputs, &hops, &Context::default()).err().expect("is refused");
        assert!(error.to_string().contains("9999"), "{error}");
    }
}

#[test]
fn outputs_may_be_inputs_and_weights_and_parts_of_them() {
    let mut build = Build::new(1, false);
    let (zero, weight) = (build.numbers(&[], &[-1]), build.weight(&[2, 3]));
    let last = build.op(Op::Gather { axis: 0 }, &[weight, zero]);
    let (x, flat) = (build.x, build.numbers(&[1], &[-1]));
    let flat = build.op(Op::Reshape { allow_zero: false }, &[x, flat]);
    for (name, value) in [("x", x), ("weight", weight), ("last", last), ("flat", flat)] {
        build.dfg.create_out(name, value).expect("new");
    }
    let batch = Batch::new(&mut Random::new(4), 5, 0, 0);
    let plan = plan(&build.dfg, &options(true, false));
    assert_eq!(plan.outputs().collect::<Vec<_>>(), ["x", "weight", "last", "flat"]);
    let answer = plan.run(&batch.inputs(), &[], &Context::default()).expect("runs");
    assert_eq!((answer.len(), answer.is_empty()), (4, false));
    assert_eq!(answer.output(0).f32(), view_of(&batch.x).f32());
    assert_eq!(answer.output(2).f32(), &answer.output(1).f32()[3..]);
    assert_eq!(answer.output(3).f32(), view_of(&batch.x).f32());
    assert_eq!(answer.output(3).dims, [5 * WIDTH]);
}

#[test]
fn a_shape_without_its_elements_is_refused() {
    let (_, dfg) = models().swap_remove(0);
    let plan = plan(&dfg, &Options::default());
    let edges = whole(&[2, 0], vec![]);
    let rows = [0_u32; 2];
    let table = TableRows { table: Rows::F32(&[0.0; WIDTH]), len: 1, rows: &rows };
    for (dims, data, words) in [
        (&[2, WIDTH][..], Data::F32(&[0.0; 11]), "the shape [2, 6] does not match 11 elements"),
        (&[usize::MAX, WIDTH], Data::F32(&[]), "does not match 0 elements"),
        (&[3, WIDTH], Data::Rows(table), "the shape [3, 6] does not match 2 elements"),
        (&[], Data::Rows(table), "expected a tensor with rows, found a scalar"),
        (&[2], Data::F32(&[0.0; 2]), "expected 2 dimensions, found shape [2]"),
        (&[1, 5], Data::F32(&[0.0; 5]), "axis 1 has length 5, expected 6"),
        (&[1, WIDTH], Data::I64(&[0; WIDTH]), "expected f32, found i64"),
    ] {
        let inputs = [("x", View { dims, data }), ("edge_index", view_of(&edges))];
        let error = plan.run(&inputs, &[], &Context::default()).err().expect("is refused");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// Counts how often it prepares and runs.
#[derive(Default)]
struct Counting {
    prepared: AtomicUsize,
    ran: Arc<AtomicUsize>,
}

/// For one node.
struct Prepared(Arc<AtomicUsize>);

impl Kernel for Counting {
    fn prepare(
        &self,
        _: &Op,
        constants: &[Option<View<'_>>],
    ) -> Result<Option<Arc<dyn Kernel>>, KernelError> {
        if constants[1].is_none() {
            return Err(KernelError::Misfit("the weight is missing".to_owned()));
        }
        self.prepared.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Arc::new(Prepared(Arc::clone(&self.ran)))))
    }

    fn run(
        &self,
        op: &Op,
        _: &[View<'_>],
        _: &mut [ViewMut<'_>],
        _: &Context,
    ) -> Result<(), KernelError> {
        Err(KernelError::NotServed(op.name()))
    }
}

impl Kernel for Prepared {
    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Scalar.run(op, inputs, outputs, context)
    }
}

#[test]
fn kernels_are_prepared_once_and_a_plan_keeps_those_that_it_began_with() {
    let (_, dfg) = models().swap_remove(0);
    let counting = Arc::new(Counting::default());
    let mut devices = Devices::default();
    devices.register_device("counting", 1);
    devices.register_op_definition("Linear", "counting", counting.clone()).expect("known");
    let plan = Plan::new(&dfg, &devices, &Options::default()).expect("fits");
    let batch = Batch::new(&mut Random::new(1), 3, 2, 3);
    devices.register_device("counting", -1);
    for runs in 1..4 {
        run(&plan, &batch, true).expect("runs");
        assert_eq!(counting.prepared.load(Ordering::Relaxed), 4);
        assert_eq!(counting.ran.load(Ordering::Relaxed), 4 * runs);
    }
    devices.register_device("counting", 1);
    devices.register_op_definition("AggregateSum", "counting", counting).expect("known");
    let error = Plan::new(&dfg, &devices, &Options::default()).expect_err("is refused");
    assert!(error.to_string().contains("the weight is missing"), "{error}");
}
