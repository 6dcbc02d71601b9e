//! Trimmed runs give for the seeds what untrimmed ones give, whatever a model does.

use crate::plan_support;
use crate::plan_support::{Batch, Build, WIDTH, first, models, options, plan, run};
use ng_infer::dfg::{Binary, Op, Reduction};
use ng_infer::kernel::Context;
use ng_infer::plan::Plan;
use ng_infer::run::Devices;
use ng_testing::Random;

#[test]
fn seeds_have_the_same_bytes_as_without_trimming() {
    let mut nodes = 0;
    for (name, dfg) in models() {
        let plain = plan(&dfg, &options(false, false));
        let trimmed = [true, false].map(|fuse| plan(&dfg, &options(fuse, true)));
        // More hops than the models have layers, as many, and fewer.
        for (seed, hops) in (0..30).flat_map(|seed| [3, 2, 1, 0].map(|hops| (seed, hops))) {
            let batch = Batch::new(&mut Random::new(seed), 4, hops, 4);
            nodes += batch.hops.iter().skip(1).sum::<usize>();
            let all = run(&plain, &batch, false);
            let all = all.unwrap_or_else(|error| panic!("{name}: {error}"));
            let wanted = vec![first(&all[0], 4)];
            for trimmed in &trimmed {
                let found = run(trimmed, &batch, true);
                assert_eq!(found.as_ref(), Ok(&wanted), "{name}, seed {seed}, {hops} hops");
                // Without hops a plan that trims computes all rows.
                assert_eq!(run(trimmed, &batch, false).as_ref(), Ok(&all), "{name}");
            }
        }
    }
    assert!(nodes > 5000, "batches have nodes to trim: {nodes}");
}

#[test]
fn each_layer_computes_one_hop_less() {
    let batch = Batch::new(&mut Random::new(3), 4, 2, 6);
    let up_to = |hop: usize| batch.hops.iter().take(hop + 1).sum::<usize>() as u64;
    for (name, dfg) in models().into_iter().filter(|(name, _)| name.starts_with("SAGE")) {
        let trimmed = plan(&dfg, &options(true, true));
        let hops = [("nodes", batch.hops.as_slice())];
        let (_, costs) =
            trimmed.profile(&batch.inputs(), &hops, &Context::default()).expect("runs");
        let steps = trimmed.explain().steps;
        assert_eq!(costs.len(), steps.len());
        // A product of rows of 6 numbers with a matrix of [6, 4], to rows of 4; then the same with
        // a bias and with those rows.
        let linear: Vec<u64> = steps
            .iter()
            .zip(&costs)
            .filter(|(step, _)| step.op.starts_with("Linear"))
            .map(|(_, cost)| cost.bytes / 4)
            .collect();
        let rows = [up_to(1), up_to(1), up_to(0), up_to(0)];
        let bytes = |at: usize, rows: u64| match at {
            0 => rows * 10 + 24,
            1 => rows * 14 + 24 + 4,
            2 => rows * 7 + 12,
            _ => rows * 10 + 12 + 3,
        };
        let wanted: Vec<u64> = rows.iter().enumerate().map(|(at, n)| bytes(at, *n)).collect();
        assert_eq!(linear, wanted, "{name}: {:?}", batch.hops);
        let linear = steps.iter().filter(|step| step.op.starts_with("Linear"));
        let shapes: Vec<&String> = linear.flat_map(|step| &step.shapes).collect();
        assert_eq!(shapes[0], "f32[nodes up to hop 1, 4]");
        assert_eq!(shapes[3], "f32[nodes up to hop 0, 3]");
    }
}

/// A model of one layer whose rows go through `op` before.
fn with(op: impl Fn(&mut Build) -> ng_infer::dfg::Value) -> Plan {
    let mut build = Build::new(2, false);
    let h = op(&mut build);
    let out = build.sage(Reduction::Mean, h, WIDTH, 2);
    build.dfg.create_out("out", out).expect("new");
    plan(&build.dfg, &options(true, true))
}

#[test]
fn what_does_not_treat_rows_one_by_one_is_computed_whole_and_named() {
    let centred = |build: &mut Build| {
        let zero = build.numbers(&[1], &[0]);
        let mean = Op::Reduce { how: Reduction::Mean, keep_dims: true };
        let mean = build.op(mean, &[build.x, zero]);
        build.op(Op::Binary(Binary::Sub), &[build.x, mean])
    };
    // The mean is of all rows, and what is subtracted from goes on row by row.
    assert_eq!(with(centred).explain().whole, []);
    let summed = |build: &mut Build| {
        let softmax = Op::Softmax { axis: 0 };
        build.op(softmax, &[build.x])
    };
    let told = with(summed).explain().whole;
    assert_eq!(told, [("node 4".to_owned(), "Softmax".to_owned())]);
    for (seed, of) in [(1, centred as fn(&mut Build) -> _), (2, summed)] {
        let batch = Batch::new(&mut Random::new(seed), 3, 2, 3);
        let trimmed = with(of);
        let all = run(&trimmed, &batch, false).expect("runs");
        assert_eq!(run(&trimmed, &batch, true), Ok(vec![first(&all[0], 3)]));
    }
}

#[test]
fn an_output_of_edges_or_of_pairs_keeps_all_rows() {
    let mut build = Build::new(4, false);
    let h = build.sage(Reduction::Sum, build.x, WIDTH, 2);
    let out = build.sent(h);
    build.dfg.create_out("of edges", out).expect("new");
    build.dfg.create_out("of nodes", h).expect("new");
    let batch = Batch::new(&mut Random::new(4), 3, 2, 3);
    let wanted = run(&plan(&build.dfg, &options(false, false)), &batch, false).expect("runs");
    let found = run(&plan(&build.dfg, &options(true, true)), &batch, true).expect("runs");
    assert_eq!(found[0], wanted[0]);
    assert_eq!(found[1], first(&wanted[1], 3));
}

#[test]
fn edges_the_other_way_round_are_not_cut() {
    let mut build = Build::new(5, false);
    std::mem::swap(&mut build.sources, &mut build.destinations);
    let h = build.sage(Reduction::Sum, build.x, WIDTH, 4);
    let h = build.relu(h);
    let out = build.sage(Reduction::Sum, h, 4, 2);
    build.dfg.create_out("out", out).expect("new");
    for seed in 0..10 {
        let batch = Batch::new(&mut Random::new(seed), 3, 3, 4);
        let wanted = run(&plan(&build.dfg, &options(false, false)), &batch, false).expect("runs");
        let found = run(&plan(&build.dfg, &options(true, true)), &batch, true).expect("runs");
        assert_eq!(found, [first(&wanted[0], 3)]);
    }
}

#[test]
fn hops_that_do_not_fit_are_refused() {
    let (_, dfg) = models().swap_remove(0);
    let batch = Batch::new(&mut Random::new(1), 3, 2, 3);
    let nodes: usize = batch.hops.iter().sum();
    let refused = |plan: &Plan, hops: &[(&str, &[usize])], words: &str| {
        let error = plan.run(&batch.inputs(), hops, &Context::default()).err().expect("is refused");
        assert!(error.to_string().contains(words), "{error}");
    };
    let trimmed = plan(&dfg, &options(true, true));
    assert_eq!(trimmed.counted_nodes().collect::<Vec<_>>(), ["nodes"]);
    let one = [nodes - 1];
    let counts = nodes - 1;
    let words =
        format!("hops of \"nodes\": the counts [{counts}] do not add up to the {nodes} nodes");
    refused(&trimmed, &[("nodes", &one)], &words);
    refused(&trimmed, &[("nodes", &[usize::MAX, 1])], "do not add up to the");
    refused(
        &trimmed,
        &[("pages", &[nodes])],
        "hops of \"pages\": the graph has no node count of this name, only [\"nodes\"]",
    );
    refused(&trimmed, &[("nodes", &[nodes]), ("nodes", &[nodes])], "are given twice");
    let whole = plan(&dfg, &options(true, false));
    refused(&whole, &[("nodes", &[nodes])], "only []");
}

#[test]
fn a_batch_that_is_not_in_hop_order_is_an_error_and_not_another_result() {
    let (_, dfg) = models().swap_remove(0);
    let trimmed = Plan::new(&dfg, &Devices::with_cpu(), &options(true, true)).expect("fits");
    let mut random = Random::new(8);
    let batch = Batch {
        x: plan_support::tensor(&[6, WIDTH], plan_support::random_f32s(&mut random, 6 * WIDTH)),
        // Node 5 is said to be two hops away from seed 0, and has an edge to it.
        edges: plan_support::whole(&[2, 2], vec![5, 2, 0, 1]),
        hops: vec![2, 2, 2],
    };
    let error = run(&trimmed, &batch, true).expect_err("is refused").to_string();
    assert!(error.contains("index 5 at place 0 is out of range: expected less than 4"), "{error}");
}
