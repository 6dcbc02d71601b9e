//! Backups and damage: rot is named and never copied, and a backup is there as a whole or not.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::changing::{self, Shape};
use common::{child, seeded};
use ng_store::{BackupError, ReadError, Store, backup, restore, verify_backup};
use ng_testing::{MemDisk, Random};
use ng_types::{ErrorKind, Explain};

const DIR: &str = "NEARGRAPH_BACKUP_DIR";
/// The call of progress in which the process waits to be killed; 0 for none.
const HOLD: &str = "NEARGRAPH_BACKUP_HOLD";
const FULL: &str = "NEARGRAPH_BACKUP_FULL";
const SEED: u64 = 21;
const KILLS: u64 = 25;
const SECTOR: usize = 512;

fn on(_: u64, _: u64) -> bool {
    true
}

/// A small store that has changed.
fn source(random: &mut Random) -> (MemDisk, Shape) {
    let shape = Shape { num_nodes: 40, page_bytes: 8192, row_bytes: 600, ..Shape::default() };
    let disk = shape.build();
    let store = changing::open(&disk);
    (0..3).for_each(|_| changing::change(&store, &shape, random, 100));
    drop(store);
    (disk, shape)
}

/// A whole backup and two increments in `dir`.
fn chain(dir: &Path, random: &mut Random) -> Vec<PathBuf> {
    let (disk, shape) = source(random);
    let store = changing::open(&disk);
    let paths: Vec<PathBuf> = ["a", "b", "c"].map(|name| dir.join(name)).to_vec();
    for (number, path) in paths.iter().enumerate() {
        let base = number.checked_sub(1).map(|before| paths[before].as_path());
        backup(&store, path, base, &mut on).unwrap();
        changing::change(&store, &shape, random, 3);
    }
    paths
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn damage_of_any_sector_of_any_backup_of_a_chain_is_named_and_nothing_is_restored() {
    let mut random = seeded(22);
    let dir = tempfile::tempdir().unwrap();
    let paths = chain(dir.path(), &mut random);
    let target = dir.path().join("target");
    let before = names(dir.path());
    let refused = |file: &Path| {
        let error = verify_backup(&paths[2], &mut on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreDamaged, "{}: {error}", file.display());
        let text = error.to_string();
        assert!(text.contains(file.to_str().unwrap()), "{}: {text}", file.display());
        error
    };
    let (mut sectors, mut with_block) = (0, 0);
    for path in &paths {
        for name in ["backup.json", "root", "tables", "pages"] {
            let file = path.join(name);
            let sound = std::fs::read(&file).unwrap();
            for sector in 0..sound.len() / SECTOR {
                let mut damaged = sound.clone();
                damaged[sector * SECTOR + random.below(SECTOR as u64) as usize] ^= 1;
                std::fs::write(&file, &damaged).unwrap();
                let text = refused(&file).to_string();
                let block = format!("block {} ", sector * SECTOR / 4096);
                with_block += u64::from(text.contains(&block));
                sectors += 1;
                if sector % 16 == 0 {
                    let text_of_restore = restore(&paths[2], &target, &mut on).unwrap_err();
                    assert_eq!(text_of_restore.to_string(), text);
                    assert_eq!(names(dir.path()), before);
                }
            }
            if !sound.is_empty() {
                std::fs::write(&file, &sound[..sound.len() - 4096]).unwrap();
                refused(&file);
            }
            std::fs::write(&file, [sound.as_slice(), &[0; 4096]].concat()).unwrap();
            refused(&file);
            std::fs::remove_file(&file).unwrap();
            if name != "backup.json" {
                refused(&file);
            }
            std::fs::write(&file, &sound).unwrap();
        }
    }
    println!("{sectors} sectors, {with_block} with the block");
    assert!(with_block * 2 > sectors);
    restore(&paths[2], &target, &mut on).unwrap();
}

#[test]
fn a_missing_or_exchanged_base_is_refused_by_name() {
    let mut random = seeded(23);
    let dir = tempfile::tempdir().unwrap();
    let paths = chain(dir.path(), &mut random);
    let [other, away] = ["other", "away"].map(|name| dir.path().join(name));
    std::fs::create_dir(&other).unwrap();
    let foreign = chain(&other, &mut random);
    let (base, target) = (&paths[1], dir.path().join("target"));
    let refused = || {
        let error = restore(&paths[2], &target, &mut on).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(paths[2].to_str().unwrap()), "{text}");
        assert!(text.contains(base.to_str().unwrap()), "{text}");
        assert!(!target.exists());
        error
    };
    std::fs::rename(base, &away).unwrap();
    assert!(matches!(refused(), BackupError::BaseMissing { .. }));
    for other in [&foreign[1], &paths[0]] {
        std::fs::rename(other, base).unwrap();
        assert!(matches!(refused(), BackupError::BaseExchanged { .. }));
        std::fs::rename(base, other).unwrap();
    }
    std::fs::rename(&away, base).unwrap();
    restore(&paths[2], &target, &mut on).unwrap();
}

#[test]
fn rot_in_the_store_is_named_and_never_copied() {
    let mut random = seeded(24);
    let dir = tempfile::tempdir().unwrap();
    let (disk, _) = source(&mut random);
    let image = disk.image();
    let (mut named, mut unused) = (0, 0);
    for (file, bytes) in &image {
        if !file.ends_with(".dat") && !file.ends_with(".map") {
            continue;
        }
        for block in 0..bytes.len() / 4096 {
            let mut damaged = image.clone();
            let at = block * 4096 + random.below(4096) as usize;
            damaged.get_mut(file).unwrap()[at] ^= 4;
            let path = dir.path().join(format!("{file}-{block}"));
            let store = Store::open_on(common::disk_of(damaged), &child::options()).unwrap();
            match backup(&store, &path, None, &mut on) {
                Err(BackupError::Read(ReadError::Checksum { file: found, block: at, .. })) => {
                    assert_eq!((&found, at), (file, block as u64));
                    assert!(!path.exists());
                    named += 1;
                }
                Err(error) => panic!("{file}, block {block}: {error}"),
                // Nothing leads to the block: it does not get into the backup, either.
                Ok(_) => {
                    let target = dir.path().join("target");
                    restore(&path, &target, &mut on).unwrap();
                    let restored = std::fs::read(target.join(file)).unwrap();
                    let there = restored.get(block * 4096..(block + 1) * 4096);
                    assert!(there.is_none_or(|block| block.iter().all(|byte| *byte == 0)));
                    std::fs::remove_dir_all(&target).unwrap();
                    unused += 1;
                }
            }
        }
    }
    println!("{named} blocks named, {unused} of no use");
    assert!(named > 20 && unused > 0);
}

/// Not a test of its own: what the killed process runs.
#[test]
fn child_makes_backups_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let store = Store::open(&dir.join("store"), &child::options()).unwrap();
    let mut graph = child::imported(SEED);
    let mut lsn = store.snapshot().lsn();
    (1..=lsn).for_each(|lsn| child::repeat(&mut graph, SEED, lsn));
    let backups = dir.join("backups");
    let mut number = names(&backups).iter().filter(|name| !name.starts_with('.')).count();
    let hold: u64 = std::env::var(HOLD).unwrap().parse().unwrap();
    let mut calls = 0;
    let mut progress = |_, _| {
        calls += 1;
        if calls == hold {
            println!("\nheld");
            loop {
                std::thread::park();
            }
        }
        true
    };
    loop {
        (0..3).for_each(|_| {
            lsn += 1;
            child::commit_to(&store, &mut graph, SEED, lsn);
        });
        let before = number.checked_sub(1).filter(|_| !number.is_multiple_of(10));
        let base = before.map(|number| backups.join(number.to_string()));
        let target = backups.join(number.to_string());
        backup(&store, &target, base.as_deref(), &mut progress).unwrap();
        println!("\nwhole");
        number += 1;
    }
}

#[test]
fn a_backup_that_is_killed_at_any_moment_is_whole_or_not_there() {
    if std::env::var_os(DIR).is_some() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [store, backups] = ["store", "backups"].map(|name| dir.path().join(name));
    std::fs::create_dir(&store).unwrap();
    std::fs::create_dir(&backups).unwrap();
    child::build(&store, SEED);
    let mut random = seeded(SEED);
    let mut interrupted = 0;
    for kill in 0..KILLS {
        let hold = if kill % 2 == 0 { 0 } else { 1 + random.below(40) };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_makes_backups_until_it_is_killed", "--nocapture"]);
        command.env(DIR, dir.path()).env(HOLD, hold.to_string()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wanted = if hold > 0 { "held" } else { "whole" };
        // Its pipe stays open until it is killed.
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line == wanted));
        if hold == 0 {
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
        }
        child.kill().unwrap();
        assert!(child.wait().unwrap().code().is_none(), "it ended by itself");
        interrupted += names(&backups).iter().filter(|name| name.starts_with('.')).count();
    }
    let whole = names(&backups).iter().filter(|name| !name.starts_with('.')).count();
    let (mut graph, mut at) = (child::imported(SEED), 0);
    for number in 0..whole {
        let report = verify_backup(&backups.join(number.to_string()), &mut on).unwrap();
        if number % 10 == 9 || number + 1 == whole {
            let target = dir.path().join(format!("restored{number}"));
            restore(&backups.join(number.to_string()), &target, &mut on).unwrap();
            child::look(&target, SEED, (&mut graph, &mut at), report.lsn).unwrap();
            assert_eq!(at, report.lsn);
        }
    }
    let store = Store::open(&store, &child::options()).unwrap();
    backup(&store, &backups.join(whole.to_string()), None, &mut on).unwrap();
    assert_eq!(names(&backups).iter().filter(|name| name.starts_with('.')).count(), 0);
    println!("{KILLS} kills, {interrupted} left a part, {whole} whole backups, seed {SEED}");
    assert!(whole > 0 && interrupted > 0);
}

/// Backs up and restores where less than a megabyte is free.
fn fill(dir: &Path) {
    let mut random = seeded(25);
    let shape = Shape { num_nodes: 9000, page_bytes: 4096, row_bytes: 256, ..Shape::default() };
    let disk = shape.build();
    let store = changing::open(&disk);
    changing::change(&store, &shape, &mut random, 300);
    let outside = tempfile::tempdir().unwrap();
    let whole = outside.path().join("whole");
    backup(&store, &whole, None, &mut on).unwrap();
    for number in 0..2 {
        let error = match number {
            0 => backup(&store, &dir.join("backup"), None, &mut on).unwrap_err(),
            _ => restore(&whole, &dir.join("store"), &mut on).unwrap_err(),
        };
        assert!(matches!(error, BackupError::Write(_)), "{error}");
        assert_eq!(error.kind(), ErrorKind::IoFailed);
        assert_eq!(names(dir), Vec::<String>::new(), "{error}");
    }
}

#[test]
fn a_full_disk_leaves_no_part_of_a_backup_or_a_store() {
    if let Some(dir) = std::env::var_os(FULL) {
        return fill(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1m tmpfs \"$NEARGRAPH_BACKUP_FULL\" || exit 77
        exec \"$0\" a_full_disk_leaves_no_part_of_a_backup_or_a_store --exact";
    let status = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(FULL, dir.path())
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(101)) => panic!("the child failed"),
        other => println!("left out: no mount namespace here ({other:?})"),
    }
}

#[test]
fn a_target_in_no_directory_is_refused() {
    let mut random = seeded(26);
    let (disk, _) = source(&mut random);
    let store = Store::open_on(Arc::new(disk), &child::options()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let error = backup(&store, &dir.path().join("none").join("x"), None, &mut on).unwrap_err();
    assert!(matches!(error, BackupError::Staging(_)), "{error}");
    assert_eq!(error.kind(), ErrorKind::IoFailed);
}
