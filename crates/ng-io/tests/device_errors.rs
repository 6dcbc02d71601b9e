//! A failing device: an error with file and offset, no hang, and no harm to other reads.

#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::random_ops;
use ng_io::{Disk, ReadError, ReadOp, Reader};
use ng_testing::{Fault, FaultDisk, FaultPlan, MemDisk, Random};

const BLOCKS: u64 = 64;

fn disk_with(plan: FaultPlan) -> (Arc<FaultDisk>, Vec<u8>) {
    let bytes = Random::new(3).bytes(BLOCKS as usize * 4096);
    let inner = MemDisk::new();
    inner.put("a.dat", bytes.clone());
    (Arc::new(FaultDisk::new(Arc::new(inner), plan)), bytes)
}

/// Runs `test` on a thread of its own, and fails if it hangs.
fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    let (ended, ends) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        ended.send(()).expect("waited for");
    });
    match ends.recv_timeout(Duration::from_secs(60)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the read hangs"),
        _ => thread.join().expect("the test passes"),
    }
}

#[test]
fn an_io_error_names_file_and_offset_and_spares_the_other_reads() {
    within_a_minute(|| {
        let (disk, bytes) = disk_with(FaultPlan::new(1).with_fault_at(11, Fault::Error, false));
        let root = std::path::Path::new("/data/g.ng");
        let reader = Reader::in_directory(disk, root);
        let file = reader.open("a.dat").expect("opened");
        let ops = random_ops(&mut Random::new(1), file, BLOCKS, 40, 4);
        let (mut rest, mut good, mut failed) = (ops.iter().copied(), 0, Vec::new());
        let mut done = |op: ReadOp, result: Result<&[u8], ReadError>| match result {
            Ok(found) => {
                assert_eq!(found, &bytes[op.offset as usize..][..op.len as usize]);
                good += 1;
            }
            Err(error) => failed.push((op, error)),
        };
        reader.read(&mut || rest.next(), &mut done).expect("the queue works");
        assert_eq!((good, failed.len()), (39, 1));
        let (op, error) = &failed[0];
        let ReadError::Io { offset, len, source, .. } = error else { panic!("{error}") };
        assert_eq!((*offset, *len), (op.offset, op.len));
        assert_eq!(source.raw_os_error(), Some(5));
        let text = error.to_string();
        assert!(text.contains("/data/g.ng/a.dat") && text.contains(&op.offset.to_string()));
    });
}

#[test]
fn every_fault_at_every_read_once_or_for_ever_is_the_right_bytes_or_an_error() {
    within_a_minute(|| {
        let (mut pairs, mut wrong, mut errors) = (0, 0, 0);
        let (disk, bytes) = disk_with(FaultPlan::new(1));
        let reader = Reader::new(Arc::clone(&disk) as Arc<dyn Disk>);
        let file = reader.open("a.dat").expect("opened");
        let faults =
            [Fault::Short, Fault::Nothing, Fault::Interrupted, Fault::TryAgain, Fault::Error];
        for fault in faults {
            for index in 0..8 {
                for sticky in [false, true] {
                    disk.replan(FaultPlan::new(index).with_fault_at(index, fault, sticky));
                    let ops = random_ops(&mut Random::new(index), file, BLOCKS, 8, 8);
                    let (mut rest, mut answered) = (ops.iter().copied(), 0);
                    let mut done = |op: ReadOp, result: Result<&[u8], ReadError>| {
                        answered += 1;
                        match result {
                            Ok(found) => {
                                let right = &bytes[op.offset as usize..][..op.len as usize];
                                wrong += usize::from(found != right);
                            }
                            Err(_) => errors += 1,
                        }
                    };
                    reader.read(&mut || rest.next(), &mut done).expect("the queue works");
                    assert_eq!(answered, 8, "{fault:?} at {index}, sticky {sticky}");
                    pairs += 1;
                }
            }
        }
        println!("D4 (reads) pairs={pairs} wrong={wrong} errors={errors} hang=0");
        assert_eq!(wrong, 0);
        assert!(errors > 0);
    });
}

#[test]
fn a_device_that_never_makes_progress_is_an_error_and_not_a_loop() {
    within_a_minute(|| {
        for fault in [Fault::Nothing, Fault::TryAgain, Fault::Interrupted] {
            let (disk, _) = disk_with(FaultPlan::new(1));
            let reader = Reader::new(Arc::clone(&disk) as Arc<dyn Disk>);
            let file = reader.open("a.dat").expect("opened");
            disk.replan(FaultPlan::new(1).with_fault_at(0, fault, true));
            let error = reader.read_at(file, 8192, 4096).expect_err("no progress");
            let ReadError::Stalled { offset, tries, .. } = error else { panic!("{error}") };
            assert_eq!((offset, tries), (8192, 64), "{fault:?}");
        }
    });
}
