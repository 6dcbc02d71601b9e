//! The files around an import: what users bring, and temporaries.

#![allow(clippy::expect_used)]

mod common;

use std::io::{Read, Write};
use std::sync::Arc;

use common::{directory, open, write_file};
use ng_io::{
    Access, BackendChoice, IoStats, OpenOptions, Reader, ScratchError, ScratchFile, SourceError,
    SourceFile,
};
use ng_testing::Random;

#[test]
fn a_source_reads_the_same_front_to_back_in_parts_and_by_position() {
    let dir = directory();
    let path = dir.path().join("edges.bin");
    let bytes = Random::new(4).bytes(9_999_999);
    std::fs::write(&path, &bytes).expect("written");
    let source = SourceFile::open(&path).expect("opened");
    assert_eq!(source.len().expect("a length"), 9_999_999);
    let mut all = Vec::new();
    source.reader().read_to_end(&mut all).expect("read");
    assert!(all == bytes);
    let mut part = Vec::new();
    let mut reader = source.range_reader(1_000..5_000_001);
    reader.read_to_end(&mut part).expect("read");
    assert!(part == bytes[1_000..5_000_001]);
    assert_eq!(reader.position(), 5_000_001);
    let mut piece = [0; 100];
    source.read_exact_at(9_999_899, &mut piece).expect("read");
    assert_eq!(piece, bytes[9_999_899..]);
    assert_eq!(source.read_at(9_999_990, &mut piece).expect("read"), 9);
    let error = source.read_exact_at(9_999_990, &mut piece).expect_err("too short");
    assert!(matches!(&error, SourceError::Truncated { file_bytes: 9_999_999, .. }), "{error}");
    assert!(error.to_string().contains("edges.bin"), "{error}");
}

#[test]
fn a_pipe_is_read_front_to_back_and_has_no_positions() {
    let (reads, mut writes) = std::io::pipe().expect("a pipe");
    let writer = std::thread::spawn(move || {
        for _ in 0..1000 {
            writes.write_all(b"0 1\n").expect("written");
        }
    });
    let fd = std::os::fd::AsRawFd::as_raw_fd(&reads);
    let source = SourceFile::open(format!("/proc/self/fd/{fd}").as_ref()).expect("opened");
    drop(reads);
    assert!(matches!(source.len(), Err(SourceError::NotSeekable { .. })));
    assert!(source.read_at(0, &mut [0; 4]).is_err());
    let mut text = String::new();
    source.reader().read_to_string(&mut text).expect("read");
    assert_eq!(text.len(), 4000);
    writer.join().expect("no panic");
}

#[test]
fn a_missing_source_and_a_directory_are_errors_that_name_the_path() {
    let dir = directory();
    let missing = dir.path().join("nope.txt");
    let error = SourceFile::open(&missing).expect_err("missing");
    assert!(error.to_string().contains("nope.txt: no such file"), "{error}");
    let error = SourceFile::open(dir.path()).expect_err("a directory");
    assert!(matches!(error, SourceError::IsADirectory { .. }), "{error}");
}

#[test]
fn threads_append_to_one_temporary_and_find_their_bytes() {
    let dir = directory();
    let stats = Arc::new(IoStats::default());
    let file = ScratchFile::create_in(dir.path()).expect("created").counting_into(stats.clone());
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let file = &file;
            scope.spawn(move || {
                for len in 1..200 {
                    let bytes = vec![thread; len * 7];
                    let at = file.append(&bytes).expect("appended");
                    let mut found = vec![0; bytes.len()];
                    file.read_exact_at(at, &mut found).expect("read");
                    assert_eq!(found, bytes);
                }
            });
        }
    });
    let expected: u64 = (1..200).map(|len| len * 7 * 4).sum();
    assert_eq!(file.len(), expected);
    let counts = stats.counts();
    assert_eq!((counts.reads, counts.read_bytes), (4 * 199, expected));
    assert_eq!(counts.scratch_write_bytes, expected);
    let mut all = Vec::new();
    file.range_reader(0..u64::MAX).read_to_end(&mut all).expect("read");
    assert_eq!(all.len() as u64, expected);
    file.write_all_at(expected + 10, b"end").expect("written");
    file.discard(0..expected);
    let mut end = [1; 13];
    file.read_exact_at(expected, &mut end).expect("read");
    assert_eq!(&end, b"\0\0\0\0\0\0\0\0\0\0end");
    let error = file.read_exact_at(expected, &mut [0; 14]).expect_err("too long");
    assert!(matches!(error, ScratchError::Truncated { .. }), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0);
}

#[test]
fn a_temporary_needs_a_directory_that_is_there() {
    let dir = directory();
    let error = ScratchFile::create_in(&dir.path().join("no")).expect_err("no directory");
    assert!(error.to_string().contains("/no"), "{error}");
}

#[test]
fn a_file_that_is_opened_again_and_again_takes_no_more_descriptors_until_another_has_its_name() {
    let dir = directory();
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else { continue };
        let name = format!("{choice}.dat");
        let put = |byte: u8| {
            write_file(&disk, "new", &[byte; 8192]);
            disk.rename("new", &name).expect("renamed");
        };
        put(1);
        let first = disk.open(&name, Access::Read).expect("opened");
        let writable = disk.open(&name, Access::ReadWrite).expect("opened");
        assert!(disk.write(first, 0, b"x").is_err(), "who reads alone must not write");
        for _ in 0..100 {
            assert_eq!(disk.open(&name, Access::Read).expect("opened"), first);
            assert_eq!(disk.open(&name, Access::ReadWrite).expect("opened"), writable);
        }
        put(2);
        let second = disk.open(&name, Access::Read).expect("opened");
        assert!(second != first && second != writable);
        let reader = Reader::new(disk.clone());
        for (id, byte) in [(first, 1), (writable, 1), (second, 2)] {
            assert_eq!(reader.read_at(id, 0, 8192).expect("read"), [byte; 8192], "{choice}");
        }
    }
}

#[test]
fn a_scratch_file_past_the_page_cache_reads_what_was_written_and_reserves_its_space() {
    let dir = directory();
    let file = ScratchFile::create_in(dir.path()).expect("created");
    file.bypass_cache();
    file.allocate(0).expect("nothing");
    file.allocate(1 << 20).expect("reserved");
    assert_eq!(file.len(), 1 << 20);
    let mut memory = ng_io::AnonMap::new(64 << 10).expect("memory");
    for at in [3_u64, 1, 2] {
        memory.as_mut_slice().fill(at as u8);
        file.write_all_at(at * (64 << 10), memory.as_slice()).expect("written");
    }
    for (at, byte) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 0)] {
        memory.as_mut_slice().fill(9);
        file.read_exact_at(at * (64 << 10), memory.as_mut_slice()).expect("read");
        assert!(memory.as_slice().iter().all(|found| *found == byte), "{at}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0);
}
