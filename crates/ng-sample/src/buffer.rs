//! Memory for the columns of batches, used again and again: a fresh mapping costs a page fault for
//! every few KiB that a batch fills.
//!
//! The invariant: a buffer's memory is taken from the budget once, until the pool rests or the last
//! of pool and buffers is dropped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ng_io::{AnonMap, BLOCK_BYTES};
use ng_types::{BudgetExceeded, Reservation};

use crate::SampleError;

/// From this length on a page fault for every 4 KiB would take longer than what fills them.
const LARGE_BYTES: usize = 8 << 20;

/// A new buffer of a pool is longer than wanted by one of so many parts.
const ROOM_PARTS: usize = 32;

/// Bytes of a column. Equal content makes equal buffers.
#[derive(Debug)]
pub struct Buffer {
    pooled: Pooled,
    len: usize,
    home: Option<Arc<Pool>>,
}

impl Buffer {
    /// Memory of its own, zeros.
    ///
    /// # Errors
    /// [`SampleError::NoMemory`].
    pub fn new(len: usize) -> Result<Self, SampleError> {
        let is_large = len >= LARGE_BYTES;
        let small = |source| SampleError::NoMemory { bytes: len, source };
        let region = if is_large { region(len)? } else { AnonMap::new(len).map_err(small)? };
        Ok(Self { pooled: Pooled { region, held: None }, len, home: None })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.pooled.region.as_slice()[..self.len]
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.pooled.region.as_mut_slice()[..self.len]
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
        if let (Some(home), Ok(empty)) = (self.home.take(), AnonMap::new(0)) {
            let empty = Pooled { region: empty, held: None };
            home.take_back(std::mem::replace(&mut self.pooled, empty));
        }
    }
}

/// Memory in huge pages.
pub(crate) fn region(bytes: usize) -> Result<AnonMap, SampleError> {
    AnonMap::with_huge_pages(bytes).map_err(|source| SampleError::NoMemory { bytes, source })
}

/// Buffers that come back: all of one length, but for those that had to become longer; or of any
/// length, as they were wanted.
#[derive(Debug)]
pub(crate) struct Pool {
    bytes: usize,
    /// Buffers that stay while nobody has them.
    most: AtomicUsize,
    free: Mutex<Vec<Pooled>>,
}

/// A buffer's memory, and what pays for it in a pool.
#[derive(Debug)]
struct Pooled {
    region: AnonMap,
    held: Option<Reservation>,
}

impl Pool {
    /// `count` buffers of up to `bytes` each, paid for by `held`.
    pub fn new(
        count: usize,
        bytes: usize,
        mut held: Reservation,
    ) -> Result<Arc<Self>, SampleError> {
        let mut pooled = |_| {
            let held = Some(held.split(bytes as u64));
            Ok(Pooled { region: region(bytes)?, held })
        };
        let free = (0..count).map(&mut pooled).collect::<Result<_, SampleError>>()?;
        Ok(Arc::new(Self { bytes, most: AtomicUsize::new(usize::MAX), free: Mutex::new(free) }))
    }

    /// Gives back the memory of all buffers that are here, until they are taken.
    pub fn rest(&self) -> Result<(), SampleError> {
        for pooled in self.lock().iter_mut() {
            *pooled = Pooled { region: region(0)?, held: None };
        }
        Ok(())
    }

    /// A buffer of `len` bytes with undefined content, if one is there. Where it gave its memory
    /// back, or batches turn out larger than was foreseen, it is made longer, and `reserve` gives
    /// what pays for that.
    pub fn take(
        self: &Arc<Self>,
        len: usize,
        reserve: &dyn Fn(u64) -> Result<Reservation, BudgetExceeded>,
    ) -> Result<Option<Buffer>, SampleError> {
        let mut free = self.lock();
        let long_enough = free.iter().position(|pooled| pooled.region.as_slice().len() >= len);
        let Some(at) = long_enough.or(free.len().checked_sub(1)) else { return Ok(None) };
        if long_enough.is_none() {
            let (bytes, pooled) = (len.max(self.bytes), &mut free[at]);
            let held = pooled.held.as_ref().map_or(0, Reservation::bytes);
            let more = reserve((bytes as u64).saturating_sub(held))?;
            // The old memory goes before the new comes: both at once were not planned for.
            pooled.region = region(0)?;
            pooled.region = region(bytes)?;
            match &mut pooled.held {
                Some(held) => held.merge(more),
                none => *none = Some(more),
            }
        }
        let pooled = free.swap_remove(at);
        Ok(Some(Buffer { pooled, len, home: Some(Arc::clone(self)) }))
    }

    /// A pool without buffers that keeps up to `most` of those that come back.
    pub fn open(most: usize) -> Arc<Self> {
        Arc::new(Self { bytes: 0, most: AtomicUsize::new(most), free: Mutex::default() })
    }

    /// What a new buffer of `len` bytes takes of the budget: batches differ in length, so the next
    /// one shall fit, too.
    pub fn room(len: usize) -> usize {
        (len + len / ROOM_PARTS).next_multiple_of(BLOCK_BYTES)
    }

    /// A free buffer of `len` bytes with undefined content that does not waste much.
    pub fn take_free(self: &Arc<Self>, len: usize) -> Option<Buffer> {
        let mut free = self.lock();
        let bytes = |at: &usize| free[*at].region.as_slice().len();
        let most = Self::room(len).saturating_mul(2);
        let fits = (0..free.len()).filter(|at| (len..=most).contains(&bytes(at)));
        let pooled = fits.min_by_key(bytes).map(|at| free.swap_remove(at))?;
        Some(Buffer { pooled, len, home: Some(Arc::clone(self)) })
    }

    /// A new buffer of `len` bytes that comes back; `held` has [`Pool::room`] for it.
    pub fn make(self: &Arc<Self>, len: usize, held: Reservation) -> Result<Buffer, SampleError> {
        let Buffer { pooled, .. } = &mut Buffer::new(Self::room(len))?;
        let empty = AnonMap::new(0).map_err(|source| SampleError::NoMemory { bytes: 0, source })?;
        let region = std::mem::replace(&mut pooled.region, empty);
        let pooled = Pooled { region, held: Some(held) };
        Ok(Buffer { pooled, len, home: Some(Arc::clone(self)) })
    }

    /// Gives back all buffers that nobody has; returns their bytes.
    pub fn drop_all(&self) -> u64 {
        let free = std::mem::take(&mut *self.lock());
        free.iter().filter_map(|pooled| pooled.held.as_ref()).map(Reservation::bytes).sum()
    }

    /// Keeps nothing from now on.
    pub fn close(&self) {
        self.most.store(0, Ordering::Relaxed);
        self.drop_all();
    }

    fn take_back(&self, pooled: Pooled) {
        let mut free = self.lock();
        free.push(pooled);
        if free.len() <= self.most.load(Ordering::Relaxed) {
            return;
        }
        // The one that was too short most often, as it is the oldest.
        let oldest = free.remove(0);
        drop(free);
        drop(oldest);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pooled>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ng_types::Budget;

    use super::*;

    #[test]
    fn a_buffer_becomes_longer_where_the_budget_allows_and_is_not_lost_where_it_does_not() {
        let budget = Budget::new(10_000);
        let reserve = |bytes| budget.reserve(bytes);
        let take = |pool: &Arc<Pool>, len| pool.take(len, &reserve);
        let held = budget.reserve(8192).expect("two buffers");
        let pool = Pool::new(2, 4096, held).expect("memory");

        let mut longer = take(&pool, 5000).expect("904 bytes more").expect("a buffer");
        assert_eq!(longer.as_mut_slice().len(), 5000);
        assert_eq!(budget.used_bytes(), 8192 + 904);
        assert!(take(&pool, 6000).is_err(), "1,904 bytes more are not there");
        let other = take(&pool, 4096).expect("as it was").expect("the other buffer");
        assert!(take(&pool, 1).expect("no error").is_none(), "all are out");

        drop((longer, other));
        let first = take(&pool, 5000).expect("nothing more").expect("the longer one");
        let second = take(&pool, 4000).expect("nothing more").expect("the shorter one");
        assert_eq!(budget.used_bytes(), 8192 + 904);
        drop(first);
        pool.rest().expect("memory");
        assert_eq!(budget.used_bytes(), 4096, "the buffer that is out");
        let again = take(&pool, 10).expect("4,096 bytes are there").expect("a buffer");
        assert_eq!(budget.used_bytes(), 2 * 4096);
        drop((again, second, pool));
        assert_eq!(budget.used_bytes(), 0);
    }
}
