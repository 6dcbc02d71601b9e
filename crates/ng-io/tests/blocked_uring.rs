//! A container that forbids io_uring, as most do: the real filter, in a child process.

#![allow(clippy::expect_used)]

mod common;

use common::{child_argument, count_wrong, directory, random_ops, spawn_child, write_file};
use ng_io::{BackendChoice, OpenError, OpenOptions, Reader, open_dir, probe};
use ng_testing::Random;

/// Lets every system call through but `io_uring_setup`, which gets EPERM, for this thread and those
/// it starts. False where the kernel has no such filters.
fn forbid_io_uring() -> bool {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let number = libc::SYS_io_uring_setup as u32;
    let same = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut program = [
        // The number of the call stands first in `seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { code: same as u16, jt: 0, jf: 1, k: number },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain numbers are passed; the call changes a flag of this thread alone.
    let first = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: `filter` and the program that it points to live through the call, which copies them.
    let second =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    first == 0 && second == 0
}

#[test]
fn where_io_uring_is_forbidden_auto_reads_with_threads_and_says_so() {
    let name = "where_io_uring_is_forbidden_auto_reads_with_threads_and_says_so";
    let Some(dir) = child_argument() else {
        let dir = directory();
        let opened = open_dir(dir.path(), BackendChoice::Pread, &OpenOptions::default());
        let bytes = Random::new(1).bytes(256 * 4096);
        write_file(&opened.expect("opened").disk, "a.dat", &bytes);
        let status = spawn_child(name, dir.path()).wait().expect("ended");
        assert!(status.success());
        return;
    };
    if !forbid_io_uring() {
        return println!("left out: no system call filters here");
    }
    let options = OpenOptions::default();
    let error = open_dir(&dir, BackendChoice::Uring, &options).expect_err("forbidden");
    assert!(matches!(error, OpenError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("not permitted"), "{error}");

    let opened = open_dir(&dir, BackendChoice::Auto, &options).expect("falls back");
    println!("{}", opened.note);
    assert_ne!(opened.disk.backend(), "uring");
    assert!(opened.note.contains("not permitted") || opened.note.contains("O_DIRECT"));
    let reader = Reader::new(opened.disk);
    let file = reader.open("a.dat").expect("opened");
    let ops = random_ops(&mut Random::new(2), file, 256, 5_000, 4);
    let bytes = std::fs::read(dir.join("a.dat")).expect("read");
    assert_eq!(count_wrong(&reader, &ops, &bytes), 0);

    let report = probe(&dir).expect("probed");
    assert!(!report.io_uring.works && report.backend != "uring");
    assert!(report.advice.iter().any(|line| line.contains("io_uring_setup")));
}
