//! Products of matrices give the bits of their definition, on every path and in every split.

use ng_simd::{Finish, GraphKernels, PackedMatrix, Path, Product, ShapeError};
use ng_testing::Random;

const PATHS: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];
const SEED: u64 = 0x3A7;
/// What stands in a result before.
const STOOD: f32 = 0.7;

fn floats(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| random.below(2_000_001) as f32 / 1e6 - 1.0).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn expected(product: &Product<'_>, weights: &[f32], num_rows: usize) -> Vec<f32> {
    let (depth, width) = (product.weights.depth(), product.weights.width());
    let mut out = Vec::new();
    for row in 0..num_rows {
        for column in 0..width {
            let mut sum = 0.0_f32;
            for at in 0..depth {
                sum = product.rows[row * depth + at].mul_add(weights[at * width + column], sum);
            }
            let Finish { bias, is_added, is_rectified } = product.finish;
            let sum = bias.map_or(sum, |bias| sum + bias[column]);
            let sum = if is_added { sum + STOOD } else { sum };
            let sum = if is_rectified && sum <= 0.0 { 0.0 } else { sum };
            out.push(if sum.is_nan() { f32::NAN } else { sum });
        }
    }
    out
}

fn turned(weights: &[f32], depth: usize, width: usize) -> Vec<f32> {
    (0..width * depth).map(|at| weights[at % depth * width + at / depth]).collect()
}

#[test]
fn every_path_and_split_gives_one_chain_of_fused_products_for_each_element() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    for num_rows in [0, 1, 2, 3, 5, 6, 7, 17, 103] {
        for depth in [0, 1, 5, 64, 70] {
            for width in [0, 1, 15, 16, 17, 33, 47, 48, 64, 65, 100, 130] {
                let mut rows = floats(&mut random, num_rows * depth);
                if let Some(first) = rows.get_mut(3) {
                    *first = f32::from_bits(0xFFC0_0001);
                }
                let weights = floats(&mut random, depth * width);
                let bias = floats(&mut random, width);
                let packed = PackedMatrix::pack(&weights, depth, width).unwrap();
                let turned = turned(&weights, depth, width);
                let turned = PackedMatrix::pack_transposed(&turned, depth, width).unwrap();
                let plain = Finish::default();
                let all = Finish { bias: Some(&bias), is_added: true, is_rectified: true };
                for finish in [plain, all] {
                    let product = Product { rows: &rows, weights: &packed, finish };
                    let wanted = bits(&expected(&product, &weights, num_rows));
                    for kernels in PATHS.into_iter().filter_map(GraphKernels::on) {
                        let what = (kernels.path(), num_rows, depth, width);
                        let mut out = vec![STOOD; num_rows * width];
                        for packed in [&packed, &turned] {
                            let product = Product { weights: packed, ..product };
                            out.fill(STOOD);
                            kernels.multiply(&product, &mut out).unwrap();
                            assert_eq!(bits(&out), wanted, "{what:?}");
                        }
                        out.fill(STOOD);
                        let half = num_rows / 2;
                        let (first, second) = out.split_at_mut(half * width);
                        for (rows, out) in
                            [(&rows[..half * depth], first), (&rows[half * depth..], second)]
                        {
                            kernels.multiply(&Product { rows, ..product }, out).unwrap();
                        }
                        assert_eq!(bits(&out), wanted, "{what:?} in halves");
                    }
                }
            }
        }
    }
}

#[test]
fn operands_of_the_wrong_length_are_refused_by_name() {
    let length = |operand, needed, found| Some(ShapeError::Length { operand, needed, found });
    let packed = PackedMatrix::pack(&[0.0; 6], 3, 2).unwrap();
    assert_eq!(PackedMatrix::pack(&[0.0; 5], 3, 2).err(), length("weights", 6, 5));
    assert_eq!(PackedMatrix::pack_transposed(&[0.0; 7], 3, 2).err(), length("weights", 6, 7));
    let run = |rows: &[f32], bias: Option<&[f32]>, len| {
        let product = Product { rows, weights: &packed, finish: Finish::with(bias) };
        GraphKernels::best().multiply(&product, &mut vec![0.0; len]).err()
    };
    assert_eq!(run(&[0.0; 6], None, 4), None);
    assert_eq!(run(&[0.0; 5], None, 4), length("rows", 6, 5));
    assert_eq!(run(&[0.0; 6], None, 5), length("out", 4, 5));
    assert_eq!(run(&[0.0; 6], Some(&[0.0; 3]), 4), length("bias", 2, 3));
}
