//! Rows that come as f32 and are stored narrow: rounded, scaled, or refused by row and column.

use ng_import::{EdgeTypeSpec, ImportOptions, Importer, TensorId};
use ng_store::{OpenOptions, Owner, Store};
use ng_types::{Dtype, NodeTypeId};

const NODES: Owner = Owner::Node(NodeTypeId(0));
const ROWS: [[f32; 3]; 4] =
    [[1.0, -2.0, 0.0], [0.1, 8.0, 0.0], [-0.5, 3.3, 0.0], [0.25, -8.0, 0.0]];

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn importer(directory: &std::path::Path) -> Importer {
    let mut import = Importer::new(&directory.join("store.ng"), ImportOptions::default()).unwrap();
    import.node_type("node", Some(4), false).unwrap();
    import.edge_type(EdgeTypeSpec::between("node", "edge", "node")).unwrap();
    import
}

fn push(import: &mut Importer, tensor: TensorId, stored: Dtype) {
    if stored == Dtype::I8 {
        for rows in ROWS.chunks(3) {
            import.measure_rows(tensor, &bytes(rows.as_flattened())).unwrap();
        }
    }
    for rows in ROWS.chunks(3) {
        import.push_rows(tensor, &bytes(rows.as_flattened())).unwrap();
    }
}

#[test]
fn rows_of_f32_are_stored_as_f16_bf16_or_int8_and_read_as_f32_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut import = importer(directory.path());
    let stored = [Dtype::F16, Dtype::I8, Dtype::Bf16, Dtype::F32];
    for dtype in stored {
        let tensor = import.begin_narrow_tensor(NODES, dtype.name(), dtype, &[3]).unwrap();
        push(&mut import, tensor, dtype);
    }
    import.finish(&mut |_| true).unwrap();
    let store = Store::open(&directory.path().join("store.ng"), &OpenOptions::default()).unwrap();
    let snapshot = store.snapshot();
    for (dtype, tolerance) in stored.into_iter().zip([1e-3, 0.5 / 127.0, 1e-2, 0.0]) {
        let tensor = snapshot.catalog().find_tensor(NODES, dtype.name()).unwrap();
        let meta = snapshot.catalog().tensor(tensor).unwrap();
        assert_eq!((meta.dtype, meta.is_scaled()), (dtype, dtype == Dtype::I8));
        let decoder = snapshot.decoder(tensor, Dtype::F32).unwrap();
        let mut out = vec![0; 4 * decoder.out_bytes()];
        snapshot.gather_decoded(tensor, &decoder, &[0, 1, 2, 3], &mut out).unwrap();
        let found = out.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
        for (found, expected) in found.zip(ROWS.as_flattened()) {
            assert!((found - expected).abs() <= tolerance * 8.0, "{dtype}: {found} {expected}");
        }
    }
    let scales = snapshot.catalog().find_tensor(NODES, "i8").unwrap();
    assert_eq!(
        snapshot.scales(scales).unwrap().as_deref(),
        Some(&[1.0 / 127.0, 8.0 / 127.0, 0.0][..])
    );
}

#[test]
fn what_a_narrow_type_cannot_hold_is_refused_by_row_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let mut import = importer(directory.path());
    let half = import.begin_narrow_tensor(NODES, "half", Dtype::F16, &[3]).unwrap();
    import.push_rows(half, &bytes(ROWS[0].as_slice())).unwrap();
    let error = import.push_rows(half, &bytes(&[1.0, 2.0, 3.0, 4.0, 7e4, 0.0])).unwrap_err();
    let expected = "tensor \"half\" (f16): row 2, column 1 is 70000";
    assert!(error.to_string().contains(expected), "{error}");
    let steps = import.begin_narrow_tensor(NODES, "steps", Dtype::I8, &[3]).unwrap();
    import.measure_rows(steps, &bytes(ROWS[0].as_slice())).unwrap();
    let error = import.measure_rows(steps, &bytes(&[1.0, f32::NAN, 0.0])).unwrap_err();
    assert!(error.to_string().contains("row 1, column 1 is NaN, which int8 cannot"), "{error}");
    // Rows that were not measured may be out of range.
    let error = import.push_rows(steps, &bytes(&[1.0, 2.0, 0.5])).unwrap_err();
    assert!(error.to_string().contains("row 0, column 2 is 0.5"), "{error}");
    let error = import.measure_rows(steps, &bytes(ROWS[0].as_slice())).unwrap_err();
    assert!(error.to_string().contains("measured only for int8"), "{error}");
    let error = import.measure_rows(half, &bytes(ROWS[0].as_slice())).unwrap_err();
    assert!(error.to_string().contains("measured only for int8"), "{error}");
    let error = import.begin_narrow_tensor(NODES, "wide", Dtype::I64, &[3]).unwrap_err();
    assert!(error.to_string().contains("i64"), "{error}");
    let error = import.push_rows(half, &[0; 6]).unwrap_err();
    assert!(error.to_string().contains("not a multiple of the row size, 12 bytes"), "{error}");
}
