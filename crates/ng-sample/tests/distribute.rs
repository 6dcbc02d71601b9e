//! Rows that are distributed on disk make the very batches that sampling one by one makes, stretch
//! after stretch, within the memory, and nothing of them stays on disk.

#![allow(clippy::expect_used)]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::one_type::{self, Edges, Rows, number};
use ng_sample::{
    Fanouts, Jobs, MiniBatch, Pipeline, Reading, SampleError, SampleSpec, Sampler, Settings, Way,
};
use ng_store::{DiskCosts, Owner, Store, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODES: u64 = 20_000;
const BATCH: u64 = 50;
const BATCHES: u64 = 60;
const NODE: NodeTypeId = NodeTypeId(0);
const CHILD: &str = "NG_DISTRIBUTE_DISK_FULL_CHILD";

/// Nodes with rows of `width` elements and labels; edges with rows, two edges to a row.
fn build(dir: &Path, dtype: Dtype, width: u64) {
    let list = |destination| {
        let source = |at: u64| number(2, destination * 16 + at) % NODES;
        (0..number(1, destination) % 12).map(source).collect()
    };
    // Never all ones in the exponent of a number: what is no number has many faces.
    let bytes = |row, len| one_type::bytes(row, len).iter().map(|byte| byte & 0x3f).collect();
    let tensors = [
        Rows { bytes, ..Rows::new("x", dtype, &[width]) },
        Rows { bytes, ..Rows::new("y", Dtype::I64, &[]) },
        Rows { bytes, of_edges: true, ..Rows::new("z", Dtype::F32, &[40]) },
    ];
    one_type::build(dir, NODES, Edges::Ids(2), &list, &tensors);
}

fn open(dir: &Path, memory: u64) -> Store {
    one_type::open(dir, memory << 20)
}

fn sampler(store: &Store) -> Sampler {
    let spec = SampleSpec::uniform(Fanouts::uniform(&[6, 4], 1).expect("fanouts"), 11);
    let tensor = |owner, index| TensorRef { owner, index };
    let (node, edge) = (Owner::Node(NODE), Owner::Edge(EdgeTypeId(0)));
    let tensors = vec![tensor(node, 0), tensor(edge, 0), tensor(node, 1)];
    Sampler::new(store.snapshot(), spec, tensors).expect("sampler")
}

fn settings(spill_dir: &Path) -> Settings {
    Settings {
        reading: Reading::Distribute,
        prefetch: Some(2),
        threads: Some(2),
        costs: Some(DiskCosts::default()),
        spill_dir: Some(spill_dir.into()),
        ..Settings::default()
    }
}

/// Seeds of batch `index`; the first of them stands twice, and the last batch is short.
fn seeds(index: u64) -> Vec<u64> {
    let count = if index + 1 == BATCHES { 3 } else { BATCH };
    let mut seeds: Vec<u64> = (0..count).map(|i| number(5, index * BATCH + i) % NODES).collect();
    seeds[2] = seeds[0];
    seeds
}

fn jobs(batches: u64) -> Jobs {
    common::jobs(NODE, batches, seeds)
}

fn start_with(sampler: Sampler, settings: Settings, jobs: Jobs) -> Pipeline {
    Pipeline::new(sampler, jobs, Way::Ahead(settings)).expect("starts")
}

fn start(store: &Store, settings: Settings) -> Pipeline {
    start_with(sampler(store), settings, jobs(BATCHES))
}

fn expected(dir: &Path) -> Vec<MiniBatch> {
    let store = open(dir, 1024);
    let sampler = sampler(&store);
    (0..BATCHES).map(|i| sampler.sample(&[(NODE, &seeds(i))], i).expect("batch")).collect()
}

/// Runs all batches; bytes that were read from the store.
fn check(dir: &Path, expected: &[MiniBatch], memory: u64, window: Option<u64>) -> u64 {
    let store = open(dir, memory);
    let scratch = tempfile::tempdir().expect("temporary directory");
    let mut ahead = start(&store, Settings { window, ..settings(scratch.path()) });
    for (index, expected) in expected.iter().enumerate() {
        let batch = ahead.next().expect("one").expect("batch");
        assert!(batch == *expected, "batch {index}, {memory} MiB, window {window:?}");
    }
    assert!(ahead.next().is_none());
    let chosen = ahead.chosen().expect("chosen").clone();
    println!("{memory} {window:?} {chosen:?} {:?}", store.stats());
    assert_eq!(chosen.reading, Reading::Distribute);
    assert!(chosen.sampled_first.is_some() && chosen.window <= window.unwrap_or(250));
    let peak = store.budget().peak_bytes();
    assert!(peak <= memory << 20, "{peak} of {memory} MiB");
    drop(ahead);
    assert_eq!(scratch.path().read_dir().expect("directory").count(), 0);
    // What was written for a while was read back once.
    store.stats().read_bytes - store.stats().scratch_write_bytes
}

#[test]
fn rows_of_every_width_arrive_whole_in_every_stretch() {
    for (dtype, width, memory) in
        [(Dtype::F32, 1500, 91), (Dtype::F32, 64, 41), (Dtype::F16, 200, 43)]
    {
        let dir = tempfile::tempdir().expect("temporary directory");
        build(dir.path(), dtype, width);
        let expected = expected(dir.path());
        for window in [None, Some(25), Some(7), Some(1)] {
            check(dir.path(), &expected, memory, window);
        }
        check(dir.path(), &expected, 400, None);
    }
}

#[test]
fn a_stretch_reads_the_file_once_and_longer_ones_read_less() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), Dtype::F32, 1500);
    let expected = expected(dir.path());
    let read = |window| check(dir.path(), &expected, 91, window);
    let file = NODES * 6000;
    let (long, middle, short) = (read(Some(60)), read(Some(20)), read(Some(5)));
    assert!(long < file * 3 / 2 && middle < file * 4, "{long} {middle} of {file}");
    assert!(long < middle && middle < short, "{long}, {middle}, {short}");
}

#[test]
fn rows_that_memory_does_not_hold_are_written_as_planned() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), Dtype::F32, 1500);
    let written = |memory| {
        let store = open(dir.path(), memory);
        let mut ahead = start(&store, settings(dir.path()));
        ahead.next().expect("one").expect("batch");
        let planned = ahead.chosen().expect("chosen").write_bytes;
        let written = store.stats().scratch_write_bytes;
        assert!(written as f64 >= planned, "{written}, planned {planned}");
        planned
    };
    let (small, large) = (written(88), written(400));
    assert!(small > 1e6 && large == 0.0, "{small} {large}");
}

#[test]
fn jobs_that_come_late_are_distributed_all_the_same() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), Dtype::F32, 200);
    let expected = expected(dir.path());
    let store = open(dir.path(), 34);
    // More become known when the consumer takes one, so stretches have one batch, two, three.
    for window in [1, 2, 3, 5, 8] {
        let plan = Settings { window: Some(window), ..settings(dir.path()) };
        let mut ahead = start(&store, plan);
        for (index, expected) in expected.iter().enumerate() {
            std::thread::sleep(Duration::from_millis(index as u64 * window % 5));
            let batch = ahead.next().expect("one").expect("batch");
            assert!(batch == *expected, "batch {index}, window {window}");
        }
        assert!(ahead.next().is_none());
    }
    // All that will ever come, from one batch on, which is the short one.
    for count in [1, 2, 3, 10] {
        let left = Jobs { first: (0, BATCHES - count), ..jobs(BATCHES) };
        let made = start_with(sampler(&store), settings(dir.path()), left);
        let made: Result<Vec<_>, _> = made.collect();
        assert!(made.expect("batches") == expected[(BATCHES - count) as usize..], "{count}");
    }
}

#[test]
fn more_batches_than_a_stretch_may_have_are_made_in_several() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), Dtype::F32, 200);
    let plain = open(dir.path(), 1024);
    let plain = sampler(&plain);
    // Nine epochs: of endless ones, with a short batch in the middle of stretches; and as one.
    let whole =
        |batch| if batch < 9 * BATCHES - 1 { seeds(batch % (BATCHES - 1)) } else { vec![7] };
    for jobs in [Jobs { goes_on: true, ..jobs(BATCHES) }, common::jobs(NODE, 9 * BATCHES, whole)] {
        let store = open(dir.path(), 48);
        let how = Settings { window: Some(250), ..settings(dir.path()) };
        let mut ahead = start_with(sampler(&store), how, jobs.clone());
        for index in 0..9 * BATCHES {
            let batch = ahead.next().expect("one").expect("batch");
            let seeds = if jobs.goes_on { seeds(index % BATCHES) } else { whole(index) };
            let expected = plain.sample(&[(NODE, &seeds)], index).expect("plain");
            assert!(batch == expected, "batch {index}");
        }
        assert!(jobs.goes_on || ahead.next().is_none());
        // 540 batches are three equal stretches.
        let window = if jobs.goes_on { 250 } else { 180 };
        assert!(ahead.chosen().is_some_and(|chosen| chosen.window == window));
        drop(ahead);
        assert!(store.budget().peak_bytes() <= 48 << 20);
    }
}

#[test]
fn a_run_that_has_started_ends_whatever_the_memory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    // The topology takes about as much as the batches that are finished.
    one_type::build(
        dir.path(),
        NODES,
        Edges::Nothing,
        &|destination| (0..400).map(|at| number(2, destination * 512 + at) % NODES).collect(),
        &[Rows::new("x", Dtype::F32, &[500])],
    );
    let tensors = || vec![TensorRef { owner: Owner::Node(NODE), index: 0 }];
    let spec = || SampleSpec::uniform(Fanouts::uniform(&[6, 4], 1).expect("fanouts"), 11);
    let sampler =
        |store: &Store| Sampler::new(store.snapshot(), spec(), tensors()).expect("sampler");
    let plain = open(dir.path(), 1024);
    let expected: Vec<MiniBatch> = {
        let sampler = sampler(&plain);
        (0..40).map(|i| sampler.sample(&[(NODE, &seeds(i))], i).expect("batch")).collect()
    };
    let mut refused = 0;
    for memory in (33..60).step_by(3) {
        let store = open(dir.path(), memory);
        let settings = Settings { window: Some(10), ..settings(dir.path()) };
        let mut ahead = start_with(sampler(&store), settings, jobs(40));
        for (index, expected) in expected.iter().enumerate() {
            match ahead.next().expect("one") {
                Ok(batch) => assert!(batch == *expected, "batch {index}, {memory} MiB"),
                Err(error) if index == 0 => {
                    println!("{memory} MiB: {error}");
                    refused += 1;
                    break;
                }
                Err(error) => panic!("batch {index}, {memory} MiB: {error}"),
            }
        }
    }
    assert!((1..5).contains(&refused), "{refused}");
}

#[test]
fn a_distribution_that_is_dropped_or_fails_gives_memory_and_disk_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), Dtype::F32, 1500);
    let scratch = tempfile::tempdir().expect("temporary directory");
    let store = open(dir.path(), 88);
    for taken in [0, 1, 30] {
        let mut ahead = start(&store, Settings { window: Some(25), ..settings(scratch.path()) });
        for _ in 0..taken {
            ahead.next().expect("one").expect("batch");
        }
        drop(ahead);
    }
    let wrong = common::jobs(NODE, 4, |batch| if batch < 3 { seeds(batch) } else { vec![NODES] });
    let mut ahead = start_with(sampler(&store), settings(scratch.path()), wrong);
    let error = ahead.next().expect("an answer").expect_err("refused");
    assert!(error.to_string().contains("20000"), "{error}");
    drop(ahead);
    assert_eq!(scratch.path().read_dir().expect("directory").count(), 0);
    while store.reclaim(u64::MAX) > 0 {}
    let fresh = open(dir.path(), 88);
    while fresh.reclaim(u64::MAX) > 0 {}
    assert_eq!(store.budget().used_bytes(), fresh.budget().used_bytes());
}

#[test]
fn writing_to_disk_can_be_forbidden_and_memory_that_is_too_small_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), Dtype::F32, 1500);
    let store = open(dir.path(), 88);
    let forbidden = Settings { two_phase: Some(false), ..settings(dir.path()) };
    let refused = Pipeline::new(sampler(&store), jobs(BATCHES), Way::Ahead(forbidden)).err();
    assert!(refused.is_some_and(|error| error.to_string().contains("which the settings forbid")));
    let store = open(dir.path(), 12);
    let error = start(&store, settings(dir.path())).next().expect("an answer").expect_err("small");
    assert!(error.to_string().contains("memory"), "{error}");
}

#[test]
fn auto_distributes_where_that_is_cheaper_by_far_and_there_is_room_on_disk() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), Dtype::F32, 1500);
    // A disk whose random reads are dear.
    let costs = Some(DiskCosts { reads_per_s: 2e3, bytes_per_s: 1e9 });
    let chosen = |two_phase, spill_bytes, temporary_writes| {
        let store = open(dir.path(), 92);
        let plan = settings(dir.path());
        let plan = Settings { costs, two_phase, spill_bytes, temporary_writes, ..plan };
        let plan = Settings { reading: Reading::Auto, ..plan };
        let mut ahead = start(&store, plan);
        ahead.next().expect("one").expect("batch");
        let chosen = ahead.choose_within(Duration::from_secs(60));
        let chosen = chosen.expect("no error").expect("chosen").clone();
        println!("{chosen:?}");
        chosen.reading
    };
    assert_eq!(chosen(None, Some(1 << 30), Some(9.0)), Reading::Distribute);
    assert_ne!(chosen(Some(false), Some(1 << 30), Some(9.0)), Reading::Distribute);
    assert_ne!(chosen(None, Some(1 << 20), Some(9.0)), Reading::Distribute);
    // An epoch writes more than the bytes of the tensors, which has to be asked for.
    assert_ne!(chosen(None, Some(1 << 30), None), Reading::Distribute);
    assert_ne!(chosen(None, Some(1 << 30), Some(0.0)), Reading::Distribute);
}

/// Run in a mount namespace by the test below; does nothing otherwise.
#[test]
fn child_on_a_small_disk() {
    let Ok(small) = std::env::var(CHILD) else { return };
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), Dtype::F32, 1500);
    let store = open(dir.path(), 88);
    let plan = Settings { spill_bytes: Some(1 << 30), ..settings(Path::new(&small)) };
    let failure = start(&store, plan).find_map(Result::err).expect("an error");
    assert!(matches!(failure, SampleError::Spill(_)), "{failure}");
    println!("{failure}");
    assert_eq!(Path::new(&small).read_dir().expect("directory").count(), 0);
}

#[test]
fn a_full_disk_is_named() {
    let small = tempfile::tempdir().expect("temporary directory");
    let script = format!(
        "mount -t tmpfs -o size=9m none {0} && \
         exec {1:?} --exact child_on_a_small_disk --nocapture",
        small.path().display(),
        std::env::current_exe().expect("this program"),
    );
    let probe = Command::new("unshare").args(["-rm", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: mount namespaces are not allowed here");
        return;
    }
    let mut child = Command::new("unshare");
    child.args(["-rm", "sh", "-c", &script]);
    let child = child.env(CHILD, small.path()).output().expect("child");
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{text}{}", String::from_utf8_lossy(&child.stderr));
    assert!(text.contains("no space left"), "{text}");
}
