//! Memory for the columns of batches, used again and again: a fresh mapping costs a page fault for
//! every few KiB that a batch fills.
//!
//! The invariant: a pool's memory is taken from the budget once, as long as the pool or one of its
//! buffers lives.

use std::sync::{Arc, Mutex, PoisonError};

use ng_io::Region;
use ng_types::Reservation;

/// From this length on a page fault for every 4 KiB would take longer than what fills them.
const LARGE_BYTES: usize = 8 << 20;

/// Bytes of a column. Equal content makes equal buffers.
#[derive(Debug)]
pub struct Buffer {
    region: Region,
    len: usize,
    home: Option<Arc<Pool>>,
}

impl Buffer {
    /// Memory of its own, zeros.
    pub fn new(len: usize) -> std::io::Result<Self> {
        let is_large = len >= LARGE_BYTES;
        let region = if is_large { Region::with_huge_pages(len)? } else { Region::new(len)? };
        Ok(Self { region, len, home: None })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.region.as_slice()[..self.len]
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.region.as_mut_slice()[..self.len]
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(home), Ok(empty)) = (self.home.take(), Region::new(0)) {
            home.give(std::mem::replace(&mut self.region, empty));
        }
    }
}

/// Buffers of one length that come back.
#[derive(Debug)]
pub(crate) struct Pool {
    bytes: usize,
    free: Mutex<Vec<Region>>,
    _held: Reservation,
}

impl Pool {
    /// `count` buffers of up to `bytes` each, paid for by `held`.
    pub fn new(count: usize, bytes: usize, held: Reservation) -> std::io::Result<Arc<Self>> {
        let region = |_| Region::with_huge_pages(bytes);
        let free = (0..count).map(region).collect::<std::io::Result<_>>()?;
        Ok(Arc::new(Self { bytes, free: Mutex::new(free), _held: held }))
    }

    /// A buffer of `len` bytes with undefined content, if one is there and long enough.
    pub fn take(self: &Arc<Self>, len: usize) -> Option<Buffer> {
        if len > self.bytes {
            return None;
        }
        let region = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Buffer { region, len, home: Some(Arc::clone(self)) })
    }

    /// Whether a buffer can be this long.
    pub fn fits(&self, len: usize) -> bool {
        len <= self.bytes
    }

    fn give(&self, region: Region) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(region);
    }
}
