//! Directories that are replaced while they are open, and links inside them.

#![allow(clippy::expect_used)]

mod common;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use common::{directory, open};
use ng_io::{Access, BackendChoice, Disk, NamedDir, OpenOptions, ReadError, Reader};

fn disks(path: &Path) -> Vec<(BackendChoice, Arc<dyn Disk>)> {
    let named = BackendChoice::ALL.into_iter().filter(|choice| *choice != BackendChoice::Auto);
    let opened = |choice| Some((choice, open(path, choice, &OpenOptions::default())?));
    named.filter_map(opened).collect()
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("listed");
    entries.map(|e| e.expect("listed").file_name().into_string().expect("UTF-8")).collect()
}

#[test]
fn what_was_open_can_be_opened_again_when_the_directory_is_replaced_and_removed() {
    let parent = directory();
    let (path, aside) = (parent.path().join("a.ng"), parent.path().join("b.ng"));
    fs::create_dir(&path).expect("made");
    for (name, byte) in [("held", 7), ("other", 8)] {
        fs::write(path.join(name), vec![byte; 8192]).expect("written");
    }
    let disks = disks(&path);
    let readers: Vec<_> = disks.iter().map(|(_, disk)| Reader::new(Arc::clone(disk))).collect();
    for reader in &readers {
        reader.open("held").expect("opened");
    }
    let place = NamedDir::open(&path).expect("opened");
    assert!(place.is_current());
    fs::rename(&path, &aside).expect("renamed");
    fs::create_dir(&path).expect("made");
    fs::write(path.join("held"), vec![9; 8192]).expect("written");
    assert!(!place.is_current());
    fs::remove_dir_all(&aside).expect("removed");
    for ((choice, _), reader) in disks.iter().zip(&readers) {
        let file = reader.open("held").expect("still there");
        assert_eq!(reader.read_at(file, 4096, 4096).expect("read"), [7; 4096], "{choice}");
        let Err(ReadError::Open { source, .. }) = reader.open("other") else {
            panic!("{choice}: it was not open");
        };
        assert_eq!(source.kind(), ErrorKind::NotFound);
    }
}

#[test]
fn no_file_comes_into_being_in_a_directory_that_was_replaced() {
    let parent = directory();
    let (path, aside) = (parent.path().join("a.ng"), parent.path().join("b.ng"));
    fs::create_dir(&path).expect("made");
    let disks = disks(&path);
    fs::rename(&path, &aside).expect("renamed");
    fs::create_dir(&path).expect("made");
    for (choice, disk) in &disks {
        assert!(disk.pin(3).expect("nothing to pin").is_none(), "{choice}");
        assert!(!disk.is_pinned_below(9).expect("nobody pins"), "{choice}");
        let error = disk.lock_writer().expect_err("replaced");
        assert_eq!(error.kind(), ErrorKind::StaleNetworkFileHandle, "{choice}");
    }
    assert_eq!((names(&aside), names(&path)), (vec![], vec![]));
}

#[test]
fn links_in_a_directory_are_good_for_reading_only() {
    let (dir, outside) = (directory(), directory());
    let (precious, absent) = (outside.path().join("precious"), outside.path().join("absent"));
    fs::write(&precious, vec![7; 4096]).expect("written");
    for name in ["data", "wal.a"] {
        symlink(&precious, dir.path().join(name)).expect("linked");
    }
    symlink(outside.path(), dir.path().join("folder")).expect("linked");
    for (choice, disk) in disks(dir.path()) {
        let error = disk.lock_writer().expect_err("data is a link");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{choice}");
        assert!(error.to_string().contains("symbolic link"), "{choice}: {error}");
    }
    fs::remove_file(dir.path().join("pins")).expect("removed");
    symlink(&absent, dir.path().join("pins")).expect("linked");
    for (choice, disk) in disks(dir.path()) {
        for (name, access) in
            [("data", Access::ReadWrite), ("wal.a", Access::ReadWrite), ("pins", Access::ReadWrite)]
        {
            let error = disk.open(name, access).expect_err("a link");
            assert!(error.to_string().contains("symbolic link"), "{choice}: {error}");
        }
        assert!(disk.open("data", Access::Create).is_err(), "{choice}");
        let error = disk.lock_writer().expect_err("pins is a link");
        assert!(error.to_string().contains("symbolic link"), "{choice}: {error}");
        assert!(disk.pin(3).expect("nobody can write").is_none(), "{choice}");
        let reader = Reader::new(disk);
        let file = reader.open("data").expect("opened");
        assert_eq!(reader.read_at(file, 0, 4096).expect("read"), [7; 4096], "{choice}");
    }
    for name in ["data", "wal.a", "pins"] {
        fs::remove_file(dir.path().join(name)).expect("removed");
    }
    for (choice, disk) in disks(dir.path()) {
        let lock = disk.lock_writer().expect("a link to a folder is in nobody's way");
        assert!(lock.is_some(), "{choice}");
    }
    assert_eq!(names(outside.path()), ["precious"]);
    assert_eq!(fs::read(&precious).expect("read"), vec![7; 4096]);
}
