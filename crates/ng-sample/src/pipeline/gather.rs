//! The gatherer: from a subgraph and the rows that are at hand for it to a batch.
//!
//! What lives here: where the rows of each column come from, and waiting for memory for them. What
//! must not: how rows came to be at hand. The invariants: batches are put together in order by one
//! thread; PyG's wide arrays are made at the very end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_simd::RowDecoder;
use ng_store::{GatherStats, Snapshot, TensorRef};
use ng_types::Reservation;

use super::rows::{ResidentTensor, Rows};
use super::shared::Shared;
use crate::admission::Stage;
use crate::buffer::{Buffer, Pool};
use crate::clock::{Clock, Work};
use crate::columns::{Columns, Gathered};
use crate::compact::CompactSample;
use crate::{Column, MiniBatch, SampleError};

/// How long a buffer is waited for before memory beside the plan is asked for.
const BUFFER_PATIENCE: Duration = Duration::from_millis(200);

/// A buffer comes back without a word, so the wait is one of short looks.
const BUFFER_POLL: Duration = Duration::from_millis(1);

/// Where the rows of a column come from.
pub(crate) enum Source {
    /// What is at hand of this table, into buffers of the pool.
    Table(usize, Arc<Pool>),
    /// Memory.
    Resident(ResidentTensor),
}

/// Says where the rows of a tensor come from; those of which it knows nothing come through the
/// store's caches.
pub(crate) type FindSource<'a> = dyn FnMut(TensorRef) -> Result<Option<Source>, SampleError> + 'a;

/// A column of all batches.
struct Plan {
    tensor: TensorRef,
    /// With what makes the wanted rows of the stored ones; the store's caches otherwise.
    source: Result<(Source, RowDecoder), Columns>,
}

/// What batches are gathered with.
pub(crate) struct Gatherer {
    snapshot: Arc<Snapshot>,
    clock: Arc<Clock>,
    plans: Vec<Plan>,
}

impl Gatherer {
    /// Gathers `columns`, with rows from where `find` says.
    pub fn new(
        snapshot: &Arc<Snapshot>,
        clock: &Arc<Clock>,
        columns: &Columns,
        find: &mut FindSource<'_>,
    ) -> Result<Self, SampleError> {
        let mut plans = Vec::new();
        for (place, (tensor, decoder)) in columns.tensors().enumerate() {
            let source = match decoder {
                Some(decoder) => find(tensor)?.map(|found| (found, decoder.clone())),
                None => None,
            };
            let source = source.ok_or_else(|| columns.only(&[place]));
            plans.push(Plan { tensor, source });
        }
        Ok(Self { snapshot: Arc::clone(snapshot), clock: Arc::clone(clock), plans })
    }

    /// Makes batch `index` of its subgraph and the rows of its tables, `rows_read` of which were
    /// read for it.
    pub fn gather<W>(
        &self,
        shared: &Shared<W>,
        index: u64,
        sample: CompactSample,
        rows: &Rows<'_>,
        rows_read: u64,
    ) -> Result<MiniBatch, SampleError> {
        let rows_cached = rows.len().saturating_sub(rows_read);
        self.snapshot.count_rows(GatherStats { rows: rows.len(), rows_cached });
        let topology = shared.admit(&self.snapshot, index, sample.batch_bytes())?;
        let mut gathered = Vec::with_capacity(self.plans.len());
        for (place, Plan { tensor, source }) in self.plans.iter().enumerate() {
            let (source, decoder) = match source {
                Ok(source) => source,
                Err(columns) => {
                    gathered.extend(self.through_caches(columns, &sample)?);
                    continue;
                }
            };
            let ids = sample.row_ids(tensor.owner);
            let len = ids.len() * decoder.out_bytes();
            let (mut bytes, held) = match source {
                Source::Table(_, pool) => self.buffer(shared, pool, len)?,
                Source::Resident(_) => {
                    let held = shared.admit(&self.snapshot, index, len as u64)?;
                    (Buffer::new(len)?, Some(held))
                }
            };
            self.clock.count(Work::Gather, || match source {
                Source::Table(table, _) => rows.copy(*table, decoder, bytes.as_mut_slice()),
                Source::Resident(all) => all.gather(ids, decoder, bytes.as_mut_slice()),
            });
            let (tensor, dtype) = (*tensor, decoder.wanted());
            let column = Column { tensor, dtype, sparse: None, bytes };
            gathered.push(Gathered { place, column, held });
        }
        Ok(sample.into_batch(topology, gathered))
    }

    fn through_caches(
        &self,
        columns: &Columns,
        sample: &CompactSample,
    ) -> Result<Vec<Gathered>, SampleError> {
        let admit =
            |_: Stage, bytes: u64| self.snapshot.reserve_batch(bytes).map_err(SampleError::from);
        self.clock
            .time(Work::Gather, &admit, |admit| columns.gather(&self.snapshot, sample, None, admit))
    }

    /// Gives back the memory of buffers that nobody has, until they are wanted again.
    pub fn rest(&self) -> Result<(), SampleError> {
        for plan in &self.plans {
            if let Ok((Source::Table(_, pool), _)) = &plan.source {
                pool.rest()?;
            }
        }
        Ok(())
    }

    /// A buffer of the pool; one of its own where the consumer keeps what it got.
    fn buffer<W>(
        &self,
        shared: &Shared<W>,
        pool: &Arc<Pool>,
        len: usize,
    ) -> Result<(Buffer, Option<Reservation>), SampleError> {
        let reserve = |bytes| self.snapshot.reserve(bytes);
        let start = Instant::now();
        shared.wait_for_memory(
            BUFFER_POLL,
            |_| match pool.take(len, &reserve) {
                Ok(Some(buffer)) => Ok(Some((buffer, None))),
                _ if start.elapsed() < BUFFER_PATIENCE => Ok(None),
                // It may have what else is free.
                _ => {
                    let held = reserve(len as u64)?;
                    Ok(Some((Buffer::new(len)?, Some(held))))
                }
            },
            |state| state.ready.is_empty(),
        )
    }
}
