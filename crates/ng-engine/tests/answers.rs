//! Answers that are kept: right for the snapshots that they are handed out for, whoever comes
//! first; within their bytes; and those that are asked for often stay.
#![allow(clippy::expect_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ng_engine::{AnswerKey, CacheStats, ChangedNodes, EmbeddingCache, ModelKey, Reach, WhyAll};
use ng_testing::Random;
use ng_types::{Budget, NodeTypeId};

const MODEL: ModelKey = ModelKey(1);

fn key(node: u64) -> AnswerKey {
    AnswerKey { model: MODEL, node_type: NodeTypeId(0), node, parameters: 0 }
}

/// That rows of nodes changed.
fn of(nodes: &[u64]) -> Result<ChangedNodes, WhyAll> {
    Ok(ChangedNodes { lists: vec![vec![]], rows: vec![nodes.to_vec()] })
}

/// What an answer is made of that is made of its node alone.
fn alone(node: u64) -> Option<Reach> {
    Reach::new(&mut [(NodeTypeId(0), vec![], vec![node])])
}

fn put(cache: &EmbeddingCache, node: u64, lsn: u64, row: &[u8]) {
    cache.put(&key(node), lsn, row, alone(node).as_ref());
}

/// The snapshot that an answer is found for.
fn found(cache: &EmbeddingCache, node: u64, lsn: u64, lag: u64) -> Option<u64> {
    cache.get(&key(node), lsn, lag).map(|kept| kept.lsn)
}

#[test]
fn an_answer_is_right_until_a_commit_that_changed_what_it_was_made_of() {
    let cache = EmbeddingCache::new(1 << 20);
    put(&cache, 1, 5, b"before the model");
    cache.add_model(MODEL, 5);
    put(&cache, 1, 5, b"one");
    put(&cache, 2, 5, b"two");
    assert_eq!(found(&cache, 1, 5, 0), Some(5));
    // Commit 6 is there, and nobody has said what it changed.
    assert_eq!((found(&cache, 1, 6, 0), found(&cache, 1, 6, 1)), (None, Some(5)));
    put(&cache, 3, 6, b"three, of a newer snapshot");
    assert_eq!((found(&cache, 3, 6, 0), found(&cache, 3, 5, 9)), (Some(6), None));
    cache.note(MODEL, &of(&[1, 3]), (5, 6));
    assert_eq!((found(&cache, 1, 6, 0), found(&cache, 1, 7, 1)), (None, None));
    assert_eq!((found(&cache, 1, 5, 0), found(&cache, 1, 6, 1)), (Some(5), Some(5)));
    assert_eq!((found(&cache, 2, 6, 0), found(&cache, 2, 5, 0)), (Some(6), Some(5)));
    assert_eq!(found(&cache, 3, 6, 0), Some(6));
    // Late, and changed meanwhile; late, and not.
    let other = AnswerKey { parameters: 7, ..key(1) };
    cache.put(&other, 5, b"one", alone(1).as_ref());
    assert_eq!(cache.get(&other, 6, 0), None);
    assert_eq!(cache.get(&other, 5, 0).map(|kept| kept.row.to_vec()), Some(b"one".to_vec()));
    put(&cache, 4, 5, b"four");
    assert_eq!(found(&cache, 4, 6, 0), Some(6));
    // What is here is right for the snapshot, or newer: nothing new.
    put(&cache, 4, 6, b"four");
    put(&cache, 3, 5, b"three, of an older snapshot");
    let stats = cache.stats();
    assert_eq!((stats.puts, stats.refused_puts), (5, 3));
    assert_eq!((stats.invalidations, stats.ended, stats.answers), (1, 2, 5));
    // One that ended makes room for its successor, and one of which nobody knows what it was made
    // of ends with the next commit.
    put(&cache, 1, 6, b"one, anew");
    cache.put(&key(5), 6, b"five", None);
    assert_eq!((found(&cache, 1, 6, 0), found(&cache, 5, 6, 0)), (Some(6), Some(6)));
    cache.note(MODEL, &of(&[]), (6, 7));
    assert_eq!((found(&cache, 1, 7, 0), found(&cache, 5, 7, 0)), (Some(7), None));
    // Changes that came before change nothing; commits that were left out end all.
    cache.note(MODEL, &of(&[2]), (5, 6));
    assert_eq!(found(&cache, 2, 7, 0), Some(7));
    cache.note(MODEL, &of(&[]), (8, 9));
    assert_eq!((found(&cache, 2, 9, 0), found(&cache, 3, 6, 0)), (None, Some(6)));
    put(&cache, 2, 8, b"late for all that ended");
    put(&cache, 3, 9, b"three");
    assert_eq!((found(&cache, 2, 9, 0), found(&cache, 3, 9, 0)), (None, Some(9)));
    cache.note(MODEL, &Err(WhyAll::Unknown), (9, 10));
    assert_eq!((found(&cache, 3, 10, 0), found(&cache, 3, 10, 1)), (None, Some(9)));
    assert_eq!(cache.stats().invalidations_of_all, 2);
    cache.drop_model(MODEL);
    put(&cache, 3, 10, b"of a model that is gone");
    let stats = cache.stats();
    assert_eq!((found(&cache, 3, 9, 9), stats.answers, stats.bytes), (None, 0, 0));
}

#[test]
fn a_change_of_a_list_ends_what_was_drawn_from_it_alone() {
    let cache = EmbeddingCache::new(1 << 20);
    cache.add_model(MODEL, 0);
    let reach = |inner, outer| Reach::new(&mut [(NodeTypeId(3), inner, outer)]);
    // Ids whose differences take one byte, and several.
    let others = vec![0, 127, 128, 20_000, 1 << 21, (1 << 40) - 1];
    cache.put(&key(1), 0, b"", reach(others.clone(), vec![]).as_ref());
    cache.put(&key(2), 0, b"", reach(vec![], others.clone()).as_ref());
    for (at, node) in (0..).zip(&others) {
        let lists = ChangedNodes { lists: vec![vec![], vec![], vec![], vec![*node]], rows: vec![] };
        let of_others = ChangedNodes { lists: vec![vec![*node]], rows: vec![vec![*node]] };
        cache.note(MODEL, &Ok(of_others), (2 * at, 2 * at + 1));
        assert_eq!(found(&cache, 1, 2 * at + 1, 0), Some(2 * at + 1));
        cache.note(MODEL, &Ok(lists), (2 * at + 1, 2 * at + 2));
        let lsn = 2 * at + 2;
        assert_eq!((found(&cache, 1, lsn, 0), found(&cache, 2, lsn, 0)), (None, Some(lsn)));
        cache.put(&key(1), lsn, b"", reach(others.clone(), vec![]).as_ref());
    }
    // More than is kept: it ends with the next commit.
    assert_eq!(reach((0..5_000).collect(), vec![]), None);
}

#[test]
fn an_answer_that_outlived_all_notes_is_right_for_its_own_snapshot_alone() {
    let cache = EmbeddingCache::new(1 << 20);
    cache.add_model(MODEL, 0);
    put(&cache, 500_000, 0, b"");
    put(&cache, 500_001, 0, b"");
    for lsn in 0..80_000 {
        cache.note(MODEL, &of(&[lsn]), (lsn, lsn + 1));
        if lsn % 10_000 == 0 {
            assert_eq!(found(&cache, 500_000, lsn + 1, 0), Some(lsn + 1));
        }
    }
    put(&cache, 500_002, 79_000, b"");
    put(&cache, 79_500, 79_000, b"");
    assert_eq!(found(&cache, 500_000, 80_000, 0), Some(80_000));
    assert_eq!(found(&cache, 500_002, 80_000, 0), Some(80_000));
    assert_eq!((found(&cache, 500_001, 80_000, 0), found(&cache, 500_001, 0, 0)), (None, Some(0)));
    assert_eq!(found(&cache, 79_500, 80_000, 0), None);
    // One change of more nodes than are noted.
    let many: Vec<u64> = (100_000..300_000).collect();
    cache.note(MODEL, &of(&many), (80_000, 80_001));
    put(&cache, 6_000, 80_000, b"");
    assert_eq!((found(&cache, 6_000, 80_001, 0), found(&cache, 500_002, 80_001, 0)), (None, None));
    assert_eq!(cache.stats().invalidations_of_all, 1);
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
            put(&cache, node, 0, &row);
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
    put(&cache, 9, 0, &vec![0; 200 << 10]);
    assert_eq!(cache.stats().refused_puts, 1);
    // Anybody may choose seeds: one node has only so many answers.
    let of_seed = |parameters| AnswerKey { parameters, ..key(600_000) };
    (0..100).for_each(|seed| cache.put(&of_seed(seed), 0, &row, None));
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
            cache.put(&key(node), 0, &[0; 128], None);
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
    let cache = EmbeddingCache::new(NODES / 2 * (8 + 36 + 256));
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
                put(&cache, node, lsn, &row);
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
            let all = random.below(100) == 0;
            let changed = if all { Err(WhyAll::Unknown) } else { of(&nodes) };
            cache.note(MODEL, &changed, (from, lsn));
            from = lsn;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let stats = cache.stats();
    println!("{stats:?}");
    let CacheStats { hits, stale_hits, misses, evictions, ended, .. } = stats;
    // Each way was taken; how often, the machine decides.
    assert!(hits > 1_000 && misses > 300 && stale_hits > 10, "{stats:?}");
    assert!(ended > 30 && evictions > 10, "{stats:?}");
    assert!(stats.invalidations_of_all > 0 && stats.bytes <= stats.bytes_max);
}
