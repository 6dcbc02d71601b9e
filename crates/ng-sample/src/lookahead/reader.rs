//! The reading thread: one queue of requests that runs dry only when the planner has nothing.

use std::sync::Arc;
use std::time::Instant;

use ng_simd::finish_streaming;
use ng_store::{RowPart, Snapshot};

use super::pieces::Piece;
use super::policy::Reading;
use super::state::{AheadShared, AheadState};
use crate::SampleError;
use crate::clock::{Wait, Work};
use crate::pipeline::Slots;

/// Reads pieces into their slots until the stretch ends.
pub(crate) fn read(
    shared: &AheadShared,
    snapshot: &Snapshot,
    reading: Reading,
    slots: &[Slots],
) -> Result<(), SampleError> {
    let waiting = |state: &mut AheadState| match state.way.pieces.is_empty() {
        false => Some(true),
        true => state.way.stretch_end.map(|_| false),
    };
    while shared.wait_until(Wait::ReadForPlans, waiting)? {
        let _busy = shared.clock.begin(Work::Read);
        // A naive reader lets each group end before it begins the next.
        let mut groups = if reading.is_naive() { 1 } else { usize::MAX };
        let mut next = || {
            groups = groups.checked_sub(1)?;
            let mut state = shared.lock();
            if state.closed { None } else { state.way.pieces.pop_front() }
        };
        let mut take = |piece: &Piece, parts: &mut [RowPart<'_>]| {
            slots[piece.table].write(&piece.slots, parts)
        };
        // Counted piece by piece: a queue that never runs dry is what a report is asked for most.
        let mut since = Instant::now();
        let mut done = |piece: Arc<Piece>| {
            // Threads that see the piece as read must see what this one wrote.
            finish_streaming();
            shared.change(|state| state.way.piece_was_read(&piece));
            let now = Instant::now();
            shared.clock.add(Work::Read, now - since);
            since = now;
        };
        snapshot.read_plans(&mut next, &mut take, &mut done)?;
    }
    Ok(())
}
