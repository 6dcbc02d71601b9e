//! Backups: what comes back is what the store was at the commit that they name, while it was
//! written to; and an increment holds no more than what was changed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::changing::{self, Shape};
use common::child;
use common::graph::Graph;
use ng_store::{
    BackupError, BackupReport, Store, backup, compact, restore, verify, verify_backup,
};
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
    assert_eq!((found.epoch, found.lsn, found.pages), (report.epoch, report.lsn, report.pages));
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
