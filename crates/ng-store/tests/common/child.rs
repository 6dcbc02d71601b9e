//! A writer that may be killed at any moment: what it does is a function of a seed and of the
//! number of the commit, so whoever finds the store knows what it has to hold.

use std::path::Path;
use std::time::Duration;

use ng_store::{BuildOptions, OpenOptions, Store, StoreBuilder, Transaction, UpdateError};
use ng_testing::Random;

use super::graph::{Graph, Op, Outcome, Schema};

/// Options of the writer and of those who look after it.
pub fn options() -> OpenOptions {
    OpenOptions { memory: Some(12 << 20), log_bytes_max: 400_000, ..OpenOptions::default() }
}

/// The graph at commit 0.
pub fn imported(seed: u64) -> Graph {
    Graph::new(Schema::everything(24, BuildOptions::default()), &mut Random::new(seed))
}

/// Imports it into `dir`, which is empty.
pub fn build(dir: &Path, seed: u64) {
    let graph = imported(seed);
    graph.build(StoreBuilder::create(dir, graph.schema.options).unwrap());
}

/// Does commit `lsn` to the graph.
pub fn repeat(graph: &mut Graph, seed: u64, lsn: u64) {
    if !adds_tensor(graph, seed, lsn) {
        commit(graph, seed, lsn, &mut |_, _| {});
    }
}

/// Does commit `lsn` to the graph, and tells `run` of each operation before.
fn commit(graph: &mut Graph, seed: u64, lsn: u64, run: &mut dyn FnMut(&Graph, &Op)) {
    let mut random = Random::new(seed.rotate_left(32) ^ lsn);
    let (mut left, mut changed) = (1 + random.below(16), false);
    while left > 0 || !changed {
        let op = graph.draw(&mut random, lsn % 64 < 36);
        run(graph, &op);
        let outcome = graph.apply(&op, None);
        changed |= match (&op, outcome) {
            (Op::AddEdges(_, sources, ..), _) => !sources.is_empty(),
            (Op::SetRows(_, rows, _), _) => !rows.is_empty(),
            (_, Outcome::Ids(_) | Outcome::Count(_) | Outcome::Done) => true,
            _ => false,
        };
        left = left.saturating_sub(1);
    }
}

/// Whether commit `lsn` adds a tensor instead; it does that to the graph then.
fn adds_tensor(graph: &mut Graph, seed: u64, lsn: u64) -> bool {
    let adds = lsn % 23 == 5 && graph.rows.len() < 12;
    if adds {
        graph.draw_tensor(&mut Random::new(seed.rotate_left(32) ^ lsn));
    }
    adds
}

/// A transaction, once nobody else writes.
fn begin(store: &Store) -> Transaction {
    loop {
        match store.write() {
            Err(UpdateError::Busy { .. }) => std::thread::sleep(Duration::from_millis(1)),
            tx => return tx.unwrap(),
        }
    }
}

/// Does commit `lsn` to the store and to the graph.
pub fn commit_to(store: &Store, graph: &mut Graph, seed: u64, lsn: u64) {
    if adds_tensor(graph, seed, lsn) {
        drop(begin(store));
        assert_eq!(graph.add_tensor_to(store).unwrap(), lsn);
        return;
    }
    let mut tx = begin(store);
    commit(graph, seed, lsn, &mut |graph, op| drop(graph.run(&mut tx, op).unwrap()));
    assert_eq!(tx.commit().unwrap().lsn, lsn);
}

/// Opens the store and commits until it is killed; tells `say` of each step.
pub fn write_for_ever(dir: &Path, seed: u64, say: &mut dyn FnMut(&str)) {
    say("opening");
    let store = Store::open(dir, &options()).unwrap();
    let mut graph = imported(seed);
    let mut lsn = store.snapshot().lsn();
    (1..=lsn).for_each(|lsn| repeat(&mut graph, seed, lsn));
    say("ready");
    loop {
        lsn += 1;
        commit_to(&store, &mut graph, seed, lsn);
        say(&format!("lsn {lsn}"));
        match lsn % 97 {
            13 => drop(store.checkpoint()),
            50 => store.close_writer().unwrap(),
            _ => {}
        }
    }
}

/// Opens what is left and compares it; `graph` is at `at` and is taken along.
///
/// # Errors
/// What is wrong.
pub fn look(
    dir: &Path,
    seed: u64,
    (graph, at): (&mut Graph, &mut u64),
    acked: u64,
) -> Result<(), String> {
    let store = Store::open(dir, &options()).map_err(|error| format!("unopenable: {error}"))?;
    let snapshot = store.snapshot();
    let lsn = snapshot.lsn();
    if lsn < acked {
        return Err(format!("lost: commit {lsn} is the last, {acked} was acknowledged"));
    }
    while *at < lsn {
        *at += 1;
        repeat(graph, seed, *at);
    }
    graph.check(&snapshot).map_err(|what| format!("partial: commit {lsn}: {what}"))
}
