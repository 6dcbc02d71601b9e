//! A fault that is planned for an operation strikes it, once or from there on.

#![allow(clippy::expect_used)]

use std::io;
use std::sync::Arc;

use ng_io::{Access, Disk, FileId, ReadOp};
use ng_testing::{Fault, FaultDisk, FaultPlan, MemDisk};

const OPERATIONS: u64 = 11;

/// One operation of each kind, in order; each says whether it did all it was asked for.
fn run(disk: &FaultDisk) -> Vec<io::Result<bool>> {
    let file = FileId(0);
    let read = || {
        let mut op = Some(ReadOp { tag: 0, file, offset: 0, len: 4096 });
        let mut result = Ok(false);
        disk.read(&mut || op.take(), &mut |_, answer| {
            result = answer.map(|bytes| bytes == [1; 4096]);
        })?;
        result
    };
    vec![
        disk.open("a", Access::ReadWrite).map(|_| true),
        disk.lock_writer().map(|lock| lock.is_some()),
        disk.pin(1).map(|pin| pin.is_some()),
        disk.is_pinned_below(5).map(|pinned| !pinned),
        disk.allocate(file, 4096).map(|()| true),
        disk.write(file, 0, &[1; 4096]).map(|len| len == 4096),
        disk.sync(file).map(|()| true),
        read(),
        disk.rename("a", "b").map(|()| true),
        disk.sync_dir().map(|()| true),
        disk.remove("b").map(|()| true),
    ]
}

#[test]
fn every_operation_can_be_struck_by_every_fault_that_it_knows() {
    const READ: u64 = 7;
    const WRITE: u64 = 5;
    for fault in Fault::ALL {
        for index in 0..OPERATIONS {
            for sticky in [false, true] {
                let inner = MemDisk::new();
                inner.put("a", vec![1; 4096]);
                inner.put("b", vec![1; 4096]);
                // Held open so that the operations after a refused one have their file.
                inner.open("a", Access::ReadWrite).expect("opened");
                let plan = FaultPlan::new(index).with_fault_at(index, fault, sticky);
                let disk = FaultDisk::new(Arc::new(inner), plan);
                let results = run(&disk);
                let is_struck = |at: u64| match fault {
                    _ if at != index && !(sticky && at > index) => false,
                    Fault::Short | Fault::Nothing => [READ, WRITE].contains(&at),
                    Fault::Interrupted | Fault::TryAgain | Fault::Error => true,
                    Fault::Full => at != READ,
                    _ => at == READ,
                };
                let struck: u64 = (0..OPERATIONS).map(|at| u64::from(is_struck(at))).sum();
                let label = format!("{fault:?} at {index}, sticky {sticky}");
                assert_eq!(disk.counts().operations, OPERATIONS, "{label}");
                assert_eq!(disk.counts().total(), struck, "{label}");
                // The one block of the file is read for any other, so a misdirected read is right.
                if fault != Fault::Misdirected {
                    let failed = results.iter().filter(|result| !matches!(result, Ok(true)));
                    assert_eq!(failed.count() as u64, struck, "{label}: {results:?}");
                }
            }
        }
    }
}
