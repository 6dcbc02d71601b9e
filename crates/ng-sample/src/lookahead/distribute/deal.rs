//! Dealing out the rows of a table: one pass over its file, part by part, and from each part every
//! row into the buffers of its batches, which go to the regions when they are full.
//!
//! One thread reads, one deals ([`super::dealer`]), some write, so that none waits for another's
//! work. The invariant: a thread that stops leaves the others nothing to wait for: every channel
//! ends with its last sender.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use ng_io::{AnonMap, ScratchFile, vec_in_huge_pages};
use ng_store::{Merge, Planned, RowPart, RowPlan};

use super::dealer::Dealer;
use super::memory::region_bytes;
use super::sizes::{PARTS, Sizes};
use super::{LookAhead, Place, Spill, Table};
use crate::SampleError;
use crate::buffer::region;

/// Threads that write.
const WRITERS: usize = 4;

/// Which batches want each cold row of a table.
pub(super) struct Deal {
    /// By row: where its batches end; they begin where those of the row before end.
    ends: Vec<u32>,
    batches: Vec<u16>,
    /// By batch: its cold rows.
    cold: Vec<u64>,
}

impl Deal {
    pub fn new(
        engine: &LookAhead,
        table: &mut Table,
        spill: &mut Spill,
    ) -> Result<Self, SampleError> {
        let mut last = table.uses.take_last();
        let counts = table.uses.counts();
        // A counting sort: `ends` first says where the batches of each row begin, and moves to
        // where they end as these are put down. Hot rows take no place.
        let mut ends: Vec<u32> = vec_in_huge_pages(0, counts.len());
        let mut sum = 0_u64;
        for (row, (count, end)) in counts.iter().zip(&mut ends).enumerate() {
            *end = sum as u32;
            sum += if table.hot.place(row as u64).is_none() { u64::from(*count) } else { 0 };
        }
        if sum > u64::from(u32::MAX) {
            let what = "the batches of one plan of look-ahead have too many rows for the reading \
                        \"distribute\"; use smaller batches";
            return Err(SampleError::Spec(what.into()));
        }
        let mut batches = vec_in_huge_pages(0, sum as usize);
        let mut cold = Vec::new();
        for index in spill.first()..spill.end() {
            let batch = (index - spill.first()) as u16;
            let sampled = engine.read_back(spill, index)?;
            let mut rows = 0;
            for row in sampled.rows(table.tensor.owner).iter() {
                let place = *row as usize;
                // A batch gets a row once, however many of its nodes share it.
                if last[place] == batch || table.hot.place(u64::from(*row)).is_some() {
                    continue;
                }
                last[place] = batch;
                batches[ends[place] as usize] = batch;
                ends[place] += 1;
                rows += 1;
            }
            cold.push(rows);
        }
        // Every place was taken, and none twice: else a row would go to a batch of another row.
        let placed: u64 = cold.iter().sum();
        assert_eq!(placed, sum, "the samples that were read back are not those that were counted");
        Ok(Self { ends, batches, cold })
    }

    /// Where the rows of each batch go, from `offset` on, and where the last of them end.
    pub fn regions(&self, mut offset: u64, width: u64) -> (Vec<Place>, u64) {
        let place = |rows: &u64| {
            let place = Place { offset, rows: *rows };
            offset += region_bytes(*rows, width);
            place
        };
        (self.cold.iter().map(place).collect(), offset)
    }

    pub fn batches_of(&self, row: usize) -> &[u16] {
        // Batches of ascending rows lie one behind the other without a gap.
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.batches[start as usize..self.ends[row] as usize]
    }
}

/// Rows that are read together.
pub(super) struct Part {
    pub number: u64,
    pub rows: Vec<u64>,
    plan: RowPlan,
    pub memory: Mutex<AnonMap>,
}

impl Planned for Part {
    fn plan(&self) -> &RowPlan {
        &self.plan
    }
}

/// A buffer on its way to the file.
pub(super) struct Piece {
    pub offset: u64,
    pub bytes: usize,
    pub memory: AnonMap,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LookAhead {
    /// Reads the rows of a table once: hot ones into memory, the others into the regions of their
    /// batches.
    pub(super) fn deal(
        &self,
        table: &mut Table,
        deal: &Deal,
        file: &ScratchFile,
        (sizes, gap_blocks): (Sizes, u32),
    ) -> Result<(), SampleError> {
        let (parts, dealt_parts) = channel();
        let (memory_back, memory) = channel();
        let (pieces, full) = channel();
        let (clean_back, clean) = channel();
        let full = Mutex::new(full);
        let each = sizes.part_rows(table.width) * table.width;
        for _ in 0..PARTS {
            // The receiver is here.
            let _ = memory_back.send(region(each as usize)?);
        }
        let mut hot = std::mem::replace(&mut table.memory, region(0)?);
        let dealt = &*table;
        std::thread::scope(|scope| {
            let full = &full;
            let hot = &mut hot;
            for _ in 0..WRITERS {
                let clean_back = clean_back.clone();
                let write = move || write_pieces(file, full, &clean_back);
                self.shared.start_in(scope, "ng-write", write)?;
            }
            drop(clean_back);
            let deal = move || {
                let piece_bytes = sizes.piece_bytes as usize;
                let dealer = Dealer { table: dealt, deal, piece_bytes, pieces, clean, made: 0 };
                dealer.run(&self.shared, &dealt_parts, &memory_back, hot)
            };
            self.shared.start_in(scope, "ng-deal", deal)?;
            self.read_parts(dealt, (sizes, gap_blocks), &parts, &memory).map(|()| drop(parts))
        })?;
        table.memory = hot;
        if self.shared.is_stopping() { Err(SampleError::Stopped) } else { Ok(()) }
    }

    /// Reads all rows that somebody wants, part by part, in the order of the file.
    fn read_parts(
        &self,
        table: &Table,
        (sizes, gap_blocks): (Sizes, u32),
        parts: &Sender<Arc<Part>>,
        memory: &Receiver<AnonMap>,
    ) -> Result<(), SampleError> {
        let (snapshot, width) = (self.snapshot(), table.width as usize);
        let wanted = table.uses.counts().iter().enumerate().filter(|(_, count)| **count > 0);
        let mut wanted = wanted.map(|(row, _)| row as u64).peekable();
        let (mut number, mut failure) = (0, None);
        while failure.is_none() && wanted.peek().is_some() && !self.shared.is_stopping() {
            // Whoever gives memory back has gone only if everything stops.
            let Ok(first) = memory.recv() else { return Ok(()) };
            // Waits for memory of one part only: while others are being read, `next` takes what is
            // there or lets the queue run, so that reading never stands still for dealing.
            let mut first = Some(first);
            let mut next = || {
                if failure.is_some() || wanted.peek().is_none() || self.shared.is_stopping() {
                    return None;
                }
                let memory = first.take().or_else(|| memory.try_recv().ok())?;
                let rows: Vec<u64> =
                    wanted.by_ref().take(sizes.part_rows(table.width) as usize).collect();
                let plan = snapshot.plan_rows(table.tensor, &rows, Merge::Gaps(gap_blocks));
                let plan = plan.map_err(|error| failure = Some(error)).ok()?;
                number += 1;
                let memory = Mutex::new(memory);
                Some(Arc::new(Part { number: number - 1, rows, plan, memory }))
            };
            let mut take = |part: &Part, rows: &mut [RowPart<'_>]| {
                let mut memory = lock(&part.memory);
                for RowPart { row, skip, bytes } in rows {
                    let at = *row * width + *skip;
                    memory.as_mut_slice()[at..at + bytes.len()].copy_from_slice(bytes);
                }
            };
            // The dealer has gone only if everything stops.
            let mut done = |part| drop(parts.send(part));
            snapshot.read_plans(&mut next, &mut take, &mut done)?;
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Writes pieces until there are no more.
fn write_pieces(
    file: &ScratchFile,
    full: &Mutex<Receiver<Piece>>,
    clean: &Sender<AnonMap>,
) -> Result<(), SampleError> {
    loop {
        let Ok(Piece { offset, bytes, memory }) = lock(full).recv() else { return Ok(()) };
        file.write_all_at(offset, &memory.as_slice()[..bytes])?;
        // Nobody waits for the last ones.
        let _ = clean.send(memory);
    }
}
