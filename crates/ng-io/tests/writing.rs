//! The Appender: short writes are finished, failures poison, a full disk says what it needs.

#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::{directory, open};
use ng_io::{Access, Appender, BackendChoice, Disk, OpenOptions, WriteError};
use ng_testing::{Fault, FaultDisk, FaultPlan, MemDisk, Odds, Random};

#[test]
fn pieces_of_any_size_arrive_in_order_padded_and_durable_over_passing_faults() {
    let seed = 11;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for round in 0..20 {
        let inner = MemDisk::new();
        let odds = Odds::passing(150);
        let plan = FaultPlan::new(round).with_odds(odds);
        let disk = Arc::new(FaultDisk::new(Arc::new(inner.clone()), plan));
        let mut file = Appender::create(Arc::clone(&disk) as Arc<dyn Disk>, "a").expect("made");
        let mut expected = Vec::new();
        for _ in 0..random.below(12) {
            let len = [10, 5_000, 900_000, 3_000_000][random.below(4) as usize];
            let piece = random.bytes(random.clone().below(len) as usize);
            file.write(&piece).expect("written");
            expected.extend_from_slice(&piece);
            assert_eq!(file.position(), expected.len() as u64);
        }
        // Syncs are never retried, so none may be struck here.
        disk.replan(FaultPlan::new(round));
        let len = file.finish().expect("durable");
        expected.resize(expected.len().next_multiple_of(4096), 0);
        assert_eq!(len, expected.len() as u64);
        assert!(inner.contents("a").expect("there") == expected);
        assert!(inner.is_synced("a"));
    }
}

#[test]
fn a_long_file_leaves_the_page_cache_again_and_again_and_a_short_one_stays() {
    let leaves = |pieces: usize, piece: usize, from| {
        let disk = MemDisk::new();
        let file = Appender::create(Arc::new(disk.clone()), "a").expect("made");
        let mut file = file.leaving_cache(from);
        (0..pieces).for_each(|_| file.write(&vec![1; piece]).expect("written"));
        assert_eq!(file.finish().expect("durable"), (pieces * piece) as u64);
        let counts = disk.counts();
        (counts.leaves, counts.left_bytes >> 20)
    };
    // From 40 MiB on, and every 32 MiB after that; long pieces as well as short ones.
    assert_eq!(leaves(120, 1 << 20, 40 << 20), (3, 104));
    assert_eq!(leaves(120 * 16, 1 << 16, 40 << 20), (3, 104));
    assert_eq!(leaves(39, 1 << 20, 40 << 20), (0, 0));
    assert_eq!(leaves(120, 1 << 20, u64::MAX), (0, 0));
}

#[test]
fn what_leaves_the_page_cache_is_on_disk_as_it_was_written() {
    let place = directory();
    let disk = open(place.path(), BackendChoice::Pread, &OpenOptions::default());
    let disk = disk.expect("plain reads work everywhere");
    let mut file = Appender::create(Arc::clone(&disk), "a").expect("made").leaving_cache(0);
    let bytes = Random::new(5).bytes(70 << 20);
    bytes.chunks(3 << 20).for_each(|piece| file.write(piece).expect("written"));
    assert_eq!(file.finish().expect("durable"), bytes.len() as u64);
    assert!(std::fs::read(place.path().join("a")).expect("there") == bytes);
}

#[test]
fn a_failed_write_poisons_the_file_and_a_full_disk_says_what_was_wanted() {
    let failing = |fault| {
        let plan = FaultPlan::new(1).with_fault_at(1, fault, false);
        let disk = Arc::new(FaultDisk::new(Arc::new(MemDisk::new()), plan));
        let mut file = Appender::create(disk, "a.dat").expect("created");
        let error = file.write(&[1; 2 << 20]).expect_err("the disk fails");
        let after = file.write(&[1]).expect_err("poisoned");
        assert!(matches!(after, WriteError::Poisoned { .. }));
        assert!(matches!(file.finish().expect_err("poisoned"), WriteError::Poisoned { .. }));
        error
    };
    let full = failing(Fault::Full);
    let WriteError::DiskFull { wanted_bytes, offset, .. } = full else { panic!("{full}") };
    assert_eq!((wanted_bytes, offset), (2 << 20, 0));
    let error = failing(Fault::Error);
    assert!(matches!(error, WriteError::Io { .. }) && error.to_string().contains("a.dat"));
}

#[test]
fn a_failed_sync_is_reported_and_not_tried_again() {
    let inner = MemDisk::new();
    // Open, write, sync.
    let plan = FaultPlan::new(1).with_fault_at(2, Fault::Interrupted, false);
    let disk = Arc::new(FaultDisk::new(Arc::new(inner.clone()), plan));
    let mut file = Appender::create(disk, "a.dat").expect("created");
    file.write(&[1; 100]).expect("buffered");
    assert!(matches!(file.finish().expect_err("no sync"), WriteError::Sync { .. }));
    assert_eq!(inner.counts().syncs, 0);
}

#[test]
fn a_file_that_exists_is_never_overwritten_and_a_read_only_handle_never_written() {
    let dir = directory();
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let name = format!("{choice}.dat");
        let file = Appender::create(Arc::clone(&disk), &name).expect("created");
        file.finish().expect("durable");
        let error = Appender::create(Arc::clone(&disk), &name).err().expect("it exists");
        assert!(error.to_string().contains(&name), "{error}");
        let file = disk.open(&name, Access::Read).expect("opened");
        assert!(disk.write(file, 0, &[1]).is_err());
        let file = disk.open(&name, Access::ReadWrite).expect("opened");
        disk.allocate(file, 1 << 20).expect("reserved");
        assert_eq!(disk.len(file).expect("a length"), 0, "reserving does not lengthen");
    }
}

#[test]
fn every_fault_at_every_write_once_or_for_ever_is_a_durable_file_or_an_error() {
    let bytes = Random::new(8).bytes(5_000_000);
    let (mut pairs, mut errors, mut wrong) = (0, 0, 0);
    let faults = [
        Fault::Short,
        Fault::Nothing,
        Fault::Interrupted,
        Fault::TryAgain,
        Fault::Error,
        Fault::Full,
    ];
    for fault in faults {
        for index in 0..8 {
            for sticky in [false, true] {
                let inner = MemDisk::new();
                let plan = FaultPlan::new(index).with_fault_at(index, fault, sticky);
                let disk = Arc::new(FaultDisk::new(Arc::new(inner.clone()), plan));
                let run = || {
                    let mut file = Appender::create(disk, "a.dat")?;
                    for piece in bytes.chunks(700_000) {
                        file.write(piece)?;
                    }
                    file.finish()
                };
                match run() {
                    Ok(len) => {
                        let found = inner.durable_contents("a.dat").expect("there");
                        let right = found.starts_with(&bytes) && found.len() as u64 == len;
                        wrong += usize::from(!right);
                    }
                    Err(_) => errors += 1,
                }
                pairs += 1;
            }
        }
    }
    println!("D4 (writes) pairs={pairs} wrong={wrong} errors={errors} hang=0");
    assert_eq!(wrong, 0);
    assert!(errors > 0);
}
