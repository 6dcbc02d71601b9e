//! How the memory of a stretch is divided: rows that stay, and either what it takes to deal rows
//! out or the regions of the batches that are being made, whichever is more.

use ng_io::BLOCK_BYTES;

use super::sizes::Sizes;
use crate::pipeline::HotRows;

/// Batches that rows are distributed to at a time, at most. The consumer waits while they are.
pub(crate) const BATCHES_MAX: u64 = 1000;

/// Regions in memory: one being gathered, one on its way.
pub(crate) const RECORDS: u64 = 2;

/// A region may be so much longer than the mean share of cold rows makes it: quarters.
const LONGEST_QUARTERS: u64 = 5;

/// What batches want of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    pub rows: u64,
    pub width: u64,
    /// Rows by how many batches want them.
    pub by_count: Vec<u64>,
    /// Rows of the batch that has the most.
    pub largest: u64,
}

/// Rows of a table that are not in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cold {
    /// Over all batches.
    pub uses: f64,
    /// Of the batch that has the most.
    pub largest: u64,
    /// Rows that are in memory.
    pub hot: u64,
}

/// The rows that are cold when `bytes` are hot, by table.
pub(crate) fn cold(tables: &[Extent], bytes: u64) -> Vec<Cold> {
    let most = tables.iter().map(|table| table.by_count.len()).max().unwrap_or(0);
    let rows = |table: &Extent, count: usize| table.by_count.get(count).copied().unwrap_or(0);
    let mut left = bytes as f64;
    let mut out = vec![Cold::default(); tables.len()];
    let mut all = vec![0.0; tables.len()];
    for count in (1..most).rev() {
        let of = |table: &Extent| (rows(table, count) * table.width) as f64;
        let wanted: f64 = tables.iter().map(of).sum();
        // Rows that more batches want come first: each saves as many dealt rows as it has batches.
        // Among rows of one count the choice is arbitrary, so tables share what is left alike.
        let share = if wanted > 0.0 { (left / wanted).min(1.0) } else { 0.0 };
        left -= wanted * share;
        debug_assert!(left > -1.0, "{left} bytes are left of {bytes}: more rows are hot than fit");
        for ((table, cold), all) in tables.iter().zip(&mut out).zip(&mut all) {
            let uses = (rows(table, count) * count as u64) as f64;
            *all += uses;
            cold.uses += uses * (1.0 - share);
            cold.hot += (rows(table, count) as f64 * share) as u64;
        }
    }
    for ((table, cold), all) in tables.iter().zip(&mut out).zip(all) {
        let share = cold.uses / f64::max(all, 1.0) * LONGEST_QUARTERS as f64 / 4.0;
        cold.largest = (table.largest as f64 * share.min(1.0)).ceil() as u64;
    }
    out
}

/// Bytes of the maps that tell hot rows.
pub(crate) fn map_bytes(tables: &[Extent]) -> u64 {
    tables.iter().map(|table| HotRows::num_bytes(table.rows)).sum()
}

/// Bytes of a region of `rows` rows.
pub(crate) fn region_bytes(rows: u64, width: u64) -> u64 {
    (rows * width).next_multiple_of(BLOCK_BYTES as u64)
}

/// Bytes for hot rows among `bytes`, for a stretch of `batches`; counts of uses are `scale` times
/// those of `tables`. `None` if not even the work has room.
pub(crate) fn room_for_hot(bytes: u64, batches: u64, tables: &[Extent], scale: f64) -> Option<u64> {
    let counts: u64 = tables.iter().map(|table| super::uses::Uses::num_bytes(table.rows)).sum();
    let sizes = Sizes::new(bytes, batches);
    let mut hot = 0;
    // Fewer cold rows take less memory, which leaves more for hot ones, and never too much.
    for _ in 0..4 {
        let cold = cold(tables, hot);
        let dealing = tables.iter().zip(&cold).map(|(table, cold)| {
            sizes.num_bytes(table.rows, table.width, (cold.uses * scale) as u64)
        });
        let dealing = counts + dealing.max().unwrap_or(0);
        let regions = tables.iter().zip(&cold).map(|(t, c)| region_bytes(c.largest, t.width));
        let regions = RECORDS * regions.sum::<u64>();
        hot = bytes.checked_sub(map_bytes(tables) + dealing.max(regions))?;
    }
    Some(hot)
}
