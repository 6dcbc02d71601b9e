//! What contradicts itself is refused, with the reason, before anything is read.

use crate::common::names_in;
use ng_import::{
    EdgeTypeSpec, IdSlice, ImportError, ImportOptions, Importer, SelfLoops, TextOptions,
};
use ng_io::StagingError;
use ng_store::Owner;
use ng_types::Dtype;

fn importer(directory: &std::path::Path) -> Importer {
    let mut import = Importer::new(&directory.join("store.ng"), ImportOptions::default()).unwrap();
    import.node_type("a", Some(5), false).unwrap();
    import.node_type("b", None, false).unwrap();
    import.node_type("named", None, true).unwrap();
    import
}

#[test]
fn edge_types_that_make_no_sense_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut import = importer(directory.path());
    let between = EdgeTypeSpec::between;
    let cases = [
        (between("a", "r", "missing"), "node type \"missing\" is not declared"),
        (EdgeTypeSpec { undirected: true, ..between("a", "r", "b") }, "cannot be undirected"),
        (
            EdgeTypeSpec { self_loops: SelfLoops::Add, ..between("a", "r", "b") },
            "has no self loops",
        ),
        (
            EdgeTypeSpec { self_loops: SelfLoops::Add, time: true, ..between("a", "r", "a") },
            "would have no time",
        ),
        (between("a", "r", "named"), "have string ids"),
    ];
    for (spec, expected) in cases {
        let error = import.edge_type(spec).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    import.edge_type(between("a", "r", "b")).unwrap();
    let error = import.edge_type(between("a", "r", "b")).unwrap_err().to_string();
    assert!(error.contains("declared twice"), "{error}");
    let error = import.node_type("a", None, false).unwrap_err().to_string();
    assert!(error.contains("declared twice"), "{error}");
}

#[test]
fn columns_must_fit_the_edge_type() {
    let directory = tempfile::tempdir().unwrap();
    let mut import = importer(directory.path());
    let plain = import.edge_type(EdgeTypeSpec::between("a", "plain", "a")).unwrap();
    let spec =
        EdgeTypeSpec { weight: true, edge_ids: true, ..EdgeTypeSpec::between("a", "w", "a") };
    let weighted = import.edge_type(spec).unwrap();
    let one = IdSlice::I64(&[1]);
    let mut check = |et, ids, times, weights, expected: &str| {
        let error = import.push_edges(et, one, one, ids, times, weights).unwrap_err();
        assert!(matches!(error, ImportError::Spec(_)));
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(plain, Some(one), None, None, "edge ids are given but not declared");
    check(plain, None, Some(&[1][..]), None, "times are given but not declared");
    check(weighted, None, None, None, "weights are declared but not given");
    check(weighted, None, None, Some(&[1.0, 2.0][..]), "got 2 weights, expected 1: one per source");
    import.push_edges(weighted, one, one, Some(one), None, Some(&[1.0])).unwrap();
    let error = import.push_edges(weighted, one, one, None, None, Some(&[1.0])).unwrap_err();
    assert!(error.to_string().contains("every chunk"), "{error}");
    let text = import.read_text(weighted, "list".as_ref(), &TextOptions::default(), &mut |_| true);
    assert!(text.unwrap_err().to_string().contains("give weight_column"));
}

#[test]
fn ids_that_no_node_has_are_refused_with_their_row() {
    let cases: [(&[i64], &str); 4] = [
        (&[1, 2, -3], "row 2: source -3 is negative"),
        (&[1, 5, -3], "row 1: source 5 is not below the number of nodes, 5"),
        (&[1 << 40], "row 0: source 1099511627776 is not below the number of nodes, 5"),
        (&[i64::MIN], "is negative"),
    ];
    for (sources, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        let mut import = importer(directory.path());
        let edges = import.edge_type(EdgeTypeSpec::between("a", "r", "b")).unwrap();
        let destinations = vec![0_i32; sources.len()];
        let (sources, destinations) = (IdSlice::I64(sources), IdSlice::I32(&destinations));
        let error = import.push_edges(edges, sources, destinations, None, None, None);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        drop(import);
        assert!(names_in(directory.path()).is_empty());
    }
}

#[test]
fn tensors_must_have_a_row_for_every_node() {
    let directory = tempfile::tempdir().unwrap();
    let mut import = importer(directory.path());
    let owner = Owner::Node(ng_types::NodeTypeId(0));
    let x = import.begin_tensor(owner, "x", Dtype::F32, &[2], None).unwrap();
    let error = import.push_rows(x, &[0; 12]).unwrap_err().to_string();
    assert!(error.contains("not a multiple of the row size, 8 bytes"), "{error}");
    import.push_rows(x, &[0; 32]).unwrap();
    let error = import.finish(&mut |_| true).unwrap_err().to_string();
    assert!(error.contains("4 rows, expected 5") || error.contains("expected"), "{error}");
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn places_and_budgets_that_do_not_work_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store.ng");
    let options = ImportOptions { memory: Some(1 << 20), ..ImportOptions::default() };
    let error = Importer::new(&place, options).err().unwrap();
    let ImportError::BudgetTooSmall { minimum_bytes: 8_388_608, .. } = error else {
        panic!("{error}");
    };
    std::fs::create_dir(&place).unwrap();
    let error = Importer::new(&place, ImportOptions::default()).err().unwrap();
    assert!(matches!(error, ImportError::Place(StagingError::Exists { .. })), "{error}");
    std::fs::write(place.join("mine.txt"), "precious").unwrap();
    let overwrite = ImportOptions { overwrite: true, ..ImportOptions::default() };
    let error = Importer::new(&place, overwrite.clone()).err().unwrap();
    assert!(error.to_string().contains("not a store"), "{error}");
    assert!(place.join("mine.txt").exists());
    let options = ImportOptions { page_bytes: 5000, ..ImportOptions::default() };
    assert!(Importer::new(&directory.path().join("b.ng"), options).is_err());
    std::fs::remove_dir_all(&place).unwrap();
    for _ in 0..2 {
        Importer::new(&place, overwrite.clone()).unwrap().finish(&mut |_| true).unwrap();
    }
    assert_eq!(names_in(directory.path()), ["store.ng"]);
}
