//! One partition of the sort: its records, in memory or on scratch, and the rounds that split a
//! partition which would not fit in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::blocks::Block;
use super::record::Record;
use super::sorter::{Distribution, Shared};
use super::splitters::Splitters;
use crate::ImportError;
use crate::threads::run_on;

/// Records between two boundaries, in no order.
#[derive(Debug)]
pub(super) struct Partition<R> {
    pub(super) memory: Vec<R>,
    pub(super) blocks: Vec<Block>,
    /// All records are equal.
    pub(super) single: bool,
}

/// Records of a sample per partition.
pub(super) const SAMPLES_PER_PART: usize = 48;
/// Blocks that are read for the sample of a partition.
const SAMPLE_BLOCKS_MAX: usize = 64;

impl<R: Record> Partition<R> {
    pub(super) fn count(&self) -> u64 {
        let spilled: u64 = self.blocks.iter().map(|block| block.count() as u64).sum();
        self.memory.len() as u64 + spilled
    }

    /// Reads and sorts the partition into `records`.
    pub(super) fn load(
        self,
        shared: &Shared,
        records: &mut Vec<R>,
        spare: &mut Vec<R>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), ImportError> {
        records.clear();
        if self.blocks.is_empty() {
            *records = self.memory;
        } else {
            records.reserve(self.count() as usize);
            records.extend_from_slice(&self.memory);
            for block in self.blocks {
                shared.slots.read(shared.layout, block, records, bytes)?;
            }
        }
        R::sort(records, spare);
        Ok(())
    }

    /// The value and the count of a partition of equal records; its slots are given back.
    pub(super) fn into_single(self, shared: &Shared) -> Result<Option<(R, u64)>, ImportError> {
        let count = self.count();
        let mut records = self.memory;
        if let (true, Some(block)) = (records.is_empty(), self.blocks.first()) {
            shared.slots.peek(shared.layout, *block, &mut records, &mut Vec::new())?;
        }
        for block in self.blocks {
            shared.slots.discard(block);
        }
        Ok(records.first().map(|record| (*record, count)))
    }

    fn is_oversize(&self, shared: &Shared) -> bool {
        let bytes_max = shared.sizes.partition_bytes_max as u64;
        !self.single && self.count() * size_of::<R>() as u64 > bytes_max
    }

    fn sample(&self, shared: &Shared, parts: usize) -> Result<Vec<R>, ImportError> {
        let mut sample = Vec::new();
        let (mut records, mut bytes) = (Vec::new(), Vec::new());
        let every = self.blocks.len().div_ceil(SAMPLE_BLOCKS_MAX).max(1);
        let wanted = parts * SAMPLES_PER_PART;
        let chosen: Vec<Block> = self.blocks.iter().copied().step_by(every).collect();
        for block in &chosen {
            records.clear();
            shared.slots.peek(shared.layout, *block, &mut records, &mut bytes)?;
            let step = (records.len() * chosen.len()).div_ceil(wanted).max(1);
            sample.extend(records.iter().step_by(step));
        }
        Ok(sample)
    }

    /// Distributes the records over new, smaller partitions.
    fn split(self, shared: &Arc<Shared>) -> Result<Vec<Self>, ImportError> {
        let bytes = self.count() * size_of::<R>() as u64;
        let wanted = 2 * bytes.div_ceil(shared.sizes.partition_bytes_max as u64) + 1;
        let parts = (wanted as usize).min(shared.parts_max::<R>());
        let sample = self.sample(shared, parts)?;
        let splitters = Splitters::from_sample(sample, parts);
        let distribution = Distribution::new(Arc::clone(shared), splitters);
        distribution.push(self.memory.iter().copied())?;
        let next = AtomicUsize::new(0);
        run_on(shared.sizes.threads, |_| {
            let (mut records, mut bytes) = (Vec::new(), Vec::new());
            while let Some(block) = self.blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
                records.clear();
                shared.slots.read(shared.layout, *block, &mut records, &mut bytes)?;
                distribution.push(records.iter().copied())?;
            }
            Ok(())
        })?;
        distribution.finish()
    }
}

/// Splits what would not fit in memory, until everything fits.
pub(super) fn split_oversize<R: Record>(
    shared: &Arc<Shared>,
    partitions: Vec<Partition<R>>,
) -> Result<Vec<Partition<R>>, ImportError> {
    let mut fitting = Vec::with_capacity(partitions.len());
    let mut waiting: Vec<Partition<R>> = partitions.into_iter().rev().collect();
    while let Some(partition) = waiting.pop() {
        if partition.is_oversize(shared) {
            waiting.extend(partition.split(shared)?.into_iter().rev());
        } else if partition.count() > 0 {
            fitting.push(partition);
        }
    }
    Ok(fitting)
}
