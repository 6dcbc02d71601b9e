//! Puts decisions into force, and has the user of the loader hear of them.

use std::time::{Duration, Instant};

use super::chosen::Chosen;
use super::decide::Decision;
use super::engine::LookAhead;
use super::known::Known;
use super::memory::Layout;
use super::prepare::Prepared;
use super::state::AheadState;
use crate::SampleError;
use crate::clock::Wait;
use crate::note::{Decided, Note};

/// What writes to disk is put off for so long until the user of the loader has heard of it.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

impl LookAhead {
    /// Decides how rows are read from batch `at` on; `None` if it is as before.
    pub(super) fn decide_and_tell(
        &self,
        prepared: &Prepared,
        layout: &Layout,
        known: &mut Known,
        at: u64,
    ) -> Result<Option<Decision>, SampleError> {
        self.end_trial(known, at);
        let mut decision = self.decide(prepared, layout, known, at);
        known.is_decided = true;
        if decision.is_kept
            && let Some(before) = self.in_force.chosen()
        {
            // The window stays; what it takes is known better now.
            let seconds = decision.chosen.seconds;
            self.in_force.decide(Chosen { seconds, ..before });
            self.begin_trial(known, at);
            return Ok(None);
        }
        let others = std::mem::take(&mut decision.others);
        self.put_in_force(prepared, known, decision.chosen.clone(), others)?;
        self.begin_trial(known, at);
        Ok(Some(decision))
    }

    /// Begins a trial of what is in force. Two phases are tried while the topology is gone.
    pub(super) fn begin_trial(&self, known: &mut Known, at: u64) {
        if let Some(chosen) = self.in_force.chosen() {
            known.begin_trial(at, &chosen);
        }
    }

    /// Puts a decision into force. What writes to disk waits until that was heard.
    pub(super) fn put_in_force(
        &self,
        prepared: &Prepared,
        known: &Known,
        chosen: Chosen,
        others: Vec<Chosen>,
    ) -> Result<(), SampleError> {
        let before = self.in_force.decide(chosen.clone());
        let writes = self.writes(prepared, &chosen);
        let is_written = writes.is_some();
        let measured = known.measured;
        let decided = Decided { chosen, before, others, measured, writes };
        let note = Note::Decided(Box::new(decided));
        self.shared.change(|state| state.notes.push_back(note));
        if is_written { self.wait_until_heard() } else { Ok(()) }
    }

    fn wait_until_heard(&self) -> Result<(), SampleError> {
        let since = Instant::now();
        let heard = |state: &mut AheadState| {
            let is_heard = state.notes.is_empty() && !state.is_hearing;
            (is_heard || !state.listens || since.elapsed() > HEARD_WITHIN).then_some(())
        };
        self.shared.wait_until(Wait::PlanForSlots, heard)
    }
}
