//! A disk that is really full: a small tmpfs in a mount namespace of its own.

#![allow(clippy::expect_used)]

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use common::{child_argument, directory};
use ng_io::{
    Appender, BackendChoice, OpenOptions, ScratchError, ScratchFile, WriteError, open_dir,
};

fn fill(dir: &Path) {
    for choice in [BackendChoice::Pread, BackendChoice::Auto] {
        let disk = open_dir(dir, choice, &OpenOptions::default()).expect("opened").disk;
        let mut file = Appender::create(Arc::clone(&disk), "a.dat").expect("created");
        let result = (0..8).try_for_each(|_| file.write(&[1; 1 << 20]));
        let error = result.expect_err("the disk holds less");
        let WriteError::DiskFull { wanted_bytes, .. } = &error else { panic!("{error}") };
        assert!(*wanted_bytes > 0);
        let text = error.to_string();
        assert!(text.contains("a.dat") && text.contains("bytes free"), "{text}");
        drop(file);
        disk.remove("a.dat").expect("removed");
    }
    let file = ScratchFile::create_in(dir).expect("created");
    let result = (0..8).try_for_each(|_| file.append(&[1; 1 << 20]).map(|_| ()));
    let error = result.expect_err("the disk holds less");
    assert!(matches!(error, ScratchError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains(dir.to_str().expect("UTF-8")), "{error}");
}

#[test]
fn a_full_disk_is_an_error_with_path_bytes_wanted_and_bytes_free() {
    if let Some(dir) = child_argument() {
        fill(&dir);
        return println!("filled");
    }
    let dir = directory();
    let script = "mount -t tmpfs -o size=3m tmpfs \"$NG_IO_TEST_CHILD\" || exit 77
        exec \"$0\" a_full_disk_is_an_error_with_path_bytes_wanted_and_bytes_free --exact";
    let status = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .arg(std::env::current_exe().expect("a path"))
        .env("NG_IO_TEST_CHILD", dir.path())
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(101)) => panic!("the child failed"),
        other => println!("left out: no mount namespace here ({other:?})"),
    }
}
