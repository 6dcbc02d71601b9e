//! The memory budget holds while batches are in flight, and a stream never stalls in silence.

use crate::common;
use crate::common::{Graph, PAPERS, features, open};
use ng_io::BackendChoice;
use ng_sample::{Fanouts, Jobs, Pipeline, SampleError, SampleSpec, Sampler, Way};
use ng_store::Store;
use ng_types::NodeTypeId;

fn stream(store: &Store, batch_size: u64, prefetch: usize) -> Pipeline {
    stream_of(store, &[10, 10], batch_size, prefetch)
}

fn stream_of(store: &Store, fanouts: &[i64], batch_size: u64, prefetch: usize) -> Pipeline {
    let spec = SampleSpec::uniform(
        Fanouts::uniform(fanouts, common::EDGE_TYPES.len()).expect("fanouts"),
        3,
    );
    let sampler = Sampler::new(store.snapshot(), spec, features()).expect("sampler");
    let jobs = Jobs::once(NodeTypeId(1), (0..PAPERS).collect(), batch_size);
    Pipeline::new(sampler, jobs, Way::Each { prefetch, threads: 3 }).expect("stream")
}

#[test]
fn the_peak_stays_below_the_limit_and_everything_is_given_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Graph::new(4).build(dir.path(), 4096);
    let store = open(dir.path(), 24 << 20, BackendChoice::Pread);
    let before = store.budget().used_bytes();
    for _ in 0..3 {
        for batch in stream(&store, 100, 8) {
            let batch = batch.expect("batch");
            assert!(batch.num_bytes() > 0);
            assert!(store.budget().used_bytes() >= before);
        }
    }
    assert!(store.budget().peak_bytes() <= 24 << 20);
}

#[test]
fn batches_in_preparation_make_room_for_the_one_that_is_due() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Graph::new(4).build(dir.path(), 4096);
    let whole = open(dir.path(), 256 << 20, BackendChoice::Pread);
    let expected: Vec<_> = stream_of(&whole, &[-1, -1], 30, 1).map(|b| b.expect("batch")).collect();
    // Sampling every neighbour takes several times the room of the finished batch: one fits, three
    // threads cannot all hold theirs.
    let memory = 20 << 20;
    let store = open(dir.path(), memory, BackendChoice::Pread);
    let mut count = 0;
    for (batch, expected) in stream_of(&store, &[-1, -1], 30, 8).zip(&expected) {
        assert!(&batch.expect("batch") == expected);
        count += 1;
    }
    assert_eq!(count, expected.len());
    assert!(store.budget().peak_bytes() <= memory);
}

#[test]
fn a_consumer_that_keeps_every_batch_is_told_so() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Graph::new(4).build(dir.path(), 4096);
    let store = open(dir.path(), 16 << 20, BackendChoice::Pread);
    let mut kept = Vec::new();
    let mut refused = None;
    // Each batch holds a few hundred KB, so the budget fills long before the seeds run out.
    for _ in 0..200 {
        for batch in stream(&store, 50, 4) {
            match batch {
                Ok(batch) => kept.push(batch),
                Err(error) => refused = Some(error),
            }
        }
        if refused.is_some() {
            break;
        }
    }
    let Some(SampleError::Budget { minimum_bytes, .. }) = refused else {
        panic!("{} batches kept, no refusal: {refused:?}", kept.len());
    };
    assert!(minimum_bytes > 16 << 20);
    drop(kept);
    assert!(stream(&store, 50, 4).all(|batch| batch.is_ok()), "works again after they are dropped");
}

#[test]
fn dropping_a_stream_midway_stops_its_threads() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Graph::new(4).build(dir.path(), 4096);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    for taken in 0..5 {
        let mut stream = stream(&store, 10, 8);
        for _ in 0..taken {
            stream.next().expect("one more").expect("batch");
        }
    }
}
