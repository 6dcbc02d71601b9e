//! How long kernels take on one core, as ratios to plain f32 in the same run: aggregation to
//! gathering the rows and adding them up afterwards, products in steps of 8 bits to products of f32
//! that the compiler vectorised, softmax and dot products of edges to plain loops. Below 1 is
//! faster; each line has the median and the range.
//!
//! `cargo run --release -p ng-simd --example kernels`

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use ng_simd::{
    Aggregation, EdgeLists, EdgePairs, Finish, GraphKernels, PackedWeights, Path, QuantisedRows,
    Reduction, Rows, StepRange,
};
use ng_testing::Random;

const WIDTH: usize = 256;
const FANOUT: usize = 10;
const RUNS: usize = 9;
const SEED: u64 = 0xBE7C;
const PATHS: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Median and range.
fn summary(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    format!("{:.2} ({least:.2} to {most:.2})", ratios[ratios.len() / 2])
}

/// Copies a row for each edge, then adds those of each destination.
fn gather_then_sum(lists: &EdgeLists<'_>, rows: &[f32], gathered: &mut [f32], out: &mut [f32]) {
    for (source, to) in lists.sources().iter().zip(gathered.chunks_exact_mut(WIDTH)) {
        let at = *source as usize * WIDTH;
        to.copy_from_slice(&rows[at..at + WIDTH]);
    }
    for (destination, out) in out.chunks_exact_mut(WIDTH).enumerate() {
        out.fill(0.0);
        for row in gathered[WIDTH * lists.edges(destination).start..]
            .chunks_exact(WIDTH)
            .take(lists.edges(destination).len())
        {
            out.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    }
}

fn aggregations(num_destinations: usize, num_rows: usize) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(SEED);
    let num_edges = num_destinations * FANOUT;
    let offsets: Vec<u32> = (0..=num_destinations).map(|at| (at * FANOUT) as u32).collect();
    let sources: Vec<u32> = (0..num_edges).map(|_| random.below(num_rows as u64) as u32).collect();
    let lists = EdgeLists::new(&offsets, &sources, num_rows)?;
    let rows: Vec<f32> = (0..num_rows * WIDTH).map(|at| (at % 1000) as f32).collect();
    let (halves, steps) = (vec![0x35; 2 * rows.len()], vec![0x35; rows.len()]);
    let scales = vec![0.01; WIDTH];
    let mut gathered = vec![0.0; num_edges * WIDTH];
    let mut out = vec![0.0; num_destinations * WIDTH];
    let all = [
        ("f32", Rows::F32(&rows)),
        ("f16", Rows::F16(&halves)),
        ("bf16", Rows::Bf16(&halves)),
        ("int8", Rows::I8 { steps: &steps, scales: &scales }),
    ];
    let megabytes = |values: usize| (4 * values * WIDTH) as f64 / 1e6;
    println!(
        "{num_destinations} x {FANOUT} x {WIDTH} from {num_rows} rows, seed {SEED:#x}: \
         {:.0} MB of f32 read, {:.0} MB written",
        megabytes(num_edges),
        megabytes(num_destinations)
    );
    for kernels in PATHS.into_iter().filter_map(GraphKernels::on) {
        for (name, rows_of) in all {
            let how = Reduction::Sum;
            let job = Aggregation { lists, rows: rows_of, width: WIDTH, weights: None, how };
            let mut ratios = Vec::new();
            let mut rate = 0.0_f64;
            for run in 0..=RUNS {
                let plain = seconds(|| gather_then_sum(&lists, &rows, &mut gathered, &mut out));
                black_box(&out);
                let mut found = Ok(());
                let ours = seconds(|| {
                    found = kernels.aggregate(&job, 0..num_destinations, &mut out);
                });
                found?;
                black_box(&out);
                // The first run touches memory for the first time.
                if run > 0 {
                    ratios.push(ours / plain);
                    rate = rate.max((num_edges * WIDTH) as f64 / ours / 1e9);
                }
            }
            let path = format!("{:?}", kernels.path());
            println!("  {path:<8} {name:<4} {}, at best {rate:.1} G values/s", summary(ratios));
        }
    }
    Ok(())
}

/// Row by row, each a sum of scaled rows of the weights.
fn plain_product(rows: &[f32], weights: &[f32], out: &mut [f32]) {
    for (row, out) in rows.chunks_exact(WIDTH).zip(out.chunks_exact_mut(WIDTH)) {
        out.fill(0.0);
        for (value, weights) in row.iter().zip(weights.chunks_exact(WIDTH)) {
            out.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
        }
    }
}

fn products(num_rows: usize) -> Result<(), Box<dyn Error>> {
    let rows: Vec<f32> = (0..num_rows * WIDTH).map(|at| (at % 1000) as f32).collect();
    let weights: Vec<f32> = (0..WIDTH * WIDTH).map(|at| (at % 255) as f32 - 127.0).collect();
    let steps: Vec<i8> = weights.iter().map(|weight| *weight as i8).collect();
    let packed = PackedWeights::pack(&steps, &[1.0; WIDTH])?;
    let (mut steps, mut scales) = (vec![0; rows.len()], vec![0.0; num_rows]);
    let mut out = vec![0.0; num_rows * WIDTH];
    let range = StepRange::Unsigned;
    println!("{num_rows} x {WIDTH} x {WIDTH}");
    for kernels in PATHS.into_iter().filter_map(GraphKernels::on) {
        let mut ratios = [const { Vec::new() }; 2];
        for run in 0..=RUNS {
            let plain = seconds(|| plain_product(&rows, &weights, &mut out));
            black_box(&out);
            let mut found = Ok(());
            let quantise = seconds(|| {
                found = kernels.quantise_rows(&rows, WIDTH, range, &mut steps, &mut scales);
            });
            found?;
            let rows = QuantisedRows { steps: &steps, scales: &scales, range };
            let mut found = Ok(());
            let multiply = seconds(|| {
                found = kernels.multiply_quantised(&rows, &packed, &Finish::default(), &mut out);
            });
            found?;
            black_box(&out);
            if run > 0 {
                ratios[0].push(quantise / plain);
                ratios[1].push(multiply / plain);
            }
        }
        let path = format!("{:?}", kernels.path());
        let [quantise, multiply] = ratios.map(summary);
        println!("  {path:<8} quantise {quantise}, multiply {multiply}");
    }
    Ok(())
}

/// The dot product of the rows of an edge, column after column.
fn plain_dot(pairs: &EdgePairs<'_>, destination: usize, edge: usize) -> f32 {
    let source = pairs.lists.sources()[edge] as usize;
    let a = &pairs.sources[source * WIDTH..(source + 1) * WIDTH];
    let b = &pairs.destinations[destination * WIDTH..(destination + 1) * WIDTH];
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Softmax by the exponential of the system's library.
fn plain_softmax(lists: &EdgeLists<'_>, logits: &[f32], out: &mut [f32]) {
    for destination in 0..lists.num_destinations() {
        let edges = lists.edges(destination);
        let largest = logits[edges.clone()].iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let out = &mut out[edges.clone()];
        out.iter_mut().zip(&logits[edges]).for_each(|(out, logit)| *out = (logit - largest).exp());
        let sum: f32 = out.iter().sum();
        out.iter_mut().for_each(|value| *value /= sum + 1e-16);
    }
}

fn attention(num_destinations: usize) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(SEED);
    let num_edges = num_destinations * FANOUT;
    let offsets: Vec<u32> = (0..=num_destinations).map(|at| (at * FANOUT) as u32).collect();
    let num_rows = num_destinations as u64;
    let sources: Vec<u32> = (0..num_edges).map(|_| random.below(num_rows) as u32).collect();
    let lists = EdgeLists::new(&offsets, &sources, num_destinations)?;
    let rows: Vec<f32> = (0..num_destinations * WIDTH).map(|at| (at % 100) as f32).collect();
    let pairs = EdgePairs { lists, sources: &rows, destinations: &rows, heads: 1, width: WIDTH };
    let logits: Vec<f32> = (0..num_edges).map(|_| random.below(1000) as f32 / 100.0).collect();
    let mut out = vec![0.0; num_edges];
    println!("{num_destinations} x {FANOUT}, one head, dots of {WIDTH}");
    for kernels in PATHS.into_iter().filter_map(GraphKernels::on) {
        let mut ratios = [const { Vec::new() }; 2];
        for run in 0..=RUNS {
            let all = 0..num_destinations;
            let plain = seconds(|| plain_softmax(&lists, &logits, &mut out));
            black_box(&out);
            let mut found = Ok(());
            let softmax = seconds(|| {
                found = kernels.edge_softmax(&lists, &logits, 1, all.clone(), &mut out);
            });
            found?;
            let plain_dots = seconds(|| {
                for destination in all.clone() {
                    for edge in lists.edges(destination) {
                        out[edge] = plain_dot(&pairs, destination, edge);
                    }
                }
            });
            black_box(&out);
            let mut found = Ok(());
            let dots = seconds(|| found = kernels.edge_dot(&pairs, all, &mut out));
            found?;
            black_box(&out);
            if run > 0 {
                ratios[0].push(softmax / plain);
                ratios[1].push(dots / plain_dots);
            }
        }
        let path = format!("{:?}", kernels.path());
        let [softmax, dots] = ratios.map(summary);
        println!("  {path:<8} softmax {softmax}, dots {dots}");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    for num_destinations in [11_000, 1_600] {
        aggregations(num_destinations, num_destinations * 6)?;
    }
    aggregations(11_000, 500_000)?;
    products(11_000)?;
    attention(11_000)
}
