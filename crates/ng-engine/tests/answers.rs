//! Answers that are kept: right for the snapshots that they are handed out for, whoever comes
//! first; within their bytes; and those that are asked for often stay.
#![allow(clippy::expect_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::changing::{Layer, Shape, change, open};
use ng_engine::{
    AffectedAnswers, AnswerKey, CacheStats, EmbeddingCache, Engine, EngineOptions, ModelKey,
    Prepare, WalkLimit, WhyAll,
};
use ng_infer::dfg::Elements;
use ng_infer::run::Devices;
use ng_testing::Random;
use ng_types::{Budget, NodeTypeId};

const MODEL: ModelKey = ModelKey(1);

fn key(node: u64) -> AnswerKey {
    AnswerKey { model: MODEL, node_type: NodeTypeId(0), node, parameters: 0 }
}

fn of(nodes: &[u64]) -> AffectedAnswers {
    AffectedAnswers::Of(vec![nodes.to_vec()])
}

/// The snapshot that an answer is found for.
fn found(cache: &EmbeddingCache, node: u64, lsn: u64, lag: u64) -> Option<u64> {
    cache.get(&key(node), lsn, lag).map(|kept| kept.lsn)
}

#[test]
fn an_answer_is_right_until_a_commit_that_may_have_changed_it() {
    let cache = EmbeddingCache::new(1 << 20);
    cache.put(&key(1), 5, b"before the model");
    cache.add_model(MODEL, 5);
    cache.put(&key(1), 5, b"one");
    cache.put(&key(2), 5, b"two");
    assert_eq!(found(&cache, 1, 5, 0), Some(5));
    // Commit 6 is there, and nobody has said what it changed.
    assert_eq!((found(&cache, 1, 6, 0), found(&cache, 1, 6, 1)), (None, Some(5)));
    cache.put(&key(3), 6, b"three, of a newer snapshot");
    assert_eq!((found(&cache, 3, 6, 0), found(&cache, 3, 5, 9)), (Some(6), None));
    cache.invalidate(MODEL, &of(&[1, 3]), 5, 6);
    assert_eq!((found(&cache, 1, 6, 0), found(&cache, 1, 7, 1)), (None, None));
    assert_eq!((found(&cache, 1, 5, 0), found(&cache, 1, 6, 1)), (Some(5), Some(5)));
    assert_eq!((found(&cache, 2, 6, 0), found(&cache, 2, 5, 0)), (Some(6), Some(5)));
    assert_eq!(found(&cache, 3, 6, 0), Some(6));
    // Late, and changed meanwhile; late, and not.
    cache.put(&AnswerKey { parameters: 7, ..key(1) }, 5, b"one");
    let other = AnswerKey { parameters: 7, ..key(1) };
    assert_eq!(cache.get(&other, 6, 0), None);
    assert_eq!(cache.get(&other, 5, 0).map(|kept| kept.row.to_vec()), Some(b"one".to_vec()));
    cache.put(&key(4), 5, b"four");
    assert_eq!(found(&cache, 4, 6, 0), Some(6));
    // What is here is right for the snapshot, or newer: nothing new.
    cache.put(&key(4), 6, b"four");
    cache.put(&key(3), 5, b"three, of an older snapshot");
    let stats = cache.stats();
    assert_eq!((stats.puts, stats.late_puts, stats.refused_puts), (5, 1, 3));
    assert_eq!((stats.invalidations, stats.ended, stats.answers), (1, 1, 5));
    // Changes that came before change nothing; commits that were left out end all.
    cache.invalidate(MODEL, &of(&[2]), 5, 6);
    assert_eq!(found(&cache, 2, 6, 0), Some(6));
    cache.invalidate(MODEL, &of(&[]), 7, 8);
    assert_eq!((found(&cache, 2, 8, 0), found(&cache, 3, 6, 0)), (None, Some(6)));
    cache.put(&key(2), 7, b"late for all that ended");
    cache.put(&key(3), 8, b"three");
    assert_eq!((found(&cache, 2, 8, 0), found(&cache, 3, 8, 0)), (None, Some(8)));
    cache.invalidate(MODEL, &AffectedAnswers::All(WhyAll::Unknown), 8, 9);
    assert_eq!((found(&cache, 3, 9, 0), found(&cache, 3, 9, 1)), (None, Some(8)));
    assert_eq!(cache.stats().invalidations_of_all, 2);
    cache.drop_model(MODEL);
    cache.put(&key(3), 9, b"of a model that is gone");
    let stats = cache.stats();
    assert_eq!((found(&cache, 3, 8, 9), stats.answers, stats.bytes), (None, 0, 0));
}

#[test]
fn a_late_answer_that_outlived_all_notes_is_right_for_its_own_snapshot_alone() {
    let cache = EmbeddingCache::new(1 << 20);
    cache.add_model(MODEL, 0);
    (0..1_000).for_each(|lsn| cache.invalidate(MODEL, &of(&[lsn]), lsn, lsn + 1));
    cache.put(&key(5_000), 990, b"");
    cache.put(&key(5_001), 10, b"");
    assert_eq!(found(&cache, 5_000, 1_000, 0), Some(1_000));
    assert_eq!((found(&cache, 5_001, 1_000, 0), found(&cache, 5_001, 10, 0)), (None, Some(10)));
    // One change of more nodes than are noted.
    let many: Vec<u64> = (10_000..100_000).collect();
    cache.put(&key(20_000), 1_000, b"");
    cache.invalidate(MODEL, &of(&many), 1_000, 1_001);
    cache.put(&key(6_000), 1_000, b"");
    assert_eq!((found(&cache, 6_000, 1_001, 0), found(&cache, 20_000, 1_001, 0)), (None, None));
    assert_eq!(found(&cache, 5_000, 1_001, 0), Some(1_001));
}

#[test]
fn answers_stay_within_their_bytes_and_a_scan_passes_those_that_are_asked_for_often() {
    let budget = Budget::new(1 << 20);
    let cache = EmbeddingCache::paid_by(budget.reserve(400 << 10).expect("memory"));
    cache.add_model(MODEL, 0);
    let row = [7; 128];
    let ask = |node: u64| {
        let is_hit = cache.get(&key(node), 0, 0).is_some();
        if !is_hit {
            cache.put(&key(node), 0, &row);
        }
        is_hit
    };
    for _ in 0..4 {
        for node in 0..500 {
            ask(node);
        }
    }
    // Each of them comes again now and then.
    let mut hits = 0;
    for node in 0..50_000 {
        assert!(!ask(1_000 + node));
        hits += u64::from(ask(node * 7 % 500));
    }
    let stats = cache.stats();
    assert!(hits > 49_500, "{hits} of 50000 hits, {stats:?}");
    assert!(stats.bytes <= stats.bytes_max && stats.bytes > stats.bytes_max * 9 / 10, "{stats:?}");
    assert_eq!(stats.answers + stats.evictions, stats.puts);
    cache.put(&key(9), 0, &vec![0; 200 << 10]);
    assert_eq!(cache.stats().refused_puts, 1);
    // Anybody may choose seeds: one node has only so many answers.
    let of_seed = |parameters| AnswerKey { parameters, ..key(600_000) };
    (0..100).for_each(|seed| cache.put(&of_seed(seed), 0, &row));
    assert!((0..100).filter(|seed| cache.get(&of_seed(*seed), 0, 0).is_some()).count() <= 32);
    assert_eq!(budget.used_bytes(), 400 << 10);
    drop(cache);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn skewed_requests_hit_nearly_as_often_as_with_the_best_nodes_held() {
    let cache = EmbeddingCache::new(1_000 * (128 + 256));
    cache.add_model(MODEL, 0);
    let (mut random, nodes) = (Random::new(3), 20_000_u64);
    println!("seed 3");
    // Zipf 1.0, by its sum.
    let mut sums = vec![0.0];
    (1..=nodes).for_each(|rank| sums.push(sums[sums.len() - 1] + 1.0 / rank as f64));
    let total = sums[nodes as usize];
    let (requests, mut hits) = (200_000, 0);
    for at in 0..requests {
        let drawn = random.below(1 << 40) as f64 / (1_u64 << 40) as f64 * total;
        let node = sums.partition_point(|sum| *sum <= drawn) as u64;
        let is_hit = cache.get(&key(node), 0, 0).is_some();
        if !is_hit {
            cache.put(&key(node), 0, &[0; 128]);
        }
        hits += u64::from(is_hit && at >= requests / 2);
    }
    let rate = hits as f64 / (requests / 2) as f64;
    let best = sums[1_000] / total;
    println!("{rate:.3} hits, {best:.3} with the best 1000 nodes held");
    assert!(rate > 0.9 * best, "{rate} of {best}");
}

/// How often the answers for nodes have changed: what a model would give.
struct Truth(Vec<Vec<u64>>);

impl Truth {
    fn row(&self, node: u64, lsn: u64) -> [u8; 8] {
        let commits = self.0.get(..lsn as usize).unwrap_or_default();
        let changes = commits.iter().filter(|nodes| nodes.binary_search(&node).is_ok());
        (changes.count() as u64).to_le_bytes()
    }
}

#[test]
fn in_a_race_of_requests_and_commits_no_answer_is_wrong() {
    const NODES: u64 = 60;
    const COMMITS: u64 = 1_500;
    let mut random = Random::new(11);
    println!("seed 11");
    let mut drawn = |_| {
        let mut nodes: Vec<u64> = (0..random.below(5)).map(|_| random.below(NODES)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    };
    let truth = Truth((0..COMMITS).map(&mut drawn).collect());
    let cache = EmbeddingCache::new(NODES / 2 * (8 + 256));
    cache.add_model(MODEL, 0);
    let (newest, is_over, asked) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let ask = |seed: u64| {
        let (mut random, mut late) = (Random::new(seed), Vec::new());
        while !is_over.load(Ordering::Relaxed) {
            let now = newest.load(Ordering::Acquire);
            // Now and then an older snapshot that is still held.
            let lsn = now - now.min(if random.below(8) == 0 { random.below(4) } else { 0 });
            let (node, lag) = (random.below(NODES), [0, 0, 2][random.below(3) as usize]);
            match cache.get(&key(node), lsn, lag) {
                Some(kept) => {
                    assert!(kept.lsn <= lsn && lsn - kept.lsn <= lag);
                    let wanted = truth.row(node, kept.lsn);
                    assert_eq!(*kept.row, wanted, "node {node}, snapshot {} at {lsn}", kept.lsn);
                }
                None => late.push((node, lsn, truth.row(node, lsn))),
            }
            // Answers are ready at another time than that of their snapshot.
            while late.len() as u64 > random.below(6) {
                let (node, lsn, row) = late.swap_remove(random.below(late.len() as u64) as usize);
                cache.put(&key(node), lsn, &row);
            }
            asked.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|seed| drop(scope.spawn(move || ask(seed))));
        let (mut from, mut random) = (0, Random::new(12));
        for lsn in 1..=COMMITS {
            let before = asked.load(Ordering::Relaxed);
            newest.store(lsn, Ordering::Release);
            while asked.load(Ordering::Relaxed) < before + random.below(60) {
                std::thread::yield_now();
            }
            if random.below(3) == 0 && lsn < COMMITS {
                continue;
            }
            let mut nodes = truth.0[from as usize..lsn as usize].concat();
            nodes.sort_unstable();
            nodes.dedup();
            let all = AffectedAnswers::All(WhyAll::Unknown);
            let some = if random.below(100) == 0 { all } else { of(&nodes) };
            cache.invalidate(MODEL, &some, from, lsn);
            from = lsn;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let stats = cache.stats();
    println!("{stats:?}");
    let CacheStats { hits, stale_hits, misses, late_puts, evictions, ended, .. } = stats;
    // Each way was taken; how often, the machine decides.
    assert!(hits > 1_000 && misses > 300 && stale_hits > 10, "{stats:?}");
    assert!(late_puts > 10 && ended > 30 && evictions > 10, "{stats:?}");
    assert!(stats.invalidations_of_all > 0 && stats.bytes <= stats.bytes_max);
}

#[test]
fn answers_of_an_engine_are_kept_over_commits_and_equal_those_that_are_made_anew() {
    let (shape, mut random) = (Shape::Undirected, Random::new(21));
    println!("seed 21");
    let store = open(&shape.build(300, &mut random));
    let options = EngineOptions {
        fanouts: shape.fanouts(3, 2),
        output: None,
        devices: Devices::default().into(),
        prepare: Prepare::Metadata,
        threads: 1,
        batch_nodes: 1024,
        go_on: || true,
    };
    let engine = Engine::open(store.snapshot(), shape.model(Layer::Degrees, 2), options);
    let engine = engine.expect("engine");
    let cache = EmbeddingCache::new(1 << 20);
    let mut older = store.snapshot();
    cache.add_model(MODEL, older.lsn());
    let bytes = |node: u64| match engine.run(&[node], 4).expect("answer").elements {
        Elements::F32(row) => row.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>(),
        other => panic!("{other:?}"),
    };
    for _ in 0..20 {
        for node in 0..300 {
            let (row, lsn) = (bytes(node), older.lsn());
            match cache.get(&key(node), lsn, 0) {
                Some(kept) => assert!(*kept.row == *row, "node {node} at {lsn}"),
                None => cache.put(&key(node), lsn, &row),
            }
        }
        let mut batch = store.write().expect("batch");
        (0..2).for_each(|_| change(&store, &mut batch, shape, &mut random));
        batch.commit().expect("commit");
        let newer = store.snapshot();
        engine.refresh(store.snapshot()).expect("refreshed");
        let affected = engine.affected(&newer, &older, WalkLimit::default()).expect("affected");
        cache.invalidate(MODEL, &affected.answers, older.lsn(), newer.lsn());
        older = newer;
    }
    let stats = cache.stats();
    println!("{stats:?}");
    assert!(stats.hits > 4_500 && stats.ended > 100 && stats.invalidations_of_all == 0);
}
