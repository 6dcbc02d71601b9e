//! Sorting partitions on several threads and handing them over in order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::partition::Partition;
use super::record::Record;
use super::sorter::Shared;
use crate::ImportError;

/// Copies of an equal record that are handed over at once.
const REPEAT_LEN: usize = 4096;

struct Stage<R> {
    waiting: Vec<Option<Partition<R>>>,
    next: usize,
    consumed: usize,
    sorted: BTreeMap<usize, Batch<R>>,
    spares: Vec<Vec<R>>,
    workers: usize,
    stopped: bool,
    failure: Option<ImportError>,
}

enum Batch<R> {
    Sorted(Vec<R>),
    Repeat(Option<(R, u64)>),
}

struct Pipeline<'a, R> {
    shared: &'a Shared,
    stage: Mutex<Stage<R>>,
    changed: Condvar,
    ahead: usize,
}

/// Partitions that are sorted or being sorted while one is consumed.
pub(super) fn batches_in_flight(threads: usize) -> usize {
    threads + 1
}

pub(super) fn for_each<R: Record>(
    shared: &Shared,
    partitions: Vec<Partition<R>>,
    consume: &mut dyn FnMut(&[R]) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let total = partitions.len();
    let threads = shared.sizes.threads.min(total).max(1);
    let stage = Stage {
        waiting: partitions.into_iter().map(Some).collect(),
        next: 0,
        consumed: 0,
        sorted: BTreeMap::new(),
        spares: Vec::new(),
        workers: threads,
        stopped: false,
        failure: None,
    };
    let ahead = batches_in_flight(threads);
    let pipeline = Pipeline { shared, stage: Mutex::new(stage), changed: Condvar::new(), ahead };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| pipeline.work());
        }
        let result = (0..total).try_for_each(|index| pipeline.consume(index, consume));
        pipeline.lock().stopped = true;
        pipeline.changed.notify_all();
        result
    })
}

impl<R: Record> Pipeline<'_, R> {
    fn lock(&self) -> MutexGuard<'_, Stage<R>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, guard: MutexGuard<'g, Stage<R>>) -> MutexGuard<'g, Stage<R>> {
        self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let leaving = Leaving(self);
        if let Err(error) = self.sort_partitions() {
            self.lock().failure.get_or_insert(error);
        }
        drop(leaving);
    }

    fn sort_partitions(&self) -> Result<(), ImportError> {
        let (mut spare, mut bytes) = (Vec::new(), Vec::new());
        while let Some((index, partition, mut records)) = self.take() {
            let batch = if partition.single {
                Batch::Repeat(partition.into_single(self.shared)?)
            } else {
                partition.load(self.shared, &mut records, &mut spare, &mut bytes)?;
                Batch::Sorted(records)
            };
            self.lock().sorted.insert(index, batch);
            self.changed.notify_all();
        }
        Ok(())
    }

    fn take(&self) -> Option<(usize, Partition<R>, Vec<R>)> {
        let mut stage = self.lock();
        loop {
            let index = stage.next;
            if stage.stopped || stage.failure.is_some() || index >= stage.waiting.len() {
                return None;
            }
            if index < stage.consumed + self.ahead {
                stage.next += 1;
                let partition = stage.waiting[index].take()?;
                let records = stage.spares.pop().unwrap_or_default();
                return Some((index, partition, records));
            }
            stage = self.wait(stage);
        }
    }

    fn consume(
        &self,
        index: usize,
        consume: &mut dyn FnMut(&[R]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let mut stage = self.lock();
        let batch = loop {
            if let Some(error) = stage.failure.take() {
                return Err(error);
            }
            if let Some(batch) = stage.sorted.remove(&index) {
                break batch;
            }
            if stage.workers == 0 {
                return Err(ImportError::spec("a sorting thread stopped unexpectedly"));
            }
            stage = self.wait(stage);
        };
        drop(stage);
        let spare = match batch {
            Batch::Sorted(records) => {
                consume(&records)?;
                Some(records)
            }
            Batch::Repeat(repeated) => {
                repeated.map_or(Ok(()), |(record, count)| repeat(record, count, consume))?;
                None
            }
        };
        let mut stage = self.lock();
        stage.spares.extend(spare);
        stage.consumed = index + 1;
        drop(stage);
        self.changed.notify_all();
        Ok(())
    }
}

fn repeat<R: Record>(
    record: R,
    count: u64,
    consume: &mut dyn FnMut(&[R]) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let records = [record; 1].repeat(REPEAT_LEN);
    let mut left = count;
    while left > 0 {
        let now = left.min(REPEAT_LEN as u64);
        consume(&records[..now as usize])?;
        left -= now;
    }
    Ok(())
}

/// Tells the consumer that a worker has left, by a panic too.
struct Leaving<'a, 'b, R: Record>(&'a Pipeline<'b, R>);

impl<R: Record> Drop for Leaving<'_, '_, R> {
    fn drop(&mut self) {
        self.0.lock().workers -= 1;
        self.0.changed.notify_all();
    }
}
