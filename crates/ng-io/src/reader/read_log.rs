//! [`ReadLog`]: a list of the device requests of a [`crate::Reader`], written while they are made.
//!
//! What must not live here: what requests cost. The invariant: a log that is off costs one load
//! for an answer, and one that cannot be written never fails a read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::disk::FileId;

/// What a log begins with; zeros fill it up to the length of a record.
const MAGIC: &[u8; 16] = b"ngreads1\0\0\0\0\0\0\0\0";

const FOLLOWS: u32 = 1 << 31;

/// One request that the device has answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedRead {
    pub file: FileId,
    pub offset: u64,
    /// What arrived.
    pub bytes: u32,
    /// Whether it begins where the request before it ended.
    pub follows: bool,
}

#[derive(Default)]
pub(super) struct ReadLog {
    on: AtomicBool,
    file: Mutex<Option<Open>>,
}

struct Open {
    file: BufWriter<File>,
    requests: u64,
    failure: Option<io::Error>,
}

impl ReadLog {
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub fn begin(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(MAGIC)?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Open { file, requests: 0, failure: None });
        self.on.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub fn append(&self, requests: &[LoggedRead]) {
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = guard.as_mut().filter(|open| open.failure.is_none()) else { return };
        for read in requests {
            let place = read.file.0 & !FOLLOWS | if read.follows { FOLLOWS } else { 0 };
            let mut record = [0; 16];
            record[..8].copy_from_slice(&read.offset.to_le_bytes());
            record[8..12].copy_from_slice(&read.bytes.to_le_bytes());
            record[12..].copy_from_slice(&place.to_le_bytes());
            if let Err(error) = open.file.write_all(&record) {
                open.failure = Some(error);
                return;
            }
        }
        open.requests += requests.len() as u64;
    }

    pub fn end(&self) -> io::Result<u64> {
        self.on.store(false, Ordering::Relaxed);
        let open = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut open) = open else { return Ok(0) };
        open.failure.map_or(Ok(()), Err)?;
        open.file.flush()?;
        Ok(open.requests)
    }
}
