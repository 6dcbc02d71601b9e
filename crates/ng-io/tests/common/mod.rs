//! What the behaviour tests share: directories on a real disk, files with known bytes, random
//! reads.
#![allow(dead_code, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ng_io::{Appender, BackendChoice, Disk, FileId, OpenOptions, ReadOp, Reader, open_dir};
use ng_testing::Random;

/// A directory on the file system of the build, which is a disk and not a tmpfs as `/tmp` may be.
pub fn directory() -> tempfile::TempDir {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    tempfile::Builder::new().prefix("ng-io-").tempdir_in(root).expect("a directory")
}

/// Writes a file through a disk.
pub fn write_file(disk: &Arc<dyn Disk>, name: &str, bytes: &[u8]) {
    let mut file = Appender::create(Arc::clone(disk), name).expect("created");
    file.write(bytes).expect("written");
    file.finish().expect("durable");
    disk.sync_dir().expect("durable");
}

/// Opens with a back end, or says why it is left out.
pub fn open(path: &Path, choice: BackendChoice, options: &OpenOptions) -> Option<Arc<dyn Disk>> {
    match open_dir(path, choice, options) {
        Ok(opened) => Some(opened.disk),
        Err(error) => {
            println!("left out {choice}: {error}");
            None
        }
    }
}

/// Random reads of a file of `blocks` blocks; the last block is among them.
pub fn random_ops(
    random: &mut Random,
    file: FileId,
    blocks: u64,
    count: usize,
    blocks_max: u64,
) -> Vec<ReadOp> {
    let op = |tag: usize, first: u64, len: u64| ReadOp {
        tag: tag as u64,
        file,
        offset: first * 4096,
        len: (len * 4096) as u32,
    };
    let mut ops: Vec<ReadOp> = (0..count - 1)
        .map(|tag| {
            let len = 1 + random.below(blocks_max.min(blocks));
            op(tag, random.below(blocks - len + 1), len)
        })
        .collect();
    ops.push(op(count - 1, blocks - 1, 1));
    ops
}

/// Runs the reads and compares each with the bytes that were written; the number of wrong ones.
pub fn count_wrong(reader: &Reader, ops: &[ReadOp], expected: &[u8]) -> usize {
    let mut wrong = 0;
    let mut seen = vec![0_u32; ops.len()];
    let mut rest = ops.iter().copied();
    reader
        .read(&mut || rest.next(), &mut |op, result| {
            seen[op.tag as usize] += 1;
            let bytes = result.expect("read");
            let start = op.offset as usize;
            wrong += usize::from(bytes != &expected[start..start + op.len as usize]);
        })
        .expect("the queue works");
    assert!(seen.iter().all(|times| *times == 1), "every read has exactly one completion");
    wrong
}

/// The variable that makes a test of this binary act as its own child process.
const CHILD: &str = "NG_IO_TEST_CHILD";

/// What the parent has passed to a child; `None` in the parent.
pub fn child_argument() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Runs one test of this binary as a child process.
pub fn spawn_child(test: &str, argument: &Path) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().expect("a path"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, argument)
        .spawn()
        .expect("started")
}
