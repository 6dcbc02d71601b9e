//! [`FillingRegion`]: memory that is filled part by part while parts that are full are read.
//!
//! The invariant: the bytes of a part are lent to one writer until it is full, and to readers from
//! then on, never to both.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::os::anon_map::AnonMap;

const EMPTY: u8 = 0;
const TAKEN: u8 = 1;
const FULL: u8 = 2;

/// One piece of memory in parts, each of which is written once.
///
/// ```
/// use ng_io::FillingRegion;
/// let memory = FillingRegion::new(10, 4)?;
/// assert_eq!((memory.parts(), memory.part(2)), (3, None));
/// memory.fill(2, |bytes| -> Result<(), ()> {
///     bytes.fill(7);
///     Ok(())
/// });
/// assert_eq!(memory.part(2), Some(&[7, 7][..]));
/// assert!(memory.whole().is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FillingRegion {
    region: AnonMap,
    bytes: usize,
    part_bytes: usize,
    states: Box<[AtomicU8]>,
    full: AtomicUsize,
}

impl FillingRegion {
    /// `bytes` of memory, in parts of `part_bytes` and a shorter one.
    ///
    /// # Errors
    /// The system has no such memory.
    pub fn new(bytes: usize, part_bytes: usize) -> io::Result<Self> {
        let part_bytes = part_bytes.max(1);
        let states = (0..bytes.div_ceil(part_bytes)).map(|_| AtomicU8::new(EMPTY)).collect();
        let (region, full) = (AnonMap::with_huge_pages(bytes)?, AtomicUsize::new(0));
        Ok(Self { region, bytes, part_bytes, states, full })
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.states.len()
    }

    fn range(&self, part: usize) -> (usize, usize) {
        let start = part * self.part_bytes;
        (start, self.part_bytes.min(self.bytes - start))
    }

    /// Has `write` fill a part, unless somebody has or does; it can be read after that. A part that
    /// is not there, or was taken, gives `None`; one whose writer fails is empty again.
    pub fn fill<E>(
        &self,
        part: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let state = self.states.get(part)?;
        state.compare_exchange(EMPTY, TAKEN, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let (start, len) = self.range(part);
        // SAFETY: the range is inside of the region, parts do not overlap, and whoever changed the
        // state from empty is alone with this one until it says that it is full.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.region.base().add(start), len) };
        let written = write(bytes);
        if written.is_ok() {
            state.store(FULL, Ordering::Release);
            self.full.fetch_add(1, Ordering::Release);
        } else {
            state.store(EMPTY, Ordering::Release);
        }
        Some(written)
    }

    /// The bytes of a part, if it is full.
    #[inline]
    pub fn part(&self, part: usize) -> Option<&[u8]> {
        if self.states.get(part)?.load(Ordering::Acquire) != FULL {
            return None;
        }
        let (start, len) = self.range(part);
        // SAFETY: the range is inside of the region, and a full part is written no more.
        Some(unsafe { std::slice::from_raw_parts(self.region.base().add(start), len) })
    }

    /// All bytes, if all parts are full.
    pub fn whole(&self) -> Option<&[u8]> {
        if self.full.load(Ordering::Acquire) < self.states.len() {
            return None;
        }
        // SAFETY: all of the region is written, and written no more.
        Some(unsafe { std::slice::from_raw_parts(self.region.base(), self.bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_filled_once_and_read_when_it_is_full() {
        let memory = FillingRegion::new(100, 30).expect("memory");
        assert_eq!(memory.parts(), 4);
        let fill = |part: usize, with: u8| {
            memory.fill(part, |bytes| {
                bytes.fill(with);
                if with == 9 { Err("failed") } else { Ok(()) }
            })
        };
        assert_eq!(fill(0, 9), Some(Err("failed")));
        assert_eq!(memory.part(0), None);
        for part in 0..4 {
            assert!(memory.whole().is_none());
            assert_eq!(fill(part, part as u8), Some(Ok(())));
            assert_eq!(fill(part, 50), None, "it is full");
        }
        assert_eq!(fill(4, 1), None, "there is no such part");
        assert_eq!(memory.part(3), Some(&[3; 10][..]));
        let whole = memory.whole().expect("all are full");
        assert!((0..100).all(|at| whole[at] == (at / 30) as u8));
        assert!(FillingRegion::new(0, 30).expect("none").whole().is_some_and(<[u8]>::is_empty));
    }

    #[test]
    fn threads_fill_and_read_at_once() {
        let memory = FillingRegion::new(64 << 10, 1 << 10).expect("memory");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for part in 0..memory.parts() {
                        memory.fill(part, |bytes| -> Result<(), ()> {
                            bytes.fill(part as u8 + 1);
                            Ok(())
                        });
                        let read = memory.part(part);
                        assert!(read.is_none_or(|all| all.iter().all(|b| *b == part as u8 + 1)));
                    }
                });
            }
        });
        assert!(memory.whole().is_some_and(|all| all.iter().all(|byte| *byte > 0)));
    }
}
