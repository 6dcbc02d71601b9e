//! What is asked for together is answered, byte for byte, as if it were asked for alone, and read
//! once where several questions need it.
#![allow(clippy::expect_used)]

mod common;
#[path = "../../ng-infer/tests/plan_support/mod.rs"]
mod models;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use models::{Build, WIDTH};
use ng_engine::{
    Answer, Engine, EngineError, EngineOptions, EngineStats, ModelFile, On, Prepare, Version,
};
use ng_infer::dfg::{Binary, Dfg, Dim, Elements, Op, Reduction, TensorType};
use ng_infer::run::Devices;
use ng_sample::Fanouts;
use ng_store::{
    BuildOptions, EdgeTypeSpec, Entry, OpenOptions, Owner, Store, StoreBuilder, TensorSpec,
};
use ng_testing::Random;
use ng_types::{Dtype, NodeTypeId};

const NODES: u64 = 90;

/// A store of small types: lists with cycles, edges to oneself, and edges that come twice.
fn build(dir: &Path, node_types: &[&str], edge_types: &[(usize, &str, usize)], seed: u64) {
    let mut random = Random::new(seed);
    let mut builder = StoreBuilder::create(dir, BuildOptions::default()).expect("builder");
    let types: Vec<NodeTypeId> =
        node_types.iter().map(|name| builder.node_type(name, NODES).expect("type")).collect();
    for (source, relation, destination) in edge_types {
        let spec = EdgeTypeSpec {
            source: types[*source],
            relation: (*relation).into(),
            destination: types[*destination],
            undirected: false,
            unique: false,
            has_edge_ids: false,
            has_time: false,
            has_weight: false,
        };
        let edge_type = builder.edge_type(spec).expect("edge type");
        let mut writer = builder.topology(edge_type).expect("writer");
        for node in 0..NODES {
            let mut list: Vec<u64> = (0..random.below(9)).map(|_| random.below(NODES)).collect();
            if node % 3 == 0 {
                list.extend([node, node, (node + 1) % NODES]);
            }
            list.sort_unstable();
            for source in list {
                let entry = Entry { source, edge_id: 0, time: 0, weight: 0.0 };
                writer.push(node, entry).expect("push");
            }
        }
        builder.add(writer.finish().expect("finish")).expect("add");
    }
    for node_type in types {
        for (name, dtype, width) in [("x", Dtype::F32, WIDTH), ("graph_id", Dtype::I64, 0)] {
            let shape = if width == 0 { Vec::new() } else { vec![width as u64] };
            let spec = TensorSpec { name: name.into(), dtype, shape, mask_width: None };
            let mut writer = builder.tensor(Owner::Node(node_type), spec).expect("tensor");
            for node in 0..NODES {
                let row: Vec<u8> = match dtype {
                    Dtype::I64 => (node as i64 / 10).to_le_bytes().into(),
                    _ => models::random_f32s(&mut random, width)
                        .iter()
                        .flat_map(|x| x.to_le_bytes())
                        .collect(),
                };
                writer.push_rows(&row).expect("row");
            }
            builder.add(writer.finish().expect("finish")).expect("add");
        }
    }
    builder.commit().expect("commit");
}

fn open(dir: &Path) -> Store {
    Store::open(dir, &OpenOptions { memory: Some(64 << 20), ..OpenOptions::default() })
        .expect("store")
}

fn engine(
    store: &Store,
    graph: &Dfg,
    fanouts: Vec<Vec<i64>>,
    (prepare, threads): (Prepare, usize),
) -> Engine {
    let options = EngineOptions {
        fanouts: Fanouts::new(fanouts).expect("fanouts"),
        output: None,
        devices: Devices::with_cpu().into(),
        prepare,
        threads,
        batch_nodes: 1024,
        go_on: || true,
    };
    let model = ModelFile::of_graph(graph.clone());
    let engine = Engine::open(store.snapshot(), model, options).expect("engine");
    let start = Instant::now();
    while engine.prepared().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", engine.explain());
        std::thread::sleep(Duration::from_millis(1));
    }
    engine
}

const WAYS: [(Prepare, usize); 4] =
    [(Prepare::Metadata, 1), (Prepare::Metadata, 2), (Prepare::All, 1), (Prepare::All, 2)];

fn bits(answer: &Answer) -> Vec<u32> {
    let Elements::F32(all) = &answer.elements else { panic!("f32 expected") };
    all.iter().map(|x| x.to_bits()).collect()
}

/// What the answers of one question each are together.
fn joined(alone: impl Iterator<Item = Answer>) -> Vec<u32> {
    alone.flat_map(|answer| bits(&answer)).collect()
}

fn did(engine: &Engine, ask: impl FnOnce() -> Answer) -> (Answer, EngineStats) {
    let before = engine.stats();
    let answer = ask();
    let after = engine.stats();
    let (lists, rows) = (after.lists - before.lists, after.rows - before.rows);
    let (seeds, distinct_seeds) =
        (after.seeds - before.seeds, after.distinct_seeds - before.distinct_seeds);
    let batches = after.batches - before.batches;
    (answer, EngineStats { batches, seeds, distinct_seeds, lists, rows, ..EngineStats::default() })
}

/// Groups of random nodes; asserts what they read.
fn compare_nodes(engine: &Engine, name: &str, random: &mut Random) {
    assert!(engine.groups(), "{name}");
    for round in 0..4 {
        let count = [1, 2, 25, 60][round];
        let ids: Vec<u64> = (0..count).map(|_| random.below(NODES)).collect();
        let seed = random.below(5);
        let mut lists = 0;
        let mut rows = 0;
        let alone = joined(ids.iter().map(|id| {
            let (answer, stats) = did(engine, || engine.run(&[*id], seed).expect("answer"));
            (lists, rows) = (lists + stats.lists, rows + stats.rows);
            answer
        }));
        let (together, stats) = did(engine, || engine.each(&ids, seed).expect("answer"));
        assert_eq!(together.dims[0], ids.len());
        assert_eq!(bits(&together), alone, "{name}: nodes {ids:?}, seed {seed}");
        assert_eq!((stats.batches, stats.seeds), (1, ids.len() as u64));
        assert!(stats.distinct_seeds <= NODES.min(stats.seeds));
        let most = engine.foresee(stats.distinct_seeds);
        assert!(stats.lists <= most.lists && stats.rows <= most.rows, "{name}: {most:?}");
        if ids.len() >= 25 {
            // Neighbourhoods of 90 nodes meet.
            assert!(stats.lists < lists, "{name}: {} of {lists} lists", stats.lists);
            assert!(stats.rows * 3 < rows * 2, "{name}: {} of {rows} rows", stats.rows);
        }
    }
}

fn on(version: &Version) -> On<'_> {
    On { version, go_on: &|| true }
}

#[test]
fn nodes_are_answered_as_if_alone() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &["node"], &[(0, "to", 0)], 1);
    let store = open(dir.path());
    let seed = 20_26;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (mut differ, mut asked) = (0, 0);
    for (name, graph) in models::models() {
        for (way, fanouts) in WAYS.into_iter().zip([[4, 3], [3, -1], [2, 5], [4, 3]]) {
            let engine = engine(&store, &graph, vec![fanouts.to_vec()], way);
            compare_nodes(&engine, &format!("{name} {way:?} {fanouts:?}"), &mut random);
            let ids: Vec<u64> = (0..30).collect();
            let [one, other] = [engine.run(&ids, 1), engine.each(&ids, 1)];
            differ += usize::from(one.expect("answer") != other.expect("answer"));
            asked += 1;
        }
    }
    // Otherwise nothing would have been tested.
    assert!(differ * 2 > asked, "{differ} of {asked} groups have other bytes if nodes are shared");
}

#[test]
fn rows_of_other_types_and_of_wide_layers_are_answered_as_if_alone() {
    let dir = tempfile::tempdir().expect("directory");
    for (dtype, seed) in [(Dtype::F32, 2), (Dtype::F16, 3), (Dtype::I8, 4)] {
        let dir = dir.path().join(dtype.name());
        std::fs::create_dir(&dir).expect("folder");
        common::build_as(&dir, NODES, seed, dtype);
        let (store, _) = common::open(&dir, 1 << 30);
        for way in WAYS {
            let engine = engine(&store, &common::model().graph, vec![vec![9, 4]], way);
            compare_nodes(&engine, &format!("{dtype} {way:?}"), &mut Random::new(seed));
        }
    }
}

#[test]
fn a_large_request_leaves_most_of_the_memory_to_others() {
    let dir = tempfile::tempdir().expect("directory");
    common::build(dir.path(), 3_000, 15);
    let ids: Vec<u64> = (0..700).map(|at| at * 4).collect();
    let answers = [4 << 30, 64 << 20].map(|memory| {
        let (store, _) = common::open(dir.path(), memory);
        let way = (Prepare::Metadata, 1);
        let engine = engine(&store, &common::model().graph, vec![vec![9, 4]], way);
        let (answer, stats) = did(&engine, || engine.each(&ids, 2).expect("answer"));
        assert_eq!(stats.batches > 5, memory == 64 << 20, "{stats:?}");
        let of_node = engine.per_node().expect("batches").memory_bytes;
        let (_, stats) = did(&engine, || engine.each(&ids, 3).expect("answer"));
        let of_batch = of_node * ids.len() as f64 / stats.batches as f64;
        assert!(of_batch < memory as f64 / 12.0, "{of_batch} of {memory}");
        bits(&answer)
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn no_group_takes_more_than_was_foreseen() {
    let dir = tempfile::tempdir().expect("directory");
    common::build(dir.path(), 3_000, 15);
    for prepare in [Prepare::Metadata, Prepare::All] {
        for count in [1, 60, 700] {
            // So much that all of them are one batch.
            let (store, _) = common::open(dir.path(), 4 << 30);
            let engine = engine(&store, &common::model().graph, vec![vec![9, 4]], (prepare, 1));
            let (before, most) = (store.stats(), engine.foresee(count));
            assert_eq!(engine.per_node(), None);
            let used = store.budget().used_bytes();
            let ids: Vec<u64> = (0..count).map(|at| at * 4).collect();
            let (_, stats) = did(&engine, || engine.each(&ids, 2).expect("answer"));
            let after = store.stats();
            let read_bytes = after.read_bytes - before.read_bytes;
            assert!(stats.lists <= most.lists && stats.lists > count, "{most:?} {stats:?}");
            assert!(stats.rows <= most.rows && stats.rows > count, "{most:?} {stats:?}");
            assert!(read_bytes <= most.read_bytes, "{read_bytes} of {most:?}");
            assert_eq!(prepare == Prepare::All, most.read_bytes == 0);
            // Caches are not of the batch.
            let caches = |of: &ng_store::StoreStats| of.block_cache_bytes + of.row_cache_bytes;
            let taken = store.budget().used_bytes() - used + caches(&before) - caches(&after);
            assert!(0 < taken && taken <= most.memory_bytes, "{taken} of {most:?}");
            let mean = engine.per_node().expect("one batch");
            let all = |of_node: f64| (of_node * count as f64).round() as u64;
            assert_eq!((all(mean.lists), all(mean.rows)), (stats.lists, stats.rows));
            assert_eq!(all(mean.read_bytes), read_bytes);
        }
    }
}

#[test]
fn what_nodes_take_is_known_while_there_is_always_a_batch() {
    let dir = tempfile::tempdir().expect("directory");
    common::build(dir.path(), 3_000, 15);
    let (store, _) = common::open(dir.path(), 400 << 20);
    let way = (Prepare::Metadata, 1);
    let engine = engine(&store, &common::model().graph, vec![vec![9, 4]], way);
    let (version, is_beside) = (engine.version(), std::cell::Cell::new(false));
    let before = (engine.stats(), store.stats());
    let go_on = || {
        // The other batch begins and ends in the midst of this one.
        if !is_beside.replace(true) {
            engine.each(&[1, 2_000], 2).expect("answer");
            assert!(engine.per_node().is_some());
        }
        true
    };
    engine.each_on(&[7], 2, On { version: &version, go_on: &go_on }).expect("answer");
    let after = (engine.stats(), store.stats());
    let mean = engine.per_node().expect("two batches");
    let all = |of_node: f64| (of_node * 3.0).round() as u64;
    assert_eq!(all(mean.lists), after.0.lists - before.0.lists);
    assert_eq!(all(mean.rows), after.0.rows - before.0.rows);
    assert_eq!(all(mean.reads), after.1.reads - before.1.reads);
    assert!(mean.reads > 0.0 && mean.device_seconds <= mean.seconds, "{mean:?}");
}

/// Two layers between two types: means along three edge types, added to what a node had.
fn typed_model() -> Dfg {
    let mut graph = Dfg::default();
    let typed = |dtype, shape: [Dim; 2]| Some(TensorType { dtype, shape: shape.into() });
    let mut rows = ["a", "b"].map(|name| {
        let of = typed(Dtype::F32, [Dim::symbol(&format!("nodes_{name}")), Dim::from(6)]);
        graph.create_in(&format!("x_dict.{name}"), of).expect("input")
    });
    let kinds = [(0, "to", 1), (1, "back", 0), (0, "self", 0)];
    let names = ["a", "b"];
    let edges = kinds.map(|(from, relation, to)| {
        let name = format!("{}__{relation}__{}", names[from], names[to]);
        let of = typed(Dtype::I64, [Dim::from(2), Dim::symbol(&format!("edges_{relation}"))]);
        graph.create_in(&format!("edge_index_dict.{name}"), of).expect("input")
    });
    let number = |all: &[i64], dims: &[usize], name: &str, graph: &mut Dfg| {
        graph.create_weight(name, models::whole(dims, all.to_vec())).expect("weight")
    };
    let zero = number(&[0], &[], "zero", &mut graph);
    let one = number(&[1], &[], "one", &mut graph);
    for _ in 0..2 {
        let mut next = rows;
        for ((from, _, to), edges) in kinds.iter().zip(edges) {
            let mut op = |op: Op, inputs: &[_]| graph.create_op(op, inputs).expect("fits")[0];
            let sources = op(Op::Gather { axis: 0 }, &[edges, zero]);
            let destinations = op(Op::Gather { axis: 0 }, &[edges, one]);
            let count = op(Op::Shape { start: 0, end: Some(1) }, &[rows[*to]]);
            let sent = op(Op::Gather { axis: 0 }, &[rows[*from], sources]);
            let mean = op(Op::Scatter(Reduction::Mean), &[sent, destinations, count]);
            next[*to] = op(Op::Binary(Binary::Add), &[next[*to], mean]);
        }
        rows = next;
    }
    graph.create_out("out.a", rows[0]).expect("output");
    graph.create_out("out.b", rows[1]).expect("output");
    graph
}

#[test]
fn nodes_and_pairs_of_several_types_are_answered_as_if_alone() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &["a", "b"], &[(0, "to", 1), (1, "back", 0), (0, "self", 0)], 5);
    let store = open(dir.path());
    let mut random = Random::new(6);
    for way in WAYS {
        let fanouts = vec![vec![3, 2], vec![4, 3], vec![2, 2]];
        let options = |output: &str| EngineOptions {
            fanouts: Fanouts::new(fanouts.clone()).expect("fanouts"),
            output: Some(output.into()),
            devices: Devices::with_cpu().into(),
            prepare: way.0,
            threads: way.1,
            batch_nodes: 1024,
            go_on: || true,
        };
        for output in ["out.a", "out.b"] {
            let model = ModelFile::of_graph(typed_model());
            let engine = Engine::open(store.snapshot(), model, options(output)).expect("engine");
            compare_nodes(&engine, &format!("{output} {way:?}"), &mut random);
        }
        let engine = engine(&store, &typed_model(), fanouts.clone(), way);
        compare_pairs(&engine, &format!("typed {way:?}"), &mut random);
    }
}

fn compare_pairs(engine: &Engine, name: &str, random: &mut Random) {
    for count in [1, 3, 30] {
        let mut from: Vec<u64> = (0..count).map(|_| random.below(NODES)).collect();
        let mut to: Vec<u64> = (0..count).map(|_| random.below(NODES)).collect();
        // A pair of a node with itself, one that comes twice, and one the other way round.
        from.extend([5, from[0], to[0]]);
        to.extend([5, to[0], from[0]]);
        let alone = joined(
            from.iter().zip(&to).map(|(a, b)| engine.scores((&[*a], &[*b]), 3).expect("score")),
        );
        let (together, stats) = did(engine, || {
            engine.each_pair((&from, &to), 3, on(&engine.version())).expect("scores")
        });
        assert_eq!(bits(&together), alone, "{name}: {from:?} {to:?}");
        assert_eq!((stats.batches, stats.seeds), (1, 2 * from.len() as u64));
        assert!(stats.distinct_seeds < stats.seeds);
    }
}

#[test]
fn pairs_are_scored_as_if_alone_with_a_decoder_and_without() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &["node"], &[(0, "to", 0)], 7);
    let store = open(dir.path());
    let mut random = Random::new(8);
    for (decodes, way) in [false, true].into_iter().flat_map(|it| WAYS.map(|way| (it, way))) {
        let mut build = Build::new(9, false);
        let x = build.x;
        let h = build.sage(Reduction::Mean, x, WIDTH, 4);
        let mut out = build.sage(Reduction::Sum, h, 4, 4);
        if decodes {
            let shape = [Dim::from(2), Dim::symbol("pairs")];
            let pairs = TensorType { dtype: Dtype::I64, shape: shape.into() };
            let pairs = build.dfg.create_in("edge_label_index", Some(pairs)).expect("input");
            let ends = [0, 1].map(|end| {
                let end = build.numbers(&[], &[end]);
                let nodes = build.op(Op::Gather { axis: 0 }, &[pairs, end]);
                build.op(Op::Gather { axis: 0 }, &[out, nodes])
            });
            out = build.op(Op::Binary(Binary::Mul), &ends);
        }
        build.dfg.create_out("out", out).expect("output");
        let engine = engine(&store, &build.dfg, vec![vec![3, 2]], way);
        assert!(engine.groups(), "decodes {decodes}");
        compare_pairs(&engine, &format!("decodes {decodes} {way:?}"), &mut random);
    }
}

#[test]
fn models_that_mix_rows_are_run_one_by_one() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &["node"], &[(0, "to", 0)], 10);
    let store = open(dir.path());
    let mixing: [fn(&mut Build) -> ng_infer::dfg::Value; 3] = [
        |build| {
            let axes = build.numbers(&[1], &[0]);
            let how = Op::Reduce { how: Reduction::Mean, keep_dims: true };
            let mean = build.op(how, &[build.x, axes]);
            build.op(Op::Binary(Binary::Sub), &[build.x, mean])
        },
        |build| {
            let count = build.op(Op::Cast(Dtype::F32), &[build.nodes]);
            build.op(Op::Binary(Binary::Div), &[build.x, count])
        },
        |build| {
            let count = build.op(Op::Cast(Dtype::F32), &[build.nodes]);
            let one = build.numbers(&[1], &[1]);
            let shape = build.op(Op::Concat { axis: 0 }, &[build.nodes, one]);
            let column = build.op(Op::Expand, &[count, shape]);
            build.op(Op::Binary(Binary::Mul), &[build.x, column])
        },
    ];
    for (at, make) in mixing.into_iter().enumerate() {
        let mut build = Build::new(11, false);
        let own = make(&mut build);
        let out = build.sage(Reduction::Sum, own, WIDTH, 4);
        build.dfg.create_out("out", out).expect("output");
        let engine = engine(&store, &build.dfg, vec![vec![3]], (Prepare::Metadata, 1));
        assert!(!engine.groups(), "model {at}");
        let ids = [4, 9, 4, 50];
        let alone = joined(ids.iter().map(|id| engine.run(&[*id], 1).expect("answer")));
        let (each, stats) = did(&engine, || engine.each(&ids, 1).expect("answer"));
        assert_eq!((bits(&each), stats.batches), (alone.clone(), 3), "model {at}");
        assert_ne!(bits(&engine.run(&ids, 1).expect("answer")), alone, "model {at}");
    }
}

#[test]
fn graphs_are_answered_as_if_alone_even_if_edges_join_them() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &["node"], &[(0, "to", 0)], 12);
    let store = open(dir.path());
    let mut build = Build::new(13, true);
    let h = build.gcn(build.x, WIDTH, 4);
    let of = TensorType { dtype: Dtype::I64, shape: vec![Dim::symbol("nodes")] };
    let of = build.dfg.create_in("batch", Some(of)).expect("input");
    let count = TensorType { dtype: Dtype::I64, shape: Vec::new() };
    let count = build.dfg.create_in("size", Some(count)).expect("input");
    let shape = build.numbers(&[1], &[1]);
    let count = build.op(Op::Reshape { allow_zero: false }, &[count, shape]);
    let sums = build.op(Op::Scatter(Reduction::Mean), &[h, of, count]);
    let out = build.linear(sums, 4, 3);
    build.dfg.create_out("out", out).expect("output");
    for way in WAYS {
        let engine = engine(&store, &build.dfg, vec![vec![3]], way);
        assert!(engine.groups_graphs() && !engine.groups());
        let ids = [3, 0, 8, 3, 1];
        let alone = joined(ids.iter().map(|id| engine.graphs(&[*id]).expect("answer")));
        let (each, stats) =
            did(&engine, || engine.each_graph(&ids, on(&engine.version())).expect("answer"));
        assert_eq!((bits(&each), stats.batches), (alone, 1), "{way:?}");
    }
}

#[test]
fn a_request_is_stopped_before_any_of_its_stages_and_long_ones_have_several_batches() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &["node"], &[(0, "to", 0)], 14);
    let store = open(dir.path());
    let (_, graph) = models::models().swap_remove(1);
    let options = EngineOptions {
        fanouts: Fanouts::uniform(&[4, 3], 1).expect("fanouts"),
        output: None,
        devices: Devices::default().into(),
        prepare: Prepare::Metadata,
        threads: 1,
        batch_nodes: 7,
        go_on: || true,
    };
    let engine = Engine::open(store.snapshot(), ModelFile::of_graph(graph), options);
    let engine = engine.expect("engine");
    let ids: Vec<u64> = (0..20).chain(3..6).collect();
    for stage in 0..9 {
        let asked = AtomicUsize::new(0);
        let go_on = || asked.fetch_add(1, Ordering::Relaxed) != stage;
        let stopped = engine.each_on(&ids, 1, On { version: &engine.version(), go_on: &go_on });
        assert!(matches!(stopped, Err(EngineError::Stopped)), "stage {stage}");
        assert_eq!(asked.load(Ordering::Relaxed), stage + 1);
    }
    let alone = joined(ids.iter().map(|id| engine.run(&[*id], 1).expect("answer")));
    let (each, stats) = did(&engine, || engine.each(&ids, 1).expect("answer"));
    assert_eq!((bits(&each), stats.batches), (alone, 3));
    assert_eq!((stats.seeds, stats.distinct_seeds), (23, 20));
    let nothing = engine.each(&[], 1).expect("answer");
    assert_eq!((nothing.dims[0], &nothing.dims[1..]), (0, &each.dims[1..]));
    assert!(matches!(engine.each(&[3, NODES], 1), Err(EngineError::Unknown { .. })));
}
