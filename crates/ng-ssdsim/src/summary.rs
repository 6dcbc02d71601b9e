//! What the times of a run come to: how long commands wait, how many dies and channels work.

use serde::Serialize;

use crate::engine::{Machine, Stamps};
use crate::plan::Plan;
use crate::time::Picos;

/// A figure over all commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: Picos,
    /// Median.
    pub p50: Picos,
    /// 99 of 100 are below.
    pub p99: Picos,
}

impl Spread {
    fn of(mut values: Vec<Picos>) -> Self {
        let Some(last) = values.len().checked_sub(1) else { return Self::default() };
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        values.sort_unstable();
        let mean = (sum / values.len() as u128) as Picos;
        Self { mean, p50: values[last / 2], p99: values[last * 99 / 100] }
    }
}

/// Where a command spends its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// In front of its die: cores, router, queue, no register.
    pub before_flash: Spread,
    /// Sensing.
    pub sense: Spread,
    /// Sampling.
    pub sampler: Spread,
    /// In a register, until the channel is free.
    pub after_flash: Spread,
    /// On the channel.
    pub transfer: Spread,
}

impl Latency {
    /// Over all commands of a run.
    pub fn of(stamps: &Stamps, plan: &Plan, machine: &Machine) -> Self {
        let each =
            |value: &dyn Fn(usize) -> Picos| Spread::of((0..plan.len()).map(value).collect());
        let sense = |c: usize| machine.sense_of(plan, c);
        Self {
            before_flash: each(&|c| stamps.sense[c] - stamps.issue[c]),
            sense: each(&sense),
            sampler: each(&|c| stamps.ready[c] - stamps.sense[c] - sense(c)),
            after_flash: each(&|c| stamps.transfer[c] - stamps.ready[c]),
            transfer: each(&|c| stamps.sent[c] - stamps.transfer[c]),
        }
    }
}

/// How many of something worked, on average, in each of equal pieces of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Curve {
    /// Length of a piece.
    pub piece: Picos,
    /// Average in each piece.
    pub active: Vec<f64>,
}

impl Curve {
    /// Dies that sense.
    pub fn of_dies(stamps: &Stamps, plan: &Plan, machine: &Machine, pieces: usize) -> Self {
        let mut senses: Vec<_> = (0..plan.len())
            .map(|c| {
                let start = stamps.sense[c];
                (plan.die[c], start, start + machine.sense_of(plan, c))
            })
            .collect();
        // Planes that sense together are one die.
        senses.sort_unstable();
        senses.dedup();
        let end = stamps.visible.iter().copied().max().unwrap_or(0);
        Self::of(senses.into_iter().map(|(_, start, end)| (start, end)), end, pieces)
    }

    /// Channels that send.
    pub fn of_channels(stamps: &Stamps, plan: &Plan, pieces: usize) -> Self {
        let end = stamps.visible.iter().copied().max().unwrap_or(0);
        Self::of((0..plan.len()).map(|c| (stamps.transfer[c], stamps.sent[c])), end, pieces)
    }

    fn of(spans: impl Iterator<Item = (Picos, Picos)>, end: Picos, pieces: usize) -> Self {
        let piece = end.div_ceil(pieces as Picos).max(1);
        let mut busy = vec![0u64; pieces];
        for (start, end) in spans {
            let mut at = start;
            while at < end {
                let index = (at / piece) as usize;
                let next = end.min((at / piece + 1) * piece);
                busy[index.min(pieces - 1)] += next - at;
                at = next;
            }
        }
        let active = busy.into_iter().map(|busy| busy as f64 / piece as f64).collect();
        Self { piece, active }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Path, Start};
    use crate::{Config, MICRO};

    #[test]
    fn two_reads_of_one_channel_share_its_time() {
        let path = Path::default();
        let machine = Machine::new(&Config::paper(), path).unwrap();
        let plan = Plan::of_reads(&[0, 1], 4000);
        let mut engine = Engine::new(machine);
        engine.run(&plan, &Start::default());
        let latency = Latency::of(engine.stamps(), &plan, engine.machine());
        assert_eq!((latency.sense.mean, latency.transfer.p99), (3 * MICRO, 5 * MICRO));
        assert_eq!((latency.after_flash.mean, latency.before_flash.p99), (2_500_000, 0));
        // 13 us in 13 pieces: both dies sense in the first three, the channel sends in the rest.
        let dies = Curve::of_dies(engine.stamps(), &plan, engine.machine(), 13);
        assert_eq!((dies.piece, &dies.active[..4]), (MICRO, &[2.0, 2.0, 2.0, 0.0][..]));
        let channels = Curve::of_channels(engine.stamps(), &plan, 13);
        assert_eq!(channels.active.iter().sum::<f64>(), 10.0);
        assert_eq!(channels.active[2..4], [0.0, 1.0]);
    }
}
