//! Files that are changed in place: what is read afterwards, and what a failure leaves behind.

#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::{directory, open, write_file};
use ng_io::{BackendChoice, OpenOptions, Reader, WriteError, WriteStats, Writer};
use ng_testing::{Fault, FaultDisk, FaultPlan, MemDisk, Random};

#[test]
fn a_reader_that_was_there_before_sees_what_is_written_in_place_on_every_back_end() {
    let dir = directory();
    let bytes = Random::new(1).bytes(8 * 4096);
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let name = format!("{choice}.dat");
        write_file(&disk, &name, &bytes[..2 * 4096]);
        let reader = Reader::new(Arc::clone(&disk));
        let file = reader.open(&name).expect("opened");
        assert_eq!(reader.read_at(file, 0, 2 * 4096).expect("read"), bytes[..2 * 4096]);
        let mut writer = Writer::open(Arc::clone(&disk), &name).expect("opened");
        // Neither starts on a block, and the second leaves a hole behind the old end.
        writer.write_at(100, b"changed").expect("written");
        writer.write_at(5 * 4096 + 7, &bytes[..4096]).expect("written");
        writer.write_at(7 * 4096, &bytes[..4096]).expect("written");
        let mut expected = bytes[..2 * 4096].to_vec();
        expected.resize(8 * 4096, 0);
        expected[100..107].copy_from_slice(b"changed");
        expected[5 * 4096 + 7..][..4096].copy_from_slice(&bytes[..4096]);
        expected[7 * 4096..].copy_from_slice(&bytes[..4096]);
        assert_eq!(reader.len(file).expect("a length"), 8 * 4096, "{choice}");
        assert_eq!(writer.len(), 8 * 4096);
        let found = reader.read_at(file, 0, 8 * 4096).expect("read");
        assert!(found == expected, "{choice}: not what was written");
        writer.sync().expect("durable");
        assert_eq!(std::fs::read(dir.path().join(&name)).expect("read"), expected);
        disk.rename(&name, "moved").expect("renamed");
        let again = Writer::open(Arc::clone(&disk), "moved").expect("opened");
        writer.write_at(0, b"through the other handle").expect("written");
        let found = reader.read_at(again.file(), 0, 4096).expect("read");
        assert_eq!(&found[..11], b"through the", "{choice}");
    }
}

#[test]
fn back_end_memory_reads_a_file_anew_when_it_is_opened_again() {
    let dir = directory();
    let path = dir.path().join("a.dat");
    std::fs::write(&path, [1; 8192]).expect("written");
    let disk = open(dir.path(), BackendChoice::Memory, &OpenOptions::default()).expect("works");
    let reader = Reader::new(disk);
    let file = reader.open("a.dat").expect("opened");
    std::fs::write(&path, [2; 4096]).expect("written by somebody else");
    assert_eq!(reader.read_at(file, 0, 4096).expect("read"), [1; 4096]);
    let again = reader.open("a.dat").expect("opened");
    assert_eq!(reader.read_at(again, 0, 4096).expect("read"), [2; 4096]);
    assert_eq!(reader.read_at(file, 0, 4096).expect("read"), [2; 4096]);
}

#[test]
fn a_writer_counts_opens_and_creates() {
    let disk = Arc::new(MemDisk::new());
    let missing = Writer::open(disk.clone(), "a.dat").err().expect("missing");
    assert!(matches!(&missing, WriteError::Open { .. }), "{missing}");
    let stats = Arc::new(WriteStats::default());
    let mut new = Writer::open_or_create(disk.clone(), "a.dat").expect("created");
    new = new.counting_into(Arc::clone(&stats));
    new.write_at(10, &[1; 90]).expect("written");
    assert_eq!((stats.counts().writes, stats.counts().write_bytes), (1, 90));
    let old = Writer::open_or_create(disk, "a.dat").expect("opened");
    let mut old = old.counting_into(Arc::clone(&stats));
    assert_eq!(old.len(), 100);
    old.write_at(0, &[2; 50]).expect("written");
    old.sync().expect("durable");
    let counts = stats.counts();
    assert_eq!((counts.writes, counts.write_bytes, counts.syncs), (2, 140, 1));
}

#[test]
fn a_failed_write_or_sync_poisons_and_a_failed_reservation_does_not() {
    // Operation 0 is the open, 1 the reservation, 2 the write, 3 the sync.
    let run = |index, fault| {
        let inner = MemDisk::new();
        inner.put("a.dat", Vec::new());
        let plan = FaultPlan::new(1).with_fault_at(index, fault, false);
        let disk = Arc::new(FaultDisk::new(Arc::new(inner.clone()), plan));
        let mut file = Writer::open(disk, "a.dat").expect("opened");
        let results = [file.allocate(4096), file.write_at(0, &[1; 4096]), file.sync()];
        let after = [file.allocate(1), file.write_at(0, &[2]), file.sync()];
        (results, after, inner.contents("a.dat").expect("there"))
    };
    let (results, after, _) = run(1, Fault::Full);
    assert!(matches!(&results[0], Err(WriteError::DiskFull { wanted_bytes: 4096, .. })));
    assert!(results[1].is_ok() && results[2].is_ok() && after.iter().all(Result::is_ok));
    for (index, fault) in [(2, Fault::Full), (2, Fault::Error), (3, Fault::Full), (3, Fault::Error)]
    {
        let (results, after, contents) = run(index, fault);
        let error = results[index as usize - 1].as_ref().expect_err("struck");
        assert!(!matches!(error, WriteError::Poisoned { .. }), "{error}");
        for result in after {
            assert!(matches!(result, Err(WriteError::Poisoned { .. })), "{fault:?} at {index}");
        }
        assert_ne!(contents.first(), Some(&2), "nothing is written after a failure");
    }
    for fault in [Fault::Interrupted, Fault::TryAgain, Fault::Short, Fault::Nothing] {
        let (results, _, contents) = run(2, fault);
        assert!(results.iter().all(Result::is_ok), "{fault:?}");
        assert_eq!(contents.len(), 4096);
    }
}
