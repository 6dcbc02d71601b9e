//! A stretch of batches, planned, read and gathered: all there are, or as many as were sampled
//! before the topology made room for rows.

use ng_io::trim_allocator;
use ng_store::TensorRef;
use ng_types::Reservation;

use super::engine::LookAhead;
use super::memory::table_bytes;
use super::pieces::{Resolved, Sampled};
use super::planner::Planner;
use super::policy::{Reading, Table};
use super::prepare::{Prepared, PreparedTable};
use super::reader;
use super::spill::Spill;
use super::state::AheadState;
use crate::SampleError;
use crate::buffer::Pool;
use crate::clock::Wait;
use crate::pipeline::{Gatherer, Memory, Rows, Slots, Source};

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

impl LookAhead {
    /// The planning thread's work, from the first job to the last.
    pub fn run_planner(&self) -> Result<(), SampleError> {
        if self.shared.jobs.is_empty() {
            return Ok(());
        }
        self.load_topology()?;
        let mut first = Vec::new();
        let mut prepared = self.prepare(&mut first)?;
        // Set once, by this thread alone.
        let _ = self.chosen.set(prepared.chosen.clone());
        let chosen = &prepared.chosen;
        self.give_back(&mut first, chosen.sampled_first.unwrap_or(chosen.window + SAMPLED_BEYOND));
        let Some(longest) = chosen.sampled_first else {
            let gatherer = self.gatherer(&mut prepared)?;
            return self.stretch(&prepared, &gatherer, 0, Feed::Live, first).map(drop);
        };
        let mut spill = self.sample_first(0, longest, first)?;
        let gatherer = self.gatherer(&mut prepared)?;
        let (mut from, mut regions) = (0, None);
        loop {
            from = match prepared.chosen.reading {
                Reading::Distribute => {
                    self.distribute(&prepared, &gatherer, spill, &mut regions)?
                }
                _ => {
                    let feed = Feed::Spilled(spill);
                    self.stretch(&prepared, &gatherer, from, feed, Vec::new())?
                }
            };
            if from == self.shared.jobs.len() {
                return Ok(());
            }
            let more = |state: &mut AheadState| (self.known(state) > from).then_some(());
            self.shared.wait_until(Wait::PlanForSamples, more)?;
            self.load_topology_again(&gatherer)?;
            spill = self.sample_first(from, longest, Vec::new())?;
        }
    }

    /// The topology once more, for the next stretch: if need be in the memory of finished batches,
    /// and where even that is too small samples come through the store's caches.
    fn load_topology_again(&self, gatherer: &Gatherer) -> Result<(), SampleError> {
        match self.load_topology() {
            Err(error) if error.is_of_memory() => {}
            other => return other,
        }
        let taken = |state: &mut AheadState| state.ready.is_empty().then_some(());
        self.shared.wait_until(Wait::PlanForSlots, taken)?;
        gatherer.rest()?;
        match self.load_topology() {
            Err(error) if error.is_of_memory() => self.sample_from_disk(),
            other => other,
        }
    }

    /// Takes sampled batches in order until there are `count`, or no more are to be had. Those from
    /// `end` on are not sampled yet.
    pub(super) fn take_sampled(
        &self,
        count: u64,
        end: u64,
        take: &mut dyn FnMut(Sampled),
    ) -> Result<(), SampleError> {
        self.shared.wait_until(Wait::PlanForSamples, |state| {
            let known = self.known(state);
            let way = &mut state.way;
            way.sample_until = way.sample_until.max(end.min(count + SAMPLED_BEYOND));
            while let Some(entry) = way.sampled.first_entry() {
                if *entry.key() != way.planned_input {
                    break;
                }
                way.planned_input += 1;
                take(entry.remove());
            }
            let is_enough = way.planned_input >= count.min(self.shared.jobs.len());
            // More come when the consumer has taken some.
            let is_all = way.planned_input > 0 && way.planned_input == known;
            (is_enough || is_all).then_some(())
        })
    }

    /// Drops batches that were sampled for the study alone; they are sampled again in their time.
    fn give_back(&self, first: &mut Vec<Sampled>, keep: u64) {
        let keep = (keep as usize).min(first.len());
        let again = first.split_off(keep);
        self.shared.change(|state| {
            state.way.planned_input = keep as u64;
            state.way.sample_until = keep as u64;
            state.way.again.extend(again.into_iter().map(|sampled| sampled.index));
        });
    }

    /// The first of two phases: samples the jobs that are known and frees what that took.
    fn sample_first(
        &self,
        from: u64,
        longest: u64,
        first: Vec<Sampled>,
    ) -> Result<Spill, SampleError> {
        let mut spill = Spill::create(from, self.settings.spill_dir.as_deref(), self.snapshot())?;
        for sampled in first {
            spill.write(&sampled)?;
        }
        loop {
            // Once it is known how many may be sampled first, more are known.
            let end = self.known(&self.shared.lock()).min(from + longest);
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
            self.take_sampled(upto, end, &mut write)?;
            result?;
        }
        self.set_sampler(self.given.clone());
        self.rest_samplers()?;
        // Samples were many small pieces; what the allocator kept of them is no room for rows.
        trim_allocator();
        Ok(spill)
    }

    /// What gathers, with the buffers for what it makes.
    fn gatherer(&self, prepared: &mut Prepared) -> Result<Gatherer, SampleError> {
        let (buffers, snapshot) = (self.settings.buffers() as usize, self.snapshot());
        let (tables, residents) = (&prepared.tables, &mut prepared.residents);
        let mut source = |tensor: TensorRef| {
            if let Some(at) = residents.iter().position(|(known, _)| *known == tensor) {
                return Ok(Some(Source::Resident(residents.swap_remove(at).1)));
            }
            let Some(at) = tables.iter().position(|table| table.tensor == tensor) else {
                return Ok(None);
            };
            let bytes = tables[at].pool_bytes;
            let held = self.admit(bytes)?;
            Ok(Some(Source::Table(at, Pool::new(buffers, bytes as usize / buffers, held)?)))
        };
        Gatherer::new(snapshot, &self.shared.clock, self.given.columns(), &mut source)
    }

    /// Makes batches from `from` on; returns where it ends.
    fn stretch(
        &self,
        prepared: &Prepared,
        gatherer: &Gatherer,
        from: u64,
        feed: Feed,
        first: Vec<Sampled>,
    ) -> Result<u64, SampleError> {
        let reading = prepared.chosen.reading;
        let bytes = |table: &PreparedTable| {
            table_bytes(reading, (table.rows, table.width), table.slots as u64)
        };
        let _held = self.admit(prepared.tables.iter().map(bytes).sum())?;
        let (mut planner, slots) = self.planner(prepared, from)?;
        first.into_iter().for_each(|sampled| planner.push(sampled));
        self.shared.change(|state| state.way.stretch_end = None);
        std::thread::scope(|scope| {
            let read = || reader::read(&self.shared, self.snapshot(), reading, &slots);
            let gather = || self.gather_slots(gatherer, &slots);
            let started = self.shared.start_in(scope, "ng-read", read);
            let started = started.and_then(|()| self.shared.start_in(scope, "ng-gather", gather));
            let end = started.and_then(|()| self.run(prepared, planner, from, feed));
            // The other threads end by either.
            end.inspect(|end| self.shared.change(|state| state.way.stretch_end = Some(*end)))
                .map_err(|error| {
                    self.shared.fail(error);
                    SampleError::Stopped
                })
        })
    }

    /// The gathering thread's work, until the stretch ends.
    fn gather_slots(&self, gatherer: &Gatherer, slots: &[Slots]) -> Result<(), SampleError> {
        let next = |state: &mut AheadState| {
            if state.way.stretch_end == Some(state.way.gathered) {
                return Some(None);
            }
            let has_room = (state.ready.len() as u64) < self.shared.prefetch;
            if has_room { state.way.next_complete().map(Some) } else { None }
        };
        while let Some(resolved) = self.shared.wait_until(Wait::GatherForRows, next)? {
            let Resolved { sampled, slots: places, rows_read } = resolved;
            let rows = Rows { places: &places, memory: Memory::Slots(slots) };
            self.finish(gatherer, sampled, &rows, rows_read)?;
        }
        Ok(())
    }

    /// Makes a batch of its sample and the rows at hand, and hands it over.
    pub(super) fn finish(
        &self,
        gatherer: &Gatherer,
        sampled: Sampled,
        rows: &Rows<'_>,
        rows_read: u64,
    ) -> Result<(), SampleError> {
        let Sampled { index, sample, .. } = sampled;
        let batch = gatherer.gather(&self.shared, index, sample, rows, rows_read)?;
        self.shared.change(|state| {
            state.way.gathered += 1;
            state.ready.insert(index, Ok(batch));
        });
        Ok(())
    }

    fn planner(
        &self,
        prepared: &Prepared,
        from: u64,
    ) -> Result<(Planner<'_>, Vec<Slots>), SampleError> {
        let reading = prepared.chosen.reading;
        let (mut tables, mut slots) = (Vec::new(), Vec::new());
        for table in &prepared.tables {
            let (count, width) = (table.slots, table.width as usize);
            slots.push(Slots::new(width, count)?);
            tables.push(Table::new(reading, table.tensor, table.rows as usize, count));
        }
        let (window, gap) = (prepared.chosen.window, prepared.costs.gap_blocks());
        // Who has waited for many batches to be sampled can wait for one pass; each doubling from
        // one batch on would be a pass of its own, again in every stretch.
        let sweep = prepared.chosen.sampled_first.map_or(1, |_| window);
        let (shared, snapshot) = (&self.shared, self.snapshot());
        let windows = (window, sweep);
        Ok((Planner::new(shared, snapshot, reading, windows, gap, tables, from), slots))
    }

    /// Plans batch by batch; returns where the stretch ends.
    fn run(
        &self,
        prepared: &Prepared,
        mut planner: Planner<'_>,
        from: u64,
        mut feed: Feed,
    ) -> Result<u64, SampleError> {
        for (index, table) in prepared.tables.iter().enumerate() {
            planner.keep_hot(index, &table.hot)?;
        }
        let end = match &feed {
            Feed::Live => self.shared.jobs.len(),
            Feed::Spilled(spill) => spill.end(),
        };
        let mut t = from;
        while t < end {
            self.feed(&mut feed, &mut planner, t)?;
            if planner.available() <= t {
                let more = |state: &mut AheadState| (self.known(state) > t).then_some(());
                self.shared.wait_until(Wait::PlanForSamples, more)?;
                continue;
            }
            let resolved = planner.step(t)?;
            t += 1;
            self.shared.change(|state| state.way.resolved.push_back(resolved));
        }
        Ok(end)
    }

    /// Gives the planner the samples that step `t` wants.
    fn feed(&self, feed: &mut Feed, planner: &mut Planner<'_>, t: u64) -> Result<(), SampleError> {
        let needs = planner.needs(t);
        match feed {
            Feed::Live => self.take_sampled(needs, u64::MAX, &mut |sampled| planner.push(sampled)),
            Feed::Spilled(spill) => {
                while planner.available() < needs.min(spill.end()) {
                    planner.push(self.read_back(spill, planner.available())?);
                }
                Ok(())
            }
        }
    }

    /// Memory that was planned for the whole. Others may use it until their batch is over.
    pub(super) fn admit(&self, bytes: u64) -> Result<Reservation, SampleError> {
        self.shared.admit(self.snapshot(), 0, bytes)
    }

    /// A sample that was written down.
    pub(super) fn read_back(&self, spill: &mut Spill, index: u64) -> Result<Sampled, SampleError> {
        spill.read(index, |bytes| self.shared.admit(self.snapshot(), index, bytes))
    }
}
