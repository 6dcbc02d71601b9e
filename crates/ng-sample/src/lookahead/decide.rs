//! How rows are read, once some batches have been sampled: the policy, its window, and whether the
//! topology makes room for rows. It is decided once, and again from what was measured since.
//!
//! A batch takes as long as the slowest of reading, sampling and the consumer. So what spares the
//! disk alone is not worth a change, nor what it writes.

use super::chosen::{Chosen, STRETCH_MIN};
use super::engine::{LookAhead, Settings};
use super::known::Known;
use super::memory::{Layout, Room, choose, distribution};
use super::policy::Reading;
use super::prepare::Prepared;
use crate::note::Writes;

/// Epochs of fewer batches write nothing unless a limit for that is given: most of it would be for
/// batches that nobody takes.
const WRITING_MIN: u64 = 256;

/// Windows of a stretch, where these are more batches than [`STRETCH_MIN`].
const STRETCH_WINDOWS: u64 = 8;

/// Stretches of fewer batches than that are made if they are asked for.
const STRETCH_LEAST: u64 = 16;

/// What writes to disk is chosen unasked, and any plan gives way to another, if a batch then takes
/// at most this share of the time from end to end.
const GAIN_SHARE: f64 = 0.8;

/// What writes to disk goes on as long as a batch takes at most this share of the time that it
/// takes without. It is larger than [`GAIN_SHARE`] so that plans do not take turns.
const KEPT_SHARE: f64 = 0.9;

/// Rows are distributed unasked if they have so many bytes, and if that takes at most this share of
/// the device's time that the best other way takes.
const DISTRIBUTED_BYTES: u64 = 64;
const DISTRIBUTED_SHARE: f64 = 0.7;

/// What was decided.
pub(super) struct Decision {
    /// The layout of what comes next, if it is not the present one with another window.
    pub other: Option<Layout>,
    pub chosen: Chosen,
    /// The alternatives.
    pub others: Vec<Chosen>,
    /// Batches to look ahead with the slots that there are.
    pub window: u64,
    /// Whether rows are read as they were.
    pub is_kept: bool,
}

/// A plan that writes to disk for a while.
enum Writing {
    Distribution(Layout),
    /// The topology makes room for rows.
    TwoPhases(Chosen),
}

impl Writing {
    fn chosen(&self) -> &Chosen {
        match self {
            Self::Distribution(layout) => &layout.chosen,
            Self::TwoPhases(chosen) => chosen,
        }
    }

    fn has_two_phases(&self) -> bool {
        matches!(self, Self::TwoPhases(_))
    }
}

impl LookAhead {
    /// Decides how rows are read from batch `at` on; at present it is by `layout`.
    pub(super) fn decide(
        &self,
        prepared: &Prepared,
        layout: &Layout,
        known: &Known,
        at: u64,
    ) -> Decision {
        let before = self.in_force.chosen();
        let mut room = self.room(prepared, &known.studies);
        if before.is_some() {
            room.given = (self.shared.jobs.len() - at).min(STRETCH_MIN);
        }
        let floor = known.measured.floor();
        let ways = self.ways(prepared, &room, known);
        // As it is, if nothing fits better.
        let held = best(&ways, before.as_ref(), floor).unwrap_or(layout).clone();
        let writing = self.writing(prepared, &room, known, (&held, layout));
        let mut all: Vec<Chosen> = ways.into_iter().map(|way| way.chosen).collect();
        all.extend(writing.iter().map(|plan| plan.chosen().clone()));
        let pays = |plan: &Writing| {
            let is_asked = self.settings.two_phase == Some(true) && plan.has_two_phases();
            is_asked || pays(plan.chosen(), &held.chosen, before.as_ref(), floor)
        };
        let taken = writing.into_iter().find(pays);
        let window = held.chosen.window;
        let (chosen, next) = match taken {
            Some(Writing::Distribution(dealt)) => (dealt.chosen.clone(), dealt),
            Some(Writing::TwoPhases(chosen)) => (chosen, held),
            None => (held.chosen.clone(), held),
        };
        let is_kept = before.as_ref().is_some_and(|before| before.is_like(&chosen));
        let others = all.into_iter().filter(|other| !other.is_like(&chosen)).collect();
        let other = (next.chosen.reading != layout.chosen.reading).then_some(next);
        Decision { other, chosen, others, window, is_kept }
    }

    /// The ways that may be taken and write nothing, with what they take by all that is known.
    fn ways(&self, prepared: &Prepared, room: &Room<'_>, known: &Known) -> Vec<Layout> {
        let readings = match self.settings.reading {
            Reading::Auto => vec![Reading::Window, Reading::Scan],
            reading => vec![reading],
        };
        let way = |reading: Reading| {
            let first = prepared.scan.as_ref().filter(|_| reading == Reading::Scan);
            let slots = first.map(|first| first.slots.as_slice());
            let mut way = choose(reading, &Room { slots, ..*room })?;
            if let Some(first) = first {
                way.grown.clone_from(&first.grown);
            }
            way.chosen.seconds *= known.factor(reading);
            Some(way)
        };
        readings.into_iter().filter_map(way).collect()
    }

    /// The plans that may be taken in place of `held` and write to disk, in the order in which they
    /// are preferred; at present rows are read by `layout`.
    fn writing(
        &self,
        prepared: &Prepared,
        room: &Room<'_>,
        known: &Known,
        (held, layout): (&Layout, &Layout),
    ) -> Vec<Writing> {
        let has_two_phases = self.in_force.chosen().is_some_and(|now| now.is_scan_in_two_phases());
        // Samples on disk are used up first.
        let dealt = if has_two_phases { None } else { self.dealt(prepared, room, known) };
        let is_scan = |layout: &Layout| layout.chosen.reading == Reading::Scan;
        let grown = if is_scan(held) && is_scan(layout) {
            self.without_topology(prepared, layout, room, known)
        } else {
            None
        };
        let dealt = dealt.map(Writing::Distribution);
        dealt.into_iter().chain(grown.map(Writing::TwoPhases)).collect()
    }

    /// How rows would be read if the topology made room for them, and how many batches are sampled
    /// before that.
    fn without_topology(
        &self,
        prepared: &Prepared,
        layout: &Layout,
        room: &Room<'_>,
        known: &Known,
    ) -> Option<Chosen> {
        let may = self.settings.may_have_two_phases() && prepared.topology_bytes > 0;
        let is_asked = self.settings.two_phase == Some(true);
        if !may || !(is_asked || self.writes_unasked()) {
            return None;
        }
        let reading = Reading::Scan;
        let bytes = room.bytes + prepared.topology_bytes;
        let grown = choose(reading, &Room { slots: Some(&layout.grown), bytes, ..*room })?.chosen;
        let stretch = STRETCH_MIN.max(STRETCH_WINDOWS * grown.window);
        let stretch = stretch.min((room.disk_bytes / room.sample_bytes.max(1)).max(1));
        let seconds = grown.seconds * known.factor(reading);
        Some(Chosen { sampled_first: Some(stretch), seconds, ..grown })
    }

    /// Whether epochs are long enough to write to disk for a while.
    fn writes_unasked(&self) -> bool {
        let is_asked = self.settings.temporary_writes.is_some();
        is_asked || self.shared.jobs.plan.steps() >= WRITING_MIN
    }

    /// Rows distributed on disk, where that may be done.
    fn dealt(&self, prepared: &Prepared, room: &Room<'_>, known: &Known) -> Option<Layout> {
        let is_wide = room.tables.iter().all(|study| study.width >= DISTRIBUTED_BYTES);
        let may = self.settings.reading == Reading::Auto && self.settings.may_have_two_phases();
        if !may || !is_wide || !self.writes_unasked() {
            return None;
        }
        let bytes = room.bytes + prepared.topology_bytes;
        let mut dealt = distribution(&Room { bytes, ..*room })?;
        dealt.chosen.seconds *= known.factor(Reading::Distribute);
        let written = dealt.chosen.write_bytes * self.shared.jobs.plan.steps() as f64;
        let most = self.settings.temporary_writes() * prepared.table_bytes() as f64;
        (written <= most).then_some(dealt)
    }

    /// What a plan writes in an epoch, and where.
    pub(super) fn writes(&self, prepared: &Prepared, chosen: &Chosen) -> Option<Writes> {
        chosen.sampled_first?;
        let steps = self.shared.jobs.plan.steps();
        let epoch_bytes = steps * (chosen.write_bytes as u64 + prepared.sample_bytes());
        let Settings { reading, two_phase, .. } = self.settings;
        let is_asked = reading == Reading::Distribute || two_phase == Some(true);
        Some(Writes { epoch_bytes, directory: self.settings.scratch_dir(), is_asked })
    }
}

/// The way that takes least; one that is in force stays unless another gains enough.
fn best<'a>(ways: &'a [Layout], before: Option<&Chosen>, floor: f64) -> Option<&'a Layout> {
    let by_seconds = |a: &&Layout, b: &&Layout| a.chosen.seconds.total_cmp(&b.chosen.seconds);
    let best = ways.iter().min_by(by_seconds)?;
    let Some(before) = before else { return Some(best) };
    let present = ways.iter().find(|way| way.chosen.reading == before.reading);
    let stays = |present: &&Layout| {
        before.sampled_first.is_some() || !gains(&best.chosen, &present.chosen, floor, GAIN_SHARE)
    };
    present.filter(stays).or(Some(best))
}

/// Whether a batch takes at most `share` of the time with `plan`, from end to end, that it takes
/// with `other`. It takes `floor` seconds at least.
fn gains(plan: &Chosen, other: &Chosen, floor: f64, share: f64) -> bool {
    plan.seconds.max(floor) <= share * other.seconds.max(floor)
}

/// Whether a plan is worth what it writes, where `held` is the best that writes nothing and
/// `before` is in force.
fn pays(plan: &Chosen, held: &Chosen, before: Option<&Chosen>, floor: f64) -> bool {
    if before.is_some_and(|before| before.is_like(plan)) {
        return gains(plan, held, floor, KEPT_SHARE);
    }
    let is_worth_a_start = if plan.reading == Reading::Distribute {
        plan.seconds <= held.seconds * DISTRIBUTED_SHARE
    } else {
        plan.sampled_first.unwrap_or(0) >= STRETCH_LEAST.max(4 * plan.window)
    };
    is_worth_a_start && gains(plan, held, floor, GAIN_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(reading: Reading, ms: u64, sampled_first: Option<u64>) -> Chosen {
        Chosen {
            reading,
            window: 40,
            sampled_first,
            hot_rows: 0,
            slots: 0,
            slot_bytes: 0,
            reads: 0.0,
            read_bytes: 0.0,
            write_bytes: 0.0,
            seconds: ms as f64 / 1e3,
        }
    }

    fn layout(reading: Reading, ms: u64) -> Layout {
        Layout { chosen: plan(reading, ms, None), slots: Vec::new(), grown: Vec::new() }
    }

    #[test]
    fn what_writes_is_taken_only_if_the_consumer_gains_by_it() {
        let held = plan(Reading::Scan, 100, None);
        let takes =
            |plan: &Chosen, consumer_ms: u64| pays(plan, &held, None, consumer_ms as f64 / 1e3);
        let dealt = |ms| plan(Reading::Distribute, ms, Some(250));
        let grown = |ms| plan(Reading::Scan, ms, Some(1024));
        for (ms, consumer_ms, expected) in
            [(60, 0, true), (60, 79, true), (60, 85, false), (60, 200, false), (75, 0, false)]
        {
            assert_eq!(takes(&dealt(ms), consumer_ms), expected, "{ms} beside {consumer_ms} ms");
        }
        for (ms, consumer_ms, expected) in [(79, 0, true), (79, 85, false), (85, 0, false)] {
            assert_eq!(takes(&grown(ms), consumer_ms), expected, "{ms} beside {consumer_ms} ms");
        }
        // Too short a stretch for a window of 40.
        assert!(!takes(&plan(Reading::Scan, 10, Some(100)), 0));
    }

    #[test]
    fn what_writes_goes_on_until_it_gains_too_little_and_plans_do_not_take_turns() {
        let held = plan(Reading::Scan, 100, None);
        for other in [Reading::Distribute, Reading::Scan] {
            let writes = |ms| plan(other, ms, Some(1024));
            assert!(pays(&writes(85), &held, Some(&writes(85)), 0.0));
            assert!(!pays(&writes(85), &held, Some(&held), 0.0));
            assert!(!pays(&writes(50), &held, Some(&writes(50)), 0.095));
        }
    }

    #[test]
    fn a_plan_in_force_gives_way_to_one_that_gains_a_fifth() {
        let (scan, window) = (layout(Reading::Scan, 100), layout(Reading::Window, 85));
        let taken = |ways: &[Layout], before: Option<&Chosen>, floor| {
            best(ways, before, floor).map(|way| way.chosen.reading)
        };
        let ways = [window, scan.clone()];
        assert_eq!(taken(&ways, None, 0.0), Some(Reading::Window));
        assert_eq!(taken(&ways, Some(&scan.chosen), 0.0), Some(Reading::Scan));
        let ways = [layout(Reading::Window, 80), scan.clone()];
        assert_eq!(taken(&ways, Some(&scan.chosen), 0.0), Some(Reading::Window));
        assert_eq!(taken(&ways, Some(&scan.chosen), 0.09), Some(Reading::Scan));
        // Samples on disk are used up first.
        let phases = plan(Reading::Scan, 100, Some(1024));
        assert_eq!(taken(&ways, Some(&phases), 0.0), Some(Reading::Scan));
    }
}
