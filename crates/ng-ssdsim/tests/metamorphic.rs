//! What must stay, or not grow, when a device changes.
#![allow(clippy::expect_used)]

mod common;

use common::{BARE, machine, run, trees};
use ng_ssdsim::{Config, Engine, Path, Start};

const FIRMWARE: Path = Path { firmware: true, ..BARE };
const ROUTER: Path = Path { router: true, ..BARE };

#[test]
fn without_firmware_time_cores_and_router_are_the_same_run() {
    let mut config = Config::paper();
    config.firmware.issue_ns = 0.0;
    for seed in 0..5 {
        let plan = trees(seed, config.dies(), 128, 3, 3, 600);
        assert_eq!(run(&config, FIRMWARE, &plan), run(&config, ROUTER, &plan));
        config.firmware.issue_ns = 200.0;
        assert_ne!(run(&config, FIRMWARE, &plan), run(&config, ROUTER, &plan));
        config.firmware.issue_ns = 0.0;
    }
}

#[test]
fn renaming_channels_changes_nothing() {
    for (config, path) in [
        (Config::paper(), FIRMWARE),
        (Config::paper(), ROUTER),
        (Config::detailed(), FIRMWARE),
        (Config::detailed(), ROUTER),
    ] {
        let mut plan = trees(21, config.dies(), 128, 3, 3, 600);
        let before = run(&config, path, &plan);
        let (channels, dies) = (config.flash.channels, config.flash.dies_per_channel);
        for die in &mut plan.die {
            let (channel, local) = (*die / dies, *die % dies);
            *die = (channel * 5 + 3) % channels * dies + local;
        }
        assert_eq!(run(&config, path, &plan), before);
    }
}

#[test]
fn more_of_a_resource_never_costs_more_than_3_percent() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 7] = [
        ("channel speed", |c| c.flash.channel_bytes_per_s *= 2.0),
        ("sense", |c| c.flash.sense_ns /= 2.0),
        ("registers", |c| c.flash.registers += 1),
        ("cores", |c| c.firmware.cores *= 2),
        ("firmware time", |c| c.firmware.issue_ns /= 2.0),
        ("DRAM", |c| c.dram.bytes_per_s *= 2.0),
        ("router", |c| c.router.port_bytes_per_s *= 2.0),
    ];
    for seed in 30..36 {
        for base in [Config::paper(), Config::detailed()] {
            let plan = trees(seed, base.dies(), 100, 3, 3, 1200);
            for path in [FIRMWARE, ROUTER, Path { barrier: true, ..FIRMWARE }] {
                let before = run(&base, path, &plan).makespan;
                for (name, change) in changes {
                    let mut config = base.clone();
                    change(&mut config);
                    let after = run(&config, path, &plan).makespan;
                    let grown = after as f64 / before as f64;
                    assert!(grown <= 1.03, "seed {seed}: {name} costs {grown:.3} on {path:?}");
                }
            }
        }
    }
}

#[test]
fn an_engine_forgets_the_run_before() {
    let config = Config::detailed();
    let (one, two) = (trees(41, 128, 50, 3, 3, 100), trees(42, 128, 70, 2, 2, 900));
    let mut engine = Engine::new(machine(&config, FIRMWARE));
    let alone = engine.run(&two, &Start::default());
    engine.run(&one, &Start::default());
    assert_eq!(engine.run(&two, &Start::default()), alone);
}
