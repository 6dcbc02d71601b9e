//! A copy of a store with narrower rows: all else is the same, the store is only read, and there is
//! a whole copy or none.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::seeded;
use ng_store::{
    BuildOptions, EdgeData, EdgeTypeSpec, Expansion, OpenOptions, Owner, RowOrder, Snapshot,
    SparseValue, Store, StoreBuilder, TensorSpec, UpdateError, narrow, reorganize, verify,
};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODES: u64 = 3000;
const NODE: NodeTypeId = NodeTypeId(0);
const WIDTH: u64 = 5;

fn options() -> OpenOptions {
    OpenOptions { memory: Some(32 << 20), ..OpenOptions::default() }
}

fn value(node: u64, column: u64) -> f32 {
    ((node * 7 + column * 13) % 401) as f32 / 100.0 - 2.0
}

fn spec(name: &str, dtype: Dtype, shape: &[u64]) -> TensorSpec {
    TensorSpec { name: name.into(), dtype, shape: shape.to_vec(), mask_width: None }
}

fn build(path: &Path) {
    std::fs::create_dir(path).unwrap();
    let mut builder = StoreBuilder::create(path, BuildOptions::default()).unwrap();
    let node = builder.node_type("node", NODES).unwrap();
    let edges = builder
        .edge_type(EdgeTypeSpec {
            source: node,
            relation: "to".into(),
            destination: node,
            undirected: true,
            unique: false,
            has_edge_ids: true,
            has_time: true,
            has_weight: false,
        })
        .unwrap();
    builder.set_reverse(edges, edges).unwrap();
    let part = builder.topology(edges).unwrap().finish().unwrap();
    builder.add(part).unwrap();
    let owner = Owner::Node(node);
    let mut x = builder.tensor(owner, spec("x", Dtype::F32, &[WIDTH])).unwrap();
    for node in 0..NODES {
        let row = (0..WIDTH).flat_map(|column| value(node, column).to_le_bytes());
        x.push_rows(&row.collect::<Vec<u8>>()).unwrap();
    }
    builder.add(x.finish().unwrap()).unwrap();
    for (name, dtype, shape) in
        [("h", Dtype::F16, vec![3]), ("y", Dtype::F32, vec![]), ("c", Dtype::I64, vec![2])]
    {
        let mut rows = builder.tensor(owner, spec(name, dtype, &shape)).unwrap();
        let bytes = vec![0x12; NODES as usize * rows.row_bytes()];
        rows.push_rows(&bytes).unwrap();
        builder.add(rows.finish().unwrap()).unwrap();
    }
    let sparse = spec("s", Dtype::F32, &[90]);
    let mut rows = builder.sparse_tensor(owner, sparse, SparseValue::F32).unwrap();
    (0..NODES).for_each(|node| rows.push_row(&[(node % 90) as u32], &[node as f32 + 0.5]).unwrap());
    builder.add(rows.finish().unwrap()).unwrap();
    builder.commit().unwrap();
}

/// In another order, with commits that no checkpoint has: a node that is gone, and edges.
fn changed(path: &Path) -> Store {
    let mut orders = |snapshot: &Arc<Snapshot>| {
        let mut ids: Vec<u32> = (0..NODES as u32).collect();
        let mut random = seeded(3);
        (1..ids.len()).rev().for_each(|at| ids.swap(at, random.below(at as u64 + 1) as usize));
        let held = snapshot.reserve(RowOrder::bytes_for(NODES)).unwrap();
        Ok::<_, UpdateError>(vec![(NODE, RowOrder::of(&ids, held)?)])
    };
    reorganize(path, &options(), &mut orders, &mut |_, _| true).unwrap();
    let store = Store::open(path, &options()).unwrap();
    let mut tx = store.write().unwrap();
    for at in 0..200 {
        let data = EdgeData { time: at, weight: 0.0 };
        tx.add_edge(EdgeTypeId(0), at as u64 % 50, at as u64 * 7, data).unwrap();
    }
    tx.delete_node(NODE, 17).unwrap();
    let node = tx.add_node(NODE).unwrap();
    let x = tx.tensor(Owner::Node(NODE), "x").unwrap();
    let row: Vec<u8> = (0..WIDTH).flat_map(|c| value(node, c).to_le_bytes()).collect();
    tx.set_rows(x, &[node], &row).unwrap();
    tx.commit().unwrap();
    store
}

fn floats(snapshot: &Snapshot, name: &str) -> Vec<f32> {
    let tensor = snapshot.catalog().find_tensor(Owner::Node(NODE), name).unwrap();
    let decoder = snapshot.decoder(tensor, Dtype::F32).unwrap();
    let ids: Vec<u64> = (0..=NODES).collect();
    let mut out = vec![0; ids.len() * decoder.out_bytes()];
    snapshot.gather_decoded(tensor, &decoder, &ids, &mut out).unwrap();
    out.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn lists(snapshot: &Snapshot) -> Expansion {
    let (mut lists, nodes) = (Expansion::default(), (0..=NODES).collect::<Vec<_>>());
    snapshot.neighbors(EdgeTypeId(0), &nodes, &mut lists).unwrap();
    lists
}

fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

#[test]
fn a_narrow_copy_differs_by_its_rounding_alone_and_the_store_is_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("wide.ng"), folder.path().join("narrow.ng"));
    build(&path);
    let store = changed(&path);
    let snapshot = store.snapshot();
    let before = files(&path);
    for (to, error, bytes) in [(Dtype::F16, 0.002, 2), (Dtype::Bf16, 0.01, 2), (Dtype::I8, 0.01, 1)]
    {
        let report = narrow(&snapshot, &copy, to, &mut |done, total| done <= total).unwrap();
        assert_eq!((report.checkpoint_id, report.leftover), (1, None));
        let found = verify(&copy, &options(), &mut |_, _| true).unwrap();
        assert!(found.is_ok(), "{found:?}");
        let made = Store::open(&copy, &options()).unwrap();
        let narrowed = made.snapshot();
        let catalog = narrowed.catalog();
        let dtypes: Vec<Dtype> = catalog.node_types[0].tensors.iter().map(|t| t.dtype).collect();
        let h = if to == Dtype::I8 { Dtype::I8 } else { Dtype::F16 };
        assert_eq!(dtypes, [to, h, Dtype::F32, Dtype::I64, Dtype::F32]);
        assert_eq!(catalog.node_types[0].tensors[0].row_bytes(), WIDTH * bytes);
        assert_eq!(lists(&narrowed), lists(&snapshot));
        assert_eq!(narrowed.dead_nodes(NODE).unwrap(), [17]);
        assert!(catalog.node_types[0].has_order() && narrowed.lsn() == 0);
        assert_ne!(narrowed.fingerprint(), snapshot.fingerprint());
        for name in ["x", "y", "s"] {
            let pairs = floats(&narrowed, name).into_iter().zip(floats(&snapshot, name));
            let most = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let allowed = if name == "x" { error } else { 0.0 };
            assert!(most <= allowed, "{name} as {to} is off by {most}");
            assert!(name != "x" || most > 0.0, "nothing was rounded");
        }
    }
    assert_eq!(files(&path), before);
}

#[test]
fn what_cannot_be_narrowed_is_refused_by_its_node_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("wide.ng"), folder.path().join("narrow.ng"));
    build(&path);
    let store = changed(&path);
    let x = store.snapshot().catalog().find_tensor(Owner::Node(NODE), "x").unwrap();
    for (bad, node, to, says) in [
        (f32::NAN, 77_u64, Dtype::I8, "column 2 of node 77 is NaN, which i8 cannot represent"),
        (1e6, 78, Dtype::F16, "column 2 of node 78 is 1000000, which f16 cannot represent"),
    ] {
        let mut tx = store.write().unwrap();
        let row: Vec<u8> = [0.0, 0.0, bad, 0.0, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        tx.set_rows(x, &[node], &row).unwrap();
        tx.commit().unwrap();
        let refused = narrow(&store.snapshot(), &copy, to, &mut |_, _| true).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
        let mut tx = store.write().unwrap();
        tx.set_rows(x, &[node], &[0; 20]).unwrap();
        tx.commit().unwrap();
    }
    let snapshot = store.snapshot();
    let mut calls = 0;
    let stopped = narrow(&snapshot, &copy, Dtype::Bf16, &mut |_, _| {
        calls += 1;
        calls < 4
    });
    assert!(matches!(stopped, Err(UpdateError::Stopped)));
    for to in [Dtype::F32, Dtype::I64] {
        assert!(narrow(&snapshot, &copy, to, &mut |_, _| true).is_err());
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    narrow(&snapshot, &copy, Dtype::I8, &mut |_, _| true).unwrap();
    let again = Store::open(&copy, &options()).unwrap();
    let refused = narrow(&again.snapshot(), &path.with_extension("b"), Dtype::I8, &mut |_, _| true);
    assert!(refused.unwrap_err().to_string().contains("wider than i8"));
}
