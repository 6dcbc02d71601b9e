//! A log has every request that was counted, and time in which reads were in flight is counted
//! once, however many threads read.

#![allow(clippy::expect_used)]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{count_wrong, directory, open, random_ops, write_file};
use ng_io::{BackendChoice, OpenOptions, ReadOp, Reader};
use ng_testing::{FaultDisk, FaultPlan, MemDisk, Odds, Random};

const BLOCKS: u64 = 256;

/// (offset, bytes, file, follows) of every record.
fn records(path: &Path) -> Vec<(u64, u32, u32, bool)> {
    let bytes = std::fs::read(path).expect("a log");
    assert_eq!(&bytes[..16], b"ngreads1\0\0\0\0\0\0\0\0");
    let record = |b: &[u8]| {
        let word = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"));
        let offset = u64::from_le_bytes(b[..8].try_into().expect("8 bytes"));
        (offset, word(8), word(12) & !(1 << 31), word(12) >> 31 == 1)
    };
    bytes[16..].chunks_exact(16).map(record).collect()
}

#[test]
fn a_trace_has_the_requests_and_bytes_that_were_counted_retried_ones_included() {
    let seed = 77;
    println!("seed {seed}");
    let dir = directory();
    let bytes = Random::new(seed).bytes(BLOCKS as usize * 4096);
    let inner = MemDisk::new();
    inner.put("a.dat", bytes.clone());
    let plan = FaultPlan::new(seed).with_odds(Odds::passing(200));
    let reader = Reader::new(Arc::new(FaultDisk::new(Arc::new(inner), plan)));
    let file = reader.open("a.dat").expect("opened");
    let ops = random_ops(&mut Random::new(seed), file, BLOCKS, 1_000, 4);
    assert_eq!(count_wrong(&reader, &ops, &bytes), 0);
    let before = reader.stats().counts();
    let path = dir.path().join("reads.log");
    reader.log_to(&path).expect("a file");
    assert_eq!(count_wrong(&reader, &ops, &bytes), 0);
    let logged = reader.end_log().expect("written");
    let counts = reader.stats().counts().since(&before);
    assert_eq!(count_wrong(&reader, &ops, &bytes), 0);
    let found = records(&path);
    assert_eq!((found.len() as u64, logged), (counts.reads, counts.reads));
    assert_eq!(found.iter().map(|r| u64::from(r.1)).sum::<u64>(), counts.read_bytes);
    assert!(counts.retries > 0, "faults must strike");
}

#[test]
fn a_request_that_begins_where_the_last_one_ended_says_so() {
    let dir = directory();
    let disk = MemDisk::new();
    disk.put("a.dat", vec![7; 16 * 4096]);
    let reader = Reader::new(Arc::new(disk));
    let file = reader.open("a.dat").expect("opened");
    let path = dir.path().join("reads.log");
    reader.log_to(&path).expect("a file");
    let places = [(0, 1), (1, 2), (3, 1), (8, 1), (7, 1), (8, 2)];
    let mut ops = places.iter().map(|(first, blocks)| ReadOp {
        tag: 0,
        file,
        offset: first * 4096,
        len: blocks * 4096,
    });
    reader.read(&mut || ops.next(), &mut |_, result| assert!(result.is_ok())).expect("read");
    assert_eq!(reader.end_log().expect("written"), 6);
    let found: Vec<(u64, u32, bool)> =
        records(&path).iter().map(|r| (r.0 / 4096, r.1 / 4096, r.3)).collect();
    let follows = [false, true, true, false, false, true];
    let expected: Vec<(u64, u32, bool)> =
        places.iter().zip(follows).map(|(place, follows)| (place.0, place.1, follows)).collect();
    assert_eq!(found, expected);
}

#[test]
fn time_without_a_read_in_flight_is_not_busy_and_two_threads_do_not_count_it_twice() {
    let dir = directory();
    let options = OpenOptions::default();
    let disk = open(dir.path(), BackendChoice::Pread, &options).expect("pread");
    let bytes = Random::new(5).bytes(BLOCKS as usize * 4096);
    write_file(&disk, "a.dat", &bytes);
    let reader = Reader::new(disk);
    let file = reader.open("a.dat").expect("opened");
    let ops = random_ops(&mut Random::new(6), file, BLOCKS, 5_000, 1);
    let pause = Duration::from_millis(200);
    let start = Instant::now();
    std::thread::sleep(pause);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(count_wrong(&reader, &ops, &bytes), 0));
        }
    });
    let wall_us = start.elapsed().as_micros() as u64;
    let busy_us = reader.stats().counts().busy_us;
    assert!(busy_us > 0 && busy_us <= wall_us - pause.as_micros() as u64, "{busy_us} {wall_us}");
    assert_eq!(reader.stats().counts().busy_us, busy_us, "nothing is in flight any more");
}
