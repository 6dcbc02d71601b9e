//! D5: what a snapshot showed once it shows for ever, whatever a writer and its checkpoints do
//! beside it, in this process and in others.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::changing::{Shape, open};
use common::graph::{Graph, Schema};
use ng_store::{
    BuildOptions, EdgeData, Expansion, OpenOptions, Owner, Snapshot, Store, StoreBuilder,
    TensorRef, UpdateError,
};
use ng_testing::{MemDisk, Random};
use ng_types::{EdgeTypeId, NodeTypeId};

/// How long readers read beside a writer.
const SECONDS: u64 = 15;
const READERS: u64 = 2;

fn options() -> OpenOptions {
    OpenOptions { memory: Some(12 << 20), log_bytes_max: 200_000, ..OpenOptions::default() }
}

fn graph(seed: u64) -> Graph {
    println!("seed {seed}");
    let options = BuildOptions { reuse_ids: true, ..BuildOptions::default() };
    Graph::new(Schema::everything(60, options), &mut Random::new(seed))
}

/// Versions that readers look at: each with what it has to show.
type Shelf = Mutex<Vec<(Arc<Snapshot>, Arc<Graph>)>>;

/// Commits transactions and checkpoints until told to stop; new versions go to the shelf.
fn write_on(
    store: &Store,
    graph: &mut Graph,
    random: &mut Random,
    shelf: &Shelf,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..1 + random.below(8) {
            let grow = graph.num_entries() < 6000;
            let mut tx = store.write().unwrap();
            (0..20).for_each(|_| drop(graph.step(&mut tx, random, grow).unwrap()));
            tx.commit().unwrap();
        }
        if random.below(6) == 0 {
            store.checkpoint().unwrap();
        }
        let version = (store.snapshot(), Arc::new(graph.clone()));
        let mut shelf = shelf.lock().unwrap();
        shelf.push(version);
        if shelf.len() > 5 {
            let which = random.below(5) as usize;
            drop(shelf.remove(which));
        }
    }
}

/// Looks at random versions, all of it or a sample; says how often.
fn read_on(shelf: &Shelf, random: &mut Random, stop: &AtomicBool) -> u64 {
    let mut looks = 0;
    let mut held = shelf.lock().unwrap()[0].clone();
    while !stop.load(Ordering::Relaxed) {
        if random.below(4) == 0 {
            let shelf = shelf.lock().unwrap();
            held = shelf[random.below(shelf.len() as u64) as usize].clone();
        }
        let (snapshot, graph) = &held;
        if random.below(8) == 0 {
            graph.check(snapshot).unwrap();
        } else {
            sample(snapshot, graph, random);
        }
        looks += 1;
    }
    looks
}

/// Compares the lists and rows of a few nodes.
fn sample(snapshot: &Snapshot, graph: &Graph, random: &mut Random) {
    let mut found = Expansion::default();
    for edge_type in 0..graph.lists.len() {
        let bound = graph.lists[edge_type].len() as u64;
        let nodes: Vec<u64> = (0..5).map(|_| random.below(bound)).collect();
        snapshot.neighbors(EdgeTypeId(edge_type as u16), &nodes, &mut found).unwrap();
        let wanted = graph.expansion(edge_type, &nodes);
        assert_eq!(found, wanted, "type {edge_type}, commit {}", snapshot.lsn());
    }
    let tensor = TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 0 };
    let (rows, width) = (&graph.rows[0], graph.schema.tensors[0].1);
    let row = random.below((rows.len() / width) as u64);
    let mut out = vec![0; width];
    snapshot.gather(tensor, &[row], &mut out).unwrap();
    assert!(out == rows[row as usize * width..][..width], "row {row}");
}

/// Says stop when it goes, by a failed assertion as well: nobody waits for a writer that is gone.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Opens the newest checkpoint again and again as another process does, and keeps it for a while.
fn follow(
    open: &(dyn Fn() -> Store + Sync),
    checkpoints: &Mutex<Vec<(u64, Arc<Graph>)>>,
    stop: &AtomicBool,
) -> u64 {
    let mut opened = 0;
    while !stop.load(Ordering::Relaxed) {
        let store = open();
        let snapshot = store.snapshot();
        let until = Instant::now() + Duration::from_millis(30);
        let graph = || {
            let known = checkpoints.lock().unwrap();
            known.iter().find(|(lsn, _)| *lsn == snapshot.lsn()).map(|(_, graph)| Arc::clone(graph))
        };
        // The root may be there a moment before the writer has told which commit it holds.
        let graph = loop {
            if let Some(graph) = graph() {
                break graph;
            }
            if stop.load(Ordering::Relaxed) {
                return opened;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        while Instant::now() < until {
            graph.check(&snapshot).unwrap();
            store.reclaim(u64::MAX);
        }
        opened += 1;
    }
    opened
}

fn seconds() -> u64 {
    let wanted = std::env::var("NEARGRAPH_ISOLATION_SECONDS").ok().and_then(|n| n.parse().ok());
    wanted.unwrap_or(SECONDS)
}

#[test]
fn a_snapshot_shows_the_same_for_ever_beside_a_writer_and_checkpoints() {
    let mut graph = graph(5);
    let store = Store::open_on(Arc::new(graph.disk()), &options()).unwrap();
    let shelf: Shelf = Mutex::new(vec![(store.snapshot(), Arc::new(graph.clone()))]);
    let (stop, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (shelf, stop, looks) = (&shelf, &stop, &looks);
            scope.spawn(move || {
                let seen = read_on(shelf, &mut Random::new(reader), stop);
                looks.fetch_add(seen, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(seconds()));
            stop.store(true, Ordering::Relaxed);
        });
        write_on(&store, &mut graph, &mut Random::new(50), &shelf, &stop);
    });
    let stats = store.update_stats().unwrap();
    let (looks, reused) = (looks.into_inner(), stats.pages_reused);
    let minutes = (seconds() * READERS) as f64 / 60.0;
    println!(
        "figure: {{\"id\":\"D5\",\"tried\":{looks},\"failed\":0,\"violations\":0,\
         \"reader_minutes\":{minutes:.2},\"pages_reused\":{reused},\"checkpoints\":{},\"seed\":5}}",
        stats.checkpoints
    );
    assert!(looks > 0 && reused > 0 && stats.checkpoints > 5);
}

/// A writer with many checkpoints beside a follower in another process.
fn beside_another_process(store: &Store, graph: &mut Graph, open: &(dyn Fn() -> Store + Sync)) {
    let checkpoints = Mutex::new(vec![(store.snapshot().lsn(), Arc::new(graph.clone()))]);
    let stop = AtomicBool::new(false);
    let mut random = Random::new(9);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow(open, &checkpoints, &stop));
        let stops = StopAtEnd(&stop);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && !follower.is_finished() {
            let mut tx = store.write().unwrap();
            (0..20).for_each(|_| drop(graph.step(&mut tx, &mut random, true).unwrap()));
            let lsn = tx.commit().unwrap().lsn;
            checkpoints.lock().unwrap().push((lsn, Arc::new(graph.clone())));
            store.checkpoint().unwrap();
            let known = checkpoints.lock().unwrap().len();
            // Only those that somebody may still open.
            checkpoints.lock().unwrap().drain(..known.saturating_sub(50));
        }
        drop(stops);
        let opened = follower.join().unwrap();
        let stats = store.update_stats().unwrap();
        println!("opened {opened} times beside {} checkpoints, {stats:?}", stats.checkpoints);
        assert!(opened > 5 && stats.pages_reused > 0);
    });
}

fn only_explicit() -> OpenOptions {
    OpenOptions { log_bytes_max: 1 << 40, ..options() }
}

#[test]
fn a_reader_in_another_process_keeps_what_it_opened() {
    let mut graph = graph(6);
    let disk = graph.disk();
    let store = Store::open_on(Arc::new(disk.clone()), &only_explicit()).unwrap();
    drop(store.write().unwrap());
    let open = || {
        let options = OpenOptions { recover: false, ..only_explicit() };
        Store::open_on(Arc::new(disk.other_process()), &options).unwrap()
    };
    beside_another_process(&store, &mut graph, &open);
}

#[test]
fn a_reader_with_files_of_its_own_keeps_what_it_opened() {
    let mut graph = graph(7);
    let dir = tempfile::tempdir().unwrap();
    graph.build(StoreBuilder::create(dir.path(), graph.schema.options).unwrap());
    let store = Store::open(dir.path(), &only_explicit()).unwrap();
    drop(store.write().unwrap());
    let open = || {
        let options = OpenOptions { recover: false, ..only_explicit() };
        Store::open(dir.path(), &options).unwrap()
    };
    beside_another_process(&store, &mut graph, &open);
}

#[test]
fn pages_come_into_use_again_once_a_pin_is_dropped() {
    let mut graph = graph(8);
    let disk = graph.disk();
    let store = Store::open_on(Arc::new(disk.clone()), &only_explicit()).unwrap();
    let other = Store::open_on(Arc::new(disk.other_process()), &only_explicit()).unwrap();
    let pinned = (other.snapshot(), graph.clone());
    let mut random = Random::new(8);
    let mut run = |graph: &mut Graph| {
        for _ in 0..12 {
            let mut tx = store.write().unwrap();
            (0..10).for_each(|_| drop(graph.step(&mut tx, &mut random, true).unwrap()));
            tx.commit().unwrap();
            store.checkpoint().unwrap();
        }
        store.update_stats().unwrap().pages_reused
    };
    assert_eq!(run(&mut graph), 0);
    pinned.1.check(&pinned.0).unwrap();
    drop((pinned, other));
    assert!(run(&mut graph) > 0);
}

#[test]
fn a_snapshot_that_outlives_its_writer_keeps_its_pages_from_the_next() {
    let mut graph = graph(9);
    let store = Store::open_on(Arc::new(graph.disk()), &only_explicit()).unwrap();
    let mut random = Random::new(10);
    let mut held = vec![(store.snapshot(), graph.clone())];
    for _ in 0..12 {
        let mut tx = store.write().unwrap();
        (0..20).for_each(|_| drop(graph.step(&mut tx, &mut random, true).unwrap()));
        tx.commit().unwrap();
        store.close_writer().unwrap();
        held.push((store.snapshot(), graph.clone()));
        store.reclaim(u64::MAX);
        held.iter().for_each(|(snapshot, graph)| graph.check(snapshot).unwrap());
    }
}

#[test]
fn new_nodes_beside_a_snapshot_that_shows_many_deleted_ones_get_new_ids_without_delay() {
    const NODES: u64 = 20_000;
    let shape = Shape { num_nodes: NODES, page_bytes: 4096, row_bytes: 1, ..Shape::default() };
    let store = open(&Shape { reuse_ids: true, undirected: true, ..shape }.build());
    let shows = store.snapshot();
    let delete = |from: u64| {
        let mut tx = store.write().unwrap();
        (from..NODES).step_by(4).for_each(|id| tx.delete_node(NodeTypeId(0), id).unwrap());
        tx.commit().unwrap();
    };
    let add = |count: u64| -> Vec<u64> {
        let mut tx = store.write().unwrap();
        let ids = (0..count).map(|_| tx.add_node(NodeTypeId(0)).unwrap()).collect();
        tx.commit().unwrap();
        ids
    };
    (0..3).for_each(delete);
    let also_shows = store.snapshot();
    delete(3);
    assert!(add(200).into_iter().eq(NODES..NODES + 200));
    drop(shows);
    assert_eq!(add(6), [0, 1, 2, 4, 5, 6]);
    drop(also_shows);
    assert_eq!(add(5), [3, 7, 8, 9, 10]);
}

/// Descriptors of this process that lead to files below `dir`.
fn descriptors(dir: &std::path::Path) -> usize {
    let dir = dir.canonicalize().unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|path| path.starts_with(&dir)).count()
}

#[test]
fn a_handle_that_becomes_the_writer_again_and_again_opens_no_more_files() {
    let graph = graph(13);
    let dir = tempfile::tempdir().unwrap();
    graph.build(StoreBuilder::create(dir.path(), graph.schema.options).unwrap());
    let store = Store::open(dir.path(), &only_explicit()).unwrap();
    let mut after_the_first = 0;
    for cycle in 0..200 {
        let mut tx = store.write().unwrap();
        if cycle % 20 == 0 {
            tx.add_node(NodeTypeId(0)).unwrap();
        }
        tx.commit().unwrap();
        store.close_writer().unwrap();
        if cycle == 0 {
            after_the_first = descriptors(dir.path());
        }
    }
    assert!(after_the_first > 0);
    assert_eq!(descriptors(dir.path()), after_the_first);
}

#[test]
fn commits_of_many_threads_share_syncs() {
    let graph = graph(11);
    let disk = graph.disk();
    disk.set_sync_time(Duration::from_micros(300));
    let store = Store::open_on(Arc::new(disk), &only_explicit()).unwrap();
    drop(store.write().unwrap());
    let before = store.update_stats().unwrap().syncs;
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for step in 0..200 {
                    let mut tx = store.write().unwrap();
                    let (a, b) = (step % 60, thread);
                    tx.add_edge(EdgeTypeId(0), a, b, EdgeData::default()).unwrap();
                    tx.commit().unwrap();
                }
            });
        }
    });
    let stats = store.update_stats().unwrap();
    println!("{} syncs for {} commits", stats.syncs - before, stats.commits);
    assert_eq!(stats.commits, 1600);
    assert!(stats.syncs - before < 1600);
    let degrees = store.snapshot().degrees(EdgeTypeId(0), &(0..60).collect::<Vec<_>>()).unwrap();
    assert!(degrees.iter().sum::<u64>() >= 3200 - 200);
}

#[test]
fn a_second_writer_is_told_that_there_is_one() {
    let graph = graph(12);
    let disk: MemDisk = graph.disk();
    let first = Store::open_on(Arc::new(disk.clone()), &options()).unwrap();
    let at_once = OpenOptions { busy_timeout: Duration::ZERO, ..options() };
    let second = Store::open_on(Arc::new(disk.other_process()), &at_once).unwrap();
    drop(first.write().unwrap());
    let Some(UpdateError::Busy { waited, .. }) = second.write().err() else {
        panic!("there is a writer");
    };
    assert_eq!(waited, Duration::ZERO);
    first.close_writer().unwrap();
    drop(second.write().unwrap());
}

#[test]
fn a_second_writer_waits_for_the_first_and_holds_up_nobody_meanwhile() {
    let graph = graph(14);
    let disk: MemDisk = graph.disk();
    let first = Store::open_on(Arc::new(disk.clone()), &options()).unwrap();
    let patient = OpenOptions { busy_timeout: Duration::MAX, ..options() };
    let second = Store::open_on(Arc::new(disk.other_process()), &patient).unwrap();
    drop(first.write().unwrap());
    let asked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let go_on = &mut || asked.fetch_add(1, Ordering::Relaxed) < u64::MAX;
            second.become_writer(go_on).unwrap();
            second.write().unwrap().commit().unwrap();
        });
        while asked.load(Ordering::Relaxed) < 5 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Other threads with the handle that waits: it is no writer, and closing returns at once.
        assert!(second.update_stats().is_none());
        second.close_writer().unwrap();
        graph.check(&second.snapshot()).unwrap();
        assert!(!waits.is_finished());
        first.close_writer().unwrap();
        waits.join().unwrap();
    });
    // The caller may end the waiting, and nothing has changed then.
    let mut left = 3;
    let stopped = first.become_writer(&mut || {
        left -= 1;
        left > 0
    });
    assert!(matches!(stopped, Err(UpdateError::Stopped)), "{stopped:?}");
    drop(second);
    drop(first.write().unwrap());
}

#[test]
fn opening_takes_the_right_to_write_only_if_commits_are_left_in_the_log() {
    let graph = graph(15);
    let disk: MemDisk = graph.disk();
    let writer = Store::open_on(Arc::new(disk.clone()), &only_explicit()).unwrap();
    let mut tx = writer.write().unwrap();
    tx.add_node(NodeTypeId(0)).unwrap();
    tx.commit().unwrap();
    // A live writer has commits in the log: a reader neither waits nor recovers.
    let reader = Store::open_on(Arc::new(disk.other_process()), &only_explicit()).unwrap();
    assert_eq!((reader.snapshot().lsn(), reader.recovery().commits), (0, 0));
    writer.close_writer().unwrap();
    let before = disk.counts().writes;
    let reader = Store::open_on(Arc::new(disk.other_process()), &only_explicit()).unwrap();
    assert_eq!((reader.snapshot().lsn(), disk.counts().writes), (1, before));
}
