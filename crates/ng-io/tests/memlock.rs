//! io_uring under a small limit of lockable memory: it goes without registered buffers, and says
//! so.

#![allow(clippy::expect_used)]

mod common;

use common::{child_argument, count_wrong, directory, random_ops, spawn_child, write_file};
use ng_io::{BackendChoice, OpenOptions, Reader, open_dir};
use ng_testing::Random;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Takes the right to lock more memory than the limit from this thread and from those it starts.
fn live_under(limit_bytes: u64) {
    let limit = Rlimit { current: Some(limit_bytes), maximum: Some(limit_bytes) };
    setrlimit(Resource::Memlock, limit).expect("lowered");
    let mut sets = capabilities(None).expect("known");
    sets.effective.remove(CapabilitySet::IPC_LOCK);
    sets.permitted.remove(CapabilitySet::IPC_LOCK);
    sets.inheritable.remove(CapabilitySet::IPC_LOCK);
    set_capabilities(None, sets).expect("taken away");
}

fn read_under_a_limit(dir: &std::path::Path, limit_bytes: u64) -> String {
    live_under(limit_bytes);
    let opened = match open_dir(dir, BackendChoice::Uring, &OpenOptions::default()) {
        Ok(opened) => opened,
        Err(error) => return format!("left out: {error}"),
    };
    let bytes = std::fs::read(dir.join("a.dat")).expect("read");
    let reader = Reader::new(opened.disk);
    let file = reader.open("a.dat").expect("opened");
    // Eight rings at once, which is more than 8 MiB of staging.
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let (reader, bytes, start) = (&reader, &bytes, &start);
            scope.spawn(move || {
                start.wait();
                let ops = random_ops(&mut Random::new(seed), file, 256, 2000, 4);
                assert_eq!(count_wrong(reader, &ops, bytes), 0);
            });
        }
    });
    opened.note
}

#[test]
fn rings_work_under_small_limits_of_lockable_memory_and_the_note_says_how() {
    let name = "rings_work_under_small_limits_of_lockable_memory_and_the_note_says_how";
    if let Some(dir) = child_argument() {
        let limit = dir.file_name().and_then(|name| name.to_str()).expect("a number");
        let limit: u64 = limit.parse().expect("a number");
        let note = read_under_a_limit(&dir, limit);
        println!("{note}");
        let registered = limit > 1 << 20;
        let left_out = note.starts_with("left out");
        assert!(left_out || registered != note.contains("without registered buffers"), "{note}");
        assert!(left_out || registered || note.contains("RLIMIT_MEMLOCK is 65536"), "{note}");
        return;
    }
    let root = directory();
    // An ordinary user's 8 MiB; and far less, where only some of the rings themselves find room.
    for limit in [8 << 20, 64 << 10] {
        let dir = root.path().join(limit.to_string());
        std::fs::create_dir(&dir).expect("made");
        let opened = open_dir(&dir, BackendChoice::Pread, &OpenOptions::default());
        let disk = opened.expect("opened").disk;
        write_file(&disk, "a.dat", &Random::new(1).bytes(256 * 4096));
        let status = spawn_child(name, &dir).wait().expect("ended");
        assert!(status.success(), "limit {limit}");
    }
}
