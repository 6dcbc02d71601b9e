//! Nodes named by strings: ids are ranks in byte order, and the names are in the store.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::common::{Row, bytes_of, model, open, random_rows, stored, verify};
use ng_import::{Column, EdgeTypeSpec, ImportOptions, Importer, NAME_BYTES_MAX, TextOptions};

fn name(id: u64) -> String {
    // Neither the order of numbers nor of lengths.
    format!("{}-k{}\u{e9}{}", id.wrapping_mul(0x9E37_79B9) % 1000, id, "x".repeat(id as usize % 40))
}

fn ranked(rows: &[Row]) -> (Vec<Row>, Vec<String>) {
    let names: BTreeSet<String> =
        rows.iter().flat_map(|row| [name(row.source), name(row.destination)]).collect();
    let names: Vec<String> = names.into_iter().collect();
    let rank = |id| names.binary_search(&name(id)).unwrap() as u64;
    let row =
        |row: &Row| Row { source: rank(row.source), destination: rank(row.destination), ..*row };
    (rows.iter().map(row).collect(), names)
}

#[test]
fn names_get_their_ranks_whatever_the_memory_and_the_threads() {
    let rows = random_rows(60_000, 30_000, 4);
    let (expected, names) = ranked(&rows);
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list.csv");
    let mut text = "from;to;at;share\n".to_owned();
    for row in &rows {
        let (s, d, t, w) = (name(row.source), name(row.destination), row.time, row.weight);
        writeln!(text, "{s};{d};{t};{w}").unwrap();
    }
    std::fs::write(&list, text).unwrap();
    let spec = EdgeTypeSpec {
        undirected: true,
        edge_ids: true,
        time: true,
        weight: true,
        ..EdgeTypeSpec::between("node", "edge", "node")
    };
    let text = TextOptions {
        header: true,
        time_column: Some(Column::Name("at".to_owned())),
        weight_column: Some(Column::Name("share".to_owned())),
        ..TextOptions::default()
    };
    let mut first = None;
    for (memory, threads) in [(8 << 20, 1), (8 << 20, 2), (1 << 30, 2)] {
        let path = directory.path().join(format!("{memory}-{threads}.ng"));
        let options = ImportOptions {
            memory: Some(memory),
            threads: Some(threads),
            ..ImportOptions::default()
        };
        let mut import = Importer::new(&path, options).unwrap();
        import.node_type("node", None, true).unwrap();
        let edges = import.edge_type(spec.clone()).unwrap();
        import.read_text(edges, &list, &text, &mut |_| true).unwrap();
        import.finish(&mut |_| true).unwrap();
        verify(&path);
        let bytes = bytes_of(&path);
        if let Some(first) = &first {
            assert!(*first == bytes, "memory {memory}, threads {threads}");
            continue;
        }
        let store = open(&path);
        assert!(stored(&store, edges) == model(&expected, &spec, 0));
        let snapshot = store.snapshot();
        let node_type = ng_types::NodeTypeId(0);
        assert_eq!(snapshot.catalog().node_types[0].num_nodes, names.len() as u64);
        let all: Vec<u64> = (0..names.len() as u64).collect();
        assert!(snapshot.names(node_type, &all).unwrap() == names);
        let keys: Vec<&str> = names.iter().map(String::as_str).chain(["absent"]).collect();
        let mut found: Vec<Option<u64>> = all.iter().map(|id| Some(*id)).collect();
        found.push(None);
        assert!(snapshot.lookup_strings(node_type, &keys).unwrap() == found);
        first = Some(bytes);
    }
}

#[test]
fn two_node_types_have_names_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.ng");
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    import.node_type("user", None, true).unwrap();
    import.node_type("item", None, true).unwrap();
    let spec = EdgeTypeSpec { reverse: true, ..EdgeTypeSpec::between("user", "buys", "item") };
    let edges = import.edge_type(spec).unwrap();
    let (sources, destinations) = (["zoe", "ann", "zoe"], ["pen", "pen", "ink"]);
    import.push_string_edges(edges, &sources, &destinations, None, None).unwrap();
    import.finish(&mut |_| true).unwrap();
    let store = open(&path);
    let lists = stored(&store, edges);
    let sources = |id: u64| lists[&id].iter().map(|entry| entry.source).collect::<Vec<_>>();
    assert_eq!((sources(0), sources(1)), (vec![1], vec![0, 1]));
    let names = store.snapshot().names(ng_types::NodeTypeId(1), &[1, 0]).unwrap();
    assert_eq!(names, ["pen", "ink"]);
}

#[test]
fn bad_names_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let check = |name: &str, expected: &str| {
        let path = directory.path().join("store.ng");
        let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
        import.node_type("node", None, true).unwrap();
        let edges = import.edge_type(EdgeTypeSpec::between("node", "edge", "node")).unwrap();
        let error = import.push_string_edges(edges, &["a", "b"], &["c", name], None, None);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("", "row 1: a string id is empty");
    check(&"x".repeat(NAME_BYTES_MAX + 1), "row 1: a string id has 1025 bytes");
}
