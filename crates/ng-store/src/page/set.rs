//! Sets of page numbers: one bit each, taken from the budget.

use ng_types::Reservation;

use crate::error::ReadError;
use crate::store::Inner;

/// Pages below a bound.
#[derive(Debug)]
pub(crate) struct PageSet {
    words: Vec<u64>,
    bound: u64,
    count: u64,
    _held: Reservation,
}

impl PageSet {
    /// No page; there are `bound`.
    pub fn new(inner: &Inner, bound: u64) -> Result<Self, ReadError> {
        let len = bound.div_ceil(64);
        let held = inner.reserve_batch(len * 8)?;
        Ok(Self { words: vec![0; len as usize], bound, count: 0, _held: held })
    }

    /// How many pages.
    pub fn len(&self) -> u64 {
        self.count
    }

    fn toggle(&mut self, page: u64, wanted: bool) -> bool {
        let Some(word) = self.words.get_mut((page / 64) as usize).filter(|_| page < self.bound)
        else {
            return false;
        };
        let bit = 1 << (page % 64);
        let changes = (*word & bit == 0) == wanted;
        if changes {
            *word ^= bit;
            self.count = if wanted { self.count + 1 } else { self.count - 1 };
        }
        changes
    }

    /// Puts a page in; false if it was there or cannot be.
    pub fn insert(&mut self, page: u64) -> bool {
        self.toggle(page, true)
    }

    /// Takes a page out; false if it was not there.
    pub fn remove(&mut self, page: u64) -> bool {
        self.toggle(page, false)
    }

    /// The smallest page from `from` on.
    pub fn next(&self, from: u64) -> Option<u64> {
        let first = (from / 64) as usize;
        let rest = self.words.get(first..)?.iter().zip(first as u64..);
        rest.map(|(word, at)| {
            let skipped = if at == from / 64 { from % 64 } else { 0 };
            (word >> skipped << skipped, at)
        })
        .find(|(word, _)| *word != 0)
        .map(|(word, at)| at * 64 + u64::from(word.trailing_zeros()))
    }

    /// Up to `count` pages from `from` on, ascending.
    pub fn take(&self, from: u64, count: usize) -> Vec<u64> {
        std::iter::successors(self.next(from), |page| self.next(page + 1)).take(count).collect()
    }
}
