//! What a store says that commits changed, beside what differs between plain vectors.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::graph::{Graph, Schema};
use common::seeded;
use ng_store::{BuildOptions, Changes, OpenOptions, Owner, Snapshot, Store};
use ng_testing::{MemDisk, Random};
use ng_types::{EdgeTypeId, NodeTypeId};

/// What really changed, and what the store says so.
#[derive(Debug, Default)]
struct Counts {
    compared: u64,
    changed: u64,
    named: u64,
}

fn open(disk: &MemDisk) -> Store {
    let options = OpenOptions { memory: Some(32 << 20), ..OpenOptions::default() };
    Store::open_on(Arc::new(disk.clone()), &options).unwrap()
}

fn commit(store: &Store, graph: &mut Graph, random: &mut Random, ops: u64) {
    let mut tx = store.write().unwrap();
    (0..ops).for_each(|_| drop(graph.step(&mut tx, random, true).unwrap()));
    tx.commit().unwrap();
}

/// Whether `ids` is ascending and has `id`.
fn has(ids: Option<&Vec<u64>>, id: usize) -> bool {
    ids.is_some_and(|ids| ids.binary_search(&(id as u64)).is_ok())
}

/// Everything that differs between two graphs is named.
fn check(old: &Graph, new: &Graph, changes: &Changes, counts: &mut Counts) {
    let mut note = |is_named: bool, what: &str, index: usize, id: usize| {
        assert!(is_named, "{what} {index}: {id} changed, and is not named");
        counts.changed += 1;
    };
    for (index, (old, new)) in old.lists.iter().zip(&new.lists).enumerate() {
        let empty = Vec::new();
        for (id, list) in new.iter().enumerate() {
            if old.get(id).unwrap_or(&empty) != list {
                let named = changes.lists.get(&EdgeTypeId(index as u16));
                note(has(named, id), "list of edge type", index, id);
            }
        }
    }
    for (index, (old, new)) in old.live.iter().zip(&new.live).enumerate() {
        let node_type = NodeTypeId(index as u16);
        for (id, is_live) in new.iter().enumerate() {
            let was = old.get(id).copied();
            if was == Some(true) && !is_live {
                note(has(changes.deleted.get(&node_type), id), "deleted node", index, id);
            }
            if was != Some(true) && *is_live {
                note(has(changes.added.get(&node_type), id), "added node", index, id);
            }
        }
    }
    for (index, (old_rows, rows)) in old.rows.iter().zip(&new.rows).enumerate() {
        let (owner, width) = new.schema.tensors[index];
        let named = changes.rows.get(&new.tensor_ref(index));
        for (id, (before, after)) in old_rows.chunks(width).zip(rows.chunks(width)).enumerate() {
            if before != after {
                note(has(named, id), "row of tensor", index, id);
            }
        }
        // A new edge has no row that another one could have had.
        if let Owner::Edge(_) = owner {
            let is_old = |id: &u64| *id < new.num_rows(index);
            assert!(named.is_none_or(|ids| ids.iter().all(is_old)));
        }
    }
    counts.compared += 1;
    counts.named += changes.len();
}

#[test]
fn all_that_differs_between_two_snapshots_is_named_and_little_more() {
    let mut counts = Counts::default();
    for reuse_ids in [false, true] {
        let mut random = seeded(40 + u64::from(reuse_ids));
        let options = BuildOptions { reuse_ids, ..BuildOptions::default() };
        let mut graph = Graph::new(Schema::everything(120, options), &mut random);
        let store = open(&graph.disk());
        let mut kept: Vec<(Arc<Snapshot>, Graph)> = vec![(store.snapshot(), graph.clone())];
        for round in 0..60 {
            let ops = [1, 3, 40][random.below(3) as usize];
            commit(&store, &mut graph, &mut random, ops);
            match round % 20 {
                7 => drop(store.checkpoint().unwrap()),
                15 => store.close_writer().unwrap(),
                _ => {}
            }
            let newest = store.snapshot();
            for (older, old) in &kept {
                let changes = newest.changes_since(older).expect("all commits are known");
                check(old, &graph, &changes, &mut counts);
                assert_eq!(older.changes_since(&newest).is_some(), older.lsn() == newest.lsn());
            }
            assert!(newest.changes_since(&newest).unwrap().is_empty());
            kept.push((newest, graph.clone()));
            if kept.len() > 5 {
                kept.remove(random.below(5) as usize);
            }
        }
        // A transaction that is given up changes nothing.
        let before = store.snapshot();
        let mut tx = store.write().unwrap();
        let mut given_up = graph.clone();
        (0..20).for_each(|_| drop(given_up.step(&mut tx, &mut random, true).unwrap()));
        drop(tx);
        commit(&store, &mut graph, &mut random, 1);
        assert!(store.snapshot().changes_since(&before).unwrap().len() < 10);
    }
    println!(
        "{counts:?}: {:.3} named for each change",
        counts.named as f64 / counts.changed as f64
    );
    assert!(counts.compared > 400 && counts.changed > 20_000);
    // Rows that get the bytes that they had, and entries that go and come back, are named, too.
    assert!(counts.named < counts.changed + counts.changed / 5);
}

#[test]
fn what_was_not_noted_is_unknown() {
    let mut random = seeded(42);
    let mut graph = Graph::new(Schema::everything(60, BuildOptions::default()), &mut random);
    let disk = graph.disk();
    let store = open(&disk);
    let first = store.snapshot();
    commit(&store, &mut graph, &mut random, 5);
    let second = store.snapshot();
    assert!(second.changes_since(&first).is_some());
    graph.draw_tensor(&mut random);
    graph.add_tensor_to(&store).unwrap();
    let third = store.snapshot();
    assert!(third.changes_since(&second).is_none() && third.changes_since(&first).is_none());
    commit(&store, &mut graph, &mut random, 5);
    let fourth = store.snapshot();
    assert!(fourth.changes_since(&third).is_some() && fourth.changes_since(&second).is_none());
    // More than the store has room for.
    let budget = store.budget().share(ng_types::MemoryUser::Changes);
    for _ in 0..budget / 256 {
        commit(&store, &mut graph, &mut random, 1);
    }
    assert!(store.snapshot().changes_since(&fourth).is_none());
    let memory = store.stats().memory;
    let held = memory.iter().find(|share| share.user == ng_types::MemoryUser::Changes).unwrap();
    assert!(held.held_bytes.is_some_and(|bytes| bytes > 0 && bytes <= held.share_bytes));
    // Another handle.
    let last = store.snapshot();
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(store.snapshot().lsn(), last.lsn());
    assert!(store.snapshot().changes_since(&last).is_none());
}
