//! Hosts that sample for themselves: page after page from an SSD, or from their own memory.
#![allow(clippy::expect_used)]

mod common;

use std::collections::HashSet;

use common::jobs::{broken, job};
use ng_ssdsim::{BatchRun, Config, Crowd, DATASETS, Dataset, MICRO, Picos, Rate, from_ns};
use ng_types::Trace;

const FANOUTS: [u32; 2] = [5, 4];

fn run(config: &Config, set: &Dataset, trace: &Trace, name: &str, workers: u32) -> BatchRun {
    let mut job = job(config, set, name);
    job.crowd = Crowd { workers, ..Crowd::default() };
    let mut found = job.run(trace).expect("a run");
    assert_eq!(found.batches.len(), 1);
    let batch = found.batches.remove(0);
    assert_eq!(broken(&batch, config), 0, "{name}");
    batch
}

/// Core, command, sense, page, DRAM, link, and the host's stack.
fn lone(config: &Config) -> Picos {
    if *config == Config::paper() {
        return (200 + 3_000 + 5_000 + 500 + 10_000) * 1_000;
    }
    // 4,096 bytes are 16 packets of 28 bytes more.
    let link = Rate::bytes_per_second(7.877e9).time_of(4_096 + 16 * 28);
    let flash = 600 + 290 + 3_000 + 30 + 5_400 + 400 + 200;
    (flash + 1_000 + 10_000) * 1_000 + link
}

#[test]
fn a_host_with_one_read_under_way_takes_as_long_as_each_of_them() {
    for config in [Config::paper(), Config::detailed()] {
        for set in [DATASETS[1], DATASETS[3]] {
            let trace = set.trace(1, 24, &FANOUTS, 3);
            let direct = run(&config, &set, &trace, "SSD-direct", 1);
            let reads = direct.outcome.issued;
            assert_eq!(direct.preparation, reads * lone(&config), "{}", set.name);
            assert_eq!(direct.interval, direct.preparation + direct.shares.compute);
            assert_eq!(direct.bound, (direct.preparation, "latency"));
            // No read waits for another one, so that each part is known.
            assert_eq!(
                (direct.outcome.queue_max, direct.shares.pcie),
                (1, direct.outcome.pcie_busy)
            );
            let host = direct.outcome.host_busy + reads * 10 * MICRO;
            assert_eq!(direct.shares.host, host);
            let mapped = run(&config, &set, &trace, "SSD-mmap", 1);
            assert_eq!(mapped.outcome.issued, reads);
            let fault = from_ns(config.host.fault_ns);
            assert_eq!(mapped.preparation, direct.preparation + reads * fault);
            // A mode without the processor's time for a page has none for a fault.
            assert_eq!(fault > 0, config == Config::detailed());
            let mut quick = config.clone();
            quick.host.stack_ns = 0.0;
            let quick = run(&quick, &set, &trace, "SSD-direct", 1);
            assert_eq!(quick.preparation, direct.preparation - reads * 10 * MICRO);
        }
    }
}

#[test]
fn chains_side_by_side_hide_their_latency_until_something_is_busy() {
    let mut config = Config::detailed();
    config.host.cores = 16;
    let set = DATASETS[1];
    let trace = set.trace(12, 24, &FANOUTS, 3);
    for (name, of_host) in [("SSD-direct", 1_000.0), ("SSD-mmap", 5_000.0)] {
        let many = run(&config, &set, &trace, name, 12);
        let reads = many.outcome.issued;
        assert!(many.outcome.queue_max <= 12, "{name}: {}", many.outcome.queue_max);
        let alone = reads * (lone(&config) + from_ns(of_host - 1_000.0));
        let times = alone as f64 / many.preparation as f64;
        assert!(times > 10.5 && times <= 12.0, "{name}: {times}");
        assert_eq!(many.bound.1, "latency");
    }
    // Faults that take far longer than all else keep the cores busy.
    (config.host.cores, config.host.fault_ns) = (2, 200_000.0);
    let many = run(&config, &set, &trace, "SSD-mmap", 12);
    let busy = many.outcome.issued * from_ns(201_000.0) / 2;
    assert_eq!(many.bound, (busy, "host cores"));
    assert!(many.preparation as f64 <= 1.05 * busy as f64, "{} {busy}", many.preparation);
}

#[test]
fn a_host_reads_lists_and_rows_where_each_lies() {
    let mut config = Config::detailed();
    let set = DATASETS[1];
    let trace = set.trace(1, 24, &FANOUTS, 3);
    let apart = run(&config, &set, &trace, "SSD-direct", 1).outcome.issued;
    assert_eq!(apart, run(&config, &set, &trace, "CC", 1).outcome.issued);
    config.features_beside_lists = true;
    let beside = run(&config, &set, &trace, "SSD-direct", 1).outcome.issued;
    assert!(beside < apart && beside >= trace.node.len() as u64, "{beside} {apart}");
}

/// Lists and rows that are waited for, and bytes in units of `unit`, of one batch.
fn loads(trace: &Trace, batch: usize, row_bytes: u64, unit: u64) -> (u64, u64) {
    let entries = trace.entries_of(batch).len() as u64;
    let (mut lists, mut units) = (HashSet::new(), HashSet::new());
    for entry in 0..entries as u32 {
        for (position, _) in trace.draws_of(batch, entry) {
            lists.insert(entry);
            units.insert((entry, u64::from(position) * 4 / unit));
        }
    }
    let rows = entries * row_bytes.next_multiple_of(unit);
    (entries + lists.len() as u64, units.len() as u64 * unit + rows)
}

#[test]
fn memory_takes_its_latency_for_each_list_and_row_and_its_rate_for_the_bytes() {
    let mut config = Config::detailed();
    config.host.cores = 3;
    for set in [DATASETS[1], DATASETS[4]] {
        let trace = set.trace(6, 24, &FANOUTS, 3);
        let (memory, row) = (&config.memory, u64::from(set.feature_bytes()));
        for (name, latency_ns, rate, unit) in [
            ("host-DRAM", memory.dram_latency_ns, memory.dram_bytes_per_s, 64),
            ("host-PMEM", memory.pmem_latency_ns, memory.pmem_bytes_per_s, 256),
        ] {
            let each: Vec<(u64, u64)> =
                (0..6).map(|batch| loads(&trace, batch, row, unit)).collect();
            let rate = Rate::bytes_per_second(rate);
            let of = |&(accesses, bytes): &(u64, u64)| {
                accesses * from_ns(latency_ns) + rate.time_of(bytes)
            };
            let mut alone = job(&config, &set, name);
            let found = alone.run(&trace).expect("a run");
            for (batch, loads) in found.batches.iter().zip(&each) {
                assert_eq!(broken(batch, &config), 0);
                assert_eq!(batch.preparation, of(loads), "{name} on {}", set.name);
                assert_eq!(batch.interval, batch.preparation + batch.shares.compute);
                // No SSD: nothing is read, sent or spent there.
                let spent = batch.joules;
                assert_eq!(
                    (batch.outcome.issued, spent.flash, spent.dram, spent.pcie),
                    (0, 0.0, 0.0, 0.0)
                );
                let joules = loads.1 as f64 * 8.0 * config.energy.host_dram_joules_per_bit;
                assert!((spent.host_dram / joules - 1.0).abs() < 1e-9);
            }
            // Six workers on three cores, and a memory that is busy a part of the time.
            alone.crowd.workers = 6;
            let together = alone.run(&trace).expect("a run").batches.remove(0);
            let sum: Picos = each.iter().map(of).sum();
            assert_eq!(together.preparation, sum.div_ceil(3), "{name} on {}", set.name);
            assert_eq!(together.interval, together.preparation.max(together.shares.compute));
            let (bound, server) = together.bound;
            assert_eq!(bound, together.interval);
            assert!(["memory", "accelerator"].contains(&server));
        }
    }
}

#[test]
fn memory_that_would_take_years_is_refused() {
    let mut config = Config::detailed();
    config.memory.dram_bytes_per_s = 1e3;
    let set = DATASETS[0];
    let trace = set.trace(4, 1024, &[25, 10], 3);
    let mut slow = job(&config, &set, "host-DRAM");
    slow.crowd.workers = 4;
    let error = slow.run(&trace).expect_err("too long").to_string();
    assert!(error.contains("check for a rate that is too low"), "{error}");
    config.memory.dram_unit_bytes = 0;
    let error = job(&config, &set, "host-DRAM").run(&trace).expect_err("no unit").to_string();
    assert!(error.starts_with("memory.dram_unit_bytes is 0; use a whole number from 1"), "{error}");
}
