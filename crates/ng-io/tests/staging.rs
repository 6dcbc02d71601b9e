//! A directory under construction appears complete under its name, or not at all.

#![allow(clippy::expect_used)]

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{child_argument, directory, spawn_child};
use ng_io::{Existing, StagingDir, StagingError};

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("listed");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("listed").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[test]
fn nothing_is_seen_before_publish_and_all_of_it_after() {
    let dir = directory();
    let target = dir.path().join("g.ng");
    let staging = StagingDir::create(&target, Existing::Refuse).expect("staged");
    fs::write(staging.path().join("root.a"), b"1").expect("written");
    fs::create_dir(staging.path().join("sub")).expect("made");
    fs::write(staging.path().join("sub/x"), b"2").expect("written");
    assert_eq!(names(dir.path()), [".g.ng.partial"]);
    staging.publish().expect("published");
    assert_eq!(names(dir.path()), ["g.ng"]);
    assert_eq!(names(&target), ["root.a", "sub"]);
}

#[test]
fn an_abandoned_directory_is_removed() {
    let dir = directory();
    let target = dir.path().join("g.ng");
    let staging = StagingDir::create(&target, Existing::Refuse).expect("staged");
    fs::write(staging.path().join("root.a"), b"1").expect("written");
    drop(staging);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn an_existing_directory_is_refused_or_replaced_in_one_step() {
    let dir = directory();
    let target = dir.path().join("g.ng");
    fs::create_dir(&target).expect("made");
    fs::write(target.join("old"), b"1").expect("written");
    let error = StagingDir::create(&target, Existing::Refuse).expect_err("it exists");
    assert!(matches!(error, StagingError::Exists { .. }));
    let staging = StagingDir::create(&target, Existing::Replace).expect("staged");
    fs::write(staging.path().join("new"), b"2").expect("written");
    assert_eq!(names(&target), ["old"]);
    assert!(staging.publish().expect("published").is_none());
    assert_eq!((names(&target), names(dir.path())), (vec!["new".into()], vec!["g.ng".into()]));
    // The name may be taken while the new one is built.
    let late = dir.path().join("late.ng");
    let staging = StagingDir::create(&late, Existing::Refuse).expect("staged");
    fs::create_dir(&late).expect("made");
    fs::write(late.join("theirs"), b"3").expect("written");
    assert!(matches!(staging.publish().expect_err("taken"), StagingError::Exists { .. }));
    assert_eq!((names(&late), names(dir.path()).len()), (vec!["theirs".into()], 2));
}

#[test]
fn a_second_builder_is_told_that_the_first_is_alive() {
    let dir = directory();
    let target = dir.path().join("g.ng");
    let staging = StagingDir::create(&target, Existing::Refuse).expect("staged");
    fs::write(staging.path().join("root.a"), b"1").expect("written");
    let error = StagingDir::create(&target, Existing::Refuse).expect_err("locked");
    assert!(matches!(error, StagingError::Busy { .. }), "{error}");
    assert_eq!(names(staging.path()), ["root.a"]);
    staging.publish().expect("published");
}

#[test]
fn a_name_without_a_parent_or_without_a_last_part_is_an_error() {
    let dir = directory();
    let error = StagingDir::create(&dir.path().join("no/g.ng"), Existing::Refuse);
    assert!(matches!(error, Err(StagingError::NoParent { .. })));
    assert!(matches!(
        StagingDir::create(Path::new("/"), Existing::Refuse),
        Err(StagingError::BadName { .. })
    ));
}

#[test]
fn a_killed_builder_leaves_nothing_after_the_next_run() {
    if let Some(target) = child_argument() {
        // The child builds, says so, and waits to be killed.
        let staging = StagingDir::create(&target, Existing::Refuse).expect("staged");
        fs::write(staging.path().join("half"), vec![1; 1 << 20]).expect("written");
        fs::write(target.with_extension("ready"), b"").expect("written");
        std::thread::sleep(Duration::from_secs(120));
        return;
    }
    let dir = directory();
    let target = dir.path().join("g.ng");
    let mut child = spawn_child("a_killed_builder_leaves_nothing_after_the_next_run", &target);
    let start = Instant::now();
    while !target.with_extension("ready").exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "the child builds nothing");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(matches!(
        StagingDir::create(&target, Existing::Refuse),
        Err(StagingError::Busy { .. })
    ));
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(names(dir.path()), [".g.ng.partial", "g.ready"]);
    assert!(!target.exists());

    let staging = StagingDir::create(&target, Existing::Refuse).expect("staged");
    assert!(names(staging.path()).is_empty(), "leftovers are removed");
    fs::write(staging.path().join("root.a"), b"1").expect("written");
    staging.publish().expect("published");
    assert_eq!(
        (names(dir.path()), names(&target)),
        (vec!["g.ng".into(), "g.ready".into()], vec!["root.a".into()])
    );
}

#[test]
fn a_file_under_the_final_name_is_replaced_too_if_that_was_asked_for() {
    let dir = directory();
    let target = dir.path().join("g.ng");
    fs::write(&target, b"a stray file").expect("written");
    let staging = StagingDir::create(&target, Existing::Replace).expect("staged");
    fs::write(staging.path().join("root.a"), b"1").expect("written");
    staging.publish().expect("published");
    assert_eq!((names(&target), names(dir.path())), (vec!["root.a".into()], vec!["g.ng".into()]));
}

#[test]
fn a_link_to_a_directory_stays_and_what_it_leads_to_is_replaced() {
    let dir = directory();
    let (real, link) = (dir.path().join("real/g.ng"), dir.path().join("link.ng"));
    fs::create_dir_all(&real).expect("made");
    fs::write(real.join("old"), b"1").expect("written");
    std::os::unix::fs::symlink("real/g.ng", &link).expect("linked");
    let staging = StagingDir::create(&link, Existing::Replace).expect("staged");
    fs::write(staging.path().join("new"), b"2").expect("written");
    assert!(staging.publish().expect("published").is_none());
    assert!(link.is_symlink());
    assert_eq!((names(&link), names(&real)), (vec!["new".into()], vec!["new".into()]));
    assert_eq!(names(&dir.path().join("real")), ["g.ng"]);
    // A new directory is not put behind a link that somebody has placed there.
    let error = StagingDir::create(&link, Existing::Refuse).expect_err("it exists");
    assert!(matches!(error, StagingError::Exists { .. }), "{error}");
}

/// Makes a file that cannot be removed, or says that it cannot be made here.
fn set_immutable(path: &Path, wanted: bool) -> bool {
    let file = fs::File::open(path).expect("opened");
    let flags = if wanted { rustix::fs::IFlags::IMMUTABLE } else { rustix::fs::IFlags::empty() };
    rustix::fs::ioctl_setflags(&file, flags).is_ok()
}

#[test]
fn what_cannot_be_removed_of_the_older_directory_is_no_failure_and_goes_the_next_time() {
    let dir = directory();
    let target = dir.path().join("g.ng");
    fs::create_dir(&target).expect("made");
    let stuck = target.join("stuck");
    fs::write(&stuck, b"1").expect("written");
    if !set_immutable(&stuck, true) {
        return println!("left out: files cannot be made immutable here");
    }
    let staging = StagingDir::create(&target, Existing::Replace).expect("staged");
    fs::write(staging.path().join("new"), b"2").expect("written");
    let leftover = staging.publish().expect("published").expect("a leftover").to_string();
    assert!(leftover.contains(".g.ng.partial"), "{leftover}");
    let left = dir.path().join(".g.ng.partial/stuck");
    assert!(left.exists());
    assert_eq!(names(&target), ["new"]);
    assert!(set_immutable(&left, false));
    let staging = StagingDir::create(&target, Existing::Replace).expect("staged");
    assert!(names(staging.path()).is_empty());
    drop(staging);
    assert_eq!(names(dir.path()), ["g.ng"]);
}

#[test]
fn a_reader_that_creates_files_in_the_older_directory_does_not_fail_its_replacement() {
    let dir = directory();
    let target = dir.path().join("g.ng");
    for round in 0..20 {
        fs::create_dir_all(&target).expect("made");
        let held = fs::File::open(&target).expect("opened");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            // As often as it can, until half of the tries to remove the directory are over.
            scope.spawn(|| {
                use std::os::fd::AsRawFd;
                let name = format!("/proc/self/fd/{}/pins", held.as_raw_fd());
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(50)
                    && !stop.load(std::sync::atomic::Ordering::Relaxed)
                {
                    drop(fs::File::create(&name));
                }
            });
            let staging = StagingDir::create(&target, Existing::Replace).expect("staged");
            fs::write(staging.path().join("new"), b"2").expect("written");
            let leftover = staging.publish().expect("published");
            assert!(leftover.is_none(), "round {round}: {leftover:?}");
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(names(dir.path()), ["g.ng"]);
    }
}
