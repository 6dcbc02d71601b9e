//! Rows that are at hand when a batch is gathered, and how they get into its columns.
//!
//! What must not live here: how they were read. The invariant: rows of a batch are in the order of
//! its nodes or edges.

mod hot;
mod record;
mod resident;
mod slots;

use ng_simd::{RowDecoder, finish_streaming};
use rayon::prelude::*;

pub(crate) use hot::{HotRows, hottest};
pub(crate) use record::COLD;
pub(crate) use resident::ResidentTensor;
pub(crate) use slots::Slots;

/// Rows that one task copies.
const ROWS_TOGETHER: usize = 4096;

/// The rows that a batch takes of each table. Places are by table and row of the batch.
pub(crate) enum Rows<'a> {
    /// In slots that were filled ahead.
    Slots { slots: &'a [Slots], places: &'a [Vec<u32>] },
    /// By table: hot rows in memory, and others that came with the batch, whose places are marked
    /// as [`COLD`].
    Record { hot: Vec<&'a [u8]>, cold: Vec<&'a [u8]>, places: Vec<Vec<u32>> },
}

impl Rows<'_> {
    /// How many there are in all tables.
    pub fn len(&self) -> u64 {
        let places = match self {
            Rows::Slots { places, .. } => places,
            Rows::Record { places, .. } => places.as_slice(),
        };
        places.iter().map(|places| places.len() as u64).sum()
    }

    /// Copies the rows of a table to `out`, decoded, one after the other.
    pub fn copy(&self, table: usize, decoder: &RowDecoder, out: &mut [u8]) {
        let width = decoder.out_bytes();
        let places = match self {
            Rows::Slots { places, .. } => &places[table],
            Rows::Record { places, .. } => &places[table],
        };
        assert_eq!(out.len(), places.len() * width, "a column has a place for each row");
        let tasks = out.par_chunks_mut(ROWS_TOGETHER * width).zip(places.par_chunks(ROWS_TOGETHER));
        tasks.for_each(|(out, places)| {
            let mut decoded = Vec::new();
            let take = |place: usize, row: &[u8]| {
                let target = &mut out[place * width..(place + 1) * width];
                decoder.decode_streaming(row, &mut decoded, target);
            };
            match self {
                Rows::Slots { slots, .. } => slots[table].each(places, take),
                Rows::Record { hot, cold, .. } => {
                    record::each(places, (hot[table], cold[table]), decoder.stored_bytes(), take);
                }
            }
            finish_streaming();
        });
    }
}
