//! What `Reader` counts is what the kernel counts. Alone in its binary, as the kernel counts for
//! the whole process.

#![allow(clippy::expect_used)]

mod common;

use common::{count_wrong, directory, open, random_ops, write_file};
use ng_io::{BackendChoice, OpenOptions, Reader};
use ng_testing::Random;

const BLOCKS: u64 = 4096;

/// Bytes that this process has had fetched from storage; `None` where the kernel does not tell.
fn fetched_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

#[test]
fn bytes_counted_are_within_two_percent_of_what_the_kernel_fetched() {
    let seed = 31;
    println!("seed {seed}");
    let dir = directory();
    let bytes = Random::new(seed).bytes(BLOCKS as usize * 4096);
    let disk = open(dir.path(), BackendChoice::Pread, &OpenOptions::default()).expect("opened");
    write_file(&disk, "a.dat", &bytes);
    for choice in [BackendChoice::Uring, BackendChoice::ODirect] {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let reader = Reader::new(disk);
        let file = reader.open("a.dat").expect("opened");
        let ops = random_ops(&mut Random::new(seed), file, BLOCKS, 20_000, 4);
        let Some(before) = fetched_bytes() else {
            return println!("left out: no /proc/self/io");
        };
        assert_eq!(count_wrong(&reader, &ops, &bytes), 0);
        let fetched = fetched_bytes().expect("as before") - before;
        let counts = reader.stats().counts();
        if fetched == 0 {
            println!("left out {choice}: the storage is memory");
            continue;
        }
        let ratio = fetched as f64 / counts.read_bytes as f64;
        println!("{choice}: counted {} fetched {fetched} ratio {ratio:.4}", counts.read_bytes);
        assert_eq!(counts.reads, 20_000);
        assert!((0.98..=1.02).contains(&ratio), "{ratio}");
        if choice == BackendChoice::Uring {
            assert!(counts.mean_depth() > 60.0, "mean depth {}", counts.mean_depth());
        }
    }
}
