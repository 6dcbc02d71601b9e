//! A platform on a trace: batches planned, run, computed, and what they took.
//!
//! Every batch starts on an empty device; with a pipeline the flash prepares a batch while the
//! accelerator computes the one before.

use std::ops::Range;

use ng_types::Trace;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::accelerator::{Computing, Model, WidthError, Work};
use crate::config::{Config, ConfigError};
use crate::energy::{Activity, Joules};
use crate::engine::{Audit, COMMANDS_MAX, Engine, Machine, Outcome, Pcie, Start};
use crate::host::HostError;
use crate::layout::{Layout, LayoutError};
use crate::plan::Plan;
use crate::planning::plan;
use crate::platform::{COALESCED, Platform, ToHost, UnknownPlatform};
use crate::reuse::{Pages, Reuse};
use crate::summary::{Curve, Latency};
use crate::time::{Picos, from_ns, to_seconds};

/// Pieces of a batch's time in its curves.
const PIECES: usize = 100;

/// Why nothing was simulated.
#[derive(Debug, Error, Clone, PartialEq)]
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
    /// The host was not measured.
    #[error(transparent)]
    Host(#[from] HostError),
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
    /// The model cannot be.
    #[error(transparent)]
    Model(#[from] WidthError),
    /// A batch that takes longer than can be counted.
    #[error(
        "a batch would take up to {seconds:.0} s, and at most {SECONDS_MAX} s can be simulated; \
         look for a rate that is too low, or use smaller batches"
    )]
    TooLong {
        /// One command after the other, and then the accelerator.
        seconds: f64,
    },
    /// Workers for a platform that has none.
    #[error(
        "{what}: only {COALESCED} has 1 to {WORKERS_MAX} workers and commands for many targets"
    )]
    Crowd {
        /// What was asked for.
        what: String,
    },
    /// Reuse on a platform that has no whole pages, or no hops.
    #[error(
        "{platform}: merged, grouped (1 to 1024) and cached pages are for platforms that read \
         whole pages hop by hop: CC, CC-pipe, FPGA-CSD, SmartSage, GList, BG-1"
    )]
    Reuse {
        /// Which.
        platform: &'static str,
    },
    /// A batch that takes no time.
    #[error(
        "a batch reads and computes nothing; record one whose targets have neighbours or features"
    )]
    Nothing,
    /// There is nothing to simulate.
    #[error("the trace has no batches; record some, or name more targets")]
    Empty,
}

/// A batch takes so long at most; its picoseconds fit into 63 bits many times over.
const SECONDS_MAX: f64 = 1e5;

/// Workers that share a device, at most.
const WORKERS_MAX: u32 = 64;

/// Who works at the same time on [`COALESCED`] (SmartSAGE, section VI).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Crowd {
    /// Batches in the device at the same time, each of a worker of its own.
    pub workers: u32,
    /// Targets that one command to the SSD asks for; 0 is a whole batch.
    pub targets_per_command: u32,
}

impl Default for Crowd {
    fn default() -> Self {
        Self { workers: 1, targets_per_command: 0 }
    }
}

impl Crowd {
    fn check(&self, platform: Platform) -> Result<(), SimulateError> {
        let is_one = *self == Self::default();
        if is_one || platform.name == COALESCED && (1..=WORKERS_MAX).contains(&self.workers) {
            return Ok(());
        }
        let Self { workers, targets_per_command } = self;
        let what = format!(
            "{} with {workers} workers and {targets_per_command} targets a command",
            platform.name
        );
        Err(SimulateError::Crowd { what })
    }

    /// Commands from the host for a batch.
    fn commands(&self, targets: u64) -> u64 {
        match self.targets_per_command {
            0 => 1,
            some => targets.div_ceil(u64::from(some)),
        }
    }
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
    /// Where the accelerator's time goes.
    pub computing: Computing,
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
    /// The lowest interval that any order of events could have, and which server it is.
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

/// Runs all batches of a trace on a platform; those that workers have at the same time are one
/// entry of the result.
pub fn simulate(
    trace: &Trace,
    layout: &Layout,
    config: &Config,
    platform: Platform,
    model: &Model,
    crowd: &Crowd,
    reuse: &Reuse,
) -> Result<Run, SimulateError> {
    trace.check()?;
    model.check()?;
    crowd.check(platform)?;
    if !reuse.is_possible(platform) {
        return Err(SimulateError::Reuse { platform: platform.name });
    }
    if trace.batches() == 0 {
        return Err(SimulateError::Empty);
    }
    let machine = Machine::new(config, platform.path())?;
    let link = Pcie::new(config);
    let pages = Pages::new(reuse);
    let mut simulation = Simulation { config, platform, model, layout, link, trace, crowd, pages };
    let mut engine = Engine::new(machine);
    // Only one of the two is ever more than 1.
    let together = crowd.workers.max(reuse.grouped) as usize;
    let batches = (0..trace.batches()).step_by(together).map(|first| {
        let last = trace.batches().min(first + together);
        simulation.batches(&mut engine, first..last)
    });
    Ok(Run { platform, batches: batches.collect::<Result<_, _>>()? })
}

struct Simulation<'a> {
    config: &'a Config,
    platform: Platform,
    model: &'a Model,
    layout: &'a Layout,
    link: Pcie,
    trace: &'a Trace,
    crowd: &'a Crowd,
    pages: Pages,
}

impl Simulation<'_> {
    fn batches(
        &mut self,
        engine: &mut Engine,
        batches: Range<usize>,
    ) -> Result<BatchRun, SimulateError> {
        let plan = self.plan(batches.clone());
        let plan = self.pages.of(plan);
        if plan.len() >= COMMANDS_MAX {
            let (commands, most) = (plan.len(), COMMANDS_MAX - 1);
            return Err(SimulateError::TooLarge { commands, most });
        }
        let visits = visits(self.trace, batches.clone());
        let work = Work::of_batch(self.model, &visits);
        let inside = self.platform.computes_inside();
        let array = if inside { &self.config.accelerator } else { &self.config.discrete };
        let computing = array.computing(&work);
        let compute = computing.total();
        let seconds = engine.machine().one_by_one(&plan) + to_seconds(compute);
        if seconds > SECONDS_MAX {
            return Err(SimulateError::TooLong { seconds });
        }
        let rounds = self.rounds(&visits);
        let outcome = engine.run(&plan, &Start { rounds: &rounds, ..Start::default() });
        let stamps = engine.stamps();
        let sent = self.sent(&plan, &visits);
        let targets = visits[0] / batches.len() as u64;
        let mut shares = self.shares(&outcome, &sent, &rounds, (targets, visits.len() - 1));
        shares.host += self.serving(&plan, visits.len() - 1);
        shares.compute = compute;
        let crowded = self.crowd.workers > 1 && batches.len() > 1;
        let preparation = shares.host + shares.flash + shares.pcie;
        let interval = interval(inside || crowded, preparation, shares.compute);
        if interval == 0 {
            return Err(SimulateError::Nothing);
        }
        let joules = Joules::of(
            self.config,
            &Activity {
                plan: &plan,
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
            bound: bound(&plan, engine.machine(), &shares),
            latency: Latency::of(stamps, &plan, engine.machine()),
            dies: Curve::of_dies(stamps, &plan, engine.machine(), PIECES),
            channels: Curve::of_channels(stamps, &plan, PIECES),
            joules,
            computing,
            shares,
            outcome,
        })
    }

    fn plan(&self, batches: Range<usize>) -> Plan {
        let asked = self.platform.asked();
        let of = |batch| plan(self.trace, batch, self.layout, &self.config.payload, asked);
        if batches.len() == 1 {
            return of(batches.start);
        }
        Plan::joined(&batches.map(of).collect::<Vec<_>>())
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
        let last = visits.len() - 1;
        let pages = || plan.bytes.iter().map(|&bytes| u64::from(bytes)).sum();
        let rows = || visits.iter().map(|&n| self.ids(n) + n * row);
        match self.platform.to_host {
            ToHost::Results => vec![self.ids(visits[0])],
            ToHost::Ids => visits[1..].iter().map(|&found| self.ids(found)).collect(),
            ToHost::Pages => vec![pages()],
            ToHost::PagesThenIdsAndRows => std::iter::once(pages()).chain(rows()).collect(),
            ToHost::PagesAndLastRows => {
                vec![pages_before(plan, last) * page, visits[last] * row]
            }
            ToHost::IdsAndRows => rows().collect(),
        }
    }

    /// The host's cores for the pages that come one by one; beside the reads it is in their time.
    fn serving(&self, plan: &Plan, last: usize) -> Picos {
        let pages = match self.platform.to_host {
            ToHost::Pages if !self.platform.overlaps => plan.len() as u64,
            ToHost::PagesThenIdsAndRows => plan.len() as u64,
            ToHost::PagesAndLastRows => pages_before(plan, last),
            _ => 0,
        };
        let host = &self.config.host;
        pages * from_ns(host.io_ns) / u64::from(host.cores)
    }

    /// Flash, PCIe and host one after the other, as the publication adds them.
    fn shares(
        &self,
        outcome: &Outcome,
        sent: &[u64],
        rounds: &[Picos],
        (targets, hops): (u64, usize),
    ) -> Shares {
        let stack = from_ns(self.config.host.stack_ns);
        let stacks = match self.platform {
            // Workers send theirs side by side.
            platform if platform.name == COALESCED => self.crowd.commands(targets),
            platform if platform.to_host == ToHost::Results => 1,
            _ => hops as u64,
        };
        // Without rows, the last hop reads nothing that its round could precede.
        let waited: Picos = rounds.iter().take(outcome.hops.len().saturating_sub(1)).sum();
        // What overlaps is in the time of the reads already.
        let transfers = if self.platform.overlaps { &[] } else { sent };
        Shares {
            host: stacks * stack,
            flash: outcome.makespan - waited,
            pcie: transfers.iter().map(|&bytes| self.transfer(bytes)).sum(),
            compute: 0,
        }
    }
}

/// Pages of the hops before the last.
fn pages_before(plan: &Plan, last: usize) -> u64 {
    plan.hop.iter().filter(|&&hop| usize::from(hop) < last).count() as u64
}

/// Nodes of some batches by hop.
pub(crate) fn visits(trace: &Trace, batches: Range<usize>) -> Vec<u64> {
    let mut visits = vec![0];
    for &hop in batches.flat_map(|batch| &trace.hop[trace.entries_of(batch)]) {
        visits.resize(visits.len().max(usize::from(hop) + 1), 0);
        visits[usize::from(hop)] += 1;
    }
    visits
}

/// Time between batches when many follow each other.
fn interval(pipelined: bool, preparation: Picos, compute: Picos) -> Picos {
    if pipelined { preparation.max(compute) } else { preparation + compute }
}

/// The largest closed form: no order of events is quicker than its busiest server.
fn bound(plan: &Plan, machine: &Machine, shares: &Shares) -> (Picos, &'static str) {
    let beside = [(shares.pcie, "PCIe"), (shares.host, "host"), (shares.compute, "accelerator")];
    let all = machine.bounds(plan).into_iter().chain(beside);
    all.max_by_key(|(time, _)| *time).unwrap_or((0, "nothing"))
}
