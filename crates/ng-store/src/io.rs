//! What this crate uses of `ng-io`, and the calls that treat errors in another way.

use std::path::Path;
use std::sync::Arc;

pub(crate) use ng_io::{
    Appender, BLOCK_BYTES, Disk, FileId, READ_BYTES_MAX, ReadError, ReadOp, Reader, Region,
    WriteError,
};
use ng_io::{BackendChoice, OpenOptions, open_dir};

/// Opens a directory to write a new store into it.
pub(crate) fn open_for_writing(dir: &Path) -> Result<Arc<dyn Disk>, ng_io::OpenError> {
    let options = OpenOptions { queue_depth: 1, ..OpenOptions::default() };
    open_dir(dir, BackendChoice::Pread, &options).map(|opened| opened.disk)
}

/// A call may be interrupted so often in a row.
const TRIES_MAX: u32 = 64;

/// Makes a call that moves no bytes again while its error is a passing one.
pub(crate) fn past_signals<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    use std::io::ErrorKind::{Interrupted, WouldBlock};
    for _ in 1..TRIES_MAX {
        match call() {
            Err(error) if matches!(error.kind(), Interrupted | WouldBlock) => {}
            result => return result,
        }
    }
    call()
}

/// Makes the names in the directory durable.
pub(crate) fn sync_dir(disk: &dyn Disk) -> Result<(), WriteError> {
    let wrap = |source| WriteError::Sync { file: "the store's directory".into(), source };
    disk.sync_dir().map_err(|error| wrap(Arc::new(error)))
}
