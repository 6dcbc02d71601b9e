//! Backups: what comes back is what the store was at the commit that they name, while it was
//! written to; and an increment holds no more than what was changed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::changing::{self, Shape};
use common::child;
use common::graph::Graph;
use ng_store::{BackupError, BackupReport, Store, backup, compact, restore, verify, verify_backup};
use ng_types::{ErrorKind, Explain};

const SEED: u64 = 5;

fn on(_: u64, _: u64) -> bool {
    true
}

fn save(store: &Store, target: &Path, base: Option<&Path>) -> BackupReport {
    backup(store, target, base, &mut on).unwrap()
}

/// Restores a backup and compares it with the graph at the commit that the backup names.
fn check(report: &BackupReport, path: &Path, (graph, at): (&mut Graph, &mut u64)) {
    let target = path.with_extension("ng");
    let found = restore(path, &target, &mut on).unwrap();
    assert_eq!(
        (found.checkpoint_id, found.lsn, found.pages),
        (report.checkpoint_id, report.lsn, report.pages)
    );
    assert_eq!(found.fingerprint, report.fingerprint);
    assert_eq!(verify_backup(path, &mut on).unwrap(), found);
    let sound = verify(&target, &child::options(), &mut on).unwrap();
    assert!(sound.is_ok() && sound.notes.is_empty(), "{sound:?}");
    let store = Store::open(&target, &child::options()).unwrap();
    let snapshot = store.snapshot();
    assert_eq!(snapshot.lsn(), report.lsn);
    assert_eq!(format!("{:016x}", snapshot.fingerprint()), report.fingerprint);
    drop((snapshot, store));
    child::look(&target, SEED, (graph, at), report.lsn).unwrap();
    assert_eq!(*at, report.lsn);
    // It is a store like any other.
    let store = Store::open(&target, &child::options()).unwrap();
    child::commit_to(&store, &mut graph.clone(), SEED, report.lsn + 1);
}

#[test]
fn a_chain_of_backups_under_a_writer_gives_back_each_state() {
    println!("seed {SEED}");
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    std::fs::create_dir(&source).unwrap();
    child::build(&source, SEED);
    let store = Store::open(&source, &child::options()).unwrap();
    let (stop, acked) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut reports: Vec<(BackupReport, PathBuf)> = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut graph = child::imported(SEED);
            for lsn in 1.. {
                child::commit_to(&store, &mut graph, SEED, lsn);
                acked.store(lsn, Ordering::Release);
                if stop.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        for number in 0..4_u64 {
            while acked.load(Ordering::Acquire) < 60 * (number + 1) {
                std::thread::yield_now();
            }
            let path = dir.path().join(format!("backup{number}"));
            let base = reports.last().map(|(_, path)| path.as_path());
            let before = acked.load(Ordering::Acquire);
            let report = save(&store, &path, base);
            assert!(report.lsn >= before && !report.log_goes_on, "{report:?}");
            assert_eq!(report.base.is_some(), number > 0);
            reports.push((report, path));
        }
        stop.store(true, Ordering::Release);
    });
    let written = acked.into_inner();
    let (mut graph, mut at) = (child::imported(SEED), 0);
    for (report, path) in &reports {
        check(report, path, (&mut graph, &mut at));
    }
    println!("{written} commits, {reports:#?}");
    let last = &reports[3].0;
    assert_eq!(verify_backup(&reports[3].1, &mut on).unwrap().backups, 4);
    assert!(reports[0].0.lsn < last.lsn && last.pages_copied < last.pages);
}

/// The files of a directory that is a store.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    let file = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    entries.filter(|entry| entry.path().is_file()).map(file).collect()
}

#[test]
fn a_store_that_never_changed_comes_back_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    std::fs::create_dir(&source).unwrap();
    child::build(&source, SEED);
    let store = Store::open(&source, &child::options()).unwrap();
    let (whole, target) = (dir.path().join("whole"), dir.path().join("target"));
    let report = save(&store, &whole, None);
    assert_eq!(report.pages, report.pages_copied);
    restore(&whole, &target, &mut on).unwrap();
    assert!(files(&source) == files(&target));
    // An increment of nothing holds no page, and gives the same.
    let (more, target) = (dir.path().join("more"), dir.path().join("target2"));
    assert_eq!(save(&store, &more, Some(&whole)).pages_copied, 0);
    restore(&more, &target, &mut on).unwrap();
    assert!(files(&source) == files(&target));
}

/// A store in memory that has changed, and its shape.
fn changed(random: &mut ng_testing::Random) -> (ng_testing::MemDisk, Shape) {
    let shape = Shape {
        num_nodes: 3000,
        page_bytes: 4096,
        row_bytes: 256,
        has_edge_ids: true,
        ..Shape::default()
    };
    let disk = shape.build();
    let store = changing::open(&disk);
    (0..5).for_each(|_| changing::change(&store, &shape, random, 400));
    drop(store);
    (disk, shape)
}

#[test]
fn an_increment_reads_page_tables_and_the_pages_that_a_checkpoint_has_written() {
    let mut random = common::seeded(11);
    let dir = tempfile::tempdir().unwrap();
    let (disk, shape) = changed(&mut random);
    let store = changing::open(&disk);
    let whole = dir.path().join("whole");
    let first = save(&store, &whole, None);
    changing::change(&store, &shape, &mut random, 5);
    let checkpoint = store.checkpoint().unwrap();
    store.reset_stats();
    let report = save(&store, &dir.path().join("more"), Some(&whole));
    assert_eq!(report.pages_copied, checkpoint.pages);
    assert!(report.pages_copied > 0 && report.pages_copied * 10 < first.pages_copied);
    assert_eq!(
        (report.checkpoint_id, report.base.as_deref()),
        (checkpoint.checkpoint_id, Some("whole"))
    );
    // Beside the pages it reads both roots and the page tables, once.
    let tables = report.bytes - report.page_bytes_copied;
    let read = store.stats().read_bytes;
    assert!(read <= report.page_bytes_copied + 2 * tables, "{read} bytes read, {report:?}");
}

#[test]
fn a_store_that_does_not_continue_the_base_is_refused() {
    let mut random = common::seeded(12);
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
    let (disk, shape) = changed(&mut random);
    // Two copies of a store that go different ways, as far as each other.
    let other = ng_testing::MemDisk::from_image(disk.image());
    let (store, other) = (changing::open(&disk), changing::open(&other));
    save(&store, &a, None);
    for store in [&store, &other] {
        changing::change(store, &shape, &mut random, 50);
    }
    save(&store, &b, Some(&a));
    let refused = |store: &Store, base: &Path| {
        let error = backup(store, &c, Some(base), &mut on).unwrap_err();
        assert!(!c.exists());
        (error.kind(), error.to_string())
    };
    for _ in 0..2 {
        let (kind, text) = refused(&other, &b);
        assert_eq!(kind, ErrorKind::UnsupportedArgument);
        assert!(text.contains("/b: the store is not a later state"), "{text}");
        changing::change(&other, &shape, &mut random, 50);
        other.checkpoint().unwrap();
    }
    drop(other);
    // The base of b may still be the base of another branch.
    assert!(save(&store, &c, Some(&a)).pages_copied > 0);
    let elsewhere = dir.path().join("folder");
    std::fs::create_dir(&elsewhere).unwrap();
    let error = backup(&store, &elsewhere.join("d"), Some(&a), &mut on).unwrap_err();
    assert!(matches!(error, BackupError::Unsupported { .. }), "{error}");
}

#[test]
fn a_store_that_was_compacted_needs_a_whole_backup() {
    let dir = tempfile::tempdir().unwrap();
    let [source, whole, more] = ["source", "whole", "more"].map(|name| dir.path().join(name));
    std::fs::create_dir(&source).unwrap();
    child::build(&source, SEED);
    let store = Store::open(&source, &child::options()).unwrap();
    let mut graph = child::imported(SEED);
    (1..20).for_each(|lsn| child::commit_to(&store, &mut graph, SEED, lsn));
    save(&store, &whole, None);
    drop(store);
    compact(&source, &child::options(), &mut on).unwrap();
    let store = Store::open(&source, &child::options()).unwrap();
    let error = backup(&store, &more, Some(&whole), &mut on).unwrap_err();
    assert!(matches!(error, BackupError::NotABase { .. }), "{error}");
    let report = save(&store, &more, None);
    check(&report, &more, (&mut child::imported(SEED), &mut 0));
}

#[test]
fn beside_a_writer_another_handle_saves_the_newest_checkpoint_and_says_that_the_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let [source, path] = ["source", "whole"].map(|name| dir.path().join(name));
    std::fs::create_dir(&source).unwrap();
    child::build(&source, SEED);
    let writer = Store::open(&source, &child::options()).unwrap();
    let mut graph = child::imported(SEED);
    (1..10).for_each(|lsn| child::commit_to(&writer, &mut graph, SEED, lsn));
    let checkpoint_id = writer.checkpoint().unwrap().checkpoint_id;
    (10..14).for_each(|lsn| child::commit_to(&writer, &mut graph, SEED, lsn));
    let reader = Store::open(&source, &child::options()).unwrap();
    // Its root is replaced before the copy begins, and its pages stay.
    for lsn in 14..60 {
        child::commit_to(&writer, &mut graph, SEED, lsn);
        writer.checkpoint().unwrap();
    }
    let report = save(&reader, &path, None);
    assert_eq!((report.checkpoint_id, report.lsn, report.log_goes_on), (checkpoint_id, 9, true));
    check(&report, &path, (&mut child::imported(SEED), &mut 0));
    drop(writer);
    let fresh = Store::open(&source, &child::options()).unwrap();
    let report = save(&fresh, &dir.path().join("more"), Some(&path));
    assert_eq!((report.lsn, report.log_goes_on), (59, false));
    check(&report, &dir.path().join("more"), (&mut child::imported(SEED), &mut 0));
}

#[test]
fn nothing_that_exists_is_replaced_and_a_stopped_backup_leaves_nothing() {
    let mut random = common::seeded(13);
    let dir = tempfile::tempdir().unwrap();
    let (disk, _) = changed(&mut random);
    let store = Store::open_on(Arc::new(disk), &child::options()).unwrap();
    let [whole, target] = ["whole", "target"].map(|name| dir.path().join(name));
    let mut calls = 0;
    let stopped = backup(&store, &whole, None, &mut |done, total| {
        assert!(done <= total);
        calls += 1;
        calls < 3
    });
    assert!(matches!(stopped, Err(BackupError::Stopped)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    save(&store, &whole, None);
    let again = backup(&store, &whole, None, &mut on).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::UnsupportedArgument);
    assert!(matches!(restore(&whole, &target, &mut |_, _| false), Err(BackupError::Stopped)));
    assert!(!target.exists());
    restore(&whole, &target, &mut on).unwrap();
    let again = restore(&whole, &target, &mut on).unwrap_err();
    assert!(matches!(again, BackupError::TargetExists { .. }), "{again}");
    let missing = restore(&dir.path().join("none"), &target, &mut on).unwrap_err();
    assert!(matches!(missing, BackupError::NotFound { .. }), "{missing}");
    let other = verify_backup(&target, &mut on).unwrap_err();
    assert!(matches!(other, BackupError::NotABackup { .. }), "{other}");
}
