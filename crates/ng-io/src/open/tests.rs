//! The choice of a back end, for machines that this one is not.

use super::choice::{Plan, choose};
use super::findings::{FileSystem, Findings};
use super::*;
use crate::backend::Ring;
use crate::directory::Caching;

fn disk_with(direct: Result<(), &str>, ring: Result<Ring, &str>) -> Findings {
    let file_system = FileSystem { name: "ext4".into(), is_memory: false, is_dax: false };
    let (direct, ring) = (direct.map_err(Into::into), ring.map_err(Into::into));
    Findings::new(file_system, direct, ring)
}

fn plan(choice: BackendChoice, found: &Findings) -> Result<(Plan, String), String> {
    choose(choice, found, &OpenOptions::default())
}

#[test]
fn auto_falls_back_step_by_step_and_says_why() {
    let blocked = disk_with(Ok(()), Err("Operation not permitted"));
    let (picked, note) = plan(BackendChoice::Auto, &blocked).expect("auto never fails");
    assert_eq!(picked, Plan::Pool(Caching::Direct));
    assert!(note.starts_with("odirect:") && note.contains("Operation not permitted"), "{note}");

    let neither = disk_with(Err("Invalid argument"), Err("Operation not permitted"));
    let (picked, note) = plan(BackendChoice::Auto, &neither).expect("auto never fails");
    assert_eq!(picked, Plan::Pool(Caching::Buffered));
    assert!(note.starts_with("pread:") && note.contains("Invalid argument"), "{note}");

    let mut memory = neither;
    memory.file_system = FileSystem { name: "tmpfs".into(), is_memory: true, is_dax: false };
    let (picked, note) = plan(BackendChoice::Auto, &memory).expect("auto never fails");
    assert_eq!(picked, Plan::Mmap);
    assert!(note.contains("tmpfs is in memory"), "{note}");

    memory.file_system = FileSystem { name: "ext4".into(), is_memory: true, is_dax: true };
    let (picked, note) = plan(BackendChoice::Auto, &memory).expect("auto never fails");
    assert_eq!(picked, Plan::Mmap);
    assert!(note.contains("ext4 with DAX"), "{note}");
}

#[test]
fn a_back_end_that_was_named_works_as_named_or_says_why_not() {
    let blocked = disk_with(Err("Invalid argument"), Err("Operation not permitted"));
    let error = plan(BackendChoice::Uring, &blocked).expect_err("io_uring is blocked");
    assert!(error.contains("Operation not permitted"), "{error}");
    let error = plan(BackendChoice::ODirect, &blocked).expect_err("no O_DIRECT");
    assert!(error.contains("Invalid argument"), "{error}");
    for choice in [BackendChoice::Memory, BackendChoice::Mmap, BackendChoice::Pread] {
        let (_, note) = plan(choice, &blocked).expect("works everywhere");
        assert!(note.starts_with(choice.name()), "{note}");
    }
}

#[test]
fn io_uring_works_without_registered_buffers_and_without_direct_reads() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
    std::fs::write(dir.path().join("a"), [7; 8192]).expect("written");
    let Ok(ring) = Ring::new(QueueSize::new(8, 0), false) else {
        return println!("left out: no io_uring here");
    };
    let found = disk_with(Err("Invalid argument"), Ok(ring));
    let (picked, note) = plan(BackendChoice::Uring, &found).expect("works");
    assert_eq!(picked, Plan::Uring(Caching::Buffered));
    assert!(note.contains("buffered") && note.contains("without registered buffers"), "{note}");

    let options = OpenOptions::default();
    let place = crate::NamedDir::open(dir.path()).expect("opened");
    let opened = open_with(&place, BackendChoice::Uring, &options, found).expect("opened");
    assert_eq!(opened.disk.backend(), "uring");
    let reader = crate::Reader::new(opened.disk);
    let file = reader.open("a").expect("opened");
    assert_eq!(reader.read_at(file, 4096, 4096).expect("read"), [7; 4096]);
}
