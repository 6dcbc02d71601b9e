//! Which rows of a table stay in memory, as a map of bits.

use ng_io::vec_in_huge_pages;

/// Rows of one word of the map.
const WORD_ROWS: usize = u64::BITS as usize;

/// The hot rows of one tensor: a bit for each row, and the number of hot rows before each word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotRows {
    bits: Vec<u64>,
    ranks: Vec<u32>,
    rows: u64,
    num_hot: u64,
}

impl HotRows {
    /// Words of the map of `rows` rows.
    pub fn num_words(rows: u64) -> usize {
        (rows as usize).div_ceil(WORD_ROWS)
    }

    /// Bytes in memory for a table of `rows` rows.
    pub fn num_bytes(rows: u64) -> u64 {
        Self::num_words(rows) as u64 * 12
    }

    /// None of `rows` rows.
    pub fn none(rows: u64) -> Self {
        Self::from_bits(vec![0; Self::num_words(rows)], rows)
    }

    /// Those rows whose bit is set; bits past the last row are cleared.
    pub fn from_bits(mut bits: Vec<u64>, rows: u64) -> Self {
        bits.resize(Self::num_words(rows), 0);
        let beyond = rows as usize % WORD_ROWS;
        if let Some(last) = bits.last_mut().filter(|_| beyond > 0) {
            *last &= (1 << beyond) - 1;
        }
        let mut ranks = vec_in_huge_pages(0, bits.len());
        let mut num_hot = 0;
        for (word, rank) in bits.iter().zip(&mut ranks) {
            *rank = num_hot as u32;
            num_hot += u64::from(word.count_ones());
        }
        Self { bits, ranks, rows, num_hot }
    }

    /// The place of a row among the hot ones, which are in row order.
    #[inline]
    pub fn place(&self, row: u64) -> Option<u32> {
        let at = row as usize / WORD_ROWS;
        let (word, bit) = (*self.bits.get(at)?, 1_u64 << (row as usize % WORD_ROWS));
        let before = (word & (bit - 1)).count_ones();
        (word & bit != 0).then(|| self.ranks[at] + before)
    }

    /// The map, as it is written.
    pub fn bits(&self) -> &[u64] {
        &self.bits
    }

    /// How many rows are hot.
    pub fn len(&self) -> u64 {
        self.num_hot
    }

    /// How many rows there are, hot or not.
    pub fn num_rows(&self) -> u64 {
        self.rows
    }

    /// The hot rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.bits.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some((at * WORD_ROWS) as u64 + u64::from(bit))
            })
        })
    }
}

/// Rows are counted up to here.
const COUNT_MAX: usize = u16::MAX as usize;

/// The rows that `bytes` have room for, of tables with these widths and counts by row: those with
/// the highest counts, and of equal ones the first.
pub(crate) fn hottest(tables: &[(u64, &[u16])], bytes: u64) -> Vec<HotRows> {
    let mut bytes_by_count = vec![0; COUNT_MAX + 1];
    for (width, counts) in tables {
        for count in *counts {
            bytes_by_count[usize::from(*count)] += width;
        }
    }
    let mut left = bytes;
    let mut common = COUNT_MAX + 1;
    while common > 1 && bytes_by_count[common - 1] <= left {
        common -= 1;
        left -= bytes_by_count[common];
    }
    let mut of = |(width, counts): &(u64, &[u16])| {
        let mut bits = vec![0; HotRows::num_words(counts.len() as u64)];
        for (row, count) in counts.iter().enumerate() {
            let count = usize::from(*count);
            let last = count > 0 && count + 1 == common && *width <= left;
            if last {
                left -= width;
            }
            if count >= common || last {
                bits[row / WORD_ROWS] |= 1 << (row % WORD_ROWS);
            }
        }
        HotRows::from_bits(bits, counts.len() as u64)
    };
    tables.iter().map(&mut of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_the_hot_rows_before() {
        let bits = vec![0b1011, 0, u64::MAX];
        let hot = HotRows::from_bits(bits, 130);
        assert_eq!(hot.iter().collect::<Vec<_>>(), [0, 1, 3, 128, 129]);
        assert_eq!((hot.len(), hot.num_rows(), hot.bits()[2]), (5, 130, 0b11));
        for (place, row) in hot.iter().enumerate() {
            assert_eq!(hot.place(row), Some(place as u32));
        }
        assert!([2, 4, 127, 130, 191, 192, u64::MAX].iter().all(|row| hot.place(*row).is_none()));
        assert_eq!(HotRows::none(65).len(), 0);
    }
}
