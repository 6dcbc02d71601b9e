//! Builds a synthetic store and prints how fast batches are gathered and expanded, cold and warm.
//!
//! `cargo run --release -p ng-store --example throughput -- DIR [NODES] [BACKEND]`; DIR must be on
//! the disk to be measured. The store is built where DIR does not exist yet.

use std::path::Path;
use std::time::Instant;

use ng_store::{
    BuildOptions, EdgeTypeSpec, Expansion, OpenOptions, Owner, Store, StoreBuilder, TensorRef,
    TensorSpec,
};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const WIDTH: usize = 128;
const BATCH: usize = 1 << 16;
const BATCHES: usize = 8;

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
}

fn build(dir: &Path, nodes: u64) -> Result<(), Failure> {
    let start = Instant::now();
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
        has_weight: false,
    })?;
    let mut random = Random(1);
    let mut writer = builder.topology(edges)?;
    let mut list = Vec::new();
    let mut num_edges = 0_u64;
    for destination in 0..nodes {
        let degree = if random.below(2_000) == 0 { 4_000 } else { 5 + random.below(36) };
        list.clear();
        list.extend((0..degree).map(|_| random.below(nodes)));
        num_edges += degree;
        writer.push_sources(destination, &list)?;
    }
    builder.add(writer.finish()?)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("topology: {num_edges} entries, {:.1} M entries/s", num_edges as f64 / seconds / 1e6);
    let spec = TensorSpec {
        name: "x".into(),
        dtype: Dtype::F32,
        shape: vec![WIDTH as u64],
        mask_width: None,
    };
    let start = Instant::now();
    let mut writer = builder.tensor(Owner::Node(node), spec)?;
    let mut row = vec![0_u8; WIDTH * 4];
    for _ in 0..nodes {
        row.chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&random.bits().to_le_bytes()));
        writer.push_rows(&row)?;
    }
    builder.add(writer.finish()?)?;
    let summary = builder.commit()?;
    let mb = (nodes as usize * WIDTH * 4) as f64 / 1e6;
    println!(
        "tensor: {:.0} MB/s; store {} bytes",
        mb / start.elapsed().as_secs_f64(),
        summary.disk_bytes
    );
    Ok(())
}

/// Time that this thread spent on a processor, so that a busy machine does not blur the figures.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

fn measure(
    store: &Store,
    name: &str,
    mut work: impl FnMut(&[u64]) -> Result<(), Failure>,
    batches: &[Vec<u64>],
) -> Result<(), Failure> {
    for pass in ["cold", "warm", "warm"] {
        store.reset_stats();
        let (start, cpu) = (Instant::now(), cpu_seconds());
        for batch in batches {
            work(batch)?;
        }
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let stats = store.stats();
        let count: usize = batches.iter().map(Vec::len).sum();
        println!(
            "{name:<8} {pass}: {:>6.3} M/s, {:>6.3} M/s of CPU time, {:>6.1} K reads/s, \
             {:>5.0} MB/s, depth {:>4.1}, {:.3} reads each, hit rate {:.2}",
            count as f64 / seconds / 1e6,
            count as f64 / cpu / 1e6,
            stats.reads as f64 / seconds / 1e3,
            stats.read_bytes as f64 / seconds / 1e6,
            stats.mean_queue_depth,
            stats.reads as f64 / count as f64,
            stats.hit_rate(),
        );
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("usage: throughput DIR [NODES] [BACKEND]")?;
    let nodes: u64 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let backend = args.next().unwrap_or_else(|| "auto".into()).parse()?;
    let dir = Path::new(&dir);
    if !dir.exists() {
        std::fs::create_dir(dir)?;
        build(dir, nodes)?;
    }
    let options = OpenOptions { memory: Some(4 << 30), backend, ..OpenOptions::default() };
    let store = Store::open(dir, &options)?;
    println!("{}", store.stats().backend_note);
    let snapshot = store.snapshot();
    let mut random = Random(2);
    let mut batches = |count: usize| -> Vec<Vec<u64>> {
        let batch = |_| (0..BATCH).map(|_| random.below(nodes)).collect();
        (0..count).map(batch).collect()
    };
    let tensor = TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 0 };
    let mut out = vec![0; BATCH * WIDTH * 4];
    let gather = |rows: &[u64]| {
        snapshot.gather(tensor, rows, &mut out)?;
        Ok(())
    };
    measure(&store, "gather", gather, &batches(BATCHES))?;
    let mut expansion = Expansion::default();
    let expand = |nodes: &[u64]| {
        let mut draw = |place: usize, degree: u64, out: &mut Vec<u64>| {
            let step = place as u64 % 7;
            out.extend((0..degree.min(10)).map(|i| (i * 37 + step) % degree));
        };
        snapshot.expand(EdgeTypeId(0), nodes, &mut draw, &mut expansion)?;
        Ok(())
    };
    measure(&store, "expand", expand, &batches(BATCHES))
}
