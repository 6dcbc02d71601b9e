//! Values of edges equal those of plain arithmetic, with the same bits on every path.

use ng_simd::{EdgeLists, EdgePairs, GraphKernels, Path, ShapeError};
use ng_testing::Random;

const PATHS: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];
const SEED: u64 = 0xED6E;
/// One hub, empty lists at the start, between and at the end.
const OFFSETS: [u32; 8] = [0, 0, 3, 4, 4, 104, 111, 111];
const NUM_ROWS: usize = 20;

fn sources(random: &mut Random) -> Vec<u32> {
    (0..OFFSETS[7]).map(|_| random.below(NUM_ROWS as u64) as u32).collect()
}

fn floats(random: &mut Random, len: usize, most: f32) -> Vec<f32> {
    (0..len).map(|_| (random.below(2_000_001) as f32 / 1e6 - 1.0) * most).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// What `run` writes for all destinations: the same bits on every path, in one part and in two.
fn on_every_path(
    lists: &EdgeLists<'_>,
    of_edge: usize,
    run: impl Fn(GraphKernels, std::ops::Range<usize>, &mut [f32]),
) -> Vec<f32> {
    let mut found: Option<Vec<f32>> = None;
    let count = lists.num_destinations();
    for kernels in PATHS.into_iter().filter_map(GraphKernels::on) {
        for middle in [0, count / 2] {
            let mut out = vec![7.0; lists.num_edges() * of_edge];
            let at = lists.edges_of(&(0..middle)).unwrap().end * of_edge;
            let (first, second) = out.split_at_mut(at);
            run(kernels, 0..middle, first);
            run(kernels, middle..count, second);
            let expected = found.get_or_insert_with(|| out.clone());
            assert_eq!(bits(&out), bits(expected), "{:?}", kernels.path());
        }
    }
    found.unwrap_or_default()
}

#[test]
fn softmax_is_near_that_of_f64_and_has_the_same_bits_on_every_path() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    let sources = sources(&mut random);
    let lists = EdgeLists::new(&OFFSETS, &sources, NUM_ROWS).unwrap();
    for heads in [1, 2, 3, 8, 17] {
        for most in [1.0, 60.0, 1e30] {
            let logits = floats(&mut random, sources.len() * heads, most);
            let found = on_every_path(&lists, heads, |kernels, range, out| {
                kernels.edge_softmax(&lists, &logits, heads, range, out).unwrap();
            });
            for (edges, head) in
                (0..7).flat_map(|i| (0..heads).map(move |head| (lists.edges(i), head)))
            {
                let logit = |edge: usize| f64::from(logits[edge * heads + head]);
                let largest = edges.clone().map(logit).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = edges.clone().map(|edge| (logit(edge) - largest).exp()).sum();
                for edge in edges {
                    let exact = (logit(edge) - largest).exp() / (sum + 1e-16);
                    let gap = (f64::from(found[edge * heads + head]) - exact).abs();
                    // Subtraction rounds the power: by half an ulp of at most 128.
                    assert!(gap <= 1e-5 * exact + 1e-37, "{exact} {gap}");
                }
            }
        }
    }
}

#[test]
fn softmax_of_odd_logits_is_0_or_one_nan() {
    let lists = EdgeLists::new(&[0, 2, 4, 6, 8, 8], &[0; 8], 1).unwrap();
    let (nan, least) = (f32::from_bits(0xFFC0_0001), f32::NEG_INFINITY);
    let logits = [nan, 1.0, f32::INFINITY, 1.0, least, 1.0, least, least];
    let found = on_every_path(&lists, 1, |kernels, range, out| {
        kernels.edge_softmax(&lists, &logits, 1, range, out).unwrap();
    });
    let nan = f32::NAN;
    assert_eq!(bits(&found), bits(&[nan, nan, nan, nan, 0.0, 1.0, nan, nan]));
}

/// By the definition: column `c` is added to sum `c % 16`, then the sums in halves.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    for (column, (a, b)) in a.iter().zip(b).enumerate() {
        let product = a * b;
        sums[column % 16] += product;
    }
    for half in [8, 4, 2, 1] {
        for at in 0..half {
            sums[at] += sums[at + half];
        }
    }
    if sums[0].is_nan() { f32::NAN } else { sums[0] }
}

#[test]
fn dots_and_sums_are_those_of_plain_arithmetic_at_every_width() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    let list_sources = sources(&mut random);
    let lists = EdgeLists::new(&OFFSETS, &list_sources, NUM_ROWS).unwrap();
    for (heads, width) in
        [1, 3].into_iter().flat_map(|h| [0, 1, 7, 16, 17, 47, 64, 256].map(|w| (h, w)))
    {
        let len = heads * width;
        let mut sources = floats(&mut random, NUM_ROWS * len, 1.0);
        let destinations = floats(&mut random, 7 * len, 1.0);
        if let Some(odd) = sources.last_mut() {
            *odd = f32::from_bits(0xFFC0_0001);
        }
        let pairs =
            EdgePairs { lists, sources: &sources, destinations: &destinations, heads, width };
        let dots = on_every_path(&lists, heads, |kernels, range, out| {
            kernels.edge_dot(&pairs, range, out).unwrap();
        });
        let sums = on_every_path(&lists, len, |kernels, range, out| {
            kernels.edge_add(&pairs, range, out).unwrap();
        });
        for (destination, edge) in (0..7).flat_map(|i| lists.edges(i).map(move |e| (i, e))) {
            let a = &sources[list_sources[edge] as usize * len..][..len];
            let b = &destinations[destination * len..][..len];
            for at in 0..len {
                let sum = a[at] + b[at];
                let sum = if sum.is_nan() { f32::NAN } else { sum };
                assert_eq!(sums[edge * len + at].to_bits(), sum.to_bits());
            }
            for head in 0..heads {
                let columns = head * width..(head + 1) * width;
                let expected = dot(&a[columns.clone()], &b[columns]);
                assert_eq!(dots[edge * heads + head].to_bits(), expected.to_bits());
            }
        }
    }
}

#[test]
fn the_16_sums_of_a_dot_product_are_added_in_halves() {
    let lists = EdgeLists::new(&[0, 1], &[0], 1).unwrap();
    let ones = [1.0; 33];
    // Sum 0 has columns 0, 16 and 32: 1 is lost beside 2^24, and lost again before it is taken off.
    let mut sources = [0.0; 33];
    (sources[0], sources[16], sources[32]) = (16_777_216.0, 1.0, -16_777_216.0);
    (sources[8], sources[4]) = (3.0, 0.5);
    let pairs = EdgePairs { lists, sources: &sources, destinations: &ones, heads: 1, width: 33 };
    let found = on_every_path(&lists, 1, |kernels, range, out| {
        kernels.edge_dot(&pairs, range, out).unwrap();
    });
    assert_eq!(found, [3.5]);
}

#[test]
fn operands_of_the_wrong_length_are_refused_by_name() {
    let lists = EdgeLists::new(&[0, 1, 2], &[0, 2], 3).unwrap();
    let kernels = GraphKernels::best();
    let length = |operand, needed, found| Err(ShapeError::Length { operand, needed, found });
    let softmax = |logits: &[f32], out: usize| {
        kernels.edge_softmax(&lists, logits, 2, 1..2, &mut vec![0.0; out])
    };
    assert_eq!(softmax(&[0.0; 4], 2), Ok(()));
    assert_eq!(softmax(&[0.0; 3], 2), length("logits", 4, 3));
    assert_eq!(softmax(&[0.0; 4], 4), length("out", 2, 4));
    let [a, b] = [[0.0; 12]; 2];
    let pairs = EdgePairs { lists, sources: &a, destinations: &b[..8], heads: 2, width: 2 };
    assert_eq!(kernels.edge_dot(&pairs, 1..2, &mut [0.0; 2]), Ok(()));
    assert_eq!(kernels.edge_add(&pairs, 1..2, &mut [0.0; 4]), Ok(()));
    assert_eq!(kernels.edge_dot(&pairs, 1..2, &mut [0.0; 3]), length("out", 2, 3));
    assert_eq!(kernels.edge_add(&pairs, 1..2, &mut [0.0; 3]), length("out", 4, 3));
    let short = EdgePairs { destinations: &b, ..pairs };
    assert_eq!(kernels.edge_dot(&short, 1..2, &mut [0.0; 2]), length("destinations", 8, 12));
    let short = EdgePairs { sources: &a[1..], ..pairs };
    assert_eq!(kernels.edge_add(&short, 1..2, &mut [0.0; 4]), length("sources", 12, 11));
    let outside = ShapeError::Destinations { start: 1, end: 3, num_destinations: 2 };
    assert_eq!(kernels.edge_dot(&pairs, 1..3, &mut [0.0; 2]), Err(outside));
}
