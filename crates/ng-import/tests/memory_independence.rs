//! The same input gives the same bytes, whatever the memory and the threads.

use std::fmt::Write;

use crate::common::{bytes_of, model, open, random_rows, stored};
use ng_import::{Column, EdgeTypeSpec, ImportOptions, Importer, TextOptions};

fn check(rows: usize, nodes: u64, spec: &EdgeTypeSpec) {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list.txt");
    let rows = random_rows(rows, nodes, 23);
    let mut text = String::new();
    for row in &rows {
        let (s, d, t, w) = (row.source, row.destination, row.time, row.weight);
        match (spec.time, spec.weight) {
            (true, true) => writeln!(text, "{s} {d} {t} {w}").unwrap(),
            _ => writeln!(text, "{s} {d}").unwrap(),
        }
    }
    std::fs::write(&list, text).unwrap();
    let mut first = None;
    for memory in [8 << 20, 9_000_001, 40 << 20, 1 << 30] {
        for threads in [1, 2, 3] {
            let path = directory.path().join(format!("{memory}-{threads}.ng"));
            let options = ImportOptions {
                memory: Some(memory),
                threads: Some(threads),
                ..ImportOptions::default()
            };
            let mut import = Importer::new(&path, options).unwrap();
            import.node_type("node", None, false).unwrap();
            let edges = import.edge_type(spec.clone()).unwrap();
            let text = TextOptions {
                time_column: spec.time.then_some(Column::Index(2)),
                weight_column: spec.weight.then_some(Column::Index(3)),
                ..TextOptions::default()
            };
            import.read_text(edges, &list, &text, &mut |_| true).unwrap();
            let report = import.finish(&mut |_| true).unwrap();
            if memory == 8 << 20 && rows.len() > 300_000 {
                assert!(report.temp_bytes > 0, "nothing was spilled");
            }
            let bytes = bytes_of(&path);
            match &first {
                None => {
                    assert!(stored(&open(&path), edges) == model(&rows, spec, nodes));
                    first = Some(bytes);
                }
                Some(first) => {
                    assert!(*first == bytes, "memory {memory}, threads {threads} differ");
                }
            }
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}

#[test]
fn plain_edges_give_the_same_bytes_whatever_the_memory_and_the_threads() {
    let spec = EdgeTypeSpec { undirected: true, ..EdgeTypeSpec::between("node", "edge", "node") };
    check(600_000, 50_000, &spec);
}

#[test]
fn edges_with_every_column_give_the_same_bytes_whatever_the_memory_and_the_threads() {
    let spec = EdgeTypeSpec {
        undirected: true,
        unique: true,
        edge_ids: true,
        time: true,
        weight: true,
        ..EdgeTypeSpec::between("node", "edge", "node")
    };
    check(150_000, 500, &spec);
}

#[test]
fn weights_of_parallel_edges_stay_in_the_order_of_the_file() {
    let spec =
        EdgeTypeSpec { weight: true, time: true, ..EdgeTypeSpec::between("node", "edge", "node") };
    check(150_000, 60, &spec);
}
