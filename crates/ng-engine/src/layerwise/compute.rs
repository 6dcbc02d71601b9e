//! Running parts for many rows: what is computed of a chunk, of destinations before a scan, and the
//! tables of a block.
//!
//! The invariant: rows are computed some at a time, each of these runs on one thread, and results
//! go where they belong, so they are the same for any number of threads.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ng_infer::dfg::{Elements, Value};
use ng_infer::kernel::{Context, Data};
use ng_types::Dtype;
use rayon::prelude::*;

use super::chunk::Chunk;
use super::error::LayerwiseError;
use super::model::Model;
use super::part::{Given, Leaf, Part, f32s};
use super::passes::Scan;
use super::piece::Shared;
use super::plan::{ROWS_TOGETHER, STEPS_PER_THREAD};
use super::rows::slice;
use super::run::{Known, Runner};
use super::work::Work;

/// Gives a leaf for some rows.
type Give<'a, 'g> = dyn Fn(Leaf, Range<usize>) -> Result<Given<'g>, LayerwiseError> + Sync + 'a;

/// Rows of values for a step.
type Rows = Vec<(Value, Elements)>;

impl Runner<'_> {
    /// Computes what is gathered of a chunk that was read.
    pub fn views(&self, scan: &Scan, chunk: &mut Chunk) -> Result<(), LayerwiseError> {
        if scan.views.is_empty() {
            return Ok(());
        }
        let count = (chunk.rows.end - chunk.rows.start) as usize;
        let mut memory = Vec::with_capacity(scan.views.len());
        for value in &scan.views {
            memory.push(chunk.memory(*value, count * self.model.width(*value)));
        }
        let lent = |leaf, rows| self.of_chunk(chunk, leaf, rows);
        let found = self.compute(&scan.view, &scan.views, memory, count, &lent)?;
        chunk.values.extend(scan.views.iter().copied().zip(found));
        Ok(())
    }

    /// Computes what destinations of a block that are in a chunk add to their reductions.
    pub fn added(
        &self,
        shared: &Shared<'_>,
        block: &Range<u64>,
        chunk: &mut Chunk,
    ) -> Result<(), LayerwiseError> {
        let rows = block.start.max(chunk.rows.start)..block.end.min(chunk.rows.end);
        let part = &shared.scan.added;
        if part.graph.outputs().is_empty() || rows.is_empty() {
            return Ok(());
        }
        let first = (rows.start - chunk.rows.start) as usize;
        let count = (rows.end - rows.start) as usize;
        let sums: Vec<Value> = shared
            .reductions
            .iter()
            .filter_map(|reduced| reduced.added.map(|_| reduced.value))
            .collect();
        let memory = sums.iter().map(|value| vec![0.0; count * self.model.width(*value)]);
        let memory = memory.collect();
        let lent = |leaf, rows: Range<usize>| {
            self.of_chunk(chunk, leaf, first + rows.start..first + rows.end)
        };
        let found = self.compute(part, &sums, memory, count, &lent)?;
        for (value, elements) in sums.into_iter().zip(found) {
            if let Elements::F32(all) = elements {
                chunk.added.insert(value, (rows.start, all));
            }
        }
        Ok(())
    }

    fn of_chunk<'a>(
        &self,
        chunk: &'a Chunk,
        leaf: Leaf,
        rows: Range<usize>,
    ) -> Result<Given<'a>, LayerwiseError> {
        Ok(match leaf {
            Leaf::Own(value) => {
                let dims = self.dims(value, rows.len());
                Given::lent(dims, slice(chunk.elements(value), self.model.width(value), rows))
            }
            Leaf::Lengths(value) => Given::numbers(self.model.lengths(value, rows.len())),
            _ => Given::numbers(Vec::new()),
        })
    }

    fn dims(&self, value: Value, count: usize) -> Vec<usize> {
        self.model.lengths(value, count).iter().map(|n| *n as usize).collect()
    }

    /// Computes the rows of destinations that messages take.
    pub fn beside(
        &self,
        work: &Work,
        scan: &Scan,
        rows: &Range<u64>,
        known: &mut Known,
    ) -> Result<(), LayerwiseError> {
        if scan.beside.is_empty() {
            return Ok(());
        }
        let count = (rows.end - rows.start) as usize;
        let memory = scan.beside.iter().map(|value| vec![0.0; count * self.model.width(*value)]);
        let memory = memory.collect();
        let give = |leaf, some: Range<usize>| match leaf {
            Leaf::Own(value) => match self.known(known, value, some.clone()) {
                Some(given) => Ok(given),
                None => {
                    let from = rows.start + some.start as u64;
                    let to = rows.start + some.end as u64;
                    let stored = &self.model.stored[&value];
                    let all = stored.read(&self.model.snapshot, work, from..to)?;
                    Ok(Given::own(self.dims(value, some.len()), all))
                }
            },
            Leaf::Lengths(value) => Ok(Given::numbers(self.model.lengths(value, some.len()))),
            _ => Ok(Given::numbers(Vec::new())),
        };
        let found = self.compute(&scan.before, &scan.beside, memory, count, &give)?;
        known.beside.extend(scan.beside.iter().copied().zip(found));
        Ok(())
    }

    /// Rows of a value that are at hand, by their places in the block.
    fn known<'a>(&self, known: &'a Known, value: Value, rows: Range<usize>) -> Option<Given<'a>> {
        let (dims, width) = (self.dims(value, rows.len()), self.model.width(value));
        if let Some(sums) = known.reduced.get(&value) {
            let all = &sums.elements()[rows.start * width..rows.end * width];
            return Some(Given::lent(dims, Data::F32(all)));
        }
        known.beside.get(&value).map(|all| Given::lent(dims, slice(all, width, rows)))
    }

    /// Runs a part for `count` rows. `memory` has room for the rows of each of `values`, which are
    /// what the part gives.
    fn compute(
        &self,
        part: &Part,
        values: &[Value],
        mut memory: Vec<Vec<f32>>,
        count: usize,
        give: &Give<'_, '_>,
    ) -> Result<Vec<Elements>, LayerwiseError> {
        let levels = &self.model.passes.levels;
        if values.iter().any(|value| levels.type_of(*value).dtype != Dtype::F32) {
            // Numbers of kinds and the like: narrow and rare.
            let given = given(part, 0..count, give)?;
            let found = part.run(&Context::default(), &given)?.to_constants();
            return Ok(found.iter().map(|tensor| tensor.elements().clone()).collect());
        }
        let together = ROWS_TOGETHER as usize;
        let firsts = (0..count).step_by(together);
        let mut jobs: Vec<(Range<usize>, Vec<&mut [f32]>)> =
            firsts.map(|first| (first..count.min(first + together), Vec::new())).collect();
        for (value, memory) in values.iter().zip(&mut memory) {
            let width = self.model.width(*value);
            for (job, out) in jobs.iter_mut().zip(memory.chunks_mut((together * width).max(1))) {
                job.1.push(out);
            }
        }
        let run = |(rows, outs): &mut (Range<usize>, Vec<&mut [f32]>)| {
            let given = given(part, rows.clone(), give)?;
            let answer = part.run(&Context::default(), &given)?;
            for (place, out) in outs.iter_mut().enumerate() {
                out.copy_from_slice(f32s(&answer, place));
            }
            Ok::<(), LayerwiseError>(())
        };
        match self.context.pool() {
            None => jobs.iter_mut().try_for_each(run)?,
            Some(pool) => pool.install(|| jobs.par_iter_mut().try_for_each(run))?,
        }
        Ok(memory.into_iter().map(Elements::F32).collect())
    }

    /// Computes the tables of a pass for a block, and writes them. While some rows are computed,
    /// the next ones are read, and those before are written.
    pub fn finish(
        &self,
        work: &Work,
        at: usize,
        rows: Range<u64>,
        known: &Known,
        tell: &mut dyn FnMut(f64) -> bool,
    ) -> Result<bool, LayerwiseError> {
        let part = &self.model.passes.passes[at].finish;
        let own = part.leaves.iter().filter_map(|(_, leaf)| match leaf {
            Leaf::Own(value) if self.known(known, *value, 0..0).is_none() => Some(*value),
            _ => None,
        });
        let own: Vec<Value> = own.collect();
        let step = ROWS_TOGETHER * (self.context.threads() * STEPS_PER_THREAD) as u64;
        let steps = |rows: &Range<u64>| {
            let end = rows.end;
            (rows.start..end).step_by(step as usize).map(move |from| from..end.min(from + step))
        };
        std::thread::scope(|scope| {
            let (give, take) = sync_channel::<Result<Rows, LayerwiseError>>(0);
            let (model, reads) = (self.model, steps(&rows));
            scope.spawn(move || read_own(model, work, &own, reads, &give));
            let (write, written) = sync_channel(1);
            let writer = scope.spawn(move || write_tables(work, at, &written));
            let done = self.steps(at, &rows, known, steps(&rows), &take, &write, tell);
            // The reader ends once nobody takes rows, the writer once nobody has more.
            drop((take, write));
            let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written.and(done)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "between a reader and a writer")]
    fn steps(
        &self,
        at: usize,
        block: &Range<u64>,
        known: &Known,
        steps: impl Iterator<Item = Range<u64>>,
        take: &Receiver<Result<Rows, LayerwiseError>>,
        write: &SyncSender<(u64, Vec<Vec<f32>>)>,
        tell: &mut dyn FnMut(f64) -> bool,
    ) -> Result<bool, LayerwiseError> {
        let pass = &self.model.passes.passes[at];
        for rows in steps {
            let Ok(read) = take.recv() else { return Ok(false) };
            let read = read?;
            let count = (rows.end - rows.start) as usize;
            let first = (rows.start - block.start) as usize;
            let give = |leaf, some: Range<usize>| match leaf {
                Leaf::Own(value) => {
                    let in_block = first + some.start..first + some.end;
                    let found = read.iter().find(|(of, _)| *of == value);
                    let given = found.map(|(_, all)| {
                        let dims = self.dims(value, some.len());
                        Given::lent(dims, slice(all, self.model.width(value), some))
                    });
                    let given = given.or_else(|| self.known(known, value, in_block));
                    Ok(given.unwrap_or_else(|| Given::numbers(Vec::new())))
                }
                Leaf::Lengths(value) => Ok(Given::numbers(self.model.lengths(value, some.len()))),
                _ => Ok(Given::numbers(Vec::new())),
            };
            let width = |value: &Value| vec![0.0; count * self.model.width(*value)];
            let memory = pass.targets.iter().map(width).collect();
            let found = self.compute(&pass.finish, &pass.targets, memory, count, &give)?;
            let tables = found.into_iter().map(|elements| match elements {
                Elements::F32(all) => all,
                _ => Vec::new(),
            });
            if write.send((rows.start, tables.collect())).is_err() {
                // It ended with an error, which the caller finds.
                return Ok(false);
            }
            if !tell((rows.end - block.start) as f64 / (block.end - block.start) as f64) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn given<'g>(
    part: &Part,
    rows: Range<usize>,
    give: &Give<'_, 'g>,
) -> Result<Vec<Given<'g>>, LayerwiseError> {
    part.leaves.iter().map(|(_, leaf)| give(*leaf, rows.clone())).collect()
}

/// Reads the rows that a block computes with, step by step.
fn read_own(
    model: &Model,
    work: &Work,
    values: &[Value],
    steps: impl Iterator<Item = Range<u64>>,
    give: &SyncSender<Result<Rows, LayerwiseError>>,
) {
    for rows in steps {
        let read = |value: &Value| {
            let stored = &model.stored[value];
            Ok((*value, stored.read(&model.snapshot, work, rows.clone())?))
        };
        let found: Result<Rows, LayerwiseError> = values.iter().map(read).collect();
        let is_last = found.is_err();
        if give.send(found).is_err() || is_last {
            return;
        }
    }
}

/// Writes rows of a pass's tables.
fn write_tables(
    work: &Work,
    at: usize,
    steps: &Receiver<(u64, Vec<Vec<f32>>)>,
) -> Result<(), LayerwiseError> {
    for (first, tables) in steps {
        for (place, all) in tables.iter().enumerate() {
            work.write_rows(&Model::table(at, place), first, all)?;
        }
    }
    Ok(())
}
