//! Lists that are expanded as they become known are those that a batch gives, on any disk.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::cell::RefCell;
use std::collections::HashMap;

use common::changing::{EDGES, Shape, change, open};
use common::model::{Model, ModelEdges};
use common::seeded;
use ng_store::{Expansion, ListRequest, OpenOptions, ReadError, Snapshot, Store};
use ng_testing::Random;
use ng_types::EdgeTypeId;

/// Edge types of several layouts: many short lists, hubs, holes, a type without any edge.
fn model(page_bytes: u32) -> Model {
    let mut random = seeded(u64::from(page_bytes) + 1);
    let mut model = Model::new(&[2000, 800], page_bytes);
    let degrees: Vec<(u64, usize)> = (0..1900_u64)
        .filter(|node| node % 5 != 0)
        .map(|node| (node, if node % 173 == 1 { 12_000 } else { 1 + (node % 30) as usize }))
        .collect();
    for bits in 0..4 {
        let edges = ModelEdges {
            source: bits % 2,
            has_edge_ids: bits & 1 != 0,
            has_time: bits & 2 != 0,
            has_weight: bits == 3,
            ..ModelEdges::default()
        };
        model.edges(edges, &degrees, &mut random);
    }
    model.edges(ModelEdges::default(), &[], &mut random);
    model
}

/// Positions that depend on the request and nothing else.
fn pick(request: &ListRequest, degree: u64, out: &mut Vec<u64>) {
    let mut random = Random::new(request.node * 7 + request.tag % 7);
    let count = if degree == 0 { 0 } else { random.below(20) };
    out.extend((0..count).map(|_| random.below(degree)));
}

/// Walks from `starts`: every list that is found asks for more, up to `most` requests. Returns what
/// came for each tag.
fn walk(
    snapshot: &Snapshot,
    edge_types: u16,
    starts: &[u64],
    most: u64,
) -> Result<HashMap<u64, (ListRequest, Expansion)>, ReadError> {
    let known = RefCell::new((Vec::new(), 0_u64));
    let ask = |node: u64| {
        let mut known = known.borrow_mut();
        if known.1 < most {
            let edge_type = EdgeTypeId((known.1 % u64::from(edge_types)) as u16);
            let request = ListRequest { edge_type, node, tag: known.1 };
            known.0.push(request);
            known.1 += 1;
        }
    };
    starts.iter().for_each(|node| ask(*node));
    let mut found = HashMap::new();
    snapshot.expand_stream(
        &mut |out| out.append(&mut known.borrow_mut().0),
        &mut |request, degree, out| pick(request, degree, out),
        &mut |request, entries| {
            entries.sources.iter().for_each(|source| ask(*source));
            assert!(found.insert(request.tag, (*request, entries.clone())).is_none());
            Ok(())
        },
    )?;
    assert!(known.borrow().0.is_empty());
    Ok(found)
}

fn assert_same(snapshot: &Snapshot, found: &HashMap<u64, (ListRequest, Expansion)>) {
    for (request, entries) in found.values() {
        let mut expected = Expansion::default();
        let mut draw = |_: usize, degree: u64, out: &mut Vec<u64>| pick(request, degree, out);
        snapshot.expand(request.edge_type, &[request.node], &mut draw, &mut expected).unwrap();
        assert_eq!(entries, &expected, "{request:?}");
    }
}

#[test]
fn a_stream_gives_what_a_batch_gives_cold_and_warm_and_on_an_unruly_disk() {
    for page_bytes in [4096, 16384] {
        let model = model(page_bytes);
        let starts: Vec<u64> = [0, 1, 1, 174, 1999].into_iter().chain(300..340).collect();
        // 5 MB leaves hardly any cache.
        for memory in [5 << 20, 64 << 20] {
            let stores = [model.open(memory), model.open_unruly(memory, 3 + memory)];
            for store in stores {
                let snapshot = store.snapshot();
                for _ in 0..2 {
                    let found = walk(&snapshot, 5, &starts, 3000).unwrap();
                    assert!(found.len() > 1000, "{}", found.len());
                    assert_same(&snapshot, &found);
                }
            }
        }
    }
}

#[test]
fn a_stream_over_changes_that_no_checkpoint_has_written_sees_them() {
    let mut random = seeded(9);
    let shape = Shape { num_nodes: 300, page_bytes: 4096, row_bytes: 4, ..Shape::default() };
    let store = open(&shape.build());
    for round in 0..12 {
        change(&store, &shape, &mut random, 800);
        if round % 5 == 4 {
            store.checkpoint().unwrap();
        }
        let snapshot = store.snapshot();
        let found = walk(&snapshot, 2, &[0, 1, 2, 3, 50], 500).unwrap();
        assert_same(&snapshot, &found);
        assert!(found.values().any(|(request, _)| request.edge_type == EDGES));
    }
}

#[test]
fn nothing_is_read_twice_and_a_warm_stream_reads_nothing() {
    let model = model(4096);
    let disk = model.build();
    let options = OpenOptions { memory: Some(256 << 20), ..OpenOptions::default() };
    let (streamed, batched) =
        (Store::open_on(disk.clone(), &options).unwrap(), Store::open_on(disk, &options).unwrap());
    streamed.reset_stats();
    batched.reset_stats();
    let snapshot = streamed.snapshot();
    let starts: Vec<u64> = (0..200).collect();
    let found = walk(&snapshot, 5, &starts, 500).unwrap();
    let cold = streamed.stats();
    assert_same(&batched.snapshot(), &found);
    // A batch joins neighbours, so only bytes can be compared.
    assert_eq!(cold.read_bytes, batched.stats().read_bytes);
    // Lists block by block; of four edge types two page tables (2 + 2 blocks) and the index (4),
    // each in one pass.
    assert_eq!(cold.reads, 4 * 3 + cold.read_bytes / 4096 - 4 * 8);
    walk(&snapshot, 5, &starts, 500).unwrap();
    assert_eq!(streamed.stats().reads, cold.reads);
}

#[test]
fn errors_end_a_stream_and_are_those_of_a_batch() {
    let model = model(4096);
    let store = model.open(64 << 20);
    let snapshot = store.snapshot();
    let error = walk(&snapshot, 1, &[2000], 1).unwrap_err();
    assert!(matches!(error, ReadError::NodeOutOfRange { id: 2000, .. }), "{error}");
    let error = walk(&snapshot, 6, &[1; 6], 6).unwrap_err();
    assert!(matches!(error, ReadError::Missing { .. }), "{error}");
    let mut asked = false;
    let outcome = snapshot.expand_stream(
        &mut |out| {
            let request = ListRequest { edge_type: EdgeTypeId(0), node: 1, tag: 0 };
            out.extend((!std::mem::replace(&mut asked, true)).then_some(request));
        },
        &mut |_, degree, out| out.push(degree),
        &mut |_, _| panic!("no entry is at that position"),
    );
    assert!(matches!(outcome, Err(ReadError::PositionOutOfRange { .. })), "{outcome:?}");
    let starts: Vec<u64> = (0..50).collect();
    let mut taken = 0;
    let mut pending: Vec<ListRequest> = starts
        .iter()
        .map(|node| ListRequest { edge_type: EdgeTypeId(0), node: *node, tag: 0 })
        .collect();
    let outcome = snapshot.expand_stream(
        &mut |out| out.append(&mut pending),
        &mut |request, degree, out| pick(request, degree, out),
        &mut |_, _| {
            taken += 1;
            if taken < 10 { Ok(()) } else { Err(ReadError::Missing { what: "patience".into() }) }
        },
    );
    assert!(matches!(outcome, Err(ReadError::Missing { what }) if what == "patience"));
    assert_eq!(taken, 10);
}

#[test]
fn damage_is_found_in_a_stream() {
    let model = model(4096);
    let files = model.files();
    let mut damaged = 0;
    for name in ["e0.topo.dat", "e0.index.dat", "e0.topo.map"] {
        let Some(bytes) = files.get(name) else { continue };
        for block in 0..bytes.len() / 4096 {
            let mut files = files.clone();
            files.get_mut(name).unwrap()[block * 4096 + 100] ^= 1;
            let store = Store::open_on(common::disk_of(files), &OpenOptions::default()).unwrap();
            let starts: Vec<u64> = (0..2000).collect();
            match walk(&store.snapshot(), 1, &starts, 2000) {
                Ok(found) => assert_same(&model.open(64 << 20).snapshot(), &found),
                Err(error) => {
                    assert!(matches!(error, ReadError::Checksum { .. }), "{name} {block}: {error}");
                    damaged += 1;
                }
            }
        }
    }
    assert!(damaged > 10, "{damaged}");
}
