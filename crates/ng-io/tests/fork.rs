//! A forked process gets an error at once instead of its parent's rings and threads.

#![allow(clippy::expect_used)]

mod common;

use std::time::{Duration, Instant};

use common::{directory, open};
use ng_io::{BackendChoice, Existing, OpenOptions, ReadError, Reader, StagingDir};

/// Runs `work` in a fork and gives its exit code, or 99 if it hangs.
fn in_a_fork(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child only runs `work`, which takes no lock that another thread of the test may
    // hold (the allocator looks after its own), and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork works");
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(98);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let (start, mut status) = (Instant::now(), 0);
    loop {
        // SAFETY: `status` is valid for the call; `pid` is the child of this thread alone.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if ended == pid {
            return if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 97 };
        }
        if start.elapsed() > Duration::from_secs(30) {
            // SAFETY: the child has not been waited for, so the number is still its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            return 99;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_fork_gets_an_error_and_may_drop_what_it_has_and_the_parent_goes_on() {
    let dir = directory();
    std::fs::write(dir.path().join("a.dat"), vec![5; 64 * 4096]).expect("written");
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let reader = Reader::new(disk);
        let file = reader.open("a.dat").expect("opened");
        reader.read_at(file, 0, 64 * 4096).expect("read");
        let mut reader = Some(reader);
        let code = in_a_fork(|| {
            let reader = reader.take().expect("there");
            let error = reader.read_at(file, 0, 4096).expect_err("forked");
            let named = matches!(error, ReadError::Forked { .. });
            let mut op = Some(ng_io::ReadOp { tag: 0, file, offset: 0, len: 4096 });
            let raw = match choice {
                // These have nothing that a fork could break.
                BackendChoice::Memory | BackendChoice::Mmap => true,
                _ => reader.disk().read(&mut || op.take(), &mut |_, _| {}).is_err(),
            };
            drop(reader);
            i32::from(!(named && raw))
        });
        assert_eq!(code, 0, "{choice}");
        let reader = reader.expect("the parent still has it");
        assert_eq!(reader.read_at(file, 0, 64 * 4096).expect("read"), vec![5; 64 * 4096]);
    }
}

#[test]
fn a_fork_can_open_the_same_directory_again() {
    let dir = directory();
    std::fs::write(dir.path().join("a.dat"), vec![5; 64 * 4096]).expect("written");
    let options = OpenOptions::default();
    let parents = open(dir.path(), BackendChoice::Auto, &options).expect("opened");
    let code = in_a_fork(|| {
        let disk = open(dir.path(), BackendChoice::Auto, &options).expect("opened");
        let reader = Reader::new(disk);
        let file = reader.open("a.dat").expect("opened");
        i32::from(reader.read_at(file, 0, 64 * 4096).expect("read") != vec![5; 64 * 4096])
    });
    assert_eq!(code, 0);
    drop(parents);
}

#[test]
fn a_fork_does_not_remove_what_its_parent_builds() {
    let dir = directory();
    let mut staging =
        Some(StagingDir::create(&dir.path().join("g.ng"), Existing::Refuse).expect("staged"));
    let code = in_a_fork(|| {
        drop(staging.take());
        0
    });
    assert_eq!(code, 0);
    assert!(staging.expect("the parent still has it").path().is_dir());
}

#[test]
fn a_fork_neither_locks_nor_gives_back_what_its_parent_has_locked() {
    let dir = directory();
    let open = || open(dir.path(), BackendChoice::Pread, &OpenOptions::default()).expect("works");
    let (disk, other) = (open(), open());
    let mut held = Some((disk.lock_writer(), disk.pin(3)));
    let code = in_a_fork(|| {
        let refused = disk.lock_writer().is_err() && disk.pin(4).is_err();
        drop(held.take());
        i32::from(!refused)
    });
    assert_eq!(code, 0);
    assert!(other.lock_writer().expect("works").is_none());
    assert!(other.is_pinned_below(4).expect("works"));
    drop(held);
    assert!(other.lock_writer().expect("works").is_some());
    assert!(!other.is_pinned_below(4).expect("works"));
}
