//! What a request reads, in how many rounds, and that it depends on nothing but itself.
#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Counts, WIDTH, build, build_as, model, open};
use ng_engine::{Engine, EngineError, EngineOptions, ModelFile, Prepare};
use ng_infer::dfg::{Constant, Dfg, Elements, Op, Reduction};
use ng_infer::run::Devices;
use ng_sample::{Fanouts, MiniBatch, SampleSpec, Sampler};
use ng_store::{Expansion, Owner, Store};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODES: u64 = 40_000;
const FANOUTS: [i64; 2] = [25, 10];

fn engine(store: &Store, prepare: Prepare, threads: usize) -> Engine {
    engine_of(store, prepare, threads, &FANOUTS)
}

fn options(prepare: Prepare, threads: usize, fanouts: &[i64]) -> EngineOptions {
    EngineOptions {
        fanouts: Fanouts::uniform(fanouts, 1).expect("fanouts"),
        output: None,
        devices: Devices::default().into(),
        prepare,
        threads,
        batch_nodes: 1024,
        go_on: || true,
    }
}

fn engine_of(store: &Store, prepare: Prepare, threads: usize, fanouts: &[i64]) -> Engine {
    let options = options(prepare, threads, fanouts);
    let engine = Engine::open(store.snapshot(), model(), options).expect("engine");
    wait(&engine);
    engine
}

fn wait(engine: &Engine) {
    let start = Instant::now();
    while engine.prepared().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", engine.explain());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(engine.prepared(), Some(Ok(())));
}

/// The batch around `seeds`.
fn batch(store: &Store, seeds: &[u64], stream: u64) -> MiniBatch {
    let spec = SampleSpec::uniform(Fanouts::uniform(&FANOUTS, 1).expect("fanouts"), 0);
    let sampler = Sampler::new(store.snapshot(), spec, Vec::new()).expect("sampler");
    sampler.sample(&[(NodeTypeId(0), seeds)], stream).expect("batch")
}

/// Its lists and rows.
fn sizes(store: &Store, seeds: &[u64]) -> (u64, u64) {
    let batch = batch(store, seeds, 0);
    let per_hop = &batch.nodes[0].per_hop;
    ((per_hop[0] + per_hop[1]) as u64, batch.nodes[0].ids.len() as u64)
}

#[test]
fn a_cold_request_reads_its_lists_and_rows_alone_in_three_rounds() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), NODES, 1);
    for (seed, prepare) in [(17, Prepare::Metadata), (7, Prepare::Metadata), (9_999, Prepare::Hot)]
    {
        let (store, counts) = open(dir.path(), 24 << 20);
        let engine = engine(&store, prepare, 2);
        counts.take();
        engine.run(&[seed], 0).expect("answer");
        let by_thread = counts.take();
        let reads: u64 = by_thread.values().flatten().sum();
        let (other, _) = open(dir.path(), 256 << 20);
        let (lists, rows) = sizes(&other, &[seed]);
        assert!(rows > 60, "{rows} rows");
        assert!(reads <= lists + rows, "{reads} reads for {lists} lists and {rows} rows");
        // The seed's list and row; the lists and rows of its neighbours; the other rows. Nobody
        // else reads for it.
        let mine = by_thread.get(&std::thread::current().id()).cloned().unwrap_or_default();
        assert!(mine.len() <= 3 && by_thread.len() <= 1, "{by_thread:?}");
        if prepare == Prepare::Metadata {
            assert!(reads > rows / 2, "{reads} reads for {rows} rows: the disk is not counted");
            let first = FANOUTS[0] as u64;
            assert!(mine[0] == 2 && mine[1] > first, "rows are not read beside lists: {mine:?}");
        }
    }
}

#[test]
fn a_second_request_finds_what_the_first_one_read_and_all_in_memory_reads_nothing() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), NODES, 2);
    let total = |counts: &Arc<Counts>| counts.take().values().flatten().sum::<u64>();
    let (store, counts) = open(dir.path(), 256 << 20);
    let cold = engine(&store, Prepare::Metadata, 1);
    counts.take();
    let seeds: Vec<u64> = (0..64).map(|at| at * 601 % NODES).collect();
    let first = cold.run(&seeds, 3).expect("answer");
    let reads = total(&counts);
    let (lists, rows) = sizes(&store, &seeds);
    assert!(reads <= lists + rows, "{reads} reads for {lists} lists and {rows} rows");
    assert!(cold.run(&seeds, 3).expect("answer") == first);
    let again = total(&counts);
    // The cache of rows is cut into parts that fill unevenly.
    assert!(again * 20 < reads, "{again} of {reads} reads once more");
    drop(cold);
    let (store, counts) = open(dir.path(), 256 << 20);
    let whole = engine(&store, Prepare::All, 2);
    counts.take();
    assert!(whole.run(&seeds, 3).expect("answer") == first);
    assert_eq!(total(&counts), 0);
}

#[test]
fn hot_rows_fill_the_budget_and_requests_still_have_room() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), NODES, 3);
    let (store, counts) = open(dir.path(), 40 << 20);
    let seeds: Vec<u64> = (0..16).map(|at| at * 2_311 % NODES).collect();
    let cold = engine(&store, Prepare::Metadata, 1).run(&seeds, 1).expect("answer");
    let (store, counts_of_hot) = open(dir.path(), 40 << 20);
    let hot = engine(&store, Prepare::Hot, 2);
    assert!(hot.explain().contains("of rows in memory"), "{}", hot.explain());
    let used = store.budget().used_bytes();
    assert!(used > 20 << 20, "{used} bytes are used");
    counts_of_hot.take();
    assert!(hot.run(&seeds, 1).expect("answer") == cold);
    let reads: u64 = counts_of_hot.take().values().flatten().sum();
    let all: u64 = counts.take().values().flatten().sum();
    // A read has a block at least.
    assert!(reads * 4096 <= hot.foresee(16).read_bytes, "{:?}", hot.foresee(16));
    assert!(reads * 10 < all * 8, "{reads} reads, {all} without hot rows");
    assert!(store.budget().peak_bytes() <= 40 << 20);
}

#[test]
fn rows_that_are_equally_hot_fill_the_budget_as_well() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), NODES, 5);
    let (store, counts) = open(dir.path(), 40 << 20);
    let hot = engine_of(&store, Prepare::Hot, 1, &[]);
    let seeds: Vec<u64> = (0..2_000).map(|at| at * 3).collect();
    counts.take();
    hot.run(&seeds, 0).expect("answer");
    let stats = hot.stats();
    assert_eq!((stats.rows, stats.rows_prepared, stats.lists), (2_000, 2_000, 0));
    assert!(counts.take().is_empty());
    hot.run(&[NODES - 1], 0).expect("answer");
    assert_eq!((hot.stats().rows, hot.stats().rows_prepared), (2_001, 2_000));
}

#[test]
fn rows_of_narrow_types_are_read_where_they_lie_and_give_the_same_bytes() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::I8] {
        let dir = tempfile::tempdir().expect("directory");
        build_as(dir.path(), 3_000, 6, dtype);
        let (store, counts) = open(dir.path(), 64 << 20);
        let seeds: Vec<u64> = (0..40).map(|at| at * 71).collect();
        let cold = engine(&store, Prepare::Metadata, 1);
        let wanted = cold.run(&seeds, 2).expect("answer");
        assert_eq!(cold.stats().rows_in_place, 0);
        for prepare in [Prepare::Hot, Prepare::All] {
            let whole = engine(&store, prepare, 2);
            counts.take();
            assert!(whole.run(&seeds, 2).expect("answer") == wanted, "{dtype} {prepare:?}");
            assert!(counts.take().is_empty());
            let stats = whole.stats();
            assert!(stats.rows > 1_000 && stats.rows_in_place == stats.rows, "{dtype} {stats:?}");
        }
    }
}

#[test]
fn in_degrees_are_those_of_the_whole_graph_without_edges_to_oneself() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), 3_000, 8);
    let (store, counts) = open(dir.path(), 64 << 20);
    let mut graph = Dfg::default();
    let edges = graph.create_in("edge_index", None).expect("input");
    let degree = graph.create_in("in_degree", None).expect("input");
    let shape = Constant::new(vec![2], Elements::I64(vec![-1, 1])).expect("shape");
    let shape = graph.create_weight("shape", shape).expect("weight");
    let column =
        graph.create_op(Op::Reshape { allow_zero: false }, &[degree, shape]).expect("column")[0];
    let sum = graph.create_op(Op::Spmm(Reduction::Sum), &[edges, column]).expect("sum")[0];
    graph.create_out("sum", sum).expect("output");
    graph.create_out("own", column).expect("output");
    let model = ModelFile::of_graph(graph);
    let options = options(Prepare::Metadata, 1, &[-1]);
    let mut lists = Expansion::default();
    let all: Vec<u64> = (0..3_000).collect();
    store.snapshot().neighbors(EdgeTypeId(0), &all, &mut lists).expect("lists");
    let list = |node: u64| {
        &lists.sources[lists.offsets[node as usize]..]
            [..lists.offsets[node as usize + 1] - lists.offsets[node as usize]]
    };
    let degree = |node: u64| list(node).iter().filter(|source| **source != node).count() as f32;
    assert!((0..3_000).any(|node| degree(node) < list(node).len() as f32), "no edge to oneself");
    let seeds = [7, 3, 2_999];
    for (output, wanted) in [
        ("sum", seeds.map(|node| list(node).iter().map(|source| degree(*source)).sum())),
        ("own", seeds.map(degree)),
    ] {
        let options = EngineOptions { output: Some(output.into()), ..options.clone() };
        let engine = Engine::open(store.snapshot(), model.clone(), options).expect("engine");
        counts.take();
        let answer = engine.run(&seeds, 0).expect("answer");
        assert_eq!(answer.elements, Elements::F32(wanted.to_vec()), "{output}");
        // Lists alone are read.
        assert!(counts.take().values().flatten().sum::<u64>() <= 3);
        if output == "sum" {
            continue;
        }
        // Degrees outlive commits; those that changed are counted again, without a pass.
        let mut batch = store.write().expect("batch");
        let (node, edge_type) = (batch.add_node(NodeTypeId(0)).expect("node"), EdgeTypeId(0));
        let (sources, destinations) = ([9, 11, node, 4], [7, 7, node, node]);
        batch.add_edges(edge_type, &sources, &destinations, &[]).expect("edges");
        batch.commit().expect("commit");
        counts.take();
        assert!(engine.refresh(store.snapshot()).expect("refreshed"));
        assert!(counts.take().values().flatten().sum::<u64>() <= 8);
        let answer = engine.run(&[7, node, 3], 0).expect("answer");
        let wanted = vec![degree(7) + 2.0, 1.0, degree(3)];
        assert_eq!(answer.elements, Elements::F32(wanted));
    }
}

#[test]
fn rows_in_memory_outlive_commits_that_do_not_change_them() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), NODES, 9);
    let (store, counts) = open(dir.path(), 128 << 20);
    let seeds: Vec<u64> = (0..64).map(|at| at * 601 % NODES).collect();
    let engine = engine(&store, Prepare::All, 2);
    let tensor = store.snapshot().catalog().find_tensor(Owner::Node(NodeTypeId(0)), "x");
    let tensor = tensor.expect("rows");
    let mut known = engine.run(&seeds, 1).expect("answer");
    let used = batch(&store, &seeds, 1).nodes[0].ids.clone();
    for (round, checkpoints) in [(0, false), (1, true), (2, false), (3, true)] {
        let mut batch = store.write().expect("batch");
        // The last nodes are those whose rows are added up.
        for node in [used[used.len() - 1 - round], used[used.len() - 100 - round]] {
            let bytes: Vec<u8> =
                [100.0 + round as f32; WIDTH].iter().flat_map(|x| x.to_le_bytes()).collect();
            batch.set_row(tensor, node as u64, &bytes).expect("row");
        }
        batch.commit().expect("commit");
        if checkpoints {
            store.checkpoint().expect("checkpoint");
        }
        counts.take();
        assert!(engine.run(&seeds, 1).expect("answer") == known, "before it is refreshed");
        let overtaken = engine.snapshot();
        assert!(engine.refresh(store.snapshot()).expect("refreshed"));
        assert!(!engine.refresh(overtaken).expect("it changes nothing"));
        wait(&engine);
        let reads: u64 = counts.take().values().flatten().sum();
        let before = engine.stats();
        let found = engine.run(&seeds, 1).expect("answer");
        let after = engine.stats();
        let (rows, prepared) =
            (after.rows - before.rows, after.rows_prepared - before.rows_prepared);
        // The table of 40 MB would take 160 reads. All rows are in memory but those that changed.
        assert!(reads < 100, "{reads} reads");
        let changed = 2 * (round as u64 + 1);
        assert!(prepared < rows && prepared + changed >= rows, "{prepared} of {rows} rows");
        let cold = self::engine(&store, Prepare::Metadata, 1);
        assert!(found == cold.run(&seeds, 1).expect("answer"));
        assert!(found != known);
        known = found;
    }
    // More than one of 8 nodes is new: all rows are loaded anew, those of new nodes among them.
    let mut batch = store.write().expect("batch");
    let added = NODES / 4;
    for _ in 0..added {
        batch.add_node(NodeTypeId(0)).expect("node");
    }
    batch.commit().expect("commit");
    counts.take();
    assert!(engine.refresh(store.snapshot()).expect("refreshed"));
    wait(&engine);
    assert!(counts.take().values().flatten().sum::<u64>() > 100, "the table was kept");
    counts.take();
    engine.run(&[NODES + 5], 1).expect("answer");
    assert_eq!(counts.take().values().flatten().sum::<u64>(), 0);
}

#[test]
fn answers_do_not_depend_on_threads_or_memory_or_other_requests() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), 5_000, 4);
    let (store, _) = open(dir.path(), 64 << 20);
    let seeds = [3, 7, 4_999, 3];
    let wanted = engine(&store, Prepare::Metadata, 1).run(&seeds, 8).expect("answer");
    for (prepare, threads) in [(Prepare::Hot, 2), (Prepare::All, 3), (Prepare::Metadata, 2)] {
        let engine = engine(&store, prepare, threads);
        std::thread::scope(|scope| {
            for turn in 0..3 {
                let (engine, wanted) = (&engine, &wanted);
                scope.spawn(move || {
                    for step in 0..10 {
                        engine.run(&[turn * 100 + step], step).expect("answer");
                        assert!(engine.run(&seeds, 8).expect("answer") == *wanted);
                    }
                });
            }
        });
    }
}

#[test]
fn a_request_is_stopped_between_batches_and_an_empty_one_has_the_shape_of_others() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), 5_000, 6);
    let (store, _) = open(dir.path(), 64 << 20);
    let mut options = options(Prepare::Metadata, 1, &FANOUTS);
    options.batch_nodes = 10;
    options.go_on = || ASKED.fetch_add(1, Ordering::Relaxed) != 2;
    let engine = Engine::open(store.snapshot(), model(), options).expect("engine");
    let seeds: Vec<u64> = (0..100).collect();
    assert!(matches!(engine.run(&seeds, 1), Err(EngineError::Stopped)));
    assert_eq!((ASKED.load(Ordering::Relaxed), engine.stats().batches), (3, 2));
    let whole = engine.run(&seeds, 1).expect("answer");
    let nothing = engine.run(&[], 1).expect("answer");
    assert_eq!((nothing.dims[0], &nothing.dims[1..]), (0, &whole.dims[1..]));
    assert_eq!(whole.dims[0], 100);
}

/// Commits change few lists. All others stay in memory, and those are read.
#[test]
fn lists_in_memory_outlive_commits() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), NODES, 11);
    let (store, counts) = open(dir.path(), 256 << 20);
    let engine = engine(&store, Prepare::All, 1);
    let (edge_type, node_type) = (EdgeTypeId(0), NodeTypeId(0));
    let mut added = 0;
    for turn in 0..3_u64 {
        let mut batch = store.write().expect("batch");
        added = batch.add_node(node_type).expect("node");
        let sources = [added, 5 + turn, 9];
        let destinations = [40 + turn, added, 40 + turn];
        batch.add_edges(edge_type, &sources, &destinations, &[]).expect("edges");
        batch.commit().expect("commit");
        assert!(engine.refresh(store.snapshot()).expect("refreshed"));
        assert_eq!((engine.ready(), engine.prepared()), (1.0, Some(Ok(()))));
    }
    assert!(engine.explain().contains("except changed lists"), "{}", engine.explain());
    counts.take();
    let far: Vec<u64> = (100..140).collect();
    engine.each(&far, 3).expect("answer");
    let far_reads: u64 = counts.take().values().flatten().sum();
    assert!(far_reads < 8, "{far_reads} reads for nodes that no commit has touched");

    let fresh = engine_of(&store, Prepare::Metadata, 1, &FANOUTS);
    let near = [40, 41, 42, added - 2, added - 1, added, 5, 9, 100];
    assert_eq!(engine.each(&near, 3).expect("answer"), fresh.each(&near, 3).expect("answer"));
    let together = |engine: &Engine| engine.run(&near, 3).expect("answer");
    assert_eq!(together(&engine), together(&fresh));
    // A commit that changes too much brings all lists anew.
    let mut batch = store.write().expect("batch");
    let all: Vec<u64> = (0..NODES / 8).collect();
    batch.add_edges(edge_type, &all, &all, &[]).expect("edges");
    batch.commit().expect("commit");
    assert!(engine.refresh(store.snapshot()).expect("refreshed"));
    wait(&engine);
    assert!(!engine.explain().contains("except for"), "{}", engine.explain());
}

/// Loading takes longer than the time between two commits, and does not begin anew with each.
#[test]
fn what_is_being_loaded_outlives_commits_that_come_meanwhile() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), NODES, 12);
    let (store, counts) = open(dir.path(), 256 << 20);
    let options = options(Prepare::All, 1, &FANOUTS);
    let engine = Engine::open(store.snapshot(), model(), options).expect("engine");
    let tensor = store.snapshot().catalog().find_tensor(Owner::Node(NodeTypeId(0)), "x");
    let tensor = tensor.expect("rows");
    let mut commits = 0;
    while commits == 0 || (commits < 8 && engine.prepared().is_none()) {
        let mut batch = store.write().expect("batch");
        batch.set_row(tensor, commits, &[1; 4 * WIDTH]).expect("row");
        batch.add_edges(EdgeTypeId(0), &[5], &[commits + 9], &[]).expect("edge");
        batch.commit().expect("commit");
        assert!(engine.refresh(store.snapshot()).expect("refreshed"));
        commits += 1;
    }
    wait(&engine);
    let reads: u64 = counts.take().values().flatten().sum();
    // The rows take 160, the lists a few, and a commit some blocks.
    assert!(reads < 240 + 8 * commits, "{reads} reads, {commits} commits");
    let fresh = engine_of(&store, Prepare::Metadata, 1, &FANOUTS);
    let seeds: Vec<u64> = (0..40).chain([NODES - 1]).collect();
    assert_eq!(engine.each(&seeds, 3).expect("answer"), fresh.each(&seeds, 3).expect("answer"));
    counts.take();
    let far: Vec<u64> = (NODES / 2..NODES / 2 + 40).collect();
    engine.each(&far, 3).expect("answer");
    let far_reads: u64 = counts.take().values().flatten().sum();
    assert!(far_reads < 40, "{far_reads} reads of what is in memory");
}
