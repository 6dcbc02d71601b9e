//! [`Bits`]: a bit for each of many numbers.

use std::ops::Range;

/// A set of numbers below a bound, a bit for each.
///
/// ```
/// use ng_types::Bits;
/// let mut bits = Bits::new(100);
/// bits.add(7..9);
/// assert!(bits.has(8) && !bits.has(9) && !bits.has(1_000));
/// assert_eq!(bits.count(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
    count: u64,
}

impl Bits {
    /// None of the numbers below `bound`.
    pub fn new(bound: u64) -> Self {
        Self { words: vec![0; bound.div_ceil(64) as usize], count: 0 }
    }

    /// Bytes of a set of numbers below `bound`.
    pub fn bytes_for(bound: u64) -> u64 {
        bound.div_ceil(64) * 8
    }

    /// The same with room for numbers below `bound`.
    pub fn with_room(mut self, bound: u64) -> Self {
        self.words.resize(self.words.len().max(bound.div_ceil(64) as usize), 0);
        self
    }

    /// Adds numbers; those that are not below the bound are left out.
    pub fn add(&mut self, numbers: Range<u64>) {
        for number in numbers {
            if let Some(word) = self.words.get_mut((number / 64) as usize) {
                self.count += u64::from(*word >> (number % 64) & 1 == 0);
                *word |= 1 << (number % 64);
            }
        }
    }

    /// Whether a number is in it.
    #[inline]
    pub fn has(&self, number: u64) -> bool {
        let word = self.words.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.count
    }
}
