//! Caches and batches share one budget: caches give way, and never pass it.
#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::model::{Model, ModelEdges};
use common::seeded;
use ng_store::{Expansion, OpenOptions, Owner, ReadError, Store};
use ng_testing::MemDisk;
use ng_types::{EdgeTypeId, NodeTypeId};

const MEMORY: u64 = 16 << 20;

fn full_store() -> (Model, Store) {
    let mut random = seeded(8);
    let mut model = Model::new(&[20_000], 4096);
    model.tensor(Owner::Node(NodeTypeId(0)), 1024, &mut random);
    let options = OpenOptions {
        memory: Some(MEMORY),
        batch_timeout: Duration::from_millis(20),
        ..OpenOptions::default()
    };
    let store = Store::open_on(model.build(), &options).expect("opens");
    model.compare(&store.snapshot(), &mut random, 20_000);
    assert!(store.stats().row_cache_bytes > MEMORY / 4);
    (model, store)
}

#[test]
fn a_batch_takes_what_it_needs_from_the_caches_and_reading_goes_on() {
    let (model, store) = full_store();
    let batch = store.reserve_batch(MEMORY - (1 << 20)).expect("caches give way");
    assert!(store.stats().row_cache_bytes < 1 << 20);
    model.compare(&store.snapshot(), &mut seeded(1), 500);
    assert!(store.budget().peak_bytes() <= MEMORY);
    drop(batch);
    // After a while without shortage the row cache may grow again.
    for _ in 0..400 {
        drop(store.reserve_batch(1 << 20).expect("free"));
    }
    model.compare(&store.snapshot(), &mut seeded(2), 20_000);
    assert!(store.stats().row_cache_bytes > MEMORY / 4);
    assert!(store.budget().peak_bytes() <= MEMORY);
}

#[test]
fn a_batch_beyond_the_budget_is_refused_at_once_and_one_beyond_the_rest_after_a_while() {
    let (_, store) = full_store();
    let refused = |bytes| matches!(store.reserve_batch(bytes), Err(ReadError::Budget(_)));
    assert!(refused(MEMORY + 1));
    assert!(store.stats().row_cache_bytes > 0, "a hopeless batch must not empty the cache");
    let held = store.reserve_batch(MEMORY / 2).expect("fits");
    assert!(refused(MEMORY / 2 + 1));
    drop(held);
}

#[test]
fn many_threads_on_one_snapshot_get_right_answers_within_the_budget() {
    let (model, store) = full_store();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (model, store) = (&model, &store);
            scope.spawn(move || {
                let mut random = seeded(seed);
                for _ in 0..6 {
                    let batch = store.reserve_batch(3 << 20).expect("served in turn");
                    model.compare(&store.snapshot(), &mut random, 900);
                    drop(batch);
                    store.reclaim(1 << 20);
                }
            });
        }
    });
    assert!(store.budget().peak_bytes() <= MEMORY);
}

#[test]
fn a_log_of_more_changes_than_the_budget_holds_is_recovered_in_parts() {
    let mut random = seeded(9);
    let mut model = Model::new(&[9_000], 4096);
    model.tensor(Owner::Node(NodeTypeId(0)), 1024, &mut random);
    let (disk, tensor) = (model.build(), model.tensor_ref(0));
    let open = |disk: Arc<MemDisk>, memory| {
        let memory = Some(memory);
        let options = OpenOptions { memory, log_bytes_max: 1 << 40, ..OpenOptions::default() };
        Store::open_on(disk, &options).expect("opens")
    };
    let store = open(Arc::clone(&disk), 256 << 20);
    model.tensors[0].bytes.iter_mut().for_each(|byte| *byte = !*byte);
    for (first, bytes) in (0..).step_by(100).zip(model.tensors[0].bytes.chunks(100 * 1024)) {
        let rows: Vec<u64> = (first..first + 100).collect();
        let mut batch = store.write().expect("writes");
        batch.set_rows(tensor, &rows, bytes).expect("changes");
        batch.commit().expect("commits");
    }
    let before = store.snapshot().epoch();
    let crashed = MemDisk::from_image(disk.durable_image());
    let store = open(Arc::new(crashed), 4 << 20);
    model.compare(&store.snapshot(), &mut random, 1_000);
    // 9 MB of changed pages, of which it holds 2 MB at a time.
    assert!(store.snapshot().epoch().0 >= before.0 + 3, "{:?}", store.snapshot().epoch());
}

#[test]
fn memory_moves_to_the_cache_that_misses_it_and_back() {
    let memory = 8 << 20;
    let mut random = seeded(11);
    let mut model = Model::new(&[20_000], 4096);
    let degrees: Vec<(u64, usize)> = (0..20_000).map(|node| (node, 100)).collect();
    model.edges(ModelEdges::default(), &degrees, &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 1024, &mut random);
    let (store, tensor) = (model.open(memory), model.tensor_ref(0));
    let snapshot = store.snapshot();
    let reads = |work: &mut dyn FnMut()| {
        let before = store.stats().reads;
        work();
        store.stats().reads - before
    };
    let mut draw = |below: u64| -> Vec<u64> { (0..64).map(|_| random.below(below)).collect() };
    // Lists of 6,000 nodes: more than blocks have at the start, and what they may have at most.
    let mut expand = |batches: usize| {
        for _ in 0..batches {
            drop(store.reserve_batch(1 << 10).expect("free"));
            let nodes = draw(6_000);
            snapshot.neighbors(EdgeTypeId(0), &nodes, &mut Expansion::default()).expect("sound");
        }
    };
    // Nothing moves before the sixteenth batch.
    expand(9);
    let early = reads(&mut || expand(6));
    let blocks_early = store.stats().block_cache_bytes;
    expand(1_000);
    let late = reads(&mut || expand(6));
    let blocks_late = store.stats().block_cache_bytes;
    assert!(blocks_late > blocks_early * 3 / 2, "{blocks_early}, {blocks_late} bytes of blocks");
    assert!(late < early / 2, "{early}, {late} reads");
    let mut out = vec![0; 64 * 1024];
    let mut stats = store.stats();
    for batch in 0..40_000 {
        drop(store.reserve_batch(1 << 10).expect("free"));
        snapshot.gather(tensor, &draw(6_000), &mut out).expect("sound");
        stats = store.stats();
        if batch > 1_000 && stats.block_cache_bytes < blocks_late / 2 {
            break;
        }
    }
    assert!(
        stats.block_cache_bytes < blocks_late / 2,
        "{} bytes of blocks",
        stats.block_cache_bytes
    );
    assert!(stats.row_cache_bytes > 4_000_000, "{} bytes of rows", stats.row_cache_bytes);
    assert!(store.budget().peak_bytes() <= memory);
    model.compare(&snapshot, &mut seeded(3), 2_000);
}
