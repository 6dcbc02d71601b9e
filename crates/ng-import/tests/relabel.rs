//! Sparse integers and keys of tables become ids 0, 1, 2, ..., and the store keeps the originals.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::common::{Row, bytes_of, model, open, random_rows, stored, verify};
use ng_import::{EdgeTypeSpec, IdSlice, ImportOptions, Importer, TextOptions};

/// A sparse integer of any length, so that the orders of numbers and of texts differ.
fn sparse(id: u64) -> u64 {
    id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (1 + id % 60)
}

#[test]
fn relabelled_integers_ascend_and_are_kept_whatever_the_memory_and_the_way_in() {
    let seed = 11;
    println!("seed {seed}");
    let rows = random_rows(40_000, 20_000, seed);
    let ids: BTreeSet<u64> =
        rows.iter().flat_map(|row| [sparse(row.source), sparse(row.destination)]).collect();
    let ids: Vec<u64> = ids.into_iter().collect();
    let rank = |id| ids.binary_search(&sparse(id)).unwrap() as u64;
    let ranked =
        |row: &Row| Row { source: rank(row.source), destination: rank(row.destination), ..*row };
    let expected: Vec<Row> = rows.iter().map(ranked).collect();
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list.txt");
    let mut text = String::new();
    for row in &rows {
        writeln!(text, "{} {}", sparse(row.source), sparse(row.destination)).unwrap();
    }
    std::fs::write(&list, text).unwrap();
    let sources: Vec<u64> = rows.iter().map(|row| sparse(row.source)).collect();
    let destinations: Vec<u64> = rows.iter().map(|row| sparse(row.destination)).collect();
    let spec = EdgeTypeSpec {
        undirected: true,
        edge_ids: true,
        ..EdgeTypeSpec::between("node", "edge", "node")
    };
    let mut first = None;
    for (memory, from_text) in [(8 << 20, true), (8 << 20, false), (1 << 30, true)] {
        let path = directory.path().join(format!("{memory}-{from_text}.ng"));
        let options = ImportOptions { memory: Some(memory), ..ImportOptions::default() };
        let mut import = Importer::new(&path, options).unwrap();
        import.relabelled_node_type("node").unwrap();
        let edges = import.edge_type(spec.clone()).unwrap();
        if from_text {
            import.read_text(edges, &list, &TextOptions::default(), &mut |_| true).unwrap();
        } else {
            let (from, to) = (IdSlice::U64(&sources), IdSlice::U64(&destinations));
            import.push_edges(edges, from, to, None, None, None).unwrap();
        }
        let report = import.finish(&mut |_| true).unwrap();
        assert!(report.notes.iter().all(|note| note.code == "doubled-edges"), "{report:?}");
        verify(&path);
        let bytes = bytes_of(&path);
        if let Some(first) = &first {
            assert!(*first == bytes, "memory {memory}, text {from_text}");
            continue;
        }
        let store = open(&path);
        assert!(stored(&store, edges) == model(&expected, &spec, 0));
        let all: Vec<u64> = (0..ids.len() as u64).collect();
        let names: Vec<String> = ids.iter().map(u64::to_string).collect();
        let snapshot = store.snapshot();
        let node_type = ng_types::NodeTypeId(0);
        assert!(snapshot.names(node_type, &all).unwrap() == names);
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        let found: Vec<Option<u64>> = all.iter().map(|id| Some(*id)).collect();
        assert!(snapshot.lookup_strings(node_type, &keys).unwrap() == found);
        first = Some(bytes);
    }
}

#[test]
fn numbers_that_cannot_be_relabelled_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.ng");
    let check = |ids: IdSlice<'_>, expected: &str| {
        let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
        import.relabelled_node_type("node").unwrap();
        let edges = import.edge_type(EdgeTypeSpec::between("node", "edge", "node")).unwrap();
        let error = import.push_edges(edges, ids, ids, None, None, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(IdSlice::I64(&[3, -1]), "row 1: source -1 is negative");
    check(IdSlice::I64(&[i64::MIN]), "is negative");
    assert!(!path.exists());
}

fn keyed(path: &std::path::Path, memory: u64, keys: &[String]) -> Importer {
    let options = ImportOptions { memory: Some(memory), ..ImportOptions::default() };
    let mut import = Importer::new(path, options).unwrap();
    let nodes = import.node_type("node", None, true).unwrap();
    import.edge_type(EdgeTypeSpec::between("node", "edge", "node")).unwrap();
    for part in keys.chunks(1000) {
        let part: Vec<&str> = part.iter().map(String::as_str).collect();
        import.push_keys(nodes, &part).unwrap();
    }
    import
}

#[test]
fn keys_of_a_table_number_nodes_by_row_whatever_the_memory() {
    let directory = tempfile::tempdir().unwrap();
    let keys: Vec<String> =
        (0..60_000).map(|row| format!("k{}", sparse(row) % 1_000_003)).collect();
    let keys: Vec<String> = {
        let mut seen = BTreeSet::new();
        keys.into_iter().filter(|key| seen.insert(key.clone())).collect()
    };
    let at = |row: usize| keys[row % keys.len()].as_str();
    let sources: Vec<&str> = (0..30_000).map(|row| at(7 * row)).collect();
    let destinations: Vec<&str> = (0..30_000).map(|row| at(row * row)).collect();
    for memory in [8 << 20, 1 << 30] {
        let path = directory.path().join(format!("{memory}.ng"));
        let mut import = keyed(&path, memory, &keys);
        let edges = ng_types::EdgeTypeId(0);
        import.push_string_edges(edges, &sources, &destinations, None, None).unwrap();
        import.finish(&mut |_| true).unwrap();
        verify(&path);
        let store = open(&path);
        let all: Vec<u64> = (0..keys.len() as u64).collect();
        assert!(store.snapshot().names(ng_types::NodeTypeId(0), &all).unwrap() == keys);
        let rows: Vec<Row> = (0..30_000)
            .map(|row| Row {
                source: (7 * row % keys.len()) as u64,
                destination: (row * row % keys.len()) as u64,
                edge_id: row as u64,
                time: 0,
                weight: 0.0,
            })
            .collect();
        let spec = EdgeTypeSpec::between("node", "edge", "node");
        assert!(stored(&store, edges) == model(&rows, &spec, 0));
    }
}

#[test]
fn keys_that_occur_twice_and_names_without_a_key_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = |case: u8| directory.path().join(format!("{case}.ng"));
    let keys = ["a".to_owned(), "b".to_owned()];
    let mut import = keyed(&path(1), 8 << 20, &keys);
    let error = import.push_keys(ng_types::NodeTypeId(0), &["a"]).unwrap_err().to_string();
    assert!(error.contains("rows 0 and 2 of the nodes have the same key \"a\""), "{error}");
    let mut import = keyed(&path(2), 8 << 20, &keys);
    let edges = ng_types::EdgeTypeId(0);
    import.push_string_edges(edges, &["a"], &["zoe"], None, None).unwrap();
    let error = import.finish(&mut |_| true).unwrap_err().to_string();
    assert!(
        error.contains("an edge names the node \"zoe\", which the node table lacks"),
        "{error}"
    );
    let mut import = keyed(&path(3), 8 << 20, &keys);
    import.push_string_edges(edges, &["a"], &["b"], None, None).unwrap();
    import.push_string_edges(edges, &["zoe"], &["b"], None, None).unwrap();
    let error = import.push_keys(ng_types::NodeTypeId(0), &["c"]).unwrap_err().to_string();
    assert!(error.contains("keys of nodes must be pushed before edges"), "{error}");
    assert!((1..4).all(|case| !path(case).exists()));
}
