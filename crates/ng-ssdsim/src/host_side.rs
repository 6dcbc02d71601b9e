//! The host's part of a batch: what it is sent, what its processor and its storage stack take, and
//! when a batch is where it is computed.
//!
//! A batch that is alone has its hops in flash, its transfers and its visits of the host one after
//! the other, as the publication adds them. Batches side by side have the same parts, hop by hop,
//! in the engine, where they wait for each other at the link and at the host's cores.

use crate::config::Config;
use crate::crowd::Crowd;
use crate::engine::{End, Machine, Outcome, Pcie, Round};
use crate::layout::Layout;
use crate::plan::Plan;
use crate::platform::{COALESCED, Platform, ToHost};
use crate::simulate::Shares;
use crate::time::{Picos, from_ns};

/// Times that no order of events could go below, and what each is of.
pub(crate) type Bounds = Vec<(Picos, &'static str)>;

/// The host and its link.
pub(crate) struct HostSide<'a> {
    pub config: &'a Config,
    pub platform: Platform,
    pub layout: &'a Layout,
    pub crowd: &'a Crowd,
    pub link: Pcie,
}

/// The host's part of one of several batches.
pub(crate) struct HostWork {
    /// After each of its hops, or after all of it.
    pub rounds: Vec<Round>,
    /// Over the link.
    pub wire_bytes: u64,
    paged: Paged,
}

/// What pages take that come to the host one by one, without waiting.
#[derive(Clone, Copy, Default)]
struct Paged {
    host: Picos,
    link: Picos,
    /// From issue to result, all of them one after the other.
    latency: Picos,
}

/// Batches where they are computed.
pub(crate) struct Prepared {
    /// When the last of them was there.
    pub time: Picos,
    /// Of that one, where its time went; computing is not in it.
    pub shares: Shares,
    pub bounds: Bounds,
}

impl HostSide<'_> {
    /// What lies between the hops of a batch that is alone, where the host takes part in each: ids
    /// up, the stack, ids down.
    pub fn rounds_between(&self, visits: &[u64]) -> Vec<Round> {
        if self.platform.to_host != ToHost::Ids {
            return Vec::new();
        }
        let stack = self.stack();
        visits[1..].iter().map(|&found| self.round(&[self.ids(found)], 0, stack)).collect()
    }

    /// The bytes on the wire for a batch that is alone.
    pub fn wire_bytes(&self, plan: &Plan, visits: &[u64]) -> u64 {
        self.sent(plan, visits).iter().map(|&bytes| self.link.wire_bytes(bytes)).sum()
    }

    /// Flash, PCIe and host of a batch that was alone in the device.
    pub fn alone(
        &self,
        plan: &Plan,
        visits: &[u64],
        rounds: &[Round],
        outcome: &Outcome,
        machine: &Machine,
    ) -> Prepared {
        let hops = visits.len() - 1;
        let paged = self.paged(machine, plan);
        // Without rows, the last hop reads nothing that its round could precede.
        let between = rounds.iter().take(outcome.hops.len().saturating_sub(1));
        let waited: Picos = between.map(Round::alone).sum();
        // What overlaps is in the time of the reads already.
        let sent = if self.platform.overlaps { Vec::new() } else { self.sent(plan, visits) };
        let pcie: Picos = sent.iter().map(|&bytes| self.transfer(bytes)).sum();
        let stacks = self.stacks(visits[0], hops) * self.stack();
        let shares = Shares {
            host: stacks + self.serving(self.served(plan, hops)) + paged.host,
            flash: outcome.makespan - waited - paged.host - paged.link,
            pcie: pcie + paged.link,
            compute: 0,
        };
        let mut bounds = vec![(shares.pcie, "PCIe"), (shares.host, "host")];
        bounds.extend((paged.latency > 0).then_some((paged.latency, "latency")));
        Prepared { time: shares.host + shares.flash + shares.pcie, shares, bounds }
    }

    /// The host's part of one of several batches.
    pub fn work(&self, plan: &Plan, visits: &[u64], machine: &Machine) -> HostWork {
        let mut rounds = self.rounds(plan, visits);
        // Whatever follows the last hop that reads anything is one.
        let reads = if self.platform.barrier { plan.hops().max(1) } else { 1 };
        let tail = rounds.split_off(reads.min(rounds.len()));
        if let Some(last) = rounds.last_mut() {
            for round in tail {
                (last.up, last.down) = (last.up + round.up, last.down + round.down);
                (last.cores, last.stack) = (last.cores + round.cores, last.stack + round.stack);
            }
        }
        let wire_bytes = self.wire_bytes(plan, visits);
        HostWork { rounds, wire_bytes, paged: self.paged(machine, plan) }
    }

    /// Flash, PCIe and host of that of several batches which was there last.
    pub fn side_by_side(
        &self,
        works: &[HostWork],
        rounds: &[Vec<Round>],
        ends: &[End],
    ) -> Prepared {
        let last = works.iter().zip(ends).max_by_key(|(_, end)| end.time);
        let shares = last.map_or_else(Shares::default, |(work, end)| {
            let (host, pcie) = (end.host + work.paged.host, end.link + work.paged.link);
            Shares { host, pcie, flash: end.time - host - pcie, compute: 0 }
        });
        let each = |of: fn(&Round) -> Picos| {
            let sums = rounds.iter().map(move |rounds| rounds.iter().map(of).sum::<Picos>());
            sums.fold((0, 0), |(sum, most), time| (sum + time, most.max(time)))
        };
        let (up, down) = (each(|round| round.up).0, each(|round| round.down).0);
        let both_ways = each(|round| round.up + round.down).1;
        let (cores, host) =
            (each(|round| round.cores).0, each(|round| round.cores + round.stack).1);
        let latency = works.iter().map(|work| work.paged.latency).max().unwrap_or(0);
        let bounds = vec![
            (up.max(down).max(both_ways), "PCIe"),
            (cores.max(host), "host"),
            (latency, "latency"),
        ];
        Prepared { time: shares.host + shares.flash + shares.pcie, shares, bounds }
    }

    /// All visits of the host, where several batches have theirs: after each hop, or after all.
    fn rounds(&self, plan: &Plan, visits: &[u64]) -> Vec<Round> {
        let (last, stack) = (visits.len() - 1, self.stack());
        if self.platform.reads_in_chains() {
            return Vec::new();
        }
        if !self.platform.barrier {
            let stacks = self.stacks(visits[0], last) * stack;
            return vec![self.round(&self.sent(plan, visits), 0, stacks)];
        }
        let mut read = vec![(0, 0); visits.len()];
        for (&hop, &bytes) in plan.hop.iter().zip(&plan.bytes) {
            let of = &mut read[usize::from(hop)];
            *of = (of.0 + 1, of.1 + u64::from(bytes));
        }
        let of_hop = |(hop, &(pages, bytes)): (usize, &(u64, u64))| {
            let sent = self.sent_after(hop, visits, pages, bytes);
            let is_served = self.serves() && (hop < last || !self.leaves_last_pages());
            let stack = if hop < last { stack } else { 0 };
            self.round(&sent, if is_served { pages } else { 0 }, stack)
        };
        read.iter().enumerate().map(of_hop).collect()
    }

    /// Bytes of each transfer to the host after a hop that read these pages and bytes.
    fn sent_after(&self, hop: usize, visits: &[u64], pages: u64, bytes: u64) -> Vec<u64> {
        let (last, nodes) = (visits.len() - 1, visits[hop]);
        let row = u64::from(self.layout.feature_bytes());
        let ids_and_rows = self.ids(nodes) + nodes * row;
        match self.platform.to_host {
            ToHost::Pages if !self.platform.overlaps => vec![bytes],
            ToHost::PagesThenIdsAndRows => vec![bytes, ids_and_rows],
            ToHost::PagesAndLastRows if hop == last => vec![nodes * row],
            ToHost::PagesAndLastRows => vec![pages * u64::from(self.layout.page_bytes())],
            ToHost::IdsAndRows => vec![ids_and_rows],
            ToHost::Ids if hop < last => vec![self.ids(visits[hop + 1])],
            ToHost::Pages | ToHost::Ids | ToHost::Results | ToHost::Nothing => Vec::new(),
        }
    }

    fn round(&self, sent: &[u64], pages: u64, stack: Picos) -> Round {
        let up = sent.iter().map(|&bytes| self.link.time_of(bytes)).sum();
        let down = if self.is_answered() { up } else { 0 };
        Round { up, cores: self.serving(pages), stack, down }
    }

    fn paged(&self, machine: &Machine, plan: &Plan) -> Paged {
        let mut found = Paged::default();
        if self.platform.reads_in_chains() {
            for (command, &bytes) in plan.bytes.iter().enumerate() {
                let (host, link) = machine.host_and_link(u64::from(bytes));
                (found.host, found.link) = (found.host + host, found.link + link);
                found.latency += machine.alone(plan, command);
            }
        }
        found
    }

    fn stack(&self) -> Picos {
        from_ns(self.config.host.stack_ns)
    }

    /// Visits of the stack that a batch makes, but for those of pages that come one by one.
    fn stacks(&self, targets: u64, hops: usize) -> u64 {
        match self.platform {
            platform if platform.name == COALESCED => self.crowd.commands(targets),
            platform if platform.reads_in_chains() => 0,
            platform if platform.to_host == ToHost::Results => 1,
            _ => hops as u64,
        }
    }

    fn ids(&self, count: u64) -> u64 {
        count * u64::from(self.config.payload.id_bytes)
    }

    /// Whether the host sends something back for each transfer, which takes time.
    fn is_answered(&self) -> bool {
        let answered = matches!(self.platform.to_host, ToHost::Ids | ToHost::Results);
        self.config.pcie.both_directions && answered
    }

    /// The time of a transfer to the host, and of the answer where that takes time.
    fn transfer(&self, bytes: u64) -> Picos {
        let once = self.link.time_of(bytes);
        if self.is_answered() { 2 * once } else { once }
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
            ToHost::Nothing => Vec::new(),
        }
    }

    /// Whether pages cost the host's cores something in a round; beside the reads it is in their
    /// time.
    fn serves(&self) -> bool {
        match self.platform.to_host {
            ToHost::Pages => !self.platform.overlaps,
            ToHost::PagesThenIdsAndRows | ToHost::PagesAndLastRows => true,
            _ => false,
        }
    }

    /// Whether the pages of the last hop stay in the SSD.
    fn leaves_last_pages(&self) -> bool {
        self.platform.to_host == ToHost::PagesAndLastRows
    }

    /// Pages that cost the host's cores something.
    fn served(&self, plan: &Plan, last: usize) -> u64 {
        match (self.serves(), self.leaves_last_pages()) {
            (false, _) => 0,
            (true, false) => plan.len() as u64,
            (true, true) => pages_before(plan, last),
        }
    }

    /// The time of all cores of the host for pages that come.
    fn serving(&self, pages: u64) -> Picos {
        let host = &self.config.host;
        pages * from_ns(host.io_ns) / u64::from(host.cores)
    }
}

/// Pages of the hops before the last.
fn pages_before(plan: &Plan, last: usize) -> u64 {
    plan.hop.iter().filter(|&&hop| usize::from(hop) < last).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Start};
    use crate::planning::plan;
    use crate::simulate::visits;
    use crate::{DATASETS, Format, MORE_PLATFORMS, PLATFORMS, Placement};

    /// A batch whose rounds are between its hops, beside one that reads nothing, and the same batch
    /// whose times are added up.
    #[test]
    fn hop_by_hop_a_batch_takes_what_its_parts_add_up_to() {
        let has_ssd = |platform: &Platform| platform.to_host != ToHost::Nothing;
        let crowd = Crowd { targets_per_command: 5, ..Crowd::default() };
        for (config, row_bytes) in [(Config::paper(), 400), (Config::detailed(), 400)]
            .into_iter()
            .chain([(Config::paper(), 0), (Config::detailed(), 0)])
        {
            let trace = DATASETS[1].trace(1, 16, &[4, 3], 7);
            for platform in PLATFORMS.into_iter().chain(MORE_PLATFORMS).filter(has_ssd) {
                let placement = Placement::Random(3);
                let layout = Layout::new(Format::Csr, &config, row_bytes, 300.0, placement);
                let link = Pcie::new(&config);
                let host =
                    HostSide { config: &config, platform, layout: &layout, crowd: &crowd, link };
                let plan = plan(&trace, 0, &layout, &config.payload, platform.asked());
                let visits = visits(&trace, 0..1);
                let machine = Machine::new(&config, platform.path()).expect("a device");
                let mut engine = Engine::new(machine);
                let between = [host.rounds_between(&visits)];
                let outcome = engine.run(&plan, &Start { rounds: &between, ..Start::default() });
                let alone = host.alone(&plan, &visits, &between[0], &outcome, engine.machine());
                let mut work = host.work(&plan, &visits, engine.machine());
                let rounds = [std::mem::take(&mut work.rounds), Vec::new()];
                engine.run(&plan, &Start { rounds: &rounds, ..Start::default() });
                let beside = host.side_by_side(&[work], &rounds[..1], &engine.ends()[..1]);
                let (one, two) = (alone.shares, beside.shares);
                // A transfer for each hop is rounded by itself, up to a unit of the link.
                let unit = link.time_of(u64::from(config.pcie.unit_bytes));
                let name = format!("{} with rows of {row_bytes} bytes", platform.name);
                assert!(one.host.abs_diff(two.host) <= 3, "{name}: {one:?} {two:?}");
                assert_eq!(one.flash, two.flash, "{name}");
                assert!(two.pcie.abs_diff(one.pcie) <= 3 * unit, "{name}: {one:?} {two:?}");
                assert_eq!(beside.time, two.host + two.flash + two.pcie);
            }
        }
    }
}
