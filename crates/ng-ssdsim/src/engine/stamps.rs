//! The times of each command of a run, and what must be true of them whatever was run.

use serde::Serialize;

use super::Machine;
use crate::plan::{Plan, flag};
use crate::time::Picos;

/// When each command was where: parallel columns, one entry (56 bytes) a command.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// It was brought forth.
    pub issue: Vec<Picos>,
    /// It came to the queue of its die, past cores and router.
    pub arrive: Vec<Picos>,
    /// Its sense started.
    pub sense: Vec<Picos>,
    /// Its data were ready to leave the die, sampled if they had to be.
    pub ready: Vec<Picos>,
    /// Its transfer started.
    pub transfer: Vec<Picos>,
    /// Its transfer ended.
    pub sent: Vec<Picos>,
    /// Its result could be seen where the next command is made.
    pub visible: Vec<Picos>,
}

impl Stamps {
    pub(super) fn reset(&mut self, commands: usize) {
        for column in [
            &mut self.issue,
            &mut self.arrive,
            &mut self.sense,
            &mut self.ready,
            &mut self.transfer,
            &mut self.sent,
            &mut self.visible,
        ] {
            column.clear();
            column.resize(commands, 0);
        }
    }

    /// What was broken: all zeros for a sound run.
    pub fn audit(&self, plan: &Plan, machine: &Machine) -> Audit {
        let mut found = Audit::default();
        for command in 0..plan.len() {
            let order = [
                self.issue[command],
                self.arrive[command],
                self.sense[command],
                self.ready[command],
                self.transfer[command],
                self.sent[command],
                self.visible[command],
            ];
            found.out_of_order += u64::from(!order.is_sorted());
            let children = plan.brought_forth_by(command as u32, machine.path.barrier);
            let early =
                children.filter(|&child| self.issue[child as usize] < self.visible[command]);
            found.early_children += early.count() as u64;
        }
        let on_dies = || (0..plan.len()).filter(|&c| plan.flags[c] & flag::CACHED == 0);
        let mut senses: Vec<_> = on_dies()
            .map(|c| (plan.die[c], self.sense[c], self.sense[c] + machine.sense_of(plan, c)))
            .collect();
        // Planes that sense together are one sense.
        senses.sort_unstable();
        senses.dedup_by(|later, first| {
            machine.flash.planes > 1 && (later.0, later.1) == (first.0, first.1)
        });
        found.sense_overlaps = overlaps(&senses);
        let mut transfers: Vec<_> = on_dies()
            .map(|c| (plan.die[c] / machine.flash.dies_per_channel, self.transfer[c], self.sent[c]))
            .collect();
        transfers.sort_unstable();
        found.transfer_overlaps = overlaps(&transfers);
        found
    }
}

/// How often somebody starts before the one before has ended, in the same place.
fn overlaps(sorted: &[(u32, Picos, Picos)]) -> u64 {
    sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0 && pair[1].1 < pair[0].2).count() as u64
}

/// Laws of a run that were broken, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Commands whose times do not ascend.
    pub out_of_order: u64,
    /// Children that were issued before their parent's result was seen.
    pub early_children: u64,
    /// Senses that a die started before the last one had ended.
    pub sense_overlaps: u64,
    /// Transfers that a channel started before the last one had ended.
    pub transfer_overlaps: u64,
}
