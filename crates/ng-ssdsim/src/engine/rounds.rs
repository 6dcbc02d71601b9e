//! What the host does between the hops of a batch and after the last: a transfer, its cores, its
//! stack, an answer.
//!
//! Batches side by side share each direction of the link, and the cores, which serve the pages of
//! one batch together; the batch that ends a hop first is served first. The latency of the stack is
//! each batch's own. The parts of a round follow each other, and are booked when it begins.

use super::server::Server;
use crate::time::Picos;

/// One visit of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Of the link, towards the host.
    pub up: Picos,
    /// Of all cores of the host together.
    pub cores: Picos,
    /// Of the storage stack: a latency, for which no core is taken.
    pub stack: Picos,
    /// Of the link, back to the SSD.
    pub down: Picos,
}

impl Round {
    /// How long it takes when nothing is in its way.
    pub fn alone(&self) -> Picos {
        self.up + self.cores + self.stack + self.down
    }
}

/// When a batch was over, and how much of that was outside the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Since the start of the run; its last round is part of it.
    pub time: Picos,
    /// On the link or waiting for it.
    pub link: Picos,
    /// In the host or waiting for its cores.
    pub host: Picos,
}

/// The servers of rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Visits {
    up: Server,
    cores: Server,
    down: Server,
}

impl Visits {
    /// A round that begins now: what it adds to the end of its batch.
    pub fn serve(&mut self, round: &Round, now: Picos, end: &mut End) {
        let sent = serve(&mut self.up, now, round.up);
        let seen = serve(&mut self.cores, sent, round.cores) + round.stack;
        let answered = serve(&mut self.down, seen, round.down);
        end.time = answered;
        end.link += (sent - now) + (answered - seen);
        end.host += seen - sent;
    }
}

/// The end of a service; one that takes no time does not wait for its server.
fn serve(server: &mut Server, now: Picos, takes: Picos) -> Picos {
    if takes == 0 { now } else { server.serve(now, takes).1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_batches_take_turns_on_the_link_and_wait_for_the_stack_together() {
        let mut visits = Visits::default();
        let round = Round { up: 10, cores: 3, stack: 100, down: 4 };
        let mut ends = [End::default(); 2];
        for end in &mut ends {
            visits.serve(&round, 1_000, end);
        }
        assert_eq!(ends[0], End { time: 1_117, link: 14, host: 103 });
        // 10 later off the link, and the cores are free by then.
        assert_eq!(ends[1], End { time: 1_127, link: 24, host: 103 });
        assert_eq!(ends[0].time - 1_000, round.alone());
    }

    #[test]
    fn a_round_that_sends_nothing_does_not_wait_for_the_link() {
        let mut visits = Visits::default();
        let mut end = End::default();
        visits.serve(&Round { up: 50, ..Round::default() }, 0, &mut end);
        let mut other = End::default();
        visits.serve(&Round { stack: 7, ..Round::default() }, 1, &mut other);
        assert_eq!((end.time, other), (50, End { time: 8, link: 0, host: 7 }));
    }
}
