//! Taking records in: collected in memory while they fit, distributed over partitions on scratch
//! from then on.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::blocks::{Block, SlotFile};
use super::ordered;
use super::partition::{Partition, SAMPLES_PER_PART, split_oversize};
use super::record::{Layout, Record};
use super::splitters::Splitters;
use crate::ImportError;

/// How much memory each part of the sort may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Records collected before anything is spilled.
    pub collect_bytes: usize,
    /// Buffers of the distribution, all threads together.
    pub lanes_bytes: usize,
    /// A partition while it is sorted, without the working space.
    pub partition_bytes_max: usize,
    /// Threads that sort.
    pub threads: usize,
}

const PARTS_MAX: usize = 1024;
const CHUNK_BYTES: usize = 256 * 1024;
/// Buffers are apart by this much more than a slot, so that the places where they fill do not fall
/// into the same set of the cache.
const STAGGER_BYTES: usize = 3 * 64;
/// Partitions that are sorted in memory at once fit in the cache of a core.
const MEMORY_PART_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) slots: Arc<SlotFile>,
    pub(super) layout: Layout,
    pub(super) sizes: Sizes,
}

impl Shared {
    /// How many partitions the buffers of the distribution allow.
    pub(super) fn parts_max<R: Record>(&self) -> usize {
        let buffer_bytes = self.slots.capacity::<R>(self.layout) * size_of::<R>();
        let parts = self.sizes.lanes_bytes / (buffer_bytes * self.sizes.threads);
        parts.clamp(4, PARTS_MAX)
    }
}

/// Sorts any number of records in bounded memory. Records are pushed from any thread.
#[derive(Debug)]
pub(crate) struct Sorter<R> {
    shared: Arc<Shared>,
    collected: Mutex<Collected<R>>,
    distribution: OnceLock<Distribution<R>>,
}

#[derive(Debug)]
struct Collected<R> {
    chunks: Vec<Vec<R>>,
    count: usize,
    hint: Vec<R>,
}

impl<R: Record> Sorter<R> {
    pub(crate) fn new(slots: Arc<SlotFile>, layout: Layout, sizes: Sizes) -> Self {
        let shared = Arc::new(Shared { slots, layout, sizes });
        let collected = Collected { chunks: Vec::new(), count: 0, hint: Vec::new() };
        Self { shared, collected: Mutex::new(collected), distribution: OnceLock::new() }
    }

    /// Gives a sample of the records to come; better than the first ones where input is ordered.
    pub(crate) fn hint(&self, sample: &[R]) {
        if self.distribution.get().is_none() {
            self.lock().hint.extend_from_slice(sample);
        }
    }

    /// Takes records in.
    pub(crate) fn push(&self, records: impl Iterator<Item = R>) -> Result<(), ImportError> {
        if let Some(distribution) = self.distribution.get() {
            return distribution.push(records);
        }
        let mut collected = self.lock();
        if let Some(distribution) = self.distribution.get() {
            drop(collected);
            return distribution.push(records);
        }
        collected.extend(records);
        if collected.count * size_of::<R>() <= self.shared.sizes.collect_bytes {
            return Ok(());
        }
        let sample = collected.sample(self.shared.parts_max::<R>());
        let splitters = Splitters::from_sample(sample, self.shared.parts_max::<R>());
        let chunks = std::mem::take(&mut collected.chunks);
        let start = || Distribution::new(Arc::clone(&self.shared), splitters);
        let distribution = self.distribution.get_or_init(start);
        drop(collected);
        for chunk in chunks {
            distribution.push(chunk.into_iter())?;
        }
        Ok(())
    }

    /// A sorter for the same records in another order.
    pub(crate) fn successor<S: Record>(&self) -> Sorter<S> {
        Sorter::new(Arc::clone(&self.shared.slots), self.shared.layout, self.shared.sizes)
    }

    /// The columns of the records.
    pub(crate) fn layout(&self) -> Layout {
        self.shared.layout
    }

    /// Writes the buffers out and frees them; more records may follow.
    pub(crate) fn pause(&self) -> Result<(), ImportError> {
        self.distribution.get().map_or(Ok(()), Distribution::flush_all)
    }

    /// Ends the input.
    pub(crate) fn finish(self) -> Result<Sorted<R>, ImportError> {
        let shared = self.shared;
        let collected = self.collected.into_inner().unwrap_or_else(PoisonError::into_inner);
        let partitions = match self.distribution.into_inner() {
            Some(distribution) => split_oversize(&shared, distribution.finish()?)?,
            None => collected.into_partitions(),
        };
        Ok(Sorted { shared, partitions })
    }

    fn lock(&self) -> MutexGuard<'_, Collected<R>> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Record> Collected<R> {
    fn extend(&mut self, records: impl Iterator<Item = R>) {
        let capacity = CHUNK_BYTES / size_of::<R>();
        for record in records {
            match self.chunks.last_mut() {
                Some(chunk) if chunk.len() < capacity => chunk.push(record),
                _ => {
                    let mut chunk = Vec::with_capacity(capacity);
                    chunk.push(record);
                    self.chunks.push(chunk);
                }
            }
            self.count += 1;
        }
    }

    fn sample(&mut self, parts: usize) -> Vec<R> {
        let mut sample = std::mem::take(&mut self.hint);
        if sample.is_empty() {
            let step = (self.count / (parts * SAMPLES_PER_PART)).max(1);
            sample.extend(self.chunks.iter().flatten().step_by(step));
        }
        sample
    }

    fn into_partitions(mut self) -> Vec<Partition<R>> {
        self.hint = Vec::new();
        let parts = (self.count * size_of::<R>() / MEMORY_PART_BYTES + 1).min(PARTS_MAX);
        let splitters = Splitters::from_sample(self.sample(parts), parts);
        let mut counts = vec![0; splitters.parts()];
        for record in self.chunks.iter().flatten() {
            counts[splitters.part_of(record)] += 1;
        }
        let mut buffers: Vec<Vec<R>> = counts.into_iter().map(Vec::with_capacity).collect();
        for chunk in self.chunks {
            for record in chunk {
                buffers[splitters.part_of(&record)].push(record);
            }
        }
        let partition = |(part, memory)| Partition {
            memory,
            blocks: Vec::new(),
            single: splitters.is_single(part),
        };
        let filled = |partition: &Partition<R>| !partition.memory.is_empty();
        buffers.into_iter().enumerate().map(partition).filter(filled).collect()
    }
}

/// Spreads records over partitions on scratch.
#[derive(Debug)]
pub(super) struct Distribution<R> {
    shared: Arc<Shared>,
    splitters: Splitters<R>,
    blocks: Mutex<Vec<Vec<Block>>>,
    idle: Mutex<Vec<Lane<R>>>,
}

/// The buffers of one thread: one slot's worth of records for each partition.
#[derive(Debug)]
struct Lane<R> {
    buffers: Vec<R>,
    lens: Vec<usize>,
    capacity: usize,
    /// From one buffer to the next.
    stride: usize,
    bytes: Vec<u8>,
}

impl<R: Record> Distribution<R> {
    pub(super) fn new(shared: Arc<Shared>, splitters: Splitters<R>) -> Self {
        let blocks = (0..splitters.parts()).map(|_| Vec::new()).collect();
        Self { shared, splitters, blocks: Mutex::new(blocks), idle: Mutex::default() }
    }

    pub(super) fn push(&self, mut records: impl Iterator<Item = R>) -> Result<(), ImportError> {
        let idle = self.lock_idle().pop();
        let mut lane = idle.unwrap_or_else(|| self.lane());
        records.try_for_each(|record| {
            let part = self.splitters.part_of(&record);
            let len = lane.lens[part];
            lane.buffers[part * lane.stride + len] = record;
            lane.lens[part] = len + 1;
            if len + 1 == lane.capacity { self.flush(&mut lane, part) } else { Ok(()) }
        })?;
        self.lock_idle().push(lane);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Vec<Partition<R>>, ImportError> {
        self.flush_all()?;
        let blocks = self.blocks.into_inner().unwrap_or_else(PoisonError::into_inner);
        let splitters = self.splitters;
        let partition = |(part, blocks)| Partition {
            memory: Vec::new(),
            blocks,
            single: splitters.is_single(part),
        };
        Ok(blocks.into_iter().enumerate().map(partition).collect())
    }

    fn flush_all(&self) -> Result<(), ImportError> {
        let lanes = std::mem::take(&mut *self.lock_idle());
        for mut lane in lanes {
            for part in 0..self.splitters.parts() {
                self.flush(&mut lane, part)?;
            }
        }
        Ok(())
    }

    fn lane(&self) -> Lane<R> {
        let parts = self.splitters.parts();
        let capacity = self.shared.slots.capacity::<R>(self.shared.layout);
        let stride = capacity + (STAGGER_BYTES / size_of::<R>()).max(1);
        let buffers = vec![R::default(); parts * stride];
        Lane { buffers, lens: vec![0; parts], capacity, stride, bytes: Vec::new() }
    }

    #[cold]
    fn flush(&self, lane: &mut Lane<R>, part: usize) -> Result<(), ImportError> {
        let start = part * lane.stride;
        let len = std::mem::take(&mut lane.lens[part]);
        if len == 0 {
            return Ok(());
        }
        let records = &lane.buffers[start..start + len];
        let block = self.shared.slots.write(self.shared.layout, records, &mut lane.bytes)?;
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks[part].push(block);
        Ok(())
    }

    fn lock_idle(&self) -> MutexGuard<'_, Vec<Lane<R>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The records in order, read once.
#[derive(Debug)]
pub(crate) struct Sorted<R> {
    shared: Arc<Shared>,
    partitions: Vec<Partition<R>>,
}

impl<R: Record> Sorted<R> {
    /// How many records there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.partitions.iter().map(Partition::count).sum()
    }

    /// Hands all records to `consume`, in order, in slices.
    pub(crate) fn for_each(
        self,
        consume: &mut dyn FnMut(&[R]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        ordered::for_each(&self.shared, self.partitions, consume)
    }
}
