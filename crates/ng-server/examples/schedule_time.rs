//! What each part of the scheduler brings, without a network: streams of requests of one node
//! each, some of which come again, answered with parts of the scheduler switched on and off.
//!
//!     cargo run --release -p ng-server --example schedule_time -- STORE MODEL NAME=VALUE ...
//!
//! A line for each stream and each way to schedule: requests a second and how that compares with
//! `N` of the same round, and the median and 99th percentile of the time to an answer. Streams are
//! `uniform`, `zipf` (node i as often as 1/i) and numbers: the probability that the next request
//! asks for the same node again, before all are shuffled (GLIST, section 5.2, which also switches
//! the parts). A way may have lanes, threads, milliseconds of window and of a group behind it:
//! `CG:2:1:2:15`. With `rate=` requests come at random times, so many a second, and their time
//! counts from then; without it, `clients=` ask again as soon as they have an answer.
#![allow(clippy::expect_used, clippy::print_stdout)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ng_engine::{EmbeddingCache, ModelFile};
use ng_infer::run::Devices;
use ng_rpc::v1;
use ng_server::schedule::{Bounds, Question, Scheduler, Switches};
use ng_server::{Graph, Model, Targets};
use ng_testing::Random;

/// Answers are of another seed for each stream that is asked, so none is known beforehand.
static SEED: AtomicU64 = AtomicU64::new(1);

/// What is measured, and how.
struct Plan {
    given: HashMap<String, String>,
}

impl Plan {
    fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.given.get(name).map_or(default, String::as_str)
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.given.get(name).map_or(default, |text| text.parse().expect("a number"))
    }

    fn list(&self, name: &str, default: &str) -> Vec<String> {
        self.text(name, default).split(',').map(str::to_owned).collect()
    }
}

/// A way to schedule.
#[derive(Clone)]
struct Way {
    switches: Switches,
    lanes: usize,
    threads: usize,
    bounds: Bounds,
}

impl Way {
    fn of(text: &str) -> Self {
        let mut parts = text.split(':');
        let switches = parts.next().unwrap_or_default().parse().expect("switches");
        let mut number = |default: u64| {
            parts.next().map_or(default, |text| text.parse().expect("a number of a way"))
        };
        let (lanes, threads) = (number(2) as usize, number(1) as usize);
        let (window, time) = (Duration::from_millis(number(2)), Duration::from_millis(number(15)));
        Self { switches, lanes, threads, bounds: Bounds { window, time, ..Bounds::default() } }
    }
}

fn model(plan: &Plan, (store, file): (&str, &str), threads: usize) -> Arc<Model> {
    let memory = Some(plan.number("mib", 2048) << 20);
    let graph = Graph::open("graph", Path::new(""), Path::new(store), (memory, 2)).expect("graph");
    let file = ModelFile::open(Path::new(file)).expect("model");
    let request = v1::ModelRegisterRequest {
        prepare: plan.text("prepare", "hot").to_owned(),
        ..v1::ModelRegisterRequest::default()
    };
    let cache = Arc::new(EmbeddingCache::new(plan.number("cache", 256) << 20));
    let graph = Arc::new(graph);
    let how = (Devices::with_cpu().into(), threads, Some(cache));
    let model = Model::open(("model", 1), graph, &request, file, how).expect("fits");
    while model.engine.prepared().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Arc::new(model)
}

/// The nodes that requests ask for, in their order.
fn stream(kind: &str, (count, nodes): (usize, u64), random: &mut Random) -> Vec<u64> {
    let unit = |random: &mut Random| random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
    // Which nodes are common has nothing to do with where they lie.
    let spread = |rank: u64| (rank as u128 * 0x9E37_79B9_7F4A_7C15 % u128::from(nodes)) as u64;
    if kind == "zipf" {
        let rank = |random: &mut Random| (nodes as f64).powf(unit(random)) as u64;
        return (0..count).map(|_| spread(rank(random))).collect();
    }
    let again: f64 = if kind == "uniform" { 0.0 } else { kind.parse().expect("a stream") };
    let mut all: Vec<u64> = Vec::with_capacity(count);
    for _ in 0..count {
        let last = all.last().copied().filter(|_| unit(random) < again);
        all.push(last.unwrap_or_else(|| random.below(nodes)));
    }
    for at in (1..count).rev() {
        all.swap(at, random.below(at as u64 + 1) as usize);
    }
    all
}

/// When requests come, in seconds from the first.
fn times(rate: f64, count: usize, random: &mut Random) -> Vec<f64> {
    let mut at = 0.0;
    let mut next = || {
        at -= ((1.0 + random.below(1 << 53) as f64) / (1_u64 << 53) as f64).ln() / rate;
        at
    };
    (0..count).map(|_| next()).collect()
}

/// What a stream took.
struct Took {
    rate: f64,
    /// Milliseconds, ascending.
    times: Vec<f64>,
    reads: f64,
    group: f64,
    known: f64,
}

async fn asked(
    scheduler: &Arc<Scheduler>,
    model: &Arc<Model>,
    nodes: Arc<Vec<u64>>,
    clients: usize,
    arrivals: Option<Arc<Vec<f64>>>,
) -> Vec<f64> {
    let (next, seed) = (Arc::new(AtomicUsize::new(0)), SEED.fetch_add(1, Ordering::Relaxed));
    let start = Instant::now();
    let clients = if arrivals.is_some() { nodes.len() } else { clients };
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let (scheduler, model) = (Arc::clone(scheduler), Arc::clone(model));
            let (nodes, next, arrivals) = (Arc::clone(&nodes), Arc::clone(&next), arrivals.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(node) = nodes.get(at) else { return times };
                    let since = match &arrivals {
                        None => Instant::now(),
                        Some(arrivals) => start + Duration::from_secs_f64(arrivals[at]),
                    };
                    tokio::time::sleep_until(since.into()).await;
                    let question = Question {
                        model: Arc::clone(&model),
                        targets: Targets::Nodes(vec![*node]),
                        seed,
                        at: None,
                        lag: 0,
                        deadline: None,
                        permit: None,
                    };
                    scheduler.ask(question).await.expect("answer");
                    times.push(since.elapsed().as_secs_f64() * 1e3);
                    if arrivals.is_some() {
                        return times;
                    }
                }
            })
        })
        .collect();
    let mut all = Vec::with_capacity(nodes.len());
    for task in tasks {
        all.extend(task.await.expect("a client"));
    }
    all.sort_by(f64::total_cmp);
    all
}

fn measured(
    runtime: &tokio::runtime::Runtime,
    (way, model): (&Way, &Arc<Model>),
    nodes: &Arc<Vec<u64>>,
    clients: usize,
    arrivals: Option<Arc<Vec<f64>>>,
) -> Took {
    let scheduler = Arc::new(Scheduler::start(way.lanes, way.switches, way.bounds).expect("lanes"));
    let (reads, start) = (model.graph.store.stats().reads, Instant::now());
    let (nodes, count) = (Arc::clone(nodes), nodes.len() as f64);
    let times = runtime.block_on(asked(&scheduler, model, nodes, clients, arrivals));
    let seconds = start.elapsed().as_secs_f64();
    let (stats, reads) = (scheduler.stats(), model.graph.store.stats().reads - reads);
    let in_groups: u64 = stats.requests - if stats.groups == 0 { stats.requests } else { 0 };
    Took {
        rate: count / seconds,
        times,
        reads: reads as f64 / count,
        group: in_groups as f64 / stats.groups.max(1) as f64,
        known: (stats.cached + stats.duplicates) as f64 / count,
    }
}

fn median(mut all: Vec<f64>) -> [f64; 3] {
    all.sort_by(f64::total_cmp);
    [all[0], all[all.len() / 2], all[all.len() - 1]]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(store), Some(file)) = (arguments.next(), arguments.next()) else {
        panic!("STORE MODEL NAME=VALUE ...");
    };
    let pair = |text: String| {
        let (name, value) = text.split_once('=').expect("NAME=VALUE");
        (name.to_owned(), value.to_owned())
    };
    let plan = Plan { given: arguments.map(pair).collect() };
    let names = plan.list("ways", "N,G,CG,CGS");
    let ways: Vec<Way> = names.iter().map(|text| Way::of(text)).collect();
    let mut models: HashMap<usize, Arc<Model>> = HashMap::new();
    for way in &ways {
        models.entry(way.threads).or_insert_with(|| model(&plan, (&store, &file), way.threads));
    }
    let (count, rounds) = (plan.number("count", 2000) as usize, plan.number("rounds", 3));
    let (clients, rate) = (plan.number("clients", 64) as usize, plan.number("rate", 0) as f64);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let (runtime, mut random) = (runtime.expect("runtime"), Random::new(plan.number("seed", 1)));
    println!("stream way: requests/s (times N), p50, p99 ms, reads a request, group, known");
    for kind in plan.list("streams", "uniform,.3,.6,.9,zipf") {
        let mut all: Vec<Vec<(Took, f64)>> = ways.iter().map(|_| Vec::new()).collect();
        for round in 0..=rounds {
            let mut first = None;
            for (way, all) in ways.iter().zip(&mut all) {
                // Each way gets nodes that no other has brought into the caches.
                let nodes =
                    models[&way.threads].graph.store.snapshot().catalog().node_types[0].num_nodes;
                let nodes = Arc::new(stream(&kind, (count, nodes), &mut random));
                let arrivals = (rate > 0.0).then(|| Arc::new(times(rate, count, &mut random)));
                let model = &models[&way.threads];
                let took = measured(&runtime, (way, model), &nodes, clients, arrivals);
                let ratio = took.rate / *first.get_or_insert(took.rate);
                // The first round fills caches, and tells what a node takes.
                all.extend((round > 0).then_some((took, ratio)));
            }
        }
        for (name, all) in names.iter().zip(&all) {
            let of = |what: fn(&(Took, f64)) -> f64| median(all.iter().map(what).collect());
            let at = |all: &[f64], share: f64| all[(all.len() as f64 * share) as usize];
            let [least, ratio, most] = of(|(_, ratio)| *ratio);
            let [_, rate, _] = of(|(took, _)| took.rate);
            let p50 = median(all.iter().map(|(took, _)| at(&took.times, 0.5)).collect())[1];
            let p99 = median(all.iter().map(|(took, _)| at(&took.times, 0.99)).collect())[1];
            println!(
                "{kind} {name}: {rate:.0} ({ratio:.2}: {least:.2} to {most:.2}), {p50:.1}, \
                 {p99:.1}, {:.1}, {:.1}, {:.2}",
                of(|(took, _)| took.reads)[1],
                of(|(took, _)| took.group)[1],
                of(|(took, _)| took.known)[1],
            );
        }
    }
    for (threads, model) in &models {
        println!("{threads} threads: {:?}", model.engine.per_node());
    }
}
