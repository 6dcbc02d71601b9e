//! Where the time of a cold request goes: the first ones of engines that were just opened, and
//! those after it, by stage.
//!
//! `cargo run --release -p ng-engine --example request_time -- STORE [ENGINES [SEEDS]]`
//! The store has one node type with a tensor `x` of f32 and one edge type.

use std::error::Error;
use std::time::Instant;

use ng_engine::{Engine, EngineOptions, EngineStats, ModelFile, Prepare};
use ng_infer::dfg::{Constant, Dfg, Elements, Op, Reduction};
use ng_infer::run::Devices;
use ng_sample::Fanouts;
use ng_store::{OpenOptions, Owner, Store};
use ng_types::NodeTypeId;

const REQUESTS: usize = 4;
const HIDDEN: usize = 256;
const CLASSES: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which store?")?;
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (engines, seeds) = (number(20)?, number(1)?);
    let mut random = ng_testing::Random::new(5);
    let mut found: Vec<Vec<[f64; 5]>> = vec![Vec::new(); REQUESTS];
    for _ in 0..engines {
        let options = OpenOptions { memory: Some(1600 << 20), ..OpenOptions::default() };
        let store = Store::open(path.as_ref(), &options)?;
        let engine = open(&store)?;
        for of_request in &mut found {
            let nodes = store.snapshot().catalog().node_types[0].num_nodes;
            let ids: Vec<u64> = (0..seeds).map(|_| random.below(nodes)).collect();
            let (did, read, start) = (engine.stats(), store.stats().reads, Instant::now());
            engine.run(&ids, random.next_u64())?;
            let seconds = start.elapsed().as_secs_f64();
            let (done, reads) = (engine.stats(), store.stats().reads - read);
            let stage = |of: fn(&EngineStats) -> f64| 1e3 * (of(&done) - of(&did));
            of_request.push([
                1e3 * seconds,
                stage(|stats| stats.sample_seconds),
                stage(|stats| stats.gather_seconds),
                stage(|stats| stats.run_seconds),
                reads as f64,
            ]);
        }
    }
    println!("request: ms of all, sampling, gathering, running; reads (medians)");
    for (place, of_request) in found.iter_mut().enumerate() {
        let medians = [0, 1, 2, 3, 4].map(|column| {
            of_request.sort_by(|a, b| a[column].total_cmp(&b[column]));
            of_request[of_request.len() / 2][column]
        });
        let [all, sample, gather, run, reads] = medians;
        println!("{place}: {all:.2}, {sample:.2}, {gather:.2}, {run:.2}; {reads:.0}");
    }
    Ok(())
}

/// Two layers of a mean of neighbours and a product.
fn open(store: &Store) -> Result<Engine, Box<dyn Error>> {
    let snapshot = store.snapshot();
    let tensor = snapshot.catalog().find_tensor(Owner::Node(NodeTypeId(0)), "x");
    let width = snapshot.catalog().tensor(tensor.ok_or("no tensor x")?).map_or(0, |m| m.shape[0]);
    let mut graph = Dfg::default();
    let edges = graph.create_in("edge_index", None)?;
    let mut h = graph.create_in("x", None)?;
    let layers = [(width as usize, HIDDEN), (HIDDEN, CLASSES)];
    for (layer, (from, to)) in layers.into_iter().enumerate() {
        let weights = (0..from * to).map(|at| (at % 13) as f32 / 260.0 - 0.02).collect();
        let weights = Constant::new(vec![from, to], Elements::F32(weights)).ok_or("weights")?;
        let weights = graph.create_weight(&format!("w{layer}"), weights)?;
        let mean = graph.create_op(Op::Spmm(Reduction::Mean), &[edges, h])?;
        h = graph.create_op(Op::MatMul, &[mean[0], weights])?[0];
    }
    graph.create_out("out", h)?;
    let options = EngineOptions {
        fanouts: Fanouts::uniform(&[25, 10], 1)?,
        output: None,
        devices: Devices::default().into(),
        prepare: Prepare::Metadata,
        threads: 2,
        batch_nodes: 1024,
        go_on: || true,
    };
    let model = ModelFile::of_graph(graph);
    Ok(Engine::open(snapshot, model, options)?)
}
