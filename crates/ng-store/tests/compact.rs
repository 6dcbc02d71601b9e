//! Compacting keeps the content and nothing else: not the old files, not the space between pages.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::path::Path;

use common::seeded;
use ng_store::{
    BuildOptions, EdgeData, EdgeTypeSpec, Expansion, OpenOptions, Owner, Snapshot, Store,
    StoreBuilder, TensorSpec, UpdateError, compact,
};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODES: u64 = 3000;
const EDGES: EdgeTypeId = EdgeTypeId(0);

/// A type with edge ids, times and its reverse, and a tensor of nodes and of edges.
fn build(path: &Path) {
    std::fs::create_dir(path).unwrap();
    let mut builder = StoreBuilder::create(path, BuildOptions::default()).unwrap();
    let node = builder.node_type("node", NODES).unwrap();
    let spec = |relation: &str| EdgeTypeSpec {
        source: node,
        relation: relation.into(),
        destination: node,
        undirected: false,
        unique: false,
        has_edge_ids: true,
        has_time: true,
        has_weight: false,
    };
    let forward = builder.edge_type(spec("to")).unwrap();
    let backward = builder.edge_type(spec("rev_to")).unwrap();
    builder.set_reverse(forward, backward).unwrap();
    for edge_type in [forward, backward] {
        let part = builder.topology(edge_type).unwrap().finish().unwrap();
        builder.add(part).unwrap();
    }
    let tensor = |name: &str, width| TensorSpec {
        name: name.into(),
        dtype: Dtype::F32,
        shape: vec![width],
        mask_width: None,
    };
    let mut rows = builder.tensor(Owner::Node(node), tensor("x", 70)).unwrap();
    rows.push_rows(&vec![1; NODES as usize * 280]).unwrap();
    builder.add(rows.finish().unwrap()).unwrap();
    let rows = builder.tensor(Owner::Edge(forward), tensor("a", 2)).unwrap();
    builder.add(rows.finish().unwrap()).unwrap();
    builder.commit().unwrap();
}

fn change(store: &Store, seed: u64) {
    let mut random = seeded(seed);
    for _ in 0..60 {
        let mut tx = store.write().unwrap();
        for _ in 0..200 {
            let (a, b) =
                (random.below(NODES), random.below(NODES) * random.below(NODES) / NODES / 9);
            let data = EdgeData { time: random.below(50) as i64, weight: 0.0 };
            match random.below(12) {
                0 => drop(tx.delete_node(NodeTypeId(0), a)),
                1 => drop(tx.delete_edge(EDGES, a, b, None)),
                2 => {
                    let tensor = tx.tensor(Owner::Node(NodeTypeId(0)), "x").unwrap();
                    drop(tx.set_row(tensor, a, &[random.below(255) as u8; 280]));
                }
                _ => {
                    if let Ok(Some(id)) = tx.add_edge(EDGES, a, b, data) {
                        let tensor = tx.tensor(Owner::Edge(EDGES), "a").unwrap();
                        tx.set_row(tensor, id, &[id as u8; 8]).unwrap();
                    }
                }
            }
        }
        tx.commit().unwrap();
        if random.below(10) == 0 {
            store.checkpoint().unwrap();
        }
    }
}

type Content = (Vec<Expansion>, Vec<Vec<u8>>, Vec<u64>, u64);

fn content(snapshot: &Snapshot) -> Content {
    let nodes: Vec<u64> = (0..NODES).collect();
    let lists = (0..2).map(|edge_type| {
        let mut found = Expansion::default();
        snapshot.neighbors(EdgeTypeId(edge_type), &nodes, &mut found).unwrap();
        found
    });
    let lists = lists.collect();
    let catalog = snapshot.catalog();
    let owners = [Owner::Node(NodeTypeId(0)), Owner::Edge(EDGES)];
    let rows = owners.iter().zip(["x", "a"]).map(|(owner, name)| {
        let tensor = catalog.find_tensor(*owner, name).unwrap();
        let mut all = Vec::new();
        snapshot
            .scan_tensor::<ng_store::ReadError>(tensor, &mut |_, rows| {
                all.extend_from_slice(rows);
                Ok(())
            })
            .unwrap();
        all
    });
    let rows = rows.collect();
    (lists, rows, snapshot.dead_nodes(NodeTypeId(0)).unwrap(), catalog.node_types[0].num_nodes_live)
}

#[test]
fn a_compacted_store_says_the_same_and_can_be_changed_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.ng");
    build(&path);
    let options = OpenOptions { memory: Some(32 << 20), ..OpenOptions::default() };
    let store = Store::open(&path, &options).unwrap();
    change(&store, 1);
    store.close_writer().unwrap();
    let before = store.snapshot();
    let wanted = content(&before);
    let report = compact(&path, &options, &mut |done, total| {
        assert!(done <= total);
        true
    })
    .unwrap();
    assert!(report.bytes_after < report.bytes_before, "{report:?}");
    assert_eq!(content(&before), wanted, "a handle on the old files");
    let Err(UpdateError::Unsupported { what }) = store.write().map(drop) else {
        panic!("the old files take no more writes");
    };
    assert!(what.contains("replaced"), "{what}");
    let store = Store::open(&path, &options).unwrap();
    let after = store.snapshot();
    assert_eq!(content(&after), wanted);
    assert_eq!(after.fingerprint(), before.fingerprint());
    assert_eq!(
        (after.lsn(), after.checkpoint_id().0),
        (before.lsn(), before.checkpoint_id().0 + 1)
    );
    change(&store, 2);
    let wanted = content(&store.snapshot());
    drop(store);
    assert_eq!(content(&Store::open(&path, &options).unwrap().snapshot()), wanted);
}

#[test]
fn a_compaction_that_is_stopped_or_meets_a_writer_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.ng");
    build(&path);
    let options = OpenOptions { memory: Some(32 << 20), ..OpenOptions::default() };
    let store = Store::open(&path, &options).unwrap();
    change(&store, 3);
    let at_once = OpenOptions { busy_timeout: std::time::Duration::ZERO, ..options.clone() };
    let busy = compact(&path, &at_once, &mut |_, _| true);
    assert!(matches!(busy, Err(UpdateError::Busy { .. })), "{busy:?}");
    store.close_writer().unwrap();
    let wanted = content(&store.snapshot());
    let mut calls = 0;
    let stopped = compact(&path, &options, &mut |_, _| {
        calls += 1;
        calls < 3
    });
    assert!(matches!(stopped, Err(UpdateError::Stopped)), "{stopped:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    assert_eq!(content(&Store::open(&path, &options).unwrap().snapshot()), wanted);
}

#[test]
fn a_compaction_waits_for_a_writer_and_can_be_stopped_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.ng");
    build(&path);
    let patient = OpenOptions {
        memory: Some(32 << 20),
        busy_timeout: std::time::Duration::MAX,
        ..OpenOptions::default()
    };
    let store = Store::open(&path, &patient).unwrap();
    change(&store, 4);
    let mut calls = 0;
    let stopped = compact(&path, &patient, &mut |_, _| {
        calls += 1;
        calls < 3
    });
    assert!(matches!(stopped, Err(UpdateError::Stopped)), "{stopped:?}");
    let wanted = content(&store.snapshot());
    let mut writer = Some(store);
    let mut calls = 0;
    let done = compact(&path, &patient, &mut |_, _| {
        calls += 1;
        if calls == 3 {
            drop(writer.take());
        }
        true
    });
    assert_eq!(done.unwrap().leftover, None);
    assert!(writer.is_none());
    assert_eq!(content(&Store::open(&path, &patient).unwrap().snapshot()), wanted);
}

#[test]
fn two_that_compact_at_once_do_so_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.ng");
    build(&path);
    let options = OpenOptions {
        memory: Some(32 << 20),
        busy_timeout: std::time::Duration::MAX,
        ..OpenOptions::default()
    };
    let checkpoint_id = Store::open(&path, &options).unwrap().snapshot().checkpoint_id().0;
    std::thread::scope(|scope| {
        let each = |_| scope.spawn(|| compact(&path, &options, &mut |_, _| true).unwrap());
        let all: Vec<_> = (0..3).map(each).collect();
        let mut checkpoints: Vec<u64> =
            all.into_iter().map(|one| one.join().unwrap().checkpoint_id).collect();
        checkpoints.sort_unstable();
        assert_eq!(checkpoints, [checkpoint_id + 1, checkpoint_id + 2, checkpoint_id + 3]);
    });
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_store_behind_a_link_is_compacted_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("real.ng"), dir.path().join("link.ng"));
    build(&path);
    std::os::unix::fs::symlink("real.ng", &link).unwrap();
    let options = OpenOptions { memory: Some(32 << 20), ..OpenOptions::default() };
    let store = Store::open(&link, &options).unwrap();
    change(&store, 5);
    let wanted = content(&store.snapshot());
    drop(store);
    let before = Store::open(&path, &options).unwrap().snapshot().checkpoint_id().0;
    let report = compact(&link, &options, &mut |_, _| true).unwrap();
    assert_eq!((report.checkpoint_id, report.leftover), (before + 1, None));
    assert!(link.is_symlink() && !path.is_symlink());
    assert_eq!(content(&Store::open(&path, &options).unwrap().snapshot()), wanted);
    let store = Store::open(&link, &options).unwrap();
    assert_eq!(store.snapshot().checkpoint_id().0, report.checkpoint_id);
    change(&store, 6);
    drop(store);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside it");
}

#[test]
fn a_store_with_links_in_it_is_read_but_nothing_outside_of_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (path, outside) = (dir.path().join("graph.ng"), dir.path().join("outside"));
    build(&path);
    let options = OpenOptions { memory: Some(32 << 20), ..OpenOptions::default() };
    let wanted = content(&Store::open(&path, &options).unwrap().snapshot());
    std::fs::create_dir(&outside).unwrap();
    let mut before = Vec::new();
    for entry in std::fs::read_dir(&path).unwrap() {
        let name = entry.unwrap().file_name();
        std::fs::rename(path.join(&name), outside.join(&name)).unwrap();
        std::os::unix::fs::symlink(outside.join(&name), path.join(&name)).unwrap();
        before.push((name.clone(), std::fs::read(outside.join(&name)).unwrap()));
    }
    let store = Store::open(&path, &options).unwrap();
    assert_eq!(content(&store.snapshot()), wanted);
    let refused = store.write().map(drop).unwrap_err().to_string();
    assert!(refused.contains("symbolic link"), "{refused}");
    let refused = compact(&path, &options, &mut |_, _| true).unwrap_err().to_string();
    assert!(refused.contains("symbolic link"), "{refused}");
    for (name, bytes) in before {
        assert_eq!(std::fs::read(outside.join(&name)).unwrap(), bytes, "{name:?}");
    }
}
