//! What it costs that each of many nodes is answered as if it were alone: groups with shared
//! subgraphs (`run`), with subgraphs of their own (`each`), and one by one, in turns.
//!
//! `cargo run --release -p ng-engine --example each_time -- STORE MODEL`, and then, as far as they
//! are given, SEEDS, ROUNDS, MIB of memory, HOW and THREADS.
//! HOW is metadata, hot or all.

use std::error::Error;
use std::time::{Duration, Instant};

use ng_engine::{Answer, Engine, EngineError, EngineOptions, EngineStats, ModelFile, Prepare};
use ng_infer::run::Devices;
use ng_store::{OpenOptions, Store};

/// Milliseconds in all, of sampling, gathering and running; lists, rows, reads.
type Cost = [f64; 7];

const NAMES: [&str; 3] = ["run", "each", "one by one"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let store = arguments.next().ok_or("which store?")?;
    let model = arguments.next().ok_or("which model?")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (seeds, rounds, mebibytes) = (number(64)?, number(15)?, number(2048)?);
    let prepare = match arguments.next().as_deref() {
        None | Some("hot") => Prepare::Hot,
        Some("all") => Prepare::All,
        Some("metadata") => Prepare::Metadata,
        Some(other) => return Err(format!("no way to prepare: {other}").into()),
    };
    let threads = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let options = OpenOptions { memory: Some(mebibytes << 20), ..OpenOptions::default() };
    let store = Store::open(store.as_ref(), &options)?;
    let snapshot = store.snapshot();
    let model = ModelFile::open(model.as_ref())?;
    let options = EngineOptions {
        fanouts: model.fanouts(snapshot.catalog())?,
        output: None,
        devices: Devices::with_cpu().into(),
        prepare,
        threads,
        batch_nodes: 1024,
        go_on: || true,
    };
    let engine = Engine::open(snapshot, model, options)?;
    while engine.prepared().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("model {:?}, ready {:.2}", engine.model().identity, engine.ready());
    println!("{:?}", engine.foresee(seeds));
    let nodes = store.snapshot().catalog().node_types[0].num_nodes;
    let mut random = ng_testing::Random::new(7);
    let mut costs: [Vec<Cost>; 3] = Default::default();
    for round in 0..=rounds {
        for (way, costs) in costs.iter_mut().enumerate() {
            let ids: Vec<u64> = (0..seeds).map(|_| random.below(nodes)).collect();
            let cost = measured(&store, &engine, || match way {
                0 => engine.run(&ids, 1),
                1 => engine.each(&ids, 1),
                _ => {
                    ids.iter().map(|id| engine.run(&[*id], 1)).last().unwrap_or(engine.run(&[], 1))
                }
            })?;
            // The first round makes the memory that later ones use again.
            costs.extend((round > 0).then_some(cost));
        }
    }
    println!("{seeds} nodes: ms of all, sampling, gathering, running; lists, rows, reads");
    for (name, costs) in NAMES.iter().zip(&costs) {
        let shown: Vec<String> =
            (0..7).map(|at| format!("{:.2}", of(costs, |c| c[at])[1])).collect();
        println!("{name}: {}", shown.join(", "));
    }
    for other in [0, 2] {
        let pairs: Vec<Cost> = (costs[1].iter().zip(&costs[other]))
            .map(|(each, other)| std::array::from_fn(|at| each[at] / other[at]))
            .collect();
        let [least, median, most] = of(&pairs, |c| c[0]);
        println!("each / {}: {median:.3} ({least:.3} to {most:.3})", NAMES[other]);
    }
    println!("{:?}", engine.per_node());
    Ok(())
}

fn measured(
    store: &Store,
    engine: &Engine,
    ask: impl FnOnce() -> Result<Answer, EngineError>,
) -> Result<Cost, EngineError> {
    let (did, read, start) = (engine.stats(), store.stats().reads, Instant::now());
    ask()?;
    let seconds = start.elapsed().as_secs_f64();
    let (done, reads) = (engine.stats(), store.stats().reads - read);
    let stage = |of: fn(&EngineStats) -> f64| 1e3 * (of(&done) - of(&did));
    let (lists, rows) = ((done.lists - did.lists) as f64, (done.rows - did.rows) as f64);
    let [sample, gather, run] =
        [stage(|s| s.sample_seconds), stage(|s| s.gather_seconds), stage(|s| s.run_seconds)];
    Ok([1e3 * seconds, sample, gather, run, lists, rows, reads as f64])
}

/// The least, the median and the largest.
fn of(costs: &[Cost], what: impl Fn(&Cost) -> f64) -> [f64; 3] {
    let mut all: Vec<f64> = costs.iter().map(what).collect();
    all.sort_by(f64::total_cmp);
    [all[0], all[all.len() / 2], all[all.len() - 1]]
}
