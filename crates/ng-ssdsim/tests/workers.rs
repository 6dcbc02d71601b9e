//! Batches of several workers: in one device at the same time, each with hops of its own.
#![allow(clippy::expect_used)]

mod common;

use common::BARE;
use common::jobs::{broken, job};
use ng_ssdsim::{
    BatchRun, Config, Crowd, DATASETS, Dataset, Engine, MICRO, MORE_PLATFORMS, Machine, PLATFORMS,
    Path, Picos, Plan, Platform, Round, Run, Start,
};
use ng_types::Trace;

const FANOUTS: [u32; 2] = [4, 3];

fn every() -> impl Iterator<Item = Platform> {
    PLATFORMS.into_iter().chain(MORE_PLATFORMS)
}

fn run(config: &Config, set: &Dataset, trace: &Trace, name: &str, workers: u32) -> Run {
    let mut job = job(config, set, name);
    job.crowd = Crowd { workers, ..Crowd::default() };
    job.run(trace).expect("a run")
}

fn sum(run: &Run, of: impl Fn(&BatchRun) -> u64) -> u64 {
    run.batches.iter().map(of).sum()
}

/// Two batches: ten reads of one die and one after them, and one read after another elsewhere.
fn long_and_short() -> Plan {
    let mut long = Plan::of_reads(&[0; 11], 4000);
    long.hop[10] = 1;
    let mut short = Plan::of_reads(&[8, 8], 4000);
    short.hop[1] = 1;
    Plan::joined(&[long, short])
}

fn ends(plan: &Plan, path: Path, rounds: &[Vec<Round>]) -> Vec<Picos> {
    let machine = Machine::new(&Config::paper(), path).expect("a device");
    let mut engine = Engine::new(machine);
    let found = engine.run(plan, &Start { rounds, ..Start::default() });
    assert_eq!((found.issued, found.completed), (plan.len() as u64, plan.len() as u64));
    engine.ends().iter().map(|end| end.time).collect()
}

#[test]
fn a_batch_waits_for_its_own_hops_and_for_no_others() {
    let plan = long_and_short();
    let path = Path { barrier: true, ..BARE };
    // A sense of 3 us and transfers of 5 us one after the other, then a read; and two reads.
    let (long, short) = ((3 + 10 * 5 + 8) * MICRO, 2 * 8 * MICRO);
    assert_eq!(ends(&plan, path, &[]), [long, short]);
    // As one batch, the short one's second hop begins with that of the long one.
    let mut one = plan.clone();
    one.batch.clear();
    assert_eq!(ends(&one, path, &[]), [long]);
    // Without a barrier nothing waits, but each batch is over when all of it is there.
    assert_eq!(ends(&plan, BARE, &[]), [(3 + 11 * 5) * MICRO, (3 + 2 * 5) * MICRO]);
}

#[test]
fn rounds_of_batches_share_the_link_and_the_cores_but_not_the_stack() {
    let reads = [0, 8, 16].map(|die| Plan::of_reads(&[die], 4000));
    let plan = Plan::joined(&reads);
    let path = Path { barrier: true, ..BARE };
    let round = Round { up: 20 * MICRO, cores: 3 * MICRO, stack: 100 * MICRO, down: 7 * MICRO };
    let rounds = vec![vec![round]; 3];
    // All are read after 8 us; the link is what they wait for.
    let wanted = [1, 2, 3].map(|turn| (8 + turn * 20 + 3 + 100 + 7) * MICRO);
    assert_eq!(ends(&plan, path, &rounds), wanted);
    let round = Round { up: 3 * MICRO, cores: 20 * MICRO, ..round };
    let wanted = [1, 2, 3].map(|turn| (8 + 3 + turn * 20 + 100 + 7) * MICRO);
    assert_eq!(ends(&plan, path, &vec![vec![round]; 3]), wanted);
}

#[test]
fn a_batch_that_reads_nothing_has_its_round_all_the_same() {
    let rounds = vec![vec![Round { stack: 9 * MICRO, ..Round::default() }]; 3];
    let reads = [Plan::of_reads(&[0], 4000), Plan::of_reads(&[], 4000)];
    let plan = Plan::joined(&reads);
    for barrier in [true, false] {
        let found = ends(&plan, Path { barrier, ..BARE }, &rounds);
        assert_eq!(found, [17 * MICRO, 9 * MICRO, 9 * MICRO], "barrier {barrier}");
    }
}

#[test]
fn workers_are_no_slower_than_their_batches_in_turn_and_no_quicker_than_the_busiest_server() {
    for config in [Config::paper(), Config::detailed()] {
        for set in [DATASETS[0], DATASETS[3], DATASETS[4]] {
            let trace = set.trace(12, 24, &FANOUTS, 5);
            for platform in every() {
                let one = run(&config, &set, &trace, platform.name, 1);
                let in_turn = sum(&one, |batch| batch.interval);
                for workers in [2, 4, 5, 12, 64] {
                    let name = format!("{workers} on {} with {}", platform.name, set.name);
                    let many = run(&config, &set, &trace, platform.name, workers);
                    assert_eq!(many.batches.len(), 12usize.div_ceil(workers as usize), "{name}");
                    let failed: u64 = many.batches.iter().map(|batch| broken(batch, &config)).sum();
                    assert_eq!(failed, 0, "{name}");
                    let together = sum(&many, |batch| batch.interval);
                    assert!(together <= in_turn, "{name}: {together} and in turn {in_turn}");
                    for of in [
                        |batch: &BatchRun| batch.targets,
                        |batch: &BatchRun| batch.outcome.issued,
                        |batch: &BatchRun| batch.outcome.channel_bytes,
                        |batch: &BatchRun| batch.shares.compute,
                    ] {
                        assert_eq!(sum(&many, of), sum(&one, of), "{name}");
                    }
                    let spent = |run: &Run| -> (f64, f64) {
                        let joules = run.batches.iter().map(|batch| batch.joules);
                        joules.fold((0.0, 0.0), |of, j| (of.0 + j.arithmetic, of.1 + j.pcie))
                    };
                    let ((sums, sent), wanted) = (spent(&many), spent(&one));
                    assert!((sums - wanted.0).abs() <= 1e-9 * wanted.0, "{name}");
                    assert!((sent - wanted.1).abs() <= 1e-9 * wanted.1, "{name}");
                    assert_eq!(many, run(&config, &set, &trace, platform.name, workers), "{name}");
                }
            }
        }
    }
}

#[test]
fn workers_without_a_second_batch_change_nothing() {
    let config = Config::detailed();
    let set = DATASETS[1];
    let trace = set.trace(1, 32, &FANOUTS, 5);
    for platform in every() {
        let one = run(&config, &set, &trace, platform.name, 1);
        assert_eq!(run(&config, &set, &trace, platform.name, 8), one, "{}", platform.name);
    }
}

#[test]
fn what_a_batch_waits_for_alone_overlaps_with_what_others_wait_for() {
    // Where the stack takes nearly all of the time, eight workers are nearly eight times as fast.
    let mut config = Config::detailed();
    config.host.stack_ns = 5e6;
    let set = DATASETS[3];
    let trace = set.trace(8, 4, &FANOUTS, 5);
    for platform in every().filter(|platform| platform.to_host != ng_ssdsim::ToHost::Nothing) {
        let speed = |workers| run(&config, &set, &trace, platform.name, workers).targets_per_s();
        let gain = speed(8) / speed(1);
        assert!(gain > 7.2 && gain < 8.5, "{}: {gain}", platform.name);
    }
}

#[test]
fn each_worker_merges_requests_of_its_own() {
    let set = DATASETS[4];
    let mut trace = set.trace(4, 64, &FANOUTS, 4);
    trace.node.iter_mut().for_each(|node| *node %= 2_000);
    for name in ["CC", "SmartSage", "GList", "BG-1"] {
        let issued = |workers, merged| {
            let mut job = job(&Config::detailed(), &set, name);
            job.placement = ng_ssdsim::Placement::Striped;
            (job.crowd.workers, job.reuse.merged) = (workers, merged);
            sum(&job.run(&trace).expect("a run"), |batch| batch.outcome.issued)
        };
        assert!(issued(4, true) < issued(4, false), "{name}");
        assert_eq!(issued(4, true), issued(1, true), "{name}");
    }
}
