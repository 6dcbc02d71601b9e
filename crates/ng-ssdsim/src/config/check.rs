//! Which configurations describe a device: the range of each constant.

use std::fmt;

use thiserror::Error;

use super::Config;

/// A constant that no device has.
#[derive(Debug, Error, Clone, PartialEq)]
#[error("{field} is {value}; use {allowed}")]
pub struct ConfigError {
    /// Which.
    pub field: &'static str,
    /// What was given.
    pub value: f64,
    /// What can be.
    pub allowed: Allowed,
}

/// What a constant may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// A whole number, from one to another.
    Whole(u64, u64),
    /// One of some whole numbers.
    Among(&'static [u64]),
    /// A time in nanoseconds, a second at most.
    Time,
    /// A rate, whose time for a byte fits 32 bits of picoseconds; infinity stands for no limit.
    Rate,
    /// Amperes, volts, watts or joules.
    Energy,
}

/// A constant and what it may be.
#[derive(Clone, Copy)]
pub struct Constant {
    /// Its dotted name.
    pub field: &'static str,
    /// What it may be.
    pub allowed: Allowed,
    values: fn(&Config) -> Vec<f64>,
}

impl Allowed {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::Whole(least, most) => (least as f64..=most as f64).contains(&value),
            Self::Among(values) => values.iter().any(|&one| one as f64 == value),
            Self::Time => (0.0..=1e9).contains(&value),
            Self::Rate => value >= 1e3,
            Self::Energy => (0.0..=1e6).contains(&value),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Among(values) => f.write_str(&listed(values)),
            Self::Time => f.write_str("0 to 1000000000 ns"),
            Self::Rate => f.write_str("1000 per second or more (infinite: no cost)"),
            Self::Energy => f.write_str("0 to 1000000"),
        }
    }
}

/// Numbers as a sentence lists them.
fn listed(values: &[u64]) -> String {
    let all: Vec<_> = values.iter().map(u64::to_string).collect();
    match all.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => all.concat(),
    }
}

/// The constants with names under `group`.
macro_rules! constants {
    ($($group:ident { $($name:ident: $allowed:expr),* $(,)? }),* $(,)?) => {
        &[$($(Constant {
            field: concat!(stringify!($group), ".", stringify!($name)),
            allowed: $allowed,
            values: |config| vec![config.$group.$name as f64],
        }),*),*]
    };
}

const COUNT: Allowed = Allowed::Whole(1, u32::MAX as u64);
const BYTES: Allowed = Allowed::Whole(0, 1 << 24);
const UNIT: Allowed = Allowed::Whole(1, 1 << 20);
const ANY: Allowed = Allowed::Whole(0, u32::MAX as u64);
const WORDS: Allowed = Allowed::Among(&[8, 16, 32]);
use Allowed::{Energy, Rate, Time, Whole};

const CONSTANTS: &[Constant] = constants! {
    flash {
        channels: Whole(1, 4096),
        dies_per_channel: Whole(1, 4096),
        planes: Whole(1, 16),
        page_bytes: Whole(64, 1 << 24),
        spare_bytes: BYTES,
        channel_bytes_per_s: Rate,
        sense_ns: Time,
        program_ns: Time,
        registers: Whole(1, 255),
        read_command_ns: Time,
        planes_command_ns: Time,
        data_setup_ns: Time,
        sampler_ns: Time,
        sampler_bytes_per_s: Rate,
    },
    firmware { cores: Whole(1, 1024), issue_ns: Time, complete_ns: Time },
    router { latency_ns: Time, port_bytes_per_s: Rate, command_bytes: BYTES, queue_depth: ANY },
    dram { bytes_per_s: Rate, lookup_bytes: BYTES },
    pcie {
        bytes_per_s: Rate,
        unit_bytes: Whole(1, 1 << 24),
        payload_bytes: BYTES,
        overhead_bytes: BYTES,
    },
    host { stack_ns: Time, cores: Whole(1, 1024), io_ns: Time, fault_ns: Time },
    memory {
        dram_latency_ns: Time,
        dram_bytes_per_s: Rate,
        dram_unit_bytes: UNIT,
        pmem_latency_ns: Time,
        pmem_bytes_per_s: Rate,
        pmem_unit_bytes: UNIT,
    },
    accelerator {
        rows: COUNT,
        columns: COUNT,
        lanes: ANY,
        hertz: Rate,
        words_per_cycle: ANY,
        word_bits: WORDS,
        gather_ns: Time,
        gathers_in_flight: ANY,
        scratchpad_bytes: Whole(1024, 1 << 40),
    },
    discrete {
        rows: COUNT,
        columns: COUNT,
        lanes: ANY,
        hertz: Rate,
        words_per_cycle: ANY,
        word_bits: WORDS,
        gather_ns: Time,
        gathers_in_flight: ANY,
        scratchpad_bytes: Whole(1024, 1 << 40),
    },
    payload { header_bytes: BYTES, child_bytes: BYTES, id_bytes: Whole(1, 64) },
    energy {
        flash_volts: Energy,
        sense_amperes: Energy,
        selected_amperes: Energy,
        standby_amperes: Energy,
        sampler_watts: Energy,
        pcie_joules_per_bit: Energy,
        host_dram_joules_per_bit: Energy,
        dram_joules_per_bit: Energy,
        dram_watts: Energy,
        add_joules: Energy,
        multiply_joules: Energy,
        sram_read_joules: Energy,
        sram_write_joules: Energy,
        sram_busy_watts: Energy,
        sram_idle_watts: Energy,
        core_watts: Energy,
        route_joules: Energy,
    },
};

const SENSE_TYPES: Constant = Constant {
    field: "flash.sense_types_ns",
    allowed: Time,
    values: |config| config.flash.sense_types_ns.clone(),
};

impl Config {
    /// All constants that are numbers, with what each may be.
    pub fn constants() -> impl Iterator<Item = Constant> {
        CONSTANTS.iter().copied().chain([SENSE_TYPES])
    }

    /// Names the first constant with a value that no device has.
    pub fn check(&self) -> Result<(), ConfigError> {
        for Constant { field, allowed, values } in Self::constants() {
            if let Some(value) = values(self).into_iter().find(|&value| !allowed.holds(value)) {
                return Err(ConfigError { field, value, allowed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_named_with_its_range() {
        let check = |change: fn(&mut Config)| {
            let mut config = Config::paper();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert_eq!(
            check(|c| c.flash.dies_per_channel = 0),
            "flash.dies_per_channel is 0; use a whole number from 1 to 4096"
        );
        assert_eq!(
            check(|c| c.flash.sense_ns = -1.0),
            "flash.sense_ns is -1; use 0 to 1000000000 ns"
        );
        assert!(check(|c| c.flash.sense_ns = f64::NAN).starts_with("flash.sense_ns is NaN"));
        assert!(check(|c| c.flash.sense_types_ns = vec![1.0, 2e9]).contains("sense_types_ns is 2"));
        assert!(
            check(|c| c.pcie.bytes_per_s = 0.0).starts_with("pcie.bytes_per_s is 0; use 1000 per")
        );
        assert!(check(|c| c.flash.channels = 1 << 20).contains("from 1 to 4096"));
        assert_eq!(
            check(|c| c.discrete.word_bits = 12),
            "discrete.word_bits is 12; use 8, 16 or 32"
        );
        assert!(check(|c| c.accelerator.gather_ns = -1.0).contains("gather_ns is -1; use 0 to"));
        assert!(check(|c| c.discrete.rows = 0).starts_with("discrete.rows is 0"));
        assert!(check(|c| c.energy.core_watts = -1.0).starts_with("energy.core_watts is -1"));
    }

    #[test]
    fn every_number_of_a_configuration_has_a_range() {
        let all = serde_json::to_value(Config::detailed()).expect("JSON");
        let known: Vec<_> = Config::constants().map(|constant| constant.field).collect();
        for (group, values) in all.as_object().expect("groups") {
            let Some(values) = values.as_object() else { continue };
            for (name, _) in values.iter().filter(|(_, value)| !value.is_boolean()) {
                let field = format!("{group}.{name}");
                assert!(known.contains(&field.as_str()), "{field} has no range");
            }
        }
        assert!(Config::paper().check().is_ok() && Config::detailed().check().is_ok());
    }
}
