//! Truncated files and impossible requests are errors that say where.

#![allow(clippy::expect_used)]

mod common;

use common::{directory, open};
use ng_io::{BackendChoice, FileId, OpenOptions, ReadError, ReadOp, Reader};

#[test]
fn a_truncated_file_is_an_error_with_both_lengths_on_every_back_end() {
    let dir = directory();
    // Five blocks and a bit: the last block of the file is not whole.
    std::fs::write(dir.path().join("a.dat"), vec![1; 5 * 4096 + 100]).expect("written");
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let reader = Reader::new(disk);
        let file = reader.open("a.dat").expect("opened");
        for (offset, len) in [(5 * 4096, 4096), (4 * 4096, 8192), (0, 65536), (1 << 40, 4096)] {
            let mut ops = Some(ReadOp { tag: 0, file, offset, len });
            let mut error = None;
            reader
                .read(&mut || ops.take(), &mut |_, result| error = result.err())
                .expect("the queue works");
            let Some(ReadError::EndOfFile { file_bytes, .. }) = error else {
                panic!("{choice}: {error:?}")
            };
            assert_eq!(file_bytes, 5 * 4096 + 100);
        }
        let error = reader.read_at(file, 0, 1 << 40).expect_err("too long");
        assert!(error.to_string().contains("truncated"), "{error}");
        assert_eq!(reader.read_at(file, 4096, 4 * 4096).expect("whole"), vec![1; 4 * 4096]);
    }
}

#[test]
fn requests_that_no_device_could_serve_are_errors_and_spare_the_others() {
    let dir = directory();
    std::fs::write(dir.path().join("a.dat"), vec![1; 8 * 4096]).expect("written");
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let reader = Reader::new(disk);
        let file = reader.open("a.dat").expect("opened");
        let whole = ReadOp { tag: 0, file, offset: 0, len: 4096 };
        let bad = [
            ReadOp { offset: 1, ..whole },
            ReadOp { len: 100, ..whole },
            ReadOp { len: 0, ..whole },
            ReadOp { len: 1 << 30, ..whole },
            ReadOp { offset: u64::MAX - 4095, ..whole },
            ReadOp { file: FileId(77), ..whole },
        ];
        let mut ops = bad.into_iter().chain([whole]);
        let (mut good, mut failed) = (0, 0);
        reader
            .read(&mut || ops.next(), &mut |_, result| match result {
                Ok(_) => good += 1,
                Err(_) => failed += 1,
            })
            .expect("the queue works");
        assert_eq!((good, failed), (1, 6), "{choice}");
        // The same, past the Reader: the back ends defend themselves.
        let mut ops = bad.into_iter().chain([whole]);
        let (mut good, mut failed) = (0, 0);
        reader
            .disk()
            .read(&mut || ops.next(), &mut |_, result| match result {
                Ok(_) => good += 1,
                Err(_) => failed += 1,
            })
            .expect("the queue works");
        assert_eq!((good, failed), (1, 6), "{choice}");
    }
}

#[test]
fn a_missing_file_and_a_name_with_a_slash_are_errors_that_name_it() {
    let dir = directory();
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let reader = Reader::new(disk);
        for name in ["missing", "../a.dat", "/etc/passwd", ""] {
            let error = reader.open(name).expect_err("refused");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

#[test]
fn a_panic_in_a_completion_leaves_the_disk_usable() {
    let dir = directory();
    std::fs::write(dir.path().join("a.dat"), vec![1; 400 * 4096]).expect("written");
    for choice in BackendChoice::ALL {
        let Some(disk) = open(dir.path(), choice, &OpenOptions::default()) else {
            continue;
        };
        let reader = Reader::new(disk);
        let file = reader.open("a.dat").expect("opened");
        let mut blocks = 0..400;
        let run = std::panic::AssertUnwindSafe(|| {
            let mut next = || {
                let tag = blocks.next()?;
                Some(ReadOp { tag, file, offset: tag * 4096, len: 4096 })
            };
            reader.read(&mut next, &mut |op, _| assert_ne!(op.tag, 30, "planted"))
        });
        assert!(std::panic::catch_unwind(run).is_err());
        assert_eq!(reader.read_at(file, 0, 400 * 4096).expect("read"), vec![1; 400 * 4096]);
    }
}
