//! What answers are made of: every answer that a commit changes ends with it, and few others do.
#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::changing::{Layer, Shape, change, open, set};
use ng_engine::{
    AnswerKey, ChangedNodes, EmbeddingCache, Engine, EngineOptions, ModelKey, On, Prepare, WhyAll,
};
use ng_infer::dfg::Elements;
use ng_infer::run::Devices;
use ng_store::{EdgeData, Snapshot, Store};
use ng_testing::Random;
use ng_types::{EdgeTypeId, NodeTypeId};

const NODES: u64 = 90;
const ROUNDS: u64 = 8;
const SEED: u64 = 5;
const MODEL: ModelKey = ModelKey(1);

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

fn key(engine: &Engine, node: u64) -> AnswerKey {
    AnswerKey { model: MODEL, node_type: engine.node_type(), node, parameters: SEED }
}

/// The bytes of the answers for all nodes, each asked for alone.
fn answers(engine: &Engine) -> Vec<Vec<u8>> {
    let snapshot = engine.snapshot();
    let nodes = snapshot.catalog().node_types[usize::from(engine.node_type().0)].num_nodes;
    let bytes = |node| match engine.run(&[node], SEED).expect("answer").elements {
        Elements::F32(row) => row.iter().flat_map(|x| x.to_le_bytes()).collect(),
        other => panic!("{other:?}"),
    };
    (0..nodes).map(bytes).collect()
}

/// Has those of `nodes` computed together, and keeps them with what they are made of.
fn keep(engine: &Engine, cache: &EmbeddingCache, nodes: &[u64], wanted: &[Vec<u8>]) {
    let version = engine.version();
    let on = On { version: &version, go_on: &|| true };
    let (answer, reaches) = engine.each_reaching(nodes, SEED, on).expect("answers");
    let Elements::F32(elements) = answer.elements else { panic!("f32") };
    assert_eq!(reaches.len(), nodes.len());
    let width = elements.len() / nodes.len().max(1);
    for ((node, row), reach) in nodes.iter().zip(elements.chunks(width.max(1))).zip(&reaches) {
        let row: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(row, wanted[*node as usize], "node {node}");
        cache.put(&key(engine, *node), version.snapshot().lsn(), &row, reach.as_ref());
    }
}

/// Tells the cache what changed since `older`, and how many lists and rows that are.
fn note(engine: &Engine, cache: &EmbeddingCache, older: &Snapshot) -> Option<usize> {
    let newer = engine.snapshot();
    let changed = engine.changed(&newer, older);
    cache.note(MODEL, &changed, (older.lsn(), newer.lsn()));
    changed.ok().map(|changed| changed.len())
}

#[derive(Debug, Default)]
struct Counts {
    compared: usize,
    differ: usize,
    ended: usize,
}

/// Some commits, after each of which all answers are looked at and those that ended made anew.
fn run(shape: Shape, layer: Layer, layers: usize, fanout: i64, seed: u64) -> Counts {
    println!("seed {seed}: {shape:?} {layer:?} {layers} {fanout}");
    let (mut random, mut counts) = (Random::new(seed), Counts::default());
    let store = open(&shape.build(NODES, &mut random));
    let engine = engine(&store, shape, layer, layers, fanout);
    let cache = EmbeddingCache::new(4 << 20);
    cache.add_model(MODEL, store.snapshot().lsn());
    let mut last = answers(&engine);
    keep(&engine, &cache, &(0..last.len() as u64).collect::<Vec<_>>(), &last);
    for round in 0..ROUNDS {
        let older = store.snapshot();
        let mut batch = store.write().expect("batch");
        for _ in 0..=random.below(2) {
            change(&store, &mut batch, shape, &mut random);
        }
        batch.commit().expect("commit");
        if round == ROUNDS / 2 {
            store.checkpoint().expect("checkpoint");
        }
        engine.refresh(store.snapshot()).expect("refreshed");
        assert!(note(&engine, &cache, &older).is_some());
        let now = answers(&engine);
        // Some are asked for after a few commits only.
        let asked = (0..now.len() as u64).filter(|node| node % 3 != round % 3);
        let mut gone = Vec::new();
        for node in asked {
            counts.compared += 1;
            counts.differ += usize::from(last.get(node as usize) != Some(&now[node as usize]));
            match cache.get(&key(&engine, node), store.snapshot().lsn(), 0) {
                Some(kept) => assert_eq!(*kept.row, *now[node as usize], "node {node}"),
                None => gone.push(node),
            }
        }
        counts.ended += gone.len();
        keep(&engine, &cache, &gone, &now);
        last = now;
    }
    counts
}

#[test]
fn every_answer_that_differs_has_ended_and_few_others_have() {
    let (mut seed, mut all) = (100, Counts::default());
    for shape in [Shape::Directed, Shape::Undirected, Shape::TwoTypes, Shape::WithoutReverse] {
        for layer in [Layer::Sage, Layer::Degrees] {
            if (shape, layer) == (Shape::TwoTypes, Layer::Degrees) {
                continue;
            }
            for (layers, fanout) in [1, 2, 3].into_iter().flat_map(|n| [(n, -1), (n, 2)]) {
                seed += 1;
                let one = run(shape, layer, layers, fanout, seed);
                println!("{one:?}");
                all.compared += one.compared;
                all.differ += one.differ;
                all.ended += one.ended;
            }
        }
    }
    println!("{all:?}");
    assert!(all.differ > 1_000, "{all:?}");
    // What is drawn is known, so nearly everything that may differ does.
    assert!(all.ended < all.differ + all.differ / 2, "{all:?}");
}

#[test]
fn rows_that_a_model_does_not_take_end_nothing_and_a_row_what_was_made_of_it() {
    let mut random = Random::new(7);
    println!("seed 7");
    let store = open(&Shape::Undirected.build(NODES, &mut random));
    let engine = engine(&store, Shape::Undirected, Layer::Sage, 2, -1);
    let cache = EmbeddingCache::new(4 << 20);
    cache.add_model(MODEL, store.snapshot().lsn());
    let all: Vec<u64> = (0..NODES).collect();
    keep(&engine, &cache, &all, &answers(&engine));
    let found = |lsn: u64| -> Vec<u64> {
        let has = |node: &u64| cache.get(&key(&engine, *node), lsn, 0).is_some();
        all.iter().copied().filter(|node| !has(node)).collect()
    };
    let commit = |work: &mut dyn FnMut(&mut ng_store::Transaction)| {
        let older = store.snapshot();
        let mut batch = store.write().expect("batch");
        work(&mut batch);
        batch.commit().expect("commit");
        engine.refresh(store.snapshot()).expect("refreshed");
        (note(&engine, &cache, &older), found(store.snapshot().lsn()))
    };
    let unused = commit(&mut |batch| {
        (0..NODES).for_each(|node| set(batch, NodeTypeId(0), "unused", node, &mut Random::new(1)));
    });
    assert_eq!(unused, (Some(0), vec![]));
    // A new node that no list has: nobody was ever told of it.
    let (_, ended) = commit(&mut |batch| {
        let new = batch.add_node(NodeTypeId(0)).expect("node");
        set(batch, NodeTypeId(0), "x", new, &mut Random::new(2));
    });
    assert!(ended.is_empty(), "{ended:?}");
    let (before, mut around) = (store.snapshot(), vec![3]);
    for _ in 0..2 {
        let mut lists = ng_store::Expansion::default();
        before.neighbors(EdgeTypeId(0), &around, &mut lists).expect("lists");
        around.extend(lists.sources);
        around.sort_unstable();
        around.dedup();
    }
    let row = commit(&mut |batch| set(batch, NodeTypeId(0), "x", 3, &mut Random::new(3)));
    assert_eq!(row, (Some(1), around.clone()));
    keep(&engine, &cache, &row.1, &answers(&engine));
    // A list that changes reaches a hop less far than a row.
    let (_, nearer) = commit(&mut |batch| {
        batch.add_edge(EdgeTypeId(0), 3, 3, EdgeData::default()).expect("edge");
    });
    assert!(!nearer.is_empty() && nearer.len() < around.len());
}

#[test]
fn where_nobody_knows_what_changed_all_answers_end() {
    let mut random = Random::new(8);
    println!("seed 8");
    let disk = Shape::Undirected.build(NODES, &mut random);
    let store = open(&disk);
    let engine = self::engine(&store, Shape::Undirected, Layer::Sage, 3, -1);
    let cache = EmbeddingCache::new(1 << 20);
    let before = store.snapshot();
    cache.add_model(MODEL, before.lsn());
    keep(&engine, &cache, &[1, 2], &answers(&engine));
    let mut batch = store.write().expect("batch");
    set(&mut batch, NodeTypeId(0), "x", 2, &mut random);
    batch.commit().expect("commit");
    let after = store.snapshot();
    let rows = ChangedNodes { lists: vec![vec![]], rows: vec![vec![2]] };
    assert_eq!(engine.changed(&after, &before), Ok(rows));
    assert_eq!(engine.changed(&before, &after), Err(WhyAll::Unknown));
    store.close_writer().expect("closed");
    let other = open(&disk).snapshot();
    assert_eq!(engine.changed(&other, &before), Err(WhyAll::Unknown));
    cache.note(MODEL, &engine.changed(&other, &before), (before.lsn(), other.lsn()));
    assert_eq!(cache.get(&key(&engine, 1), other.lsn(), 0), None);
    assert_eq!(cache.stats().invalidations_of_all, 1);
    assert!(Arc::strong_count(&before) == 1);
}
