//! How fast the simulator is: `cargo run --release -p ng-ssdsim --example speed [TARGETS]`.
//!
//! Prints events a second of each platform on one core (planning excluded), the time of all
//! platforms on the five data sets at batch 128 as a caller waits for it, and that of TARGETS
//! targets (default 100,000) on one platform.
#![allow(clippy::expect_used)]

use std::time::Instant;

use ng_ssdsim::{
    Config, Crowd, DATASETS, Dataset, Engine, Format, Job, Layer, Layout, MORE_PLATFORMS, Machine,
    Model, PLATFORMS, Placement, Platform, Reuse, Start, ToHost, plan, run_all,
};

const FANOUTS: [u32; 3] = [3, 3, 3];

fn job(config: &Config, set: &Dataset, platform: &str) -> Job {
    Job {
        platform: platform.to_owned(),
        config: config.clone(),
        placement: Placement::Random(1),
        feature_bytes: set.feature_bytes(),
        mean_degree: set.mean_degree(),
        model: Model {
            columns: u64::from(set.columns),
            hidden: 128,
            outputs: 10,
            backward: true,
            layer: Layer::Sage,
        },
        crowd: Crowd::default(),
        reuse: Reuse::default(),
    }
}

fn main() {
    let targets: u64 = std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("count"));
    let set = Dataset::by_name("amazon").expect("it is there");
    let trace = set.trace(1, 1024, &FANOUTS, 1);
    println!("{:20} {:>14} {:>14}", "platform", "paper", "detailed");
    // Platforms without an SSD have no events.
    let has_ssd = |platform: &Platform| platform.to_host != ToHost::Nothing;
    for platform in PLATFORMS.into_iter().chain(MORE_PLATFORMS).filter(has_ssd) {
        let rates = [Config::paper(), Config::detailed()].map(|config| {
            let placement = Placement::Random(1);
            let layout =
                Layout::new(Format::Direct, &config, set.feature_bytes(), 300.0, placement);
            let asked = platform.asked();
            let plan = plan(&trace, 0, &layout, &config.payload, asked);
            let machine = Machine::new(&config, platform.path()).expect("a device");
            let mut engine = Engine::new(machine);
            let (start, mut events) = (Instant::now(), 0);
            while start.elapsed().as_secs_f64() < 0.5 {
                events += engine.run(&plan, &Start::default()).events;
            }
            events as f64 / start.elapsed().as_secs_f64() / 1e6
        });
        println!("{:20} {:10.1} M/s {:10.1} M/s", platform.name, rates[0], rates[1]);
    }
    let start = Instant::now();
    for set in DATASETS {
        let trace = set.trace(1, 128, &FANOUTS, 1);
        let jobs: Vec<Job> = PLATFORMS.map(|p| job(&Config::paper(), &set, p.name)).into();
        run_all(&trace, &jobs).expect("runs");
    }
    println!("8 platforms, 5 data sets, batch 128: {:.3} s", start.elapsed().as_secs_f64());
    let batches = targets.div_ceil(1024);
    let start = Instant::now();
    let trace = set.trace(batches, 1024, &FANOUTS, 2);
    let drawn = start.elapsed().as_secs_f64();
    let start = Instant::now();
    job(&Config::paper(), &set, "BG-2").run(&trace).expect("a run");
    let took = start.elapsed().as_secs_f64();
    println!("{} targets on BG-2: {took:.2} s, drawn in {drawn:.2} s", batches * 1024);
}
