//! A look-ahead gives the very batches that sampling one by one gives, whatever the policy, the
//! window and the memory; and it stays within its memory.

#![allow(clippy::expect_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::one_type::{self, Edges, Rows, number, open, skewed_list};
use ng_sample::{
    BatchPlan, BatchStream, Fanouts, LookAhead, MiniBatch, Reading, SampleError, SampleSpec,
    Sampler, Settings,
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
    Settings {
        node_type: NODE,
        reading,
        window,
        prefetch: 2,
        threads: 2,
        costs: None,
        two_phase: None,
        spill_dir: None,
        spill_bytes: None,
    }
}

/// Seeds of batch `index`; the first of them stands twice.
fn seeds(index: u64) -> Vec<u64> {
    let mut seeds: Vec<u64> = (0..BATCH).map(|i| number(5, index * BATCH + i) % NODES).collect();
    seeds[3] = seeds[0];
    seeds
}

fn run(store: &Store, settings: Settings, batches: u64) -> Vec<MiniBatch> {
    let mut ahead = LookAhead::new(sampler(store), settings).expect("starts");
    (0..batches).for_each(|index| ahead.push(seeds(index), index));
    ahead.end();
    let made: Result<Vec<_>, SampleError> = ahead.by_ref().collect();
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
                let mut ahead = LookAhead::new(sampler(&store), plan).expect("starts");
                (0..batches).for_each(|index| ahead.push(seeds(index), index));
                ahead.end();
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
        let plan = BatchPlan {
            node_type: NODE,
            seeds: (0..batches).flat_map(seeds).collect(),
            batch_size: BATCH as usize,
            first_stream: 0,
            drop_last: false,
            prefetch: 2,
            threads: 2,
        };
        let made = BatchStream::new(sampler(&store), plan).expect("starts");
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
    let mut ahead = LookAhead::new(sampler(&store), settings(reading, window)).expect("starts");
    (0..60).for_each(|index| ahead.push(seeds(index), index));
    ahead.end();
    assert_eq!(ahead.by_ref().filter(Result::is_ok).count(), 60);
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
    let expected = expected(dir.path(), 12);
    for reading in LOOKING {
        let store = open(dir.path(), 24 << 20);
        let mut ahead = LookAhead::new(sampler(&store), settings(reading, None)).expect("starts");
        for (index, expected) in expected.iter().enumerate() {
            ahead.push(seeds(index as u64), index as u64);
            let batch = ahead.next().expect("one").expect("batch");
            assert!(batch == *expected);
        }
        ahead.end();
        assert!(ahead.next().is_none());
    }
}

#[test]
fn batches_that_are_sampled_first_are_the_same_stretch_after_stretch() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let expected = expected(dir.path(), 60);
    for (reading, memory) in
        [(Reading::Scan, 20), (Reading::Window, 20), (Reading::Distribute, 20), (Reading::Auto, 64)]
    {
        let store = open(dir.path(), memory << 20);
        let plan = Settings {
            two_phase: Some(true),
            spill_dir: Some(dir.path().into()),
            ..settings(reading, None)
        };
        let mut ahead = LookAhead::new(sampler(&store), plan).expect("starts");
        for (index, expected) in expected.iter().enumerate() {
            if index % 25 == 0 {
                let jobs = (index..60).take(25);
                jobs.for_each(|index| ahead.push(seeds(index as u64), index as u64));
            }
            let batch = ahead.next().expect("one").expect("batch");
            assert!(batch == *expected, "batch {index} {reading:?}");
        }
        assert!(ahead.chosen().is_some_and(|chosen| chosen.sampled_first.is_some()));
        ahead.end();
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
        let mut ahead = LookAhead::new(sampler(&store), plan).expect("starts");
        (0..20).for_each(|index| ahead.push(seeds(index), index));
        ahead.end();
        assert_eq!(ahead.by_ref().filter(Result::is_ok).count(), 20);
        ahead.chosen().expect("chosen").slot_bytes
    };
    let (one, two) = (slots(false), slots(true));
    assert!(two > one, "{two} {one}");
}

#[test]
fn a_stretch_that_was_sampled_first_fills_its_window_in_few_passes() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let bytes = |two_phase| {
        let store = open(dir.path(), 64 << 20);
        let plan = Settings { two_phase: Some(two_phase), ..settings(Reading::Scan, Some(24)) };
        let mut ahead = LookAhead::new(sampler(&store), plan).expect("starts");
        (0..48).for_each(|index| ahead.push(seeds(index), index));
        ahead.end();
        assert_eq!(ahead.by_ref().filter(Result::is_ok).count(), 48);
        store.stats().read_bytes
    };
    let (doubling, at_once) = (bytes(false), bytes(true));
    println!("{doubling} {at_once}");
    assert!(at_once < doubling * 3 / 5, "{at_once} of {doubling}");
}

#[test]
fn a_dropped_look_ahead_gives_all_memory_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let store = open(dir.path(), 24 << 20);
    for taken in 0..4 {
        let mut ahead =
            LookAhead::new(sampler(&store), settings(Reading::Scan, None)).expect("starts");
        (0..40).for_each(|index| ahead.push(seeds(index), index));
        for _ in 0..taken {
            ahead.next().expect("one").expect("batch");
        }
        drop(ahead);
    }
    while store.reclaim(u64::MAX) > 0 {}
    let fresh = open(dir.path(), 24 << 20);
    assert_eq!(store.budget().used_bytes(), fresh.budget().used_bytes());
}

#[test]
fn a_consumer_that_keeps_every_batch_is_told_so() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 64);
    let store = open(dir.path(), 24 << 20);
    let mut ahead = LookAhead::new(sampler(&store), settings(Reading::Scan, None)).expect("starts");
    (0..100).for_each(|index| ahead.push(seeds(index), index));
    ahead.end();
    let kept: Result<Vec<_>, _> = ahead.by_ref().collect();
    assert!(matches!(kept, Err(SampleError::Budget { .. })), "{kept:?}");
    assert!(store.budget().peak_bytes() <= 24 << 20);
}

#[test]
fn a_seed_out_of_range_is_named_and_memory_that_is_too_small_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 1500);
    let store = open(dir.path(), 64 << 20);
    let mut ahead = LookAhead::new(sampler(&store), settings(Reading::Scan, None)).expect("starts");
    ahead.push(vec![NODES], 0);
    let error = ahead.next().expect("an answer").expect_err("refused");
    assert!(error.to_string().contains("20000"), "{error}");
    let store = open(dir.path(), 12 << 20);
    let mut ahead =
        LookAhead::new(sampler(&store), settings(Reading::Window, None)).expect("starts");
    ahead.push(seeds(0), 0);
    ahead.end();
    let error = ahead.next().expect("an answer").expect_err("refused");
    assert!(error.to_string().contains("memory"), "{error}");
    assert!(run(&open(dir.path(), 96 << 20), settings(Reading::Window, None), 3).len() == 3);
}
