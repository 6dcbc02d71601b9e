//! The gathering thread: a record's cold rows and the hot rows in memory into the columns of a
//! batch, in the order of its nodes or edges.

use std::time::{Duration, Instant};

use ng_io::Region;
use ng_simd::{RowDecoder, finish_streaming, prefetch};
use ng_store::GatherStats;
use ng_types::Reservation;
use rayon::prelude::*;

use super::hot::HeldColumn;
use super::read::damaged;
use super::{Engine, Job, POLL, State};
use crate::buffer::Buffer;
use crate::compiled::hot::PackedTable;
use crate::compiled::record::{self, Decoded};
use crate::sampler::Stage;
use crate::{Column, MiniBatch, SampleError};

/// How long the consumer has to give back memory, before more is asked for and before giving up.
const PATIENCE: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

/// A buffer comes back without a word, so the wait is one of short looks.
const LOOK: Duration = Duration::from_millis(1);

/// Rows that one task copies.
const ROWS_TOGETHER: usize = 2048;

/// Marks the place of a cold row.
pub(crate) const COLD: u32 = 1 << 31;

/// Rows whose memory is on its way while another is copied.
const NEAR: usize = 3;

/// The part of a row that is fetched early; the processor foresees the rest.
fn near(row: &[u8]) -> &[u8] {
    &row[..row.len().min(1024)]
}

impl Engine {
    /// Makes batches until everything stops.
    pub(super) fn gather_all(&self) -> Result<(), SampleError> {
        let next = |state: &mut State| {
            (state.ready.len() < self.prefetch).then(|| state.loaded.pop_front()).flatten()
        };
        while let Some((job, memory)) = self.wait_until(POLL, next) {
            let batch = self.gather(job, &memory)?;
            self.gate.change(|state| {
                state.records.push(memory);
                state.ready.extend(batch);
            });
        }
        Ok(())
    }

    /// `None` if everything stops meanwhile.
    fn gather(&self, job: Job, memory: &Region) -> Result<Option<MiniBatch>, SampleError> {
        let file = &self.files[job.file];
        let entry = file.entries.get(job.batch as usize).copied().unwrap_or_default();
        let bytes = memory.as_slice().get(..entry.bytes as usize).unwrap_or_default();
        let fail = |what| damaged(file, job.batch, what);
        let snapshot = self.sampler.snapshot();
        let decoded = record::decode(bytes, job.batch, snapshot.catalog(), self.hot());
        let Decoded { nodes, edges, cold } = decoded.map_err(fail)?;
        let mut batch = MiniBatch { nodes, edges, columns: Vec::new(), held: Vec::new() };
        let Some(held) = self.reserve(batch.topology_bytes())? else { return Ok(None) };
        batch.held.push(Some(held));
        let Some(held) = self.held.get() else { return Ok(None) };
        let wanted = self.sampler.columns();
        let columns = wanted.tensors().zip(&held.columns).zip(&self.pools);
        for (((tensor, decoder), source), pool) in columns {
            let (Some(decoder), false) = (decoder, matches!(source, HeldColumn::Store(_))) else {
                self.gather_plainly(source, &mut batch)?;
                continue;
            };
            let len = batch.row_ids(tensor.owner).len() * decoder.out_bytes();
            let taken = match pool {
                Some(pool) => {
                    let take = || {
                        Ok(pool
                            .take(len, &|bytes| snapshot.reserve(bytes))?
                            .map(|buffer| (buffer, None)))
                    };
                    self.wait_for_memory(take, len)?
                }
                None => self.wait_for_memory(|| self.own_buffer(len).map(Some), len)?,
            };
            let Some((mut out, held)) = taken else { return Ok(None) };
            match source {
                HeldColumn::Hot(table, hot) => {
                    let table_of = &self.hot().tables[*table];
                    let cold = bytes.get(cold[*table].clone()).unwrap_or_default();
                    let places = places(batch.row_ids(tensor.owner), table_of, cold.len());
                    let places = places.map_err(fail)?;
                    let cold_rows = cold.len() as u64 / table_of.width.max(1);
                    let rows = places.len() as u64;
                    snapshot.count_rows(GatherStats { rows, rows_cached: rows - cold_rows });
                    copy_rows(&places, (hot.as_slice(), cold), decoder, out.as_mut_slice());
                }
                HeldColumn::Whole(whole) => {
                    let ids = batch.row_ids(tensor.owner);
                    whole.gather(ids, decoder, out.as_mut_slice());
                }
                HeldColumn::Store(_) => {}
            }
            batch.held.push(held);
            let dtype = decoder.wanted();
            batch.columns.push(Column { tensor, dtype, sparse: None, bytes: out });
        }
        Ok(Some(batch))
    }

    /// Puts a column into the batch that the store has to be asked for.
    fn gather_plainly(
        &self,
        source: &HeldColumn,
        batch: &mut MiniBatch,
    ) -> Result<(), SampleError> {
        let HeldColumn::Store(column) = source else { return Ok(()) };
        let snapshot = self.sampler.snapshot();
        let admit = |_: Stage, bytes: u64| snapshot.reserve_batch(bytes).map_err(SampleError::from);
        column.gather(snapshot, batch, &admit)
    }

    fn reserve(&self, bytes: u64) -> Result<Option<Reservation>, SampleError> {
        self.patiently(|| {
            let held = self.sampler.snapshot().reserve(bytes);
            held.map(Some).map_err(SampleError::from_budget)
        })
    }

    fn own_buffer(&self, len: usize) -> Result<Taken, SampleError> {
        let held = self.sampler.snapshot().reserve(len as u64).map_err(SampleError::from_budget)?;
        let buffer = Buffer::new(len);
        let buffer = buffer.map_err(|source| SampleError::NoMemory { bytes: len, source })?;
        Ok((buffer, Some(held)))
    }

    /// What `take` gives; memory beside the plan if the consumer keeps what it got.
    fn wait_for_memory(
        &self,
        take: impl Fn() -> Result<Option<Taken>, SampleError>,
        len: usize,
    ) -> Result<Option<Taken>, SampleError> {
        let start = Instant::now();
        self.patiently(|| match take()? {
            Some(taken) => Ok(Some(taken)),
            None if start.elapsed() < PATIENCE[0] => Ok(None),
            None => self.own_buffer(len).map(Some),
        })
    }

    /// Tries until there is memory; its error if the consumer gives none back for long. `None` if
    /// everything stops.
    fn patiently<T>(
        &self,
        mut take: impl FnMut() -> Result<Option<T>, SampleError>,
    ) -> Result<Option<T>, SampleError> {
        let start = Instant::now();
        let look = |state: &mut State| match take() {
            Ok(taken) => taken.map(Ok),
            Err(_) if !state.ready.is_empty() || start.elapsed() < PATIENCE[1] => None,
            Err(error) => Some(Err(error)),
        };
        self.wait_until(LOOK, look).transpose()
    }
}

/// A buffer, and what pays for it unless a pool does.
type Taken = (Buffer, Option<Reservation>);

/// Where each row of a batch is: the place of a hot one in memory, of a cold one in the record.
fn places(ids: &[i64], table: &PackedTable, cold_bytes: usize) -> Result<Vec<u32>, String> {
    let mut cold = 0;
    let place = |id: &i64| {
        table.hot.place(*id as u64).unwrap_or_else(|| {
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

/// Rows from where they are, decoded, one after the other.
pub(crate) fn copy_rows(
    places: &[u32],
    (hot, cold): (&[u8], &[u8]),
    decoder: &RowDecoder,
    out: &mut [u8],
) {
    let (stored, width) = (decoder.stored_bytes(), decoder.out_bytes());
    let row = |place: u32| {
        let (from, at) = if place & COLD == 0 { (hot, place) } else { (cold, place & !COLD) };
        let at = at as usize * stored;
        from.get(at..at + stored).unwrap_or_default()
    };
    let tasks = out.par_chunks_mut(ROWS_TOGETHER * width).zip(places.par_chunks(ROWS_TOGETHER));
    tasks.for_each(|(out, places)| {
        let mut decoded = Vec::new();
        places.iter().take(NEAR).for_each(|place| prefetch(near(row(*place))));
        for (step, (place, out)) in places.iter().zip(out.chunks_exact_mut(width)).enumerate() {
            if let Some(later) = places.get(step + NEAR) {
                prefetch(near(row(*later)));
            }
            decoder.decode_streaming(row(*place), &mut decoded, out);
        }
        finish_streaming();
    });
}
