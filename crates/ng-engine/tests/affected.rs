//! Which answers a commit can change: every answer that differs is among those that are foreseen.
#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::changing::{Layer, Shape, change, open, set};
use ng_engine::{Affected, AffectedAnswers, Engine, EngineOptions, Prepare, WalkLimit, WhyAll};
use ng_infer::dfg::Elements;
use ng_infer::run::Devices;
use ng_store::{EdgeData, Owner, Snapshot, Store};
use ng_testing::Random;
use ng_types::{EdgeTypeId, NodeTypeId};

const NODES: u64 = 90;
const ROUNDS: u64 = 8;
const SEED: u64 = 5;

fn engine(store: &Store, shape: Shape, layer: Layer, layers: usize, fanout: i64) -> Engine {
    let options = EngineOptions {
        fanouts: shape.fanouts(fanout, layers),
        output: None,
        devices: Devices::default().into(),
        prepare: Prepare::Metadata,
        threads: 1,
        batch_nodes: 1024,
        go_on: || true,
    };
    let engine = Engine::open(store.snapshot(), shape.model(layer, layers), options);
    engine.expect("engine")
}

/// The bits of the answers for all nodes, each asked for alone.
fn answers(engine: &Engine) -> Vec<Vec<u32>> {
    let snapshot = engine.snapshot();
    let nodes = snapshot.catalog().node_types[usize::from(engine.node_type().0)].num_nodes;
    let bits = |node| match engine.run(&[node], SEED).expect("answer").elements {
        Elements::F32(row) => row.into_iter().map(f32::to_bits).collect(),
        other => panic!("{other:?}"),
    };
    (0..nodes).map(bits).collect()
}

fn affected(engine: &Engine, newer: &Snapshot, older: &Snapshot) -> Affected {
    engine.affected(newer, older, WalkLimit::default()).expect("affected")
}

/// The affected nodes of the type that is answered for.
fn nodes(engine: &Engine, affected: &Affected) -> Vec<u64> {
    match &affected.answers {
        AffectedAnswers::Of(nodes) => nodes[usize::from(engine.node_type().0)].clone(),
        AffectedAnswers::All(why) => panic!("{why}"),
    }
}

#[derive(Debug, Default)]
struct Counts {
    compared: usize,
    differ: usize,
    affected: usize,
    lists: u64,
}

/// Compares what differs with what is foreseen.
fn check(engine: &Engine, now: &[Vec<u32>], before: (&Snapshot, &[Vec<u32>]), counts: &mut Counts) {
    let affected = affected(engine, &engine.snapshot(), before.0);
    let foreseen = nodes(engine, &affected);
    assert!(foreseen.is_sorted_by(|a, b| a < b));
    for (node, (now, old)) in (0..).zip(now.iter().zip(before.1)) {
        let is_foreseen = foreseen.binary_search(&node).is_ok();
        assert!(now == old || is_foreseen, "the answer for {node} differs, and is not foreseen");
        assert_eq!(affected.answers.contains(engine.node_type(), node), is_foreseen);
        counts.differ += usize::from(now != old);
        counts.affected += usize::from(is_foreseen);
    }
    counts.compared += before.1.len();
    counts.lists += affected.walked.lists;
}

/// Some commits, each compared with the one before and with the first.
fn run(shape: Shape, layer: Layer, layers: usize, fanout: i64, seed: u64) -> Counts {
    println!("seed {seed}: {shape:?} {layer:?} {layers} {fanout}");
    let (mut random, mut counts) = (Random::new(seed), Counts::default());
    let store = open(&shape.build(NODES, &mut random));
    let engine = engine(&store, shape, layer, layers, fanout);
    let first = (store.snapshot(), answers(&engine));
    let mut last = (store.snapshot(), first.1.clone());
    for round in 0..ROUNDS {
        let mut batch = store.write().expect("batch");
        for _ in 0..=random.below(2) {
            change(&store, &mut batch, shape, &mut random);
        }
        batch.commit().expect("commit");
        if round == ROUNDS / 2 {
            store.checkpoint().expect("checkpoint");
        }
        engine.refresh(store.snapshot()).expect("refreshed");
        let now = answers(&engine);
        check(&engine, &now, (&last.0, &last.1), &mut counts);
        if round == 2 {
            check(&engine, &now, (&first.0, &first.1), &mut counts);
        }
        last = (store.snapshot(), now);
    }
    counts
}

#[test]
fn every_answer_that_differs_is_foreseen_and_few_others_are() {
    let (mut seed, mut all) = (100, Counts::default());
    for shape in [Shape::Directed, Shape::Undirected, Shape::TwoTypes] {
        for layer in [Layer::Sage, Layer::Degrees] {
            if (shape, layer) == (Shape::TwoTypes, Layer::Degrees) {
                continue;
            }
            for (layers, fanout) in [1, 2, 3].into_iter().flat_map(|n| [(n, -1), (n, 2)]) {
                let mut sum = Counts::default();
                for _ in 0..2 {
                    seed += 1;
                    let Counts { compared, differ, affected, lists } =
                        run(shape, layer, layers, fanout, seed);
                    sum.compared += compared;
                    sum.differ += differ;
                    sum.affected += affected;
                    sum.lists += lists;
                }
                println!(
                    "{shape:?} {layer:?}, {layers} layers, fanout {fanout}: {sum:?}, {:.2} \
                     foreseen for each that differs",
                    sum.affected as f64 / sum.differ as f64
                );
                if fanout == -1 {
                    all.compared += sum.compared;
                    all.differ += sum.differ;
                    all.affected += sum.affected;
                }
            }
        }
    }
    println!("whole lists: {all:?}");
    assert!(all.differ > 1_000, "{all:?}");
    // Whole lists are drawn, so nearly everything that may differ does.
    assert!(all.affected < all.differ + all.differ / 5, "{all:?}");
}

#[test]
fn rows_that_a_model_does_not_take_affect_nobody_and_a_row_those_around_it() {
    let mut random = Random::new(7);
    println!("seed 7");
    let store = open(&Shape::Undirected.build(NODES, &mut random));
    let engine = engine(&store, Shape::Undirected, Layer::Sage, 2, -1);
    let before = store.snapshot();
    let mut batch = store.write().expect("batch");
    (0..NODES).for_each(|node| set(&mut batch, NodeTypeId(0), "unused", node, &mut random));
    batch.commit().expect("commit");
    let (middle, known) = (store.snapshot(), answers(&engine));
    let found = affected(&engine, &middle, &before);
    assert!(nodes(&engine, &found).is_empty());
    assert_eq!((found.walked.changes, found.walked.lists), (NODES, 0));
    engine.refresh(store.snapshot()).expect("refreshed");
    assert_eq!(answers(&engine), known);
    // A new node that no list has: nobody was ever told of it.
    let mut batch = store.write().expect("batch");
    let new = batch.add_node(NodeTypeId(0)).expect("node");
    set(&mut batch, NodeTypeId(0), "x", new, &mut random);
    batch.commit().expect("commit");
    assert!(nodes(&engine, &affected(&engine, &store.snapshot(), &middle)).is_empty());
    let (before, mut around) = (store.snapshot(), vec![3]);
    for _ in 0..2 {
        let mut lists = ng_store::Expansion::default();
        before.neighbors(EdgeTypeId(0), &around, &mut lists).expect("lists");
        around.extend(lists.sources);
        around.sort_unstable();
        around.dedup();
    }
    let mut batch = store.write().expect("batch");
    set(&mut batch, NodeTypeId(0), "x", 3, &mut random);
    batch.commit().expect("commit");
    let found = affected(&engine, &store.snapshot(), &before);
    assert_eq!(nodes(&engine, &found), around);
    // A list that changes reaches a hop less far than a row.
    let before = store.snapshot();
    let mut batch = store.write().expect("batch");
    batch.add_edge(EdgeTypeId(0), 3, 3, EdgeData::default()).expect("edge");
    batch.commit().expect("commit");
    let nearer = affected(&engine, &store.snapshot(), &before);
    assert!(nodes(&engine, &nearer).len() < around.len());
    assert!(nearer.walked.lists < found.walked.lists);
}

#[test]
fn where_that_cannot_be_found_out_all_answers_count_as_different() {
    let mut random = Random::new(8);
    println!("seed 8");
    let changed = |store: &Store, node| {
        let before = store.snapshot();
        let mut batch = store.write().expect("batch");
        set(&mut batch, NodeTypeId(0), "x", node, &mut Random::new(node));
        batch.commit().expect("commit");
        (before, store.snapshot())
    };
    let why = |affected: Affected| match affected.answers {
        AffectedAnswers::All(why) => why,
        AffectedAnswers::Of(nodes) => panic!("{nodes:?}"),
    };
    let store = open(&Shape::WithoutReverse.build(NODES, &mut random));
    let engine = self::engine(&store, Shape::WithoutReverse, Layer::Sage, 1, -1);
    let (before, after) = changed(&store, 1);
    let edge_type = "r0".to_owned();
    assert_eq!(why(affected(&engine, &after, &before)), WhyAll::NoReverse { edge_type });
    // An edge alone needs no walk where there is one layer.
    let mut batch = store.write().expect("batch");
    batch.add_edge(EdgeTypeId(0), 4, 5, EdgeData::default()).expect("edge");
    batch.commit().expect("commit");
    assert_eq!(nodes(&engine, &affected(&engine, &store.snapshot(), &after)), [5]);
    let disk = Shape::Undirected.build(NODES, &mut random);
    let store = open(&disk);
    let engine = self::engine(&store, Shape::Undirected, Layer::Sage, 3, -1);
    let (before, after) = changed(&store, 2);
    for (lists, entries) in [(2, 1 << 20), (1 << 20, 5)] {
        let limit = WalkLimit { lists, entries };
        let found = engine.affected(&after, &before, limit).expect("affected");
        assert_eq!(why(found), WhyAll::TooMany { lists, entries });
    }
    assert_eq!(why(affected(&engine, &before, &after)), WhyAll::Unknown);
    store.close_writer().expect("closed");
    assert_eq!(why(affected(&engine, &open(&disk).snapshot(), &before)), WhyAll::Unknown);
    let rest = before.budget().limit_bytes() - before.budget().used_bytes();
    let held = before.reserve(rest).or_else(|_| before.reserve(rest / 2)).expect("memory");
    let mut more: Vec<_> = Vec::new();
    while let Ok(one) = before.reserve(1 << 16) {
        more.push(one);
    }
    assert_eq!(why(affected(&engine, &after, &before)), WhyAll::NoMemory);
    drop((held, more));
    assert!(!nodes(&engine, &affected(&engine, &after, &before)).is_empty());
    let tensor = before.catalog().find_tensor(Owner::Node(NodeTypeId(0)), "x");
    assert!(tensor.is_some() && Arc::strong_count(&before) == 1);
}
