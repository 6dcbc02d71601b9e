//! The gathering thread: records taken apart, their cold rows and the hot ones in memory at hand.

use ng_io::Region;

use super::{Replay, ReplayState};
use crate::SampleError;
use crate::clock::Wait;
use crate::compact::CompactSample;
use crate::compiled::hot::PackedTable;
use crate::compiled::record::{self, Decoded};
use crate::pipeline::{COLD, Gatherer, Rows};
use crate::{Ids, MiniBatch};

/// What is held in memory, and what gathers with it.
pub(super) struct Loaded {
    pub gatherer: Gatherer,
    /// By table: its hot rows, one behind the other.
    pub hot: Vec<Region>,
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

    fn gather(&self, job: u64, memory: &Region) -> Result<MiniBatch, SampleError> {
        let (file, batch) = self.place(job);
        let file = &self.files[file];
        let bytes = &memory.as_slice()[..file.entries[batch as usize].bytes as usize];
        let fail = |what| file.damaged(batch, what);
        let catalog = self.sampler.snapshot().catalog();
        let decoded = record::decode(bytes, batch, catalog, self.hot());
        let Decoded { nodes, edges, cold } = decoded.map_err(fail)?;
        // What it takes is a part of what is set aside for subgraphs.
        let held = self.sampler.snapshot().reserve(0).map_err(SampleError::from_budget)?;
        let sample = CompactSample { nodes, edges, _held: held };
        let (mut all, mut rows_read) = (Vec::new(), 0);
        for (table, cold) in self.hot().tables.iter().zip(&cold) {
            let places = places(sample.row_ids(table.tensor.owner), table, cold.len());
            all.push(places.map_err(fail)?);
            rows_read += cold.len() as u64 / table.width.max(1);
        }
        let loaded = self.loaded.get().ok_or(SampleError::Stopped)?;
        let rows = Rows::Record {
            hot: loaded.hot.iter().map(Region::as_slice).collect(),
            cold: cold.into_iter().map(|cold| &bytes[cold]).collect(),
            places: all,
        };
        loaded.gatherer.gather(&self.shared, job, sample, &rows, rows_read)
    }
}

/// Where each row of a batch is: the place of a hot one in memory, of a cold one in the record.
fn places(ids: &Ids, table: &PackedTable, cold_bytes: usize) -> Result<Vec<u32>, String> {
    let mut cold = 0;
    let place = |id: u64| {
        table.hot.place(id).unwrap_or_else(|| {
            cold += 1;
            COLD | (cold - 1)
        })
    };
    let places = ids.iter().map(place).collect();
    if u64::from(cold) * table.width == cold_bytes as u64 {
        return Ok(places);
    }
    Err(format!("{cold_bytes} bytes of rows where {cold} rows are cold"))
}
