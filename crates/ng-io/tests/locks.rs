//! The right to write and the pins of checkpoints, between disks and between processes.

#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::{child_argument, directory, open, spawn_child};
use ng_io::{BackendChoice, Disk, OpenOptions, open_dir};

fn disk(path: &std::path::Path) -> Arc<dyn Disk> {
    open_dir(path, BackendChoice::Pread, &OpenOptions::default()).expect("opened").disk
}

fn is_free(disk: &Arc<dyn Disk>) -> bool {
    disk.lock_writer().expect("works").is_some()
}

#[test]
fn one_disk_at_a_time_has_the_right_to_write_on_every_back_end() {
    let dir = directory();
    let other = disk(dir.path());
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let lock = disk.lock_writer().expect("works").expect("free");
        assert!(!is_free(&disk) && !is_free(&other), "{choice}");
        drop(disk);
        assert!(!is_free(&other), "the guard outlives its disk");
        drop(lock);
        assert!(is_free(&other), "{choice}");
    }
}

#[test]
fn pins_are_counted_and_only_those_of_others_are_seen() {
    let dir = directory();
    let (reader, writer) = (disk(dir.path()), disk(dir.path()));
    assert!(!writer.is_pinned_below(u64::MAX >> 1).expect("works"));
    let lock = writer.lock_writer().expect("works").expect("free");
    let first = reader.pin(7).expect("works").expect("a pin");
    let second = reader.pin(7).expect("works").expect("a pin");
    let later = reader.pin(8).expect("works").expect("a pin");
    assert!(!writer.is_pinned_below(7).expect("works"), "7 is not below 7");
    assert!(writer.is_pinned_below(8).expect("works"));
    assert!(!reader.is_pinned_below(100).expect("works"), "own pins do not count");
    drop(first);
    assert!(writer.is_pinned_below(8).expect("works"), "pinned twice");
    drop(second);
    assert!(!writer.is_pinned_below(8).expect("works"));
    assert!(writer.is_pinned_below(9).expect("works"));
    drop((later, lock));
    assert!(!writer.is_pinned_below(9).expect("works"));
    assert!(reader.pin(0).is_err() && reader.pin(u64::MAX).is_err());
}

#[test]
fn who_may_not_write_sees_a_writer_and_keeps_others_from_becoming_it() {
    let dir = directory();
    let (reader, writer) = (disk(dir.path()), disk(dir.path()));
    let lock = writer.lock_writer().expect("works").expect("free");
    let held = |disk: &Arc<dyn Disk>| disk.hold_off_writer().expect("works");
    assert!(held(&reader).is_none() && held(&writer).is_none(), "somebody writes");
    assert!(!is_free(&reader), "a look gives nothing away");
    drop(lock);
    let guard = held(&reader);
    assert!(guard.is_some() && !is_free(&writer));
    drop(guard);
    assert!(is_free(&writer) && is_free(&reader));
}

#[test]
fn a_killed_process_pins_and_locks_nothing() {
    if let Some(path) = child_argument() {
        let disk = disk(&path);
        let held = (disk.lock_writer(), disk.pin(3));
        assert!(matches!(held, (Ok(Some(_)), Ok(Some(_)))));
        std::fs::write(path.join("ready"), b"").expect("written");
        loop {
            std::thread::park();
        }
    }
    let dir = directory();
    let mut child = spawn_child("a_killed_process_pins_and_locks_nothing", dir.path());
    while !dir.path().join("ready").exists() {
        assert!(child.try_wait().expect("waited").is_none(), "the child ended early");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let disk = disk(dir.path());
    assert!(!is_free(&disk) && disk.is_pinned_below(4).expect("works"));
    child.kill().expect("killed");
    child.wait().expect("waited");
    assert!(is_free(&disk) && !disk.is_pinned_below(4).expect("works"));
}

#[test]
fn a_directory_that_was_replaced_cannot_be_locked_and_says_so() {
    let parent = directory();
    let (path, aside) = (parent.path().join("a.ng"), parent.path().join("b.ng"));
    std::fs::create_dir(&path).expect("made");
    let stale = disk(&path);
    std::fs::rename(&path, &aside).expect("renamed");
    for replaced in [false, true] {
        if replaced {
            std::fs::create_dir(&path).expect("made");
        }
        let error = stale.lock_writer().expect_err("stale");
        assert_eq!(error.kind(), std::io::ErrorKind::StaleNetworkFileHandle);
        assert!(error.to_string().contains("open it again"), "{error}");
    }
    assert!(is_free(&disk(&aside)), "the failed try holds no lock");
    assert!(is_free(&disk(&path)));
    std::fs::remove_dir_all(&aside).expect("removed");
    let error = stale.lock_writer().expect_err("removed");
    assert_eq!(error.kind(), std::io::ErrorKind::StaleNetworkFileHandle);
}
