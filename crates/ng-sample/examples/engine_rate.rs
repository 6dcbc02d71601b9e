//! Compares the ways to read lists from disk: hop by hop, and streaming.
//!
//! `cargo run --release -p ng-sample --example engine_rate -- DIR [BACKEND] [MEMORY_MB]`: DIR is a
//! store with one node type and one edge type, such as `sample_rate` builds. Both engines sample
//! the same batches, each from a store of its own that is opened anew for every line; the block
//! cache gets a quarter of MEMORY_MB, so that most lists have to be read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ng_sample::{Engine, Fanouts, SampleScratch, SampleSpec, Sampler};
use ng_store::{OpenOptions, Store};
use ng_types::{NodeTypeId, SeedOrder};

type Failure = Box<dyn std::error::Error>;

/// What a run of batches took.
struct Figures {
    first_ms: f64,
    median_ms: f64,
    reads: f64,
    depth: f64,
    early: String,
}

fn run(
    options: &OpenOptions,
    (dir, fanouts): (&PathBuf, &[i64]),
    batches: &[Vec<u64>],
    engine: Engine,
) -> Result<Figures, Failure> {
    let store = Store::open(dir, options)?;
    let spec = SampleSpec::uniform(Fanouts::uniform(fanouts, 1)?, 5);
    let sampler =
        Sampler::new(Arc::clone(&store.snapshot()), spec, Vec::new())?.without_held_topologies();
    let sampler = sampler.with_engine(engine);
    let mut scratch = SampleScratch::default();
    let mut times = Vec::new();
    store.reset_stats();
    for (stream, seeds) in (0..).zip(batches) {
        let start = Instant::now();
        sampler.sample_compact(&[(NodeTypeId(0), seeds)], stream, &mut scratch)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        // The first batches find the indexes cold.
        if times.len() == batches.len() / 4 {
            store.reset_stats();
        }
    }
    let stats = store.stats();
    let first_ms = times[0];
    let steady = &mut times[batches.len() / 4..];
    steady.sort_by(f64::total_cmp);
    let early = sampler.streaming_stats();
    let share = |count: u64| 100.0 * count as f64 / early.lists.max(1) as f64;
    Ok(Figures {
        first_ms,
        median_ms: steady[steady.len() / 2],
        reads: stats.reads as f64 / steady.len() as f64,
        depth: stats.mean_queue_depth,
        early: format!(
            "{:.2} % extended, {:.2} % cut, {:.2} % unused of {} lists",
            share(early.extended),
            share(early.cut),
            share(early.unused),
            early.lists
        ),
    })
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let dir: PathBuf = args.next().ok_or("usage: engine_rate DIR [BACKEND] [MEMORY_MB]")?.into();
    let backend = args.next().unwrap_or_else(|| "odirect".into()).parse()?;
    let memory_mb: u64 = args.next().map_or(Ok(64), |text| text.parse())?;
    let memory = Some(memory_mb << 20);
    let options = OpenOptions { memory, backend, ..OpenOptions::default() };
    let store = Store::open(&dir, &options)?;
    println!("{}, {memory_mb} MB", store.stats().backend_note);
    let nodes = store.snapshot().catalog().node_types[0].num_nodes;
    drop(store);
    let mut from = 0;
    let order = SeedOrder::new(nodes, 3, 0);
    for (fanouts, seeds, count) in [
        (&[15, 10][..], 1, 200),
        (&[15, 10], 8, 120),
        (&[15, 10], 64, 60),
        (&[15, 10], 256, 24),
        (&[15, 10], 1024, 12),
        (&[5, 5, 5], 1, 200),
        (&[5, 5, 5], 16, 60),
        (&[10, 10, 10], 4, 60),
        (&[4, 8, 12], 8, 60),
        (&[3, 3, 3, 3], 1, 200),
        (&[2, 2, 2, 2, 2, 2], 1, 200),
    ] {
        let batches: Vec<Vec<u64>> = (0..count)
            .map(|_| {
                from += seeds;
                (from..from + seeds).map(|at| order.at(at % nodes)).collect()
            })
            .collect();
        println!("fanouts {fanouts:?}, {seeds} seeds");
        for engine in [Engine::Hops, Engine::Streaming] {
            let f = run(&options, (&dir, fanouts), &batches, engine)?;
            println!(
                "  {engine:?}: first {:.2} ms, then median {:.2} ms, {:.0} reads, depth {:.1}; {}",
                f.first_ms, f.median_ms, f.reads, f.depth, f.early
            );
        }
    }
    Ok(())
}
