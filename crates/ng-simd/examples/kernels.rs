//! How long aggregation takes, as a ratio to gathering the rows and adding them up afterwards, in
//! the same run on one core. Below 1 is faster.
//!
//! `cargo run --release -p ng-simd --example kernels`

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use ng_simd::{Aggregation, EdgeLists, GraphKernels, How, Path, Rows};
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
    println!("{num_destinations} x {FANOUT} x {WIDTH} from {num_rows} rows, seed {SEED:#x}");
    for kernels in PATHS.into_iter().filter_map(GraphKernels::on) {
        for (name, rows_of) in all {
            let how = How::Sum;
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

fn main() -> Result<(), Box<dyn Error>> {
    for num_destinations in [11_000, 1_600] {
        aggregations(num_destinations, num_destinations * 6)?;
    }
    aggregations(11_000, 500_000)
}
