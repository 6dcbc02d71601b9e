//! Rows with many zeros: when they are kept without them, and that nothing of them is lost.

use ng_import::{CsrChunk, EdgeTypeSpec, IdSlice, ImportOptions, Importer, SparseProbe};
use ng_store::{OpenOptions, Owner, SparseValue, Store};
use ng_types::NodeTypeId;

const NODES: Owner = Owner::Node(NodeTypeId(0));

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn csr<'a>(indptr: &'a [i64], columns: &'a [i64], values: Option<&'a [f32]>) -> CsrChunk<'a> {
    CsrChunk { indptr, columns: IdSlice::I64(columns), values }
}

fn probe(rows: usize, columns: usize, value: impl Fn(usize) -> f32) -> SparseProbe {
    let mut probe = SparseProbe::new(columns as u64);
    let all: Vec<f32> = (0..rows * columns).map(value).collect();
    probe.add_dense(&bytes(&all));
    probe
}

#[test]
fn rows_pay_without_zeros_where_few_are_none_and_much_is_saved() {
    let one_in = |every: usize| move |at: usize| f32::from(at.is_multiple_of(every));
    assert!(probe(1000, 300, one_in(10)).pays(1000), "a tenth");
    assert!(!probe(1000, 300, one_in(9)).pays(1000), "more than a tenth");
    assert!(!probe(1000, 200, one_in(10)).pays(1000), "less than a MiB");
    assert!(!probe(100_000, 5, one_in(10)).pays(100_000), "8 bytes for a row of 20");
    // While the pass goes on, the rest may be zeros.
    assert!(probe(500, 300, one_in(6)).pays(1000));
    assert!(!probe(500, 300, one_in(6)).pays(500));
    // Rows that come sparse may have more, as long as that saves enough.
    let (indptr, columns): (Vec<i64>, Vec<i64>) =
        ((0..=1000).map(|row| row * 75).collect(), (0..75_000).map(|at| at % 75 * 4).collect());
    let mut probe = SparseProbe::new(300);
    probe.add_csr(csr(&indptr, &columns, None)).unwrap();
    assert!(probe.pays(1000));
    let values: Vec<f32> = columns.iter().map(|column| *column as f32 + 0.5).collect();
    probe.add_csr(csr(&indptr, &columns, Some(&values))).unwrap();
    assert!(!probe.pays(2000));
}

#[test]
fn the_narrowest_values_that_hold_all_of_them_are_found() {
    let value_of = |values: &[f32]| {
        let mut dense = SparseProbe::new(values.len() as u64);
        dense.add_dense(&bytes(values));
        let columns: Vec<i64> = (0..values.len() as i64).collect();
        let mut sparse = SparseProbe::new(values.len() as u64);
        sparse.add_csr(csr(&[0, values.len() as i64], &columns, Some(values))).unwrap();
        assert_eq!(dense.value(), sparse.value());
        dense.value()
    };
    assert_eq!(value_of(&[0.0, -0.0, 1.0]), SparseValue::One);
    assert_eq!(value_of(&[0.0, 255.0, 1.0]), SparseValue::U8);
    for odd in [0.5, -1.0, 256.0, f32::NAN, f32::INFINITY, 1e-40] {
        assert_eq!(value_of(&[0.0, odd, 1.0, 2.0]), SparseValue::F32, "{odd}");
    }
}

#[test]
fn rows_come_with_their_zeros_or_as_csr_in_any_order_and_are_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("store.ng");
    let mut import = Importer::new(&out, ImportOptions::default()).unwrap();
    import.node_type("node", Some(4), false).unwrap();
    import.edge_type(EdgeTypeSpec::between("node", "edge", "node")).unwrap();
    let rows =
        [0.0, 2.5, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0, 4.0, 0.0, 0.0, 1.0, 0.0];
    let dense = import.begin_sparse_tensor(NODES, "dense", &[4], SparseValue::F32).unwrap();
    import.push_rows(dense, &bytes(&rows[..8])).unwrap();
    import.push_rows(dense, &bytes(&rows[8..])).unwrap();
    let given = import.begin_sparse_tensor(NODES, "csr", &[4], SparseValue::F32).unwrap();
    // Out of order, twice, zeros, and what adds up to zero.
    import
        .push_csr_rows(
            given,
            csr(&[0, 4, 6], &[3, 1, 1, 0, 2, 2], Some(&[-1.0, 2.0, 0.5, 0.0, 3.0, -3.0])),
        )
        .unwrap();
    import.push_csr_rows(given, csr(&[7, 9, 10], &[3, 0, 2], Some(&[4.0, f32::NAN, 1.0]))).unwrap();
    for (chunk, expected) in [
        (csr(&[0, 1], &[4], None), "row 4: column 4 is out of range: rows have 4 columns"),
        (csr(&[0, 1], &[-1], None), "row 4: column -1"),
        (csr(&[0, 2, 1], &[1], None), "row 4: indptr decreases"),
        (csr(&[0, 2, 0, 1], &[1], None), "row 4: indptr decreases"),
        (csr(&[0, 1], &[1], Some(&[1.0, 2.0])), "do not match"),
    ] {
        let mut probe = SparseProbe::new(4);
        let error = probe.add_csr(chunk).unwrap_err().to_string();
        let expected = expected.replace("row 4", "row 0");
        assert!(error.contains(&expected), "{error}");
    }
    import.finish(&mut |_| true).unwrap();
    let store = Store::open(&out, &OpenOptions::default()).unwrap();
    let snapshot = store.snapshot();
    for name in ["dense", "csr"] {
        let tensor = snapshot.catalog().find_tensor(NODES, name).unwrap();
        assert!(snapshot.catalog().tensor(tensor).unwrap().is_sparse());
        let mut found = vec![1; 64];
        snapshot.gather(tensor, &[0, 1, 2, 3], &mut found).unwrap();
        assert_eq!(found, bytes(&rows), "{name}");
    }
}
