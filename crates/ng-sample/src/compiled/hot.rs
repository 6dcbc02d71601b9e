//! Which rows a replay holds in memory, so that no batch in a file carries them.

use std::ops::Range;

use ng_io::BLOCK_BYTES;
use ng_store::TensorRef;
use ng_types::checksum;

use crate::pipeline::HotRows;

/// A tensor whose rows are either hot or written with each batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedTable {
    pub tensor: TensorRef,
    /// Bytes of a stored row.
    pub width: u64,
    pub hot: HotRows,
}

/// The rows that are held in memory during a replay, of every tensor that is too large to be held
/// whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotSet {
    pub(crate) tables: Vec<PackedTable>,
}

impl HotSet {
    /// Rows of all tensors.
    pub fn num_rows(&self) -> u64 {
        self.tables.iter().map(|table| table.hot.len()).sum()
    }

    /// Bytes of these rows.
    pub fn row_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.hot.len() * table.width).sum()
    }

    /// Bytes of the maps that tell them.
    pub(crate) fn map_bytes(&self) -> u64 {
        self.tables.iter().map(|table| HotRows::num_bytes(table.hot.num_rows())).sum()
    }

    /// Where the rows of each table stand in the part of a file that has them: whole blocks each.
    pub(crate) fn places(&self) -> Vec<Range<u64>> {
        let mut end: u64 = 0;
        let place = |table: &PackedTable| {
            let start = end.checked_next_multiple_of(BLOCK_BYTES as u64).unwrap_or(u64::MAX);
            end = start.saturating_add(table.hot.len().saturating_mul(table.width));
            start..end
        };
        self.tables.iter().map(place).collect()
    }

    /// Bytes of that part.
    pub(crate) fn part_bytes(&self) -> u64 {
        let end = self.places().last().map_or(0, |place| place.end);
        end.checked_next_multiple_of(BLOCK_BYTES as u64).unwrap_or(u64::MAX)
    }

    /// The maps, as a file has them: table by table, a bit for each row.
    pub(crate) fn maps(&self) -> Vec<u8> {
        let words = self.tables.iter().flat_map(|table| table.hot.bits());
        words.flat_map(|word| word.to_le_bytes()).collect()
    }

    /// A checksum of which rows they are.
    pub fn digest(&self) -> u32 {
        self.tables.iter().fold(0, |crc, table| {
            let words = table.hot.bits().iter();
            words.fold(crc, |crc, word| checksum::extended(crc, &word.to_le_bytes()))
        })
    }
}
