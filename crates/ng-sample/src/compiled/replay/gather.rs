//! The gathering thread: records taken apart, their cold rows and the hot ones in memory at hand.

use ng_io::AnonMap;

use super::{Replay, ReplayState};
use crate::SampleError;
use crate::clock::Wait;
use crate::compact::{CompactSample, Extras};
use crate::compiled::format::ALIGN_BYTES;
use crate::compiled::hot::PackedTable;
use crate::pipeline::{COLD, Gatherer, Memory, Rows};
use crate::record::{self, Decoded};
use crate::{Ids, MiniBatch};

/// What is held in memory, and what gathers with it.
pub(super) struct Loaded {
    pub gatherer: Gatherer,
    /// By table: its hot rows, one behind the other.
    pub hot: Vec<AnonMap>,
}

impl Replay {
    /// Makes batches until everything stops.
    pub fn run_gatherer(&self) -> Result<(), SampleError> {
        let next = |state: &mut ReplayState| {
            let has_room = (state.ready.len() as u64) < self.shared.prefetch;
            if has_room { state.way.read.pop_front() } else { None }
        };
        loop {
            let (job, memory) = self.shared.wait_until(Wait::GatherForRows, next)?;
            let batch = self.gather(job, &memory)?;
            self.shared.change(|state| {
                state.way.free.push(memory);
                state.ready.insert(job, Ok(batch));
            });
        }
    }

    fn gather(&self, job: u64, memory: &AnonMap) -> Result<MiniBatch, SampleError> {
        let (file, batch) = self.place(job);
        let file = &self.files[file];
        let bytes = &memory.as_slice()[..file.entries[batch as usize].bytes as usize];
        let fail = |what| file.damaged(batch, what);
        let catalog = self.sampler.snapshot().catalog();
        let decoded = record::decode(bytes, batch, self.hot().tables.len(), catalog);
        let Decoded { nodes, edges, behind, end } = decoded.map_err(fail)?;
        // What it takes is a part of what is set aside for subgraphs.
        let held = self.sampler.snapshot().reserve(0)?;
        let sample = CompactSample { nodes, edges, extras: Extras::default(), _held: held };
        let (mut all, mut cold, mut at) = (Vec::new(), Vec::new(), end);
        for (table, num_cold) in self.hot().tables.iter().zip(&behind) {
            let places = places(sample.row_ids(table.tensor.owner), table, *num_cold);
            all.push(places.map_err(fail)?);
            let start = at.next_multiple_of(ALIGN_BYTES);
            at = num_cold.saturating_mul(table.width as usize).saturating_add(start);
            let passes = || fail(format!("{num_cold} rows at byte {start} exceed the batch"));
            cold.push(bytes.get(start..at).ok_or_else(passes)?);
        }
        let rows_read = behind.iter().sum::<usize>() as u64;
        let loaded = self.loaded.get().ok_or(SampleError::Stopped)?;
        let hot = loaded.hot.iter().map(AnonMap::as_slice).collect();
        let rows = Rows { places: &all, memory: Memory::Record { hot, cold } };
        loaded.gatherer.gather(&self.shared, job, sample, &rows, rows_read)
    }
}

/// Where each row of a batch is: the place of a hot one in memory, of a cold one in the record.
fn places(ids: &Ids, table: &PackedTable, num_cold: usize) -> Result<Vec<u32>, String> {
    let mut cold = 0;
    let place = |id: u64| {
        table.hot.place(id).unwrap_or_else(|| {
            cold += 1;
            COLD | (cold - 1)
        })
    };
    let places = ids.iter().map(place).collect();
    if cold as usize == num_cold {
        return Ok(places);
    }
    Err(format!("it has {num_cold} cold rows, expected {cold}"))
}
