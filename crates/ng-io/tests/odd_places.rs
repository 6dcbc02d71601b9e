//! Directories where not everything works: memory file systems, no O_DIRECT, no directory at all.

#![allow(clippy::expect_used)]

mod common;

use std::path::Path;

use common::directory;
use ng_io::{BackendChoice, OpenError, OpenOptions, Reader, open_dir, probe};

#[test]
fn auto_maps_files_on_tmpfs_and_says_so() {
    let shm = Path::new("/dev/shm");
    let is_tmpfs = probe(shm).is_ok_and(|report| report.file_system == "tmpfs");
    if !is_tmpfs {
        return println!("left out: /dev/shm is no tmpfs");
    }
    let dir = tempfile::tempdir_in(shm).expect("a directory");
    std::fs::write(dir.path().join("a.dat"), vec![3; 16 * 4096]).expect("written");
    let opened = open_dir(dir.path(), BackendChoice::Auto, &OpenOptions::default());
    let opened = opened.expect("opened");
    assert_eq!(opened.disk.backend(), "mmap");
    assert!(opened.note.contains("tmpfs is in memory"), "{}", opened.note);
    for choice in BackendChoice::ALL {
        // Older kernels have no O_DIRECT on tmpfs: then `direct` says so and `uring` reads
        // buffered.
        match open_dir(dir.path(), choice, &OpenOptions::default()) {
            Ok(opened) => {
                let reader = Reader::new(opened.disk);
                let file = reader.open("a.dat").expect("opened");
                let bytes = reader.read_at(file, 0, 16 * 4096).expect("read");
                assert_eq!(bytes, vec![3; 16 * 4096]);
            }
            Err(error) => assert!(matches!(error, OpenError::Unavailable { .. }), "{error}"),
        }
    }
}

#[test]
fn without_direct_reads_auto_takes_pread_and_direct_is_refused() {
    // Files of /proc cannot be opened with O_DIRECT.
    let place = Path::new("/proc/sys/kernel");
    let options = OpenOptions::default();
    let opened = open_dir(place, BackendChoice::Auto, &options).expect("opened");
    assert_eq!(opened.disk.backend(), "pread");
    assert!(opened.note.contains("O_DIRECT does not work on proc"), "{}", opened.note);
    let error = open_dir(place, BackendChoice::ODirect, &options).expect_err("no O_DIRECT");
    let text = error.to_string();
    assert!(text.contains("direct") && text.contains("/proc/sys/kernel"), "{text}");
}

#[test]
fn what_is_not_a_directory_is_an_error_that_says_so() {
    let dir = directory();
    let file = dir.path().join("a.dat");
    std::fs::write(&file, b"x").expect("written");
    for choice in BackendChoice::ALL {
        let options = OpenOptions::default();
        let error = open_dir(&file, choice, &options).expect_err("a file");
        assert!(matches!(error, OpenError::NotADirectory { .. }), "{error}");
        let error = open_dir(&dir.path().join("no"), choice, &options).expect_err("nothing");
        assert!(matches!(error, OpenError::NotFound { .. }), "{error}");
    }
    assert!(matches!(probe(&file), Err(OpenError::NotADirectory { .. })));
}

#[test]
fn a_probe_says_what_auto_would_pick_and_leaves_nothing_behind() {
    let dir = directory();
    let report = probe(dir.path()).expect("probed");
    let opened = open_dir(dir.path(), BackendChoice::Auto, &OpenOptions::default());
    let opened = opened.expect("opened");
    assert_eq!((report.backend, &report.why), (opened.disk.backend(), &opened.note));
    assert!(report.ram_bytes > 0 && report.memlock_bytes_per_queue > 0);
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0);
    let json = serde_json::to_string_pretty(&report).expect("JSON");
    println!("{json}");
    assert!(json.contains("\"io_uring\""));
}

#[test]
fn names_of_back_ends_parse_and_wrong_ones_list_the_right_ones() {
    for choice in BackendChoice::ALL {
        assert_eq!(choice.name().parse(), Ok(choice));
    }
    let error = "nvme".parse::<BackendChoice>().expect_err("unknown");
    assert!(error.contains("\"nvme\"") && error.contains("auto, memory, mmap"), "{error}");
}
