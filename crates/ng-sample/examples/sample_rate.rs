//! Prints how long a batch takes to sample, topology only: from pages and from memory.
//!
//! `cargo run --release -p ng-sample --example sample_rate -- [NODES] [BATCHES] [DIR]`: a graph
//! whose degrees follow a power law (mean 25), in a temporary directory or kept in DIR, where it is
//! built once. 4000000 nodes are the standard work. One thread, seeds 1024, fanouts 15 and 10. At
//! the end, weighted beside uniform draws on the same lists with weights, kept in DIR.weighted.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ng_sample::{Fanouts, Method, SampleScratch, SampleSpec, Sampler};
use ng_store::{BuildOptions, EdgeTypeSpec, Entry, OpenOptions, Store, StoreBuilder};
use ng_types::{EdgeTypeId, NodeTypeId};

const SEEDS: usize = 1024;
const FANOUTS: [i64; 2] = [15, 10];
const MEAN_DEGREE: f64 = 25.0;
const EXPONENT: f64 = 2.2;
/// Batches whose rows are counted together.
const TOGETHER: usize = 16;

type Failure = Box<dyn std::error::Error>;

struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Draws from a discrete distribution in two loads (Walker 1974, Vose 1991).
struct Alias(Vec<(f32, u32)>);

impl Alias {
    fn new(weights: &[f64]) -> Self {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let mut left: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|at| left[*at as usize] < 1.0);
        let mut slots: Vec<(f32, u32)> = (0..weights.len() as u32).map(|at| (1.0, at)).collect();
        while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
            slots[low as usize] = (left[low as usize] as f32, high);
            left[high as usize] -= 1.0 - left[low as usize];
            if left[high as usize] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        Self(slots)
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let at = random.below(self.0.len() as u64);
        let (share, other) = self.0[at as usize];
        if random.unit() < f64::from(share) { at } else { u64::from(other) }
    }
}

fn build(dir: &Path, nodes: u64, has_weight: bool) -> Result<(), Failure> {
    let start = Instant::now();
    let mut random = Random(1);
    let most = 2.0 * (nodes as f64).sqrt();
    let weights: Vec<f64> =
        (0..nodes).map(|_| (1.0 - random.unit()).powf(-1.0 / (EXPONENT - 1.0)).min(most)).collect();
    let scale = MEAN_DEGREE * nodes as f64 / weights.iter().sum::<f64>();
    let alias = Alias::new(&weights);
    let mut builder = StoreBuilder::create(dir, BuildOptions::default())?;
    let node = builder.node_type("node", nodes)?;
    let edges = builder.edge_type(EdgeTypeSpec {
        source: node,
        relation: "to".into(),
        destination: node,
        undirected: false,
        unique: false,
        has_edge_ids: false,
        has_time: false,
        has_weight,
    })?;
    let mut writer = builder.topology(edges)?;
    let (mut list, mut num_edges) = (Vec::new(), 0);
    for (destination, weight) in (0..).zip(&weights) {
        let degree = (weight * scale + random.unit()) as u64;
        list.clear();
        list.extend((0..degree).map(|_| alias.draw(&mut random)));
        list.sort_unstable();
        num_edges += degree;
        if !has_weight {
            writer.push_sources(destination, &list)?;
            continue;
        }
        for source in &list {
            let weight = random.unit() as f32;
            writer.push(destination, Entry { source: *source, edge_id: 0, time: 0, weight })?;
        }
    }
    builder.add(writer.finish()?)?;
    builder.commit()?;
    println!("built {nodes} nodes, {num_edges} entries in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Milliseconds that this thread has run, which others on the machine do not lengthen.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e6
}

/// Calls `sample` for each batch and prints the mean time of one, and how long it ran.
fn measure(
    name: &str,
    batches: &[Vec<u64>],
    mut sample: impl FnMut(&[(NodeTypeId, &[u64])], u64) -> Result<(usize, usize), Failure>,
) -> Result<(), Failure> {
    let (mut nodes, mut edges, mut least) = (0, 0, f64::MAX);
    let (start, cpu) = (Instant::now(), cpu_ms());
    for (stream, seeds) in (0..).zip(batches) {
        let one = Instant::now();
        let counts = sample(&[(NodeTypeId(0), seeds)], stream)?;
        least = least.min(one.elapsed().as_secs_f64() * 1e3);
        (nodes, edges) = (nodes + counts.0, edges + counts.1);
    }
    let count = batches.len();
    let mean = start.elapsed().as_secs_f64() * 1e3 / count as f64;
    let cpu = (cpu_ms() - cpu) / count as f64;
    println!(
        "{name:<16} {mean:>7.2} ms a batch (CPU {cpu:.2}, least {least:.2}), {} nodes, {} edges",
        nodes / count,
        edges / count
    );
    Ok(())
}

/// Prints how many rows some batches in a row want.
fn count_rows(sampler: &Sampler, batches: &[Vec<u64>]) -> Result<(), Failure> {
    let (mut rows, mut scratch) = (HashSet::new(), SampleScratch::default());
    for (stream, seeds) in (0..).zip(batches).take(TOGETHER) {
        let sample = sampler.sample_compact(&[(NodeTypeId(0), seeds)], stream, &mut scratch)?;
        rows.extend(sample.node_ids(NodeTypeId(0)).iter());
    }
    println!("{} distinct rows in the first {TOGETHER} batches", rows.len());
    Ok(())
}

fn open(dir: &Path, nodes: u64, has_weight: bool) -> Result<Store, Failure> {
    if !dir.exists() {
        std::fs::create_dir(dir)?;
        build(dir, nodes, has_weight)?;
    }
    Ok(Store::open(dir, &OpenOptions { memory: Some(4 << 30), ..Default::default() })?)
}

/// Prints what each method makes of the same batches, in turns, and the rate beside the first.
fn compare(from: &str, samplers: &[(&str, Sampler)], batches: &[Vec<u64>]) -> Result<(), Failure> {
    let mut spent = vec![(0.0, 0.0); samplers.len()];
    let (mut edges, mut scratch) = (vec![0; samplers.len()], SampleScratch::default());
    for (stream, seeds) in (0..).zip(batches) {
        for (at, (_, sampler)) in samplers.iter().enumerate() {
            let (start, cpu) = (Instant::now(), cpu_ms());
            let sample = sampler.sample_compact(&[(NodeTypeId(0), seeds)], stream, &mut scratch)?;
            let (ms, cpu) = (start.elapsed().as_secs_f64() * 1e3, cpu_ms() - cpu);
            spent[at] = (spent[at].0 + ms, spent[at].1 + cpu);
            edges[at] += sample.edges[0].rows.len();
        }
    }
    let count = batches.len();
    for (at, (name, _)) in samplers.iter().enumerate() {
        let (ms, cpu) = spent[at];
        println!(
            "{from:<7} {name:<22} {:>8.0} seeds/s, {:.2} of the first; CPU {:.2} ms a batch, {:.2} \
             times the first; {} edges",
            (count * SEEDS) as f64 / ms * 1e3,
            spent[0].0 / ms,
            cpu / count as f64,
            cpu / spent[0].1,
            edges[at] / count,
        );
    }
    Ok(())
}

/// Weighted beside uniform draws: from memory, and from pages that are in the cache.
fn compare_weighted(dir: &Path, nodes: u64, batches: &[Vec<u64>]) -> Result<(), Failure> {
    let store = open(dir, nodes, true)?;
    let methods = [
        ("uniform", Method::Uniform { replace: false }),
        ("weighted", Method::Weighted { replace: false }),
        ("weighted, replacement", Method::Weighted { replace: true }),
    ];
    let sampler = |method| -> Result<Sampler, Failure> {
        let spec = SampleSpec::new(Fanouts::uniform(&FANOUTS, 1)?, method, 7);
        Ok(Sampler::new(store.snapshot(), spec, Vec::new())?.without_held_topologies())
    };
    let paged = methods.map(|(name, method)| Ok((name, sampler(method)?)));
    let paged = paged.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    let few = &batches[..batches.len().min(10)];
    for pass in ["cold", "pages"] {
        compare(pass, &paged, few)?;
    }
    let topology = store.snapshot().load_topology(EdgeTypeId(0))?;
    let resident = |(name, sampler): (&'static str, Sampler)| {
        Ok((name, sampler.with_resident(vec![Some(Arc::clone(&topology))])?))
    };
    let resident = paged.into_iter().map(resident).collect::<Result<Vec<_>, Failure>>()?;
    compare("memory", &resident, batches)
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let nodes: u64 = args.next().map_or(Ok(400_000), |text| text.parse())?;
    let batches: usize = args.next().map_or(Ok(50), |text| text.parse())?;
    let temporary = tempfile::tempdir()?;
    let dir = args.next().map_or_else(|| temporary.path().join("graph"), PathBuf::from);
    let store = open(&dir, nodes, false)?;
    println!("{}", store.stats().backend_note);
    let snapshot = store.snapshot();
    let fanouts = Fanouts::uniform(&FANOUTS, 1)?;
    let spec = SampleSpec::uniform(fanouts, 7);
    let paged =
        Sampler::new(Arc::clone(&snapshot), spec.clone(), Vec::new())?.without_held_topologies();
    let mut random = Random(2);
    let mut draw = |_| (0..SEEDS).map(|_| random.below(nodes)).collect();
    let seeds: Vec<Vec<u64>> = (0..batches).map(&mut draw).collect();

    let plain = |sampler: &Sampler, seeds: &[(NodeTypeId, &[u64])], stream| {
        let batch = sampler.sample(seeds, stream)?;
        Ok((batch.nodes[0].ids.len(), batch.edges[0].rows.len()))
    };
    for pass in ["pages, cold", "pages, warm"] {
        let few = &seeds[..batches.min(10)];
        measure(pass, few, |seeds, stream| plain(&paged, seeds, stream))?;
    }
    let start = Instant::now();
    let topology = snapshot.load_topology(EdgeTypeId(0))?;
    let (seconds, bytes) = (start.elapsed().as_secs_f64(), topology.num_bytes());
    println!("loaded {:.1} MB in {seconds:.2} s", bytes as f64 / 1e6);
    let resident = paged.clone().with_resident(vec![Some(Arc::clone(&topology))])?;
    measure("memory", &seeds, |seeds, stream| plain(&resident, seeds, stream))?;
    let (mut scratch, mut compact_bytes) = (SampleScratch::default(), 0);
    for pass in ["memory, compact", "the same again"] {
        measure(pass, &seeds, |seeds, stream| {
            let sample = resident.sample_compact(seeds, stream, &mut scratch)?;
            compact_bytes = sample.num_bytes();
            Ok((sample.node_ids(NodeTypeId(0)).len(), sample.edges[0].rows.len()))
        })?;
    }
    count_rows(&resident, &seeds)?;
    for dependent in [1, 16] {
        let spec = SampleSpec { method: Method::Labor { dependent }, ..spec.clone() };
        let labor =
            Sampler::new(Arc::clone(&snapshot), spec, Vec::new())?.without_held_topologies();
        let few = &seeds[..batches.min(3)];
        measure("labor, pages", few, |seeds, stream| plain(&labor, seeds, stream))?;
        let labor = labor.with_resident(vec![Some(Arc::clone(&topology))])?;
        measure(&format!("labor, {dependent} alike"), &seeds, |seeds, stream| {
            let sample = labor.sample_compact(seeds, stream, &mut scratch)?;
            Ok((sample.node_ids(NodeTypeId(0)).len(), sample.edges[0].rows.len()))
        })?;
        count_rows(&labor, &seeds)?;
    }
    let kib = |bytes: u64| bytes >> 10;
    println!(
        "{} KiB a compact sample, {} KiB of scratch",
        kib(compact_bytes),
        kib(scratch.num_bytes())
    );
    drop(topology);
    compare_weighted(&dir.with_extension("weighted"), nodes, &seeds)
}
