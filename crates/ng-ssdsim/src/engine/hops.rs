//! Which commands each hop of each batch has, and how many of them have no result yet.
//!
//! Where a hop waits for the one before, a batch waits for its own hops alone. Where none waits,
//! one batch needs no counting, and of several it is counted when each is over.

use std::ops::Range;

use crate::plan::Plan;

/// The hops of all batches, numbered batch by batch.
#[derive(Debug, Default)]
pub(super) struct Hops {
    /// Hops of each batch; 1 without a barrier, 0 where nothing is counted.
    of_batch: u32,
    has_barrier: bool,
    /// Commands without a result.
    pending: Vec<u32>,
    /// Commands in the order of hops, that of the plan within each, and where each hop begins.
    commands: Vec<u32>,
    first: Vec<u32>,
}

impl Hops {
    pub fn reset(&mut self, plan: &Plan, batches: usize, has_barrier: bool) {
        self.has_barrier = has_barrier;
        self.of_batch = match (has_barrier, batches) {
            (true, _) => plan.hops().max(1) as u32,
            (false, 1) => 0,
            (false, _) => 1,
        };
        let count = batches * self.of_batch as usize;
        self.pending.clear();
        self.pending.resize(count, 0);
        self.commands.clear();
        self.first.clear();
        if count == 0 {
            return;
        }
        for command in 0..plan.len() {
            let hop = self.of_command(plan, command) as usize;
            self.pending[hop] += 1;
        }
        if has_barrier {
            self.sort(plan);
        }
    }

    fn sort(&mut self, plan: &Plan) {
        let mut next = 0;
        for &commands in &self.pending {
            self.first.push(next);
            next += commands;
        }
        self.commands.resize(plan.len(), 0);
        let mut free = self.first.clone();
        for command in 0..plan.len() {
            let place = &mut free[self.of_command(plan, command) as usize];
            self.commands[*place as usize] = command as u32;
            *place += 1;
        }
        self.first.push(next);
    }

    /// The number of a hop of a batch.
    #[inline]
    pub fn of(&self, batch: usize, hop: usize) -> u32 {
        batch as u32 * self.of_batch + hop as u32
    }

    /// Batch and hop of a number.
    pub fn which(&self, number: u32) -> (usize, usize) {
        ((number / self.of_batch) as usize, (number % self.of_batch) as usize)
    }

    #[inline]
    fn of_command(&self, plan: &Plan, command: usize) -> u32 {
        let hop = if self.has_barrier { usize::from(plan.hop[command]) } else { 0 };
        self.of(plan.batch_of(command), hop)
    }

    /// The range of a hop's commands; empty if the trace has fewer hops.
    pub fn commands(&self, number: u32) -> Range<u32> {
        match self.first.get(number as usize..number as usize + 2) {
            Some(&[first, end]) => first..end,
            _ => 0..0,
        }
    }

    /// One of [`Self::commands`].
    #[inline]
    pub fn command(&self, at: u32) -> u32 {
        self.commands[at as usize]
    }

    /// Whether results are counted at all.
    #[inline]
    pub fn are_counted(&self) -> bool {
        self.of_batch > 0
    }

    /// Takes note of a result: the number of its hop if that was the last one.
    #[inline]
    pub fn complete(&mut self, plan: &Plan, command: u32) -> Option<u32> {
        let number = self.of_command(plan, command as usize);
        let left = &mut self.pending[number as usize];
        *left -= 1;
        (*left == 0).then_some(number)
    }

    /// Whether a batch that is counted has no command at all.
    pub fn is_empty(&self, batch: usize) -> bool {
        self.pending.get(self.of(batch, 0) as usize) == Some(&0)
    }

    /// Whether the batch of a hop has commands in the hop behind it.
    pub fn has_next(&self, number: u32) -> bool {
        !(number + 1).is_multiple_of(self.of_batch) && self.pending[number as usize + 1] > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(hops: &[u8], batches: &[u16]) -> Plan {
        let mut plan = Plan::of_reads(&vec![0; hops.len()], 4000);
        (plan.hop, plan.batch) = (hops.to_vec(), batches.to_vec());
        plan
    }

    #[test]
    fn commands_of_a_hop_keep_their_order_and_each_batch_has_its_own() {
        let plan = plan(&[0, 1, 0, 1, 0, 2], &[0, 0, 1, 1, 0, 1]);
        let mut hops = Hops::default();
        hops.reset(&plan, 2, true);
        let of = |hops: &Hops, batch, hop| {
            hops.commands(hops.of(batch, hop)).map(|at| hops.command(at)).collect::<Vec<_>>()
        };
        assert_eq!((of(&hops, 0, 0), of(&hops, 0, 1)), (vec![0, 4], vec![1]));
        assert_eq!(
            (of(&hops, 1, 0), of(&hops, 1, 1), of(&hops, 1, 2)),
            (vec![2], vec![3], vec![5])
        );
        assert_eq!((hops.complete(&plan, 0), hops.complete(&plan, 2)), (None, Some(3)));
        assert_eq!(hops.complete(&plan, 4), Some(0));
        assert_eq!((hops.which(0), hops.which(3)), ((0, 0), (1, 0)));
        // The first batch has no third hop, the second one ends there.
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|hop| hops.has_next(hop)),
            [true, false, false, true, true, false]
        );
    }

    #[test]
    fn without_a_barrier_batches_are_counted_and_one_alone_is_not() {
        let both = plan(&[0, 1, 0], &[0, 1, 0]);
        let mut hops = Hops::default();
        hops.reset(&both, 3, false);
        let done: Vec<_> = (0..3).map(|command| hops.complete(&both, command)).collect();
        assert_eq!(done, [None, Some(1), Some(0)]);
        assert_eq!((hops.which(1), hops.has_next(0), hops.commands(0)), ((1, 0), false, 0..0));
        assert!(hops.is_empty(2), "the third batch reads nothing");
        let one = plan(&[0, 1], &[]);
        hops.reset(&one, 1, false);
        assert!(!hops.are_counted());
    }
}
