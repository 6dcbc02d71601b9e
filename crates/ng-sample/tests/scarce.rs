//! Where samples have all the memory that is left, looking ahead goes on with those that there
//! are, or ends with an error. It does not wait for ever.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crate::common;
use crate::common::one_type::{self, Edges, Rows, number, open};
use ng_sample::{
    Fanouts, Jobs, Pipeline, Reading, SampleError, SampleSpec, Sampler, Settings, Way,
};
use ng_store::{Owner, Store, TensorRef};
use ng_types::{Dtype, NodeTypeId, Reservation};

const NODES: u64 = 20_000;
const NODE: NodeTypeId = NodeTypeId(0);
const BATCH: u64 = 50;
const BATCHES: u64 = 500;
const MEMORY: u64 = 24 << 20;

/// Nodes before this one have short lists.
const SHORT: u64 = 1_000;

/// Lists of 20 sources, which the long ones repeat: batches with as many rows and more edges.
fn build(dir: &Path, long: u64) {
    let list = |node: u64| -> Vec<u64> {
        let entries = if node < SHORT { 20 } else { long };
        (0..entries).map(|at| at % 20 * 997 + node % 20).collect()
    };
    let x = Rows::new("x", Dtype::F32, &[512]);
    one_type::build(dir, NODES, Edges::Nothing, &list, &[x]);
}

/// Short lists first.
fn seeds(batch: u64) -> Vec<u64> {
    let draw = |at| number(7, batch * BATCH + at);
    let node = |at| if batch < 12 { draw(at) % SHORT } else { SHORT + draw(at) % (NODES - SHORT) };
    (0..BATCH).map(node).collect()
}

fn jobs() -> Jobs {
    common::jobs(NODE, BATCHES, seeds)
}

fn sampler(store: &Store) -> Sampler {
    let spec = SampleSpec::uniform(Fanouts::uniform(&[-1], 1).expect("fanouts"), 11);
    let x = TensorRef { owner: Owner::Node(NODE), index: 0 };
    Sampler::new(store.snapshot(), spec, vec![x]).expect("sampler")
}

fn start(store: &Store, reading: Reading) -> Pipeline {
    let settings = Settings { reading, threads: Some(2), ..Settings::default() };
    Pipeline::new(sampler(store), jobs(), Way::Ahead(settings)).expect("starts")
}

/// What `work` gives; a panic if it waits for ever.
fn in_time<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (told, tell) = mpsc::channel();
    std::thread::spawn(move || told.send(work()));
    tell.recv_timeout(Duration::from_secs(120)).expect("an end")
}

/// All batches are those that are sampled one by one.
fn check_all(path: &Path, reading: Reading) {
    let whole = open(path, 512 << 20);
    let (plain, store) = (sampler(&whole), open(path, MEMORY));
    let mut ahead = start(&store, reading);
    for index in 0..BATCHES {
        let batch = ahead.next().expect("one").expect("batch");
        let expected = plain.sample(&[(NODE, &seeds(index))], index).expect("batch");
        assert!(batch == expected, "batch {index}, {reading:?}");
    }
    assert!(ahead.next().is_none());
    assert!(store.budget().peak_bytes() <= MEMORY);
}

#[test]
fn samples_that_outgrow_the_first_ones_shorten_the_window() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 400);
    for reading in [Reading::Scan, Reading::Window, Reading::Auto, Reading::Distribute] {
        let path = dir.path().to_owned();
        in_time(move || check_all(&path, reading));
    }
}

#[test]
fn a_thread_that_rests_gives_way_to_one_that_waits_for_memory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    // One thread has room for what it works with, two have not.
    build(dir.path(), 1_200);
    let path = dir.path().to_owned();
    in_time(move || check_all(&path, Reading::Scan));
}

#[test]
fn memory_that_others_keep_is_an_error() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path(), 400);
    let path = dir.path().to_owned();
    let error = in_time(move || {
        let store = open(&path, MEMORY);
        let mut ahead = start(&store, Reading::Scan);
        ahead.next().expect("one").expect("batch");
        let mut taken: Vec<Reservation> = Vec::new();
        loop {
            // All that is free, again and again.
            for bytes in [1 << 20, 1 << 12, 1 << 6] {
                while let Ok(more) = store.snapshot().reserve(bytes) {
                    taken.push(more);
                }
            }
            if let Err(error) = ahead.next().expect("one") {
                break error;
            }
        }
    });
    assert!(matches!(error, SampleError::Budget { .. }), "{error}");
}
