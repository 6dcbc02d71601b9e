//! Sequential reading of whole segments, in windows that fit the budget and past the caches.

use std::ops::Range;

use ng_types::Reservation;

use crate::bytes::put;
use crate::error::ReadError;
use crate::io::BLOCK_BYTES;
use crate::page::{Located, Segment, Slot};
use crate::store::Inner;
use crate::tensor::layout::RowLayout;

/// What a scan holds in memory if it can have it.
const WINDOW_BYTES: usize = 4 << 20;
const WINDOW_BYTES_MIN: usize = 256 << 10;

/// Takes rows of a tensor: the first row and the bytes of consecutive ones.
pub type VisitRows<'a, E = ReadError> = dyn FnMut(u64, &[u8]) -> Result<(), E> + 'a;

/// Memory of the budget for blocks that are read past the caches.
pub(crate) struct Window {
    pub bytes: Vec<u8>,
    _held: Reservation,
}

impl Window {
    /// Room for some of `units` units of `unit_bytes`, for few of them where the budget is short:
    /// those are waited for.
    pub fn reserve(inner: &Inner, unit_bytes: usize, units: u64) -> Result<Self, ReadError> {
        Self::reserve_by(inner, unit_bytes, units, |bytes| inner.reserve_batch(bytes))
    }

    /// The same, where `reserve` gives the memory for few units.
    pub fn reserve_by(
        inner: &Inner,
        unit_bytes: usize,
        units: u64,
        reserve: impl FnOnce(u64) -> Result<Reservation, ReadError>,
    ) -> Result<Self, ReadError> {
        let units = usize::try_from(units).unwrap_or(usize::MAX).max(1);
        let best = (WINDOW_BYTES / unit_bytes).clamp(1, units) * unit_bytes;
        let least = (WINDOW_BYTES_MIN / unit_bytes).clamp(1, units) * unit_bytes;
        let held = inner.budget.reserve(best as u64).or_else(|_| reserve(least as u64))?;
        Ok(Self { bytes: vec![0; held.bytes() as usize], _held: held })
    }
}

/// Lends the pages of a segment in order, a whole number of units of `unit_blocks` at a time; pages
/// without a place are left out, and a unit is whole or not there.
pub(crate) fn scan_blocks<E: From<ReadError>>(
    inner: &Inner,
    segment: &Segment,
    unit_blocks: u64,
    visit: &mut VisitRows<'_, E>,
) -> Result<(), E> {
    scan_some(inner, segment, unit_blocks, 0..u64::MAX, visit)
}

/// The same of some of the units.
fn scan_some<E: From<ReadError>>(
    inner: &Inner,
    segment: &Segment,
    unit_blocks: u64,
    units: Range<u64>,
    visit: &mut VisitRows<'_, E>,
) -> Result<(), E> {
    let unit_bytes = unit_blocks as usize * BLOCK_BYTES;
    let all = segment.num_pages * segment.blocks_per_page();
    let end = units.end.saturating_mul(unit_blocks).min(all);
    let mut first = units.start.saturating_mul(unit_blocks);
    let count = end.saturating_sub(first) / unit_blocks;
    let mut window = Window::reserve(inner, unit_bytes, count)?;
    let per_window = (window.bytes.len() / BLOCK_BYTES) as u64;
    while first < end {
        let last = end.min(first + per_window);
        let blocks: Vec<u64> = (first..last).collect();
        let there = read_blocks(inner, segment, &blocks, &mut window.bytes)?;
        for run in there.chunk_by(|a, b| *b == a + 1) {
            let (Some(from), Some(to)) = (run.first(), run.last()) else { continue };
            // A unit is written as a whole, so runs begin and end with one.
            let bytes =
                (from - first) as usize * BLOCK_BYTES..(to + 1 - first) as usize * BLOCK_BYTES;
            visit(*from, &window.bytes[bytes])?;
        }
        first = last;
    }
    Ok(())
}

/// Fills the window with `blocks`, which ascend, one after the other; those without a place leave a
/// gap. Returns which have one.
pub(crate) fn read_blocks(
    inner: &Inner,
    segment: &Segment,
    blocks: &[u64],
    window: &mut [u8],
) -> Result<Vec<u64>, ReadError> {
    let per_page = segment.blocks_per_page();
    let mut located = inner.pages.resolve(segment, blocks)?;
    let mut there = Vec::with_capacity(blocks.len());
    let mut to_read = Vec::with_capacity(blocks.len());
    for (step, (block, place)) in blocks.iter().zip(&mut located).enumerate() {
        let at = step * BLOCK_BYTES;
        match segment.changed.get(block / per_page) {
            Some(Slot::Changed(held)) => {
                let from = (block % per_page) as usize * BLOCK_BYTES;
                put(window, at, &held.bytes()[from..from + BLOCK_BYTES]);
            }
            Some(Slot::Dead) => continue,
            None if *place == Located::NOWHERE => continue,
            None => to_read.push((at, *place)),
        }
        there.push(*block);
    }
    let places: Vec<Located> = to_read.iter().map(|(_, place)| *place).collect();
    let mut take = |from: usize, bytes: &[u8]| {
        for (block, (at, _)) in bytes.chunks_exact(BLOCK_BYTES).zip(to_read.iter().skip(from)) {
            put(window, *at, block);
        }
        Ok(())
    };
    inner.pages.read_data(segment, &places, &mut take)?;
    inner.pages.reader.stats().add_useful((places.len() * BLOCK_BYTES) as u64);
    Ok(there)
}

/// Lends `num_rows` rows of equal width front to back, without padding.
pub(crate) fn scan_rows<E: From<ReadError>>(
    inner: &Inner,
    segment: &Segment,
    layout: RowLayout,
    num_rows: u64,
    visit: &mut VisitRows<'_, E>,
) -> Result<(), E> {
    scan_some_rows(inner, segment, layout, 0..num_rows, visit)
}

/// The same of some of the rows, and of those that share a page with them.
pub(crate) fn scan_some_rows<E: From<ReadError>>(
    inner: &Inner,
    segment: &Segment,
    layout: RowLayout,
    wanted: Range<u64>,
    visit: &mut VisitRows<'_, E>,
) -> Result<(), E> {
    let (unit, width) = (layout.unit_bytes(), layout.row_bytes());
    let units = wanted.start / layout.unit_rows()..wanted.end.div_ceil(layout.unit_rows());
    let unit_blocks = (unit / BLOCK_BYTES) as u64;
    let mut rows = Vec::new();
    let mut take = |first_block: u64, bytes: &[u8]| {
        let first_row = first_block / unit_blocks * layout.unit_rows();
        let left = wanted.end.saturating_sub(first_row).saturating_mul(width as u64);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let packed = layout.unit_rows() as usize * width;
        if packed == unit {
            return visit(first_row, &bytes[..left.min(bytes.len())]);
        }
        rows.clear();
        for unit in bytes.chunks_exact(unit) {
            rows.extend_from_slice(&unit[..packed]);
        }
        rows.truncate(left);
        visit(first_row, &rows)
    };
    scan_some(inner, segment, unit_blocks, units, &mut take)
}
