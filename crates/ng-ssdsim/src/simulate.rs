//! A platform on a trace: batches planned, run, computed, and what they took.
//!
//! Every batch starts on an empty device; with a pipeline the flash prepares a batch while the
//! accelerator computes the one before.

use std::ops::Range;

use ng_types::Trace;
use serde::Serialize;
use thiserror::Error;

use crate::accelerator::{Computing, Model, WidthError, Work};
use crate::config::{Config, ConfigError};
use crate::crowd::{Crowd, WORKERS_MAX};
use crate::energy::{Activity, Joules};
use crate::engine::{Audit, COMMANDS_MAX, Engine, Machine, Outcome, Pcie, Start};
use crate::host::HostError;
use crate::host_side::{HostSide, HostWork, Prepared};
use crate::in_memory::{InMemory, Load};
use crate::layout::{Layout, LayoutError};
use crate::plan::Plan;
use crate::planning::plan;
use crate::platform::{COALESCED, Platform, UnknownPlatform};
use crate::reuse::{Pages, Reuse};
use crate::summary::{Curve, Latency};
use crate::time::{Picos, to_seconds};

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
    #[error(
        "{commands} pages are read at the same time, more than the {most} that can be simulated; \
         use smaller batches or fewer workers"
    )]
    TooLarge {
        /// Commands of the batches that are in the device together.
        commands: usize,
        /// As many as can be.
        most: usize,
    },
    /// The model cannot be.
    #[error(transparent)]
    Model(#[from] WidthError),
    /// A batch that takes longer than can be counted.
    #[error(
        "a batch would take up to {seconds:.0} s, more than the {SECONDS_MAX} s that can be \
         simulated; check for a rate that is too low, or use smaller batches"
    )]
    TooLong {
        /// One command after the other, and then the accelerator.
        seconds: f64,
    },
    /// A number of workers that cannot be.
    #[error("{workers} is not a valid number of workers: expected 1 to {WORKERS_MAX}")]
    Workers {
        /// How many.
        workers: u32,
    },
    /// Commands for many targets on a platform that has none.
    #[error(
        "{platform} does not support {targets_per_command} targets per command; only {COALESCED} \
         does"
    )]
    Coalescing {
        /// Which.
        platform: &'static str,
        /// Of a command.
        targets_per_command: u32,
    },
    /// Several workers beside something that makes their batches one, or lets them share a cache.
    #[error(
        "{workers} workers cannot be combined with {other}: batches of different workers can \
         neither be grouped nor share a cache"
    )]
    Both {
        /// Batches at the same time.
        workers: u32,
        /// What they cannot have.
        other: String,
    },
    /// Reuse on a platform that has no whole pages, or no hops.
    #[error(
        "{platform} cannot merge page reads, group batches or cache pages; use a platform that \
         reads whole pages hop by hop: CC, CC-pipe, FPGA-CSD, SmartSage, GList, BG-1"
    )]
    Reuse {
        /// Which.
        platform: &'static str,
    },
    /// A batch that takes no time.
    #[error(
        "a batch reads and computes nothing; record a trace whose targets have neighbours or \
         features"
    )]
    Nothing,
    /// There is nothing to simulate.
    #[error("the trace has no batches; record batches, or give more targets")]
    Empty,
}

/// A batch takes so long at most; its picoseconds fit into 63 bits many times over.
const SECONDS_MAX: f64 = 1e5;

/// Where the time of a batch goes; of several at the same time, that of the last to be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// The host's stack and processor, and its memory where that holds the graph.
    pub host: Picos,
    /// From the first command of a hop to its last result, less what of it is the host's and the
    /// link's.
    pub flash: Picos,
    /// Between SSD and host.
    pub pcie: Picos,
    /// The accelerator.
    pub compute: Picos,
}

/// One batch, or those that workers have at the same time.
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
    crowd.check(platform, reuse)?;
    if !reuse.is_possible(platform) {
        return Err(SimulateError::Reuse { platform: platform.name });
    }
    if trace.batches() == 0 {
        return Err(SimulateError::Empty);
    }
    let machine = Machine::new(config, platform.path())?;
    let host = HostSide { config, platform, layout, crowd, link: Pcie::new(config) };
    let pages = Pages::new(reuse);
    let mut simulation = Simulation { host, model, trace, pages };
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
    host: HostSide<'a>,
    model: &'a Model,
    trace: &'a Trace,
    pages: Pages,
}

/// What batches that are in the device together come to, but for computing.
struct Ran {
    plan: Plan,
    outcome: Outcome,
    prepared: Prepared,
    wire_bytes: u64,
    /// From the host's memory, where that holds the graph.
    memory_bytes: Option<u64>,
}

impl Simulation<'_> {
    fn batches(
        &mut self,
        engine: &mut Engine,
        batches: Range<usize>,
    ) -> Result<BatchRun, SimulateError> {
        let HostSide { config, platform, layout, .. } = self.host;
        let visits = self.visits(batches.clone());
        let works: Vec<Work> = visits.iter().map(|of| Work::of_batch(self.model, of)).collect();
        let inside = platform.computes_inside();
        let array = if inside { &config.accelerator } else { &config.discrete };
        let computing: Computing = works.iter().map(|work| array.computing(work)).sum();
        let compute = computing.total();
        let ran = match InMemory::of(platform.access, config, layout.feature_bytes()) {
            Some(memory) => self.of_memory(&memory, batches, compute)?,
            None => self.of_flash(engine, batches, &visits, compute)?,
        };
        let is_pipelined = inside || visits.len() > 1;
        let interval = interval(is_pipelined, ran.prepared.time, compute);
        if interval == 0 {
            return Err(SimulateError::Nothing);
        }
        let activity = Activity {
            commands: ran.plan.len() as u64,
            outcome: &ran.outcome,
            dies: u64::from(config.dies()),
            time: interval,
            host_bytes: ran.wire_bytes,
            memory_bytes: ran.memory_bytes,
            computes_outside: !inside,
            array,
            works: &works,
            computing: compute,
            routed: !platform.firmware,
        };
        let joules = Joules::of(config, &activity);
        Ok(self.summed(engine, ran, &visits, joules, (interval, computing)))
    }

    /// The run of batches with all that is told of it.
    fn summed(
        &self,
        engine: &Engine,
        ran: Ran,
        visits: &[Vec<u64>],
        joules: Joules,
        (interval, computing): (Picos, Computing),
    ) -> BatchRun {
        let Ran { plan, outcome, prepared, .. } = ran;
        let (stamps, machine) = (engine.stamps(), engine.machine());
        let servers = machine.bounds(&plan).into_iter();
        let all = servers.chain(prepared.bounds).chain([(computing.total(), "accelerator")]);
        BatchRun {
            targets: visits.iter().map(|visits| visits[0]).sum(),
            preparation: prepared.time,
            interval,
            audit: stamps.audit(&plan, machine),
            bound: all.max_by_key(|(time, _)| *time).unwrap_or((0, "nothing")),
            latency: Latency::of(stamps, &plan, machine),
            dies: Curve::of_dies(stamps, &plan, machine, PIECES),
            channels: Curve::of_channels(stamps, &plan, PIECES),
            joules,
            computing,
            shares: Shares { compute: computing.total(), ..prepared.shares },
            outcome,
        }
    }

    /// Nodes by hop of each batch, several that are one counted together.
    fn visits(&self, batches: Range<usize>) -> Vec<Vec<u64>> {
        if self.host.crowd.workers == 1 {
            return vec![visits(self.trace, batches)];
        }
        batches.map(|batch| visits(self.trace, batch..batch + 1)).collect()
    }

    /// The commands of each batch, of several that are one together.
    fn plans(&mut self, batches: Range<usize>) -> Vec<Plan> {
        let (trace, layout, payload) = (self.trace, self.host.layout, &self.host.config.payload);
        let asked = self.host.platform.asked();
        let of = |batch| plan(trace, batch, layout, payload, asked);
        let mut plans: Vec<Plan> = batches.map(of).collect();
        if self.host.crowd.workers == 1 && plans.len() > 1 {
            plans = vec![Plan::joined(&plans).into_one_batch()];
        }
        plans.into_iter().map(|plan| self.pages.of(plan)).collect()
    }

    fn of_flash(
        &mut self,
        engine: &mut Engine,
        batches: Range<usize>,
        visits: &[Vec<u64>],
        compute: Picos,
    ) -> Result<Ran, SimulateError> {
        let plans = self.plans(batches);
        let commands = plans.iter().map(Plan::len).sum();
        if commands >= COMMANDS_MAX {
            return Err(SimulateError::TooLarge { commands, most: COMMANDS_MAX - 1 });
        }
        let longest: f64 = plans.iter().map(|plan| engine.machine().one_by_one(plan)).sum();
        within_limit(longest + to_seconds(compute))?;
        Ok(match <[Plan; 1]>::try_from(plans) {
            Ok([plan]) => self.alone(engine, plan, &visits[0]),
            Err(plans) => self.side_by_side(engine, plans, visits),
        })
    }

    fn alone(&self, engine: &mut Engine, plan: Plan, visits: &[u64]) -> Ran {
        let rounds = [self.host.rounds_between(visits)];
        let outcome = engine.run(&plan, &Start { rounds: &rounds, ..Start::default() });
        let prepared = self.host.alone(&plan, visits, &rounds[0], &outcome, engine.machine());
        let wire_bytes = self.host.wire_bytes(&plan, visits);
        Ran { plan, outcome, prepared, wire_bytes, memory_bytes: None }
    }

    fn side_by_side(&self, engine: &mut Engine, plans: Vec<Plan>, visits: &[Vec<u64>]) -> Ran {
        let each = plans.iter().zip(visits);
        let mut works: Vec<HostWork> =
            each.map(|(plan, visits)| self.host.work(plan, visits, engine.machine())).collect();
        let plan = Plan::joined(&plans);
        drop(plans);
        let rounds: Vec<_> =
            works.iter_mut().map(|work| std::mem::take(&mut work.rounds)).collect();
        let outcome = engine.run(&plan, &Start { rounds: &rounds, ..Start::default() });
        let prepared = self.host.side_by_side(&works, &rounds, engine.ends());
        let wire_bytes = works.iter().map(|work| work.wire_bytes).sum();
        Ran { plan, outcome, prepared, wire_bytes, memory_bytes: None }
    }

    fn of_memory(
        &self,
        memory: &InMemory,
        batches: Range<usize>,
        compute: Picos,
    ) -> Result<Ran, SimulateError> {
        let loads: Vec<Load> = batches.map(|batch| memory.load(self.trace, batch)).collect();
        within_limit(memory.seconds(&loads) + to_seconds(compute))?;
        let time = memory.time(&loads);
        let shares = Shares { host: time, ..Shares::default() };
        let prepared = Prepared { time, shares, bounds: vec![(time, "memory")] };
        let bytes = loads.iter().map(|load| load.bytes).sum();
        let (plan, outcome) = (Plan::default(), Outcome::default());
        Ok(Ran { plan, outcome, prepared, wire_bytes: 0, memory_bytes: Some(bytes) })
    }
}

fn within_limit(seconds: f64) -> Result<(), SimulateError> {
    if seconds > SECONDS_MAX { Err(SimulateError::TooLong { seconds }) } else { Ok(()) }
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
