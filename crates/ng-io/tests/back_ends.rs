//! Every back end returns the same bytes.

#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::{count_wrong, directory, open, random_ops, write_file};
use ng_io::{Access, BackendChoice, OpenOptions, ReadOp, Reader, open_dir};
use ng_testing::Random;

const BLOCKS: u64 = 1000;

#[test]
fn every_back_end_returns_the_same_bytes_with_huge_pages_up_to_the_last_block() {
    let seed = 2026;
    println!("seed {seed}");
    let dir = directory();
    let bytes = Random::new(seed).bytes(BLOCKS as usize * 4096);
    let memory = open_dir(dir.path(), BackendChoice::Memory, &OpenOptions::default());
    write_file(&memory.expect("opened").disk, "a.dat", &bytes);
    for choice in BackendChoice::ALL {
        for queue_depth in [1, 3, 64] {
            let options = OpenOptions { queue_depth, ..OpenOptions::default() };
            let Some(disk) = open(dir.path(), choice, &options) else {
                continue;
            };
            let reader = Reader::new(disk);
            let file = reader.open("a.dat").expect("opened");
            assert_eq!(reader.len(file).expect("a length"), BLOCKS * 4096);
            let mut random = Random::new(seed);
            let mut asked = 0;
            for blocks_max in [1, 4, 64] {
                let ops = random_ops(&mut random, file, BLOCKS, 500, blocks_max);
                asked += ops.iter().map(|op| u64::from(op.len)).sum::<u64>();
                assert_eq!(count_wrong(&reader, &ops, &bytes), 0, "{choice} at {queue_depth}");
            }
            let counts = reader.stats().counts();
            assert_eq!((counts.read_bytes, counts.retries), (asked, 0), "{choice}");
        }
    }
}

#[test]
fn threads_share_a_disk_and_each_gets_its_own_completions() {
    let dir = directory();
    let bytes = Random::new(5).bytes(BLOCKS as usize * 4096);
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let name = format!("{choice}.dat");
        write_file(&disk, &name, &bytes);
        let reader = Reader::new(disk);
        let file = reader.open(&name).expect("opened");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (reader, bytes) = (&reader, &bytes);
                scope.spawn(move || {
                    let mut random = Random::new(thread);
                    for _ in 0..5 {
                        let ops = random_ops(&mut random, file, BLOCKS, 200, 4);
                        assert_eq!(count_wrong(reader, &ops, bytes), 0);
                    }
                });
            }
        });
        assert_eq!(reader.stats().counts().reads, 4 * 5 * 200);
    }
}

#[test]
fn a_completion_may_bring_new_reads_into_being() {
    let dir = directory();
    let bytes = Random::new(6).bytes(BLOCKS as usize * 4096);
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let name = format!("{choice}.dat");
        write_file(&disk, &name, &bytes);
        let reader = Reader::new(disk);
        let file = reader.open(&name).expect("opened");
        // Each block read leads to the next one until 500 are done: a chain has depth 1.
        let wanted = std::cell::RefCell::new(vec![0_u64]);
        let mut done = 0;
        reader
            .read(
                &mut || {
                    let block = wanted.borrow_mut().pop()?;
                    Some(ReadOp { tag: block, file, offset: block * 4096, len: 4096 })
                },
                &mut |op, result| {
                    let found = result.expect("read");
                    assert_eq!(found, &bytes[op.offset as usize..][..4096]);
                    done += 1;
                    if done < 500 {
                        wanted.borrow_mut().push(op.tag + 1);
                    }
                },
            )
            .expect("the queue works");
        assert_eq!(done, 500);
    }
}

#[test]
fn a_file_written_while_open_reads_back_on_every_back_end() {
    let dir = directory();
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let name = format!("{choice}.dat");
        let file = disk.open(&name, Access::Create).expect("created");
        let bytes = Random::new(9).bytes(8 * 4096);
        assert_eq!(disk.write(file, 0, &bytes).expect("written"), bytes.len());
        let reader = Reader::new(Arc::clone(&disk));
        assert_eq!(reader.read_at(file, 0, bytes.len()).expect("read"), bytes, "{choice}");
        let newer = Random::new(10).bytes(4096);
        assert_eq!(disk.write(file, 4096, &newer).expect("written"), 4096);
        disk.sync(file).expect("durable");
        assert_eq!(reader.read_at(file, 4096, 4096).expect("read"), newer, "{choice}");
        disk.rename(&name, "renamed").expect("renamed");
        assert!(disk.list().expect("listed").contains(&"renamed".to_owned()));
        disk.remove("renamed").expect("removed");
        assert!(disk.open("renamed", Access::Read).is_err());
    }
}
