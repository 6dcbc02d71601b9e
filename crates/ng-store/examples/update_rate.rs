//! Updates a second: random undirected edges, and rows of 64 f32, in batches of 100 with a sync
//! each.
//!
//! `cargo run --release -p ng-store --example update_rate -- DIRECTORY [nodes] [operations]`
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::time::Instant;

use ng_store::{BuildOptions, EdgeTypeSpec, OpenOptions, Owner, Store, StoreBuilder, TensorSpec};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const BATCH: usize = 100;
const WIDTH: u64 = 64;

fn build(path: &Path, num_nodes: u64) {
    std::fs::create_dir_all(path).unwrap();
    let mut builder = StoreBuilder::create(path, BuildOptions::default()).unwrap();
    let node = builder.node_type("node", num_nodes).unwrap();
    let spec = EdgeTypeSpec {
        source: node,
        relation: "edge".into(),
        destination: node,
        undirected: true,
        unique: false,
        has_edge_ids: false,
        has_time: false,
        has_weight: false,
    };
    let edge = builder.edge_type(spec).unwrap();
    builder.set_reverse(edge, edge).unwrap();
    let mut lists = builder.topology(edge).unwrap();
    for node in 0..num_nodes {
        // A ring, so that every node has a list.
        let (before, after) = ((node + num_nodes - 1) % num_nodes, (node + 1) % num_nodes);
        lists.push_sources(node, &[before, after]).unwrap();
    }
    builder.add(lists.finish().unwrap()).unwrap();
    let spec =
        TensorSpec { name: "x".into(), dtype: Dtype::F32, shape: vec![WIDTH], mask_width: None };
    let mut rows = builder.tensor(Owner::Node(node), spec).unwrap();
    let zeros = vec![0; 4 * WIDTH as usize * 1024];
    let mut left = num_nodes;
    while left > 0 {
        let count = left.min(1024);
        rows.push_rows(&zeros[..(count * 4 * WIDTH) as usize]).unwrap();
        left -= count;
    }
    builder.add(rows.finish().unwrap()).unwrap();
    builder.commit().unwrap();
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a directory");
    let number = |text: Option<String>, default| text.map_or(default, |t| t.parse().unwrap());
    let num_nodes: u64 = number(args.next(), 1_000_000);
    let operations = number(args.next(), 300_000) as usize;
    let path = Path::new(&path);
    let _ = std::fs::remove_dir_all(path);
    build(path, num_nodes);
    let options = OpenOptions { memory: Some(2 << 30), ..OpenOptions::default() };
    let store = Store::open(path, &options).unwrap();
    let mut state = 0x9E37_79B9_7F4A_7C15;
    for kind in ["edges", "rows"] {
        let before = store.update_stats().unwrap_or_default();
        let start = Instant::now();
        for _ in 0..operations / BATCH {
            let mut batch = store.write().unwrap();
            let ids: Vec<u64> = (0..2 * BATCH).map(|_| random(&mut state) % num_nodes).collect();
            if kind == "edges" {
                let (sources, destinations) = ids.split_at(BATCH);
                batch.add_edges(EdgeTypeId(0), sources, destinations, &[]).unwrap();
            } else {
                let tensor = batch.tensor(Owner::Node(NodeTypeId(0)), "x").unwrap();
                let rows = vec![7; BATCH * 4 * WIDTH as usize];
                batch.set_rows(tensor, &ids[..BATCH], &rows).unwrap();
            }
            batch.commit().unwrap();
        }
        let seconds = start.elapsed().as_secs_f64();
        let after = store.update_stats().unwrap();
        let sync = (after.sync_us - before.sync_us) as f64 / 1e6;
        let start = Instant::now();
        let report = store.checkpoint().unwrap();
        let checkpoint = start.elapsed().as_secs_f64();
        let last = store.update_stats().unwrap();
        println!(
            "{kind}: {:.0}/s, {:.0}/s without syncs ({sync:.2} s of {seconds:.2}), \
             then checkpoint {checkpoint:.2} s",
            operations as f64 / seconds,
            operations as f64 / (seconds - sync)
        );
        let payload = last.payload_bytes - before.payload_bytes;
        let written = last.write_bytes - before.write_bytes;
        println!("  {report:?} amplification {:.1}", written as f64 / payload as f64);
        println!("  {:?}", last.lists);
    }
}
