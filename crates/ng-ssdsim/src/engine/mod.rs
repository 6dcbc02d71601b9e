//! The engine: events of one batch, or of several side by side, from the commands of a plan to the
//! time of each.
//!
//! Nothing here knows a graph, a platform's name or a file. What it keeps: commands are served in
//! the order of their events, and events in that of (time, making), so a run depends on its plan
//! and its machine alone. A die holds as many pages as it has registers: a sense takes one at its
//! start and the end of the transfer gives it back, so with two of them the next sense overlaps a
//! transfer.

mod bus;
pub(crate) mod heap;
mod hops;
mod machine;
mod outcome;
mod rounds;
pub(crate) mod server;
mod stamps;

use ng_types::canary::planted;

use bus::{Bus, Wish};
use heap::Heap;
use hops::Hops;
use rounds::Visits;
use server::{Server, Servers};

pub(crate) use heap::SUBJECTS_MAX as COMMANDS_MAX;
pub use machine::{Machine, Path, Pcie};
pub use outcome::{Outcome, Start};
pub use rounds::{End, Round};
pub use stamps::{Audit, Stamps};

use crate::plan::{Plan, flag};
use crate::time::Picos;

const NONE: u32 = u32::MAX;

/// Kinds of events; the subject is a command, or the hop of a batch for OPEN.
mod kind {
    pub const ISSUE: u8 = 0;
    pub const ARRIVE: u8 = 1;
    pub const COMMANDED: u8 = 2;
    pub const SENSED: u8 = 3;
    pub const READY: u8 = 4;
    pub const SENT: u8 = 5;
    pub const COMPLETE: u8 = 6;
    pub const VISIBLE: u8 = 7;
    pub const OPEN: u8 = 8;
}

/// One die: its queue, what it senses, what it holds.
#[derive(Clone, Debug)]
struct Die {
    head: u32,
    tail: u32,
    waiting: u32,
    sensing: bool,
    /// Pages that each register still has to send.
    registers: Vec<u8>,
    sampler: Server,
}

/// Runs plans on a machine, one after the other, in the same memory.
#[derive(Debug)]
pub struct Engine {
    machine: Machine,
    heap: Heap,
    dies: Vec<Die>,
    buses: Vec<Bus>,
    ports: Vec<Server>,
    cores: Servers,
    dram: Server,
    pcie: Server,
    host: Servers,
    /// The next command in a die's queue, or the next that was sensed with it.
    next: Vec<u32>,
    register: Vec<u8>,
    hops: Hops,
    visits: Visits,
    ends: Vec<End>,
    /// Where requests are limited: the next root, and how many of each request have no result.
    next_root: u32,
    requested: Vec<u32>,
    stamps: Stamps,
    outcome: Outcome,
}

impl Engine {
    /// An engine for a machine.
    pub fn new(machine: Machine) -> Self {
        let (dies, buses, ports) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            heap: Heap::default(),
            dies,
            buses,
            ports,
            cores: Servers::default(),
            dram: Server::default(),
            pcie: Server::default(),
            host: Servers::default(),
            next: Vec::new(),
            register: Vec::new(),
            hops: Hops::default(),
            visits: Visits::default(),
            ends: Vec::new(),
            next_root: 0,
            requested: Vec::new(),
            stamps: Stamps::default(),
            outcome: Outcome::default(),
            machine,
        }
    }

    /// The times of all commands of the last run.
    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// When each batch of the last run was over; zeros for one batch that has no barrier.
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Runs a plan from an empty device.
    ///
    /// # Panics
    ///
    /// If the plan has more commands than events have bits for (2^28), or names a die that the
    /// machine does not have.
    pub fn run(&mut self, plan: &Plan, start: &Start) -> Outcome {
        assert!(plan.len() < heap::SUBJECTS_MAX, "{} commands in one batch", plan.len());
        self.reset(plan, start.rounds.len());
        self.issue_roots(plan, start);
        while let Some(event) = self.heap.pop() {
            let (now, subject) = (event.time(), event.subject());
            match event.kind() {
                kind::ISSUE => self.issue(plan, subject, now),
                kind::ARRIVE => self.arrive(plan, subject, now),
                kind::COMMANDED => self.commanded(plan, subject, now),
                kind::SENSED => self.sensed(plan, subject, now),
                kind::READY => self.ready(plan, subject, now),
                kind::SENT => self.sent(plan, start, subject, now),
                kind::COMPLETE => self.complete(plan, start, subject, now),
                kind::VISIBLE => self.visible(plan, start, subject, now),
                _ => self.open(plan, subject, now),
            }
        }
        self.finish()
    }

    fn reset(&mut self, plan: &Plan, batches: usize) {
        let batches = batches.max(plan.batches());
        let machine = &self.machine;
        let die = Die {
            head: NONE,
            tail: NONE,
            waiting: 0,
            sensing: false,
            registers: vec![0; machine.flash.registers as usize],
            sampler: Server::default(),
        };
        self.heap.clear();
        self.dies.clear();
        self.dies.resize(machine.dies() as usize, die);
        self.buses.clear();
        self.buses.resize_with(machine.flash.channels as usize, Bus::default);
        self.ports.clear();
        self.ports.resize_with(machine.flash.channels as usize, Server::default);
        self.cores = Servers::new(machine.cores);
        self.host = Servers::new(machine.host_cores);
        (self.dram, self.pcie) = (Server::default(), Server::default());
        self.next.clear();
        self.next.resize(plan.len(), NONE);
        self.register.clear();
        self.register.resize(plan.len(), 0);
        self.stamps.reset(plan.len());
        let hops = plan.hops();
        self.outcome = Outcome { hops: vec![(Picos::MAX, 0); hops], ..Outcome::default() };
        self.hops.reset(plan, batches, machine.path.barrier);
        self.visits = Visits::default();
        self.ends.clear();
        self.ends.resize(batches, End::default());
    }

    /// What starts the run: the roots, or with a barrier the first hop of each batch.
    fn issue_roots(&mut self, plan: &Plan, start: &Start) {
        for batch in 0..self.ends.len() {
            if self.hops.is_empty(batch) {
                self.end_round(start, batch, 0, 0);
            } else if self.machine.path.barrier {
                self.open(plan, self.hops.of(batch, 0), 0);
            }
        }
        if self.machine.path.barrier {
            return;
        }
        if start.depth > 0 {
            return self.request_first(plan, start.depth);
        }
        for root in 0..plan.roots {
            match start.arrivals.get(root as usize) {
                Some(&time) => self.heap.push(time, kind::ISSUE, root),
                None => self.issue(plan, root, 0),
            }
        }
    }

    fn request_first(&mut self, plan: &Plan, depth: u32) {
        self.next_root = 0;
        let roots = &plan.entry[..plan.roots as usize];
        self.requested.clear();
        self.requested.resize(roots.iter().max().map_or(0, |&last| last as usize + 1), 0);
        roots.iter().for_each(|&request| self.requested[request as usize] += 1);
        for _ in 0..depth {
            self.request_next(plan, 0);
        }
    }

    /// Issues the roots of the next request.
    fn request_next(&mut self, plan: &Plan, now: Picos) {
        let roots = &plan.entry[..plan.roots as usize];
        let Some(&request) = roots.get(self.next_root as usize) else { return };
        while roots.get(self.next_root as usize) == Some(&request) {
            self.next_root += 1;
            self.issue(plan, self.next_root - 1, now);
        }
    }

    /// All commands of a hop of a batch that wait for no other one of it, in the order of the plan.
    fn open(&mut self, plan: &Plan, hop: u32, now: Picos) {
        for at in self.hops.commands(hop) {
            let command = self.hops.command(at);
            if plan.flags[command as usize] & flag::AFTER == 0 {
                self.issue(plan, command, now);
            }
        }
    }

    /// A command sets out: through the cores, through the router, or at once.
    fn issue(&mut self, plan: &Plan, command: u32, now: Picos) {
        self.outcome.issued += 1;
        self.stamps.issue[command as usize] = now;
        if !self.cores.is_empty() {
            if self.machine.lookup_bytes > 0 {
                self.dram.serve(now, self.machine.dram.time_of(self.machine.lookup_bytes));
            }
            let end = self.cores.serve(now, self.machine.issue);
            return self.at(end, now, kind::ARRIVE, plan, command);
        }
        let mut there = now;
        if self.machine.path.router {
            let channel = plan.die[command as usize] / self.machine.flash.dies_per_channel;
            let takes = self.machine.port.time_of(self.machine.command_bytes);
            let came = now + self.machine.router_latency;
            there = self.ports[channel as usize].serve(came, takes).1;
        }
        self.at(there, now, kind::ARRIVE, plan, command);
    }

    /// An arrival at a die, now or later.
    #[inline]
    fn at(&mut self, time: Picos, now: Picos, what: u8, plan: &Plan, command: u32) {
        if time > now {
            self.heap.push(time, what, command);
        } else {
            self.arrive(plan, command, now);
        }
    }

    fn arrive(&mut self, plan: &Plan, command: u32, now: Picos) {
        self.stamps.arrive[command as usize] = now;
        if plan.flags[command as usize] & flag::CACHED != 0 {
            return self.hit(plan, command, now);
        }
        let number = plan.die[command as usize];
        let die = &mut self.dies[number as usize];
        if die.head == NONE {
            die.head = command;
        } else {
            self.next[die.tail as usize] = command;
        }
        die.tail = command;
        die.waiting += 1;
        self.outcome.queue_max = self.outcome.queue_max.max(die.waiting);
        if self.machine.queue_depth > 0 && die.waiting > self.machine.queue_depth {
            self.outcome.spilled += 1;
            // Written, and read again when its turn comes.
            self.dram.serve(now, self.machine.dram.time_of(2 * self.machine.command_bytes));
        }
        self.try_sense(plan, number, now);
    }

    /// A page in the SSD's memory: no die, no channel.
    fn hit(&mut self, plan: &Plan, command: u32, now: Picos) {
        let (index, stamps) = (command as usize, &mut self.stamps);
        let columns =
            [&mut stamps.sense, &mut stamps.ready, &mut stamps.transfer, &mut stamps.sent];
        columns.into_iter().for_each(|column| column[index] = now);
        let hop = &mut self.outcome.hops[usize::from(plan.hop[index])];
        hop.0 = hop.0.min(now);
        let bytes = u64::from(plan.bytes[index]);
        self.outcome.hits += 1;
        self.outcome.hit_bytes += bytes;
        let read = self.dram.serve(now, self.machine.dram.time_of(bytes)).1;
        let there = self.reach_host(plan, command, read);
        self.heap.push(there, kind::COMPLETE, command);
    }

    /// Starts the next sense of a die, if it does not sense and has a register.
    fn try_sense(&mut self, plan: &Plan, number: u32, now: Picos) {
        let die = &mut self.dies[number as usize];
        if (die.sensing && !planted("two_senses_at_once")) || die.head == NONE {
            return;
        }
        let Some(register) = die.registers.iter().position(|&pages| pages == 0) else { return };
        let first = die.head;
        die.head = self.next[first as usize];
        die.waiting -= 1;
        die.sensing = true;
        self.next[first as usize] = NONE;
        self.register[first as usize] = register as u8;
        let mut pages = 1;
        if self.machine.flash.planes > 1 {
            pages += self.join(plan, number, first, register as u8);
        }
        let die = &mut self.dies[number as usize];
        if die.head == NONE {
            die.tail = NONE;
        }
        die.registers[register] = pages;
        let takes = if pages > 1 { self.machine.planes_command } else { self.machine.command };
        if takes == 0 {
            self.commanded_now(plan, first, now);
        } else {
            self.want_bus(plan, first, kind::COMMANDED, takes, now);
        }
    }

    /// Takes those out of the front of a die's queue that other planes can sense with `first`.
    fn join(&mut self, plan: &Plan, number: u32, first: u32, register: u8) -> u8 {
        const LOOKED_AT: usize = 16;
        let mut planes = 1u32 << plan.plane[first as usize];
        let (mut before, mut last, mut joined) = (NONE, first, 0);
        let mut at = self.dies[number as usize].head;
        for _ in 0..LOOKED_AT {
            if at == NONE {
                break;
            }
            let (command, plane) = (at as usize, 1u32 << plan.plane[at as usize]);
            let after = self.next[command];
            if plan.row[command] == plan.row[first as usize] && planes & plane == 0 {
                planes |= plane;
                let die = &mut self.dies[number as usize];
                die.waiting -= 1;
                if before == NONE {
                    die.head = after;
                } else {
                    self.next[before as usize] = after;
                }
                if die.tail == at {
                    die.tail = before;
                }
                self.next[last as usize] = at;
                self.next[command] = NONE;
                self.register[command] = register;
                last = at;
                joined += 1;
            } else {
                before = at;
            }
            at = after;
        }
        joined
    }

    /// The bus has brought a command: the sense starts, and somebody else may have the bus.
    fn commanded(&mut self, plan: &Plan, command: u32, now: Picos) {
        self.commanded_now(plan, command, now);
        self.free_bus(plan, command, now);
    }

    fn commanded_now(&mut self, plan: &Plan, command: u32, now: Picos) {
        let takes = self.machine.sense_of(plan, command as usize);
        let mut member = command;
        while member != NONE {
            self.stamps.sense[member as usize] = now;
            let hop = &mut self.outcome.hops[usize::from(plan.hop[member as usize])];
            hop.0 = hop.0.min(now);
            member = self.next[member as usize];
        }
        self.outcome.die_busy += takes;
        self.outcome.senses += 1;
        self.heap.push(now + takes, kind::SENSED, command);
    }

    fn sensed(&mut self, plan: &Plan, first: u32, now: Picos) {
        let number = plan.die[first as usize];
        self.dies[number as usize].sensing = false;
        let mut command = first;
        while command != NONE {
            let after = std::mem::replace(&mut self.next[command as usize], NONE);
            let flags = plan.flags[command as usize];
            if flags & flag::SAMPLED == 0 {
                self.ready(plan, command, now);
            } else {
                // Of a row on several pages, the share of this one.
                let of_row = plan.feature_bytes.min(plan.bytes[command as usize]);
                let bytes = if flags & flag::FEATURE == 0 { 0 } else { of_row };
                let takes = self.machine.sampling(bytes);
                let (_, end) = self.dies[number as usize].sampler.serve(now, takes);
                self.heap.push(end, kind::READY, command);
            }
            command = after;
        }
        self.try_sense(plan, number, now);
    }

    /// Data wait in a register.
    fn ready(&mut self, plan: &Plan, command: u32, now: Picos) {
        self.stamps.ready[command as usize] = now;
        let takes = self.machine.transfer(plan.bytes[command as usize]);
        self.want_bus(plan, command, kind::SENT, takes, now);
    }

    /// Asks for the channel; the event comes when it has been had.
    fn want_bus(&mut self, plan: &Plan, command: u32, what: u8, takes: Picos, now: Picos) {
        let die = plan.die[command as usize];
        let bus = &mut self.buses[(die / self.machine.flash.dies_per_channel) as usize];
        if self.machine.flash.round_robin {
            let die = die % self.machine.flash.dies_per_channel;
            if let Some(wish) = bus.ask(Wish { die, command, kind: what, takes }) {
                self.granted(wish, now);
            }
        } else {
            let (start, end) = bus.serve(now, takes);
            if what == kind::SENT {
                self.stamps.transfer[command as usize] = start;
            }
            self.heap.push(end, what, command);
        }
    }

    fn granted(&mut self, wish: Wish, now: Picos) {
        if wish.kind == kind::SENT {
            self.stamps.transfer[wish.command as usize] = now;
        }
        self.heap.push(now + wish.takes, wish.kind, wish.command);
    }

    /// Where dies take turns: the next one's.
    #[inline]
    fn free_bus(&mut self, plan: &Plan, command: u32, now: Picos) {
        if self.machine.flash.round_robin {
            let channel = plan.die[command as usize] / self.machine.flash.dies_per_channel;
            let dies = self.machine.flash.dies_per_channel;
            if let Some(wish) = self.buses[channel as usize].release(dies) {
                self.granted(wish, now);
            }
        }
    }

    /// Data have left the channel: the register is free, and they go on.
    fn sent(&mut self, plan: &Plan, start: &Start, command: u32, now: Picos) {
        let index = command as usize;
        self.stamps.sent[index] = now;
        let number = plan.die[index];
        self.dies[number as usize].registers[self.register[index] as usize] -= 1;
        self.free_bus(plan, command, now);
        self.try_sense(plan, number, now);
        let bytes = u64::from(plan.bytes[index]);
        self.outcome.channel_bytes += bytes;
        self.outcome.dram_bytes += bytes;
        // Written by the flash, read by who wants it.
        let written = self.dram.serve(now, self.machine.dram.time_of(2 * bytes)).1;
        let there = self.reach_host(plan, command, written);
        if there > now {
            self.heap.push(there, kind::COMPLETE, command);
        } else {
            self.complete(plan, start, command, now);
        }
    }

    /// When data that are in the SSD's memory from `there` on are where they are wanted.
    fn reach_host(&mut self, plan: &Plan, command: u32, there: Picos) -> Picos {
        if !self.machine.path.to_host {
            return there;
        }
        let bytes = u64::from(plan.bytes[command as usize]);
        self.outcome.pcie_bytes += self.machine.pcie.wire_bytes(bytes);
        let sent = self.pcie.serve(there, self.machine.pcie.time_of(bytes)).1;
        let is_joined = plan.flags[command as usize] & flag::JOINED != 0;
        let served = match self.machine.host_io {
            0 => sent,
            _ if is_joined => sent,
            takes => self.host.serve(sent, takes),
        };
        served + self.machine.host_stack
    }

    /// The cores take note of a result.
    fn complete(&mut self, plan: &Plan, start: &Start, command: u32, now: Picos) {
        if self.cores.is_empty() || self.machine.complete == 0 {
            return self.visible(plan, start, command, now);
        }
        let end = self.cores.serve(now, self.machine.complete);
        self.heap.push(end, kind::VISIBLE, command);
    }

    /// A result is there: what it brings forth is issued, or a hop has ended.
    fn visible(&mut self, plan: &Plan, start: &Start, command: u32, now: Picos) {
        self.stamps.visible[command as usize] = now;
        self.outcome.completed += 1;
        self.outcome.makespan = now;
        let hop = usize::from(plan.hop[command as usize]);
        self.outcome.hops[hop].1 = now;
        if start.depth > 0 && command < plan.roots {
            let left = &mut self.requested[plan.entry[command as usize] as usize];
            *left -= 1;
            if *left == 0 {
                self.request_next(plan, now);
            }
        }
        for child in plan.brought_forth_by(command, self.machine.path.barrier) {
            self.issue(plan, child, now);
        }
        if self.hops.are_counted()
            && let Some(done) = self.hops.complete(plan, command)
        {
            self.end_hop(start, done, now);
        }
    }

    /// The last result of a hop is there: the host's round, then the next hop of the batch, if it
    /// has one.
    #[inline(never)]
    fn end_hop(&mut self, start: &Start, done: u32, now: Picos) {
        let (batch, hop) = self.hops.which(done);
        let end = self.end_round(start, batch, hop, now);
        if self.hops.has_next(done) {
            self.heap.push(end, kind::OPEN, done + 1);
        }
    }

    /// The end of a round that begins now.
    fn end_round(&mut self, start: &Start, batch: usize, hop: usize, now: Picos) -> Picos {
        let end = &mut self.ends[batch];
        end.time = now;
        if let Some(round) = start.rounds.get(batch).and_then(|rounds| rounds.get(hop)) {
            self.visits.serve(round, now, end);
        }
        end.time
    }

    fn finish(&mut self) -> Outcome {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.events = self.heap.taken;
        outcome.sampler_busy = self.dies.iter().map(|die| die.sampler.busy).sum();
        outcome.channel_busy = self.buses.iter().map(|bus| bus.busy).sum();
        outcome.core_busy = self.cores.busy;
        outcome.dram_busy = self.dram.busy;
        outcome.pcie_busy = self.pcie.busy;
        outcome.host_busy = self.host.busy;
        outcome
    }
}
