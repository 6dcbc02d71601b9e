//! A platform on a trace: batches planned, run, computed, and what they took.
//!
//! Every batch starts on an empty device; with a pipeline the flash prepares a batch while the
//! accelerator computes the one before.

use ng_types::Trace;
use serde::Serialize;
use thiserror::Error;

use crate::accelerator::{Model, Work};
use crate::config::{Config, ConfigError};
use crate::energy::{Activity, Joules};
use crate::engine::{Audit, COMMANDS_MAX, Engine, Machine, Outcome, Pcie, Start};
use crate::layout::{Layout, LayoutError};
use crate::plan::Plan;
use crate::planning::plan;
use crate::platform::{Platform, ToHost, UnknownPlatform};
use crate::summary::{Curve, Latency};
use crate::time::{Picos, from_ns, to_seconds};

/// Pieces of a batch's time in its curves.
const PIECES: usize = 100;

/// Why nothing was simulated.
#[derive(Debug, Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum SimulateError {
    /// The device cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The graph does not fit it.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The trace is damaged.
    #[error(transparent)]
    Trace(#[from] ng_types::TraceError),
    /// There is no such platform.
    #[error(transparent)]
    Platform(#[from] UnknownPlatform),
    /// A batch has more commands than a run can tell apart.
    #[error("a batch reads {commands} pages, at most {most} can be simulated; use smaller batches")]
    TooLarge {
        /// Commands of the batch.
        commands: usize,
        /// As many as can be.
        most: usize,
    },
    /// There is nothing to simulate.
    #[error("the trace has no batches; record some, or name more targets")]
    Empty,
}

/// Where the time of a batch goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// The host's stack and processor.
    pub host: Picos,
    /// From the first command of a hop to its last result.
    pub flash: Picos,
    /// Between SSD and host.
    pub pcie: Picos,
    /// The accelerator.
    pub compute: Picos,
}

/// One batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchRun {
    /// Targets of it.
    pub targets: u64,
    /// Until all data are where they are computed on.
    pub preparation: Picos,
    /// Until the next batch may follow.
    pub interval: Picos,
    /// Where the time goes.
    pub shares: Shares,
    /// What the engine counted.
    pub outcome: Outcome,
    /// What must be zeros.
    pub audit: Audit,
    /// What it costs.
    pub joules: Joules,
    /// How long commands wait and are served.
    pub latency: Latency,
    /// Dies that sense, over time.
    pub dies: Curve,
    /// Channels that send, over time.
    pub channels: Curve,
    /// The lowest makespan that any order of events could have, and which server it is.
    pub bound: (Picos, &'static str),
}

/// A platform on a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Which.
    pub platform: Platform,
    /// Batch by batch.
    pub batches: Vec<BatchRun>,
}

impl Run {
    /// Targets a second, batch after batch.
    pub fn targets_per_s(&self) -> f64 {
        let targets: u64 = self.batches.iter().map(|batch| batch.targets).sum();
        let time: Picos = self.batches.iter().map(|batch| batch.interval).sum();
        targets as f64 / to_seconds(time)
    }

    /// Targets a joule.
    pub fn targets_per_joule(&self) -> f64 {
        let targets: u64 = self.batches.iter().map(|batch| batch.targets).sum();
        let joules: f64 = self.batches.iter().map(|batch| batch.joules.total()).sum();
        targets as f64 / joules
    }
}

/// Runs all batches of a trace on a platform.
pub fn simulate(
    trace: &Trace,
    layout: &Layout,
    config: &Config,
    platform: Platform,
    model: &Model,
) -> Result<Run, SimulateError> {
    trace.check()?;
    if trace.batches() == 0 {
        return Err(SimulateError::Empty);
    }
    let machine = Machine::new(config, platform.path(false))?;
    let mut simulation =
        Simulation { config, platform, model, layout, link: Pcie::new(config), trace };
    let mut engine = Engine::new(machine);
    let batches = (0..trace.batches()).map(|batch| simulation.batch(&mut engine, batch));
    Ok(Run { platform, batches: batches.collect::<Result<_, _>>()? })
}

struct Simulation<'a> {
    config: &'a Config,
    platform: Platform,
    model: &'a Model,
    layout: &'a Layout,
    link: Pcie,
    trace: &'a Trace,
}

impl Simulation<'_> {
    fn batch(&mut self, engine: &mut Engine, batch: usize) -> Result<BatchRun, SimulateError> {
        let asked = self.platform.asked();
        let plan = plan(self.trace, batch, self.layout, &self.config.payload, asked);
        if plan.len() >= COMMANDS_MAX {
            let (commands, most) = (plan.len(), COMMANDS_MAX - 1);
            return Err(SimulateError::TooLarge { commands, most });
        }
        let visits = self.visits(batch);
        let rounds = self.rounds(&visits);
        let outcome = engine.run(&plan, &Start { rounds: &rounds, ..Start::default() });
        let stamps = engine.stamps();
        let sent = self.sent(&plan, &visits);
        let mut shares = self.shares(&outcome, &sent, &rounds);
        let work = Work::of_batch(self.model, &visits);
        let inside = self.platform.computes_inside();
        let array = if inside { &self.config.accelerator } else { &self.config.discrete };
        shares.compute = array.time_of(&work);
        let preparation = shares.host + shares.flash + shares.pcie;
        let interval = interval(inside, preparation, shares.compute);
        let joules = Joules::of(
            self.config,
            &Activity {
                plan: &plan,
                stamps,
                outcome: &outcome,
                dies: u64::from(self.config.dies()),
                time: interval,
                host_bytes: sent.iter().map(|&bytes| self.link.wire_bytes(bytes)).sum(),
                computes_outside: !inside,
                array,
                work: &work,
                computing: shares.compute,
                routed: !self.platform.firmware,
            },
        );
        Ok(BatchRun {
            targets: visits[0],
            preparation,
            interval,
            audit: stamps.audit(&plan, engine.machine()),
            bound: bound(&plan, engine.machine()),
            latency: Latency::of(stamps, &plan, engine.machine()),
            dies: Curve::of_dies(stamps, &plan, engine.machine(), PIECES),
            channels: Curve::of_channels(stamps, &plan, PIECES),
            joules,
            shares,
            outcome,
        })
    }

    /// Nodes by hop.
    fn visits(&self, batch: usize) -> Vec<u64> {
        let hops = &self.trace.hop[self.trace.entries_of(batch)];
        let mut visits = vec![0; hops.iter().max().map_or(1, |&last| usize::from(last) + 1)];
        for &hop in hops {
            visits[usize::from(hop)] += 1;
        }
        visits
    }

    /// What lies between hops where the host takes part in each: ids up, the stack, ids down.
    fn rounds(&self, visits: &[u64]) -> Vec<Picos> {
        if self.platform.to_host != ToHost::Ids {
            return Vec::new();
        }
        let stack = from_ns(self.config.host.stack_ns);
        visits[1..].iter().map(|&found| self.transfer(self.ids(found)) + stack).collect()
    }

    fn ids(&self, count: u64) -> u64 {
        count * u64::from(self.config.payload.id_bytes)
    }

    /// The time of a transfer to the host, and of the answer where that takes time.
    fn transfer(&self, bytes: u64) -> Picos {
        let once = self.link.time_of(bytes);
        let answered = matches!(self.platform.to_host, ToHost::Ids | ToHost::Results);
        if self.config.pcie.both_directions && answered { 2 * once } else { once }
    }

    /// Bytes of each transfer to the host.
    fn sent(&self, plan: &Plan, visits: &[u64]) -> Vec<u64> {
        let row = u64::from(self.layout.feature_bytes());
        let page = u64::from(self.layout.page_bytes());
        let last = plan.hops() as u8 - 1;
        match self.platform.to_host {
            ToHost::Results => vec![self.ids(visits[0])],
            ToHost::Ids => visits[1..].iter().map(|&found| self.ids(found)).collect(),
            ToHost::Pages => vec![plan.len() as u64 * page],
            ToHost::PagesAndLastRows => {
                let lists = plan.hop.iter().filter(|&&hop| hop < last).count() as u64;
                vec![lists * page, visits[usize::from(last)] * row]
            }
            ToHost::IdsAndRows => visits.iter().map(|&n| self.ids(n) + n * row).collect(),
        }
    }

    /// Flash, PCIe and host one after the other, as the publication adds them.
    fn shares(&self, outcome: &Outcome, sent: &[u64], rounds: &[Picos]) -> Shares {
        let stack = from_ns(self.config.host.stack_ns);
        let hops = outcome.hops.len() as u64 - 1;
        let stacks = if self.platform.to_host == ToHost::Results { 1 } else { hops };
        let waited: Picos = rounds.iter().sum();
        Shares {
            host: stacks * stack,
            flash: outcome.makespan - waited,
            pcie: sent.iter().map(|&bytes| self.transfer(bytes)).sum(),
            compute: 0,
        }
    }
}

/// Time between batches when many follow each other.
fn interval(pipelined: bool, preparation: Picos, compute: Picos) -> Picos {
    if pipelined { preparation.max(compute) } else { preparation + compute }
}

/// The largest closed form: no order of events is quicker than its busiest server.
fn bound(plan: &Plan, machine: &Machine) -> (Picos, &'static str) {
    machine.bounds(plan).into_iter().max_by_key(|(time, _)| *time).unwrap_or((0, "nothing"))
}
