//! [`Bits`]: a bit for each of many numbers.

use std::ops::Range;
use std::sync::Arc;

/// Words of a page: 4 KiB.
const WORDS: usize = 512;

/// Numbers of a page.
const NUMBERS: u64 = WORDS as u64 * 64;

/// A set of numbers below a bound, a bit for each. Copies share the pages that neither of them has
/// changed since, so a copy with a few numbers more costs little beside a large set.
///
/// ```
/// use ng_types::Bits;
/// let mut bits = Bits::new(100);
/// bits.add(7..9);
/// assert!(bits.has(8) && !bits.has(9) && !bits.has(1_000));
/// assert_eq!(bits.count(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Bits {
    /// Those that have a number.
    pages: Vec<Option<Arc<[u64; WORDS]>>>,
    bound: u64,
    count: u64,
}

impl Bits {
    /// None of the numbers below `bound`.
    pub fn new(bound: u64) -> Self {
        Self::default().with_room(bound)
    }

    /// Bytes of a set of numbers below `bound`.
    pub fn bytes_for(bound: u64) -> u64 {
        bound.div_ceil(NUMBERS) * (8 * WORDS as u64)
    }

    /// The same with room for numbers below `bound`.
    pub fn with_room(mut self, bound: u64) -> Self {
        self.bound = self.bound.max(bound);
        self.pages.resize(self.bound.div_ceil(NUMBERS) as usize, None);
        self
    }

    /// Adds numbers; those that are not below the bound are left out.
    pub fn add(&mut self, numbers: Range<u64>) {
        for number in numbers.start..numbers.end.min(self.bound) {
            let Some(page) = self.pages.get_mut((number / NUMBERS) as usize) else { return };
            let page = Arc::make_mut(page.get_or_insert_with(|| Arc::new([0; WORDS])));
            let word = &mut page[(number % NUMBERS / 64) as usize];
            self.count += u64::from(*word >> (number % 64) & 1 == 0);
            *word |= 1 << (number % 64);
        }
    }

    /// Whether a number is in it.
    #[inline]
    pub fn has(&self, number: u64) -> bool {
        let page = self.pages.get((number / NUMBERS) as usize).and_then(Option::as_ref);
        page.is_some_and(|page| page[(number % NUMBERS / 64) as usize] >> (number % 64) & 1 == 1)
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_the_pages_that_neither_changed() {
        let mut one = Bits::new(10 * NUMBERS);
        one.add(NUMBERS - 2..NUMBERS + 2);
        let mut other = one.clone().with_room(11 * NUMBERS + 1);
        other.add(NUMBERS..NUMBERS + 3);
        other.add(11 * NUMBERS..11 * NUMBERS + 9);
        assert_eq!((one.count(), other.count()), (4, 6));
        assert!(!one.has(NUMBERS + 2) && other.has(NUMBERS + 2) && other.has(11 * NUMBERS));
        let shared = |at: usize| match (&one.pages[at], &other.pages[at]) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        assert_eq!([0, 1, 2].map(shared), [true, false, true]);
    }
}
