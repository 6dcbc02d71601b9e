//! Gathering rows of a tensor for a batch.
//!
//! Wide rows: the row cache is asked first, the rest is read in one call, copied straight to where
//! the caller wants it, and kept. The cache knows rows by where they are on disk, so versions share
//! what did not change between them. Narrow rows: their blocks go through the block cache. A read
//! takes only the 4 KiB blocks that hold a row.

use ng_simd::{copy_streaming, finish_streaming};

use crate::cache::rows::{ROW_BYTES_MIN, RowPool};
use crate::error::ReadError;
use crate::io::BLOCK_BYTES;
use crate::page::{Located, Pages, Place, Segment};
use crate::tensor::layout::{RowLayout, RowPlace};
use crate::tensor::table::ResidentTable;

/// The counters of [`crate::Snapshot::gather`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatherStats {
    /// Requested rows.
    pub rows: u64,
    /// Rows served without a device read.
    pub rows_cached: u64,
}

/// One tensor in an open store.
pub(crate) struct TensorReader<'a> {
    pub pages: &'a Pages,
    pub segment: &'a Segment,
    pub layout: RowLayout,
    pub pool: Option<RowPool<'a>>,
}

/// Rows that are not in memory, and the blocks that have to be read for them.
#[derive(Default)]
pub(crate) struct Unread {
    wanted: Vec<Wanted>,
    /// Of each block its place among those of all rows.
    places: Vec<usize>,
    pub located: Vec<Located>,
    /// How many other rows there are.
    pub rows_cached: u64,
}

/// A row that has to be read.
#[derive(Clone, Copy)]
struct Wanted {
    row: u64,
    /// Place in the request.
    place: usize,
    /// Place of the row's first block in the list of blocks.
    first: usize,
    /// First byte in that block.
    offset: usize,
    /// In the row cache.
    key: u64,
}

impl TensorReader<'_> {
    /// Copies `rows` to `out`, in request order. Rows and the length of `out` were checked.
    pub fn gather(&self, rows: &[u64], out: &mut [u8]) -> Result<GatherStats, ReadError> {
        let wanted = rows.iter().enumerate().map(|(place, row)| self.want(place, *row));
        let rows_cached = self.gather_wanted(wanted.collect(), out)?;
        Ok(GatherStats { rows: rows.len() as u64, rows_cached })
    }

    /// As [`Self::gather`], with the rows that `table` has taken from there.
    pub fn gather_beside(
        &self,
        table: &ResidentTable,
        rows: &[u64],
        out: &mut [u8],
    ) -> Result<GatherStats, ReadError> {
        let width = self.layout.row_bytes();
        let mut take = |place: usize, bytes: &[u8]| {
            copy_streaming(bytes, &mut out[place * width..(place + 1) * width]);
        };
        let mut missing = table.each(self.segment, rows, &mut take);
        if !missing.is_empty() && !table.is_whole() {
            let blocks = (missing.len() * width.div_ceil(BLOCK_BYTES)) as u64;
            table.wait_for_turn((blocks * BLOCK_BYTES as u64).min(table.num_bytes()));
            let left: Vec<u64> = missing.iter().map(|place| rows[*place]).collect();
            let found = table.each(self.segment, &left, |at, bytes| take(missing[at], bytes));
            missing = found.iter().map(|at| missing[*at]).collect();
        }
        finish_streaming();
        let mut rows_cached = (rows.len() - missing.len()) as u64;
        if !missing.is_empty() {
            let wanted = missing.iter().map(|place| self.want(*place, rows[*place]));
            rows_cached += self.gather_wanted(wanted.collect(), out)?;
        }
        Ok(GatherStats { rows: rows.len() as u64, rows_cached })
    }

    fn want(&self, place: usize, row: u64) -> Wanted {
        let key = self.layout.cache_key(self.layout.place(row));
        Wanted { row, place, first: 0, offset: 0, key }
    }

    /// Copies rows to their places; returns how many of them took no device read.
    fn gather_wanted(&self, wanted: Vec<Wanted>, out: &mut [u8]) -> Result<u64, ReadError> {
        let unread = self.find(wanted, out)?;
        if !unread.located.is_empty() {
            let mut take = |from: usize, bytes: &[u8]| {
                self.take(&unread, from, bytes, out);
                Ok(())
            };
            self.pages.read_data(self.segment, &unread.located, &mut take)?;
        }
        Ok(unread.rows_cached)
    }

    /// Copies those of `rows` that are in memory to their places in `out`, and finds the blocks of
    /// the others. `rows` are (place, row).
    pub fn find_rows(&self, rows: &[(usize, u64)], out: &mut [u8]) -> Result<Unread, ReadError> {
        self.find(rows.iter().map(|(place, row)| self.want(*place, *row)).collect(), out)
    }

    fn find(&self, mut wanted: Vec<Wanted>, out: &mut [u8]) -> Result<Unread, ReadError> {
        let rows = wanted.len() as u64;
        let is_identity = self.segment.is_identity();
        if self.is_wide() && is_identity {
            self.take_cached(&mut wanted, out);
        }
        if !wanted.is_sorted_by_key(|w| w.row) {
            wanted.sort_unstable_by_key(|w| (w.row, w.place));
        }
        if !self.is_wide() {
            let blocks = self.list_blocks(&mut wanted);
            return self.find_narrow(wanted, &blocks, out);
        }
        if !is_identity {
            self.take_changed(&mut wanted, out)?;
            self.locate_keys(&mut wanted)?;
            self.take_cached(&mut wanted, out);
        }
        let blocks = self.list_blocks(&mut wanted);
        let located = self.pages.resolve(self.segment, &blocks)?;
        if let Some(at) = located.iter().position(|place| *place == Located::NOWHERE) {
            let block = blocks.get(at).copied().unwrap_or(0);
            return Err(self.segment.nowhere(block / self.segment.blocks_per_page()));
        }
        let (rows_cached, places) = (rows - wanted.len() as u64, (0..blocks.len()).collect());
        Ok(Unread { wanted, places, located, rows_cached })
    }

    /// Takes what a read brought: a run of blocks from place `from` of those that were unread.
    pub fn take(&self, unread: &Unread, from: usize, bytes: &[u8], out: &mut [u8]) {
        let useful = if self.is_wide() {
            self.take_wide(unread, from, bytes, out)
        } else {
            self.take_narrow(unread, from, bytes, out)
        };
        self.pages.reader.stats().add_useful(useful);
    }

    /// Copies the rows that the row cache has and leaves the others in `wanted`.
    fn take_cached(&self, wanted: &mut Vec<Wanted>, out: &mut [u8]) {
        let Some(pool) = self.pool else { return };
        let width = self.layout.row_bytes();
        let keys: Vec<u64> = wanted.iter().map(|w| w.key).collect();
        let missing = pool.copy(&keys, |index, bytes| {
            let place = wanted.get(index).map_or(usize::MAX, |w| w.place);
            crate::bytes::put(out, place.saturating_mul(width), bytes);
        });
        let left = missing.iter().filter_map(|index| wanted.get(*index).copied());
        *wanted = left.collect();
    }

    /// Copies the rows that commits changed since the checkpoint; a row is changed as a whole.
    fn take_changed(&self, wanted: &mut Vec<Wanted>, out: &mut [u8]) -> Result<(), ReadError> {
        if self.segment.changed.is_empty() {
            return Ok(());
        }
        let (width, per_page) = (self.layout.row_bytes(), self.segment.blocks_per_page());
        let mut left = Vec::with_capacity(wanted.len());
        for w in wanted.drain(..) {
            let place = self.layout.place(w.row);
            if self.segment.changed_page(place.block / per_page)?.is_none() {
                left.push(w);
                continue;
            }
            let target = &mut out[w.place * width..(w.place + 1) * width];
            self.segment.changed_row(self.layout, w.row, &mut |at, part| {
                crate::bytes::put(target, at, part);
            })?;
        }
        *wanted = left;
        Ok(())
    }

    /// Finds out under which keys the row cache has rows of pages that may have moved.
    fn locate_keys(&self, wanted: &mut [Wanted]) -> Result<(), ReadError> {
        let firsts: Vec<u64> = wanted.iter().map(|w| self.layout.place(w.row).block).collect();
        let located = self.pages.resolve(self.segment, &firsts)?;
        for (w, located) in wanted.iter_mut().zip(located) {
            let place = self.layout.place(w.row);
            if located == Located::NOWHERE {
                return Err(self.segment.nowhere(place.block / self.segment.blocks_per_page()));
            }
            w.key = self.layout.cache_key(RowPlace { block: located.block, ..place });
        }
        Ok(())
    }

    fn is_wide(&self) -> bool {
        self.layout.row_bytes() >= ROW_BYTES_MIN
    }

    /// The distinct blocks of the wanted rows, ascending; tells each row where its first one is.
    fn list_blocks(&self, wanted: &mut [Wanted]) -> Vec<u64> {
        let mut blocks: Vec<u64> = Vec::with_capacity(wanted.len());
        for w in wanted {
            let place = self.layout.place(w.row);
            let end = place.block + self.layout.blocks(place);
            let next = blocks.last().map_or(0, |last| last + 1);
            let listed = next.saturating_sub(place.block).min(end - place.block);
            w.first = blocks.len() - listed as usize;
            w.offset = place.offset;
            blocks.extend(place.block.max(next)..end.max(next));
        }
        blocks
    }

    /// Rows that a run of blocks has all of are kept; returns how many bytes of rows it brought.
    fn take_wide(&self, unread: &Unread, from: usize, bytes: &[u8], out: &mut [u8]) -> u64 {
        let width = self.layout.row_bytes();
        let (mut useful, mut previous) = (0, None);
        for w in self.overlapping(&unread.wanted, from, bytes.len()) {
            let target = &mut out[w.place * width..(w.place + 1) * width];
            let copied = copy_part(w, from, bytes, target);
            if previous != Some(w.row) {
                useful += copied as u64;
                if let Some(pool) = self.pool.filter(|_| copied == width) {
                    pool.insert(w.key, target);
                }
            }
            previous = Some(w.row);
        }
        useful
    }

    /// Copies the rows of blocks that are in memory. Rows with blocks that are not are unread.
    fn find_narrow(
        &self,
        wanted: Vec<Wanted>,
        blocks: &[u64],
        out: &mut [u8],
    ) -> Result<Unread, ReadError> {
        let mut visit = |index: usize, bytes: &[u8]| {
            self.copy_narrow(&wanted, index, bytes, out);
            Ok(())
        };
        let (places, located) = self.pages.find(self.segment, blocks, &mut visit)?;
        let mut is_read = vec![false; wanted.len()];
        for index in &places {
            let start = self.first_overlapping(&wanted, *index);
            let touched = wanted.iter().zip(&mut is_read).skip(start);
            touched.take_while(|(w, _)| w.first <= *index).for_each(|(_, flag)| *flag = true);
        }
        let rows_cached = is_read.iter().filter(|flag| !**flag).count() as u64;
        Ok(Unread { wanted, places, located, rows_cached })
    }

    fn take_narrow(&self, unread: &Unread, from: usize, bytes: &[u8], out: &mut [u8]) -> u64 {
        let mut useful = 0;
        for (at, block) in (from..).zip(bytes.chunks_exact(BLOCK_BYTES)) {
            let (place, located) = (unread.places[at], unread.located[at]);
            self.pages.keep(self.segment.key(Place::Data, located.block), block);
            useful += self.copy_narrow(&unread.wanted, place, block, out);
        }
        useful
    }

    fn copy_narrow(&self, wanted: &[Wanted], index: usize, block: &[u8], out: &mut [u8]) -> u64 {
        let (width, mut copied) = (self.layout.row_bytes(), 0);
        for w in self.overlapping(wanted, index, block.len()) {
            copied += copy_part(w, index, block, &mut out[w.place * width..(w.place + 1) * width]);
        }
        copied as u64
    }

    fn first_overlapping(&self, wanted: &[Wanted], block: usize) -> usize {
        let width = self.layout.row_bytes();
        wanted.partition_point(|w| w.first + (w.offset + width).div_ceil(BLOCK_BYTES) <= block)
    }

    /// The wanted rows with bytes in the run of blocks from place `from` on.
    fn overlapping<'w>(
        &self,
        wanted: &'w [Wanted],
        from: usize,
        bytes: usize,
    ) -> impl Iterator<Item = &'w Wanted> {
        let end = from + bytes / BLOCK_BYTES;
        let rest = &wanted[self.first_overlapping(wanted, from)..];
        rest.iter().take_while(move |w| w.first < end)
    }
}

/// Copies what a run of blocks holds of a row; returns how many bytes that was.
fn copy_part(w: &Wanted, from: usize, bytes: &[u8], target: &mut [u8]) -> usize {
    let (start, skip) = if w.first >= from {
        ((w.first - from) * BLOCK_BYTES + w.offset, 0)
    } else {
        (0, (from - w.first) * BLOCK_BYTES - w.offset)
    };
    let source = &bytes[start..];
    let target = &mut target[skip..];
    let len = source.len().min(target.len());
    crate::bytes::put(target, 0, &source[..len]);
    len
}
