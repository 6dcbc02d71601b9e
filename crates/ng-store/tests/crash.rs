//! D1: power is lost at any moment of a run that changes a store. Whatever is left opens, holds
//! every acknowledged commit, and no part of one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::graph::{Graph, Op, Schema};
use ng_store::{BuildOptions, OpenOptions, Store};
use ng_testing::{CrashDisk, CrashImage, ImageChoice, MemDisk, Random};

/// Images that a run of the tests tries at least.
const IMAGES: u64 = 20_000;
/// Of so many images one is used further: changed, checkpointed, opened again.
const USED_ONE_IN: u64 = 16;
/// Of so many images one loses power again while it is recovered and used.
const AGAIN_ONE_IN: u64 = 64;

#[derive(Default)]
struct Figure {
    tried: AtomicU64,
    lost: AtomicU64,
    partial: AtomicU64,
    unopenable: AtomicU64,
}

impl Figure {
    fn failed(&self) -> u64 {
        [&self.lost, &self.partial, &self.unopenable]
            .map(|counter| counter.load(Ordering::Relaxed))
            .into_iter()
            .sum()
    }

    fn count(&self, found: &Result<u64, Wrong>, seed: u64, image: &CrashImage) {
        self.tried.fetch_add(1, Ordering::Relaxed);
        let Err(wrong) = found else { return };
        let (counter, what) = match wrong {
            Wrong::Lost(what) => (&self.lost, what),
            Wrong::Partial(what) => (&self.partial, what),
            Wrong::Unopenable(what) => (&self.unopenable, what),
        };
        if counter.fetch_add(1, Ordering::Relaxed) < 10 {
            println!("seed {seed}, {image}: {what}");
        }
    }
}

enum Wrong {
    Lost(String),
    Partial(String),
    Unopenable(String),
}

fn options(log_bytes_max: u64) -> OpenOptions {
    OpenOptions { memory: Some(16 << 20), log_bytes_max, ..OpenOptions::default() }
}

fn open(disk: &Arc<dyn ng_io::Disk>) -> Result<Store, Wrong> {
    Store::open_on(Arc::clone(disk), &options(1 << 40))
        .map_err(|error| Wrong::Unopenable(error.to_string()))
}

/// A run and what each of its commits has made.
struct Run {
    disk: CrashDisk,
    /// By lsn.
    states: Vec<Graph>,
    /// So many commits may be under way.
    at_once: u64,
}

/// Commits a transaction of `ops` operations and marks it.
fn commit(store: &Store, graph: &mut Graph, random: &mut Random, disk: &CrashDisk, ops: u64) {
    let grow = random.below(5) < 3;
    let mut tx = store.write().unwrap();
    for _ in 0..ops {
        graph.step(&mut tx, random, grow).unwrap();
    }
    disk.mark(tx.commit().unwrap().lsn);
}

fn record(seed: u64) -> Run {
    let mut random = Random::new(seed);
    let options = BuildOptions { reuse_ids: seed.is_multiple_of(2), ..BuildOptions::default() };
    let mut graph = Graph::new(Schema::everything(24, options), &mut random);
    let disk = CrashDisk::new(graph.disk());
    let shared: Arc<dyn ng_io::Disk> = Arc::new(disk.clone());
    // One run in four has its checkpoints beside its transactions, on a thread.
    let log_bytes_max = if seed % 4 == 3 { 40_000 } else { 1 << 40 };
    let open = || Store::open_on(Arc::clone(&shared), &self::options(log_bytes_max)).unwrap();
    let mut store = open();
    disk.mark(0);
    let mut states = vec![graph.clone()];
    let mut held = None;
    for step in 0..10 {
        let ops = 1 + random.below(if step % 5 == 4 { 120 } else { 25 });
        commit(&store, &mut graph, &mut random, &disk, ops);
        let lsn = store.snapshot().lsn();
        // A transaction that only was refused commits nothing.
        states.resize(lsn as usize + 1, graph.clone());
        if random.below(6) == 0 {
            graph.draw_tensor(&mut random);
            disk.mark(graph.add_tensor_to(&store).unwrap());
            states.push(graph.clone());
        }
        match random.below(8) {
            0..2 => drop(store.checkpoint().unwrap()),
            2 => held = Some((store.snapshot(), graph.clone())),
            3 => store.close_writer().unwrap(),
            4 => {
                held = None;
                drop(store);
                store = open();
            }
            5 => {
                let mut tx = store.write().unwrap();
                let mut aside = graph.clone();
                (0..9).for_each(|_| drop(aside.step(&mut tx, &mut random, true).unwrap()));
            }
            _ => {}
        }
        if let Some((snapshot, graph)) = &held {
            graph.check(snapshot).unwrap();
        }
    }
    drop(store);
    Run { disk, states, at_once: 1 }
}

/// Threads that commit together.
const THREADS: u64 = 4;

/// As [`record`], with commits that are synced in groups.
fn record_groups(seed: u64) -> Run {
    let mut random = Random::new(seed);
    let graph = Graph::new(Schema::everything(24, BuildOptions::default()), &mut random);
    let inner = graph.disk();
    inner.set_sync_time(Duration::from_micros(500));
    let disk = CrashDisk::new(inner);
    let store = Store::open_on(Arc::new(disk.clone()), &options(1 << 40)).unwrap();
    disk.mark(0);
    let states = Mutex::new(vec![graph]);
    let marked = Mutex::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, states, marked, disk) = (&store, &states, &marked, &disk);
            scope.spawn(move || {
                let mut random = Random::new(seed ^ thread << 32);
                for _ in 0..3 {
                    let mut tx = store.write().unwrap();
                    let mut states = states.lock().unwrap();
                    let mut graph = states.last().unwrap().clone();
                    for _ in 0..1 + random.below(6) {
                        graph.step(&mut tx, &mut random, true).unwrap();
                    }
                    // Something in any case, so that the commit has a number.
                    let op = Op::AddNode(0);
                    let outcome = graph.run(&mut tx, &op).unwrap();
                    graph.apply(&op, Some(&outcome));
                    states.push(graph);
                    drop(states);
                    let lsn = tx.commit().unwrap().lsn;
                    let mut marked = marked.lock().unwrap();
                    *marked = lsn.max(*marked);
                    disk.mark(*marked);
                }
            });
        }
    });
    drop(store);
    Run { disk, states: states.into_inner().unwrap(), at_once: THREADS }
}

/// Opens what is left; the commit up to which it holds all.
fn recover(
    disk: &Arc<dyn ng_io::Disk>,
    states: &[Graph],
    mark: u64,
    at_once: u64,
) -> Result<u64, Wrong> {
    let store = open(disk)?;
    let snapshot = store.snapshot();
    let lsn = snapshot.lsn();
    if lsn < mark {
        return Err(Wrong::Lost(format!("commit {lsn} is the last, not {mark}")));
    }
    let Some(graph) = states.get(lsn as usize).filter(|_| lsn <= mark + at_once) else {
        return Err(Wrong::Partial(format!("commit {lsn} was not begun")));
    };
    graph.check(&snapshot).map_err(|what| Wrong::Partial(format!("commit {lsn}: {what}")))?;
    Ok(lsn)
}

/// Changes what was recovered, checkpoints, and opens it again.
fn use_on(disk: &Arc<dyn ng_io::Disk>, graph: &Graph, seed: u64) -> Result<(), Wrong> {
    let (mut graph, mut random) = (graph.clone(), Random::new(seed));
    let store = open(disk)?;
    for _ in 0..2 {
        let mut tx = store.write().unwrap();
        for _ in 0..20 {
            graph.step(&mut tx, &mut random, true).unwrap();
        }
        tx.commit().unwrap();
    }
    if seed.is_multiple_of(3) {
        // In the place of one that was not finished, if there is one.
        graph.draw_tensor(&mut random);
        graph.add_tensor_to(&store).unwrap();
    }
    store.checkpoint().unwrap();
    graph.check(&store.snapshot()).map_err(Wrong::Partial)?;
    drop(store);
    graph.check(&open(disk)?.snapshot()).map_err(Wrong::Partial)
}

/// Loses power again while an image is recovered and changed.
fn lose_again(run: &Run, image: &CrashImage, seed: u64, figure: &Figure) {
    let mark = image.mark.unwrap_or(0);
    let disk = CrashDisk::new(image.disk());
    let shared: Arc<dyn ng_io::Disk> = Arc::new(disk.clone());
    let Ok(lsn) = recover(&shared, &run.states, mark, run.at_once) else { return };
    disk.mark(lsn);
    let mut states = run.states[..=lsn as usize].to_vec();
    let mut graph = states[lsn as usize].clone();
    let mut random = Random::new(seed);
    let store = open(&shared).ok().unwrap();
    commit(&store, &mut graph, &mut random, &disk, 12);
    states.resize(store.snapshot().lsn() as usize + 1, graph);
    drop(store);
    let choice = ImageChoice { seed, from_operation: 0, random: 1, most: 3 };
    disk.for_each_image(&choice, &mut |inner| {
        let disk: Arc<dyn ng_io::Disk> = Arc::new(inner.disk());
        // What was recovered does not depend on when power is lost in recovery.
        let found = recover(&disk, &states, inner.mark.unwrap_or(lsn), 1);
        figure.count(&found, seed, inner);
    });
}

fn try_images(seed: u64, figure: &Figure) {
    // One run in five commits in groups.
    let run = if seed % 5 == 4 { record_groups(seed) } else { record(seed) };
    let mut random = Random::new(seed);
    let choice = ImageChoice { seed, from_operation: 0, random: 2, most: 4 };
    run.disk.for_each_image(&choice, &mut |image| {
        // Opened once before the first mark, when the run itself opens it.
        let mark = image.mark.unwrap_or(0);
        let disk: Arc<dyn ng_io::Disk> = Arc::new(image.disk());
        let found = recover(&disk, &run.states, mark, run.at_once);
        figure.count(&found, seed, image);
        let Ok(lsn) = found else { return };
        if random.below(USED_ONE_IN) == 0
            && let Err(wrong) = use_on(&disk, &run.states[lsn as usize], seed)
        {
            figure.count(&Err(wrong), seed, image);
        }
        if random.below(AGAIN_ONE_IN) == 0 {
            lose_again(&run, image, random.next_u64(), figure);
        }
    });
}

#[test]
fn a_torn_record_is_not_completed_by_what_an_older_one_has_left() {
    let graph = Graph::new(Schema::everything(24, BuildOptions::default()), &mut Random::new(1));
    // A row of 6 blocks.
    let set = |store: &Store, byte: u8| {
        let mut tx = store.write().unwrap();
        graph.run(&mut tx, &Op::SetRow(2, 0, vec![byte; 22_000])).unwrap();
        tx.commit().unwrap();
    };
    let open = |disk: &MemDisk| Store::open_on(Arc::new(disk.clone()), &options(1 << 40)).unwrap();
    let disk = graph.disk();
    let store = open(&disk);
    set(&store, 1);
    let mut left = disk.image();
    left.get_mut("wal.a").unwrap()[..4096].fill(0);
    let disk = MemDisk::from_image(left);
    let store = open(&disk);
    drop(store.write().unwrap());
    let before = disk.contents("wal.a").unwrap();
    set(&store, 2);
    let mut left = disk.image();
    let last = 5 * 4096..6 * 4096;
    left.get_mut("wal.a").unwrap()[last.clone()].copy_from_slice(&before[last]);
    let snapshot = open(&MemDisk::from_image(left)).snapshot();
    assert_eq!(snapshot.lsn(), 0);
    graph.check(&snapshot).unwrap();
}

#[test]
fn what_is_left_of_a_group_is_not_mixed_up_with_the_commits_that_come_instead() {
    let figure = Figure::default();
    for seed in [4, 9, 14] {
        let run = record_groups(seed);
        let choice = ImageChoice { seed, random: 2, ..ImageChoice::default() };
        let mut random = Random::new(seed);
        run.disk.for_each_image(&choice, &mut |image| {
            if random.below(200) == 0 {
                lose_again(&run, image, random.next_u64(), &figure);
            }
        });
    }
    println!("{} images", figure.tried.load(Ordering::Relaxed));
    assert_eq!(figure.failed(), 0);
}

#[test]
fn whatever_a_loss_of_power_leaves_holds_every_acknowledged_commit_and_no_part_of_one() {
    let wanted = std::env::var("NEARGRAPH_CRASH_IMAGES").ok().and_then(|n| n.parse().ok());
    let wanted = wanted.unwrap_or(IMAGES);
    let (figure, start) = (Figure::default(), Instant::now());
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while figure.tried.load(Ordering::Relaxed) < wanted && figure.failed() == 0 {
                    try_images(next.fetch_add(1, Ordering::Relaxed), &figure);
                }
            });
        }
    });
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (tried, lost) = (get(&figure.tried), get(&figure.lost));
    let (partial, unopenable) = (get(&figure.partial), get(&figure.unopenable));
    let failed = figure.failed();
    println!(
        "figure: {{\"id\":\"D1\",\"tried\":{tried},\"failed\":{failed},\"lost\":{lost},\
         \"partial\":{partial},\"unopenable\":{unopenable},\"seed\":1}}"
    );
    println!("{} runs, {:.1} s", get(&next) - 1, start.elapsed().as_secs_f64());
    assert_eq!(failed, 0);
}
