//! The planning thread's work, from the first batch to the last.

use std::collections::VecDeque;

use ng_io::trim_allocator;
use ng_store::TensorRef;
use ng_types::Reservation;

use super::engine::LookAhead;
use super::known::{Known, TRIED_MIN};
use super::memory::{Layout, distribution};
use super::pieces::Sampled;
use super::policy::Reading;
use super::prepare::Prepared;
use super::spill::Spill;
use super::state::{Ahead, AheadState, Kept};
use super::stretch::End;
use crate::SampleError;
use crate::buffer::Pool;
use crate::clock::Wait;
use crate::pipeline::{Gatherer, Rows, Source};

/// Batches that are sampled beyond those that a step needs, so that the next step finds them.
const SAMPLED_BEYOND: u64 = 3;

/// Batches that are sampled from disk, because they are needed before the topology is in memory.
const SAMPLED_FROM_DISK: u64 = 2;

/// Batches that are written down at a time.
const SPILLED_TOGETHER: u64 = 8;

impl LookAhead {
    /// The planning thread's work, from the first job to the last.
    pub fn run_planner(&self) -> Result<(), SampleError> {
        if self.shared.jobs.is_empty() {
            return Ok(());
        }
        // The first batches do not wait for the topology.
        self.sample_from_disk()?;
        let waits = self.topology_that_fits() > 0 && self.settings.reading != Reading::Distribute;
        self.shared.change(|state| {
            state.way.sample_before = waits.then_some(SAMPLED_FROM_DISK);
            state.way.topology_comes = waits;
        });
        let mut rest = Vec::new();
        let (mut prepared, studies) = self.prepare(&mut rest)?;
        let mut known = Known::new(studies);
        let mut layout = if self.settings.reading == Reading::Distribute {
            self.study_to_distribute(&prepared, &mut known, &mut rest)?
        } else {
            self.first_layout(&mut prepared, &known.studies)?
        };
        let is_scan = layout.chosen.reading == Reading::Scan;
        prepared.scan = is_scan.then(|| layout.clone());
        self.in_force.begin(layout.chosen.clone());
        let gatherer = self.gatherer(&mut prepared)?;
        let mut from = 0;
        while from < self.shared.jobs.len() {
            let end = if layout.chosen.reading == Reading::Distribute {
                self.distribute_all(&prepared, &layout, &gatherer, (from, rest), &mut known)?
            } else {
                self.stretch(&prepared, &layout, &gatherer, (from, rest), &mut known)?
            };
            (from, rest) = (end.at, end.rest);
            layout = end.next.unwrap_or(layout);
        }
        Ok(())
    }

    /// Takes sampled batches in order until there are `count`, or no more are to be had: `least`
    /// are enough where more would not fit the memory. Those from `end` on are not sampled yet.
    pub(super) fn take_sampled(
        &self,
        (least, count): (u64, u64),
        end: u64,
        take: &mut dyn FnMut(Sampled),
    ) -> Result<(), SampleError> {
        loop {
            let (taken, is_all) = self.shared.wait_until(Wait::PlanForSamples, |state| {
                let (known, is_starved) = (self.known(state), state.is_starved());
                let way = &mut state.way;
                way.sample_until = way.sample_until.max(end.min(count + SAMPLED_BEYOND));
                let taken = take_up_to(way, count);
                let wanted = if is_starved { least } else { count };
                let is_enough = way.planned_input >= wanted.min(self.shared.jobs.len());
                // More come when the consumer has taken some, or the topology is back.
                let known = way.sampled_in_time(known);
                let is_all = is_enough || way.planned_input > 0 && way.planned_input >= known;
                (is_all || !taken.is_empty()).then_some((taken, is_all))
            })?;
            self.hand_on(taken, take)?;
            if is_all {
                return Ok(());
            }
        }
    }

    /// Takes sampled batches in order that are there, until there are `count`.
    pub(super) fn take_what_is_sampled(
        &self,
        count: u64,
        take: &mut dyn FnMut(Sampled),
    ) -> Result<(), SampleError> {
        let taken = self.shared.change(|state| {
            let way = &mut state.way;
            way.sample_until = way.sample_until.max(count + SAMPLED_BEYOND);
            take_up_to(way, count)
        });
        self.hand_on(taken, take)
    }

    fn hand_on(
        &self,
        taken: Vec<(u64, Kept)>,
        take: &mut dyn FnMut(Sampled),
    ) -> Result<(), SampleError> {
        for (index, kept) in taken {
            take(match kept {
                Kept::Memory(sampled) => *sampled,
                Kept::Spilled => self.unspill(index)?,
            });
        }
        Ok(())
    }

    /// Writes a sample down, for the stretch that is sampled ahead.
    pub(super) fn spill(&self, sampled: &Sampled) -> Result<(), SampleError> {
        let mut spills = self.spills();
        let Some(spill) = spills.last_mut() else { return Err(SampleError::ThreadLost) };
        spill.write(sampled)?;
        Ok(())
    }

    /// Reads a sample back; files of which all samples were read go.
    fn unspill(&self, index: u64) -> Result<Sampled, SampleError> {
        let held = {
            let mut spills = self.spills();
            // Samples are read in order, and a file begins where the one before it was complete.
            while spills.len() > 1 && !spills[0].has(index) {
                spills.remove(0);
            }
            spills.first().map_or(0, |spill| spill.num_bytes(index))
        };
        // Memory is waited for without the lock: others who hold memory wait for the lock.
        let held = self.admit_read_back(held)?;
        let mut spills = self.spills();
        let Some(spill) = spills.first_mut() else { return Err(SampleError::ThreadLost) };
        let sampled = spill.read(index, |_| Ok(held))?;
        let is_last = spills.len() == 1 && spills[0].ends_with(index);
        if is_last && self.shared.lock().way.spill_from.is_none() {
            spills.clear();
        }
        Ok(sampled)
    }

    // Distribution.

    /// Samples the first batches, to know which rows most of them have.
    fn study_to_distribute(
        &self,
        prepared: &Prepared,
        known: &mut Known,
        first: &mut Vec<Sampled>,
    ) -> Result<Layout, SampleError> {
        self.load_topology_if_it_fits(prepared)?;
        self.take_sampled((1, prepared.studied()), u64::MAX, &mut |sampled| {
            known.add(&sampled);
            first.push(sampled);
        })?;
        let mut room = self.room(prepared, &known.studies);
        room.bytes += prepared.topology_bytes;
        let layout = match distribution(&room) {
            Some(layout) => layout,
            None => self.lay_out(&room)?,
        };
        known.is_decided = true;
        self.put_in_force(prepared, known, layout.chosen.clone(), Vec::new())?;
        Ok(layout)
    }

    /// Makes the batches from `from` on by distributing rows, stretch after stretch; `rest` was
    /// sampled already. Ends where another way is better.
    fn distribute_all(
        &self,
        prepared: &Prepared,
        layout: &Layout,
        gatherer: &Gatherer,
        (mut from, mut rest): (u64, Vec<Sampled>),
        known: &mut Known,
    ) -> Result<End, SampleError> {
        let (mut regions, mut is_tried) = (None, false);
        let end = self.shared.jobs.len();
        loop {
            self.load_topology_again(prepared, gatherer)?;
            let may_change = self.settings.reading == Reading::Auto && end - from >= TRIED_MIN;
            if is_tried
                && may_change
                && let Some(decision) = self.decide_and_tell(prepared, layout, known, from)?
            {
                return Ok(End { at: from, rest, next: decision.other });
            }
            is_tried = true;
            self.begin_trial(known, from);
            self.watch(known, from);
            let longest = layout.chosen.window;
            let spill = self.sample_first(from, longest, &mut rest)?;
            from = self.distribute(prepared, layout, gatherer, spill, &mut regions)?;
            self.end_trial(known, from);
            if from == end {
                return Ok(End { at: from, rest, next: None });
            }
            let more = |state: &mut AheadState| (self.known(state) > from).then_some(());
            self.shared.wait_until(Wait::PlanForSamples, more)?;
        }
    }

    fn load_topology_if_it_fits(&self, prepared: &Prepared) -> Result<(), SampleError> {
        if prepared.topology_bytes > 0 { self.load_topology() } else { Ok(()) }
    }

    /// The topology, for the next stretch: if need be in the memory of finished batches, and where
    /// even that is too small samples come through the store's caches.
    fn load_topology_again(
        &self,
        prepared: &Prepared,
        gatherer: &Gatherer,
    ) -> Result<(), SampleError> {
        if self.sampler().topology_bytes() > 0 {
            return Ok(());
        }
        match self.load_topology_if_it_fits(prepared) {
            Err(error) if error.is_of_memory() => {}
            other => return other,
        }
        let taken = |state: &mut AheadState| state.ready.is_empty().then_some(());
        self.shared.wait_until(Wait::PlanForSlots, taken)?;
        gatherer.rest()?;
        match self.load_topology_if_it_fits(prepared) {
            Err(error) if error.is_of_memory() => self.sample_from_disk(),
            other => other,
        }
    }

    /// Samples the jobs that are known, `longest` at most, and frees what that took. `rest` are the
    /// first of them; what of it is too many for a stretch stays.
    fn sample_first(
        &self,
        from: u64,
        longest: u64,
        rest: &mut Vec<Sampled>,
    ) -> Result<Spill, SampleError> {
        let mut spill = Spill::create(from, self.settings.spill_dir.as_deref(), self.snapshot())?;
        let mut waiting: VecDeque<Sampled> = rest.drain(..).collect();
        let mut result = Ok(());
        loop {
            while spill.end() < from + longest
                && let Some(sampled) = waiting.pop_front()
            {
                spill.write(&sampled)?;
            }
            let end = self.known(&self.shared.lock()).min(from + longest);
            if spill.end() >= end {
                break;
            }
            let least = spill.end() + 1;
            let upto = (spill.end() + SPILLED_TOGETHER).min(end);
            let mut write = |sampled: Sampled| {
                if result.is_ok() && sampled.index < end {
                    result = spill.write(&sampled);
                } else {
                    waiting.push_back(sampled);
                }
            };
            self.take_sampled((least, upto), end, &mut write)?;
            std::mem::replace(&mut result, Ok(()))?;
        }
        rest.extend(waiting);
        self.drop_topology()?;
        Ok(spill)
    }

    /// Frees the topology, and what sampling took beside it.
    pub(super) fn drop_topology(&self) -> Result<(), SampleError> {
        self.sample_from_disk()?;
        self.rest_samplers()?;
        // Samples were many small pieces; what the allocator kept of them is no room for rows.
        trim_allocator();
        Ok(())
    }

    // What all ways need.

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

    /// Memory that was planned for the whole. Others may use it until their batch is over.
    pub(super) fn admit(&self, bytes: u64) -> Result<Reservation, SampleError> {
        self.shared.admit(self.snapshot(), 0, bytes)
    }

    /// Memory for a sample that was written down: batches give it back as long as the consumer gets
    /// any.
    fn admit_read_back(&self, bytes: u64) -> Result<Reservation, SampleError> {
        self.shared.admit_until(self.snapshot(), bytes, AheadState::is_idle)
    }

    /// A sample that was written down.
    pub(super) fn read_back(&self, spill: &mut Spill, index: u64) -> Result<Sampled, SampleError> {
        spill.read(index, |bytes| self.admit_read_back(bytes))
    }
}

/// Sampled batches in order, until `count` of them have been taken in all.
fn take_up_to(way: &mut Ahead, count: u64) -> Vec<(u64, Kept)> {
    let next = || if way.planned_input < count { way.take_next() } else { None };
    std::iter::from_fn(next).collect()
}
