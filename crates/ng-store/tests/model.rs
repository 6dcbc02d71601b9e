//! D7: a store that changes is what plain vectors are: units, transactions, transactions given up,
//! snapshots kept, checkpoints, reopening, refusals.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Instant;

use common::graph::{Graph, Op, Outcome, Schema};
use ng_store::{BuildOptions, EditCounts, OpenOptions, Snapshot, Store, UpdateStats};
use ng_testing::{MemDisk, Random};

/// Operations that a run of the tests does at least.
const OPERATIONS: u64 = 1_000_000;
/// Everything is compared after so many.
const COMPARED_EVERY: u64 = 20_000;
/// Entries of all lists between which a graph grows and shrinks.
const ENTRIES: std::ops::Range<u64> = 20_000..60_000;

/// What a run has met.
#[derive(Default, Debug)]
struct Seen {
    operations: u64,
    refused: [u64; 5],
    reused_ids: u64,
    comparisons: u64,
    reused_pages: u64,
    checkpoints: u64,
    lists: EditCounts,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.refused.iter_mut().zip(other.refused).for_each(|(sum, count)| *sum += count);
        self.reused_ids += other.reused_ids;
        self.comparisons += other.comparisons;
        self.reused_pages += other.reused_pages;
        self.checkpoints += other.checkpoints;
        self.add_lists(&other.lists);
    }

    fn add_lists(&mut self, lists: &EditCounts) {
        self.lists.evictions += lists.evictions;
        self.lists.promotions += lists.promotions;
        self.lists.demotions += lists.demotions;
    }

    fn add_stats(&mut self, stats: Option<UpdateStats>) {
        let stats = stats.unwrap_or_default();
        self.reused_pages += stats.pages_reused;
        self.checkpoints += stats.checkpoints;
        self.add_lists(&stats.lists);
    }
}

struct Machine {
    disk: MemDisk,
    store: Option<Store>,
    graph: Graph,
    random: Random,
    grow: bool,
    kept: Vec<(Arc<Snapshot>, Graph)>,
    seen: Seen,
}

impl Machine {
    fn new(seed: u64, options: BuildOptions) -> Self {
        println!("seed {seed}: {options:?}");
        let mut random = Random::new(seed);
        let graph = Graph::new(Schema::everything(300, options), &mut random);
        let (store, kept, seen) = (None, Vec::new(), Seen::default());
        Self { disk: graph.disk(), store, graph, random, grow: true, kept, seen }
    }

    fn store(&mut self) -> &Store {
        let disk = &self.disk;
        self.store.get_or_insert_with(|| {
            let options = OpenOptions {
                memory: Some(24 << 20),
                log_bytes_max: 2 << 20,
                ..OpenOptions::default()
            };
            Store::open_on(Arc::new(disk.clone()), &options).unwrap()
        })
    }

    /// A transaction; one that is given up leaves the graph as it was.
    fn tx(&mut self, ops: u64, commits: bool) {
        let mut tx = self.store().write().unwrap();
        let mut given_up = (!commits).then(|| self.graph.clone());
        for _ in 0..ops {
            let graph = given_up.as_mut().unwrap_or(&mut self.graph);
            let op = graph.draw(&mut self.random, self.grow);
            let outcome = graph.run(&mut tx, &op).unwrap();
            let wanted = graph.apply(&op, Some(&outcome));
            assert_eq!(outcome, wanted, "{op:?}");
            if let (Op::AddNode(node_type), Outcome::Ids(ids)) = (&op, &outcome) {
                self.note_new_node(*node_type, ids[0]);
            }
            self.note(&outcome);
        }
        self.seen.operations += ops;
        if commits {
            tx.commit().unwrap();
        }
    }

    fn note(&mut self, outcome: &Outcome) {
        let kind = match outcome {
            Outcome::NodeNotFound => 0,
            Outcome::EdgeNotFound => 1,
            Outcome::ReverseMissing => 2,
            Outcome::RowWidth => 3,
            Outcome::Unsupported => 4,
            _ => return,
        };
        self.seen.refused[kind] += 1;
    }

    /// An id comes again only when no snapshot shows its node.
    fn note_new_node(&mut self, node_type: u16, id: u64) {
        let sees = |(_, graph): &(Arc<Snapshot>, Graph)| {
            graph.live[node_type as usize].get(id as usize) == Some(&true)
        };
        assert!(!self.kept.iter().any(sees), "a snapshot still shows node {id}");
        let is_new = self.kept.iter().all(|(_, g)| g.live[node_type as usize].len() as u64 <= id);
        self.seen.reused_ids += u64::from(!is_new);
    }

    fn check(&mut self) {
        let snapshot = self.store().snapshot();
        self.graph.check(&snapshot).unwrap();
        self.graph.check_in_memory(&snapshot);
        self.kept.iter().for_each(|(snapshot, graph)| graph.check(snapshot).unwrap());
        self.seen.comparisons += 1 + self.kept.len() as u64;
    }

    fn reopen(&mut self) {
        self.kept.clear();
        if let Some(store) = self.store.take() {
            self.seen.add_stats(store.update_stats());
        }
        let snapshot = self.store().snapshot();
        self.graph.check(&snapshot).unwrap();
        self.kept.push((snapshot, self.graph.clone()));
    }

    fn step(&mut self) {
        let ops = match self.random.below(4) {
            0 => 1,
            1 => 1 + self.random.below(9),
            _ => 1 + self.random.below(250),
        };
        let commits = self.random.below(40) > 0;
        self.tx(ops, commits);
        match self.random.below(240) {
            0..4 => drop(self.store().checkpoint().unwrap()),
            4..7 => {
                let snapshot = self.store().snapshot();
                self.kept.push((snapshot, self.graph.clone()));
            }
            7..10 if !self.kept.is_empty() => {
                let which = self.random.below(self.kept.len() as u64) as usize;
                let (snapshot, graph) = self.kept.swap_remove(which);
                graph.check(&snapshot).unwrap();
            }
            10 => {
                let stats = self.store().update_stats();
                self.seen.add_stats(stats);
                self.store().close_writer().unwrap();
            }
            11 => self.reopen(),
            _ => {}
        }
        if self.kept.len() > 4 {
            self.kept.remove(0);
        }
    }

    fn run(mut self, operations: u64) -> Seen {
        let mut compared = 0;
        while self.seen.operations < operations {
            self.step();
            let entries = self.graph.num_entries();
            self.grow = if self.grow { entries < ENTRIES.end } else { entries < ENTRIES.start };
            if self.seen.operations - compared > COMPARED_EVERY {
                compared = self.seen.operations;
                self.check();
            }
        }
        self.check();
        self.reopen();
        self.seen
    }
}

#[test]
fn a_store_that_changes_is_what_plain_vectors_are() {
    let wanted = std::env::var("NEARGRAPH_MODEL_OPERATIONS").ok().and_then(|n| n.parse().ok());
    let wanted = wanted.unwrap_or(OPERATIONS);
    let start = Instant::now();
    let sizes = [(4096, 0.9), (16384, 1.0), (4096, 1.0), (16384, 0.9)];
    let runs = wanted.div_ceil(OPERATIONS).max(1) * 4;
    let (all, next) = (Mutex::new(Seen::default()), Mutex::new(0..runs));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(run) = { next.lock().unwrap().next() } {
                    let (page_bytes, fill) = sizes[run as usize % 4];
                    let reuse_ids = run % 2 == (run / 4) % 2;
                    let options = BuildOptions { page_bytes, fill, reuse_ids };
                    let seen = Machine::new(run, options).run(wanted / runs + 1);
                    all.lock().unwrap().add(&seen);
                }
            });
        }
    });
    let seen = all.into_inner().unwrap();
    println!("{seen:?}");
    let tried = seen.operations;
    println!(
        "figure: {{\"id\":\"D7\",\"tried\":{tried},\"failed\":0,\"divergences\":0,\"seed\":0}}"
    );
    println!("{:.1} s", start.elapsed().as_secs_f64());
    assert!(seen.refused.iter().all(|count| *count > 0));
    assert!(seen.lists.evictions > 0 && seen.lists.promotions > 0 && seen.lists.demotions > 0);
    assert!(seen.reused_ids > 0 && seen.reused_pages > 0 && seen.checkpoints > 0);
}
