//! Making the batches of a stretch: this thread reads their subgraphs and regions back, another
//! puts rows together.

use std::sync::mpsc::{Receiver, Sender, channel};

use ng_io::{AnonMap, BLOCK_BYTES, ScratchFile};

use super::memory::{RECORDS, region_bytes};
use super::{LookAhead, Spill, Table};
use crate::SampleError;
use crate::buffer::region;
use crate::clock::{Wait, Work};
use crate::lookahead::pieces::Sampled;
use crate::lookahead::state::AheadState;
use crate::pipeline::{COLD, Gatherer, HotRows, Memory, Rows};

/// What is read at a time.
const READ_BYTES: usize = 4 << 20;

/// A batch whose cold rows are in memory.
struct Record {
    sampled: Sampled,
    memory: AnonMap,
    /// By table: where its rows begin.
    starts: Vec<usize>,
}

impl LookAhead {
    /// Makes the batches of `spill`; `room` are the bytes for regions. Returns where they end.
    pub(super) fn read_regions(
        &self,
        tables: &[Table],
        gatherer: &Gatherer,
        spill: &mut Spill,
        file: &ScratchFile,
        room: u64,
    ) -> Result<u64, SampleError> {
        let bytes_of = |batch: usize| {
            tables.iter().map(|t| region_bytes(t.regions[batch].rows, t.width)).sum::<u64>()
        };
        let batches = (spill.end() - spill.first()) as usize;
        let longest = (0..batches).map(bytes_of).max().unwrap_or(0);
        let fits = (1..=RECORDS).rev().find(|records| records * longest <= room);
        // A batch that is longer than any that was foreseen takes what else is free.
        let _more = match fits {
            Some(_) => None,
            None => Some(self.snapshot().reserve(longest.saturating_sub(room))?),
        };
        let (back, free) = channel();
        for _ in 0..fits.unwrap_or(1) {
            // The receiver is here.
            let _ = back.send(region(longest as usize)?);
        }
        let (loaded, records) = channel();
        std::thread::scope(|scope| {
            let gather = move || self.gather_records(tables, gatherer, &records, &back);
            self.shared.start_in(scope, "ng-gather", gather)?;
            for index in spill.first()..spill.end() {
                let memory = free.recv().map_err(|_| SampleError::Stopped)?;
                let record = self.read_record(tables, spill, index, (file, memory))?;
                loaded.send(record).map_err(|_| SampleError::Stopped)?;
            }
            drop(loaded);
            Ok::<(), SampleError>(())
        })?;
        if self.shared.is_stopping() { Err(SampleError::Stopped) } else { Ok(spill.end()) }
    }

    /// Reads the sample of a batch back, and its regions into `memory`.
    fn read_record(
        &self,
        tables: &[Table],
        spill: &mut Spill,
        index: u64,
        (file, mut memory): (&ScratchFile, AnonMap),
    ) -> Result<Record, SampleError> {
        let sampled = self.read_back(spill, index)?;
        let batch = (index - spill.first()) as usize;
        let (mut starts, mut at) = (Vec::new(), 0);
        for table in tables {
            let place = table.regions[batch];
            debug_assert!(
                place.offset.is_multiple_of(BLOCK_BYTES as u64),
                "regions are whole blocks"
            );
            let len = region_bytes(place.rows, table.width) as usize;
            let target = &mut memory.as_mut_slice()[at..at + len];
            for (step, part) in target.chunks_mut(READ_BYTES).enumerate() {
                let read = || file.read_exact_at(place.offset + (step * READ_BYTES) as u64, part);
                self.shared.clock.count(Work::Read, read)?;
            }
            starts.push(at);
            at += len;
        }
        Ok(Record { sampled, memory, starts })
    }

    /// Makes batches until there are no more records.
    fn gather_records(
        &self,
        tables: &[Table],
        gatherer: &Gatherer,
        records: &Receiver<Record>,
        back: &Sender<AnonMap>,
    ) -> Result<(), SampleError> {
        while let Ok(Record { sampled, memory, starts }) = records.recv() {
            let has_room = |state: &mut AheadState| {
                ((state.ready.len() as u64) < self.shared.prefetch).then_some(())
            };
            self.shared.wait_until(Wait::GatherForRows, has_room)?;
            let places = tables.iter().map(|t| places(&sampled.rows(t.tensor.owner), &t.hot));
            let (places, cold): (Vec<_>, Vec<u64>) = places.unzip();
            let of_batch = Memory::Record {
                hot: tables.iter().map(|table| table.memory.as_slice()).collect(),
                cold: starts.iter().map(|start| &memory.as_slice()[*start..]).collect(),
            };
            let rows = Rows { places: &places, memory: of_batch };
            self.finish(gatherer, sampled, &rows, cold.iter().sum())?;
            drop(rows);
            // The reader may have read its last record.
            let _ = back.send(memory);
        }
        Ok(())
    }
}

/// Where each row of a batch is: the place of a hot one in memory, of a cold one in the region,
/// which has the distinct ones in ascending order; and how many cold ones there are.
fn places(rows: &[u32], hot: &HotRows) -> (Vec<u32>, u64) {
    let mut places = vec![0; rows.len()];
    // Row and number in one key: sorted, they come in the order of the file, which is that of the
    // region, so the rank of a row among the distinct ones is its place there.
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
        // Nodes may share a row, which lies in the region once.
        if before.replace(row).is_some_and(|before| before != row) {
            distinct += 1;
        }
        places[key as u32 as usize] = COLD | distinct;
    }
    assert!(distinct < COLD, "a region of {distinct} rows; places have a bit for the kind");
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
