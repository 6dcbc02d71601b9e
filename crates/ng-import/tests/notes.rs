//! What an import drops, doubles or finds odd is in its notes, and a strict import refuses it.

use crate::common;
use crate::common::names_in;
use ng_import::{
    EdgeTypeSpec, IdSlice, ImportError, ImportOptions, ImportReport, Importer, Note, SelfLoops,
    TextOptions,
};
use ng_store::Owner;
use ng_types::{Dtype, NodeTypeId};

fn import(
    strict: bool,
    build: &dyn Fn(&mut Importer, &std::path::Path),
) -> Result<ImportReport, (ImportError, Vec<String>)> {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("out");
    std::fs::create_dir(&target).unwrap();
    let options = ImportOptions { strict, ..ImportOptions::default() };
    let mut import = Importer::new(&target.join("store.ng"), options).unwrap();
    build(&mut import, directory.path());
    import.finish(&mut |_| true).map_err(|error| (error, names_in(&target)))
}

/// The codes and counts of what an import notes; all of it is refused where it is strict, unless
/// somebody asked for it.
fn notes(build: &dyn Fn(&mut Importer, &std::path::Path)) -> Vec<(String, u64)> {
    let report = import(false, build).unwrap();
    let refused = report.notes.iter().any(|note| !note.requested);
    match import(true, build) {
        Ok(strict) => assert!(!refused && codes(strict.notes) == codes(report.notes.clone())),
        Err((ImportError::Strict { notes }, left)) => {
            assert!(refused && codes(notes) == codes(report.notes.clone()));
            assert_eq!(left, Vec::<String>::new());
        }
        Err((error, _)) => panic!("{error}"),
    }
    codes(report.notes)
}

fn codes(notes: Vec<Note>) -> Vec<(String, u64)> {
    notes.into_iter().map(|note| (note.code, note.count)).collect()
}

fn text(lines: &'static str, spec: EdgeTypeSpec, options: TextOptions) -> Vec<(String, u64)> {
    notes(&move |import, directory| {
        let list = directory.join("list.txt");
        std::fs::write(&list, lines).unwrap();
        import.node_type("n", None, false).unwrap();
        let edges = import.edge_type(spec.clone()).unwrap();
        import.read_text(edges, &list, &options, &mut |_| true).unwrap();
    })
}

fn plain() -> EdgeTypeSpec {
    EdgeTypeSpec::between("n", "e", "n")
}

fn one(code: &str, count: u64) -> Vec<(String, u64)> {
    vec![(code.to_owned(), count)]
}

#[test]
fn text_that_loses_nothing_has_no_notes() {
    assert_eq!(text("0 1\n1 2\n2 2\n", plain(), TextOptions::default()), []);
    let undirected = EdgeTypeSpec { undirected: true, ..plain() };
    assert_eq!(text("0 1\n1 2\n2 2\n", undirected, TextOptions::default()), []);
}

#[test]
fn columns_that_are_not_stored_are_noted_with_and_without_a_header() {
    let header = TextOptions { header: true, ..TextOptions::default() };
    assert_eq!(text("0 1 5\n1 2 4\n", plain(), TextOptions::default()), one("columns-dropped", 1));
    assert_eq!(
        text("src,dst,rating,y\n0,1,5,6\n", plain(), header.clone()),
        one("columns-dropped", 2)
    );
    assert_eq!(text("0 1\n0 1\n", plain(), header), one("header-has-ids", 1));
}

#[test]
fn ids_that_leave_nodes_without_edges_are_noted() {
    assert_eq!(text("0 1\n1 90\n", plain(), TextOptions::default()), one("sparse-ids", 87));
    assert_eq!(text("1 2\n2 3\n", plain(), TextOptions::default()), one("ids-start-above-0", 1));
}

#[test]
fn edges_that_are_there_twice_are_noted() {
    let undirected = EdgeTypeSpec { undirected: true, ..plain() };
    let symmetric = "0 1\n1 0\n1 2\n2 1\n";
    let default = TextOptions::default;
    assert_eq!(text(symmetric, undirected.clone(), default()), one("doubled-edges", 4));
    assert_eq!(text(symmetric, plain(), default()), []);
    assert_eq!(text("0 1\n0 1\n0 1\n1 1\n", plain(), default()), one("parallel-edges", 2));
    for edge_ids in [false, true] {
        let unique = EdgeTypeSpec { unique: true, edge_ids, ..undirected.clone() };
        assert_eq!(text(symmetric, unique, default()), one("duplicates-removed", 4));
        let kept = EdgeTypeSpec { edge_ids, reverse: true, ..plain() };
        assert_eq!(text("0 1\n0 1\n1 0\n", kept, default()), one("parallel-edges", 1));
    }
    let loops = EdgeTypeSpec { self_loops: SelfLoops::Remove, ..undirected };
    assert_eq!(text("0 1\n1 1\n0 0\n", loops, default()), one("self-loops-removed", 2));
}

#[test]
fn edges_repeat_only_at_the_same_time() {
    let timed = |times: &'static [i64], unique: bool| {
        notes(&move |import, _| {
            import.node_type("n", Some(2), false).unwrap();
            let spec = EdgeTypeSpec { time: true, unique, ..plain() };
            let edges = import.edge_type(spec).unwrap();
            let (from, to) = (IdSlice::I64(&[0, 0, 0]), IdSlice::I64(&[1, 1, 1]));
            import.push_edges(edges, from, to, None, Some(times), None).unwrap();
        })
    };
    assert_eq!(timed(&[1, 2, 3], false), []);
    assert_eq!(timed(&[1, 2, 1], false), one("parallel-edges", 1));
    assert_eq!(timed(&[1, 2, 1], true), one("duplicates-removed", 2));
}

#[test]
fn repeats_are_counted_the_same_in_little_memory() {
    let rows = common::random_rows(300_000, 500, 3);
    let count = |memory: u64| {
        let directory = tempfile::tempdir().unwrap();
        let options = ImportOptions { memory: Some(memory), ..ImportOptions::default() };
        let mut import = Importer::new(&directory.path().join("s.ng"), options).unwrap();
        import.node_type("n", None, false).unwrap();
        let edges = import.edge_type(EdgeTypeSpec { edge_ids: true, ..plain() }).unwrap();
        let from: Vec<u64> = rows.iter().map(|row| row.source).collect();
        let to: Vec<u64> = rows.iter().map(|row| row.destination).collect();
        let (from, to) = (IdSlice::U64(&from), IdSlice::U64(&to));
        import.push_edges(edges, from, to, None, None, None).unwrap();
        import.finish(&mut |_| true).unwrap().notes
    };
    let mut ends: Vec<(u64, u64)> = rows.iter().map(|row| (row.source, row.destination)).collect();
    ends.sort_unstable();
    ends.dedup();
    let notes = count(8 << 20);
    assert_eq!(notes[0].count, (rows.len() - ends.len()) as u64);
    assert_eq!(notes, count(1 << 30));
}

fn tensor(name: &'static str, dtype: Dtype, rows: Vec<u8>) -> Vec<(String, u64)> {
    notes(&move |import, _| {
        import.node_type("n", Some(2), false).unwrap();
        import.edge_type(plain()).unwrap();
        let owner = Owner::Node(NodeTypeId(0));
        let tensor = import.begin_tensor(owner, name, dtype, &[], None).unwrap();
        import.push_rows(tensor, &rows).unwrap();
    })
}

#[test]
fn floats_that_are_no_numbers_and_floats_that_are_wide_are_noted() {
    let f32s = |values: [f32; 2]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let f64s = |values: [f64; 2]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(tensor("x", Dtype::F32, f32s([1.0, -0.0])), []);
    assert_eq!(tensor("x", Dtype::F32, f32s([1.0, f32::NAN])), one("not-finite", 1));
    assert_eq!(tensor("x", Dtype::F32, f32s([f32::NEG_INFINITY, f32::NAN])), one("not-finite", 2));
    assert_eq!(tensor("y", Dtype::F32, f32s([f32::NAN, 1.0])), one("labels-missing", 1));
    assert_eq!(tensor("w", Dtype::F64, f64s([1.0, 2.0])), one("wide-floats", 2));
    let both = vec![("not-finite".to_owned(), 1), ("wide-floats".to_owned(), 2)];
    assert_eq!(tensor("w", Dtype::F64, f64s([1.0, f64::INFINITY])), both);
    assert_eq!(tensor("w", Dtype::F16, vec![0, 0x7C, 1, 0x7C]), one("not-finite", 2));
    assert_eq!(tensor("w", Dtype::Bf16, vec![0x80, 0x7F, 0, 0]), one("not-finite", 1));
    assert_eq!(tensor("w", Dtype::I16, vec![0x80, 0x7F, 0, 0x7C]), []);
}

#[test]
fn notes_of_the_caller_are_in_the_same_list() {
    let found = notes(&|import, _| {
        import.node_type("n", Some(2), false).unwrap();
        import.edge_type(plain()).unwrap();
        for _ in 0..2 {
            let (place, message) = ("a file".to_owned(), "it is odd".to_owned());
            import.add_note(Note::new("odd", 3, place, message));
        }
    });
    assert_eq!(found, one("odd", 3));
}

#[test]
fn spaces_around_names_are_noted_and_text_behind_a_quote_is_refused() {
    let names = |lines: &'static str| {
        notes(&move |import, directory| {
            let list = directory.join("list.csv");
            std::fs::write(&list, lines).unwrap();
            import.node_type("n", None, true).unwrap();
            let edges = import.edge_type(plain()).unwrap();
            import.read_text(edges, &list, &TextOptions::default(), &mut |_| true).unwrap();
        })
    };
    assert_eq!(names("a,b\n\" a\",b\n"), []);
    assert_eq!(names("a,b\n a,b\nb, a \n"), {
        let mut both = one("names-trimmed", 2);
        both.extend(one("parallel-edges", 1));
        both
    });
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list.csv");
    std::fs::write(&list, "1,\"2\"3\n").unwrap();
    let mut import =
        Importer::new(&directory.path().join("s.ng"), ImportOptions::default()).unwrap();
    import.node_type("n", None, false).unwrap();
    let edges = import.edge_type(plain()).unwrap();
    let result = import.read_text(edges, &list, &TextOptions::default(), &mut |_| true);
    let error = result.unwrap_err().to_string();
    assert!(error.contains("line 1: text follows a closing quote"), "{error}");
}
