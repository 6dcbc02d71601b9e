//! What an SSD and its host are made of: every constant of a run, with its unit in its name.
//!
//! [`Config::paper`] reproduces a publication (BeaconGNN, section VII.A and Table II) with what it
//! leaves out; [`Config::detailed`] has every cost in it. Between them lies no flag: a cost that a
//! mode leaves out has the value that makes it nothing (0 ns, an endless rate, no limit), so one
//! field at a time can be taken from the other mode and its worth measured
//! ([`Config::SWITCHES`]).

mod check;
mod devices;
mod modes;

use serde::{Deserialize, Serialize};

pub use check::{Allowed, ConfigError, Constant};

/// Everything about the device and its host.
///
/// ```
/// use ng_ssdsim::Config;
/// let mut config = Config::paper();
/// config.flash.channels = 8;
/// assert!(config.check().is_ok());
/// config.flash.dies_per_channel = 0;
/// let error = config.check().unwrap_err().to_string();
/// assert_eq!(error, "flash.dies_per_channel is 0; use a whole number from 1 to 4096");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Dies and channels.
    pub flash: Flash,
    /// The cores in the SSD and what they do for a command.
    pub firmware: Firmware,
    /// Between channels, without the firmware (BeaconGNN, section V.B).
    pub router: Router,
    /// The SSD's memory.
    pub dram: Dram,
    /// Between SSD and host.
    pub pcie: Pcie,
    /// The host's share.
    pub host: Host,
    /// The host's memory, for platforms that have the whole graph there.
    #[serde(default)]
    pub memory: Memory,
    /// What computes inside the SSD.
    pub accelerator: Accelerator,
    /// What computes beside the host.
    pub discrete: Accelerator,
    /// What commands carry besides rows of features.
    pub payload: Payload,
    /// What things cost in joules.
    pub energy: Energy,
    /// Whether a list and its row of features lie in one place on every BG platform.
    pub features_beside_lists: bool,
}

/// Takes one cost from another configuration.
pub type Switch = fn(&mut Config, &Config);

/// Dies and channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Independent buses.
    pub channels: u32,
    /// Packages times dies of each.
    pub dies_per_channel: u32,
    /// Arrays of a die that can sense together when they want the same row; 1 ignores planes.
    pub planes: u32,
    /// What a read brings into the registers.
    pub page_bytes: u32,
    /// Bytes that travel beside a whole page (its code words).
    pub spare_bytes: u32,
    /// Of one channel.
    #[serde(with = "endless")]
    pub channel_bytes_per_s: f64,
    /// From the array into a register.
    pub sense_ns: f64,
    /// The same by type of page, which rows take in turn; empty where all pages are alike.
    #[serde(default)]
    pub sense_types_ns: Vec<f64>,
    /// From a register into the array. Batches only read; this is for what a host writes.
    #[serde(default = "Flash::usual_program_ns")]
    pub program_ns: f64,
    /// Pages a die can hold: 2 let the next sense overlap a transfer.
    pub registers: u32,
    /// On the channel, before a sense.
    pub read_command_ns: f64,
    /// The same for several planes at once.
    pub planes_command_ns: f64,
    /// On the channel, before data leave a register.
    pub data_setup_ns: f64,
    /// Whether dies of a channel take turns; else first come, first served.
    pub round_robin: bool,
    /// Of a sampling command on the die, whatever it draws.
    pub sampler_ns: f64,
    /// At which the sampler moves a row of features.
    #[serde(with = "endless")]
    pub sampler_bytes_per_s: f64,
}

impl Flash {
    fn usual_program_ns() -> f64 {
        100_000.0
    }
}

/// The cores in the SSD.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Firmware {
    /// Cores that share all commands.
    pub cores: u32,
    /// Of a core for each command, before it goes to its die.
    pub issue_ns: f64,
    /// Of a core for each command that has come back.
    pub complete_ns: f64,
}

/// Between channels, without the firmware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// From port to port.
    pub latency_ns: f64,
    /// Of one port.
    #[serde(with = "endless")]
    pub port_bytes_per_s: f64,
    /// Bytes of a command.
    pub command_bytes: u32,
    /// Commands that wait at a die before they spill into DRAM; 0 is no limit.
    pub queue_depth: u32,
}

/// The SSD's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Shared by everything that is written and read again; endless where it never delays.
    #[serde(with = "endless")]
    pub bytes_per_s: f64,
    /// Read for each translation of an address.
    pub lookup_bytes: u32,
}

/// Between SSD and host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Of each direction.
    #[serde(with = "endless")]
    pub bytes_per_s: f64,
    /// What a transfer is rounded up to.
    pub unit_bytes: u32,
    /// Of one packet's content; 0 leaves packets out.
    pub payload_bytes: u32,
    /// Around each packet.
    pub overhead_bytes: u32,
    /// Whether what the host sends takes time, too.
    pub both_directions: bool,
}

/// The host's share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Of the storage stack, after each transfer to the host.
    pub stack_ns: f64,
    /// Cores that serve I/O.
    pub cores: u32,
    /// Of a core for each page that comes; 0 leaves it out.
    pub io_ns: f64,
    /// Of a core for a page fault, on top of `io_ns`: what a page costs more where it is mapped
    /// than where it is read with `O_DIRECT`.
    #[serde(default = "Host::usual_fault_ns")]
    pub fault_ns: f64,
}

/// The host's memory that holds the whole graph: DRAM, or persistent memory on the memory bus.
///
/// An access is a load that no cache answers and that the next one waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Of an access to DRAM.
    pub dram_latency_ns: f64,
    /// Of DRAM, for all cores together.
    #[serde(with = "endless")]
    pub dram_bytes_per_s: f64,
    /// What an access brings, at least.
    pub dram_unit_bytes: u32,
    /// Of an access to persistent memory.
    pub pmem_latency_ns: f64,
    /// Of persistent memory, for all cores together.
    #[serde(with = "endless")]
    pub pmem_bytes_per_s: f64,
    /// What an access brings, at least.
    pub pmem_unit_bytes: u32,
}

/// A systolic array with a vector unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// Rows of the array.
    pub rows: u32,
    /// Columns of the array.
    pub columns: u32,
    /// Lanes of the vector unit, or cores; 0 leaves their time out.
    pub lanes: u32,
    /// Cycles a second.
    pub hertz: f64,
    /// 16-bit words that the memory below moves in a cycle; 0 is no limit. Words of other sizes
    /// move at the same bytes a cycle.
    pub words_per_cycle: u32,
    /// Bits of a word: 8, 16 or 32.
    #[serde(default = "Accelerator::usual_word_bits")]
    pub word_bits: u32,
    /// Of a random access to the memory below, for a row that lies where an index says.
    #[serde(default)]
    pub gather_ns: f64,
    /// Such accesses that are under way together; 0 leaves them out.
    #[serde(default)]
    pub gathers_in_flight: u32,
    /// Whether sums of rows may be products by a matrix that selects them.
    #[serde(default)]
    pub sums_on_array: bool,
    /// Of the memory beside the array, which keeps operands that fit.
    #[serde(default = "Accelerator::usual_scratchpad")]
    pub scratchpad_bytes: u64,
    /// Whether its time is counted at all.
    pub timed: bool,
}

/// What commands carry besides rows of features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// Of each result of a sampler.
    pub header_bytes: u32,
    /// Of each command that a result brings forth.
    pub child_bytes: u32,
    /// Of an id in a list and on its way to the host.
    pub id_bytes: u32,
}

/// What things cost in joules (BeaconGNN, Table II and section VII.A).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Energy {
    /// Of the flash.
    pub flash_volts: f64,
    /// Of a die that senses.
    pub sense_amperes: f64,
    /// Of the die that its channel has selected, to tell it something or to get its data.
    pub selected_amperes: f64,
    /// Of a die that does nothing.
    pub standby_amperes: f64,
    /// Of a sampler that works.
    pub sampler_watts: f64,
    /// Of the link, for each bit.
    pub pcie_joules_per_bit: f64,
    /// Of the host's memory, for each bit that is written or read.
    pub host_dram_joules_per_bit: f64,
    /// Of the SSD's memory, for each bit that is written or read.
    pub dram_joules_per_bit: f64,
    /// Of the SSD's memory, whatever happens.
    pub dram_watts: f64,
    /// Of an addition of words of 16 bits.
    pub add_joules: f64,
    /// Of a multiplication of words of 16 bits.
    pub multiply_joules: f64,
    /// Of 64 bytes read from the accelerator's memory.
    pub sram_read_joules: f64,
    /// Of 64 bytes written to it.
    pub sram_write_joules: f64,
    /// Of that memory while the accelerator computes.
    pub sram_busy_watts: f64,
    /// Of that memory otherwise.
    pub sram_idle_watts: f64,
    /// Of one of the SSD's cores that works.
    pub core_watts: f64,
    /// Of one command on its way through the router.
    pub route_joules: f64,
}

impl Accelerator {
    /// 6 MB, that of the SSD in BeaconGNN, Table II.
    pub fn usual_scratchpad() -> u64 {
        6 << 20
    }

    /// 16, as BeaconGNN's rows have.
    pub fn usual_word_bits() -> u32 {
        16
    }
}

impl Config {
    /// All dies.
    pub fn dies(&self) -> u32 {
        self.flash.channels * self.flash.dies_per_channel
    }
}

/// A rate in formats that have no infinity: nothing stands for no limit.
mod endless {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(rate: &f64, to: S) -> Result<S::Ok, S::Error> {
        rate.is_finite().then_some(*rate).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
    }
}
