//! The requests of a host on a simulated SSD that computes nothing: what the same reads would take
//! if the disk under them were this one.
//!
//! The caller supplies the requests in order, for example those of a watched loader. They are
//! submitted in that order, with a fixed number in flight.

use serde::Serialize;

use crate::config::{Config, ConfigError};
use crate::engine::{COMMANDS_MAX, Engine, Machine, Outcome, Path, Start};
use crate::layout::Stripes;
use crate::plan::{Plan, flag};
use crate::simulate::SimulateError;
use crate::time::Picos;

/// Pages side by side that a host asks for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The first one, counted from the start of the device.
    pub page: u64,
    /// How many.
    pub pages: u32,
}

/// What requests took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrdinaryRun {
    /// What the engine counted.
    pub outcome: Outcome,
    /// The lowest makespan that any order of events could have, and which server it is.
    pub bound: (Picos, &'static str),
}

/// The way of a page that its host has asked for.
const WAY: Path = Path {
    firmware: true,
    router: false,
    to_host: true,
    barrier: false,
    stack: false,
    faults: false,
};

/// Makes requests of an ordinary SSD, `depth` at a time.
///
/// # Errors
/// The device cannot be, or the requests are more pages than a run can tell apart.
pub fn run_requests(
    config: &Config,
    requests: &[Request],
    depth: u32,
) -> Result<OrdinaryRun, SimulateError> {
    let pages: usize = requests.iter().map(|request| request.pages as usize).sum();
    if pages >= COMMANDS_MAX {
        return Err(SimulateError::TooLarge { commands: pages, most: COMMANDS_MAX - 1 });
    }
    let machine = machine(config)?;
    let plan = plan(config, requests, pages);
    let mut engine = Engine::new(machine);
    let outcome = engine.run(&plan, &Start { depth: depth.max(1), ..Start::default() });
    let bounds = engine.machine().bounds(&plan).into_iter();
    let bound = bounds.max_by_key(|(time, _)| *time).unwrap_or((0, "nothing"));
    Ok(OrdinaryRun { outcome, bound })
}

fn machine(config: &Config) -> Result<Machine, ConfigError> {
    Machine::new(config, WAY)
}

fn plan(config: &Config, requests: &[Request], pages: usize) -> Plan {
    let stripes = Stripes::new(&config.flash);
    let mut plan = Plan::of_reads(&vec![0; pages], config.flash.page_bytes);
    let mut command = 0;
    for (number, request) in (0..).zip(requests) {
        for at in 0..u64::from(request.pages) {
            let address = stripes.address(request.page.wrapping_add(at));
            (plan.die[command], plan.row[command]) = (address.die, address.row);
            (plan.plane[command], plan.entry[command]) = (address.plane, number);
            plan.sense.extend(stripes.sense_of(&address));
            if at > 0 {
                plan.flags[command] |= flag::JOINED;
            }
            command += 1;
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MICRO, Picos};

    fn run(config: &Config, requests: &[Request], depth: u32) -> OrdinaryRun {
        run_requests(config, requests, depth).expect("a run")
    }

    /// A core, a sense, the channel, the link.
    const LONE: Picos = 200_000 + 3 * MICRO + 5 * MICRO + 500_000;

    #[test]
    fn one_at_a_time_takes_as_long_as_each_of_them() {
        let config = Config::paper();
        let requests: Vec<_> = (0..50).map(|page| Request { page: page * 7, pages: 1 }).collect();
        assert_eq!(run(&config, &requests, 1).outcome.makespan, 50 * LONE);
        // On 16 channels, eight at a time are not in each other's way, but for the link.
        let eight = run(&config, &requests, 8).outcome.makespan;
        assert!(eight > 50 * LONE / 8 && eight < 50 * LONE / 5, "{eight}");
    }

    #[test]
    fn a_long_request_reads_its_pages_together_and_costs_the_host_once() {
        let mut config = Config::paper();
        let long = [Request { page: 0, pages: 16 }];
        // One page a channel: four rounds of four cores, and the link takes one after the other.
        let first = run(&config, &long, 1).outcome;
        assert_eq!(first.makespan, LONE + 15 * 500_000);
        config.host.io_ns = 2_000.0;
        let paid = run(&config, &long, 1).outcome;
        assert_eq!((paid.host_busy, paid.pcie_bytes), (2 * MICRO, 16 * 4000));
        let short: Vec<_> = (0..16).map(|page| Request { page, pages: 1 }).collect();
        assert_eq!(run(&config, &short, 16).outcome.host_busy, 16 * 2 * MICRO);
    }

    #[test]
    fn deep_queues_reach_the_busiest_server_and_no_run_is_quicker() {
        for config in [Config::paper(), Config::detailed()] {
            let page = |at: u64| at.wrapping_mul(0x9E37_79B9) % (1 << 30);
            let requests: Vec<_> =
                (0..20_000).map(|at| Request { page: page(at), pages: 1 }).collect();
            let mut before = u64::MAX / 103;
            for depth in [1, 4, 16, 64, 256] {
                let found = run(&config, &requests, depth);
                // Once its busiest server is reached, a longer queue gains nothing.
                let most = before.saturating_mul(103) / 100;
                assert!(found.outcome.makespan <= most, "depth {depth}");
                assert!(found.outcome.makespan >= found.bound.0);
                assert_eq!((found.outcome.issued, found.outcome.completed), (20_000, 20_000));
                before = found.outcome.makespan;
            }
            let bound = run(&config, &requests, 256).bound;
            assert!((before as f64) < 1.15 * bound.0 as f64, "{before} {bound:?}");
        }
    }
}
