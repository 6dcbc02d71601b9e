//! What an update costs whoever answers: the engine goes on to the new snapshot, and finds out
//! which answers can change. One update a commit, on a graph of one kind of node, undirected edges,
//! and a model of so many hops. HOW is metadata, hot or all.
//!
//!     cargo run --release -p ng-engine --example affected_time -- NODES MEAN_DEGREE HOPS UPDATES HOW
#![allow(clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_engine::{
    AffectedAnswers, AnswerKey, EmbeddingCache, Engine, EngineOptions, ModelFile, ModelKey,
    Prepare, WalkLimit, Walked,
};
use ng_infer::dfg::{Dfg, Op, Reduction};
use ng_infer::run::Devices;
use ng_sample::Fanouts;
use ng_store::{
    BuildOptions, EdgeData, EdgeTypeSpec, Entry, Expansion, OpenOptions, Owner, Store,
    StoreBuilder, TensorSpec,
};
use ng_testing::Random;
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const MODEL: ModelKey = ModelKey(0);
const NODE: NodeTypeId = NodeTypeId(0);

fn build(path: &std::path::Path, nodes: u64, degree: u64, random: &mut Random) {
    let mut builder = StoreBuilder::create(path, BuildOptions::default()).expect("builder");
    builder.node_type("node", nodes).expect("type");
    let spec = EdgeTypeSpec {
        source: NODE,
        relation: "to".into(),
        destination: NODE,
        undirected: true,
        unique: false,
        has_edge_ids: false,
        has_time: false,
        has_weight: false,
    };
    let edge_type = builder.edge_type(spec).expect("edge type");
    builder.set_reverse(edge_type, edge_type).expect("reverse");
    let mut lists = vec![Vec::new(); nodes as usize];
    for _ in 0..nodes * degree / 2 {
        let (a, b) = (random.below(nodes), random.below(nodes));
        lists[a as usize].push(b);
        if a != b {
            lists[b as usize].push(a);
        }
    }
    let mut writer = builder.topology(edge_type).expect("writer");
    for (node, list) in (0..).zip(&mut lists) {
        list.sort_unstable();
        for source in list {
            let entry = Entry { source: *source, edge_id: 0, time: 0, weight: 0.0 };
            writer.push(node, entry).expect("entry");
        }
    }
    builder.add(writer.finish().expect("lists")).expect("lists");
    let (name, shape) = ("x".into(), vec![4]);
    let spec = TensorSpec { name, dtype: Dtype::F32, shape, mask_width: None };
    let mut writer = builder.tensor(Owner::Node(NODE), spec).expect("tensor");
    (0..nodes).for_each(|_| writer.push_rows(&[0; 16]).expect("row"));
    builder.add(writer.finish().expect("rows")).expect("rows");
    builder.commit().expect("commit");
}

fn engine(store: &Store, hops: usize, prepare: Prepare) -> Engine {
    let mut graph = Dfg::default();
    let edges = graph.create_in("edge_index", None).expect("input");
    let mut h = graph.create_in("x", None).expect("input");
    for _ in 0..hops {
        h = graph.create_op(Op::Spmm(Reduction::Mean), &[edges, h]).expect("mean")[0];
    }
    graph.create_out("out", h).expect("output");
    let model = ModelFile::of_graph(graph);
    let options = EngineOptions {
        fanouts: Fanouts::uniform(&vec![10; hops], 1).expect("fanouts"),
        output: None,
        devices: Devices::default().into(),
        prepare,
        threads: 1,
        batch_nodes: 1024,
        go_on: || true,
    };
    let engine = Engine::open(store.snapshot(), model, options).expect("engine");
    while engine.prepared().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    engine
}

/// Sums over all updates of a kind.
#[derive(Default)]
struct Sums {
    commit: Duration,
    refresh: Vec<Duration>,
    walk: Duration,
    end: Duration,
    walked: Walked,
    all: u64,
}

/// One update, what it can change, and the end of these answers.
fn update(
    (store, engine, cache): (&Store, &Engine, &EmbeddingCache),
    (is_row, nodes): (bool, u64),
    random: &mut Random,
    sums: &mut Sums,
) {
    let (older, start) = (store.snapshot(), Instant::now());
    let mut batch = store.write().expect("batch");
    let (a, b) = (random.below(nodes), random.below(nodes));
    if is_row {
        let tensor = batch.tensor(Owner::Node(NODE), "x").expect("rows");
        batch.set_row(tensor, a, &[1; 16]).expect("row");
    } else {
        batch.add_edge(EdgeTypeId(0), a, b, EdgeData::default()).expect("edge");
    }
    batch.commit().expect("commit");
    sums.commit += start.elapsed();
    let (newer, start) = (store.snapshot(), Instant::now());
    engine.refresh(Arc::clone(&newer)).expect("refreshed");
    sums.refresh.push(start.elapsed());
    let start = Instant::now();
    let found = engine.affected(&newer, &older, WalkLimit::default()).expect("affected");
    sums.walk += start.elapsed();
    let start = Instant::now();
    cache.invalidate(MODEL, &found.answers, older.lsn(), newer.lsn());
    sums.end += start.elapsed();
    sums.walked.lists += found.walked.lists;
    sums.walked.entries += found.walked.entries;
    sums.walked.nodes += found.walked.nodes;
    sums.all += u64::from(matches!(found.answers, AffectedAnswers::All(_)));
}

fn main() {
    let mut given: Vec<String> = std::env::args().skip(1).collect();
    let prepare = match given.split_off(given.len().min(4)).first().map(String::as_str) {
        None | Some("metadata") => Prepare::Metadata,
        Some("hot") => Prepare::Hot,
        Some("all") => Prepare::All,
        Some(other) => panic!("no way to prepare: {other}"),
    };
    let given: Vec<u64> = given.iter().map(|word| word.parse().expect("a number")).collect();
    let [nodes, degree, hops, updates] = given[..] else {
        panic!("NODES MEAN_DEGREE HOPS UPDATES HOW");
    };
    let (dir, mut random) = (tempfile::tempdir().expect("directory"), Random::new(1));
    build(dir.path(), nodes, degree, &mut random);
    let options = OpenOptions { memory: Some(512 << 20), ..OpenOptions::default() };
    let store = Store::open(dir.path(), &options).expect("store");
    let engine = engine(&store, hops as usize, prepare);
    let cache = EmbeddingCache::new(256 << 20);
    cache.add_model(MODEL, store.snapshot().lsn());
    // Lists are in the caches of the store, as they are where requests have come for a while.
    let all: Vec<u64> = (0..nodes).collect();
    for some in all.chunks(4096) {
        let mut lists = Expansion::default();
        store.snapshot().neighbors(EdgeTypeId(0), some, &mut lists).expect("lists");
        for node in some {
            let key = AnswerKey { model: MODEL, node_type: NODE, node: *node, parameters: 0 };
            cache.put(&key, store.snapshot().lsn(), &[0; 128]);
        }
    }
    for kind in ["row", "edge"] {
        let mut sums = Sums::default();
        for _ in 0..updates {
            let all = (&store, &engine, &cache);
            update(all, (kind == "row", nodes), &mut random, &mut sums);
        }
        sums.refresh.sort_unstable();
        let each = |sum: u64| sum as f64 / updates as f64;
        let us = |sum: Duration| sum.as_secs_f64() * 1e6 / updates as f64;
        println!(
            "{kind}: an update commits in {:.0} us, the engine goes on to it in {:.0} us (median; \
             most {:.0}), it is walked in {:.0} us ({:.1} lists, {:.0} \
             entries, {:.0} nodes) and ends answers in {:.0} us; all ended {} times",
            us(sums.commit),
            sums.refresh[sums.refresh.len() / 2].as_secs_f64() * 1e6,
            sums.refresh[sums.refresh.len() - 1].as_secs_f64() * 1e6,
            us(sums.walk),
            each(sums.walked.lists),
            each(sums.walked.entries),
            each(sums.walked.nodes),
            us(sums.end),
            sums.all
        );
    }
    println!("{:?}", cache.stats());
}
