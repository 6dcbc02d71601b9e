//! I1: short reads, EAGAIN, EINTR and reordered completions give the right bytes.

#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::{count_wrong, directory, open, random_ops, write_file};
use ng_io::{BackendChoice, Disk, OpenOptions, Reader};
use ng_testing::{FaultDisk, FaultPlan, MemDisk, Odds, Random};

const BLOCKS: u64 = 700;

/// Reads `count` times over faults and says how many reads were wrong and how many faults struck.
fn read_over_faults(inner: Arc<dyn Disk>, bytes: &[u8], count: usize, seed: u64) -> (usize, u64) {
    let mut random = Random::new(seed);
    let (mut wrong, mut left) = (0, count);
    let disk = Arc::new(FaultDisk::new(inner, FaultPlan::new(seed)));
    let reader = Reader::new(Arc::clone(&disk) as Arc<dyn Disk>);
    let file = reader.open("a.dat").expect("opened");
    let mut struck = 0;
    while left > 0 {
        // Odds up to 20 % for each of the four faults that pass.
        let odds = Odds::passing(random.below(200));
        disk.replan(FaultPlan::new(random.next_u64()).with_odds(odds));
        let batch = left.min(1000);
        let blocks_max = [1, 2, 16, 64][random.below(4) as usize];
        let ops = random_ops(&mut random, file, BLOCKS, batch, blocks_max);
        wrong += count_wrong(&reader, &ops, bytes);
        struck += disk.counts().total();
        left -= batch;
    }
    (wrong, struck)
}

#[test]
fn short_postponed_interrupted_and_reordered_reads_give_the_right_bytes() {
    let seed = 0x1_0001;
    let bytes = Random::new(seed).bytes(BLOCKS as usize * 4096);
    let disk = MemDisk::new();
    disk.put("a.dat", bytes.clone());
    let reads = 100_000;
    let (wrong, struck) = read_over_faults(Arc::new(disk), &bytes, reads, seed);
    println!(
        "figure: {{\"id\": \"I1\", \"tried\": {reads}, \"failed\": {wrong}, \
         \"faults\": {struck}, \"seed\": {seed}}}"
    );
    assert_eq!(wrong, 0);
    assert!(struck > reads as u64 / 10, "faults must strike: {struck}");
}

#[test]
fn faults_on_top_of_every_back_end_give_the_right_bytes() {
    let seed = 0x1_0002;
    let bytes = Random::new(seed).bytes(BLOCKS as usize * 4096);
    let dir = directory();
    let disk = open(dir.path(), BackendChoice::Memory, &OpenOptions::default()).expect("memory");
    write_file(&disk, "a.dat", &bytes);
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let reads = 4_000;
        let (wrong, struck) = read_over_faults(disk, &bytes, reads, seed);
        println!("I1 back_end={choice} reads={reads} faults={struck} wrong={wrong} seed={seed}");
        assert_eq!(wrong, 0);
    }
}

#[test]
fn every_request_to_the_device_is_counted_retries_included() {
    let seed = 0x1_0003;
    println!("seed {seed}");
    let inner = MemDisk::new();
    inner.put("a.dat", Random::new(seed).bytes(64 * 4096));
    let plan = FaultPlan::new(seed).with_odds(Odds::passing(100));
    let disk = Arc::new(FaultDisk::new(Arc::new(inner), plan));
    let reader = Reader::new(Arc::clone(&disk) as Arc<dyn Disk>);
    let file = reader.open("a.dat").expect("opened");
    for _ in 0..200 {
        reader.read_at(file, 0, 64 * 4096).expect("read");
    }
    let counts = reader.stats().counts();
    assert_eq!(counts.reads, disk.counts().reads);
    assert_eq!(counts.reads, 200 + counts.retries);
    assert!(counts.retries > 0);
}
