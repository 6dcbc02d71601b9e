//! Waiting times that queueing theory knows.
#![allow(clippy::expect_used)]

mod common;

use common::{BARE, Random, machine};
use ng_ssdsim::{Config, Engine, MICRO, Path, Picos, Plan, Start};

/// Mean wait of Poisson arrivals at one server with a constant service: rho s / 2 (1 - rho).
#[test]
fn poisson_arrivals_wait_at_a_die_as_in_m_d_1() {
    const READS: usize = 1_000_000;
    let service = 3 * MICRO;
    for (load, runs) in [(0.3, 1), (0.6, 1), (0.9, 6)] {
        let (mut waited, mut counted) = (0u128, 0u64);
        for seed in 0..runs {
            let mut random = Random::new(100 + seed);
            let mut time = 0.0;
            let arrivals: Vec<Picos> = (0..READS)
                .map(|_| {
                    time += random.exponential(service as f64 / load);
                    time as Picos
                })
                .collect();
            let plan = Plan::of_reads(&[0; READS], 0);
            let mut engine = Engine::new(machine(&Config::paper(), BARE));
            engine.run(&plan, &Start { arrivals: &arrivals, ..Start::default() });
            let stamps = engine.stamps();
            let waits = stamps.sense.iter().zip(&stamps.arrive).map(|(s, a)| s - a);
            // The first ones find an empty die.
            for wait in waits.skip(READS / 100) {
                waited += u128::from(wait);
                counted += 1;
            }
        }
        let mean = waited as f64 / counted as f64;
        let wanted = load * service as f64 / (2.0 * (1.0 - load));
        let off = mean / wanted - 1.0;
        println!("load {load}: {mean:.0} ps, wanted {wanted:.0}, off by {:.2} %", off * 100.0);
        assert!(off.abs() < 0.02, "load {load}: {mean} against {wanted}");
    }
}

/// Reads that go round for ever between dies and channels, all services exponential: exact mean
/// value analysis.
#[test]
fn a_closed_network_is_as_fast_as_mean_value_analysis_says() {
    const ROUNDS: usize = 100_000;
    let (channels, dies_per_channel, reads) = (2u32, 2u32, 6u32);
    let (sense, transfer) = (3.0e6, 2.0e6);
    let mut config = Config::paper();
    (config.flash.channels, config.flash.dies_per_channel) = (channels, dies_per_channel);
    // A register for each read, so that none blocks; a byte is a picosecond.
    (config.flash.registers, config.flash.channel_bytes_per_s) = (reads, 1e12);
    config.flash.page_bytes = 1 << 24;
    let mut random = Random::new(200);
    let count = ROUNDS * reads as usize;
    let dies: Vec<u32> = (0..count).map(|_| random.below(4) as u32).collect();
    let senses: Vec<Picos> =
        (0..count).map(|_| random.exponential(sense).round() as Picos).collect();
    let bytes: Vec<u32> = (0..count).map(|_| random.exponential(transfer).round() as u32).collect();
    let plan = Plan::of_chains(reads, &dies, &senses, &bytes);
    let mut engine = Engine::new(machine(&config, BARE));
    let found = engine.run(&plan, &Start::default());
    let measured = found.completed as f64 / found.makespan as f64;

    let mut demands = vec![sense / 4.0; 4];
    demands.extend([transfer / 2.0; 2]);
    let mut queues = vec![0.0; demands.len()];
    let mut throughput = 0.0;
    for customers in 1..=reads {
        let times: Vec<f64> = demands.iter().zip(&queues).map(|(d, q)| d * (1.0 + q)).collect();
        throughput = f64::from(customers) / times.iter().sum::<f64>();
        queues = times.iter().map(|time| throughput * time).collect();
    }
    let off = measured / throughput - 1.0;
    println!("{:.4} reads/us, wanted {:.4}", measured * 1e6, throughput * 1e6);
    assert!(off.abs() < 0.02, "off by {:.2} %", off * 100.0);
}

/// Time integrated over how many are between two times of theirs, change by change.
fn area(from: &[Picos], to: &[Picos]) -> i128 {
    let mut changes: Vec<(Picos, i64)> = from.iter().map(|&time| (time, 1)).collect();
    changes.extend(to.iter().map(|&time| (time, -1)));
    changes.sort_unstable();
    let (mut inside, mut before, mut area) = (0i64, 0, 0i128);
    for (time, change) in changes {
        area += i128::from(inside) * i128::from(time - before);
        (inside, before) = (inside + change, time);
    }
    area
}

/// Little's law at every server: those in it on average = arrivals a second times their stay; and
/// what the engine says of how long servers worked is that, too.
#[test]
fn those_at_a_server_are_arrivals_times_their_stay() {
    let firmware = Path { firmware: true, ..BARE };
    let router = Path { router: true, ..BARE };
    let plan = common::trees(300, 128, 400, 3, 3, 4000);
    for config in [Config::paper(), Config::detailed()] {
        for path in [BARE, firmware, router] {
            let mut engine = Engine::new(machine(&config, path));
            let found = engine.run(&plan, &Start::default());
            let stamps = engine.stamps();
            for (server, from, to) in [
                ("cores, router", &stamps.issue, &stamps.arrive),
                ("queues of dies", &stamps.arrive, &stamps.sense),
                ("dies", &stamps.sense, &stamps.ready),
                ("queues of channels", &stamps.ready, &stamps.transfer),
                ("channels", &stamps.transfer, &stamps.sent),
                ("DRAM, cores", &stamps.sent, &stamps.visible),
                ("the device", &stamps.issue, &stamps.visible),
            ] {
                let stays: i128 = to.iter().zip(from).map(|(to, from)| i128::from(to - from)).sum();
                assert_eq!(area(from, to), stays, "{server}");
                assert!(to.iter().all(|&time| time <= found.makespan), "{server}");
            }
            if config == Config::paper() {
                let channels = area(&stamps.transfer, &stamps.sent);
                assert_eq!(channels, i128::from(found.channel_busy));
            }
        }
    }
}
