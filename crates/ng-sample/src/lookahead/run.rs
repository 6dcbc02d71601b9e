//! A stretch of batches, planned, read and gathered: all there are, or as many as were sampled
//! before the topology made room for rows.

use std::sync::Arc;

use ng_io::trim_allocator;
use ng_simd::RowDecoder;
use ng_store::{ReadError, TensorRef};

use super::distribute::Regions;
use super::engine::Engine;
use super::gather::{GatherColumn, Gatherer, Source};
use super::pieces::{Piece, Sampled};
use super::planner::{Around, Planner};
use super::policy::{Reading, Table};
use super::prepare::Prepared;
use super::reader;
use super::slots::Slots;
use super::spill::Spill;
use super::state::{State, Wait};
use crate::SampleError;
use crate::buffer::Pool;

/// Batches that are sampled beyond those that a step needs, so that the next step finds them.
const SAMPLED_BEYOND: u64 = 3;

/// Batches that are written down at a time.
const SPILLED_TOGETHER: u64 = 8;

/// Where the samples of a stretch come from.
enum Feed {
    /// The sampling threads.
    Live,
    /// They have been sampled.
    Spilled(Spill),
}

/// The planner's view of the threads around it.
struct Threads<'a>(&'a Engine);

impl Around for Threads<'_> {
    fn emit(&mut self, piece: Piece) -> Result<(), SampleError> {
        let mut piece = Some(piece);
        let room = |state: &mut State| {
            if !state.has_room_for_pieces() {
                return None;
            }
            piece.take().map(|piece| state.add_piece(piece))
        };
        self.0.shared.wait_until(Wait::PlanForReader, room).ok_or(SampleError::ThreadLost)
    }

    fn wait_read(&mut self, step: u64) -> Result<(), SampleError> {
        let read = |state: &mut State| state.is_read_through(step).then_some(());
        self.0.shared.wait_until(Wait::PlanForReader, read).ok_or(SampleError::ThreadLost)
    }

    fn wait_gathered(&mut self, gathered: u64) -> Result<u64, SampleError> {
        let more = |state: &mut State| (state.gathered > gathered).then_some(state.gathered);
        self.0.shared.wait_until(Wait::PlanForSlots, more).ok_or(SampleError::ThreadLost)
    }
}

impl Engine {
    /// The planning thread's work, from the first job to the last.
    pub(super) fn prepare_and_run(&self) -> Result<(), SampleError> {
        let some = |state: &mut State| (state.ended || state.given() > 0).then_some(());
        if self.shared.wait_until(Wait::PlanForSamples, some).is_none() {
            return Ok(());
        }
        self.load_topology()?;
        let mut first = Vec::new();
        let Some(mut prepared) = self.prepare(&mut first)? else { return Ok(()) };
        // Set once, by this thread alone.
        let _ = self.chosen.set(prepared.chosen.clone());
        let chosen = &prepared.chosen;
        self.give_back(&mut first, chosen.sampled_first.unwrap_or(chosen.window + SAMPLED_BEYOND));
        let Some(longest) = chosen.sampled_first else {
            let gatherer = self.gatherer(&mut prepared)?;
            return self.stretch(&prepared, &gatherer, 0, Feed::Live, first).map(drop);
        };
        let (mut from, mut gatherer, mut regions) = (0, None, Regions::default());
        loop {
            let first = std::mem::take(&mut first);
            let Some(spill) = self.sample_first(from, longest, first)? else { return Ok(()) };
            let gatherer = match &mut gatherer {
                Some(gatherer) => &*gatherer,
                none => &*none.insert(self.gatherer(&mut prepared)?),
            };
            let end = match prepared.chosen.reading {
                Reading::Distribute => self.distribute(&prepared, gatherer, spill, &mut regions)?,
                _ => {
                    let feed = Feed::Spilled(spill);
                    self.stretch(&prepared, gatherer, from, feed, Vec::new())?
                }
            };
            let Some(end) = end else { return Ok(()) };
            from = end;
            let more = |state: &mut State| {
                (state.ended || state.given() > end).then_some(state.given() > end)
            };
            if self.shared.wait_until(Wait::PlanForSamples, more) != Some(true) {
                return Ok(());
            }
            self.load_topology_again(gatherer)?;
        }
    }

    /// The topology once more, for the next stretch: if need be in the memory of finished batches,
    /// and where even that is too small samples come through the store's caches.
    fn load_topology_again(&self, gatherer: &Gatherer) -> Result<(), SampleError> {
        let is_short =
            |error: &SampleError| matches!(error, SampleError::Read(ReadError::Budget(_)));
        match self.load_topology() {
            Err(error) if is_short(&error) => {}
            other => return other,
        }
        let taken = |state: &mut State| state.ready.is_empty().then_some(());
        if self.shared.wait_until(Wait::PlanForSlots, taken).is_none() {
            return Ok(());
        }
        gatherer.rest()?;
        match self.load_topology() {
            Err(error) if is_short(&error) => self.sample_from_disk(),
            other => other,
        }
    }

    /// Takes sampled batches in order until there are `count`, or no more are to be had.
    pub(super) fn take_sampled(&self, count: u64, take: &mut dyn FnMut(Sampled)) -> Option<u64> {
        self.take_sampled_before(count, count + SAMPLED_BEYOND, take)
    }

    /// The same; those from `end` on are not sampled yet.
    fn take_sampled_before(
        &self,
        count: u64,
        end: u64,
        take: &mut dyn FnMut(Sampled),
    ) -> Option<u64> {
        self.shared.wait_until(Wait::PlanForSamples, |state| {
            state.sample_until = state.sample_until.max(end.min(count + SAMPLED_BEYOND));
            while let Some(entry) = state.sampled.first_entry() {
                if *entry.key() != state.planned_input {
                    break;
                }
                state.planned_input += 1;
                take(entry.remove());
            }
            let all = state.jobs.is_empty() && state.planned_input == state.begun;
            let enough = state.planned_input >= count || (all && state.planned_input > 0);
            (enough || (all && state.ended)).then_some(state.planned_input)
        })
    }

    /// Drops batches that were sampled for the study alone; they are sampled again in their time.
    fn give_back(&self, first: &mut Vec<Sampled>, keep: u64) {
        let keep = (keep as usize).min(first.len());
        let again = first.split_off(keep);
        self.shared.change(|state| {
            state.planned_input = keep as u64;
            state.sample_until = keep as u64;
            state.again.extend(again.into_iter().map(|sampled| (sampled.index, sampled.job)));
        });
    }

    /// The first of two phases: samples the jobs that are known and frees what that took. `None` if
    /// everything stops.
    fn sample_first(
        &self,
        from: u64,
        longest: u64,
        first: Vec<Sampled>,
    ) -> Result<Option<Spill>, SampleError> {
        let mut spill = Spill::create(from, self.settings.spill_dir.as_deref(), self.snapshot())?;
        for sampled in first {
            spill.write(&sampled)?;
        }
        loop {
            // Once it is known how many may be sampled first, more are given.
            let end = self.shared.lock().given().min(from + longest);
            if spill.end() >= end {
                break;
            }
            let upto = (spill.end() + SPILLED_TOGETHER).min(end);
            let mut result = Ok(());
            let mut write = |sampled: Sampled| {
                if result.is_ok() {
                    result = spill.write(&sampled);
                }
            };
            if self.take_sampled_before(upto, end, &mut write).is_none() {
                return Ok(None);
            }
            result?;
        }
        self.set_sampler(self.given.clone());
        let goes_on = self.rest_samplers();
        // Samples were many small pieces; what the allocator kept of them is no room for rows.
        trim_allocator();
        Ok(goes_on.then_some(spill))
    }

    /// The gathering thread's work, with the buffers for what it makes.
    fn gatherer(&self, prepared: &mut Prepared) -> Result<Gatherer, SampleError> {
        let buffers = self.settings.buffers() as usize;
        let mut sources = Vec::new();
        for (index, table) in prepared.tables.iter().enumerate() {
            let each = table.pool_bytes as usize / buffers;
            let held = self.snapshot().reserve(table.pool_bytes);
            let pool = Pool::new(buffers, each, held.map_err(SampleError::from_budget)?);
            let pool = pool.map_err(|source| SampleError::NoMemory { bytes: each, source })?;
            sources.push((table.tensor, Source::Table(index, pool)));
        }
        let residents = prepared.residents.drain(..);
        sources.extend(residents.map(|(tensor, tensors)| (tensor, Source::Resident(tensors))));
        let columns = self.given.columns();
        let column = |(place, (tensor, decoder)): (usize, (TensorRef, Option<&RowDecoder>))| {
            let at = sources.iter().position(|(known, _)| *known == tensor);
            let source = at.map_or(Source::Store, |at| sources.swap_remove(at).1);
            let plain = columns.only(&[place]);
            GatherColumn { tensor, decoder: decoder.cloned(), source, plain }
        };
        Ok(Gatherer {
            snapshot: Arc::clone(self.snapshot()),
            columns: columns.tensors().enumerate().map(column).collect(),
            prefetch: self.settings.prefetch,
            stages: Arc::clone(self.sampler().stages()),
        })
    }

    /// Makes batches from `from` on; returns where it ends, `None` if everything stops.
    fn stretch(
        &self,
        prepared: &Prepared,
        gatherer: &Gatherer,
        from: u64,
        feed: Feed,
        first: Vec<Sampled>,
    ) -> Result<Option<u64>, SampleError> {
        let bytes = prepared.tables.iter().map(|table| table.slot_bytes(&prepared.chosen)).sum();
        let _held = self.snapshot().reserve(bytes).map_err(SampleError::from_budget)?;
        let (mut planner, slots) = self.planner(prepared, from)?;
        first.into_iter().for_each(|sampled| planner.push(sampled));
        self.shared.change(|state| state.stretch_end = None);
        let reading = prepared.chosen.reading;
        let mut end = None;
        std::thread::scope(|scope| {
            let stages = &gatherer.stages;
            let read = || reader::read(&self.shared, self.snapshot(), reading, &slots, stages);
            let gather = || gatherer.run(&self.shared, &slots);
            let named = |name: &str| std::thread::Builder::new().name(name.into());
            let started = named("ng-read")
                .spawn_scoped(scope, read)
                .and_then(|_| named("ng-gather").spawn_scoped(scope, gather))
                .map_err(|source| SampleError::NoThread { source });
            match started.and_then(|_| self.run(prepared, planner, from, feed)) {
                Ok(known) => {
                    end = known;
                    self.shared.change(|state| state.stretch_end = end);
                }
                Err(error) => self.shared.fail(error),
            }
        });
        Ok(end)
    }

    fn planner(
        &self,
        prepared: &Prepared,
        from: u64,
    ) -> Result<(Planner, Vec<Slots>), SampleError> {
        let reading = prepared.chosen.reading;
        let (mut tables, mut slots) = (Vec::new(), Vec::new());
        for table in &prepared.tables {
            let (count, width) = (table.slots, table.width as usize);
            let bytes = count * width;
            let memory = Slots::new(width, count);
            slots.push(memory.map_err(|source| SampleError::NoMemory { bytes, source })?);
            tables.push(Table::new(reading, table.tensor, table.rows as usize, count));
        }
        let snapshot = Arc::clone(self.snapshot());
        let (window, gap) = (prepared.chosen.window, prepared.costs.gap_blocks());
        // Who has waited for many batches to be sampled can wait for one pass; each doubling from
        // one batch on would be a pass of its own, again in every stretch.
        let sweep = prepared.chosen.sampled_first.map_or(1, |_| window);
        Ok((Planner::new(snapshot, reading, (window, sweep), gap, tables, from), slots))
    }

    /// Plans batch by batch; returns where the stretch ends, `None` if everything stops.
    fn run(
        &self,
        prepared: &Prepared,
        mut planner: Planner,
        from: u64,
        mut feed: Feed,
    ) -> Result<Option<u64>, SampleError> {
        let mut around = Threads(self);
        for (index, table) in prepared.tables.iter().enumerate() {
            planner.keep_hot(index, &table.hot, &mut around)?;
        }
        let mut t = from;
        loop {
            if !self.feed(&mut feed, &mut planner, t)? {
                return Ok(None);
            }
            if planner.available() <= t {
                if let Feed::Spilled(spill) = &feed {
                    return Ok(Some(spill.end()));
                }
                let more = |state: &mut State| {
                    let ended = state.ended && state.given() == t;
                    (ended || state.given() > t).then_some(ended)
                };
                match self.shared.wait_until(Wait::PlanForSamples, more) {
                    Some(false) => continue,
                    Some(true) => return Ok(Some(t)),
                    None => return Ok(None),
                }
            }
            let resolved = planner.step(t, &mut around)?;
            t += 1;
            self.shared.change(|state| {
                state.planned = t;
                state.resolved.push_back(resolved);
            });
        }
    }

    /// Gives the planner the samples that step `t` wants; false if everything stops.
    fn feed(&self, feed: &mut Feed, planner: &mut Planner, t: u64) -> Result<bool, SampleError> {
        let needs = planner.needs(t);
        match feed {
            Feed::Live => {
                let mut arrived = Vec::new();
                let taken = self.take_sampled(needs, &mut |sampled| arrived.push(sampled));
                arrived.into_iter().for_each(|sampled| planner.push(sampled));
                Ok(taken.is_some())
            }
            Feed::Spilled(spill) => {
                while planner.available() < needs.min(spill.end()) {
                    let index = planner.available();
                    planner.push(spill.read(index, |bytes| self.admit(index, bytes))?);
                }
                Ok(!self.shared.lock().closed)
            }
        }
    }
}
