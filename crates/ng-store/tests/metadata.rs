//! Indexes and page tables stay in memory where they fit: read in one pass, seen by each version as
//! it is, given back last.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::changing::{EDGES, NODES, ROWS, Shape, open};
use common::model::{Model, ModelEdges};
use common::seeded;
use ng_store::{EdgeData, Expansion, OpenOptions, Owner, Store};
use ng_testing::Random;
use ng_types::{EdgeTypeId, MemoryUser, NodeTypeId};

const MEMORY: u64 = 64 << 20;

/// Lists on 900 pages, so the index has a root above four leaves, and rows.
fn graph() -> Model {
    let mut random = seeded(4);
    let mut model = Model::new(&[20_000], 4096);
    let degrees: Vec<(u64, usize)> = (0..20_000).map(|node| (node, 40)).collect();
    model.edges(ModelEdges::default(), &degrees, &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 1024, &mut random);
    model
}

/// Many edge types with few edges: 24 KiB of indexes and page tables each.
fn many_types() -> Model {
    let mut random = seeded(5);
    let mut model = Model::new(&[500], 4096);
    for _ in 0..20 {
        let degrees: Vec<(u64, usize)> = (0..500).map(|node| (node, 2)).collect();
        model.edges(ModelEdges::default(), &degrees, &mut random);
    }
    model
}

fn reads(store: &Store, work: impl FnOnce()) -> u64 {
    let before = store.stats().reads;
    work();
    store.stats().reads - before
}

fn held(store: &Store) -> u64 {
    let memory = store.stats().memory;
    let metadata = memory.iter().find(|share| share.user == MemoryUser::Metadata);
    metadata.and_then(|share| share.held_bytes).expect("it is known")
}

fn expand(store: &Store, edge_type: u16, nodes: &[u64]) {
    let snapshot = store.snapshot();
    snapshot.neighbors(EdgeTypeId(edge_type), nodes, &mut Expansion::default()).expect("sound");
}

#[test]
fn a_cold_request_reads_nothing_of_indexes_and_page_tables_once_they_were_passed_over() {
    let model = graph();
    let store = model.open(MEMORY);
    assert_eq!(reads(&store, || assert!(held(&store) > 0)), 0, "nothing before somebody asks");
    let gather = |row: u64| {
        let mut out = vec![0; 1024];
        store.snapshot().gather(model.tensor_ref(0), &[row], &mut out).expect("sound");
    };
    // One pass over the index and over each of three page tables, and the blocks asked for.
    let first = reads(&store, || {
        expand(&store, 0, &[5]);
        gather(5);
    });
    assert_eq!(first, 4 + 2);
    for node in (1_000..20_000).step_by(1_000) {
        assert_eq!(reads(&store, || expand(&store, 0, &[node])), 1, "the page of {node}");
        assert_eq!(reads(&store, || gather(node)), 1, "the block of row {node}");
    }
}

#[test]
fn many_threads_at_a_cold_store_make_one_pass() {
    let store = graph().open(MEMORY);
    let all = reads(&store, || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| expand(&store, 0, &[5]));
            }
        });
    });
    // Each may read the one page.
    assert!((3 + 1..=3 + 4).contains(&all), "{all} reads");
}

#[test]
fn indexes_and_page_tables_beyond_their_share_are_read_block_by_block() {
    let model = many_types();
    let small = model.open(6 << 20);
    assert_eq!(held(&small), 0);
    // Two blocks of each page table, the root of the index, the page.
    assert_eq!(reads(&small, || expand(&small, 3, &[5])), 2 + 1 + 2 + 1);
    let large = model.open(MEMORY);
    assert!(held(&large) > small.budget().limit_bytes() / 16);
    assert_eq!(reads(&large, || expand(&large, 3, &[5])), 3 + 1);
    for store in [small, large] {
        model.compare(&store.snapshot(), &mut seeded(1), 500);
        assert!(store.budget().peak_bytes() <= store.budget().limit_bytes());
    }
}

#[test]
fn a_batch_that_needs_all_memory_takes_theirs_last_and_they_come_back() {
    let model = graph();
    let options = OpenOptions { memory: Some(MEMORY), ..OpenOptions::default() };
    let store = Store::open_on(model.build(), &options).expect("opens");
    model.compare(&store.snapshot(), &mut seeded(1), 20_000);
    let metadata = held(&store);
    let others = |store: &Store| {
        let stats = store.stats();
        let tables = stats.memory.iter().find(|share| share.user == MemoryUser::Resident);
        let tables = tables.and_then(|share| share.held_bytes).unwrap_or(0);
        stats.row_cache_bytes + stats.block_cache_bytes + tables
    };
    let set_aside = store.budget().used_bytes() - others(&store) - metadata;
    let tx = store.reserve_batch(MEMORY - set_aside - metadata).expect("caches give way");
    assert_eq!((held(&store), others(&store)), (metadata, 0));
    drop(tx);
    let tx = store.reserve_batch(MEMORY - set_aside).expect("all give way");
    assert_eq!((held(&store), others(&store)), (0, 0));
    drop(tx);
    model.compare(&store.snapshot(), &mut seeded(2), 500);
    assert_eq!(held(&store), 0);
    for _ in 0..16 {
        drop(store.reserve_batch(1 << 10).expect("free"));
    }
    assert_eq!(held(&store), metadata);
    model.compare(&store.snapshot(), &mut seeded(3), 500);
    let tx = store.reserve_batch(MEMORY - set_aside - metadata).expect("caches give way");
    drop(tx);
    assert_eq!(reads(&store, || expand(&store, 0, &[7_001, 12_345])), 2);
    assert!(store.budget().peak_bytes() <= MEMORY);
}

/// The sorted sources of the list of each node.
fn lists(store: &ng_store::Snapshot, nodes: &[u64]) -> Vec<Vec<u64>> {
    let mut out = Expansion::default();
    store.neighbors(EDGES, nodes, &mut out).expect("sound");
    let list = |ends: &[usize]| {
        let mut list = out.sources[ends[0]..ends[1]].to_vec();
        list.sort_unstable();
        list
    };
    out.offsets.windows(2).map(list).collect()
}

#[test]
fn each_version_sees_its_own_index_and_page_tables_while_checkpoints_write_theirs_anew() {
    let shape = Shape { num_nodes: 3_000, page_bytes: 4096, row_bytes: 400, ..Shape::default() };
    let disk = shape.build();
    let store = open(&disk);
    let mut random = Random::new(7);
    let nodes: Vec<u64> = (0..3_000).collect();
    let (mut model, mut rows) = (vec![Vec::new(); 3_000], vec![vec![0; 400]; 3_000]);
    let check = |snapshot: &ng_store::Snapshot, model: &Vec<Vec<u64>>, rows: &Vec<Vec<u8>>| {
        assert_eq!(&lists(snapshot, &nodes), model);
        let mut out = vec![0; rows.len() * 400];
        snapshot.gather(ROWS, &nodes, &mut out).expect("sound");
        assert!(out == rows.concat());
    };
    let mut versions = Vec::new();
    for round in 0..24 {
        check(&store.snapshot(), &model, &rows);
        let mut tx = store.write().expect("writes");
        for _ in 0..2_000 {
            let (a, b) = (random.below(3_000), random.below(3_000));
            tx.add_edge(EDGES, a, b, EdgeData { time: 0, weight: 0.0 }).expect("added");
            let list: &mut Vec<u64> = &mut model[b as usize];
            list.insert(list.partition_point(|source| *source < a), a);
        }
        for _ in 0..50 {
            let row = random.below(3_000);
            rows[row as usize] = random.bytes(400);
            tx.set_row(ROWS, row, &rows[row as usize]).expect("set");
        }
        tx.commit().expect("commits");
        if round % 2 == 0 {
            store.checkpoint().expect("checkpoints");
        }
        if round % 5 == 0 {
            versions.push((store.snapshot(), model.clone(), rows.clone()));
        }
        if versions.len() > 2 {
            versions.remove(0);
        }
        versions.iter().for_each(|(snapshot, model, rows)| check(snapshot, model, rows));
    }
    assert_eq!(store.snapshot().catalog().node_types[usize::from(NODES.0)].num_nodes, 3_000);
    assert!(store.budget().peak_bytes() <= store.budget().limit_bytes());
    drop(versions);
    drop(store);
    let store = open(&disk);
    check(&store.snapshot(), &model, &rows);
    assert!(held(&store) > 0);
}

#[test]
fn what_checkpoints_have_written_anew_is_passed_over_again_once_that_costs_no_more() {
    let model = graph();
    let store = model.open(MEMORY);
    model.compare(&store.snapshot(), &mut seeded(1), 500);
    let row = vec![7; 1024];
    let mut cold = Vec::new();
    for round in 0..12 {
        let mut tx = store.write().expect("writes");
        tx.set_row(model.tensor_ref(0), round * 1_500, &row).expect("set");
        tx.commit().expect("commits");
        store.checkpoint().expect("checkpoints");
        let mut out = vec![0; 1024];
        let mut gather =
            || store.snapshot().gather(model.tensor_ref(0), &[round * 1_500], &mut out);
        cold.push(reads(&store, || assert_eq!(gather().expect("sound").rows, 1)));
        assert_eq!(out, row);
    }
    // The row; up to an inner block, a fan and entries that are new; or one pass over the table.
    assert!(cold.iter().all(|reads| (1..=1 + 3).contains(reads)), "{cold:?}");
    let mut out = vec![0; 1024];
    let mut other = || store.snapshot().gather(model.tensor_ref(0), &[3_001], &mut out);
    assert!(reads(&store, || assert_eq!(other().expect("sound").rows, 1)) <= 1 + 2);
}
