//! Counting which rows batches want, so that those wanted most are hot.
//!
//! What must not live here: reading of rows. The invariant: what is chosen depends on the batches
//! that were counted and on the budget, not on threads.

use std::sync::Arc;

use ng_io::{BLOCK_BYTES, vec_in_huge_pages};
use ng_store::DiskCosts;
use ng_types::{MemoryUser, NodeId, NodeTypeId, Reservation};
use rayon::prelude::*;

use super::hot::{HotSet, PackedTable};
use super::memory::{Largest, ReplayMemory, room, whole_bytes};
use crate::pipeline::{HotRows, hottest};
use crate::{CompactSample, SampleError, SampleScratch, Sampler};

/// Batches ahead of the consumer for which memory is left.
const PREFETCH: u64 = 1;

/// Threads that sample.
const THREADS: usize = 2;

/// Sizes of the records of some batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Batches.
    pub batches: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Bytes of all their rows, as they are stored, hot or not.
    pub row_bytes: u64,
}

/// Counts rows over sampled batches and chooses the hot ones.
pub struct Survey {
    /// As it was given; and with the topologies that are held in memory.
    given: Sampler,
    sampler: Sampler,
    /// The tensors that are too large to be held whole, without hot rows.
    none: HotSet,
    /// By tensor and row: how often batches want it.
    counts: Vec<Vec<u16>>,
    room: u64,
    largest: Largest,
    batches: u64,
    topology_bytes: u64,
    _held: Reservation,
}

impl Survey {
    /// A survey of what `sampler` samples.
    ///
    /// # Errors
    /// [`SampleError`] where topology or counters do not fit the budget.
    pub fn new(sampler: Sampler) -> Result<Self, SampleError> {
        let snapshot = Arc::clone(sampler.snapshot());
        let room = room(&snapshot);
        let whole = snapshot.budget().share(MemoryUser::WholeTensor);
        let catalog = snapshot.catalog();
        let wide = |tensor| whole_bytes(&snapshot, tensor) > whole;
        let tensors = sampler.columns().tensors().map(|(tensor, _)| tensor).filter(|t| wide(*t));
        let metas = tensors.filter_map(|tensor| Some((tensor, catalog.tensor(tensor)?)));
        let tables: Vec<PackedTable> = metas
            .map(|(tensor, meta)| {
                let hot = HotRows::none(meta.num_rows);
                PackedTable { tensor, width: meta.row_bytes(), hot }
            })
            .collect();
        let counters: u64 = tables.iter().map(|table| table.hot.num_rows() * 2).sum();
        let held = snapshot.reserve(counters)?;
        let counts = |table: &PackedTable| vec_in_huge_pages(0, table.hot.num_rows() as usize);
        Ok(Self {
            given: sampler.clone(),
            sampler: sampler.with_topology_that_fits()?,
            largest: Largest { rows: vec![0; tables.len()], ..Largest::default() },
            counts: tables.iter().map(counts).collect(),
            none: HotSet { tables },
            room,
            batches: 0,
            topology_bytes: 0,
            _held: held,
        })
    }

    /// Samples and counts batches: their seeds and streams.
    ///
    /// # Errors
    /// Those of sampling.
    pub fn count(
        &mut self,
        node_type: NodeTypeId,
        jobs: &[(Vec<NodeId>, u64)],
    ) -> Result<(), SampleError> {
        for sample in self.sample(node_type, jobs)? {
            self.batches += 1;
            self.topology_bytes += head_bytes(&sample);
            self.largest.record_bytes = self.largest.record_bytes.max(head_bytes(&sample));
            self.largest.batch_bytes = self.largest.batch_bytes.max(sample.batch_bytes());
            let counted = self.none.tables.iter().zip(&mut self.counts);
            for ((table, counts), most) in counted.zip(&mut self.largest.rows) {
                let rows = sample.row_ids(table.tensor.owner);
                *most = rows.len().max(*most as usize) as u64;
                for row in rows.iter() {
                    let count = &mut counts[row as usize];
                    *count = count.saturating_add(1);
                }
            }
        }
        Ok(())
    }

    /// Samples batches and says how long their records would be.
    ///
    /// # Errors
    /// Those of sampling.
    pub fn measure(
        &self,
        node_type: NodeTypeId,
        jobs: &[(Vec<NodeId>, u64)],
        hot: &HotSet,
    ) -> Result<Measured, SampleError> {
        let mut all = Measured::default();
        for sample in self.sample(node_type, jobs)? {
            let mut bytes = head_bytes(&sample);
            for table in &hot.tables {
                let rows = sample.row_ids(table.tensor.owner);
                let cold = rows.iter().filter(|row| table.hot.place(*row).is_none()).count();
                bytes += cold as u64 * table.width;
                all.row_bytes += rows.len() as u64 * table.width;
            }
            all.bytes += bytes.next_multiple_of(BLOCK_BYTES as u64);
            all.batches += 1;
        }
        Ok(all)
    }

    fn sample(
        &self,
        node_type: NodeTypeId,
        jobs: &[(Vec<NodeId>, u64)],
    ) -> Result<Vec<CompactSample>, SampleError> {
        let parts = jobs.par_chunks(jobs.len().div_ceil(THREADS).max(1));
        let parts = parts.map(|jobs| {
            let mut scratch = SampleScratch::default();
            let sample = |(seeds, stream): &(Vec<NodeId>, u64)| {
                self.sampler.sample_compact(&[(node_type, seeds)], *stream, &mut scratch)
            };
            jobs.iter().map(sample).collect::<Result<Vec<_>, _>>()
        });
        let parts: Vec<Vec<CompactSample>> = parts.collect::<Result<_, _>>()?;
        Ok(parts.into_iter().flatten().collect())
    }

    /// Returns the most frequent rows, as many as fit into this store's budget during a replay, and
    /// the memory of that replay.
    pub fn choose(&self) -> (HotSet, ReplayMemory) {
        let memory = |hot: &HotSet, record_bytes| {
            let largest = Largest { record_bytes, ..self.largest.clone() };
            ReplayMemory::new(&self.given, hot, &largest, PREFETCH)
        };
        let head = self.largest.record_bytes;
        let room =
            |record_bytes| self.room.saturating_sub(memory(&self.none, record_bytes).num_bytes());
        // Fewer hot rows make longer records, which leave less memory for hot rows.
        let first = self.rows_within(room(head));
        let record_bytes = head + self.longest_rows(&first);
        let hot = self.rows_within(room(record_bytes));
        let record_bytes = head + self.longest_rows(&hot);
        let memory = memory(&hot, record_bytes);
        (hot, memory)
    }

    /// The hot rows that `bytes` have room for: those with the highest counts, and of equal ones
    /// the first.
    pub fn rows_within(&self, bytes: u64) -> HotSet {
        let tables = &self.none.tables;
        let counts =
            tables.iter().zip(&self.counts).map(|(table, counts)| (table.width, &**counts));
        let hot = hottest(&counts.collect::<Vec<_>>(), bytes);
        let tables = tables.iter().zip(hot).map(|(table, hot)| PackedTable { hot, ..*table });
        HotSet { tables: tables.collect() }
    }

    /// Bytes of all rows of the tensors that are too large to be held whole.
    pub fn table_bytes(&self) -> u64 {
        self.none.tables.iter().map(|table| table.hot.num_rows() * table.width).sum()
    }

    /// What reads cost on the disk below.
    ///
    /// # Errors
    /// [`SampleError::Read`].
    pub fn disk_costs(&self) -> Result<DiskCosts, SampleError> {
        let Some(table) = self.none.tables.first() else { return Ok(DiskCosts::default()) };
        Ok(self.given.snapshot().disk_costs(table.tensor)?)
    }

    /// Bytes of the records of all counted batches.
    pub fn record_bytes(&self, hot: &HotSet) -> u64 {
        let cold: u64 = self.cold_rows(hot).map(|(cold, _, width)| cold * width).sum();
        self.topology_bytes + cold + self.batches * BLOCK_BYTES as u64 / 2
    }

    /// By table: uses of rows that are not hot, uses of all rows, the width.
    fn cold_rows<'a>(&'a self, hot: &'a HotSet) -> impl Iterator<Item = (u64, u64, u64)> + 'a {
        self.counts.iter().zip(&hot.tables).map(|(counts, table)| {
            let (mut cold, mut all) = (0, 0);
            for (row, count) in counts.iter().enumerate() {
                let uses = u64::from(*count);
                all += uses;
                cold += if table.hot.place(row as u64).is_none() { uses } else { 0 };
            }
            (cold, all, table.width)
        })
    }

    /// Bytes of the cold rows of the batch that has the most rows, if its share of cold ones is a
    /// quarter above the mean.
    fn longest_rows(&self, hot: &HotSet) -> u64 {
        let rows = self.cold_rows(hot).zip(&self.largest.rows);
        rows.map(|((cold, all, width), most)| {
            let share = 1.25 * cold as f64 / all.max(1) as f64;
            (*most as f64 * share.min(1.0)) as u64 * width
        })
        .sum()
    }
}

/// Bytes of a record before its rows.
fn head_bytes(sample: &CompactSample) -> u64 {
    sample.num_bytes() + 512
}
