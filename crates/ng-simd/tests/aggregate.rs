//! Aggregation gives the bits of decoding, gathering and adding in plain Rust, on every path.

use ng_simd::{
    Aggregation, EdgeLists, GraphKernels, ListError, Path, Reduction, RowDecoder, Rows, ShapeError,
};
use ng_testing::Random;
use ng_types::Dtype;

const PATHS: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];
const WIDTHS: [usize; 11] = [1, 3, 7, 16, 17, 33, 47, 64, 100, 256, 300];
const REDUCTIONS: [Reduction; 4] =
    [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min];
const SEED: u64 = 0xA66;

/// One hub, empty lists at the start, between and at the end.
fn lists(random: &mut Random, num_rows: u32) -> (Vec<u32>, Vec<u32>) {
    let mut offsets = vec![0];
    for len in [0, 3, 1, 0, 0, 10, 500, 2, 11, 0] {
        offsets.push(offsets[offsets.len() - 1] + len);
    }
    let num_edges = offsets[offsets.len() - 1];
    (offsets, (0..num_edges).map(|_| random.below(u64::from(num_rows)) as u32).collect())
}

fn floats(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| random.below(2_000_001) as f32 / 1e6 - 1.0).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// By the definition, in f32.
fn expected(job: &Aggregation<'_>, rows: &[f32]) -> Vec<f32> {
    let mut out = Vec::new();
    for destination in 0..job.lists.num_destinations() {
        let edges = job.lists.edges(destination);
        for column in 0..job.width {
            let value = |edge: usize| {
                let row = job.lists.sources()[edge] as usize;
                let value = rows[row * job.width + column];
                let weights = job.weights.map(|all| (all, all.len() / job.lists.num_edges()));
                weights.map_or(value, |(all, heads)| {
                    all[edge * heads + column * heads / job.width] * value
                })
            };
            let one = match job.how {
                _ if edges.is_empty() => 0.0,
                Reduction::Sum => edges.clone().fold(0.0, |sum, edge| sum + value(edge)),
                Reduction::Mean => {
                    edges.clone().fold(0.0, |sum, edge| sum + value(edge)) / edges.len() as f32
                }
                _ if edges.clone().any(|edge| value(edge).is_nan()) => f32::NAN,
                Reduction::Max => {
                    edges.clone().map(value).reduce(|a, b| if b > a { b } else { a }).unwrap()
                }
                Reduction::Min => {
                    edges.clone().map(value).reduce(|a, b| if b < a { b } else { a }).unwrap()
                }
            };
            out.push(if one.is_nan() { f32::NAN } else { one });
        }
    }
    out
}

/// Every path, in two splits.
fn check(job: &Aggregation<'_>, rows: &[f32], what: &str) {
    let expected = bits(&expected(job, rows));
    let count = job.lists.num_destinations();
    for kernels in PATHS.into_iter().filter_map(GraphKernels::on) {
        for middle in [0, count / 2] {
            let mut out = vec![7.0; count * job.width];
            let (first, second) = out.split_at_mut(middle * job.width);
            kernels.aggregate(job, 0..middle, first).unwrap();
            kernels.aggregate(job, middle..count, second).unwrap();
            let Aggregation { width, how, .. } = job;
            assert_eq!(bits(&out), expected, "{what}, {width}, {how:?}, {:?}", kernels.path());
        }
    }
}

#[test]
fn every_path_adds_rows_in_the_order_of_the_list_at_every_width() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    let (offsets, sources) = lists(&mut random, 40);
    let lists = EdgeLists::new(&offsets, &sources, 40).unwrap();
    let weights = floats(&mut random, sources.len());
    for width in WIDTHS {
        let rows = floats(&mut random, 40 * width);
        for how in REDUCTIONS {
            for weights in [None, Some(&weights[..])] {
                let job = Aggregation { lists, rows: Rows::F32(&rows), width, weights, how };
                check(&job, &rows, "f32");
            }
        }
    }
}

#[test]
fn heads_of_a_row_have_weights_of_their_own() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    let (offsets, sources) = lists(&mut random, 40);
    let lists = EdgeLists::new(&offsets, &sources, 40).unwrap();
    for (heads, part) in [(2, 1), (3, 5), (8, 8), (4, 16), (2, 50), (2, 256), (5, 47)] {
        let width = heads * part;
        let rows = floats(&mut random, 40 * width);
        let weights = floats(&mut random, heads * sources.len());
        for how in REDUCTIONS {
            let weights = Some(&weights[..]);
            let job = Aggregation { lists, rows: Rows::F32(&rows), width, weights, how };
            check(&job, &rows, "heads");
        }
    }
}

#[test]
fn narrow_rows_aggregate_as_their_decoded_form_does() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    let (offsets, sources) = lists(&mut random, 30);
    let lists = EdgeLists::new(&offsets, &sources, 30).unwrap();
    let weights = floats(&mut random, sources.len());
    for width in WIDTHS {
        let scales: Vec<f32> = (0..width).map(|column| (column % 7) as f32 * 0.37).collect();
        for stored in [Dtype::F16, Dtype::Bf16, Dtype::I8] {
            // One byte in front, so that no element is aligned. The bytes have NaNs and infinities.
            let bytes = random.bytes(30 * width * stored.size_bytes() + 1);
            let bytes = &bytes[1..];
            let of_columns = (stored == Dtype::I8).then(|| scales.clone().into());
            let decoder = RowDecoder::new(stored, width, of_columns, Dtype::F32).unwrap();
            let mut decoded = vec![0; 4 * 30 * width];
            decoder.decode_rows(bytes, &mut decoded);
            let decoded: Vec<f32> =
                decoded.as_chunks().0.iter().map(|v| f32::from_le_bytes(*v)).collect();
            let rows = match stored {
                Dtype::F16 => Rows::F16(bytes),
                Dtype::Bf16 => Rows::Bf16(bytes),
                _ => Rows::I8 { steps: bytes, scales: &scales },
            };
            for how in REDUCTIONS {
                for weights in [None, Some(&weights[..])] {
                    let job = Aggregation { lists, rows, width, weights, how };
                    check(&job, &decoded, &stored.to_string());
                }
            }
        }
    }
}

#[test]
fn every_nan_becomes_one_and_the_first_of_equal_zeros_stays() {
    let odd = [f32::from_bits(0xFFC0_0001), 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, -1.0];
    let mut random = Random::new(SEED);
    println!("seed {SEED:#x}");
    for width in WIDTHS {
        let rows: Vec<f32> = (0..20 * width).map(|_| odd[random.below(6) as usize]).collect();
        let offsets: Vec<u32> = (0..=30).map(|at| at * 3).collect();
        let sources: Vec<u32> = (0..90).map(|_| random.below(20) as u32).collect();
        let lists = EdgeLists::new(&offsets, &sources, 20).unwrap();
        for how in REDUCTIONS {
            let job = Aggregation { lists, rows: Rows::F32(&rows), width, weights: None, how };
            check(&job, &rows, "odd values");
        }
    }
}

#[test]
fn nothing_to_aggregate_is_not_an_error() {
    let lists = EdgeLists::new(&[0], &[], 0).unwrap();
    let empty = EdgeLists::new(&[0, 0, 0], &[], 0).unwrap();
    for how in REDUCTIONS {
        let mut job = Aggregation { lists, rows: Rows::F32(&[]), width: 5, weights: None, how };
        check(&job, &[], "no destinations");
        job.lists = empty;
        check(&job, &[], "no rows");
        job.width = 0;
        check(&job, &[], "no columns");
    }
}

#[test]
fn lists_that_are_wrong_are_refused_by_what_is_wrong() {
    let error = |offsets: &[u32], sources: &[u32]| EdgeLists::new(offsets, sources, 3).err();
    assert_eq!(error(&[], &[]), Some(ListError::NoOffsets));
    assert_eq!(error(&[1, 1], &[0]), Some(ListError::Start { found: 1 }));
    let order = ListError::Order { destination: 1, start: 2, end: 1 };
    assert_eq!(error(&[0, 2, 1, 2], &[0, 0]), Some(order));
    assert_eq!(error(&[0, 1], &[0, 0]), Some(ListError::End { found: 1, num_edges: 2 }));
    assert_eq!(error(&[0, 3], &[0, 0]), Some(ListError::End { found: 3, num_edges: 2 }));
    for source_row in [3, u32::MAX] {
        let source = ListError::Source { edge: 1, source_row, num_rows: 3 };
        assert_eq!(error(&[0, 2], &[2, source_row]), Some(source));
    }
}

#[test]
fn operands_of_the_wrong_length_are_refused_by_name() {
    let lists = EdgeLists::new(&[0, 1, 2], &[0, 2], 3).unwrap();
    let (rows, weights) = ([1.0; 12], [1.0; 1]);
    let job =
        Aggregation { lists, rows: Rows::F32(&rows), width: 4, weights: None, how: Reduction::Sum };
    let kernels = GraphKernels::best();
    let run = |job: &Aggregation<'_>, range, len| {
        let mut out = vec![7.0; len];
        let found = kernels.aggregate(job, range, &mut out);
        assert!(found.is_ok() || out.iter().all(|value| *value == 7.0));
        found.err()
    };
    let length = |operand, needed, found| Some(ShapeError::Length { operand, needed, found });
    assert_eq!(run(&job, 0..2, 8), None);
    assert_eq!(run(&job, 0..2, 7), length("out", 8, 7));
    assert_eq!(run(&job, 1..2, 8), length("out", 4, 8));
    let outside = ShapeError::Destinations { start: 0, end: 3, num_destinations: 2 };
    assert_eq!(run(&job, 0..3, 12), Some(outside));
    let weighted = Aggregation { weights: Some(&weights), ..job };
    assert_eq!(run(&weighted, 0..2, 8), length("weights", 2, 1));
    // Neither whole heads, nor heads that divide a row.
    for len in [3, 6] {
        let weighted = Aggregation { weights: Some(&[1.0; 6][..len]), ..job };
        assert_eq!(run(&weighted, 0..2, 8), length("weights", 2, len));
    }
    let short = Aggregation { rows: Rows::F32(&rows[1..]), ..job };
    assert_eq!(run(&short, 0..2, 8), length("rows", 12, 11));
    for len in [23, 25] {
        let bytes = vec![0; len];
        for rows in [Rows::F16(&bytes), Rows::Bf16(&bytes)] {
            assert_eq!(run(&Aggregation { rows, ..job }, 0..2, 8), length("rows", 24, len));
        }
    }
    let unscaled = Aggregation { rows: Rows::I8 { steps: &[0; 12], scales: &[1.0] }, ..job };
    assert_eq!(run(&unscaled, 0..2, 8), length("scales", 4, 1));
    let huge = Aggregation { width: usize::MAX, ..job };
    assert_eq!(run(&huge, 0..2, 8), length("rows", usize::MAX, 12));
}
