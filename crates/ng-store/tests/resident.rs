//! A topology in memory says what its snapshot says, within the memory that was announced.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::changing::{EDGES, Shape, change, open};
use common::compare::as_expansion;
use common::model::{Model, ModelEdges};
use common::seeded;
use ng_store::{OpenOptions, Packed, ReadError, Store};
use ng_types::EdgeTypeId;

/// Bytes that loading uses for a while, at most: two windows.
const WINDOWS_BYTES: u64 = 8 << 20;

/// Edge types of every layout between a small type and one whose ids need 5 bytes.
fn model(page_bytes: u32) -> Model {
    let mut random = seeded(u64::from(page_bytes));
    let mut model = Model::new(&[3000, (1 << 33) + 5], page_bytes);
    let degrees: Vec<(u64, usize)> = (0..3000_u64)
        .filter(|node| node % 7 != 0)
        .map(|node| (node, if node % 211 == 1 { 9000 } else { (node % 40) as usize }))
        .filter(|(_, degree)| *degree > 0)
        .collect();
    for bits in 0..8 {
        let edges = ModelEdges {
            source: bits % 2,
            destination: 0,
            has_edge_ids: bits & 1 != 0,
            has_time: bits & 2 != 0,
            has_weight: bits & 4 != 0,
            ..ModelEdges::default()
        };
        model.edges(edges, &degrees, &mut random);
    }
    model.edges(ModelEdges { source: 1, ..ModelEdges::default() }, &[], &mut random);
    let hubs: Vec<(u64, usize)> = (2990..3000).map(|node| (node, 5000)).collect();
    model.edges(ModelEdges::default(), &hubs, &mut random);
    let few_first = (0..2990).map(|node| (node, 3)).chain(hubs);
    model.edges(ModelEdges::default(), &few_first.collect::<Vec<_>>(), &mut random);
    model
}

fn compare(model: &Model, store: &Store) {
    let snapshot = store.snapshot();
    for (index, edges) in model.edges.iter().enumerate() {
        let id = EdgeTypeId(index as u16);
        let resident = snapshot.load_topology(id).unwrap();
        let nodes: Vec<u64> = (0..model.num_nodes[usize::from(edges.destination)]).collect();
        let expected = model.expansion(index, &nodes, |_, degree| (0..degree).collect());
        assert!(as_expansion(&resident) == expected, "edge type {index}");
        assert_eq!(resident.num_edges(), expected.sources.len() as u64);
        let wide = matches!(resident.sources(), Packed::Five(_));
        assert_eq!(wide, edges.source == 1, "edge type {index}");
        assert_eq!((resident.edge_type(), resident.fingerprint()), (id, snapshot.fingerprint()));
    }
}

#[test]
fn lists_in_memory_are_those_of_the_snapshot_for_every_layout_and_page_size() {
    for page_bytes in [4096, 16384, 65536] {
        let model = model(page_bytes);
        compare(&model, &model.open(64 << 20));
        compare(&model, &model.open_unruly(8 << 20, u64::from(page_bytes)));
    }
}

#[test]
fn memory_is_announced_reserved_and_given_back() {
    let model = model(4096);
    let store = model.open(64 << 20);
    let snapshot = store.snapshot();
    let before = store.budget().used_bytes();
    for index in 0..model.edges.len() {
        let id = EdgeTypeId(index as u16);
        let resident = snapshot.load_topology(id).unwrap();
        assert_eq!(resident.num_bytes(), snapshot.resident_bytes(id));
        // Index pages may have entered the cache.
        let held = store.budget().used_bytes() - store.stats().block_cache_bytes;
        assert_eq!(held, before + resident.num_bytes());
    }
    assert_eq!(store.budget().used_bytes() - store.stats().block_cache_bytes, before);
    let most = (0..10).map(|index| snapshot.resident_bytes(EdgeTypeId(index))).max().unwrap();
    let peak = store.budget().peak_bytes();
    assert!(peak <= before + most + WINDOWS_BYTES + store.stats().block_cache_bytes, "{peak}");
    assert_eq!(snapshot.resident_bytes(EdgeTypeId(99)), 0);
    assert!(matches!(snapshot.load_topology(EdgeTypeId(99)), Err(ReadError::Missing { .. })));
}

#[test]
fn a_topology_that_does_not_fit_is_refused_before_anything_is_read() {
    let mut random = seeded(5);
    let mut model = Model::new(&[4_000_000], 4096);
    model.edges(ModelEdges::default(), &[(7, 3)], &mut random);
    let options = OpenOptions { memory: Some(8 << 20), ..OpenOptions::default() };
    let store = Store::open_on(model.build(), &options).unwrap();
    let snapshot = store.snapshot();
    assert!(snapshot.resident_bytes(EdgeTypeId(0)) > 8 << 20);
    store.reset_stats();
    let error = snapshot.load_topology(EdgeTypeId(0)).unwrap_err();
    assert!(matches!(error, ReadError::Budget(_)), "{error}");
    assert_eq!(store.stats().reads, 0);
}

#[test]
fn loading_waits_for_nobody_while_it_holds_memory_that_others_wait_for() {
    let model = model(4096);
    let batch_timeout = std::time::Duration::from_secs(3600);
    let options = OpenOptions { memory: Some(8 << 20), batch_timeout, ..OpenOptions::default() };
    let store = Store::open_on(model.build(), &options).unwrap();
    let snapshot = store.snapshot();
    let topology_bytes = snapshot.resident_bytes(EdgeTypeId(0));
    let all = std::iter::from_fn(|| snapshot.reserve(64 << 10).ok());
    let mut held: Vec<_> = all.collect();
    // Room for the topology and less than a window.
    held.truncate(held.len() - (topology_bytes >> 16) as usize - 2);
    let error = snapshot.load_topology(EdgeTypeId(0)).unwrap_err();
    assert!(matches!(error, ReadError::Budget(_)), "{error}");
    drop(snapshot.reserve(topology_bytes).expect("given back"));
    drop(held);
    snapshot.load_topology(EdgeTypeId(0)).expect("there is room");
}

#[test]
fn an_imported_topology_is_read_once_and_in_large_pieces() {
    let model = model(4096);
    let disk = model.build();
    let image = disk.image();
    let bytes = image["e0.topo.dat"].len() as u64;
    let options = OpenOptions { memory: Some(64 << 20), ..OpenOptions::default() };
    let store = Store::open_on(disk, &options).unwrap();
    store.reset_stats();
    drop(store.snapshot().load_topology(EdgeTypeId(0)).unwrap());
    let stats = store.stats();
    // Pages once, beside those of the indexes and their tables.
    assert!(stats.read_bytes < bytes + bytes / 8, "{} of {bytes}", stats.read_bytes);
    // Pages of short and of long lists alternate on disk, and are read together.
    assert!(stats.reads < bytes / (128 << 10) + 16, "{} reads of {bytes} bytes", stats.reads);
}

#[test]
fn it_stays_as_its_version_was_and_a_new_one_has_what_changed() {
    let mut random = seeded(77);
    let shape = Shape {
        num_nodes: 400,
        page_bytes: 4096,
        row_bytes: 8,
        has_edge_ids: true,
        has_time: true,
        has_weight: true,
        ..Shape::default()
    };
    let store = open(&shape.build());
    let mut kept = Vec::new();
    for round in 0..30 {
        change(&store, &shape, &mut random, 400);
        if round % 7 == 0 {
            store.checkpoint().unwrap();
        }
        let snapshot = store.snapshot();
        let resident = snapshot.load_topology(EDGES).unwrap();
        let nodes: Vec<u64> = (0..resident.num_nodes()).collect();
        let mut expected = ng_store::Expansion::default();
        snapshot.neighbors(EDGES, &nodes, &mut expected).unwrap();
        assert!(as_expansion(&resident) == expected, "round {round}");
        for dead in snapshot.dead_nodes(common::changing::NODES).unwrap() {
            assert_eq!(resident.degree(dead), 0);
        }
        kept.push((resident, expected));
    }
    let same = |(resident, expected): &(Arc<_>, _)| as_expansion(resident) == *expected;
    assert!(kept.iter().all(same));
    let prints: std::collections::BTreeSet<u64> =
        kept.iter().map(|(resident, _)| resident.fingerprint()).collect();
    assert_eq!(prints.len(), kept.len());
}
