//! A stretch of batches, planned, read and gathered with the same slots.

use std::thread::Scope;

use ng_types::Reservation;

use super::engine::LookAhead;
use super::known::Known;
use super::memory::{Layout, longest_scan, table_bytes};
use super::pieces::{Resolved, Sampled};
use super::planner::Planner;
use super::policy::{Reading, Table};
use super::prepare::Prepared;
use super::reader;
use super::spill::Spill;
use super::state::AheadState;
use crate::SampleError;
use crate::clock::Wait;
use crate::pipeline::{Gatherer, Memory, Rows, Slots};

/// Batches that are planned at most before it is decided how the others are read.
const UNDECIDED_MAX: u64 = 8;

/// Where a stretch ended.
pub(super) struct End {
    pub at: u64,
    /// Batches that were sampled and not planned.
    pub rest: Vec<Sampled>,
    /// How the next stretch reads; `None` if there is none.
    pub next: Option<Layout>,
}

/// Where the lists are that batches are sampled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lists {
    /// In memory, or on disk if they do not fit. Batches are sampled as they are needed.
    Needed,
    /// In memory, or on the way there. Batches are sampled to disk up to `end`.
    Ahead { end: u64 },
    /// Not in memory, which is slots now: batches before `end` are sampled.
    Gone { end: u64 },
    /// The slots get their memory back first.
    Leaving { end: u64 },
}

/// The slots of a stretch, and what pays for them.
struct Memories<'a> {
    slots: &'a [Slots],
    /// Of the slots that come and go with the topology.
    grown: Option<Reservation>,
    grown_bytes: u64,
    window: u64,
    grown_window: u64,
    /// Batches that are sampled ahead at a time.
    longest: u64,
}

impl LookAhead {
    /// Makes batches from `from` on, with those that were sampled already.
    pub(super) fn stretch(
        &self,
        prepared: &Prepared,
        layout: &Layout,
        gatherer: &Gatherer,
        (from, rest): (u64, Vec<Sampled>),
        known: &mut Known,
    ) -> Result<End, SampleError> {
        let (all_bytes, grown_bytes) = slot_bytes(prepared, layout);
        let _held = self.admit(all_bytes - grown_bytes)?;
        let (mut planner, slots) = self.planner(prepared, layout, from)?;
        rest.into_iter().for_each(|sampled| planner.push(sampled));
        self.shared.change(|state| state.way.stretch_end = None);
        let memories = Memories {
            slots: &slots,
            grown: None,
            grown_bytes,
            window: layout.chosen.window,
            grown_window: layout.chosen.window,
            longest: 0,
        };
        std::thread::scope(|scope| {
            let read =
                || reader::read(&self.shared, self.snapshot(), layout.chosen.reading, &slots);
            let gather = || self.gather_slots(gatherer, &slots);
            let started = self.shared.start_in(scope, "ng-read", read);
            let started = started.and_then(|()| self.shared.start_in(scope, "ng-gather", gather));
            let end = started.and_then(|()| {
                let run = || self.run(scope, (prepared, layout), planner, known, memories);
                self.shared.watch(run)
            });
            // The other threads end by either.
            end.inspect(|end| self.shared.change(|state| state.way.stretch_end = Some(end.at)))
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

    fn planner(
        &self,
        prepared: &Prepared,
        layout: &Layout,
        from: u64,
    ) -> Result<(Planner<'_>, Vec<Slots>), SampleError> {
        let reading = layout.chosen.reading;
        let (mut tables, mut slots) = (Vec::new(), Vec::new());
        for (table, (count, grown)) in
            prepared.tables.iter().zip(layout.slots.iter().zip(&layout.grown))
        {
            slots.push(Slots::new(table.width as usize, *grown)?);
            tables.push(Table::new(reading, table.tensor, table.rows as usize, (*grown, *count)));
        }
        let (gap, snapshot) = (prepared.costs.gap_blocks(), self.snapshot());
        let planner = Planner::new(&self.shared, snapshot, reading, gap, tables, from);
        Ok((planner, slots))
    }

    /// Plans batch by batch, until there are no more or another layout is better.
    fn run<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        (prepared, layout): (&Prepared, &Layout),
        mut planner: Planner<'_>,
        known: &mut Known,
        mut memories: Memories<'_>,
    ) -> Result<End, SampleError> {
        let end = self.shared.jobs.len();
        let from = planner.first();
        let mut t = from;
        let mut lists = Lists::Needed;
        if known.is_decided {
            planner.set_window(layout.chosen.window);
        } else if prepared.topology_bytes > 0 {
            let bring = move || self.bring_topology(1, None);
            self.shared.start_in(scope, "ng-topology", bring)?;
        }
        while t < end {
            self.watch(known, t);
            let is_time = if known.is_decided {
                lists == Lists::Needed && known.is_due(t, end) && self.has_topology(prepared)
            } else {
                let is_late = t - from >= UNDECIDED_MAX;
                self.study(known, layout, &mut planner, (prepared.studied(), is_late))?
            };
            if is_time {
                let how = (prepared, layout);
                let next = self.decide_now(how, known, &mut planner, &mut memories, t)?;
                if let Some(next) = next {
                    return Ok(End { at: t, rest: planner.into_rest(), next: Some(next) });
                }
                if memories.longest > 0 {
                    lists = self.sample_ahead(memories.longest)?;
                }
            }
            let how = (prepared, layout);
            lists = self.turn(scope, (lists, t), how, &mut planner, (known, &mut memories))?;
            self.feed(&mut planner, t, known)?;
            if planner.available() <= t {
                if matches!(lists, Lists::Gone { end } | Lists::Leaving { end } if end <= t) {
                    // The topology comes back once the slots are free.
                    planner.wait_for_all()?;
                    continue;
                }
                let more = |state: &mut AheadState| (self.known(state) > t).then_some(());
                self.shared.wait_until(Wait::PlanForSamples, more)?;
                continue;
            }
            let resolved = planner.step(t)?;
            t += 1;
            self.shared.change(|state| {
                state.way.resolved.push_back(resolved);
                state.way.planned = t;
            });
        }
        if !known.is_decided {
            // Nothing follows from it any more.
            self.in_force.decide(self.decide(prepared, layout, known, t).chosen);
        }
        Ok(End { at: end, rest: Vec::new(), next: None })
    }

    /// Whether the topology is where it is sampled from, and not on its way there.
    fn has_topology(&self, prepared: &Prepared) -> bool {
        prepared.topology_bytes == 0 || !self.shared.lock().way.topology_comes
    }

    /// Gives the planner the samples that step `t` needs.
    fn feed(
        &self,
        planner: &mut Planner<'_>,
        t: u64,
        known: &mut Known,
    ) -> Result<(), SampleError> {
        let needs = planner.needs(t);
        if planner.available() >= needs {
            return Ok(());
        }
        self.take_sampled((t + 1, needs), u64::MAX, &mut |sampled| {
            if !known.is_decided {
                known.add(&sampled);
            }
            planner.push(sampled);
        })
    }

    /// Studies what was sampled meanwhile; whether that is enough, or all that there is or that has
    /// room. It waits for samples if the next step would have to wait anyway, or if the decision is
    /// late.
    fn study(
        &self,
        known: &mut Known,
        layout: &Layout,
        planner: &mut Planner<'_>,
        (count, is_late): (u64, bool),
    ) -> Result<bool, SampleError> {
        let mut is_enough = false;
        while !is_enough {
            let mut add = |sampled| {
                known.add(&sampled);
                planner.push(sampled);
            };
            self.take_what_is_sampled(count, &mut add)?;
            is_enough = planner.available() >= count.min(self.shared.jobs.len());
            if is_enough || !(planner.has_to_wait() || is_late) {
                break;
            }
            let gathered = if is_late { u64::MAX } else { planner.first() };
            is_enough = self.shared.wait_until(Wait::PlanForSamples, |state| {
                let known = self.known(state).min(count);
                let all = state.way.planned_input >= known || state.is_starved();
                let more = state.way.gathered > gathered || state.way.has_next();
                (all || more).then_some(all)
            })?;
            planner.look_for_gathered();
        }
        // It may look ahead as far as there are samples.
        let samples = planner.available() - planner.first();
        let window = if layout.chosen.reading == Reading::Scan {
            let longest = self.settings.window.unwrap_or(u64::MAX).min(samples.div_ceil(2));
            longest_scan(&known.studies, &layout.slots, longest)
        } else {
            layout.chosen.window.min(samples)
        };
        planner.set_window(window);
        Ok(is_enough && (is_late || self.consumer_is_known(planner)?))
    }

    /// Whether the consumer's pace is known, or a decision is wanted without it. Where the next
    /// step has to wait for the consumer anyway, this waits for its pace.
    fn consumer_is_known(&self, planner: &mut Planner<'_>) -> Result<bool, SampleError> {
        let (first, planned) = (planner.first(), planner.planned());
        let must_wait = planner.has_to_wait();
        let is_known = self.shared.wait_until(Wait::PlanForSlots, |state| {
            let is_known = state.pace.seconds().is_some() || state.is_asked;
            // A step may wait for all batches before it. While nobody takes any, that has no end.
            let is_taken = state.delivered > 0 || planned <= self.shared.prefetch;
            let may_go_on = is_taken && (!must_wait || state.way.gathered > first);
            (is_known || may_go_on).then_some(is_known)
        })?;
        planner.look_for_gathered();
        Ok(is_known)
    }

    /// Decides how rows are read from batch `t` on, and sets the window.
    fn decide_now(
        &self,
        (prepared, layout): (&Prepared, &Layout),
        known: &mut Known,
        planner: &mut Planner<'_>,
        memories: &mut Memories<'_>,
        t: u64,
    ) -> Result<Option<Layout>, SampleError> {
        let Some(decision) = self.decide_and_tell(prepared, layout, known, t)? else {
            return Ok(None);
        };
        memories.window = decision.window;
        memories.grown_window = decision.chosen.window;
        memories.longest = decision.chosen.sampled_first.unwrap_or(0);
        planner.set_window(decision.window);
        Ok(decision.other)
    }

    // Memory that is slots or topology.

    /// Has batches sampled to disk from now on: those that no thread has begun.
    fn sample_ahead(&self, longest: u64) -> Result<Lists, SampleError> {
        let mut spills = self.spills();
        let mut spill = Spill::create(0, self.settings.spill_dir.as_deref(), self.snapshot())?;
        let end = self.shared.change(|state| {
            let from = state.way.begun;
            // More may have been sampled than is known to be of use by now.
            let end = self.known(state).min(from + longest).max(from);
            state.way.spill_from = Some(from);
            state.way.sample_until = state.way.sample_until.max(end);
            state.way.sample_before = Some(end);
            spill.start_at(from);
            end
        });
        spills.push(spill);
        Ok(Lists::Ahead { end })
    }

    /// Lets the topology go when all batches of the stretch are sampled, and has it come back
    /// before they have been used up.
    fn turn<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        (lists, t): (Lists, u64),
        (prepared, layout): (&Prepared, &Layout),
        planner: &mut Planner<'_>,
        (known, memories): (&mut Known, &mut Memories<'_>),
    ) -> Result<Lists, SampleError> {
        match lists {
            Lists::Ahead { end } if self.shared.lock().way.is_sampled_through(end) => {
                self.drop_topology()?;
                // Memory that others took meanwhile is theirs.
                memories.grown = self.snapshot().reserve(memories.grown_bytes).ok();
                if memories.grown.is_some() {
                    planner.grow();
                    planner.set_window(memories.grown_window);
                    self.begin_trial(known, t);
                } else {
                    known.forget_trial();
                }
                Ok(Lists::Gone { end })
            }
            Lists::Gone { end }
                if end < self.shared.jobs.len()
                    && planner.available() + 2 * memories.grown_window >= end =>
            {
                self.end_trial(known, t);
                planner.set_window(memories.window);
                planner.shrink(&layout.slots);
                Ok(Lists::Leaving { end })
            }
            Lists::Leaving { end } if planner.is_shrunk() => {
                if memories.grown.take().is_some() {
                    for (slots, first) in memories.slots.iter().zip(&layout.slots) {
                        slots.rest_from(*first)?;
                    }
                }
                self.decide_now((prepared, layout), known, planner, memories, t)?;
                let next = self.begin_again(end, memories.longest)?;
                let bring = move || self.bring_topology(0, next);
                self.shared.start_in(scope, "ng-topology", bring)?;
                Ok(next.map_or(Lists::Needed, |end| Lists::Ahead { end }))
            }
            lists => Ok(lists),
        }
    }

    /// Prepares sampling from batch `end` on, which begins when the topology is in memory: to disk
    /// for the next `longest` batches, or as batches are needed if `longest` is 0. Returns where
    /// samples on disk will end.
    fn begin_again(&self, end: u64, longest: u64) -> Result<Option<u64>, SampleError> {
        if longest == 0 {
            self.shared.change(|state| {
                state.way.topology_comes = true;
                state.way.spill_from = None;
            });
            return Ok(None);
        }
        let directory = self.settings.spill_dir.as_deref();
        let spill = Spill::create(end, directory, self.snapshot())?;
        self.spills().push(spill);
        self.shared.change(|state| state.way.topology_comes = true);
        Ok(Some(self.shared.jobs.len().min(end + longest)))
    }

    /// Reads the topology into memory once `after` batches have been made, and has batches sampled
    /// up to `until` then. Where memory is too small after all, samples come through the store's
    /// caches.
    fn bring_topology(&self, after: u64, until: Option<u64>) -> Result<(), SampleError> {
        let made = |state: &mut AheadState| (state.way.gathered >= after).then_some(());
        self.shared.wait_until(Wait::SampleForDemand, made)?;
        match self.load_topology() {
            Err(error) if error.is_of_memory() => {}
            other => other?,
        }
        self.shared.change(|state| {
            state.way.sample_before = until;
            state.way.topology_comes = false;
            state.way.sample_until = state.way.sample_until.max(until.unwrap_or(0));
        });
        Ok(())
    }
}

/// Bytes of all slots with their bookkeeping, and those of them that come when the topology goes.
fn slot_bytes(prepared: &Prepared, layout: &Layout) -> (u64, u64) {
    let (mut all, mut later) = (0, 0);
    for (table, (slots, grown)) in
        prepared.tables.iter().zip(layout.slots.iter().zip(&layout.grown))
    {
        all += table_bytes(layout.chosen.reading, (table.rows, table.width), *grown as u64);
        if slots < grown {
            let width = table.width as usize;
            later += Slots::num_bytes(width, *grown) - (slots * width) as u64;
        }
    }
    (all, later)
}
