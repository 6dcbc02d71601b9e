//! Rows in another order than nodes: ids stay, whatever is read, changed, compacted or damaged.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::seeded;
use ng_store::{
    BuildOptions, EdgeData, EdgeTypeSpec, Expansion, NodeTypeMeta, OpenOptions, Owner, ReadError,
    RowOrder, Snapshot, SparseValue, Store, StoreBuilder, TensorRef, TensorSpec, UpdateError,
    compact, reorganize, reorganize_bytes, verify,
};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODES: u64 = 12_000;
const NODE: NodeTypeId = NodeTypeId(0);
const OTHER: NodeTypeId = NodeTypeId(1);
const EDGES: EdgeTypeId = EdgeTypeId(0);
const X: TensorRef = TensorRef { owner: Owner::Node(NODE), index: 0 };

fn options() -> OpenOptions {
    OpenOptions { memory: Some(24 << 20), ..OpenOptions::default() }
}

/// Tensors of every kind: wide, narrow, scaled, sparse; another node type without an order.
fn build(path: &Path) {
    std::fs::create_dir(path).unwrap();
    let options = BuildOptions { reuse_ids: true, ..BuildOptions::default() };
    let mut builder = StoreBuilder::create(path, options).unwrap();
    let node = builder.node_type("node", NODES).unwrap();
    let other = builder.node_type("other", 50).unwrap();
    let spec = EdgeTypeSpec {
        source: node,
        relation: "to".into(),
        destination: node,
        undirected: true,
        unique: false,
        has_edge_ids: true,
        has_time: false,
        has_weight: false,
    };
    let edges = builder.edge_type(spec).unwrap();
    builder.set_reverse(edges, edges).unwrap();
    let part = builder.topology(edges).unwrap().finish().unwrap();
    builder.add(part).unwrap();
    let spec = |name: &str, dtype, width: u64| TensorSpec {
        name: name.into(),
        dtype,
        shape: if width == 1 { vec![] } else { vec![width] },
        mask_width: None,
    };
    let mut random = seeded(5);
    for (owner, count, spec) in [
        (Owner::Node(node), NODES, spec("x", Dtype::F32, 256)),
        (Owner::Node(node), NODES, spec("y", Dtype::I64, 1)),
        (Owner::Node(other), 50, spec("x", Dtype::F32, 7)),
    ] {
        let mut rows = builder.tensor(owner, spec).unwrap();
        for _ in 0..count {
            let bytes = random.bytes(rows.row_bytes());
            rows.push_rows(&bytes).unwrap();
        }
        builder.add(rows.finish().unwrap()).unwrap();
    }
    let (owner, scales) = (Owner::Node(node), [0.5, 2.0, 0.0, 1.0, 3.0]);
    let mut rows = builder.scaled_tensor(owner, spec("q", Dtype::I8, 5), &scales).unwrap();
    let bytes: Vec<u8> = (0..NODES * 5).map(|at| (at % 100) as u8).collect();
    rows.push_rows(&bytes).unwrap();
    builder.add(rows.finish().unwrap()).unwrap();
    let sparse = spec("s", Dtype::F32, 90);
    let mut rows = builder.sparse_tensor(owner, sparse, SparseValue::F32).unwrap();
    for node in 0..NODES {
        let columns: Vec<u32> = (0..(node % 5) as u32).map(|step| step * 17 + 3).collect();
        let values: Vec<f32> = columns.iter().map(|c| *c as f32 + node as f32).collect();
        rows.push_row(&columns, &values).unwrap();
    }
    builder.add(rows.finish().unwrap()).unwrap();
    builder.commit().unwrap();
}

fn shuffled(snapshot: &Snapshot, seed: u64) -> RowOrder {
    let count = snapshot.catalog().node_types[0].num_nodes;
    let mut ids: Vec<u32> = (0..count as u32).collect();
    let mut random = seeded(seed);
    for at in (1..ids.len()).rev() {
        ids.swap(at, random.below(at as u64 + 1) as usize);
    }
    RowOrder::of(&ids, snapshot.reserve(RowOrder::bytes_for(count)).unwrap()).unwrap()
}

fn shuffle(path: &Path, seed: u64) {
    let mut orders =
        |snapshot: &Arc<Snapshot>| Ok::<_, UpdateError>(vec![(NODE, shuffled(snapshot, seed))]);
    reorganize(path, &options(), &mut orders, &mut |done, total| {
        assert!(done <= total);
        true
    })
    .unwrap();
}

/// All rows of all node tensors by id, and all lists.
fn content(snapshot: &Snapshot) -> (Vec<Vec<u8>>, Expansion) {
    let catalog = snapshot.catalog();
    let rows = catalog.tensor_refs().map(|tensor| {
        let meta = catalog.tensor(tensor).unwrap();
        let mut out = vec![0; (meta.num_rows * meta.row_bytes()) as usize];
        let ids: Vec<u64> = (0..meta.num_rows).collect();
        let width = meta.row_bytes() as usize;
        for (ids, out) in ids.chunks(997).zip(out.chunks_mut(997 * width)) {
            snapshot.gather(tensor, ids, out).unwrap();
        }
        out
    });
    let rows = rows.collect();
    let mut lists = Expansion::default();
    let nodes: Vec<u64> = (0..catalog.node_types[0].num_nodes).collect();
    snapshot.neighbors(EDGES, &nodes, &mut lists).unwrap();
    (rows, lists)
}

fn open(path: &Path) -> Store {
    Store::open(path, &options()).unwrap()
}

fn check(path: &Path) {
    let report = verify(path, &options(), &mut |_, _| true).unwrap();
    assert!(report.is_ok(), "{report:?}");
}

fn change(store: &Store, seed: u64) {
    let mut random = seeded(seed);
    for _ in 0..4 {
        let mut tx = store.write().unwrap();
        let y = tx.tensor(Owner::Node(NODE), "y").unwrap();
        for _ in 0..20 {
            let node = random.below(NODES);
            drop(tx.set_row(X, node, &random.bytes(1024)));
            drop(tx.set_row(y, node, &random.bytes(8)));
            drop(tx.add_edge(EDGES, node, random.below(NODES), EdgeData::default()));
        }
        // Some ids come again with rows of zeros, others are new.
        drop(tx.delete_node(NODE, random.below(NODES)));
        let id = tx.add_node(NODE).unwrap();
        tx.set_row(X, id, &random.bytes(1024)).unwrap();
        tx.add_node(NODE).unwrap();
        tx.commit().unwrap();
    }
}

#[test]
fn rows_in_a_new_order_are_read_by_the_same_ids_and_can_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, plain) = (dir.path().join("a.ng"), dir.path().join("b.ng"));
    build(&path);
    build(&plain);
    let wanted = content(&open(&path).snapshot());
    shuffle(&path, 1);
    check(&path);
    let types = |store: &Store| -> Vec<bool> {
        store.snapshot().catalog().node_types.iter().map(NodeTypeMeta::has_order).collect()
    };
    assert_eq!(types(&open(&path)), [true, false]);
    assert!(content(&open(&path).snapshot()) == wanted);
    // The same updates do the same, in the log, after a checkpoint, after a compaction.
    for step in 0..3 {
        let (store, other) = (open(&path), open(&plain));
        change(&store, step);
        change(&other, step);
        let wanted = content(&other.snapshot());
        assert!(content(&store.snapshot()) == wanted, "step {step}");
        drop((store, other));
        check(&path);
        assert!(content(&open(&path).snapshot()) == wanted, "step {step}, opened again");
        let before = open(&path).snapshot();
        match step {
            0 => drop(compact(&path, &options(), &mut |_, _| true).unwrap()),
            _ => shuffle(&path, 10 + step),
        }
        check(&path);
        assert!(content(&before) == wanted, "a handle on the old files");
        let store = open(&path);
        assert_eq!(types(&store), [true, false]);
        assert!(content(&store.snapshot()) == wanted, "step {step}, written anew");
        let held = store.snapshot().load_order(NODE).unwrap().unwrap();
        assert_eq!(held.num_bytes(), store.snapshot().order_bytes(NODE));
        assert!(content(&store.snapshot()) == wanted, "step {step}, with the order in memory");
    }
}

#[test]
fn the_rows_of_a_scan_belong_to_the_nodes_that_the_inverse_order_tells() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ng");
    build(&path);
    shuffle(&path, 3);
    let store = open(&path);
    let snapshot = store.snapshot();
    let order = snapshot.load_order(NODE).unwrap().unwrap();
    let nodes = snapshot.load_nodes_of_rows(NODE).unwrap().unwrap();
    assert!((0..NODES).all(|id| nodes.row(order.row(id)) == id));
    assert!((0..100).any(|id| order.row(id) != id));
    let mut seen = 0;
    snapshot
        .scan_tensor::<ng_store::ReadError>(X, &mut |first, bytes| {
            for (row, bytes) in (first..).zip(bytes.chunks_exact(1024)).step_by(501) {
                let mut out = [0; 1024];
                snapshot.gather(X, &[nodes.row(row)], &mut out)?;
                assert!(out == bytes, "row {row}");
                seen += 1;
            }
            Ok(())
        })
        .unwrap();
    assert!(seen > 20);
    assert!(snapshot.load_nodes_of_rows(OTHER).unwrap().is_none());
}

#[test]
fn a_reorganisation_that_is_stopped_or_given_no_order_of_all_nodes_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ng");
    build(&path);
    let wanted = content(&open(&path).snapshot());
    let space = reorganize_bytes(&open(&path).snapshot(), &[NODE]);
    let files = open(&path).snapshot().catalog().disk_bytes();
    assert!(space > files + NODES * 1024, "{space}: rows go through a temporary file");
    let mut calls = 0;
    let mut orders =
        |snapshot: &Arc<Snapshot>| Ok::<_, UpdateError>(vec![(NODE, shuffled(snapshot, 4))]);
    let stopped = reorganize(&path, &options(), &mut orders, &mut |_, _| {
        calls += 1;
        calls < 9
    });
    assert!(matches!(stopped, Err(UpdateError::Stopped)), "{stopped:?}");
    let mut short = |snapshot: &Arc<Snapshot>| {
        let order = RowOrder::of(&[1, 0], snapshot.reserve(6).unwrap()).unwrap();
        Ok::<_, UpdateError>(vec![(NODE, order)])
    };
    let refused = reorganize(&path, &options(), &mut short, &mut |_, _| true).unwrap_err();
    assert!(refused.to_string().contains("the order has 2 nodes"), "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    assert!(content(&open(&path).snapshot()) == wanted);
}

#[test]
fn damage_of_an_order_is_found_by_whoever_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ng");
    build(&path);
    shuffle(&path, 6);
    // The order is the one segment of rows of 3 bytes: 9 pages for 12,000 nodes.
    let is_order = |path: &std::path::PathBuf| {
        let len = std::fs::metadata(path).unwrap().len();
        path.extension().is_some_and(|e| e == "dat") && len == NODES.div_ceil(1365) * 4096
    };
    let files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<_> = files.filter(is_order).collect();
    let [file] = found.as_slice() else { panic!("{found:?}") };
    let mut bytes = std::fs::read(file).unwrap();
    bytes[4096 + 30] ^= 1;
    std::fs::write(file, bytes).unwrap();
    let report = verify(&path, &options(), &mut |_, _| true).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(report.problems.iter().any(|p| p.file == name && p.page == Some(1)), "{report:?}");
    let store = open(&path);
    let snapshot = store.snapshot();
    let mut row = [0; 1024];
    snapshot.gather(X, &[0], &mut row).unwrap();
    for result in
        [snapshot.gather(X, &[1400], &mut row).map(drop), snapshot.load_order(NODE).map(drop)]
    {
        assert!(matches!(result, Err(ReadError::Checksum { .. })), "{result:?}");
    }
}
