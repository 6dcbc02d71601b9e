//! A configuration as the engine wants it: picoseconds, and only what this platform uses.

use crate::config::{Config, ConfigError, Flash};
use crate::plan::{Plan, flag};
use crate::time::{Picos, Rate, from_ns, to_seconds};

/// What of a device a run goes through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Commands pass the cores of the SSD.
    pub firmware: bool,
    /// Commands go from channel to channel by the router.
    pub router: bool,
    /// What leaves the channel goes on to the host.
    pub to_host: bool,
    /// A hop starts when the one before it has ended.
    pub barrier: bool,
    /// What comes to the host passes its storage stack, page by page.
    pub stack: bool,
    /// What comes to the host takes a page fault there.
    pub faults: bool,
}

/// Times and counts of a device on one path.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(super) flash: Flash,
    pub(super) path: Path,
    pub(super) sense: Picos,
    pub(super) command: Picos,
    pub(super) planes_command: Picos,
    pub(super) data_setup: Picos,
    pub(super) channel: Rate,
    pub(super) sampler: Picos,
    pub(super) sampler_rate: Rate,
    /// 0 where commands pass no firmware.
    pub(super) cores: u32,
    pub(super) issue: Picos,
    pub(super) complete: Picos,
    pub(super) lookup_bytes: u64,
    pub(super) router_latency: Picos,
    pub(super) port: Rate,
    pub(super) command_bytes: u64,
    pub(super) queue_depth: u32,
    pub(super) dram: Rate,
    pub(super) pcie: Pcie,
    /// 0 where pages stay in the SSD.
    pub(super) host_cores: u32,
    pub(super) host_io: Picos,
    /// A latency, for which no core is taken.
    pub(super) host_stack: Picos,
}

/// Times of transfers between SSD and host.
#[derive(Clone, Copy, Debug)]
pub struct Pcie {
    rate: Rate,
    unit: u64,
    payload: u64,
    overhead: u64,
}

impl Pcie {
    /// The link of a configuration.
    pub fn new(config: &Config) -> Self {
        let pcie = &config.pcie;
        Self {
            rate: Rate::bytes_per_second(pcie.bytes_per_s),
            unit: u64::from(pcie.unit_bytes),
            payload: u64::from(pcie.payload_bytes),
            overhead: u64::from(pcie.overhead_bytes),
        }
    }

    /// Bytes on the wire for `bytes` of content.
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        let whole = bytes.next_multiple_of(self.unit);
        let packets = if self.payload == 0 { 0 } else { whole.div_ceil(self.payload) };
        whole + packets * self.overhead
    }

    /// The time in which `bytes` of content cross the wire.
    pub fn time_of(&self, bytes: u64) -> Picos {
        self.rate.time_of(self.wire_bytes(bytes))
    }
}

impl Machine {
    /// The device of a configuration, as far as a path goes through it.
    pub fn new(config: &Config, path: Path) -> Result<Self, ConfigError> {
        config.check()?;
        let (flash, host) = (&config.flash, &config.host);
        let fault = if path.faults { host.fault_ns } else { 0.0 };
        Ok(Self {
            flash: flash.clone(),
            path,
            sense: from_ns(flash.sense_ns),
            command: from_ns(flash.read_command_ns),
            planes_command: from_ns(flash.planes_command_ns),
            data_setup: from_ns(flash.data_setup_ns),
            channel: Rate::bytes_per_second(flash.channel_bytes_per_s),
            sampler: from_ns(flash.sampler_ns),
            sampler_rate: Rate::bytes_per_second(flash.sampler_bytes_per_s),
            cores: if path.firmware { config.firmware.cores } else { 0 },
            issue: from_ns(config.firmware.issue_ns),
            complete: from_ns(config.firmware.complete_ns),
            lookup_bytes: u64::from(config.dram.lookup_bytes),
            router_latency: from_ns(config.router.latency_ns),
            port: Rate::bytes_per_second(config.router.port_bytes_per_s),
            command_bytes: u64::from(config.router.command_bytes),
            queue_depth: if path.router { config.router.queue_depth } else { 0 },
            dram: Rate::bytes_per_second(config.dram.bytes_per_s),
            pcie: Pcie::new(config),
            host_cores: if path.to_host { host.cores } else { 0 },
            host_io: from_ns(host.io_ns + fault),
            host_stack: if path.stack { from_ns(host.stack_ns) } else { 0 },
        })
    }

    /// All dies.
    pub fn dies(&self) -> u32 {
        self.flash.channels * self.flash.dies_per_channel
    }

    /// The time of a command's sense.
    #[inline]
    pub(crate) fn sense_of(&self, plan: &Plan, command: usize) -> Picos {
        match plan.flags[command] & flag::CACHED {
            0 => plan.sense.get(command).copied().unwrap_or(self.sense),
            _ => 0,
        }
    }

    /// The time of a command's data on the channel; whole pages bring their spare bytes.
    #[inline]
    pub(super) fn transfer(&self, bytes: u32) -> Picos {
        let spare = if bytes >= self.flash.page_bytes { self.flash.spare_bytes } else { 0 };
        self.data_setup + self.channel.time_of(u64::from(bytes + spare))
    }

    /// The time of the sampler on the die.
    #[inline]
    pub(super) fn sampling(&self, feature_bytes: u32) -> Picos {
        self.sampler + self.sampler_rate.time_of(u64::from(feature_bytes))
    }
}

impl Machine {
    /// Seconds that a plan takes at most: every command by itself, at every server.
    pub(crate) fn one_by_one(&self, plan: &Plan) -> f64 {
        let longest = plan.bytes.iter().copied().max().unwrap_or(0);
        let bytes = u64::from(longest);
        let sense = plan.sense.iter().copied().max().unwrap_or(0).max(self.sense);
        let dram = self.dram.time_of(2 * bytes + self.lookup_bytes + 2 * self.command_bytes);
        let sum = [
            self.issue,
            self.complete,
            self.router_latency,
            self.port.time_of(self.command_bytes),
            self.command.max(self.planes_command),
            sense,
            self.sampling(plan.feature_bytes),
            self.transfer(longest),
            dram,
            self.pcie.time_of(bytes),
            self.host_io,
            self.host_stack,
        ];
        sum.into_iter().map(to_seconds).sum::<f64>() * plan.len() as f64
    }

    /// What each page costs the host where they come to it one by one: its stack and a core, and
    /// the link.
    pub(crate) fn host_and_link(&self, bytes: u64) -> (Picos, Picos) {
        (self.host_stack + self.host_io, self.pcie.time_of(bytes))
    }

    /// The time of a page from its issue to its result, if it has an idle device for itself.
    pub(crate) fn alone(&self, plan: &Plan, command: usize) -> Picos {
        let bytes = u64::from(plan.bytes[command]);
        let (host, link) = self.host_and_link(bytes);
        let of_cores = self.issue + self.complete;
        let of_flash =
            self.command + self.sense_of(plan, command) + self.transfer(plan.bytes[command]);
        of_cores + of_flash + self.dram.time_of(2 * bytes) + link + host
    }

    /// What each kind of server has to do for a plan, the busiest of each kind.
    pub fn bounds(&self, plan: &Plan) -> Vec<(Picos, &'static str)> {
        let mut dies = vec![0; self.dies() as usize];
        let mut buses = vec![0; self.flash.channels as usize];
        let (mut bytes, mut memory) = (0, 0);
        for command in 0..plan.len() {
            let die = plan.die[command];
            bytes += u64::from(plan.bytes[command]);
            if plan.flags[command] & flag::CACHED != 0 {
                memory += u64::from(plan.bytes[command]);
                continue;
            }
            memory += 2 * u64::from(plan.bytes[command]);
            let sense = self.sense_of(plan, command);
            // Planes that sense together take it once between them.
            dies[die as usize] += sense / Picos::from(self.flash.planes);
            buses[(die / self.flash.dies_per_channel) as usize] +=
                self.transfer(plan.bytes[command]);
        }
        let commands = plan.len() as u64;
        let joined = plan.flags.iter().filter(|&&flags| flags & flag::JOINED != 0).count() as u64;
        let of_cores = |cores: u32, commands: u64, each: Picos| match cores {
            0 => 0,
            cores => (commands * each).div_ceil(u64::from(cores)),
        };
        let pcie = if self.path.to_host { self.pcie.rate.time_of(bytes) } else { 0 };
        vec![
            (dies.into_iter().max().unwrap_or(0), "dies"),
            (buses.into_iter().max().unwrap_or(0), "channels"),
            (of_cores(self.cores, commands, self.issue + self.complete), "cores"),
            (self.dram.time_of(memory), "DRAM"),
            (pcie, "PCIe"),
            (of_cores(self.host_cores, commands - joined, self.host_io), "host cores"),
        ]
    }
}
