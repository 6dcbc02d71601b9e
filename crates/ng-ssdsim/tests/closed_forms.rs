//! Runs whose time can be written down, to the picosecond.
#![allow(clippy::expect_used)]

mod common;

use common::{BARE, machine, run, trees};
use ng_ssdsim::{Config, Engine, MICRO, NANO, Path, Plan, Round, Start, flag};

#[test]
fn a_lone_read_is_a_sense_and_a_transfer() {
    let config = Config::paper();
    let plan = Plan::of_reads(&[5], 4000);
    assert_eq!(run(&config, BARE, &plan).makespan, 3 * MICRO + 5 * MICRO);
    let firmware = Path { firmware: true, ..BARE };
    assert_eq!(run(&config, firmware, &plan).makespan, 200 * NANO + 8 * MICRO);
}

#[test]
fn a_lone_sample_adds_the_sampler_and_moves_the_row_alone() {
    let mut plan = Plan::of_reads(&[5], 400);
    plan.flags[0] = flag::SAMPLED | flag::FEATURE;
    plan.feature_bytes = 400;
    // 400 bytes at 1,365 bytes a microsecond are 293,040 ps, at 800 they are 500,000.
    let wanted = 3 * MICRO + 200 * NANO + 293_040 + 500 * NANO;
    assert_eq!(run(&Config::paper(), BARE, &plan).makespan, wanted);
}

#[test]
fn a_lone_read_in_detail_has_every_cost_once() {
    let config = Config::detailed();
    let plan = Plan::of_reads(&[5], 4096);
    let firmware = Path { firmware: true, ..BARE };
    // 290 ns command, 3 us sense, 30 ns set-up, 4,320 bytes on the channel; DRAM written and read.
    let channel = (4096 + 224) * 1250;
    let dram = 2 * 4096 * 1_000_000 / 20_480;
    let wanted = 600 * NANO + 290 * NANO + 3 * MICRO + 30 * NANO + channel + dram + 200 * NANO;
    assert_eq!(run(&config, firmware, &plan).makespan, wanted);
}

#[test]
fn dies_of_one_channel_sense_together_and_send_one_by_one() {
    let config = Config::paper();
    for count in 1..=8 {
        let dies: Vec<u32> = (0..count).collect();
        let found = run(&config, BARE, &Plan::of_reads(&dies, 4000));
        assert_eq!(found.makespan, 3 * MICRO + u64::from(count) * 5 * MICRO, "{count} dies");
    }
}

#[test]
fn a_second_register_lets_the_next_sense_overlap_a_transfer() {
    let plan = Plan::of_reads(&[0; 10], 4000);
    let mut config = Config::paper();
    // Bound by the channel: one sense, then transfers back to back.
    assert_eq!(run(&config, BARE, &plan).makespan, (3 + 10 * 5) * MICRO);
    config.flash.registers = 1;
    assert_eq!(run(&config, BARE, &plan).makespan, 10 * (3 + 5) * MICRO);
    // Bound by the die: senses back to back, then one transfer.
    (config.flash.registers, config.flash.sense_ns) = (2, 20_000.0);
    assert_eq!(run(&config, BARE, &plan).makespan, (10 * 20 + 5) * MICRO);
}

#[test]
fn planes_sense_together_what_lies_in_one_row() {
    let mut config = Config::paper();
    config.flash.planes = 2;
    let mut plan = Plan::of_reads(&[0; 4], 4000);
    // The first read is alone when it comes; of the other three, two share a row on two planes.
    plan.row = vec![9, 1, 2, 1];
    plan.plane = vec![0, 0, 0, 1];
    let found = run(&config, BARE, &plan);
    assert_eq!((found.senses, found.completed), (3, 4));
    plan.plane = vec![0, 0, 0, 0];
    assert_eq!(run(&config, BARE, &plan).senses, 4);
}

#[test]
fn a_saturated_server_is_the_bound() {
    let dies: Vec<u32> = (0..64_000).map(|n| n * 7 % 128).collect();
    let check = |config: &Config, path: Path, bytes: u32, bound: u64, name: &str| {
        let makespan = run(config, path, &Plan::of_reads(&dies, bytes)).makespan;
        assert!(makespan >= bound, "{name}: {makespan} is below {bound}");
        assert!(makespan as f64 <= bound as f64 * 1.01, "{name}: {makespan} is far above {bound}");
    };
    let firmware = Path { firmware: true, ..BARE };
    let config = Config::paper();
    check(&config, BARE, 4000, 4000 * 5 * MICRO, "channels");
    check(&config, BARE, 0, 500 * 3 * MICRO, "dies");
    check(&config, firmware, 0, 16_000 * 200 * NANO, "cores");
    let mut config = Config::paper();
    config.dram.bytes_per_s = 10e9;
    check(&config, BARE, 4000, 64_000 * 2 * 400 * NANO, "DRAM");
    let host = Path { to_host: true, ..BARE };
    check(&Config::paper(), host, 4000, 64_000 * 500 * NANO, "PCIe");
    let mut config = Config::paper();
    (config.host.cores, config.host.io_ns) = (2, 2_000.0);
    check(&config, host, 4000, 32_000 * 2 * MICRO, "host cores");
}

#[test]
fn what_a_run_counts_is_what_its_plan_asks_for() {
    let plan = trees(11, 128, 64, 3, 3, 400);
    let firmware = Path { firmware: true, ..BARE };
    let barrier = Path { firmware: true, barrier: true, ..BARE };
    let router = Path { router: true, ..BARE };
    let commands = plan.len() as u64;
    assert_eq!(commands, 64 * 40);
    for config in [Config::paper(), Config::detailed()] {
        for path in [BARE, firmware, barrier, router] {
            let machine = machine(&config, path);
            let mut engine = Engine::new(machine);
            let found = engine.run(&plan, &Start::default());
            assert_eq!((found.issued, found.completed), (commands, commands));
            assert_eq!(found.die_busy, found.senses * 3 * MICRO);
            assert_eq!(found.channel_bytes, commands * 400);
            assert_eq!(found.dram_bytes, found.channel_bytes);
            let audit = engine.stamps().audit(&plan, engine.machine());
            assert_eq!(audit, ng_ssdsim::Audit::default(), "{path:?}");
            assert_eq!(engine.run(&plan, &Start::default()), found, "a run repeats");
        }
    }
}

#[test]
fn hops_behind_a_barrier_do_not_overlap_and_wait_for_the_round() {
    let plan = trees(12, 128, 32, 3, 3, 400);
    let path = Path { firmware: true, barrier: true, ..BARE };
    let mut engine = Engine::new(machine(&Config::paper(), path));
    let waits = [10 * MICRO, 20 * MICRO, 30 * MICRO];
    let rounds = [waits.map(|stack| Round { stack, ..Round::default() }).to_vec()];
    let found = engine.run(&plan, &Start { rounds: &rounds, ..Start::default() });
    for (hop, round) in waits.iter().enumerate() {
        let (end, next) = (found.hops[hop].1, found.hops[hop + 1].0);
        assert_eq!(next, end + round + 200 * NANO, "hop {hop}");
    }
    let streaming = run(&Config::paper(), Path { firmware: true, ..BARE }, &plan);
    assert!(streaming.hops[1].0 < streaming.hops[0].1, "hops overlap without a barrier");
}

#[test]
fn whoever_waits_behind_a_full_queue_goes_through_dram() {
    let mut config = Config::detailed();
    config.router.queue_depth = 4;
    let plan = Plan::of_reads(&[0; 10], 400);
    let found = run(&config, Path { router: true, ..BARE }, &plan);
    // Commands come 2.5 ns apart: one senses, four wait, five find no place.
    assert_eq!((found.queue_max, found.spilled), (9, 5));
    assert_eq!(found.dram_bytes, 4000, "commands are not data");
}
