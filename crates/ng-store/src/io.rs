//! What this crate uses of `ng-io`, and how it is called.

use std::path::Path;
use std::sync::Arc;

pub(crate) use ng_io::{
    AnonMap, Appender, BLOCK_BYTES, CacheFile, Disk, FileId, Gauge, READ_BYTES_MAX, ReadError,
    ReadOp, Reader, WriteError, device_name, past_signals,
};
use ng_io::{BackendChoice, NamedDir, OpenOptions, open_dir, open_named};

/// Opens a directory to write new files into it, or to read little of it.
pub(crate) fn open_without_queue(dir: &Path) -> Result<Arc<dyn Disk>, ng_io::OpenError> {
    let options = OpenOptions { queue_depth: 1, ..OpenOptions::default() };
    open_dir(dir, BackendChoice::Pread, &options).map(|opened| opened.disk)
}

/// The same of a directory that is open: its files are closed with what is returned.
pub(crate) fn open_again(place: &Arc<NamedDir>) -> Result<Arc<dyn Disk>, ng_io::OpenError> {
    let options = OpenOptions { queue_depth: 1, ..OpenOptions::default() };
    open_named(place, BackendChoice::Pread, &options).map(|opened| opened.disk)
}

/// Makes the names in the directory durable.
pub(crate) fn sync_dir(disk: &dyn Disk) -> Result<(), WriteError> {
    let wrap = |source| WriteError::Sync { file: "the store's directory".into(), source };
    disk.sync_dir().map_err(|error| wrap(Arc::new(error)))
}
