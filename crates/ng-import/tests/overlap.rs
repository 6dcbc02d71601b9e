//! Tensors stream to disk while the topology is built, and the report says how much of that was
//! hidden; HolisticGNN, Figure 18.

#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use common::{model, open, random_rows, stored, verify};
use ng_import::{EdgeTypeSpec, IdSlice, ImportOptions, Importer};
use ng_store::{Owner, TensorRef};
use ng_types::Dtype;

#[test]
fn tensors_that_outlast_the_topology_hide_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.ng");
    let rows = random_rows(50_000, 2_000, 12);
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    let node = import.node_type("node", Some(2_000), false).unwrap();
    let spec = EdgeTypeSpec { edge_ids: true, ..EdgeTypeSpec::between("node", "edge", "node") };
    let edges = import.edge_type(spec.clone()).unwrap();
    let sources: Vec<u64> = rows.iter().map(|row| row.source).collect();
    let destinations: Vec<u64> = rows.iter().map(|row| row.destination).collect();
    let (sources, destinations) = (IdSlice::U64(&sources), IdSlice::U64(&destinations));
    import.push_edges(edges, sources, destinations, None, None, None).unwrap();
    let x = import.begin_tensor(Owner::Node(node), "x", Dtype::F32, &[3], None).unwrap();
    let kind = import.begin_tensor(Owner::Edge(edges), "kind", Dtype::I64, &[], None).unwrap();
    import.build_topology().unwrap();
    for id in 0..2_000_u32 {
        let row: Vec<u8> = (0..3).flat_map(|i| ((id * 3 + i) as f32).to_le_bytes()).collect();
        import.push_rows(x, &row).unwrap();
    }
    // The caller has more to read for the tensors than the topology takes.
    std::thread::sleep(Duration::from_secs(2));
    for id in 0..50_000_u64 {
        import.push_rows(kind, &(id * id).to_le_bytes()).unwrap();
    }
    let report = import.finish(&mut |_| true).unwrap();
    assert!(report.hidden_share > 0.95, "{report:?}");
    assert!(report.topology_seconds < report.tensor_seconds);
    verify(&path);
    let store = open(&path);
    assert!(stored(&store, edges) == model(&rows, &spec, 2_000));
    let snapshot = store.snapshot();
    let mut out = vec![0; 16];
    let kind = TensorRef { owner: Owner::Edge(edges), index: 0 };
    snapshot.gather(kind, &[49_999, 3], &mut out).unwrap();
    assert_eq!(out[..8], (49_999_u64 * 49_999).to_le_bytes());
    assert_eq!(out[8..], 9_u64.to_le_bytes());
    let mut out = vec![0; 12];
    let x = TensorRef { owner: Owner::Node(node), index: 0 };
    snapshot.gather(x, &[1_999], &mut out).unwrap();
    assert_eq!(out[8..], 5_999_f32.to_le_bytes());
}

#[test]
fn a_topology_without_tensors_hides_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.ng");
    let import = Importer::new(&path, ImportOptions::default()).unwrap();
    let report = import.finish(&mut |_| true).unwrap();
    assert!(report.hidden_share.abs() < f64::EPSILON);
}

/// Bytes on disk of files below `directory` that have no name, as the runs of a sort.
fn unnamed_bytes(directory: &std::path::Path) -> u64 {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let runs = open.filter(|file| {
        let target = std::fs::read_link(file.path()).unwrap_or_default();
        target.starts_with(directory) && target.to_string_lossy().ends_with(" (deleted)")
    });
    runs.map(|file| std::fs::metadata(file.path()).map_or(0, |data| data.blocks() * 512)).sum()
}

#[test]
fn the_runs_of_the_sort_are_gone_before_rows_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.ng");
    let rows = random_rows(600_000, 2_000, 5);
    let options = ImportOptions { memory: Some(8 << 20), ..ImportOptions::default() };
    let mut import = Importer::new(&path, options).unwrap();
    let node = import.node_type("node", Some(2_000), false).unwrap();
    let spec = EdgeTypeSpec::between("node", "edge", "node");
    let edges = import.edge_type(spec.clone()).unwrap();
    let sources: Vec<u64> = rows.iter().map(|row| row.source).collect();
    let destinations: Vec<u64> = rows.iter().map(|row| row.destination).collect();
    let (sources, destinations) = (IdSlice::U64(&sources), IdSlice::U64(&destinations));
    import.push_edges(edges, sources, destinations, None, None, None).unwrap();
    assert!(unnamed_bytes(directory.path()) > 600_000 * 8 / 2);
    import.build_topology().unwrap();
    let mut reports = 0;
    let mut count = |_| {
        reports += 1;
        true
    };
    import.wait_for_topology(&mut count).unwrap();
    assert_eq!(unnamed_bytes(directory.path()), 0);
    import.wait_for_topology(&mut |_| true).unwrap();
    let x = import.begin_tensor(Owner::Node(node), "x", Dtype::I64, &[], None).unwrap();
    (0..2_000_i64).for_each(|id| import.push_rows(x, &id.to_le_bytes()).unwrap());
    let report = import.finish(&mut |_| true).unwrap();
    assert!(report.hidden_share.abs() < f64::EPSILON);
    assert!(report.temp_bytes > 600_000 * 8 / 2, "{report:?}");
    verify(&path);
    assert!(stored(&open(&path), edges) == model(&rows, &spec, 2_000));
}

#[test]
fn a_wait_for_the_topology_that_is_stopped_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.ng");
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    import.node_type("node", None, false).unwrap();
    let edges = import.edge_type(EdgeTypeSpec::between("node", "edge", "node")).unwrap();
    let ids: Vec<u32> = (0..3_000_000_u32).map(|i| i.wrapping_mul(0x9E37_79B9) >> 8).collect();
    let (sources, destinations) = (IdSlice::U32(&ids), IdSlice::U32(&ids));
    import.push_edges(edges, sources, destinations, None, None, None).unwrap();
    assert!(import.wait_for_topology(&mut |_| false).is_err());
    assert!(import.push_edges(edges, sources, destinations, None, None, None).is_err());
    assert!(common::names_in(directory.path()).is_empty());
}

#[test]
fn an_import_dropped_in_the_middle_of_the_topology_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.ng");
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    import.node_type("node", None, false).unwrap();
    let edges = import.edge_type(EdgeTypeSpec::between("node", "edge", "node")).unwrap();
    let ids: Vec<u32> = (0..3_000_000_u32).map(|i| i.wrapping_mul(0x9E37_79B9) >> 8).collect();
    let turned: Vec<u32> = ids.iter().rev().copied().collect();
    let (sources, destinations) = (IdSlice::U32(&ids), IdSlice::U32(&turned));
    import.push_edges(edges, sources, destinations, None, None, None).unwrap();
    import.build_topology().unwrap();
    drop(import);
    assert!(common::names_in(directory.path()).is_empty());
}
