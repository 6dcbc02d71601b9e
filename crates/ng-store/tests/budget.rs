//! Caches and transactions share one budget: caches give way, and never pass it.
#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::model::{Model, ModelEdges};
use common::seeded;
use ng_store::{
    Expansion, OpenOptions, Owner, ReadError, Store, Transaction, UpdateError, UpdateStats,
};
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
    let tx = store.reserve_batch(MEMORY - (1 << 20)).expect("caches give way");
    assert!(store.stats().row_cache_bytes < 1 << 20);
    model.compare(&store.snapshot(), &mut seeded(1), 500);
    assert!(store.budget().peak_bytes() <= MEMORY);
    drop(tx);
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
    assert!(store.stats().row_cache_bytes > 0, "a hopeless transaction must not empty the cache");
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
                    let tx = store.reserve_batch(3 << 20).expect("served in turn");
                    model.compare(&store.snapshot(), &mut random, 900);
                    drop(tx);
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
        let mut tx = store.write().expect("writes");
        tx.set_rows(tensor, &rows, bytes).expect("changes");
        tx.commit().expect("commits");
    }
    let before = store.snapshot().checkpoint_id();
    let crashed = MemDisk::from_image(disk.durable_image());
    let store = open(Arc::new(crashed), 4 << 20);
    model.compare(&store.snapshot(), &mut random, 1_000);
    // 9 MB of changed pages, of which it holds 2 MB at a time.
    assert!(
        store.snapshot().checkpoint_id().0 >= before.0 + 3,
        "{:?}",
        store.snapshot().checkpoint_id()
    );
}

/// Changes rows in transactions, each of which ends with an operation that needs an answer or not,
/// with a budget that holds a few of them.
fn change_in_batches(rows_together: u64, transactions: u64, needs_answers: bool) -> UpdateStats {
    let memory = 6 << 20;
    let mut random = seeded(10);
    let mut model = Model::new(&[9_000], 4096);
    let edges = ModelEdges { has_edge_ids: true, ..ModelEdges::default() };
    model.edges(edges, &[(5, 8_000)], &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 4096, &mut random);
    let (disk, tensor) = (model.build(), model.tensor_ref(0));
    let options = OpenOptions { memory: Some(memory), ..OpenOptions::default() };
    let store = Store::open_on(disk.clone(), &options).expect("opens");
    for number in 0..transactions {
        let rows: Vec<u64> =
            (0..rows_together).map(|row| (number * rows_together + row) % 9_000).collect();
        let mut bytes = Vec::new();
        for row in &rows {
            let at = *row as usize * 4096;
            let row = &mut model.tensors[0].bytes[at..at + 4096];
            row.copy_from_slice(&random.bytes(4096));
            bytes.extend_from_slice(row);
        }
        let mut tx = store.write().expect("writes");
        if needs_answers {
            tx.delete_edge(EdgeTypeId(0), 7, 6, None).expect_err("there is none");
        }
        for (row, bytes) in rows.iter().zip(bytes.chunks(4096)) {
            tx.set_row(tensor, *row, bytes).expect("a checkpoint makes room");
        }
        tx.commit().expect("a checkpoint makes room");
        assert_eq!(store.snapshot().lsn(), number + 1);
    }
    assert!(store.budget().peak_bytes() <= memory);
    model.compare(&store.snapshot(), &mut random, 300);
    let stats = store.update_stats().expect("it writes");
    drop(store);
    let store = Store::open_on(disk, &options).expect("opens");
    model.compare(&store.snapshot(), &mut random, 300);
    stats
}

#[test]
fn many_small_batches_fit_in_a_small_budget_since_a_checkpoint_makes_room() {
    for (rows_together, transactions) in [(1, 3_000), (90, 40), (260, 20), (300, 12)] {
        for needs_answers in [false, true] {
            let stats = change_in_batches(rows_together, transactions, needs_answers);
            println!("{rows_together} rows, {needs_answers}: {} checkpoints", stats.checkpoints);
        }
    }
}

#[test]
fn batches_of_many_threads_make_room_for_each_other() {
    let mut random = seeded(12);
    let mut model = Model::new(&[9_000], 4096);
    model.tensor(Owner::Node(NodeTypeId(0)), 4096, &mut random);
    let (disk, tensor) = (model.build(), model.tensor_ref(0));
    let options = OpenOptions { memory: Some(6 << 20), ..OpenOptions::default() };
    let store = Store::open_on(disk, &options).expect("opens");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..12 {
                    let rows = (0..200).map(|row| (thread * 12 + number) * 180 + row);
                    let mut tx = store.write().expect("writes");
                    for row in rows {
                        tx.set_row(tensor, row, &[thread as u8; 4096]).expect("room is made");
                    }
                    tx.commit().expect("room is made");
                }
            });
        }
    });
    assert_eq!(store.snapshot().lsn(), 48);
    assert!(store.budget().peak_bytes() <= 6 << 20);
}

#[test]
fn a_batch_that_does_not_fit_by_itself_is_refused_with_a_minimum_and_leaves_the_store_usable() {
    let mut random = seeded(10);
    let mut model = Model::new(&[9_000], 4096);
    model.edges(ModelEdges::default(), &[(5, 3)], &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 4096, &mut random);
    let (disk, tensor) = (model.build(), model.tensor_ref(0));
    let options = OpenOptions { memory: Some(6 << 20), ..OpenOptions::default() };
    let store = Store::open_on(disk, &options).expect("opens");
    let mut small = store.write().expect("writes");
    small.set_row(tensor, 0, &[1; 4096]).expect("fits");
    small.commit().expect("fits");
    let mut tx = store.write().expect("writes");
    let set = |tx: &mut Transaction, row| tx.set_row(tensor, row, &[2; 4096]);
    let refused = (0..9_000).find_map(|row| set(&mut tx, row).err()).expect("36 MB");
    let UpdateError::Read(refused) = refused else { panic!("{refused}") };
    let ReadError::Budget(refused) = *refused else { panic!("{refused}") };
    let minimum = refused.limit_bytes + refused.wanted_bytes - refused.free_bytes;
    assert!(minimum > 6 << 20, "{refused}");
    assert!(tx.commit().is_err());
    let mut small = store.write().expect("writes");
    set(&mut small, 1).expect("fits");
    small.commit().expect("fits");
    assert_eq!(store.snapshot().lsn(), 2);
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
    let mut expand = |transactions: usize| {
        for _ in 0..transactions {
            drop(store.reserve_batch(1 << 10).expect("free"));
            let nodes = draw(6_000);
            snapshot.neighbors(EdgeTypeId(0), &nodes, &mut Expansion::default()).expect("sound");
        }
    };
    // Nothing moves before the sixteenth transaction.
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
    for tx in 0..40_000 {
        drop(store.reserve_batch(1 << 10).expect("free"));
        snapshot.gather(tensor, &draw(6_000), &mut out).expect("sound");
        stats = store.stats();
        if tx > 1_000 && stats.block_cache_bytes < blocks_late / 2 {
            break;
        }
    }
    assert!(
        stats.block_cache_bytes < blocks_late / 2,
        "{} bytes of blocks",
        stats.block_cache_bytes
    );
    assert!(stats.row_cache_bytes > 3_500_000, "{} bytes of rows", stats.row_cache_bytes);
    assert!(store.budget().peak_bytes() <= memory);
    model.compare(&snapshot, &mut seeded(3), 2_000);
}

/// A store whose caches are full, with a topology of some 400 KB, or of `factor` times that.
fn store_with_lists(factor: usize) -> Store {
    let mut random = seeded(9);
    let mut model = Model::new(&[20_000], 4096);
    model.tensor(Owner::Node(NodeTypeId(0)), 1024, &mut random);
    let degrees: Vec<(u64, usize)> = (0..20_000).map(|node| (node, 6 * factor)).collect();
    model.edges(ModelEdges::default(), &degrees, &mut random);
    let options = OpenOptions { memory: Some(MEMORY), ..OpenOptions::default() };
    let store = Store::open_on(model.build(), &options).expect("opens");
    model.compare(&store.snapshot(), &mut random, 20_000);
    store
}

#[test]
fn a_topology_that_is_held_takes_memory_of_blocks_and_not_of_rows() {
    const TO: EdgeTypeId = EdgeTypeId(0);
    for (factor, fits) in [(6, true), (20, false)] {
        let store = store_with_lists(factor);
        let snapshot = store.snapshot();
        let before = store.stats();
        assert!(before.row_cache_bytes > MEMORY / 4 && before.block_cache_bytes > MEMORY / 8);
        // All that is free but for the windows that lists are read through.
        let free = MEMORY - store.budget().used_bytes();
        let _held = snapshot.reserve(free - (1 << 20)).expect("free");
        snapshot.count_lists(TO, u64::from(u32::MAX));
        assert_eq!(snapshot.held_topology(TO).is_some(), fits, "{factor}");
        let after = store.stats();
        assert_eq!(after.row_cache_bytes, before.row_cache_bytes, "{factor}");
        assert_eq!(after.block_cache_bytes < before.block_cache_bytes, fits, "{factor}");
    }
}
