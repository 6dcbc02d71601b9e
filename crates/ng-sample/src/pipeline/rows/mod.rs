//! Rows that are at hand when a batch is gathered, and how they get into its columns.
//!
//! What must not live here: how they were read. The invariant: rows of a batch are in the order of
//! its nodes or edges.

mod hot;
mod record;
mod resident;
mod slots;

use ng_simd::{RowDecoder, finish_streaming, prefetch};
use rayon::prelude::*;

pub(crate) use hot::{HotRows, hottest};
pub(crate) use record::COLD;
pub(crate) use resident::ResidentTensor;
pub(crate) use slots::Slots;

/// Rows that one task copies.
const ROWS_TOGETHER: usize = 4096;

/// Rows whose memory is on its way while another is copied.
const NEAR: usize = 3;

/// The part of a row that is fetched early; the processor foresees the rest.
const NEAR_BYTES: usize = 1024;

/// Lends each of `count` rows with its number, while the memory of those behind it is on its way.
#[inline]
fn each_near<'a>(
    count: usize,
    row: impl Fn(usize) -> &'a [u8],
    mut take: impl FnMut(usize, &[u8]),
) {
    let fetch = |number: usize| {
        let row = row(number);
        prefetch(&row[..row.len().min(NEAR_BYTES)]);
    };
    (0..count.min(NEAR)).for_each(fetch);
    for number in 0..count {
        if number + NEAR < count {
            fetch(number + NEAR);
        }
        take(number, row(number));
    }
}

/// The rows that a batch takes of each table.
pub(crate) struct Rows<'a> {
    /// By table and row of the batch.
    pub places: &'a [Vec<u32>],
    pub memory: Memory<'a>,
}

/// Where rows are at hand.
pub(crate) enum Memory<'a> {
    /// By table: slots that were filled ahead.
    Slots(&'a [Slots]),
    /// By table: hot rows in memory, and others that came with the batch, whose places are marked
    /// as [`COLD`].
    Record { hot: Vec<&'a [u8]>, cold: Vec<&'a [u8]> },
}

impl Rows<'_> {
    /// How many there are in all tables.
    pub fn len(&self) -> u64 {
        self.places.iter().map(|places| places.len() as u64).sum()
    }

    /// Copies the rows of a table to `out`, decoded, one after the other.
    pub fn copy(&self, table: usize, decoder: &RowDecoder, out: &mut [u8]) {
        let (places, width) = (&self.places[table], decoder.out_bytes());
        assert_eq!(out.len(), places.len() * width, "a column has a place for each row");
        let tasks = out.par_chunks_mut(ROWS_TOGETHER * width).zip(places.par_chunks(ROWS_TOGETHER));
        tasks.for_each(|(out, places)| {
            let mut decoded = Vec::new();
            let take = |place: usize, row: &[u8]| {
                let target = &mut out[place * width..(place + 1) * width];
                decoder.decode_streaming(row, &mut decoded, target);
            };
            match &self.memory {
                Memory::Slots(slots) => slots[table].each(places, take),
                Memory::Record { hot, cold } => {
                    record::each(places, (hot[table], cold[table]), decoder.stored_bytes(), take);
                }
            }
            finish_streaming();
        });
    }
}
