//! This host as it is: an ordinary disk behind io_uring, known by what was measured of it
//! (the platform `CC-uring`).
//!
//! No hop barrier: a read is issued as soon as the one that led to it has been seen, up to the
//! depth of the queue. The disk is a server whose speed depends on how many reads it has, the
//! measured curve of reads a second over depth; the processor takes a fixed time for each read. A
//! page cache, if there is one, gives pages a second chance before it drops them.

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::engine::heap::Heap;
use crate::engine::server::Servers;
use crate::plan::Plan;
use crate::time::{Picos, Rate, SECOND, from_ns};

/// What was measured of a host and its disk.
///
/// ```
/// use ng_ssdsim::MeasuredHost;
/// let host = MeasuredHost {
///     depths: vec![1, 64],
///     reads_per_s: vec![10_000.0, 136_000.0],
///     bytes_per_s: 1.2e9,
///     read_bytes: 4096,
///     cpu_ns_per_read: 2_000.0,
///     cores: 2,
///     depth: 64,
///     cache_pages: 0,
/// };
/// assert!(host.check().is_ok());
/// // 100 us with one read under way, 471 us with 64: 224 us with 22.
/// assert_eq!(host.reads_per_s_at(22).round(), 98_421.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredHost {
    /// Reads in flight at which the disk was measured, ascending from 1.
    pub depths: Vec<u32>,
    /// Random reads a second at each of these depths.
    pub reads_per_s: Vec<f64>,
    /// Of longer reads.
    pub bytes_per_s: f64,
    /// Bytes of one read.
    pub read_bytes: u32,
    /// Of a core, for each read.
    pub cpu_ns_per_read: f64,
    /// Cores that issue reads and look at results.
    pub cores: u32,
    /// Reads that are kept in flight, at most.
    pub depth: u32,
    /// Pages that memory keeps; 0 for none.
    pub cache_pages: u64,
}

/// A measurement that no host gives.
#[derive(Debug, Error, Clone, PartialEq)]
#[error("the measurement of the host is not valid: {what}; repeat it with measure_host")]
pub struct HostError {
    /// What is wrong.
    pub what: String,
}

/// What a batch took on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostOutcome {
    /// From the first read to the last result.
    pub makespan: Picos,
    /// Reads from the disk.
    pub reads: u64,
    /// Reads that the cache answered.
    pub hits: u64,
    /// Time in which at least one read was in flight.
    pub disk_busy: Picos,
    /// Time of cores, together.
    pub core_busy: Picos,
    /// Reads in flight, at most.
    pub depth_max: u32,
    /// Of each hop, when its last result was seen.
    pub hops: Vec<Picos>,
}

impl MeasuredHost {
    /// Names what cannot be.
    pub fn check(&self) -> Result<(), HostError> {
        let error = |what: String| Err(HostError { what });
        if self.depths.is_empty() || self.depths.len() != self.reads_per_s.len() {
            return error(format!(
                "it has {} depths but {} rates",
                self.depths.len(),
                self.reads_per_s.len()
            ));
        }
        if self.depths[0] != 1 || !self.depths.is_sorted_by(|one, two| one < two) {
            return error(format!("depths {:?} are not ascending from 1", self.depths));
        }
        let rates = self.reads_per_s.iter().chain([&self.bytes_per_s]);
        if let Some(rate) = rates.into_iter().find(|rate| !rate.is_finite() || **rate < 10.0) {
            return error(format!("a rate of {rate} per second is below 10"));
        }
        if !(0.0..=1e9).contains(&self.cpu_ns_per_read) {
            return error(format!(
                "{} ns of processor time per read is not valid: expected 0 to 1000000000",
                self.cpu_ns_per_read
            ));
        }
        for (name, value, most) in [
            ("read_bytes", self.read_bytes, 1 << 24),
            ("cores", self.cores, 1 << 10),
            ("depth", self.depth, 1 << 16),
        ] {
            if !(1..=most).contains(&value) {
                return error(format!("{name} is {value}, expected 1 to {most}"));
            }
        }
        Ok(())
    }

    /// Random reads a second with `depth` in flight. What one read takes, depth over rate, lies on
    /// straight lines between measured depths; beyond the last the rate stays.
    pub fn reads_per_s_at(&self, depth: u32) -> f64 {
        let above = self.depths.partition_point(|&known| known < depth);
        if above == 0 {
            return self.reads_per_s[0];
        }
        if above == self.depths.len() {
            return self.reads_per_s[above - 1];
        }
        let known = |at: usize| {
            let depth = f64::from(self.depths[at]);
            (depth, depth / self.reads_per_s[at])
        };
        let ((low, short), (high, long)) = (known(above - 1), known(above));
        let depth = f64::from(depth);
        depth / (short + (long - short) * (depth - low) / (high - low))
    }

    /// Runs the reads of plans, one plan after the other; their bytes are those of whole pages.
    /// What the cache of pages keeps of one plan, the next ones find.
    pub fn run_all(&self, plans: &[Plan]) -> Result<Vec<HostOutcome>, HostError> {
        self.check()?;
        let mut cache = Cache::new(self.cache_pages);
        Ok(plans.iter().map(|plan| Running::new(self, plan, &mut cache).run()).collect())
    }
}

mod kind {
    pub const READ: u8 = 0;
    pub const SEEN: u8 = 1;
}

struct Running<'a> {
    plan: &'a Plan,
    host: &'a MeasuredHost,
    /// Time between results, by reads in flight.
    gaps: Vec<Picos>,
    rate: Rate,
    cpu: Picos,
    cores: Servers,
    heap: Heap,
    waiting: VecDeque<u32>,
    flying: VecDeque<u32>,
    cache: &'a mut Cache,
    outcome: HostOutcome,
}

impl<'a> Running<'a> {
    fn new(host: &'a MeasuredHost, plan: &'a Plan, cache: &'a mut Cache) -> Self {
        let gap = |depth: u32| (SECOND as f64 / host.reads_per_s_at(depth)).round() as Picos;
        Self {
            plan,
            host,
            gaps: (0..=host.depth).map(|depth| gap(depth.max(1))).collect(),
            rate: Rate::bytes_per_second(host.bytes_per_s),
            cpu: from_ns(host.cpu_ns_per_read),
            cores: Servers::new(host.cores),
            heap: Heap::default(),
            waiting: VecDeque::new(),
            flying: VecDeque::new(),
            cache,
            outcome: HostOutcome { hops: vec![0; plan.hops()], ..HostOutcome::default() },
        }
    }

    fn run(mut self) -> HostOutcome {
        for root in 0..self.plan.roots {
            self.want(root, 0);
        }
        while let Some(event) = self.heap.pop() {
            match event.kind() {
                kind::READ => self.read(event.time()),
                _ => self.seen(event.subject(), event.time()),
            }
        }
        self.outcome.core_busy = self.cores.busy;
        self.outcome
    }

    /// A page is wanted: from the cache, or from the disk in its turn.
    fn want(&mut self, command: u32, now: Picos) {
        let index = command as usize;
        let page = (self.plan.die[index], self.plan.row[index], self.plan.plane[index]);
        if self.cache.has(page) {
            self.outcome.hits += 1;
            let end = self.cores.serve(now, self.cpu);
            return self.heap.push(end, kind::SEEN, command);
        }
        self.waiting.push_back(command);
        self.submit(now);
    }

    /// Fills the queue of the disk.
    fn submit(&mut self, now: Picos) {
        while (self.flying.len() as u32) < self.host.depth {
            let Some(command) = self.waiting.pop_front() else { return };
            let idle = self.flying.is_empty();
            self.flying.push_back(command);
            self.outcome.reads += 1;
            self.outcome.depth_max = self.outcome.depth_max.max(self.flying.len() as u32);
            if idle {
                self.next_result(now);
            }
        }
    }

    /// The oldest read in flight is next to come.
    fn next_result(&mut self, now: Picos) {
        let Some(&command) = self.flying.front() else { return };
        let bytes = self.plan.bytes[command as usize].max(self.host.read_bytes);
        let takes = self.gaps[self.flying.len()].max(self.rate.time_of(u64::from(bytes)));
        self.outcome.disk_busy += takes;
        self.heap.push(now + takes, kind::READ, command);
    }

    fn read(&mut self, now: Picos) {
        let Some(command) = self.flying.pop_front() else { return };
        let index = command as usize;
        self.cache.put((self.plan.die[index], self.plan.row[index], self.plan.plane[index]));
        let end = self.cores.serve(now, self.cpu);
        self.heap.push(end, kind::SEEN, command);
        let others = !self.flying.is_empty();
        self.submit(now);
        if others {
            self.next_result(now);
        }
    }

    fn seen(&mut self, command: u32, now: Picos) {
        self.outcome.makespan = now;
        self.outcome.hops[usize::from(self.plan.hop[command as usize])] = now;
        for child in self.plan.children_of(command) {
            self.want(child, now);
        }
    }
}

type PageKey = (u32, u32, u8);

/// Pages in the order of their coming; who was wanted since gets a second chance.
struct Cache {
    room: u64,
    wanted: HashMap<PageKey, bool>,
    order: VecDeque<PageKey>,
}

impl Cache {
    fn new(room: u64) -> Self {
        Self { room, wanted: HashMap::new(), order: VecDeque::new() }
    }

    fn has(&mut self, page: PageKey) -> bool {
        self.wanted.get_mut(&page).is_some_and(|wanted| {
            *wanted = true;
            true
        })
    }

    fn put(&mut self, page: PageKey) {
        if self.room == 0 || self.wanted.contains_key(&page) {
            return;
        }
        while self.order.len() as u64 >= self.room {
            let Some(oldest) = self.order.pop_front() else { break };
            if self.wanted.get(&oldest) == Some(&true) {
                self.wanted.insert(oldest, false);
                self.order.push_back(oldest);
            } else {
                self.wanted.remove(&oldest);
            }
        }
        self.wanted.insert(page, false);
        self.order.push_back(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MICRO;

    fn host() -> MeasuredHost {
        MeasuredHost {
            depths: vec![1, 8],
            reads_per_s: vec![10_000.0, 50_000.0],
            bytes_per_s: 1e9,
            read_bytes: 4096,
            cpu_ns_per_read: 0.0,
            cores: 1,
            depth: 8,
            cache_pages: 0,
        }
    }

    fn run_one(host: &MeasuredHost, plan: &Plan) -> HostOutcome {
        host.run_all(std::slice::from_ref(plan)).unwrap().remove(0)
    }

    #[test]
    fn one_read_takes_its_latency_and_many_the_rate_of_the_depth() {
        let run = |reads: usize| run_one(&host(), &Plan::of_reads(&vec![0; reads], 4096));
        assert_eq!(run(1).makespan, 100 * MICRO);
        // 1,000 at 20 us, but for the last seven, which come slower.
        let many = run(1000);
        assert!(many.makespan > 20_000 * MICRO && many.makespan < 20_400 * MICRO, "{many:?}");
        assert_eq!((many.reads, many.depth_max, many.disk_busy), (1000, 8, many.makespan));
    }

    #[test]
    fn a_chain_waits_for_each_read_and_for_the_processor() {
        let mut host = host();
        host.cpu_ns_per_read = 5_000.0;
        let plan = Plan::of_chains(1, &[0; 10], &[], &[4096; 10]);
        assert_eq!(run_one(&host, &plan).makespan, 10 * 105 * MICRO);
        // The processor is the bound, and two cores are twice as fast.
        host.cpu_ns_per_read = 100_000.0;
        let plan = Plan::of_reads(&[0; 1000], 4096);
        let one = run_one(&host, &plan).makespan;
        host.cores = 2;
        let two = run_one(&host, &plan).makespan;
        assert!((one as f64 / two as f64 - 2.0).abs() < 0.01, "{one} {two}");
    }

    #[test]
    fn long_reads_are_bound_by_bytes() {
        let plan = Plan::of_reads(&[0; 100], 1 << 20);
        let wanted = 100 * (1u64 << 20) * 1000;
        assert_eq!(run_one(&host(), &plan).makespan, wanted);
    }

    #[test]
    fn the_cache_answers_what_was_read_before_and_keeps_what_is_wanted() {
        let mut host = host();
        (host.depth, host.cache_pages) = (1, 2);
        let mut plan = Plan::of_chains(1, &[0; 6], &[], &[4096; 6]);
        plan.row = vec![1, 2, 1, 3, 1, 2];
        // 1 is wanted again, so 2 makes room for 3.
        let found = run_one(&host, &plan);
        assert_eq!((found.reads, found.hits), (4, 2));
        // 1 and 2 are there when the next plan begins.
        let both = host.run_all(&[plan.clone(), plan.clone()]).unwrap();
        assert_eq!((both[1].reads, both[1].hits), (3, 3));
        host.cache_pages = 3;
        assert_eq!(host.run_all(&[plan.clone(), plan.clone()]).unwrap()[1].reads, 0);
        host.cache_pages = 0;
        assert_eq!(run_one(&host, &plan).reads, 6);
    }

    #[test]
    fn nonsense_is_named() {
        let check = |change: fn(&mut MeasuredHost)| {
            let mut host = host();
            change(&mut host);
            host.check().unwrap_err().to_string()
        };
        assert!(check(|h| h.depths = vec![2, 1]).contains("not ascending from 1"));
        assert!(check(|h| h.reads_per_s = vec![]).contains("2 depths but 0 rates"));
        assert!(check(|h| h.reads_per_s[1] = f64::NAN).contains("a rate of NaN"));
        assert!(check(|h| h.cores = 0).contains("cores is 0, expected 1 to 1024"));
        assert!(check(|h| h.depth = 1 << 20).contains("depth is 1048576"));
        assert!(check(|h| h.cpu_ns_per_read = -1.0).contains("-1 ns"));
    }
}
