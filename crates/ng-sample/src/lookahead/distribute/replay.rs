//! Making the batches of a stretch: this thread reads their subgraphs and regions back, another
//! puts rows together.

use std::sync::mpsc::{Receiver, Sender, channel};

use ng_io::{Region, ScratchFile};
use ng_simd::RowDecoder;

use super::memory::{RECORDS, region_bytes};
use super::{Engine, Gatherer, Spill, Table, new_region};
use crate::SampleError;
use crate::compiled::{COLD, HotRows, copy_rows};
use crate::lookahead::pieces::{Resolved, Sampled};
use crate::lookahead::state::{State, Wait};

/// What is read at a time.
const READ_BYTES: usize = 4 << 20;

/// A batch whose cold rows are in memory.
struct Record {
    sampled: Sampled,
    memory: Region,
    /// By table: where its rows begin.
    starts: Vec<usize>,
}

impl Engine {
    /// Makes the batches of `spill`; `room` are the bytes for regions. Returns where they end,
    /// `None` if everything stops.
    pub(super) fn replay_regions(
        &self,
        tables: &[Table],
        gatherer: &Gatherer,
        spill: &mut Spill,
        file: &ScratchFile,
        room: u64,
    ) -> Result<Option<u64>, SampleError> {
        let bytes_of = |batch: usize| {
            tables.iter().map(|t| region_bytes(t.regions[batch].rows, t.width)).sum::<u64>()
        };
        let batches = (spill.end() - spill.first()) as usize;
        let longest = (0..batches).map(bytes_of).max().unwrap_or(0);
        let fits = (1..=RECORDS).rev().find(|records| records * longest <= room);
        // A batch that is longer than any that was foreseen takes what else is free.
        let _more = match fits {
            Some(_) => None,
            None => {
                let held = self.snapshot().reserve(longest.saturating_sub(room));
                Some(held.map_err(SampleError::from_budget)?)
            }
        };
        let (back, free) = channel();
        for _ in 0..fits.unwrap_or(1) {
            // The receiver is here.
            let _ = back.send(new_region(longest as usize)?);
        }
        let (loaded, records) = channel();
        let result = std::thread::scope(|scope| {
            let gather = move || self.gather_records(tables, gatherer, &records, &back);
            std::thread::Builder::new()
                .name("ng-gather".into())
                .spawn_scoped(scope, gather)
                .map_err(|source| SampleError::NoThread { source })?;
            for index in spill.first()..spill.end() {
                let Ok(mut memory) = free.recv() else { return Ok(()) };
                let sampled = spill.read(index, |bytes| self.admit(index, bytes))?;
                let batch = (index - spill.first()) as usize;
                let (mut starts, mut at) = (Vec::new(), 0);
                for table in tables {
                    let place = table.regions[batch];
                    let len = region_bytes(place.rows, table.width) as usize;
                    let target = &mut memory.as_mut_slice()[at..at + len];
                    for (step, part) in target.chunks_mut(READ_BYTES).enumerate() {
                        file.read_exact_at(place.offset + (step * READ_BYTES) as u64, part)?;
                    }
                    starts.push(at);
                    at += len;
                }
                if loaded.send(Record { sampled, memory, starts }).is_err() {
                    return Ok(());
                }
            }
            drop(loaded);
            Ok::<(), SampleError>(())
        });
        result?;
        Ok((!self.shared.is_stopping()).then_some(spill.end()))
    }

    /// Makes batches until there are no more records, or everything stops.
    fn gather_records(
        &self,
        tables: &[Table],
        gatherer: &Gatherer,
        records: &Receiver<Record>,
        back: &Sender<Region>,
    ) {
        while let Ok(Record { sampled, memory, starts }) = records.recv() {
            let has_room =
                |state: &mut State| (state.ready.len() < gatherer.prefetch).then_some(());
            if self.shared.wait_until(Wait::GatherForRows, has_room).is_none() {
                return;
            }
            let places = tables.iter().map(|table| {
                let (places, cold) = places(&sampled.rows(table.tensor.owner), &table.hot);
                (places, cold)
            });
            let (places, cold): (Vec<_>, Vec<u64>) = places.unzip();
            let copy = |table: usize, places: &[u32], decoder: &RowDecoder, out: &mut [u8]| {
                let cold = &memory.as_slice()[starts[table]..];
                copy_rows(places, (tables[table].memory.as_slice(), cold), decoder, out);
            };
            let rows_read = cold.iter().sum();
            let resolved = Resolved { sampled, slots: places.into(), rows_read };
            if !gatherer.make(&self.shared, resolved, &copy) {
                return;
            }
            // The reader may have read its last record.
            let _ = back.send(memory);
        }
    }
}

/// Where each row of a batch is: the place of a hot one in memory, of a cold one in the region,
/// which has the distinct ones in ascending order; and how many cold ones there are.
fn places(rows: &[u32], hot: &HotRows) -> (Vec<u32>, u64) {
    let mut places = vec![0; rows.len()];
    let mut cold: Vec<u64> = Vec::with_capacity(rows.len());
    for (number, (row, place)) in rows.iter().zip(&mut places).enumerate() {
        match hot.place(u64::from(*row)) {
            Some(known) => *place = known,
            None => cold.push(u64::from(*row) << 32 | number as u64),
        }
    }
    cold.sort_unstable();
    let mut distinct = 0;
    let mut before = None;
    for key in cold {
        let row = key >> 32;
        if before.replace(row).is_some_and(|before| before != row) {
            distinct += 1;
        }
        places[key as u32 as usize] = COLD | distinct;
    }
    let rows_read = if before.is_some() { u64::from(distinct) + 1 } else { 0 };
    (places, rows_read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cold_rows_have_their_places_in_ascending_order_and_equal_ones_the_same() {
        let hot = HotRows::from_bits(vec![0b10_0100], 64);
        let (found, cold) = places(&[40, 2, 7, 5, 40, 0], &hot);
        assert_eq!(found, [COLD | 2, 0, COLD | 1, 1, COLD | 2, COLD]);
        assert_eq!((cold, places(&[], &hot).1, places(&[2], &hot).1), (3, 0, 0));
    }
}
