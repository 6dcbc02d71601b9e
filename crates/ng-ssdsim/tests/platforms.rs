//! All platforms on the same traces.
#![allow(clippy::expect_used)]

mod common;

use std::collections::BTreeMap;

use common::jobs::{broken, job};
use ng_ssdsim::{
    Audit, BatchRun, COALESCED, Config, Crowd, DATASETS, Dataset, Format, Job, Layout,
    MORE_PLATFORMS, PLATFORMS, Placement, Plan, Platform, Reuse, Run, ToHost, flag, plan, run_all,
};
use ng_types::Trace;

const FANOUTS: [u32; 3] = [3, 3, 3];

fn layout(config: &Config, set: &Dataset) -> Layout {
    let placement = Placement::Random(1);
    Layout::new(Format::Direct, config, set.feature_bytes(), set.mean_degree(), placement)
}

fn run(config: &Config, set: &Dataset, trace: &Trace, name: &str) -> Run {
    job(config, set, name).run(trace).expect("a run")
}

/// Who finds whom first, by the plan's commands; an entry's own commands are not told.
fn edges(plan: &Plan) -> BTreeMap<(u8, u32, u32), u32> {
    let mut found = BTreeMap::new();
    for command in 0..plan.len() as u32 {
        let parent = plan.entry[command as usize];
        for child in plan.children_of(command) {
            let (entry, hop) = (plan.entry[child as usize], plan.hop[child as usize]);
            let first = plan.flags[child as usize] & flag::FEATURE != 0;
            if entry != parent && first {
                *found.entry((hop, parent, entry)).or_default() += 1;
            }
        }
    }
    found
}

#[test]
fn every_draw_of_the_trace_is_a_command_on_every_platform() {
    let config = Config::paper();
    for set in DATASETS {
        let trace = set.trace(1, 32, &FANOUTS, 3);
        let entries = trace.entries_of(0).len();
        let mut wanted = BTreeMap::new();
        for entry in 0..entries as u32 {
            for (_, found) in trace.draws_of(0, entry) {
                wanted.insert((trace.hop[found as usize], entry, found), 1);
            }
        }
        for platform in PLATFORMS.into_iter().chain(MORE_PLATFORMS) {
            let made = plan(&trace, 0, &layout(&config, &set), &config.payload, platform.asked());
            let features = made.flags.iter().filter(|&&flags| flags & flag::FEATURE != 0).count();
            assert_eq!(features, entries, "{} on {}", platform.name, set.name);
            if platform.is_streaming() {
                assert_eq!(edges(&made), wanted, "{} on {}", platform.name, set.name);
            }
            let sampled = made.flags.iter().all(|&flags| flags & flag::SAMPLED != 0);
            assert_eq!(sampled, platform.asked().sampled);
        }
    }
}

/// A target of reddit, whose first page has its row and 699 neighbours, each further one 1,000.
fn one_target(positions: &[u32]) -> (Dataset, Trace) {
    let mut trace = Trace::default();
    trace.begin_batch();
    let seed = trace.visit(7, 5_000, 0);
    let visit = |n| trace.visit(100 + n, 1, 1);
    let found: Vec<u32> = (0..positions.len() as u64).map(visit).collect();
    for (&position, &child) in positions.iter().zip(&found) {
        trace.draw(seed, position, child);
    }
    trace.end_batch();
    (Dataset::by_name("reddit").expect("it is there"), trace)
}

#[test]
fn a_die_asks_for_secondary_sections_once_it_has_drawn() {
    let (set, trace) = one_target(&[10, 1_700, 2_698]);
    let hop = |name| run(&Config::paper(), &set, &trace, name).batches[0].outcome.hops[0].1;
    // Core, sense, sampler, the row of 1,204 bytes through it at 1,365 bytes a microsecond and over
    // the channel at 800; then once more without a row.
    let (core, sense, sampler) = (200_000, 3_000_000, 200_000);
    let row = 1_204 * 1_000_000 / 1_365 + 1_204 * 1_250;
    assert!(hop("BG-SP").abs_diff(2 * (core + sense + sampler) + row) <= 1);
    // The SSD's cores know how long a list is, and ask for both at once; the second may wait.
    let page = 5_000_000;
    assert!([core + sense + page, core + sense + 2 * page].contains(&hop("BG-1")));
    // Where rows lie elsewhere, the first page of the list is read for drawing alone.
    let config = Config::detailed();
    let csr = Layout::new(Format::Csr, &config, 1_204, 5_000.0, Placement::Random(1));
    let (_, trace) = one_target(&[1_700]);
    let plan_of = |name: &str| {
        let asked = Platform::by_name(name).expect("a platform").asked();
        plan(&trace, 0, &csr, &config.payload, asked)
    };
    let (die, core) = (plan_of("BG-SP"), plan_of("BG-1"));
    assert_eq!((core.hop.as_slice(), die.hop.as_slice()), (&[0, 0, 1][..], &[0, 0, 1, 0][..]));
    assert_eq!((die.roots, die.children.as_slice()), (3, &[3, 3, 4, 4, 4][..]));
    assert!(die.flags[3] & flag::AFTER != 0 && die.flags[1] & flag::AFTER == 0);
    // Headers, the section that is asked for, and the draw.
    assert_eq!(die.bytes, [1_204 + 16, 16 + 16, 1_204 + 16, 16 + 16]);
}

#[test]
fn only_pages_with_a_draw_or_the_row_are_read() {
    let config = Config::paper();
    // On pages 0, 2 and 2.
    let (set, trace) = one_target(&[10, 1_700, 2_698]);
    let direct = layout(&config, &set);
    let asked = Platform::by_name("BG-2").expect("a platform").asked();
    let made = plan(&trace, 0, &direct, &config.payload, asked);
    let flags: Vec<u8> = made.flags.iter().map(|flags| flags & !flag::SAMPLED).collect();
    let (row, secondary) = (flag::FEATURE, flag::SECONDARY);
    // The primary brings forth whom it found itself and one command for the secondary section.
    assert_eq!(flags, [row, row, secondary, row, row]);
    assert_eq!(made.entry, [0, 1, 0, 2, 3]);
    assert_eq!(made.children, [1, 3, 3, 5, 5, 5]);
    assert_eq!(made.bytes, [1204, 1204, 0, 1204, 1204]);
}

#[test]
fn no_run_breaks_a_law_or_its_bound() {
    let (mut tried, mut failed) = (0, 0);
    for config in [Config::paper(), Config::detailed()] {
        for set in DATASETS {
            let trace = set.trace(2, 64, &FANOUTS, 4);
            for platform in PLATFORMS.into_iter().chain(MORE_PLATFORMS) {
                let found = run(&config, &set, &trace, platform.name);
                for batch in &found.batches {
                    tried += batch.outcome.events;
                    failed += broken(batch, &config);
                    let name = format!("{} on {}", platform.name, set.name);
                    assert_eq!(broken(batch, &config), 0, "{name}: {batch:?}");
                    assert_eq!(batch.targets, 64);
                }
                assert_eq!(found, run(&config, &set, &trace, platform.name), "a run repeats");
            }
        }
    }
    println!("figure: {{\"id\":\"M1\",\"tried\":{tried},\"failed\":{failed},\"seed\":4}}");
}

#[test]
fn rows_longer_than_a_page_and_none_at_all_break_no_law_either() {
    let set = Dataset::by_name("ppi").expect("it is there");
    let trace = set.trace(2, 16, &FANOUTS, 4);
    let rows = trace.node.len() as u64;
    for config in [Config::paper(), Config::detailed()] {
        for platform in PLATFORMS.into_iter().chain(MORE_PLATFORMS) {
            let with = |feature_bytes: u32| {
                let mut job = job(&config, &set, platform.name);
                (job.feature_bytes, job.model.columns) = (feature_bytes, feature_bytes as u64 / 4);
                let found = job.run(&trace).expect("a run");
                let failed: u64 = found.batches.iter().map(|batch| broken(batch, &config)).sum();
                assert_eq!(failed, 0, "{} with rows of {feature_bytes} bytes", platform.name);
                let sum = |of: fn(&BatchRun) -> u64| found.batches.iter().map(of).sum::<u64>();
                let compute = sum(|batch| batch.shares.compute);
                (sum(|batch| batch.outcome.issued), compute, found.targets_per_s())
            };
            let (none, narrow, wide) = (with(0), with(512), with(27_000));
            println!("{} {none:?} {narrow:?} {wide:?}", platform.name);
            // Without rows there is nothing to compute, and no read of the last hop.
            assert_eq!(none.1, 0, "{}", platform.name);
            assert!(none.2 > narrow.2 && narrow.2 > wide.2, "{}", platform.name);
            if platform.to_host == ToHost::Nothing {
                continue;
            }
            assert!(none.0 < narrow.0, "{}", platform.name);
            // 27,000 bytes are seven pages of 4,000, or of 4,096 one to seven more than one.
            assert!(wide.0 >= narrow.0 + 5 * rows && wide.0 <= narrow.0 + 8 * rows);
        }
    }
}

#[test]
fn each_step_from_bg_1_to_bg_2_is_no_slower_where_pages_are_the_bound() {
    let config = Config::paper();
    for set in DATASETS {
        let trace = set.trace(3, 128, &FANOUTS, 5);
        let speed = |name| run(&config, &set, &trace, name).targets_per_s();
        let steps = ["BG-1", "BG-DG", "BG-DGSP", "BG-2"].map(speed);
        println!("{}: {steps:.0?}, CC {:.0}", set.name, speed("CC"));
        assert!(steps.is_sorted(), "{}: {steps:?}", set.name);
        assert!(speed("CC") < steps[0]);
    }
}

#[test]
fn many_jobs_at_once_are_each_as_alone_and_survive_json() {
    let set = Dataset::by_name("ppi").expect("it is there");
    let trace = set.trace(1, 32, &FANOUTS, 8);
    let config = Config::detailed();
    let jobs: Vec<Job> = PLATFORMS.map(|platform| job(&config, &set, platform.name)).into();
    let together = run_all(&trace, &jobs).expect("runs");
    for (job, found) in jobs.iter().zip(&together) {
        let text = serde_json::to_string(job).expect("JSON");
        assert_eq!(serde_json::from_str::<Job>(&text).expect("a job"), *job);
        assert_eq!(job.run(&trace).expect("a run"), *found);
        assert!(serde_json::to_string(found).expect("JSON").contains(&job.platform));
    }
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let config = Config::paper();
    let set = Dataset::by_name("amazon").expect("it is there");
    let error = Platform::by_name("BG-3").unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown platform \"BG-3\"; known: CC, SmartSage, GList, BG-1, BG-DG, BG-SP, BG-DGSP, \
         BG-2, CC-pipe, CC-512, FPGA-CSD, SmartSAGE-coalesced, SSD-mmap, SSD-direct, host-PMEM, \
         host-DRAM"
    );
    let mut trace = set.trace(1, 4, &FANOUTS, 6);
    let at = |trace: &Trace, config: &Config| {
        job(config, &set, "BG-2").run(trace).unwrap_err().to_string()
    };
    assert!(at(&Trace::default(), &config).contains("no batches"));
    let mut broken = config.clone();
    broken.flash.channels = 0;
    assert!(at(&trace, &broken).starts_with("flash.channels is 0"));
    let mut wide = job(&config, &set, "BG-2");
    let of_width = |wide: &Job| wide.run(&trace).unwrap_err().to_string();
    wide.model.hidden = 1 << 40;
    assert_eq!(of_width(&wide), "hidden is 1099511627776; use 1 to 65536");
    let array = &mut wide.config.accelerator;
    (wide.model.hidden, array.rows, array.columns, array.hertz) = (1 << 16, 1, 1, 1e3);
    assert!(of_width(&wide).contains("check for a rate that is too low"));
    trace.found.truncate(3);
    assert!(at(&trace, &config).contains("truncated or damaged"));
}

#[test]
fn energy_is_the_sum_of_its_parts_and_known_for_a_batch_of_one() {
    let mut config = Config::paper();
    let set = Dataset::by_name("amazon").expect("it is there");
    let mut trace = Trace::default();
    trace.begin_batch();
    trace.visit(1, 5, 0);
    trace.end_batch();
    let batch = &run(&config, &set, &trace, "CC").batches[0];
    // 25 mA for 3 us, 5 mA for the 5 us of the transfer, and 10 uA for all other time of 128 dies;
    // one page over the link, into the host's memory and out of it.
    let time = batch.interval as f64 * 1e-12;
    let charge = 25e-3 * 3e-6 + 5e-3 * 5e-6 + 10e-6 * (128.0 * time - 8e-6);
    let parts: BTreeMap<&str, f64> = batch.joules.parts().into_iter().collect();
    let close = |name: &str, wanted: f64| {
        assert!((parts[name] / wanted - 1.0).abs() < 1e-9, "{name}: {} {wanted}", parts[name]);
    };
    close("flash", 3.3 * charge);
    close("PCIe", 4000.0 * 8.0 * 7.5e-12);
    close("host DRAM", 2.0 * 4000.0 * 8.0 * 40e-12);
    close("DRAM", 2.0 * 4000.0 * 8.0 * 22e-12);
    assert!((parts.values().sum::<f64>() / batch.joules.total() - 1.0).abs() < 1e-12);
    config.energy.sense_amperes = f64::NAN;
    assert!(config.check().unwrap_err().to_string().starts_with("energy.sense_amperes is NaN"));
}

#[test]
fn a_channel_has_selected_one_die_at_a_time() {
    let mut config = Config::paper();
    (config.flash.channels, config.flash.dies_per_channel) = (1, 64);
    let set = Dataset::by_name("amazon").expect("it is there");
    let mut trace = Trace::default();
    trace.begin_batch();
    for node in 0..32 {
        trace.visit(node, 5, 0);
    }
    trace.end_batch();
    let batch = &run(&config, &set, &trace, "CC").batches[0];
    // Most pages wait in registers while others are sent, 5 us each: their dies stand by.
    assert!(batch.latency.after_flash.mean > 30_000_000, "{:?}", batch.latency);
    let (sensed, selected) = (32.0 * 3e-6, 32.0 * 5e-6);
    let idle = 64.0 * batch.interval as f64 * 1e-12 - sensed - selected;
    let wanted = 3.3 * (25e-3 * sensed + 5e-3 * selected + 10e-6 * idle);
    assert!((batch.joules.flash / wanted - 1.0).abs() < 1e-9, "{} {wanted}", batch.joules.flash);
}

#[test]
fn whoever_bounds_a_batch_is_named() {
    let mut config = Config::paper();
    let set = Dataset::by_name("amazon").expect("it is there");
    let trace = set.trace(1, 128, &FANOUTS, 6);
    let named = |config: &Config, name| {
        let batch = run(config, &set, &trace, name).batches.remove(0);
        (batch.bound.1, batch.bound.0 as f64 / batch.interval as f64)
    };
    assert_eq!(named(&config, "BG-1").0, "channels");
    config.accelerator.hertz = 8e6;
    // Batch after batch, so nothing else takes any time beside it.
    assert_eq!(named(&config, "BG-2"), ("accelerator", 1.0));
    config.host.stack_ns = 1e9;
    assert_eq!(named(&config, "CC").0, "host");
}

#[test]
fn transfers_beside_reads_hide_behind_the_longer_of_the_two() {
    for config in [Config::paper(), Config::detailed()] {
        let set = DATASETS[1];
        let trace = set.trace(1, 128, &FANOUTS, 6);
        let one = |name| run(&config, &set, &trace, name).batches.remove(0);
        let (cc, piped) = (one("CC"), one("CC-pipe"));
        assert_eq!(piped.shares.pcie, 0);
        assert!(piped.shares.flash < cc.shares.flash + cc.shares.pcie);
        assert!(piped.shares.flash >= cc.shares.flash.max(piped.outcome.pcie_busy));
    }
}

#[test]
fn each_page_costs_a_core_of_the_host_its_time() {
    let mut config = Config::detailed();
    let set = DATASETS[1];
    let trace = set.trace(1, 128, &FANOUTS, 6);
    let host = |config: &Config, name| run(config, &set, &trace, name).batches[0].shares.host;
    let pages = run(&config, &set, &trace, "CC").batches[0].outcome.issued;
    let (with, in_ssd) = (host(&config, "CC"), host(&config, "BG-2"));
    config.host.io_ns = 0.0;
    // A microsecond each, on two cores.
    assert_eq!(with - host(&config, "CC"), pages * 1_000_000 / 2);
    assert_eq!(in_ssd, host(&config, "BG-2"));
}

#[test]
fn sectors_leave_the_die_in_place_of_pages() {
    let config = Config::detailed();
    let set = Dataset::by_name("amazon").expect("it is there");
    let trace = set.trace(1, 128, &FANOUTS, 6);
    let one = |name| run(&config, &set, &trace, name).batches.remove(0);
    let (pages, sectors) = (one("CC"), one("CC-512"));
    // A row of 400 bytes is one sector, each draw another; each of the others was a page.
    let entries = trace.entries_of(0).len() as u64;
    let draws = trace.found.len() as u64;
    assert_eq!(set.feature_bytes(), 400);
    // But for rows that cross the end of a page, which are a sector of each.
    let crosses = |node: &&u64| **node * 400 % 4096 + 400 > 4096;
    let crossing = trace.node.iter().filter(crosses).count() as u64;
    assert!(crossing > entries / 20 && crossing < entries / 5, "{crossing} of {entries}");
    assert!(sectors.outcome.channel_bytes <= (entries + crossing + draws) * 512);
    assert_eq!(sectors.outcome.senses, pages.outcome.senses);
    assert!(sectors.interval < pages.interval);
}

#[test]
fn a_processor_beside_the_ssd_gets_every_page_first() {
    let config = Config::paper();
    let set = DATASETS[1];
    let trace = set.trace(1, 128, &FANOUTS, 6);
    let one = |name| run(&config, &set, &trace, name).batches.remove(0).shares;
    assert_eq!(one("FPGA-CSD").pcie, one("CC").pcie + one("SmartSage").pcie);
    // The host asks for each page, whoever gets it.
    let in_detail = |name| run(&Config::detailed(), &set, &trace, name).batches.remove(0).shares;
    assert_eq!(in_detail("FPGA-CSD").host, in_detail("CC").host);
}

#[test]
fn a_command_for_fewer_targets_costs_the_host_more_of_them() {
    let set = DATASETS[1];
    let trace = set.trace(4, 128, &FANOUTS, 6);
    let crowded = |workers, targets_per_command| {
        let mut job = job(&Config::paper(), &set, COALESCED);
        job.crowd = Crowd { workers, targets_per_command };
        job.run(&trace)
    };
    let stack = 10_000_000;
    for (granularity, commands) in [(0, 1), (1024, 1), (128, 1), (100, 2), (1, 128)] {
        let found = crowded(1, granularity).expect("a run");
        assert_eq!(found.batches.len(), 4);
        assert!(found.batches.iter().all(|batch| batch.shares.host == commands * stack));
    }
    // Workers share the cores: the second is worth less than the first.
    let speed = |workers| crowded(workers, 0).expect("a run").targets_per_s();
    let (one, two, four) = (speed(1), speed(2), speed(4));
    assert!(two > one && two < 2.0 * one, "{one} {two}");
    assert!(four > 0.97 * two && four < 2.0 * two, "{one} {two} {four}");
    let both = crowded(4, 0).expect("a run");
    assert_eq!((both.batches.len(), both.batches[0].targets), (1, 512));
    assert_eq!(both.batches[0].audit, Audit::default());
    let alone: u64 =
        crowded(1, 0).expect("a run").batches.iter().map(|batch| batch.outcome.issued).sum();
    assert_eq!(both.batches[0].outcome.issued, alone);
    assert!(crowded(0, 0).is_err() && crowded(65, 0).is_err());
    let mut other = job(&Config::paper(), &set, "CC");
    other.crowd.targets_per_command = 2;
    let error = other.run(&trace).unwrap_err().to_string();
    assert!(
        error.contains("CC does not support 2 targets per command; only SmartSAGE-coalesced"),
        "{error}"
    );
}

#[test]
fn batches_side_by_side_keep_their_commands() {
    let config = Config::paper();
    let set = DATASETS[4];
    let trace = set.trace(3, 16, &FANOUTS, 6);
    let asked = Platform::by_name(COALESCED).expect("a platform").asked();
    let made = |batch| plan(&trace, batch, &layout(&config, &set), &config.payload, asked);
    let plans: Vec<Plan> = (0..3).map(made).collect();
    assert_eq!(Plan::joined(&plans[..1]), plans[0]);
    let joined = Plan::joined(&plans);
    assert_eq!(joined.len(), plans.iter().map(Plan::len).sum::<usize>());
    let all: BTreeMap<_, _> = edges(&joined);
    assert_eq!(all.len(), plans.iter().map(|plan| edges(plan).len()).sum::<usize>());
}

#[test]
fn what_is_read_once_for_several_is_read_less_and_breaks_no_law() {
    let set = Dataset::by_name("ppi").expect("it is there");
    let mut trace = set.trace(8, 64, &FANOUTS, 4);
    // So few nodes that they come again.
    trace.node.iter_mut().for_each(|node| *node %= 3_000);
    for config in [Config::paper(), Config::detailed()] {
        for name in ["CC", "SmartSage", "GList", "BG-1", "CC-pipe"] {
            let run = |reuse: Reuse| {
                let placement = Placement::Striped;
                let job = Job { reuse, placement, ..job(&config, &set, name) };
                let found = job.run(&trace).expect("a run");
                let failed: u64 = found.batches.iter().map(|batch| broken(batch, &config)).sum();
                assert_eq!(failed, 0, "{name}");
                let sum = |of: fn(&BatchRun) -> u64| found.batches.iter().map(of).sum::<u64>();
                let (issued, hits) = (sum(|b| b.outcome.issued), sum(|b| b.outcome.hits));
                let targets = sum(|b| b.targets);
                assert_eq!(targets, 8 * 64);
                (found.batches.len(), issued, issued - hits, found.targets_per_s())
            };
            let none = run(Reuse::default());
            let merged = run(Reuse { merged: true, ..Reuse::default() });
            let grouped = run(Reuse { merged: true, grouped: 4, cache_pages: 0 });
            let cached = run(Reuse { cache_pages: 1 << 20, ..Reuse::default() });
            let all = run(Reuse { merged: true, grouped: 4, cache_pages: 1 << 20 });
            let small = run(Reuse { cache_pages: 64, ..Reuse::default() });
            println!("{name} {none:?} {merged:?} {grouped:?} {cached:?} {all:?} {small:?}");
            assert_eq!([none.0, merged.0, grouped.0, all.0], [8, 8, 2, 2]);
            // Commands: a page once a hop; four batches together share more.
            assert!(none.1 > merged.1 && merged.1 > grouped.1);
            assert_eq!((cached.1, all.1), (none.1, grouped.1));
            // Reads of the flash: what is in the cache is not read again.
            assert!(cached.2 < small.2 && small.2 < none.2);
            assert!(all.2 < grouped.2 && all.2 < cached.2);
            assert!(merged.3 > none.3 && cached.3 > none.3 && all.3 > merged.3);
        }
    }
    let refused = Job {
        reuse: Reuse { cache_pages: 9, ..Reuse::default() },
        ..job(&Config::paper(), &set, "BG-2")
    };
    let error = refused.run(&trace).expect_err("no pages").to_string();
    assert!(error.starts_with("BG-2 cannot merge page reads"), "{error}");
}
