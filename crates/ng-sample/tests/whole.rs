//! What fits is held in memory, topology and rows: read once, given back to whoever lacks memory,
//! and always what the snapshot has.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::one_type::{self, Edges, Rows, bytes, number, open, skewed_list};
use ng_io::BackendChoice;
use ng_sample::{Fanouts, Jobs, MiniBatch, Pipeline, SampleSpec, Sampler, SeedPlan, Way};
use ng_store::{OpenError, OpenOptions, Owner, ReadError, Snapshot, Store, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODES: u64 = 20_000;
const NODE: NodeTypeId = NodeTypeId(0);
const TO: EdgeTypeId = EdgeTypeId(0);
/// Rows of 256 f32; rows as they are converted; narrow, odd and wide ones; rows of edges.
const TENSORS: [TensorRef; 8] = [of(0), of(1), of(2), of(3), of(4), of(5), of(6), OF_EDGES];
const OF_EDGES: TensorRef = TensorRef { owner: Owner::Edge(TO), index: 0 };

const fn of(index: u16) -> TensorRef {
    TensorRef { owner: Owner::Node(NODE), index }
}

/// Bytes of small halves: no NaN among them.
fn halves(row: u64, len: u64) -> Vec<u8> {
    bytes(row, len).iter().map(|byte| byte & 0x3f).collect()
}

fn build() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary directory");
    let scales: Vec<f32> = (1..=300).map(|column| column as f32 / 64.0).collect();
    let tensors = [
        Rows { bytes: halves, ..Rows::new("x", Dtype::F32, &[256]) },
        Rows { bytes: halves, ..Rows::new("f16", Dtype::F16, &[300]) },
        Rows { bytes: halves, ..Rows::new("bf16", Dtype::Bf16, &[200]) },
        Rows { scales, ..Rows::new("i8", Dtype::I8, &[300]) },
        Rows::new("y", Dtype::I64, &[]),
        Rows::new("odd", Dtype::U8, &[1433]),
        Rows::new("wide", Dtype::U8, &[5732]),
        Rows { of_edges: true, ..Rows::new("z", Dtype::I32, &[3]) },
    ];
    one_type::build(dir.path(), NODES, Edges::All, &skewed_list(NODES), &tensors);
    dir
}

fn sampler(snapshot: &Arc<Snapshot>) -> Sampler {
    let spec = SampleSpec::uniform(Fanouts::uniform(&[6, 4], 1).expect("fanouts"), 11);
    Sampler::new(Arc::clone(snapshot), spec, TENSORS.to_vec()).expect("sampler")
}

fn sample(snapshot: &Arc<Snapshot>, batch: u64) -> MiniBatch {
    sample_with(&sampler(snapshot), batch)
}

fn sample_with(sampler: &Sampler, batch: u64) -> MiniBatch {
    let seeds: Vec<u64> = (0..50).map(|i| number(5, batch * 50 + i) % NODES).collect();
    sampler.sample(&[(NODE, &seeds)], batch).expect("batch")
}

fn wait_until(found: impl Fn() -> bool) {
    let start = Instant::now();
    while !found() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn hold(snapshot: &Snapshot) {
    assert!(snapshot.hold(&[TO], &TENSORS, 0));
    wait_until(|| snapshot.holds(&[TO], &TENSORS));
}

fn file_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("directory");
    let lens = files.map(|file| file.expect("file").metadata().expect("metadata").len());
    lens.sum()
}

/// A store that is held whole, without a file system's page size in the way.
fn open_in_memory(dir: &Path, memory: u64) -> Result<Store, OpenError> {
    let backend = BackendChoice::Memory;
    let options = OpenOptions { memory: Some(memory), backend, ..OpenOptions::default() };
    Store::open(dir, &options)
}

#[test]
fn each_byte_is_read_once_and_batches_read_nothing_after_that() {
    let dir = build();
    let plain = open(dir.path(), 512 << 20);
    let expected: Vec<MiniBatch> = (0..12).map(|at| sample(&plain.snapshot(), at)).collect();
    let held = open(dir.path(), 512 << 20);
    hold(&held.snapshot());
    let whole = open_in_memory(dir.path(), 512 << 20).expect("fits");
    wait_until(|| whole.snapshot().holds(&[TO], &TENSORS));
    assert_eq!(whole.backend(), "memory");
    for store in [held, whole] {
        let read = store.stats().read_bytes;
        let all = file_bytes(dir.path());
        assert!((all * 9 / 10..all / 50 * 51).contains(&read), "{read} bytes of {all}");
        // Scales are read with it.
        let sampler = sampler(&store.snapshot());
        store.reset_stats();
        for (at, expected) in (0..).zip(&expected) {
            assert!(sample_with(&sampler, at) == *expected, "batch {at}");
        }
        let stats = store.stats();
        assert_eq!((stats.reads, stats.row_cache_bytes), (0, 0));
        assert_eq!(stats.rows_cached, stats.rows_served);
        assert!(store.budget().peak_bytes() <= store.budget().limit_bytes());
    }
}

#[test]
fn a_loader_holds_what_fits_where_its_epoch_reads_as_much_and_else_does_not() {
    let dir = build();
    for (steps, holds) in [(3, false), (4000, true)] {
        let store = open(dir.path(), 512 << 20);
        let seeds = (0..50 * steps).map(|i| number(5, i) % NODES).collect();
        let jobs = Jobs::once(NODE, seeds, 50);
        let jobs = Jobs { plan: SeedPlan { shuffle: true, seed: 3, ..jobs.plan }, ..jobs };
        let expected: Vec<(Vec<u64>, u64)> = (0..3)
            .map(|at| jobs.job(at))
            .map(|job| (job.nodes().expect("nodes").to_vec(), job.stream))
            .collect();
        let snapshot = store.snapshot();
        let way = Way::Each { prefetch: 2, threads: 2 };
        let mut made = Pipeline::new(sampler(&snapshot), jobs, way).expect("starts");
        let plain = open(dir.path(), 512 << 20).snapshot();
        for (seeds, stream) in expected {
            let batch = sampler(&plain).sample(&[(NODE, &seeds)], stream).expect("batch");
            assert!(made.next().expect("one more").expect("batch") == batch);
        }
        if holds {
            wait_until(|| snapshot.holds(&[TO], &TENSORS));
        } else {
            // Of the others little enough was to be read.
            assert!([of(0), of(6)].iter().all(|wide| !snapshot.holds(&[], &[*wide])));
        }
        drop(made);
        assert!(store.budget().peak_bytes() <= store.budget().limit_bytes());
    }
}

#[test]
fn what_is_held_is_given_back_when_others_lack_the_memory() {
    let dir = build();
    let store = open(dir.path(), 512 << 20);
    let snapshot = store.snapshot();
    let expected = sample(&snapshot, 0);
    hold(&snapshot);
    let held = |store: &Store| {
        let all = store.stats().memory;
        all.iter().find(|m| m.user.name() == "resident").and_then(|m| m.held_bytes)
    };
    assert!(held(&store).is_some_and(|bytes| bytes > 100 << 20), "{:?}", held(&store));
    let wanted = snapshot.reserve(snapshot.free_beside_blocks(0)).expect("it counts as free");
    assert_eq!(held(&store), Some(0));
    drop(wanted);
    assert!(sample(&snapshot, 0) == expected);
    // Nothing else is held that would be in the way.
    hold(&snapshot);
    assert!(sample(&snapshot, 0) == expected);
}

#[test]
fn too_little_memory_for_all_is_an_error_that_says_how_much_would_do() {
    let dir = build();
    let refused = open_in_memory(dir.path(), 64 << 20).err().expect("too small");
    let OpenError::BudgetTooSmall { minimum_bytes, .. } = refused else { panic!("{refused}") };
    assert!(!open(dir.path(), 64 << 20).snapshot().hold(&[TO], &TENSORS, 0));
    let store = open_in_memory(dir.path(), minimum_bytes).expect("what it says does");
    wait_until(|| store.snapshot().holds(&[TO], &TENSORS));
}

#[test]
fn a_snapshot_sees_exactly_its_rows_whatever_is_held() {
    let dir = build();
    let store = open(dir.path(), 512 << 20);
    let before = store.snapshot();
    hold(&before);
    let row = |snapshot: &Snapshot, tensor, id| {
        let len = snapshot.catalog().tensor(tensor).expect("tensor").row_bytes() as usize;
        let mut out = vec![0; len];
        snapshot.gather(tensor, &[id], &mut out).expect("row");
        out
    };
    let change = |id: u64, value: u8| {
        let mut batch = store.write().expect("batch");
        for tensor in [of(0), of(4), of(6)] {
            let len = before.catalog().tensor(tensor).expect("tensor").row_bytes() as usize;
            batch.set_row(tensor, id, &vec![value; len]).expect("set");
        }
        batch.commit().expect("committed");
    };
    let has = |snapshot: &Snapshot, id, value: u8| {
        [of(0), of(4), of(6)].iter().all(|t| row(snapshot, *t, id).iter().all(|b| *b == value))
    };
    change(7, 1);
    let first = store.snapshot();
    assert!(has(&first, 7, 1) && !has(&before, 7, 1));
    store.checkpoint().expect("written");
    let second = store.snapshot();
    assert!(has(&second, 7, 1) && has(&first, 7, 1) && !has(&before, 7, 1));
    hold(&second);
    change(7, 2);
    change(8, 3);
    let third = store.snapshot();
    assert!(has(&third, 7, 2) && has(&third, 8, 3));
    assert!(has(&second, 7, 1) && has(&first, 7, 1) && !has(&before, 7, 1));
    assert!(row(&third, of(0), 9) == row(&before, of(0), 9));
    // Batches convert rows on another path.
    let plain = |snapshot: &Arc<Snapshot>| {
        let batch = sample(snapshot, 1);
        (batch.columns, batch.nodes)
    };
    let held = plain(&third);
    assert!(third.reserve(third.free_beside_blocks(0)).is_ok());
    assert!(plain(&third) == held);
}

#[test]
fn damage_that_loading_meets_is_told_to_whoever_reads_it_and_to_nobody_else() {
    let dir = build();
    let files = std::fs::read_dir(dir.path()).expect("directory");
    let mut paths = files.map(|file| file.expect("file").path());
    let is_x =
        |path: &std::path::PathBuf| path.metadata().is_ok_and(|data| data.len() == NODES * 1024);
    let path = paths.find(is_x).expect("the file of x");
    let mut content = std::fs::read(&path).expect("read");
    content[5 * 4096 + 9] ^= 1;
    std::fs::write(&path, content).expect("written");
    let store = open(dir.path(), 512 << 20);
    let snapshot = store.snapshot();
    assert!(snapshot.hold(&[TO], &TENSORS, 0));
    let others: Vec<TensorRef> = TENSORS.into_iter().skip(1).collect();
    wait_until(|| snapshot.holds(&[TO], &others));
    let mut out = vec![0; 1024];
    assert!(snapshot.gather(of(0), &[3], &mut out).is_ok());
    let error = snapshot.gather(of(0), &[20], &mut out).expect_err("damaged");
    assert!(matches!(error, ReadError::Checksum { block: 5, .. }), "{error}");
    assert!(!snapshot.holds(&[], &[of(0)]));
}
