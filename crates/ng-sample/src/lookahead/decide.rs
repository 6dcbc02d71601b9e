//! How rows are read, once some batches have been sampled: the policy, its window, and whether the
//! topology makes room for rows.

use super::chosen::{Chosen, STRETCH_MIN};
use super::engine::LookAhead;
use super::memory::{Layout, Room, choose, distribution};
use super::policy::Reading;
use super::prepare::Prepared;
use super::study::TableStudy;

/// Epochs of fewer batches write nothing unless a limit for that is given: most of it would be for
/// batches that nobody takes.
const WRITING_MIN: u64 = 64;

/// Windows of a stretch, where these are more batches than [`STRETCH_MIN`].
const STRETCH_WINDOWS: u64 = 8;

/// Stretches of fewer batches than that are made if they are asked for.
const STRETCH_LEAST: u64 = 16;

/// The topology makes room for rows unasked if a batch then takes at most this share of the time.
const WITHOUT_TOPOLOGY_SHARE: f64 = 0.9;

/// Rows are distributed unasked if they have so many bytes, and if that takes at most this share of
/// the time that the best other way takes.
const DISTRIBUTED_BYTES: u64 = 64;
const DISTRIBUTED_SHARE: f64 = 0.7;

/// What was decided.
pub(super) struct Decision {
    /// The layout of what comes next, if it is not the present one with another window.
    pub other: Option<Layout>,
    pub chosen: Chosen,
    /// Batches to look ahead with the slots that there are.
    pub window: u64,
    /// Batches to look ahead when the topology has made room.
    pub grown: u64,
}

impl LookAhead {
    /// Decides how rows are read; at present it is by `layout`.
    pub(super) fn decide(
        &self,
        prepared: &Prepared,
        layout: &Layout,
        studies: &[TableStudy],
    ) -> Decision {
        let room = Room { slots: Some(&layout.slots), ..self.room(prepared, studies) };
        // As it is, if nothing fits better.
        let held = choose(self.settings.reading, &room).unwrap_or_else(|| layout.clone());
        if let Some(other) = self.distribution_if_it_pays(prepared, &room, &held) {
            let (chosen, window) = (other.chosen.clone(), other.chosen.window);
            return Decision { other: Some(other), chosen, window, grown: window };
        }
        let mut chosen = held.chosen.clone();
        let window = chosen.window;
        let other = (chosen.reading != layout.chosen.reading).then_some(held);
        if other.is_none()
            && let Some((grown, stretch)) = self.without_topology(prepared, layout, &room, &chosen)
        {
            chosen = Chosen { sampled_first: Some(stretch), ..grown };
        }
        let grown = chosen.window;
        Decision { other, chosen, window, grown }
    }

    /// How rows would be read if the topology made room for them, and how many batches are sampled
    /// before that, if it pays.
    fn without_topology(
        &self,
        prepared: &Prepared,
        layout: &Layout,
        room: &Room<'_>,
        held: &Chosen,
    ) -> Option<(Chosen, u64)> {
        if !self.settings.may_have_two_phases() || prepared.topology_bytes == 0 {
            return None;
        }
        let reading = layout.chosen.reading;
        if reading != Reading::Scan {
            return None;
        }
        let bytes = room.bytes + prepared.topology_bytes;
        let grown = choose(reading, &Room { slots: Some(&layout.grown), bytes, ..*room })?.chosen;
        let stretch = STRETCH_MIN.max(STRETCH_WINDOWS * grown.window);
        let stretch = stretch.min((room.disk_bytes / room.sample_bytes.max(1)).max(1));
        let is_asked = self.settings.two_phase == Some(true);
        let pays = grown.seconds <= held.seconds * WITHOUT_TOPOLOGY_SHARE;
        let is_long = stretch >= STRETCH_LEAST.max(4 * grown.window);
        (is_asked || pays && is_long && self.writes_unasked()).then_some((grown, stretch))
    }

    /// Whether epochs are long enough to write to disk for a while.
    fn writes_unasked(&self) -> bool {
        let is_asked = self.settings.temporary_writes.is_some();
        is_asked || self.shared.jobs.plan.steps() >= WRITING_MIN
    }

    /// Rows distributed on disk, where that is worth the writing.
    fn distribution_if_it_pays(
        &self,
        prepared: &Prepared,
        room: &Room<'_>,
        held: &Layout,
    ) -> Option<Layout> {
        let is_wide = room.tables.iter().all(|study| study.width >= DISTRIBUTED_BYTES);
        let may = self.settings.reading == Reading::Auto && self.settings.may_have_two_phases();
        if !may || !is_wide || !self.writes_unasked() {
            return None;
        }
        let bytes = room.bytes + prepared.topology_bytes;
        let dealt = distribution(&Room { bytes, ..*room })?;
        let written = dealt.chosen.write_bytes * self.shared.jobs.plan.steps() as f64;
        let most = self.settings.temporary_writes() * prepared.table_bytes() as f64;
        let pays = dealt.chosen.seconds <= held.chosen.seconds * DISTRIBUTED_SHARE;
        (pays && written <= most).then_some(dealt)
    }
}
