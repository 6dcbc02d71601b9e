//! D8: readers, writers and maintenance do not disturb each other. Opening never fails because the
//! files are replaced at that moment, a writer is never refused because somebody opens the store,
//! and snapshots show the same for ever.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::graph::{Graph, Schema};
use ng_io::BackendChoice;
use ng_store::{
    BuildOptions, OpenError, OpenOptions, RowOrder, Snapshot, Store, StoreBuilder, UpdateError,
    compact, reorganize, verify,
};
use ng_testing::Random;
use ng_types::NodeTypeId;

/// Counts of the short tier; NEARGRAPH_OPENS and NEARGRAPH_WRITES give others.
const OPENS: u64 = 200;
const WRITES: u64 = 200;
const THREADS: u64 = 2;
/// Stores that each opening thread keeps open while their files are replaced.
const KEPT: usize = 4;

fn count(variable: &str, short: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(short)
}

fn options(backend: BackendChoice) -> OpenOptions {
    OpenOptions { memory: Some(12 << 20), backend, queue_depth: 4, ..OpenOptions::default() }
}

fn built(dir: &Path, seed: u64) -> (std::path::PathBuf, Graph) {
    println!("seed {seed}");
    let schema = Schema::everything(60, BuildOptions::default());
    let graph = Graph::new(schema, &mut Random::new(seed));
    let path = dir.join("g.ng");
    std::fs::create_dir(&path).unwrap();
    graph.build(StoreBuilder::create(&path, graph.schema.options).unwrap());
    (path, graph)
}

/// The back ends that work here; those that do not are named.
fn backends(path: &Path) -> Vec<BackendChoice> {
    let named = BackendChoice::ALL.into_iter().filter(|choice| *choice != BackendChoice::Auto);
    let works = |choice: &BackendChoice| match Store::open(path, &options(*choice)) {
        Ok(_) => true,
        Err(OpenError::BackendUnavailable { what, .. }) => {
            println!("left out: {choice}: {what}");
            false
        }
        Err(error) => panic!("{choice}: {error}"),
    };
    named.filter(works).collect()
}

/// What went wrong, with the first few messages.
#[derive(Default)]
struct Failures(AtomicU64);

impl Failures {
    fn add(&self, what: &str) {
        if self.0.fetch_add(1, Ordering::Relaxed) < 5 {
            println!("failed: {what}");
        }
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Compacts and reorganises until told to stop; says how often the files were replaced.
fn maintain(path: &Path, stop: &AtomicBool, failures: &Failures) -> u64 {
    let mut random = Random::new(1);
    let mut replaced = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut orders = |snapshot: &Arc<Snapshot>| {
            let count = snapshot.catalog().node_types[0].num_nodes;
            let mut ids: Vec<u32> = (0..count as u32).collect();
            let by = random.below(count) as usize;
            ids.rotate_left(by);
            let held = snapshot.reserve(RowOrder::bytes_for(count)).unwrap();
            Ok::<_, UpdateError>(vec![(NodeTypeId(0), RowOrder::of(&ids, held).unwrap())])
        };
        let options = options(BackendChoice::Auto);
        let done = match replaced % 2 {
            0 => compact(path, &options, &mut |_, _| true),
            _ => reorganize(path, &options, &mut orders, &mut |_, _| true),
        };
        if let Err(error) = done {
            failures.add(&format!("maintenance: {error}"));
        }
        replaced += 1;
    }
    replaced
}

/// Opens the store again and again, reads all of it at once and when its files are long gone.
fn open_on(
    path: &Path,
    (backends, opens): (&[BackendChoice], u64),
    graph: &Graph,
    failures: &Failures,
) {
    let mut kept: VecDeque<Store> = VecDeque::new();
    let look = |store: &Store, when: &str| {
        if let Err(wrong) = graph.check(&store.snapshot()) {
            failures.add(&format!("{}, {when}: {wrong}", store.backend()));
        }
    };
    for number in 0..opens {
        let choice = backends[number as usize % backends.len()];
        let store = match Store::open(path, &options(choice)) {
            Ok(store) => store,
            Err(error) => {
                failures.add(&format!("{choice}: {error}"));
                continue;
            }
        };
        look(&store, "opened");
        kept.push_back(store);
        if number % 16 == 0 {
            match verify(path, &options(choice), &mut |_, _| true) {
                Ok(report) if report.is_ok() => {}
                other => failures.add(&format!("verify, {choice}: {other:?}")),
            }
        }
        if kept.len() > KEPT {
            let oldest = kept.pop_front().unwrap();
            oldest.reclaim(u64::MAX);
            look(&oldest, "kept");
            match oldest.scrub(&mut |_, _| true, None) {
                Ok(report) if report.is_ok() => {}
                other => failures.add(&format!("scrub, {choice}: {other:?}")),
            }
        }
    }
}

#[test]
fn opening_beside_compact_and_reorganize_always_works_and_snapshots_stay_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (path, graph) = built(dir.path(), 81);
    let backends = backends(&path);
    let opens = count("NEARGRAPH_OPENS", OPENS);
    let (failures, changed, stop) = (Failures::default(), Failures::default(), false.into());
    let open = |choice: &BackendChoice| Store::open(&path, &options(*choice)).unwrap();
    let held: Vec<Store> = backends.iter().map(open).collect();
    let (mut replaced, mut hashed) = (0, 0);
    std::thread::scope(|scope| {
        let maintainer = scope.spawn(|| maintain(&path, &stop, &failures));
        let each =
            |_| scope.spawn(|| open_on(&path, (&backends, opens / THREADS), &graph, &failures));
        let openers: Vec<_> = (0..THREADS).map(each).collect();
        while !openers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            for store in &held {
                store.reclaim(u64::MAX);
                if let Err(wrong) = graph.check(&store.snapshot()) {
                    changed.add(&format!("{}, long-lived: {wrong}", store.backend()));
                }
                hashed += 1;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        stop.store(true, Ordering::Relaxed);
        replaced = maintainer.join().unwrap();
    });
    let (failed, changed) = (failures.count(), changed.count());
    println!(
        "figure: {{\"id\":\"D8\",\"tried\":{opens},\"failed\":{},\"opens\":{opens},\
         \"false_errors\":{failed},\"back_ends\":{},\"replaced\":{replaced},\
         \"snapshots_read\":{hashed},\"changed\":{changed},\"seed\":81}}",
        failed + changed,
        backends.len(),
    );
    assert_eq!((failed, changed), (0, 0));
    assert!(replaced > 3 && hashed > 0);
}

#[test]
fn a_writer_beside_readers_that_open_the_store_is_never_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut graph) = built(dir.path(), 82);
    let writes = count("NEARGRAPH_WRITES", WRITES);
    let (failures, stop, opened) = (Failures::default(), AtomicBool::new(false), AtomicU64::new(0));
    let options = options(BackendChoice::Pread);
    let read = || {
        let mut newest = 0;
        while !stop.load(Ordering::Relaxed) {
            match Store::open(&path, &options) {
                Ok(store) if store.snapshot().lsn() >= newest => newest = store.snapshot().lsn(),
                Ok(store) => failures.add(&format!("{} after {newest}", store.snapshot().lsn())),
                Err(error) => failures.add(&format!("opening: {error}")),
            }
            opened.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut refused = 0;
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|_| drop(scope.spawn(read)));
        let mut random = Random::new(83);
        let mut store = Store::open(&path, &options).unwrap();
        for number in 0..writes {
            match store.write() {
                Ok(mut tx) => {
                    drop(graph.step(&mut tx, &mut random, graph.num_entries() < 3000).unwrap());
                    tx.commit().unwrap();
                }
                Err(error) => {
                    refused += 1;
                    println!("refused: {error}");
                }
            }
            // The lock is given back after each, with commits in the log or without.
            match number % 4 {
                0 => store = Store::open(&path, &options).unwrap(),
                _ => store.close_writer().unwrap(),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (failed, opened) = (failures.count(), opened.into_inner());
    println!(
        "figure: {{\"id\":\"D8\",\"tried\":{writes},\"failed\":{},\"writes\":{writes},\
         \"refused\":{refused},\"opens\":{opened},\"false_errors\":{failed},\"seed\":82}}",
        refused + failed
    );
    assert_eq!((refused, failed), (0, 0));
    assert!(opened > 0);
    graph.check(&Store::open(&path, &options).unwrap().snapshot()).unwrap();
}
