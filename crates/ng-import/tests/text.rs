//! Text files: what is read from every dialect, and what is said about every defect.

use std::io::Write;

use crate::common::{names_in, open, stored};
use flate2::Compression;
use flate2::write::GzEncoder;
use ng_import::{
    Column, EdgeTypeSpec, End, ImportError, ImportOptions, Importer, TextOptions, TextPreview,
};
use ng_types::{Explain, Remedy};

/// Imports a text with 10 nodes declared; gives (source, destination, time, weight) by row, or the
/// error after the name of the file.
fn import(text: &[u8], options: &TextOptions) -> Result<Vec<(u64, u64, i64, f32)>, String> {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list.txt");
    std::fs::write(&list, text).unwrap();
    let path = directory.path().join("store.ng");
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    import.node_type("node", Some(10), false).unwrap();
    let spec = EdgeTypeSpec {
        edge_ids: true,
        time: options.time_column.is_some(),
        weight: options.weight_column.is_some(),
        ..EdgeTypeSpec::between("node", "edge", "node")
    };
    let edges = import.edge_type(spec).unwrap();
    if let Err(error) = import.read_text(edges, &list, options, &mut |_| true) {
        let again = import.finish(&mut |_| true).unwrap_err();
        assert!(again.to_string().contains("failed earlier"), "{again}");
        assert_eq!(names_in(directory.path()), ["list.txt"], "something was left behind");
        return Err(error.to_string().replace(&list.display().to_string(), "FILE"));
    }
    import.finish(&mut |_| true).unwrap();
    let lists = stored(&open(&path), edges);
    let mut rows = Vec::new();
    for (destination, list) in lists {
        for entry in list {
            rows.push((entry.edge_id, entry.source, destination, entry.time, entry.weight));
        }
    }
    rows.sort_by_key(|row| row.0);
    assert!(rows.iter().enumerate().all(|(i, row)| row.0 == i as u64), "{rows:?}");
    Ok(rows.into_iter().map(|(_, s, d, t, w)| (s, d, t, w)).collect())
}

#[track_caller]
fn gives(text: &str, options: &TextOptions, expected: &[(u64, u64)]) {
    let found = import(text.as_bytes(), options).unwrap();
    let ends: Vec<(u64, u64)> = found.iter().map(|row| (row.0, row.1)).collect();
    assert_eq!(ends, expected, "{text:?}");
}

#[track_caller]
fn says(text: &str, options: &TextOptions, expected: &str) {
    let found = import(text.as_bytes(), options).unwrap_err();
    assert!(found.contains(expected), "{text:?}: {found}");
}

#[test]
fn every_dialect_of_edge_lists_is_read() {
    let plain = TextOptions::default();
    gives("", &plain, &[]);
    gives("# nothing\n\n", &plain, &[]);
    gives("1 2\n3 4\n", &plain, &[(1, 2), (3, 4)]);
    gives("1 2\n3 4", &plain, &[(1, 2), (3, 4)]);
    gives("1\t2\r\n3\t4\r\n", &plain, &[(1, 2), (3, 4)]);
    gives("# a comment\n1  \t 2 \n\n  3 4\n# more\n", &plain, &[(1, 2), (3, 4)]);
    gives("1,2\n3, 4\n 5 ,6\n", &plain, &[(1, 2), (3, 4), (5, 6)]);
    gives("1;2\n", &plain, &[(1, 2)]);
    gives("\u{feff}1,2\n", &plain, &[(1, 2)]);
    gives("\"1\",\"2\"\n3,\"4\"\n", &plain, &[(1, 2), (3, 4)]);
    gives("1 2 77\n3 4 x\n", &plain, &[(1, 2), (3, 4)]);
    gives("007 0000000000000000000002\n", &plain, &[(7, 2)]);
    let percent = TextOptions { comment: Some("%".to_owned()), ..plain.clone() };
    gives("% matrix\n1 2\n", &percent, &[(1, 2)]);
    let header = TextOptions { header: true, ..plain.clone() };
    gives("# first\nid1,id2\n1,2\n", &header, &[(1, 2)]);
    gives("id1,id2\n", &header, &[]);
    let swapped = TextOptions {
        source_column: Column::Index(1),
        destination_column: Column::Index(0),
        ..plain.clone()
    };
    gives("1 2\n3 4\n", &swapped, &[(2, 1), (4, 3)]);
    let named = TextOptions {
        source_column: Column::Name("to".to_owned()),
        destination_column: Column::Name("from".to_owned()),
        ..header
    };
    gives("n,from,to\n0,1,2\n0,3,4\n", &named, &[(2, 1), (4, 3)]);
    let colon = TextOptions { delimiter: Some(b':'), ..plain.clone() };
    gives("1:2\n", &colon, &[(1, 2)]);
    let adjacency = TextOptions { adjacency: true, ..plain };
    gives("1 2 3\n4\n5 6\n", &adjacency, &[(1, 2), (1, 3), (5, 6)]);
}

#[test]
fn times_and_weights_are_read_from_their_columns() {
    let options = TextOptions {
        time_column: Some(Column::Index(3)),
        weight_column: Some(Column::Index(2)),
        ..TextOptions::default()
    };
    let found = import(b"1 2 0.5 -7\n3 4 1e3 12.0\n", &options).unwrap();
    assert_eq!(found, [(1, 2, -7, 0.5), (3, 4, 12, 1000.0)]);
    says("1 2 nan 7\n", &options, "line 1: weight \"nan\" is not finite");
    says("1 2 x 7\n", &options, "line 1: weight \"x\" is not a number");
    says("1 2 1 7.5\n", &options, "line 1: time \"7.5\" is not a whole number");
    let scaled = TextOptions { time_scale: Some(2.0), ..options };
    assert_eq!(import(b"1 2 1 7.5\n", &scaled).unwrap(), [(1, 2, 15, 1.0)]);
}

#[test]
fn every_defect_is_named_with_its_line() {
    let plain = TextOptions::default();
    says(
        "1 2\n3\n",
        &plain,
        "FILE, line 2: 1 columns, but the first line of data has 2; the line is \"3\"",
    );
    says("1 2\n3 4 5\n", &plain, "line 2: 3 columns");
    says("# c\n\n1,2\n3,\n", &plain, "line 4: an id is missing; the line is \"3,\"");
    says("1\n", &plain, "line 1: column 1 is needed (counted from 0), but the line has 1 columns");
    says("1 -2\n", &plain, "line 1: id \"-2\" is negative");
    says("1 2.5\n", &plain, "line 1: id \"2.5\" is not a whole number");
    says("1 1e3\n", &plain, "id \"1e3\" is not a whole number");
    says("id1,id2\n1,2\n", &plain, "line 1: \"id1\" is not a number");
    says("1 2\n1 10\n", &plain, "line 2: destination 10 is not below the number of nodes, 10");
    says("10 1\n", &plain, "line 1: source 10 is not below the number of nodes, 10");
    says("1 99999999999999999999999\n", &plain, "is too large");
    says("1 2\n\"3,4\n", &plain, "line 2: ");
    says("1,2\n3,\"4\n", &plain, "line 2: a quote is not closed");
    says("1 \u{fffd}\n", &plain, "is not a number");
    let named = TextOptions {
        header: true,
        source_column: Column::Name("from".to_owned()),
        ..TextOptions::default()
    };
    says("a,b\n1,2\n", &named, "line 1: the header has no column \"from\"");
    let long = format!("1 2\n1 {}\n", "x".repeat(500));
    says(&long, &plain, "xxx...\"");
}

#[test]
fn the_first_defect_of_a_long_file_is_the_one_that_is_reported() {
    let mut text = "1 2\n".repeat(400_000);
    text.push_str("1 x\n");
    text.push_str(&"1 2\n".repeat(200_000));
    text.push_str("1 y\n");
    for _ in 0..5 {
        says(&text, &TextOptions::default(), "line 400001: \"x\" is not a number");
    }
}

#[test]
fn compressed_files_are_recognised_and_cut_ones_refused() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"1 2\n3 4\n").unwrap();
    let member = encoder.finish().unwrap();
    let twice = [member.clone(), member.clone()].concat();
    let found = import(&twice, &TextOptions::default()).unwrap();
    assert_eq!(found.len(), 4);
    let cut = import(&member[..member.len() - 5], &TextOptions::default()).unwrap_err();
    assert!(cut.contains("truncated"), "{cut}");
    let mut flipped = member;
    flipped[14] ^= 0xFF;
    assert!(import(&flipped, &TextOptions::default()).is_err());
}

#[test]
fn a_missing_file_and_a_directory_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.ng");
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    import.node_type("node", None, false).unwrap();
    let edges = import.edge_type(EdgeTypeSpec::between("node", "edge", "node")).unwrap();
    let mut read = |path: &std::path::Path| {
        let read = import.read_text(edges, path, &TextOptions::default(), &mut |_| true);
        read.unwrap_err().to_string()
    };
    let missing = read(&directory.path().join("missing.txt"));
    assert!(missing.contains("missing.txt"), "{missing}");
    let is_directory = read(directory.path());
    assert!(is_directory.contains("directory"), "{is_directory}");
}

#[test]
fn a_callback_that_says_no_stops_the_import() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list.txt");
    std::fs::write(&list, "1 2\n".repeat(3_000_000)).unwrap();
    let path = directory.path().join("store.ng");
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    import.node_type("node", None, false).unwrap();
    let edges = import.edge_type(EdgeTypeSpec::between("node", "edge", "node")).unwrap();
    let read = import.read_text(edges, &list, &TextOptions::default(), &mut |_| false);
    let stopped = read.is_err() || import.finish(&mut |_| false).is_err();
    assert!(stopped || path.exists());
    if stopped {
        // Nothing is left even while the failed importer is still there.
        assert_eq!(names_in(directory.path()), ["list.txt"]);
    }
}

/// What an importer of `text` says of its first three edges, whose nodes are names or numbers.
fn preview(text: &[u8], options: &TextOptions, strings: bool) -> Result<TextPreview, ImportError> {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list.txt");
    std::fs::write(&list, text).unwrap();
    let path = directory.path().join("store.ng");
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    import.node_type("node", None, strings).unwrap();
    let spec = EdgeTypeSpec {
        time: options.time_column.is_some(),
        ..EdgeTypeSpec::between("node", "edge", "node")
    };
    let edges = import.edge_type(spec).unwrap();
    import.preview_text(edges, &list, options, 3)
}

#[test]
fn a_preview_has_the_first_edges_and_looks_no_further() {
    let plain = TextOptions::default();
    let number = |ends: [u64; 2]| ends.map(End::Number);
    let found = preview(b"# c\n0 1\n\n2 3\n4 5\nx y\n", &plain, false).unwrap();
    assert_eq!(found.ends, [[0, 1], [2, 3], [4, 5]].map(number));
    assert_eq!(preview(b"", &plain, false).unwrap(), TextPreview::default());
    let comments = [b"# comment\n".repeat(200_000), b"7 8".to_vec()].concat();
    assert_eq!(preview(&comments, &plain, false).unwrap().ends, [number([7, 8])]);
    let timed = TextOptions {
        header: true,
        time_column: Some(Column::Index(2)),
        time_scale: Some(10.0),
        ..TextOptions::default()
    };
    let found = preview(b"a,b,t\nzoe, \"ad,am\",0.5\n", &timed, true).unwrap();
    assert_eq!(found.ends, [["zoe", "ad,am"].map(|name| End::Name(name.to_owned()))]);
    assert_eq!(found.times, [5]);
    let error = preview(b"0 1\n2 x\n", &plain, false).unwrap_err();
    assert!(error.to_string().contains("line 2: \"x\" is not a number"), "{error}");
}

#[test]
fn a_name_that_is_not_utf_8_is_told_by_line_and_byte() {
    let shown = TextOptions { shown: Some("the input".into()), ..TextOptions::default() };
    let error = preview(b"a b\nb caf\xE9\n", &shown, true).unwrap_err();
    let said = error.to_string();
    let expected = "the input, line 2: byte 6 of the line, 0xE9, is not valid UTF-8; the line is";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(error.explain().1, [Remedy::GiveEncoding]);
    let dropped = b"a b \xE9\n";
    assert_eq!(preview(dropped, &shown, true).unwrap().ends.len(), 1);
}
