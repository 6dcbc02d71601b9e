//! C1, the log: whatever is done to one of the two log files, an acknowledged commit is not rolled
//! back without an error, apart from those of the very last group (the table in
//! `docs/explanation/crash-model.md`).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::Files;
use common::graph::{Graph, Op, Schema};
use ng_store::{BuildOptions, OpenOptions, Store, Transaction, verify, verify_on};
use ng_testing::{Fault, FaultDisk, FaultPlan, MemDisk, Random};

const BLOCK: usize = 4096;
const LOGS: [&str; 2] = ["wal.a", "wal.b"];
/// Damages of one file of one store.
const DAMAGES: u64 = 80;
const STORES: u64 = 12;

fn options() -> OpenOptions {
    OpenOptions { memory: Some(16 << 20), log_bytes_max: 1 << 40, ..OpenOptions::default() }
}

/// Files of a store whose log holds commits, and what each of them has made.
struct Subject {
    files: Files,
    /// The same files some commits before.
    older: Files,
    states: Vec<Graph>,
}

impl Subject {
    fn last(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// The first commit of the very last group.
    fn last_group(&self) -> u64 {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let blocks = LOGS.iter().flat_map(|name| self.files[*name].chunks(BLOCK));
        // The first block of a record.
        let firsts = blocks.filter(|block| block[24..28] == [0; 4] && block[..2] == *b"LG");
        let of_last = firsts.filter(|block| number(&block[8..16]) == self.last());
        of_last.map(|block| number(&block[16..24])).max().unwrap()
    }
}

fn run(graph: &mut Graph, tx: &mut Transaction, op: &Op) {
    let outcome = graph.run(tx, op).unwrap();
    graph.apply(op, Some(&outcome));
}

fn commit(store: &Store, graph: &mut Graph, random: &mut Random) {
    let mut tx = store.write().unwrap();
    for _ in 0..1 + random.below(30) {
        graph.step(&mut tx, random, true).unwrap();
    }
    if random.below(3) == 0 {
        // A record of some blocks.
        run(graph, &mut tx, &Op::SetRow(2, 0, random.bytes(22_000)));
    }
    // Something in any case, so that the commit has a number.
    run(graph, &mut tx, &Op::AddNode(0));
    tx.commit().unwrap();
}

/// A checkpoint that turns to the other log file and then finds no room.
fn fail_checkpoint(store: &Store, disk: &FaultDisk) {
    let plan = || FaultPlan { window: 1, ..FaultPlan::new(1) };
    for index in 0.. {
        disk.replan(plan().with_fault_at(index, Fault::Full, false));
        let failed = store.checkpoint().is_err();
        let is_struck = disk.counts().total() > 0;
        disk.replan(plan());
        if failed {
            assert!(store.write().is_ok());
            return;
        }
        assert!(is_struck, "no operation of a checkpoint can fail");
    }
}

fn subject(seed: u64) -> Subject {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut graph = Graph::new(Schema::everything(24, BuildOptions::default()), &mut random);
    let disk = graph.disk();
    disk.set_sync_time(Duration::from_micros(300));
    let plan = FaultPlan { window: 1, ..FaultPlan::new(1) };
    let shared = Arc::new(FaultDisk::new(Arc::new(disk.clone()), plan));
    let store = Store::open_on(Arc::clone(&shared) as Arc<dyn ng_io::Disk>, &options()).unwrap();
    let mut states = vec![graph.clone()];
    for _ in 0..seed % 4 {
        (0..1 + random.below(4)).for_each(|_| {
            commit(&store, &mut graph, &mut random);
            states.push(graph.clone());
        });
        store.checkpoint().unwrap();
    }
    let older = disk.image();
    let count = 2 + random.below(7);
    // In some stores the commits behind the root are in both files.
    let turn = seed.is_multiple_of(3).then(|| 1 + random.below(count - 1));
    for number in 0..count {
        if turn == Some(number) {
            fail_checkpoint(&store, &shared);
        }
        commit(&store, &mut graph, &mut random);
        states.push(graph.clone());
    }
    if seed % 3 == 1 {
        states = commit_together(&store, states);
    }
    let files = disk.image();
    drop(store);
    Subject { files, older, states }
}

/// Commits of several threads, which are synced in groups.
fn commit_together(store: &Store, states: Vec<Graph>) -> Vec<Graph> {
    let states = Mutex::new(states);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let states = &states;
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..3 {
                    let mut tx = store.write().unwrap();
                    let mut states = states.lock().unwrap();
                    let mut graph = states.last().unwrap().clone();
                    run(&mut graph, &mut tx, &Op::SetRow(2, 0, random.bytes(22_000)));
                    run(&mut graph, &mut tx, &Op::AddNode(0));
                    states.push(graph);
                    drop(states);
                    tx.commit().unwrap();
                }
            });
        }
    });
    states.into_inner().unwrap()
}

/// Damages a log of some blocks; `older` is what it held before. Says what it did.
fn damage(log: &mut [u8], older: &[u8], random: &mut Random) -> String {
    let used = log.chunks(BLOCK).rposition(|block| block.iter().any(|b| *b != 0)).unwrap_or(0) + 1;
    let at = random.below(used as u64) as usize;
    let count = 1 + random.below((used - at) as u64) as usize;
    let blocks = at * BLOCK..(at + count) * BLOCK;
    let room = log.len() / BLOCK - at - count;
    match random.below(6) {
        0 => {
            log[blocks].fill(0);
            format!("zeros at {at}, {count} blocks")
        }
        1 => {
            log[at * BLOCK..].fill(0);
            format!("zeros from {at} on")
        }
        2 => {
            let by = 1 + random.below(room.clamp(1, 9) as u64) as usize;
            let by = by.min(room);
            let kept = log[blocks.clone()].to_vec();
            log[blocks.clone()].fill(0);
            log[blocks.start + by * BLOCK..blocks.end + by * BLOCK].copy_from_slice(&kept);
            format!("{count} blocks at {at} shifted by {by}")
        }
        3 => {
            let by = random.below(at as u64 + 1) as usize;
            log.copy_within(blocks, (at - by) * BLOCK);
            format!("{count} blocks at {at} shifted back by {by}")
        }
        4 => {
            let other = random.below(used as u64) as usize;
            for byte in 0..BLOCK {
                log.swap(at * BLOCK + byte, other * BLOCK + byte);
            }
            format!("blocks {at} and {other} swapped")
        }
        _ => {
            let end = blocks.end.min(older.len());
            let start = blocks.start.min(end);
            log[start..end].copy_from_slice(&older[start..end]);
            format!("{count} older blocks at {at}")
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    tried: u64,
    refused: u64,
    right: u64,
    last_group: u64,
    silent: u64,
}

fn try_damage(subject: &Subject, files: Files, what: &str, tally: &mut Tally) {
    tally.tried += 1;
    let report =
        verify_on(Arc::new(MemDisk::from_image(files.clone())), &options(), &mut |_, _| true);
    let is_told = report.is_ok_and(|report| !report.is_ok());
    let Ok(store) = Store::open_on(Arc::new(MemDisk::from_image(files)), &options()) else {
        assert!(is_told, "{what}: refused, but verify saw nothing");
        tally.refused += 1;
        return;
    };
    let snapshot = store.snapshot();
    let lsn = snapshot.lsn();
    subject.states[lsn as usize].check(&snapshot).unwrap();
    if lsn == subject.last() {
        tally.right += 1;
    } else if lsn + 1 >= subject.last_group() {
        tally.last_group += 1;
    } else {
        println!("{what}: commit {lsn} is the last, not {}", subject.last());
        tally.silent += 1;
    }
}

#[test]
fn no_damage_of_one_log_file_rolls_back_more_than_the_very_last_group_without_an_error() {
    let mut tally = Tally::default();
    for seed in 0..STORES {
        let (subject, mut random) = (subject(seed), Random::new(seed ^ 0xDA));
        for name in LOGS {
            for _ in 0..DAMAGES {
                let mut files = subject.files.clone();
                let log = files.get_mut(name).unwrap();
                let did = damage(log, &subject.older[name], &mut random);
                let what = format!("seed {seed}, {name}, {did}");
                try_damage(&subject, files, &what, &mut tally);
            }
        }
    }
    println!("{tally:?}");
    assert_eq!(tally.silent, 0, "{tally:?}");
    assert!(tally.refused > 200 && tally.right > 200 && tally.last_group > 10, "{tally:?}");
}

/// A store in a directory whose writer was killed with two commits in the log.
fn killed(dir: &Path) -> u64 {
    let mut random = Random::new(3);
    let mut graph = Graph::new(Schema::everything(24, BuildOptions::default()), &mut random);
    let disk = graph.disk();
    let store = Store::open_on(Arc::new(disk.clone()), &options()).unwrap();
    commit(&store, &mut graph, &mut random);
    commit(&store, &mut graph, &mut random);
    for (name, bytes) in disk.image() {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    store.snapshot().lsn()
}

#[test]
fn what_is_read_of_a_log_is_bounded_by_records_and_not_by_its_length() {
    // Nothing but the length; and blocks of a record, each within reach of the next.
    for blocks in [vec![], (1_u64..1_000).map(|n| n << 30).collect()] {
        for name in LOGS {
            let dir = tempfile::tempdir().unwrap();
            let lsn = killed(dir.path());
            let log = std::fs::File::options().write(true).open(dir.path().join(name)).unwrap();
            let block = std::fs::read(dir.path().join("wal.a")).unwrap()[..BLOCK].to_vec();
            log.set_len(1 << 40).unwrap();
            for at in &blocks {
                log.write_all_at(&block, *at).unwrap();
            }
            let report = verify(dir.path(), &options(), &mut |_, _| true).unwrap();
            assert!(report.is_ok(), "{:?}", report.problems);
            let store = Store::open(dir.path(), &options()).unwrap();
            assert_eq!((store.snapshot().lsn(), store.recovery().commits), (lsn, lsn));
            let mut tx = store.write().unwrap();
            tx.add_node(ng_types::NodeTypeId(0)).unwrap();
            tx.commit().unwrap();
            let read_bytes = store.stats().read_bytes;
            assert!(read_bytes < 5 << 30, "{read_bytes} bytes were read");
        }
    }
}

#[test]
fn who_does_not_want_to_go_on_ends_the_reading_of_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let lsn = killed(dir.path());
    let options = OpenOptions { go_on: || false, ..options() };
    let error = Store::open(dir.path(), &options).err().unwrap();
    assert!(error.to_string().contains("stopped"), "{error}");
    assert!(verify(dir.path(), &options, &mut |_, _| true).unwrap().stopped);
    assert_eq!(Store::open(dir.path(), &self::options()).unwrap().snapshot().lsn(), lsn);
}
