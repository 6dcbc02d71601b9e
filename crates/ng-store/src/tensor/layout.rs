//! Where the rows of a tensor are. Pure arithmetic on (row bytes, page bytes).
//!
//! Rows never straddle a page. A row wider than its page starts on a 4 KiB block and takes as many
//! whole blocks as it needs.

use crate::io::BLOCK_BYTES;
use crate::limits::PAGE_SIZES;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes that say where the entries of a sparse row are.
pub(crate) const SPAN_BYTES: u64 = 8;

/// The place of a row: its first block in the segment, and its first byte in that block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPlace {
    pub block: u64,
    pub offset: usize,
}

/// Layout of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLayout {
    row_bytes: u64,
    page_bytes: u64,
    /// Rows in a page; 0 where rows are wider than a page.
    rows_per_page: u64,
    /// Blocks from one wide row to the next.
    row_blocks: u64,
}

impl RowLayout {
    /// The layout of rows of `row_bytes` in pages of `page_bytes`.
    pub fn new(row_bytes: u64, page_bytes: u32) -> Self {
        let page_bytes = u64::from(page_bytes);
        Self {
            row_bytes,
            page_bytes,
            rows_per_page: page_bytes / row_bytes,
            row_blocks: row_bytes.div_ceil(BLOCK),
        }
    }

    /// The page size for rows of `row_bytes`: the smallest of 4 to 64 KiB with at most 1/8 padding,
    /// or 4 KiB with rows that take whole blocks.
    pub fn page_bytes_for(row_bytes: u64) -> u32 {
        let fits = |page: &u32| {
            let page = u64::from(*page);
            row_bytes <= page && page % row_bytes <= page / 8
        };
        PAGE_SIZES.into_iter().find(fits).unwrap_or(BLOCK_BYTES as u32)
    }

    /// The layout of rows of `row_bytes` in the pages that suit them best.
    pub fn best(row_bytes: u64) -> Self {
        Self::new(row_bytes, Self::page_bytes_for(row_bytes))
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes as u32
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes as usize
    }

    /// Pages of a tensor with `num_rows`, or `None` if that overflows.
    pub fn num_pages(&self, num_rows: u64) -> Option<u64> {
        let pages = match self.rows_per_page {
            0 => num_rows.checked_mul(self.row_blocks)?,
            per_page => num_rows.div_ceil(per_page),
        };
        pages.checked_mul(self.page_bytes).filter(|bytes| *bytes < 1 << 60)?;
        Some(pages)
    }

    /// Where `row` is.
    #[inline]
    pub fn place(&self, row: u64) -> RowPlace {
        if self.rows_per_page == 0 {
            return RowPlace { block: row * self.row_blocks, offset: 0 };
        }
        let in_page = row % self.rows_per_page * self.row_bytes;
        let page = row / self.rows_per_page;
        let block = page * (self.page_bytes / BLOCK) + in_page / BLOCK;
        RowPlace { block, offset: (in_page % BLOCK) as usize }
    }

    /// Tells a row by where it is in the data file: the same number for the same bytes.
    #[inline]
    pub fn cache_key(&self, place: RowPlace) -> u64 {
        if self.rows_per_page == 0 {
            return place.block;
        }
        let blocks_per_page = self.page_bytes / BLOCK;
        let page = place.block / blocks_per_page;
        let in_page = place.block % blocks_per_page * BLOCK + place.offset as u64;
        page * self.rows_per_page + in_page / self.row_bytes
    }

    /// The keys of all rows that begin on a physical page.
    pub fn cache_keys(&self, page: u64) -> std::ops::Range<u64> {
        let rows = self.rows_per_page.max(1);
        page * rows..(page + 1) * rows
    }

    /// The rows that have bytes on a page of the segment.
    pub fn rows_on(&self, page: u64) -> std::ops::Range<u64> {
        let per_page = self.page_bytes / BLOCK;
        let (first, end) = (page.saturating_mul(per_page), (page + 1).saturating_mul(per_page));
        match self.rows_per_page {
            0 => first / self.row_blocks..end.div_ceil(self.row_blocks),
            rows => page.saturating_mul(rows)..(page + 1).saturating_mul(rows),
        }
    }

    /// Blocks that a row at `place` touches.
    #[inline]
    pub fn blocks(&self, place: RowPlace) -> u64 {
        (place.offset as u64 + self.row_bytes).div_ceil(BLOCK)
    }

    /// Bytes that stand together: a page of rows, or one wide row with its padding.
    pub fn unit_bytes(&self) -> usize {
        match self.rows_per_page {
            0 => (self.row_blocks * BLOCK) as usize,
            _ => self.page_bytes as usize,
        }
    }

    /// Rows that stand together.
    pub fn unit_rows(&self) -> u64 {
        self.rows_per_page.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_at_most_an_eighth_or_the_rest_of_one_block() {
        for row_bytes in (1..70_000).chain([300_000, 1 << 20]) {
            let page_bytes = RowLayout::page_bytes_for(row_bytes);
            let layout = RowLayout::new(row_bytes, page_bytes);
            let rows = 1_000;
            let bytes = layout.num_pages(rows).expect("small") * u64::from(page_bytes);
            let wide = row_bytes > u64::from(page_bytes);
            assert!(!wide || bytes - rows * row_bytes < rows * BLOCK);
            let page = u64::from(page_bytes);
            assert!(wide || page - page / row_bytes * row_bytes <= page / 8, "{row_bytes}");
        }
    }

    #[test]
    fn rows_do_not_overlap_or_straddle_a_page() {
        for row_bytes in [1, 8, 500, 1024, 1433, 4096, 4097, 5732, 14_740, 65_536, 300_000] {
            let page_bytes = RowLayout::page_bytes_for(row_bytes);
            let layout = RowLayout::new(row_bytes, page_bytes);
            let mut end = 0;
            for row in 0..200 {
                let place = layout.place(row);
                assert!(
                    layout
                        .cache_keys(place.block * BLOCK / u64::from(page_bytes))
                        .contains(&layout.cache_key(place))
                );
                let start = place.block * BLOCK + place.offset as u64;
                assert!(start >= end);
                end = start + row_bytes;
                let page = u64::from(page_bytes);
                assert!(row_bytes > page || start / page == (end - 1) / page);
                assert_eq!(layout.blocks(place), (end - 1) / BLOCK - place.block + 1);
            }
            let pages = layout.num_pages(200).expect("small");
            assert!(end <= pages * u64::from(page_bytes));
        }
    }

    #[test]
    fn rows_past_2_to_the_32_blocks_keep_their_arithmetic() {
        let layout = RowLayout::new(1024, 4096);
        let row = (1 << 36) + 5;
        assert_eq!(layout.place(row), RowPlace { block: (1 << 34) + 1, offset: 1024 });
        assert_eq!(layout.num_pages(u64::MAX), None);
    }
}
