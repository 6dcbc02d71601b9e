//! Rows without their zeros read as if they had them, and as what is stored.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::model::{Model, entries};
use common::{disk_of, seeded};
use ng_store::{
    BuildOptions, OpenOptions, Owner, ReadError, Snapshot, SparseValue, Store, StoreBuilder,
    TensorSpec, UpdateError, compact, verify_on,
};
use ng_testing::{MemDisk, Random};
use ng_types::{Dtype, NodeTypeId};

/// Columns, one in so many is not 0, what stands there. Rows of many blocks, of a part of one, of
/// columns that need four bytes, and of nothing at all.
const CASES: [(usize, u64, SparseValue); 6] = [
    (8_000, 3, SparseValue::F32),
    (300, 10, SparseValue::One),
    (70_000, 4_000, SparseValue::U8),
    (40, 10, SparseValue::U8),
    (5, 2, SparseValue::One),
    (3, 1_000_000_000, SparseValue::F32),
];
const NODES: u64 = 150;

fn model() -> Model {
    let mut random = seeded(21);
    let mut model = Model::new(&[NODES; CASES.len()], 4096);
    for (number, (columns, every, value)) in (0..).zip(CASES) {
        model.sparse_tensor(Owner::Node(NodeTypeId(number)), columns, every, value, &mut random);
    }
    model
}

fn options(memory: u64) -> OpenOptions {
    OpenOptions { memory: Some(memory), ..OpenOptions::default() }
}

fn check(snapshot: &Snapshot, model: &Model, random: &mut Random) {
    let rows: Vec<u64> = (0..30).map(|_| random.below(NODES)).chain([0, 7, 7, NODES - 1]).collect();
    for (number, tensor) in model.tensors.iter().enumerate() {
        let wanted = model.tensor_ref(number);
        let meta = snapshot.catalog().tensor(wanted).unwrap();
        assert!(meta.is_sparse() && meta.row_bytes() == tensor.row_bytes as u64);
        let row = |row: &u64| &tensor.bytes[*row as usize * tensor.row_bytes..][..tensor.row_bytes];
        let expected: Vec<u8> = rows.iter().flat_map(|r| row(r).to_vec()).collect();
        let mut out = vec![0xAB; expected.len()];
        let stats = snapshot.gather(wanted, &rows, &mut out).unwrap();
        assert_eq!(stats.rows, rows.len() as u64);
        assert!(out == expected, "dense rows of tensor {number}");
        let spans = snapshot.sparse_spans(wanted, &rows).unwrap();
        let (mut columns, mut values) =
            (vec![0; spans.num_entries() * 8], vec![0; spans.num_entries() * 4]);
        snapshot.gather_sparse(&spans, &mut columns, &mut values).unwrap();
        for (at, number) in rows.iter().enumerate() {
            let (start, end) = (spans.indptr()[at], spans.indptr()[at + 1]);
            let (wanted_columns, wanted_values) = entries(row(number));
            let found = columns[start * 8..end * 8].as_chunks().0.iter();
            assert!(found.map(|c| i64::from_le_bytes(*c) as u32).eq(wanted_columns));
            let found = values[start * 4..end * 4].as_chunks().0.iter();
            assert!(found.map(|v| f32::from_le_bytes(*v)).eq(wanted_values));
        }
        let half = snapshot.decoder(wanted, Dtype::F16).unwrap();
        let mut narrow = vec![0; rows.len() * half.out_bytes()];
        snapshot.gather_decoded(wanted, &half, &rows, &mut narrow).unwrap();
        let mut narrow_expected = vec![0; narrow.len()];
        half.decode_rows(&expected, &mut narrow_expected);
        assert!(narrow == narrow_expected);
        let mut next = 0;
        let mut scan = |first: u64, bytes: &[u8]| {
            assert_eq!(first, next);
            next += (bytes.len() / tensor.row_bytes) as u64;
            assert!(bytes == &tensor.bytes[first as usize * tensor.row_bytes..][..bytes.len()]);
            Ok::<_, ng_store::ReadError>(())
        };
        snapshot.scan_tensor(wanted, &mut scan).unwrap();
        assert_eq!(next, NODES);
    }
}

#[test]
fn sparse_rows_read_as_dense_ones_with_any_memory_and_verify_is_content() {
    let (model, mut random) = (model(), seeded(22));
    let disk = model.build();
    for memory in [8 << 20, 256 << 20] {
        let store = Store::open_on(disk.clone(), &options(memory)).unwrap();
        for _ in 0..2 {
            check(&store.snapshot(), &model, &mut random);
        }
        let tensor = model.tensor_ref(1);
        let error = store.snapshot().sparse_spans(tensor, &[NODES]).unwrap_err();
        assert!(matches!(error, ReadError::RowOutOfRange { .. }), "{error}");
    }
    let report = verify_on(disk, &options(64 << 20), &mut |_, _| true).unwrap();
    assert!(report.is_ok(), "{report:?}");
}

#[test]
fn a_store_with_sparse_rows_is_as_small_as_they_are() {
    let model = model();
    let files = model.files();
    let data = |name: &str| files[name].len();
    // 8 bytes for each row, and for each entry the column, with what it is of a value.
    assert_eq!(data("t0.dat"), 4096);
    let count = |tensor: usize| entries(&model.tensors[tensor].bytes).0.len();
    for (tensor, entry_bytes) in [(0, 6), (1, 2), (2, 5), (3, 3), (4, 2), (5, 6)] {
        let per_page = 4096 / entry_bytes;
        let found = data(&format!("t{}.dat", 2 * tensor + 1));
        assert_eq!(found, count(tensor).div_ceil(per_page) * 4096, "tensor {tensor}");
    }
    let version = u32::from_le_bytes(files["root.a"][8..12].try_into().unwrap());
    assert_eq!(version, 2);
}

#[test]
fn nodes_come_and_go_rows_cannot_be_changed_and_compacting_keeps_them() {
    let model = model();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ng");
    std::fs::create_dir(&path).unwrap();
    for (name, bytes) in model.files() {
        std::fs::write(path.join(name), bytes).unwrap();
    }
    let mut random = seeded(23);
    let tensor = model.tensor_ref(1);
    let read = |snapshot: &Snapshot, row| {
        let mut out = vec![1; 1200];
        snapshot.gather(tensor, &[row], &mut out).unwrap();
        out
    };
    {
        let store = Store::open(&path, &options(64 << 20)).unwrap();
        let mut tx = store.write().unwrap();
        let id = tx.add_node(NodeTypeId(1)).unwrap();
        assert_eq!(id, NODES);
        for error in [
            tx.set_row(tensor, 3, &[0; 1200]).unwrap_err(),
            tx.encode_rows(tensor, &[0; 1200]).unwrap_err(),
        ] {
            assert!(matches!(&error, UpdateError::Sparse { .. }), "{error}");
        }
        for _ in 0..600 {
            tx.add_node(NodeTypeId(1)).unwrap();
        }
        tx.commit().unwrap();
        assert_eq!(read(&store.snapshot(), NODES + 600), vec![0; 1200]);
        check(&store.snapshot(), &Model { tensors: vec![], ..model.clone() }, &mut random);
        assert_eq!(read(&store.snapshot(), 5), model.tensors[1].bytes[5 * 1200..6 * 1200]);
    }
    compact(&path, &options(64 << 20), &mut |_, _| true).unwrap();
    let files: common::Files = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|e| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap()))
        .collect();
    let report = verify_on(disk_of(files), &options(64 << 20), &mut |_, _| true).unwrap();
    assert!(report.is_ok(), "{report:?}");
    let store = Store::open(&path, &options(64 << 20)).unwrap();
    assert_eq!(read(&store.snapshot(), NODES + 600), vec![0; 1200]);
    for row in [0, 5, NODES - 1] {
        let at = row as usize * 1200;
        assert_eq!(read(&store.snapshot(), row), model.tensors[1].bytes[at..at + 1200]);
    }
}

#[test]
fn the_writer_refuses_rows_that_are_none() {
    let disk = Arc::new(MemDisk::new());
    let mut builder = StoreBuilder::on_disk(disk, BuildOptions::default()).unwrap();
    let owner = Owner::Node(builder.node_type("n", 1).unwrap());
    let spec = |name: &str, dtype| TensorSpec {
        name: name.into(),
        dtype,
        shape: vec![2, 5],
        mask_width: None,
    };
    let ints = builder.sparse_tensor(owner, spec("i", Dtype::I32), SparseValue::One);
    assert!(ints.err().unwrap().to_string().contains("only f32 rows"));
    let mut rows = builder.sparse_tensor(owner, spec("x", Dtype::F32), SparseValue::U8).unwrap();
    for (columns, values) in [
        (&[3, 2][..], &[1.0, 1.0][..]),
        (&[3, 3], &[1.0, 1.0]),
        (&[10], &[1.0]),
        (&[1], &[0.0]),
        (&[1], &[0.5]),
        (&[1, 2], &[1.0]),
    ] {
        assert!(rows.push_row(columns, values).is_err(), "{columns:?} {values:?}");
    }
    rows.push_row(&[0, 9], &[1.0, 255.0]).unwrap();
    assert_eq!(rows.num_rows(), 1);
    builder.add(rows.finish().unwrap()).unwrap();
    builder.commit().unwrap();
}
