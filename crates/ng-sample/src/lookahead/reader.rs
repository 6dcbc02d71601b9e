//! The reading thread: one queue of requests that runs dry only when the planner has nothing.

use std::sync::Arc;
use std::time::Instant;

use ng_store::{RowPart, Snapshot};

use super::pieces::Piece;
use super::policy::Reading;
use super::slots::Slots;
use super::state::{Shared, State, Wait};
use crate::stages::{Stages, Work};

/// Reads pieces into their slots until the stretch ends, or everything stops.
pub(crate) fn read(
    shared: &Shared,
    snapshot: &Snapshot,
    reading: Reading,
    slots: &[Slots],
    stages: &Stages,
) {
    let waiting = |state: &mut State| match state.pieces.is_empty() {
        false => Some(true),
        true => state.stretch_end.map(|_| false),
    };
    while shared.wait_until(Wait::ReadForPlans, waiting) == Some(true) {
        // A naive reader lets each group end before it begins the next.
        let mut groups = if reading.is_naive() { 1 } else { usize::MAX };
        let mut next = || {
            groups = groups.checked_sub(1)?;
            let mut state = shared.lock();
            if state.closed { None } else { state.pieces.pop_front() }
        };
        let mut take = |piece: &Piece, parts: &mut [RowPart<'_>]| {
            if let Some(slots) = slots.get(piece.table) {
                slots.write(&piece.slots, parts);
            }
        };
        // Counted piece by piece: a queue that never runs dry is what a report is asked for most.
        let mut since = Instant::now();
        let mut done = |piece: Arc<Piece>| {
            slots.iter().for_each(Slots::finish_writing);
            shared.change(|state| state.piece_was_read(&piece));
            let now = Instant::now();
            stages.add(Work::Read, now - since);
            since = now;
        };
        if let Err(error) = snapshot.read_plans(&mut next, &mut take, &mut done) {
            shared.fail(error.into());
        }
    }
}
