//! D9: what was acknowledged can be read where nothing can be written: after a crash, on a disk
//! that is full or read-only.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::graph::{Graph, Schema};
use common::model::Model;
use common::seeded;
use ng_store::{BuildOptions, OpenError, OpenOptions, Owner, Store, UpdateError};
use ng_testing::{CrashDisk, ImageChoice, MemDisk, Random, Room};
use ng_types::NodeTypeId;

const RUNS: u64 = 12;

fn options(memory: u64) -> OpenOptions {
    OpenOptions { memory: Some(memory), log_bytes_max: 1 << 40, ..OpenOptions::default() }
}

fn open(disk: &MemDisk) -> Result<Store, OpenError> {
    Store::open_on(Arc::new(disk.clone()), &options(16 << 20))
}

/// A run with checkpoints, and what each of its commits has made.
fn record(seed: u64) -> (CrashDisk, Vec<Graph>) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut graph = Graph::new(Schema::everything(24, BuildOptions::default()), &mut random);
    let disk = CrashDisk::new(graph.disk());
    let store = Store::open_on(Arc::new(disk.clone()), &options(16 << 20)).unwrap();
    disk.mark(0);
    let mut states = vec![graph.clone()];
    for _ in 0..5 {
        let mut tx = store.write().unwrap();
        for _ in 0..1 + random.below(40) {
            graph.step(&mut tx, &mut random, true).unwrap();
        }
        disk.mark(tx.commit().unwrap().lsn);
        states.resize(store.snapshot().lsn() as usize + 1, graph.clone());
        if random.below(3) == 0 {
            store.checkpoint().unwrap();
        }
    }
    (disk, states)
}

/// Opens what a crash has left where nothing can be written; the commit that is the last.
fn look(disk: &MemDisk, states: &[Graph], room: Option<Room>) -> Result<u64, String> {
    let store = open(disk).map_err(|error| error.to_string())?;
    let snapshot = store.snapshot();
    states[snapshot.lsn() as usize].check(&snapshot)?;
    let waits = store.read_only_because();
    if snapshot.lsn() > snapshot.checkpoint_lsn() {
        let waits = waits.ok_or("the store does not say that it is read-only")?;
        let error = store.write().err().ok_or("a transaction was begun")?;
        let text = error.to_string();
        if !matches!(error, UpdateError::Write(_)) || !text.contains(&waits) {
            return Err(format!("{text}, not {waits}"));
        }
        // It is read as before, and once there is room it is as any other.
        states[snapshot.lsn() as usize].check(&store.snapshot())?;
        if room.is_some() {
            disk.set_room(Room::Free);
            let mut tx = store.write().map_err(|error| error.to_string())?;
            tx.add_node(NodeTypeId(0)).map_err(|error| error.to_string())?;
            tx.commit().map_err(|error| error.to_string())?;
            assert_eq!(store.read_only_because(), None);
            let shown = store.snapshot();
            assert_eq!((shown.lsn(), shown.checkpoint_lsn()), (snapshot.lsn() + 1, snapshot.lsn()));
        }
    }
    Ok(snapshot.lsn())
}

#[test]
fn every_acknowledged_commit_can_be_read_on_a_disk_that_is_full_or_read_only() {
    let (mut tried, mut missing, mut in_memory) = (0_u64, 0_u64, 0_u64);
    for seed in 0..RUNS {
        let (disk, states) = record(seed);
        let choice = ImageChoice { seed, from_operation: 0, random: 1, most: 2 };
        let mut number = 0;
        disk.for_each_image(&choice, &mut |image| {
            number += 1;
            let room = [None, Some(Room::Full), Some(Room::FullOfCopies)][number % 3];
            let left = image.disk();
            let left = match room {
                None => left.read_only(),
                Some(room) => {
                    left.set_room(room);
                    left
                }
            };
            tried += 1;
            in_memory += u64::from(open(&left).is_ok_and(|s| s.read_only_because().is_some()));
            let mark = image.mark.unwrap_or(0);
            let found = look(&left, &states, room);
            if !found.as_ref().is_ok_and(|lsn| *lsn >= mark) {
                println!("seed {seed}, {image}, {room:?}: {mark} acknowledged, {found:?}");
                missing += 1;
            }
        });
    }
    println!("{in_memory} replayed in memory");
    println!(
        "figure: {{\"id\":\"D9\",\"tried\":{tried},\"failed\":{missing},\"missing\":{missing},\
         \"seed\":0}}"
    );
    assert_eq!(missing, 0);
    assert!(tried > 1_000 && in_memory > tried / 10, "{tried} tried, {in_memory} in memory");
}

#[test]
fn commits_that_do_not_fit_the_memory_are_refused_with_a_minimum_that_works() {
    let mut random = seeded(9);
    let mut model = Model::new(&[9_000], 4096);
    model.tensor(Owner::Node(NodeTypeId(0)), 1024, &mut random);
    let (disk, tensor) = (model.build(), model.tensor_ref(0));
    let store = Store::open_on(disk.clone(), &options(256 << 20)).expect("opens");
    model.tensors[0].bytes.iter_mut().for_each(|byte| *byte = !*byte);
    for (first, bytes) in (0..).step_by(100).zip(model.tensors[0].bytes.chunks(100 * 1024)) {
        let rows: Vec<u64> = (first..first + 100).collect();
        let mut tx = store.write().expect("writes");
        tx.set_rows(tensor, &rows, bytes).expect("changes");
        tx.commit().expect("commits");
    }
    let crashed = MemDisk::from_image(disk.durable_image()).read_only();
    let open = |memory| Store::open_on(Arc::new(crashed.clone()), &options(memory));
    let error = open(4 << 20).err().expect("9 MB of changed pages");
    let OpenError::CommitsTooLarge { minimum_bytes, commits: 90, .. } = error else {
        panic!("{error}");
    };
    assert!((18_000_000..40_000_000).contains(&minimum_bytes), "{minimum_bytes}");
    let store = open(minimum_bytes).expect("the minimum works");
    assert!(store.budget().peak_bytes() <= minimum_bytes);
    model.compare(&store.snapshot(), &mut random, 1_000);
    assert!(store.budget().peak_bytes() <= minimum_bytes);
}

#[test]
fn commits_of_a_live_writer_are_left_to_it_where_nothing_can_be_written() {
    let model = Model::new(&[5], 4096);
    let disk = model.build();
    let writer = Store::open_on(disk.clone(), &options(16 << 20)).expect("sound");
    let mut tx = writer.write().expect("nobody else writes");
    tx.add_node(NodeTypeId(0)).expect("room");
    tx.commit().expect("written");
    let store = open(&disk.read_only()).expect("may be read");
    assert_eq!((store.snapshot().lsn(), store.read_only_because()), (0, None));
}
