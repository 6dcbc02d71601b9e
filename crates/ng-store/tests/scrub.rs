//! C5: rot is found while readers and writers go on, all of it and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::changing::{NODES, ROWS, Shape, change, open};
use common::seeded;
use ng_store::{Expansion, Store};
use ng_testing::{MemDisk, Random};
use ng_types::EdgeTypeId;

const BLOCK: usize = 4096;

fn shape(seed: u64) -> Shape {
    Shape {
        num_nodes: 2_000,
        page_bytes: 4096 << (seed % 3),
        row_bytes: 1_000,
        undirected: seed.is_multiple_of(2),
        has_edge_ids: true,
        reuse_ids: true,
        ..Shape::default()
    }
}

/// A store that changed and was checkpointed, so that pages are not where they were.
fn changed(shape: &Shape, random: &mut Random) -> (MemDisk, Store) {
    let disk = shape.build();
    let store = open(&disk);
    for _ in 0..4 {
        change(&store, shape, random, 2_000);
        store.checkpoint().unwrap();
    }
    (disk, store)
}

/// Blocks that the store has in use: those in which a flip is damage that verify sees.
fn used_blocks(disk: &MemDisk, random: &mut Random, count: usize) -> BTreeSet<(String, u64)> {
    let files = disk.image();
    let is_paged = |name: &&String| name.ends_with(".dat") || name.ends_with(".map");
    let names: Vec<&String> = files.keys().filter(is_paged).collect();
    let mut found = BTreeSet::new();
    while found.len() < count {
        let name = names[random.below(names.len() as u64) as usize];
        let Some(blocks) = (files[name].len() / BLOCK).checked_sub(1) else { continue };
        let block = random.below(blocks as u64 + 1);
        let copy = MemDisk::from_image(files.clone());
        copy.damage(name, |bytes| bytes[block as usize * BLOCK + 100] ^= 1);
        let seen = open(&copy).scrub(&mut |_, _| true, None).unwrap();
        // What is under a damaged block of a page table cannot be found any more.
        let other = if name.ends_with(".map") { ".dat" } else { ".map" };
        let other = format!("{}{other}", &name[..name.len() - 4]);
        let hides = found.iter().any(|(name, _)| *name == other);
        if seen.problems.len() == 1 && !hides && !is_inner(&files[name], name, block) {
            found.insert((name.clone(), block));
        }
    }
    found
}

fn is_inner(bytes: &[u8], name: &str, block: u64) -> bool {
    // Leaves hide what is under them, too.
    name.ends_with(".map") && bytes[block as usize * BLOCK + 2] != 1
}

/// Reads and writes until told to stop; damage that it meets is no concern of this test.
fn load(store: &Store, random: &mut Random, stop: &AtomicBool, may_checkpoint: &AtomicBool) -> u64 {
    let mut transactions = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut tx = store.write().unwrap();
        for _ in 0..20 {
            let node = random.below(2_000);
            drop(tx.set_row(ROWS, node, &[transactions as u8; 1_000]));
        }
        drop(tx.add_node(NODES));
        transactions += u64::from(tx.commit().is_ok());
        let mut found = Expansion::default();
        drop(store.snapshot().neighbors(EdgeTypeId(0), &[random.below(2_000)], &mut found));
        if may_checkpoint.load(Ordering::Relaxed) {
            drop(store.checkpoint());
        }
    }
    transactions
}

#[test]
fn all_rot_is_found_under_load_and_nothing_else() {
    let (mut tried, mut failed, mut transactions) = (0, 0, 0);
    for seed in 0..6 {
        let (mut random, shape) = (seeded(seed), shape(seed));
        let (disk, store) = changed(&shape, &mut random);
        let mut planted = used_blocks(&disk, &mut random, 12);
        for (name, block) in &planted {
            disk.damage(name, |bytes| {
                bytes[*block as usize * BLOCK + random.below(BLOCK as u64) as usize] ^= 0x10;
            });
        }
        let slot = ["root.a", "root.b"][(seed % 2) as usize];
        disk.damage(slot, |bytes| bytes[BLOCK + 3] ^= 0x10);
        let (stop, may_checkpoint) = (AtomicBool::new(false), AtomicBool::new(false));
        let (report, done) = std::thread::scope(|scope| {
            let loaded =
                scope.spawn(|| load(&store, &mut Random::new(seed), &stop, &may_checkpoint));
            // A checkpoint writes both slots anew, so the first waits until they were looked at.
            let mut progress = |_, _| {
                may_checkpoint.store(true, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
                true
            };
            let report = store.scrub(&mut progress, Some(8 << 20)).unwrap();
            stop.store(true, Ordering::Relaxed);
            (report, loaded.join().unwrap())
        });
        let place = |p: &ng_store::Problem| (p.file.clone(), p.block.unwrap_or(u64::MAX));
        let found: BTreeSet<(String, u64)> = report.problems.iter().map(place).collect();
        planted.insert((slot.into(), u64::MAX));
        tried += planted.len();
        failed += planted.symmetric_difference(&found).count();
        transactions += done;
        assert_eq!(found, planted);
        assert_eq!(report.problems.len(), planted.len(), "each damage is reported once");
    }
    println!(
        "figure: {{\"id\":\"C5\",\"tried\":{tried},\"failed\":{failed},\"batches\":{transactions}}}"
    );
    assert!(transactions > 0);
}

#[test]
fn a_sound_store_under_load_has_no_problems_and_the_caches_stay_as_they_are() {
    let (mut random, shape) = (seeded(7), shape(1));
    let (_disk, store) = changed(&shape, &mut random);
    let cached = store.stats().block_cache_bytes;
    let report = store.scrub(&mut |_, _| true, None).unwrap();
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(store.stats().block_cache_bytes, cached);
    let (stop, may_checkpoint) = (AtomicBool::new(false), AtomicBool::new(true));
    std::thread::scope(|scope| {
        let loaded = scope.spawn(|| load(&store, &mut Random::new(1), &stop, &may_checkpoint));
        for _ in 0..30 {
            let report = store.scrub(&mut |_, _| true, None).unwrap();
            assert!(report.is_ok(), "{:?}", report.problems);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(loaded.join().unwrap() > 0);
    });
}

#[test]
fn a_scrub_keeps_to_its_rate() {
    let (mut random, shape) = (seeded(8), shape(0));
    let (_disk, store) = changed(&shape, &mut random);
    let start = Instant::now();
    let report = store.scrub(&mut |_, _| true, Some(20 << 20)).unwrap();
    let least = Duration::from_secs_f64((report.blocks * BLOCK as u64) as f64 / (20 << 20) as f64);
    assert!(start.elapsed() >= least, "{:?} for {} blocks", start.elapsed(), report.blocks);
}
