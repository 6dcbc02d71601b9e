//! A look-ahead gives the very batches that sampling one by one gives, whatever the policy, the
//! window and the memory; and it stays within its memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common;
use crate::common::one_type::{self, Edges, Rows, number, open, skewed_list};
use ng_sample::{
    Fanouts, Jobs, MiniBatch, Pipeline, Reading, SampleError, SampleSpec, Sampler, Settings, Way,
};
use ng_store::{OpenOptions, Owner, RowOrder, Snapshot, Store, TensorRef, UpdateError, reorganize};
use ng_types::{Dtype, NodeTypeId};

const NODES: u64 = 20_000;
const BATCH: u64 = 50;
const NODE: NodeTypeId = NodeTypeId(0);

/// A graph where few nodes are wanted by most batches, with rows of `width` f32 and labels.
fn build(dir: &Path, width: u64) {
    let tensors = [Rows::new("x", Dtype::F32, &[width]), Rows::new("y", Dtype::I64, &[])];
    one_type::build(dir, NODES, Edges::Nothing, &skewed_list(NODES), &tensors);
}

fn sampler(store: &Store) -> Sampler {
    let spec = SampleSpec::uniform(Fanouts::uniform(&[6, 4], 1).expect("fanouts"), 11);
    let tensor = |index| TensorRef { owner: Owner::Node(NODE), index };
    Sampler::new(store.snapshot(), spec, vec![tensor(0), tensor(1)]).expect("sampler")
}

fn settings(reading: Reading, window: Option<u64>) -> Settings {
    Settings { reading, window, prefetch: Some(2), threads: Some(2), ..Settings::default() }
}

/// Seeds of batch `index`; the first of them stands twice.
fn seeds(index: u64) -> Vec<u64> {
    let mut seeds: Vec<u64> = (0..BATCH).map(|i| number(5, index * BATCH + i) % NODES).collect();
    seeds[3] = seeds[0];
    seeds
}

fn jobs(batches: u64) -> Jobs {
    common::jobs(NODE, batches, seeds)
}

fn start(store: &Store, settings: Settings, jobs: Jobs) -> Pipeline {
    Pipeline::new(sampler(store), jobs, Way::Ahead(settings)).expect("starts")
}

fn run(store: &Store, settings: Settings, batches: u64) -> Vec<MiniBatch> {
    let made: Result<_, SampleError> = start(store, settings, jobs(batches)).collect();
    made.expect("batches")
}

fn expected(dir: &Path, batches: u64) -> Vec<MiniBatch> {
    let store = open(dir, 512 << 20);
    let sampler = sampler(&store);
    (0..batches).map(|i| sampler.sample(&[(NODE, &seeds(i))], i).expect("batch")).collect()
}

fn check(width: u64, memory: &[u64], readings: &[Reading], windows: &[Option<u64>]) {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), width);
    let expected = expected(dir.path(), 60);
    check_in(dir.path(), &expected, memory, readings, windows);
}

fn check_in(
    dir: &Path,
    expected: &[MiniBatch],
    memory: &[u64],
    readings: &[Reading],
    windows: &[Option<u64>],
) {
    let batches = expected.len() as u64;
    for memory in memory {
        for reading in readings {
            for window in windows {
                let store = open(dir, memory << 20);
                let plan = settings(*reading, *window);
                let mut ahead = start(&store, plan, jobs(batches));
                let mut count = 0;
                for (batch, expected) in ahead.by_ref().zip(expected) {
                    let batch = batch.expect("batch");
                    assert!(batch == *expected, "batch {count} {reading:?} {window:?} {memory}");
                    count += 1;
                }
                assert_eq!(count, batches);
                let peak = store.budget().peak_bytes();
                assert!(peak <= memory << 20, "{peak} of {memory} MiB");
                println!("{memory} {:?} {:?}", ahead.chosen(), store.stats());
            }
        }
    }
}

/// Puts the rows of the store into another order: that of 7919 i modulo the number of nodes.
fn reorder(dir: &Path) {
    let options = OpenOptions { memory: Some(32 << 20), ..OpenOptions::default() };
    let mut order = |snapshot: &Arc<Snapshot>| {
        let ids: Vec<u32> = (0..NODES).map(|row| (row * 7919 % NODES) as u32).collect();
        let held = snapshot.reserve(RowOrder::bytes_for(NODES)).expect("fits");
        Ok::<_, UpdateError>(vec![(NODE, RowOrder::of(&ids, held)?)])
    };
    reorganize(dir, &options, &mut order, &mut |_, _| true).expect("reorganised");
    assert!(open(dir, 32 << 20).snapshot().catalog().node_types[0].has_order());
}

#[test]
fn rows_in_another_order_give_the_same_batches_and_memory_is_kept() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("graph.ng");
    std::fs::create_dir(&path).expect("made");
    build(&path, 64);
    let expected = expected(&path, 60);
    reorder(&path);
    check_in(
        &path,
        &expected,
        &[24, 64],
        &[Reading::Scan, Reading::Window, Reading::Distribute],
        &[None, Some(1), Some(17)],
    );
    check_in(&path, &expected, &[24], &[Reading::Auto, Reading::NaiveUringSieve], &[None]);
    for (memory, batches) in [(24 << 20, 60), (64 << 20, 8)] {
        let store = open(&path, memory);
        let way = Way::Each { prefetch: 2, threads: 2 };
        let made = Pipeline::new(sampler(&store), jobs(batches), way).expect("starts");
        let made: Result<Vec<_>, SampleError> = made.collect();
        assert!(made.expect("batches") == expected[..batches as usize]);
        let single = sampler(&store).sample(&[(NODE, &seeds(3))], 3).expect("batch");
        assert!(single == expected[3]);
    }
}

const LOOKING: [Reading; 4] = [Reading::Scan, Reading::Window, Reading::Distribute, Reading::Auto];

#[test]
fn every_policy_gives_the_batches_of_plain_sampling() {
    check(64, &[24, 64], &LOOKING, &[None, Some(1), Some(3), Some(17)]);
}

#[test]
fn baselines_give_the_batches_of_plain_sampling() {
    check(64, &[24], &[Reading::NaiveUring, Reading::NaiveUringSieve], &[None]);
}

/// Device requests, and their bytes, for 60 batches.
fn reads(dir: &Path, memory: u64, reading: Reading, window: Option<u64>) -> (u64, u64) {
    let store = open(dir, memory << 20);
    let ahead = start(&store, settings(reading, window), jobs(60));
    assert_eq!(ahead.filter(Result::is_ok).count(), 60);
    (store.stats().reads, store.stats().read_bytes)
}

#[test]
fn a_cache_spares_reads_and_looking_ahead_spares_more() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 256);
    let (naive, _) = reads(dir.path(), 44, Reading::NaiveUring, None);
    let (sieve, _) = reads(dir.path(), 44, Reading::NaiveUringSieve, None);
    let (window, _) = reads(dir.path(), 44, Reading::Window, None);
    assert!(sieve < naive * 9 / 10, "{sieve} of {naive}");
    assert!(window < sieve * 9 / 10, "{window} of {sieve}");
}

#[test]
fn reads_fall_as_the_window_grows() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let read = |window| reads(dir.path(), 48, Reading::Scan, Some(window)).1;
    let (short, middle, long) = (read(2), read(6), read(18));
    assert!(middle < short && long < middle, "{short}, {middle}, {long}");
}

#[test]
fn rows_that_span_blocks_and_pages_arrive_whole() {
    check(1500, &[112], &LOOKING, &[None, Some(5)]);
}

#[test]
fn jobs_that_come_late_are_done_all_the_same() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let expected = expected(dir.path(), 60);
    for reading in LOOKING {
        let store = open(dir.path(), 24 << 20);
        // More become known when a slow consumer takes one; less than a window is left at the end.
        for window in [None, Some(1), Some(4)] {
            let mut ahead = start(&store, settings(reading, window), jobs(60));
            for (index, expected) in expected.iter().enumerate() {
                std::thread::sleep(Duration::from_millis(index as u64 % 7));
                let batch = ahead.next().expect("one").expect("batch");
                assert!(batch == *expected, "batch {index} {reading:?} {window:?}");
            }
            assert!(ahead.next().is_none());
        }
        // All that will ever come is less than a window.
        for first in [59, 58, 53] {
            let left = Jobs { first: (0, first), ..jobs(60) };
            let made: Result<Vec<_>, _> = start(&store, settings(reading, None), left).collect();
            assert!(made.expect("batches") == expected[first as usize..], "{first} {reading:?}");
        }
    }
}

#[test]
fn epoch_follows_epoch_with_other_draws() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let plain = open(dir.path(), 512 << 20);
    let plain = sampler(&plain);
    for (reading, two_phase) in LOOKING.into_iter().zip([None, None, None, Some(true)]) {
        let store = open(dir.path(), 24 << 20);
        let plan = Settings { two_phase, ..settings(reading, Some(5)) };
        let endless = Jobs { first: (1, 7), goes_on: true, ..jobs(12) };
        let ahead = start(&store, plan, endless);
        for (stream, batch) in (12 + 7..60).zip(ahead) {
            let expected = plain.sample(&[(NODE, &seeds(stream % 12))], stream);
            assert!(batch.expect("batch") == expected.expect("plain"), "{stream} {reading:?}");
        }
    }
}

/// Room on disk for some 22 samples.
const SPILLED_BYTES: u64 = 300_000;

#[test]
fn batches_that_are_sampled_first_are_the_same_stretch_after_stretch() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let expected = expected(dir.path(), 60);
    for (reading, memory, window) in
        [(Reading::Scan, 28, None), (Reading::Distribute, 20, Some(25)), (Reading::Auto, 64, None)]
    {
        let store = open(dir.path(), memory << 20);
        let plan = Settings {
            two_phase: Some(true),
            spill_dir: Some(dir.path().into()),
            spill_bytes: (reading != Reading::Distribute).then_some(SPILLED_BYTES),
            ..settings(reading, window)
        };
        let mut ahead = start(&store, plan, jobs(60));
        for (index, expected) in expected.iter().enumerate() {
            let batch = ahead.next().expect("one").expect("batch");
            assert!(batch == *expected, "batch {index} {reading:?}");
        }
        let chosen = ahead.chosen().and_then(|chosen| chosen.sampled_first);
        assert!(chosen.is_some_and(|stretch| stretch > 1 && stretch <= 25), "{chosen:?}");
        assert!(ahead.next().is_none());
        drop(ahead);
        let peak = store.budget().peak_bytes();
        assert!(peak <= memory << 20, "{peak} of {memory} MiB");
    }
}

#[test]
fn sampling_first_leaves_more_memory_for_rows() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 256);
    let slots = |two_phase| {
        let store = open(dir.path(), 28 << 20);
        let plan = Settings { two_phase: Some(two_phase), ..settings(Reading::Scan, None) };
        let mut ahead = start(&store, plan, jobs(20));
        assert_eq!(ahead.by_ref().filter(Result::is_ok).count(), 20);
        ahead.chosen().expect("chosen").slot_bytes
    };
    let (one, two) = (slots(false), slots(true));
    assert!(two > one, "{two} {one}");
}

#[test]
fn a_window_grows_to_its_length_in_few_passes_over_the_file() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let file = NODES * 256;
    for two_phase in [false, true] {
        let store = open(dir.path(), 64 << 20);
        let plan = Settings { two_phase: Some(two_phase), ..settings(Reading::Scan, Some(24)) };
        let ahead = start(&store, plan, jobs(48));
        assert_eq!(ahead.filter(Result::is_ok).count(), 48);
        // Mostly revolutions of 1, 1, 2, 4, 16 and 24 batches, and the topology. Where sampling is
        // slow, each of the first 8 batches has a revolution of its own: so long may it take until
        // the window is chosen. Those of 2, 4, 16 and 24 batches follow.
        let bytes = store.stats().read_bytes;
        println!("{bytes} of {file}");
        assert!(bytes < 14 * file, "{bytes} of {file}");
    }
}

#[test]
fn a_dropped_look_ahead_gives_all_memory_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let store = open(dir.path(), 24 << 20);
    for taken in 0..4 {
        let jobs = Jobs { goes_on: true, ..jobs(40) };
        let mut ahead = start(&store, settings(Reading::Scan, None), jobs);
        for _ in 0..taken {
            ahead.next().expect("one").expect("batch");
        }
        drop(ahead);
    }
    while store.reclaim(u64::MAX) > 0 {}
    let fresh = open(dir.path(), 24 << 20);
    while fresh.reclaim(u64::MAX) > 0 {}
    assert_eq!(store.budget().used_bytes(), fresh.budget().used_bytes());
}

#[test]
fn a_consumer_that_keeps_every_batch_is_told_so() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let store = open(dir.path(), 24 << 20);
    let ahead = start(&store, settings(Reading::Scan, None), jobs(100));
    let kept: Result<Vec<_>, _> = ahead.collect();
    assert!(matches!(kept, Err(SampleError::Budget { .. })), "{kept:?}");
    assert!(store.budget().peak_bytes() <= 24 << 20);
}

#[test]
fn a_seed_out_of_range_is_named_and_memory_that_is_too_small_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 1500);
    let store = open(dir.path(), 64 << 20);
    let wrong = Jobs { goes_on: true, ..Jobs::once(NODE, vec![NODES], BATCH) };
    let mut ahead = start(&store, settings(Reading::Scan, None), wrong);
    let error = ahead.next().expect("an answer").expect_err("refused");
    assert!(error.to_string().contains("20000"), "{error}");
    let store = open(dir.path(), 12 << 20);
    let mut ahead = start(&store, settings(Reading::Window, None), jobs(1));
    let error = ahead.next().expect("an answer").expect_err("refused");
    assert!(error.to_string().contains("memory"), "{error}");
    assert!(run(&open(dir.path(), 96 << 20), settings(Reading::Window, None), 3).len() == 3);
}

/// The budget that a look-ahead asks for, if `memory` is too small for it.
fn asked(dir: &Path, memory: u64, reading: Reading, seeds: fn(u64) -> Vec<u64>) -> Option<u64> {
    let store = open(dir, memory);
    let jobs = common::jobs(NODE, 20, seeds);
    let batches = start(&store, settings(reading, None), jobs);
    match batches.map(|batch| batch.map(|_| 1)).sum::<Result<u64, _>>() {
        Ok(count) => assert_eq!(count, 20),
        Err(SampleError::TooSmallToLookAhead { minimum_bytes, .. }) => return Some(minimum_bytes),
        Err(other) => panic!("{reading:?} with {memory}: {other}"),
    }
    None
}

#[test]
fn a_budget_that_is_too_small_to_look_ahead_names_one_that_is_not() {
    let dirs = [tempfile::tempdir(), tempfile::tempdir()].map(|dir| dir.expect("made"));
    let [narrow, wide] = dirs.each_ref().map(|dir| dir.path());
    build(narrow, 16);
    build(wide, 1000);
    let check = |dir: &Path, memory: u64, reading, seeds| {
        let enough = asked(dir, memory << 20, reading, seeds).expect("too small");
        assert!(enough > memory << 20, "{reading:?} with {memory} MiB asks for {enough}");
        assert_eq!(asked(dir, enough, reading, seeds), None, "{reading:?} with {memory} MiB");
    };
    for reading in [Reading::Auto, Reading::Scan, Reading::Window, Reading::Distribute] {
        check(narrow, 8, reading, seeds);
        assert_eq!(asked(narrow, 16 << 20, reading, seeds), None, "{reading:?} fits");
        check(wide, 20, reading, seeds);
    }
    // The last batch has many more rows than the others let expect: it fails when it is its turn.
    let uneven = |index| {
        if index < 19 { vec![index; 1000] } else { (0..1000).map(|i| i * 20).collect() }
    };
    check(narrow, 13, Reading::Window, uneven);
    check(narrow, 24, Reading::NaiveUring, uneven);
}
