//! Quantised products equal those of plain integers, with the same bits on every path.

use ng_simd::{
    Finish, GraphKernels, PackError, PackedWeights, Path, QuantiseError, QuantisedRows, ShapeError,
    StepRange,
};
use ng_testing::Random;

const PATHS: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];
const RANGES: [StepRange; 2] = [StepRange::Signed, StepRange::Unsigned];
const SEED: u64 = 0x1278;
/// What stands in a result before.
const STOOD: f32 = -7.0;

fn paths() -> impl Iterator<Item = GraphKernels> {
    PATHS.into_iter().filter_map(GraphKernels::on)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn zero(range: StepRange) -> i64 {
    if range == StepRange::Signed { 128 } else { 0 }
}

/// By the definition: exact integers, then three roundings.
fn expected(
    rows: &QuantisedRows<'_>,
    weights: &[i8],
    scales: &[f32],
    finish: &Finish<'_>,
) -> Vec<f32> {
    let (depth, width) = (rows.steps.len() / rows.scales.len().max(1), scales.len());
    let mut out = Vec::new();
    for (row, row_scale) in rows.scales.iter().enumerate() {
        for column in 0..width {
            let product = |at: usize| {
                let step = i64::from(rows.steps[row * depth + at]) - zero(rows.range);
                step * i64::from(weights[at * width + column])
            };
            let sum = i32::try_from((0..depth).map(product).sum::<i64>()).unwrap();
            let value = sum as f32 * row_scale * scales[column];
            let value = finish.bias.map_or(value, |bias| value + bias[column]);
            let value = if finish.is_added { value + STOOD } else { value };
            out.push(if finish.is_rectified && value < 0.0 { 0.0 } else { value });
        }
    }
    out
}

#[test]
fn products_are_exact_on_every_path_at_every_shape() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    let shapes = [0, 1, 2, 5, 6, 7, 50, 97].map(|m| [0, 1, 3, 4, 7, 64, 257].map(|k| (m, k)));
    for (num_rows, depth) in shapes.into_iter().flatten() {
        for width in [1, 7, 16, 17, 47, 64, 65, 256] {
            let steps = random.bytes(num_rows * depth);
            let weights: Vec<i8> =
                random.bytes(depth * width).into_iter().map(u8::cast_signed).collect();
            let scale = |at: usize| (at % 5) as f32 * 0.013;
            let of_rows: Vec<f32> = (0..num_rows).map(scale).collect();
            let of_columns: Vec<f32> = (0..width).map(|at| scale(at + 3)).collect();
            let bias: Vec<f32> = (0..width).map(|at| at as f32 - 3.3).collect();
            let packed = PackedWeights::pack(&weights, &of_columns).unwrap();
            assert_eq!((packed.depth(), packed.width()), (depth, width));
            let plain = Finish::default();
            let all = Finish { bias: Some(&bias), is_added: true, is_rectified: true };
            for (range, finish) in RANGES.into_iter().zip([plain, all]) {
                let rows = QuantisedRows { steps: &steps, scales: &of_rows, range };
                let expected = expected(&rows, &weights, &of_columns, &finish);
                for kernels in paths() {
                    let mut out = vec![STOOD; num_rows * width];
                    kernels.multiply_quantised(&rows, &packed, &finish, &mut out).unwrap();
                    let what = (kernels.path(), num_rows, depth, width, range);
                    assert_eq!(bits(&out), bits(&expected), "{what:?}");
                }
            }
        }
    }
}

#[test]
fn the_largest_steps_neither_saturate_nor_overflow() {
    const DEPTH: usize = 1 << 16;
    for (weight, step, range) in [
        (-128, 255, StepRange::Unsigned),
        (127, 255, StepRange::Unsigned),
        (-128, 0, StepRange::Signed),
        (-128, 255, StepRange::Signed),
    ] {
        let weights = vec![weight; DEPTH];
        let packed = PackedWeights::pack(&weights, &[1.0]).unwrap();
        let steps = vec![step; DEPTH];
        let rows = QuantisedRows { steps: &steps, scales: &[1.0], range };
        let exact = (i64::from(step) - zero(range)) * i64::from(weight) * DEPTH as i64;
        for kernels in paths() {
            let mut out = [0.0];
            kernels.multiply_quantised(&rows, &packed, &Finish::default(), &mut out).unwrap();
            assert_eq!(out, [exact as f32], "{:?}", kernels.path());
        }
    }
    let deep = PackedWeights::pack(&vec![0; DEPTH + 1], &[1.0]);
    assert_eq!(deep.err(), Some(PackError::Depth { depth: DEPTH + 1 }));
}

#[test]
fn rows_become_the_nearest_steps_of_their_largest_value() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    for width in [1, 7, 16, 17, 47, 64, 256] {
        for (range, largest) in RANGES.into_iter().zip([127.0_f32, 255.0]) {
            let mut rows: Vec<f32> = (0..20 * width)
                .map(|at| {
                    let value = random.below(2_000_001) as f32 / 1e6 - 1.0;
                    value * 10_f32.powi((at / width) as i32 - 10)
                })
                .collect();
            rows[..width].fill(0.0);
            rows[width..2 * width].fill(1e-38);
            if range == StepRange::Unsigned {
                rows.iter_mut().for_each(|value| *value = value.abs());
            }
            let mut first: Option<(Vec<u8>, Vec<u32>)> = None;
            for kernels in paths() {
                let (mut steps, mut scales) = (vec![9; rows.len()], vec![9.0; 20]);
                kernels.quantise_rows(&rows, width, range, &mut steps, &mut scales).unwrap();
                for (at, value) in rows.iter().enumerate() {
                    let step = i64::from(steps[at]) - zero(range);
                    let scale = scales[at / width];
                    let gap = (step as f32 * scale - value).abs();
                    assert!(gap <= scale * 0.500_1 + 2e-38, "{value} became {step} of {scale}");
                    assert!((step as f32).abs() <= largest);
                }
                assert_eq!(scales[..2], [0.0, 0.0]);
                let found = (steps, bits(&scales));
                assert_eq!(&found, first.get_or_insert_with(|| found.clone()));
            }
        }
    }
}

#[test]
fn ties_go_to_the_even_step() {
    for kernels in paths() {
        let (mut steps, mut scales) = ([0; 5], [0.0]);
        let row = [127.0, 0.5, 1.5, -2.5, -0.0];
        kernels.quantise_rows(&row, 5, StepRange::Signed, &mut steps, &mut scales).unwrap();
        assert_eq!((steps, scales), ([255, 128, 130, 126, 128], [1.0]));
    }
}

#[test]
fn values_without_a_step_are_refused_by_row_and_column() {
    for (bad, range) in [
        (f32::NAN, StepRange::Signed),
        (f32::INFINITY, StepRange::Unsigned),
        (f32::NEG_INFINITY, StepRange::Signed),
        (-1e-3, StepRange::Unsigned),
    ] {
        for kernels in paths() {
            let mut rows = [1.0; 30];
            rows[17] = bad;
            let (mut steps, mut scales) = ([0; 30], [0.0; 3]);
            let found = kernels.quantise_rows(&rows, 10, range, &mut steps, &mut scales);
            let Err(QuantiseError::Value(misfit)) = found else { panic!("{bad} has a step") };
            assert_eq!((misfit.row, misfit.column), (1, 7));
            assert_eq!(misfit.value.to_bits(), bad.to_bits());
        }
    }
}

#[test]
fn operands_of_the_wrong_length_are_refused_by_name() {
    let length = |operand, needed, found| ShapeError::Length { operand, needed, found };
    let ragged = PackedWeights::pack(&[0; 5], &[1.0, 1.0]).err();
    assert_eq!(ragged, Some(PackError::Shape(length("weights", 4, 5))));
    let scale = PackedWeights::pack(&[0; 4], &[1.0, -1.0]).err();
    assert_eq!(scale, Some(PackError::Scale { column: 1, scale: -1.0 }));
    let kernels = GraphKernels::best();
    let weights = PackedWeights::pack(&[0; 6], &[1.0, 1.0]).unwrap();
    let run = |steps: &[u8], bias: Option<&[f32]>, len: usize| {
        let rows = QuantisedRows { steps, scales: &[1.0, 1.0], range: StepRange::Signed };
        kernels.multiply_quantised(&rows, &weights, &Finish::with(bias), &mut vec![0.0; len]).err()
    };
    assert_eq!(run(&[0; 6], None, 4), None);
    assert_eq!(run(&[0; 5], None, 4), Some(length("steps", 6, 5)));
    assert_eq!(run(&[0; 6], None, 5), Some(length("out", 4, 5)));
    assert_eq!(run(&[0; 6], Some(&[0.0]), 4), Some(length("bias", 2, 1)));
    let found = kernels.quantise_rows(&[0.0; 6], 3, StepRange::Signed, &mut [0; 6], &mut [0.0]);
    assert_eq!(found, Err(QuantiseError::Shape(length("rows", 3, 6))));
}

#[test]
fn weights_become_the_nearest_steps_of_the_largest_of_their_column() {
    let weights = [1.0, -0.0, -127.0, 0.25, 63.4, 0.0, 2.5, 0.0];
    let packed = PackedWeights::quantise(&weights, 2, 4).unwrap();
    let by_hand = PackedWeights::pack(
        &[2, 0, -127, 127, 127, 0, 3, 0],
        &[63.4 / 127.0, 0.0, 1.0, 0.25 / 127.0],
    );
    let steps = [255, 1, 128, 200];
    let rows = QuantisedRows { steps: &steps, scales: &[0.5, 2.0], range: StepRange::Signed };
    let of = |weights: &PackedWeights| {
        let mut out = [0.0; 8];
        GraphKernels::best()
            .multiply_quantised(&rows, weights, &Finish::default(), &mut out)
            .unwrap();
        out
    };
    // 2.5 steps are as far from 2 as from 3: ties go to the even one.
    let even = PackedWeights::pack(
        &[2, 0, -127, 127, 127, 0, 2, 0],
        &[63.4 / 127.0, 0.0, 1.0, 0.25 / 127.0],
    );
    assert_eq!(of(&packed), of(&even.unwrap()));
    assert_ne!(of(&packed), of(&by_hand.unwrap()));
    assert_eq!(
        PackedWeights::quantise(&[f32::NAN], 1, 1).err().unwrap().to_string(),
        "row 0, column 0 is NaN, which cannot be quantised"
    );
    assert_eq!(PackedWeights::quantise(&[], 0, 3).unwrap().width(), 3);
    let ragged = PackedWeights::quantise(&[0.0; 3], 2, 2).err();
    let length = ShapeError::Length { operand: "weights", needed: 4, found: 3 };
    assert_eq!(ragged, Some(PackError::Shape(length)));
}
