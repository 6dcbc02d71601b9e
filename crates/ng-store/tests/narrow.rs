//! Narrow rows: what was stored as f16, bf16 or scaled int8 reads as floats, and takes floats.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::seeded;
use ng_simd::{ColumnRange, RowDecoder, RowEncoder};
use ng_store::{
    BuildOptions, OpenOptions, Owner, ReadError, Snapshot, Store, StoreBuilder, TensorRef,
    TensorSpec, UpdateError, compact, verify,
};
use ng_testing::{MemDisk, Random};
use ng_types::{Dtype, NodeTypeId};

const ROWS: u64 = 700;
/// Narrow and wide rows, and scales that are wider than a page or than a block.
const CASES: [(Dtype, usize, bool); 6] = [
    (Dtype::F16, 3, false),
    (Dtype::F16, 400, false),
    (Dtype::Bf16, 33, false),
    (Dtype::I8, 256, true),
    (Dtype::I8, 20_000, true),
    (Dtype::I8, 5, false),
];

struct Case {
    tensor: TensorRef,
    stored: Vec<u8>,
    scales: Option<Arc<[f32]>>,
    dtype: Dtype,
    columns: usize,
}

impl Case {
    fn decoder(&self, wanted: Dtype) -> RowDecoder {
        RowDecoder::new(self.dtype, self.columns, self.scales.clone(), wanted).unwrap()
    }

    fn expected(&self, wanted: Dtype, rows: &[u64]) -> Vec<u8> {
        let decoder = self.decoder(wanted);
        let mut out = Vec::new();
        for row in rows {
            let start = *row as usize * decoder.stored_bytes();
            let mut values = vec![0; decoder.out_bytes()];
            decoder.decode(&self.stored[start..start + decoder.stored_bytes()], &mut values);
            out.extend(values);
        }
        out
    }
}

fn floats(count: usize, random: &mut Random) -> Vec<u8> {
    let value = |_| random.below(2001) as f32 / 1000.0 - 1.0;
    (0..count).map(value).flat_map(f32::to_le_bytes).collect()
}

fn rows_of(case: (Dtype, usize, bool), random: &mut Random) -> (Vec<u8>, Option<Arc<[f32]>>) {
    let (dtype, columns, is_scaled) = case;
    if dtype == Dtype::I8 && !is_scaled {
        return (random.bytes(ROWS as usize * columns), None);
    }
    let values = floats(ROWS as usize * columns, random);
    let mut range = ColumnRange::new(columns);
    range.add_rows(&values).unwrap();
    let scales: Option<Arc<[f32]>> = is_scaled.then(|| range.scales().into());
    let mut stored = Vec::new();
    let encoder = RowEncoder::new(dtype, columns, scales.clone()).unwrap();
    encoder.encode_rows(&values, &mut stored).unwrap();
    (stored, scales)
}

/// Each case is tensor `x` of a node type of its own.
fn fill(mut builder: StoreBuilder) -> Vec<Case> {
    let mut random = seeded(11);
    let mut cases = Vec::new();
    for (number, case) in CASES.into_iter().enumerate() {
        let (dtype, columns, _) = case;
        let owner = Owner::Node(builder.node_type(&format!("n{number}"), ROWS).unwrap());
        let (stored, scales) = rows_of(case, &mut random);
        let spec =
            TensorSpec { name: "x".into(), dtype, shape: vec![columns as u64], mask_width: None };
        let mut writer = match &scales {
            Some(scales) => builder.scaled_tensor(owner, spec, scales).unwrap(),
            None => builder.tensor(owner, spec).unwrap(),
        };
        writer.push_rows(&stored).unwrap();
        builder.add(writer.finish().unwrap()).unwrap();
        cases.push(Case { tensor: TensorRef { owner, index: 0 }, stored, scales, dtype, columns });
    }
    builder.commit().unwrap();
    cases
}

fn build(path: &Path) -> Vec<Case> {
    std::fs::create_dir(path).unwrap();
    fill(StoreBuilder::create(path, BuildOptions::default()).unwrap())
}

fn options(memory: u64) -> OpenOptions {
    OpenOptions { memory: Some(memory), ..OpenOptions::default() }
}

fn check(snapshot: &Snapshot, cases: &[Case], random: &mut Random) {
    let rows: Vec<u64> = (0..90).map(|_| random.below(ROWS)).chain([0, ROWS - 1, 5, 5]).collect();
    for case in cases {
        let meta = snapshot.catalog().tensor(case.tensor).unwrap();
        assert_eq!(meta.is_scaled(), case.scales.is_some());
        assert_eq!(snapshot.scales(case.tensor).unwrap().as_deref(), case.scales.as_deref());
        let is_int = case.dtype == Dtype::I8 && case.scales.is_none();
        assert_eq!(meta.read_dtype(), if is_int { Dtype::I8 } else { Dtype::F32 });
        let mut raw = vec![0; rows.len() * meta.row_bytes() as usize];
        snapshot.gather(case.tensor, &rows, &mut raw).unwrap();
        assert!(raw == case.expected(case.dtype, &rows));
        for wanted in [case.dtype, Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::I32] {
            let decoder = match snapshot.decoder(case.tensor, wanted) {
                Ok(decoder) => decoder,
                Err(ReadError::Decode { .. }) if is_int || wanted == Dtype::I32 => continue,
                Err(other) => panic!("{other}"),
            };
            let mut out = vec![0xEE; rows.len() * decoder.out_bytes()];
            let stats = snapshot.gather_decoded(case.tensor, &decoder, &rows, &mut out).unwrap();
            assert_eq!(stats.rows, rows.len() as u64);
            assert!(out == case.expected(wanted, &rows), "{} as {wanted}", case.dtype);
        }
    }
}

#[test]
fn narrow_rows_read_as_floats_with_any_memory_and_after_compacting() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ng");
    let cases = build(&path);
    let mut random = seeded(12);
    for memory in [8 << 20, 256 << 20] {
        let store = Store::open(&path, &options(memory)).unwrap();
        for _ in 0..3 {
            check(&store.snapshot(), &cases, &mut random);
        }
    }
    compact(&path, &options(64 << 20), &mut |_, _| true).unwrap();
    let report = verify(&path, &options(64 << 20), &mut |_, _| true).unwrap();
    assert!(report.is_ok(), "{report:?}");
    check(&Store::open(&path, &options(64 << 20)).unwrap().snapshot(), &cases, &mut random);
}

#[test]
fn rows_given_as_floats_are_encoded_by_the_scales_of_the_import() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ng");
    let mut cases = build(&path);
    let mut random = seeded(13);
    let store = Store::open(&path, &options(64 << 20)).unwrap();
    let mut tx = store.write().unwrap();
    for case in &mut cases {
        if case.dtype == Dtype::I8 && case.scales.is_none() {
            let error = tx.encode_rows(case.tensor, &[0; 20]).unwrap_err();
            assert!(error.to_string().contains("not floating point"), "{error}");
            continue;
        }
        let rows = [3, 600, 4];
        let mut values = floats(rows.len() * case.columns, &mut random);
        // Scales come from random values below 1, so that not all of these fit.
        values.chunks_exact_mut(4).for_each(|value| {
            let half = f32::from_le_bytes(value.try_into().unwrap()) / 2.0;
            value.copy_from_slice(&half.to_le_bytes());
        });
        let encoded = tx.encode_rows(case.tensor, &values).unwrap();
        tx.set_rows(case.tensor, &rows, &encoded).unwrap();
        let width = case.decoder(case.dtype).stored_bytes();
        for (row, bytes) in rows.iter().zip(encoded.chunks_exact(width)) {
            case.stored[*row as usize * width..][..width].copy_from_slice(bytes);
        }
        let mut wrong = vec![0; 2 * 4 * case.columns];
        let at = wrong.len() - 4;
        wrong[at..].copy_from_slice(&3e38f32.to_le_bytes());
        let refused = tx.encode_rows(case.tensor, &wrong);
        match refused {
            Ok(_) => assert_eq!(case.dtype, Dtype::Bf16),
            Err(UpdateError::Unsupported { what }) => {
                let place = format!("row 1, column {} is", case.columns - 1);
                assert!(what.contains(&place) && what.contains("clip the value"), "{what}");
            }
            Err(other) => panic!("{other}"),
        }
        let short = tx.encode_rows(case.tensor, &values[4..]).unwrap_err();
        assert!(matches!(short, UpdateError::RowWidth { .. }), "{short}");
    }
    tx.commit().unwrap();
    check(&store.snapshot(), &cases, &mut random);
    drop(store);
    let store = Store::open(&path, &options(8 << 20)).unwrap();
    check(&store.snapshot(), &cases, &mut random);
    // A new node reads as 0 in every column.
    let mut tx = store.write().unwrap();
    let id = tx.add_node(NodeTypeId(3)).unwrap();
    tx.commit().unwrap();
    let snapshot = store.snapshot();
    let decoder = snapshot.decoder(cases[3].tensor, Dtype::F32).unwrap();
    let mut out = vec![1; decoder.out_bytes()];
    snapshot.gather_decoded(cases[3].tensor, &decoder, &[id], &mut out).unwrap();
    assert!(out.iter().all(|byte| *byte == 0));
}

fn in_memory(scales: &[f32], shape: &[u64], dtype: Dtype) -> Result<(), String> {
    let disk = Arc::new(MemDisk::new());
    let mut builder = StoreBuilder::on_disk(disk, BuildOptions::default()).unwrap();
    let owner = Owner::Node(builder.node_type("n", 1).unwrap());
    let spec = TensorSpec { name: "x".into(), dtype, shape: shape.to_vec(), mask_width: None };
    let mut rows = builder.scaled_tensor(owner, spec, scales).map_err(|e| e.to_string())?;
    rows.push_rows(&vec![1; shape.iter().product::<u64>() as usize]).unwrap();
    builder.add(rows.finish().unwrap()).unwrap();
    builder.commit().unwrap();
    Ok(())
}

#[test]
fn scales_that_do_not_fit_their_tensor_are_refused_by_the_builder() {
    assert!(in_memory(&[1.0, 0.0], &[2, 1], Dtype::I8).is_ok());
    for (scales, shape, dtype, expected) in [
        (&[1.0][..], &[2][..], Dtype::I8, "1 scales for 2 columns"),
        (&[1.0, f32::NAN], &[2], Dtype::I8, "column 1: NaN is not a valid scale"),
        (&[-1.0, 1.0], &[2], Dtype::I8, "column 0: -1 is not a valid scale"),
        (&[1.0, 1.0], &[2], Dtype::U8, "u8"),
        (&[], &[0], Dtype::I8, "rows of shape [0] cannot have scales"),
    ] {
        let error = in_memory(scales, shape, dtype).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
