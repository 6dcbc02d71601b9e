//! The gathering thread: rows from their slots into the columns of a batch, in batch order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_simd::{RowDecoder, finish_streaming};
use ng_store::{GatherStats, Snapshot, TensorRef};
use ng_types::Reservation;
use rayon::prelude::*;

use super::pieces::Resolved;
use super::resident::ResidentTensor;
use super::slots::Slots;
use super::state::{MEMORY_PATIENCE, Shared, State, Wait};
use crate::buffer::{Buffer, Pool};
use crate::columns::Columns;
use crate::sampler::{Admit, Stage};
use crate::stages::{Stages, Work};
use crate::{Column, MiniBatch, SampleError};

/// How long a buffer is waited for before memory beside the plan is asked for.
const BUFFER_PATIENCE: Duration = Duration::from_millis(200);

/// Rows that one task copies.
const ROWS_TOGETHER: usize = 4096;

/// Where the rows of a tensor come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Slots of this table, into buffers of this pool.
    Table(usize, Arc<Pool>),
    /// Memory.
    Resident(ResidentTensor),
    /// The store's caches: rows of no fixed length.
    Store,
}

/// A tensor that batches carry.
pub(crate) struct GatherColumn {
    pub tensor: TensorRef,
    /// From what is stored to what is wanted, for rows that come with their zeros.
    pub decoder: Option<RowDecoder>,
    pub source: Source,
    /// This column alone.
    pub plain: Columns,
}

/// What the gathering thread works with.
pub(crate) struct Gatherer {
    pub snapshot: Arc<Snapshot>,
    /// By tensor asked for.
    pub columns: Vec<GatherColumn>,
    /// Batches that wait for the consumer at most.
    pub prefetch: usize,
    /// Where its work is counted.
    pub stages: Arc<Stages>,
}

impl Gatherer {
    /// Makes batches of rows in `slots` until the stretch ends, or everything stops.
    pub fn run(&self, shared: &Shared, slots: &[Slots]) {
        loop {
            let next = |state: &mut State| {
                if state.stretch_end == Some(state.gathered) {
                    return Some(None);
                }
                let has_room = state.ready.len() < self.prefetch;
                if has_room { state.next_complete().map(Some) } else { None }
            };
            let Some(Some(resolved)) = shared.wait_until(Wait::GatherForRows, next) else { return };
            let copy: &CopyRows<'_> = &|table, from, decoder, out| {
                copy_slots(&slots[table], from, decoder, out);
            };
            if !self.make(shared, resolved, copy) {
                return;
            }
        }
    }

    /// Makes a batch and hands it over; false if everything stopped meanwhile.
    pub fn make(&self, shared: &Shared, resolved: Resolved, copy: &CopyRows<'_>) -> bool {
        match self.gather(shared, resolved, copy) {
            Ok(Some(batch)) => shared.change(|state| {
                state.gathered += 1;
                state.ready.push_back(batch);
                true
            }),
            Ok(None) => false,
            Err(error) => {
                shared.fail(error);
                false
            }
        }
    }

    /// `None` if everything stopped meanwhile.
    fn gather(
        &self,
        shared: &Shared,
        resolved: Resolved,
        copy: &CopyRows<'_>,
    ) -> Result<Option<MiniBatch>, SampleError> {
        let Resolved { sampled, slots, rows_read } = resolved;
        let rows: u64 = slots.iter().map(|slots| slots.len() as u64).sum();
        let rows_cached = rows.saturating_sub(rows_read);
        self.snapshot.count_rows(GatherStats { rows, rows_cached });
        let held = self.snapshot.reserve(sampled.sample.batch_bytes());
        let mut batch = sampled.sample.into_batch(held.map_err(SampleError::from_budget)?);
        for column in &self.columns {
            let rows = batch.row_ids(column.tensor.owner).len();
            let Some(decoder) = &column.decoder else {
                self.gather_plainly(column, &mut batch)?;
                continue;
            };
            let len = rows * decoder.out_bytes();
            let (bytes, held) = match &column.source {
                Source::Table(table, pool) => {
                    let Some((mut bytes, held)) = self.buffer(shared, pool, len)? else {
                        return Ok(None);
                    };
                    let start = Instant::now();
                    copy(*table, &slots[*table], decoder, bytes.as_mut_slice());
                    self.stages.add(Work::Gather, start.elapsed());
                    (bytes, held)
                }
                Source::Resident(resident) => {
                    let (mut bytes, held) = self.own_buffer(len)?;
                    let ids = batch.row_ids(column.tensor.owner);
                    let start = Instant::now();
                    resident.gather(ids, decoder, bytes.as_mut_slice());
                    self.stages.add(Work::Gather, start.elapsed());
                    (bytes, held)
                }
                Source::Store => {
                    self.gather_plainly(column, &mut batch)?;
                    continue;
                }
            };
            batch.held.push(held);
            let (tensor, dtype) = (column.tensor, decoder.wanted());
            batch.columns.push(Column { tensor, dtype, sparse: None, bytes });
        }
        Ok(Some(batch))
    }

    fn gather_plainly(
        &self,
        column: &GatherColumn,
        batch: &mut MiniBatch,
    ) -> Result<(), SampleError> {
        let admit =
            |_: Stage, bytes: u64| self.snapshot.reserve_batch(bytes).map_err(SampleError::from);
        let gather = |admit: &Admit<'_>| column.plain.gather(&self.snapshot, batch, admit);
        self.stages.time(Work::Gather, &admit, gather)
    }

    /// Gives back the memory of buffers that nobody has, until they are wanted again.
    pub fn rest(&self) -> Result<(), SampleError> {
        for column in &self.columns {
            if let Source::Table(_, pool) = &column.source {
                pool.rest().map_err(|source| SampleError::NoMemory { bytes: 0, source })?;
            }
        }
        Ok(())
    }

    /// A buffer of the pool; one of its own where the consumer keeps what it got.
    fn buffer(
        &self,
        shared: &Shared,
        pool: &Arc<Pool>,
        len: usize,
    ) -> Result<Option<(Buffer, Option<Reservation>)>, SampleError> {
        // A buffer comes back without a word to this stage, so the wait is one of short looks.
        let start = Instant::now();
        let look = |state: &mut State| match pool.take(len, &|bytes| self.snapshot.reserve(bytes)) {
            Ok(Some(buffer)) => Some(Ok((buffer, None))),
            _ if start.elapsed() < BUFFER_PATIENCE => None,
            // It may have what else is free.
            _ => match self.own_buffer(len) {
                Err(_) if !state.ready.is_empty() || start.elapsed() < MEMORY_PATIENCE => None,
                result => Some(result),
            },
        };
        shared.wait_until(Wait::GatherForBuffers, look).transpose()
    }

    fn own_buffer(&self, len: usize) -> Result<(Buffer, Option<Reservation>), SampleError> {
        let held = self.snapshot.reserve(len as u64).map_err(SampleError::from_budget)?;
        let buffer = Buffer::new(len);
        let buffer = buffer.map_err(|source| SampleError::NoMemory { bytes: len, source })?;
        Ok((buffer, Some(held)))
    }
}

/// Copies rows of a table to where they are wanted, decoded, one after the other: (table, places of
/// the rows, decoder, target).
pub(crate) type CopyRows<'a> = dyn Fn(usize, &[u32], &RowDecoder, &mut [u8]) + 'a;

fn copy_slots(slots: &Slots, from: &[u32], decoder: &RowDecoder, out: &mut [u8]) {
    let width = decoder.out_bytes();
    let tasks = out.par_chunks_mut(ROWS_TOGETHER * width).zip(from.par_chunks(ROWS_TOGETHER));
    tasks.for_each(|(out, from)| {
        let mut near = Vec::new();
        slots.each(from, |place, row| {
            let target = &mut out[place * width..(place + 1) * width];
            decoder.decode_streaming(row, &mut near, target);
        });
        finish_streaming();
    });
}
