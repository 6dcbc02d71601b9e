//! Which configurations describe a device.

use thiserror::Error;

use super::{Config, Energy};

/// A configuration that describes no device.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum ConfigError {
    /// A count that must be there.
    #[error("{field} is {value}; it has to be at least {least}")]
    TooSmall {
        /// Which.
        field: &'static str,
        /// What was given.
        value: u64,
        /// What is needed.
        least: u64,
    },
    /// A count that no device has.
    #[error("{field} is {value}; at most {most} can be simulated")]
    TooLarge {
        /// Which.
        field: &'static str,
        /// What was given.
        value: u64,
        /// What can be.
        most: u64,
    },
    /// A time that is negative or no number.
    #[error("{field} is {value}; a time is 0 or more, and at most a second")]
    Time {
        /// Which.
        field: &'static str,
        /// What was given.
        value: f64,
    },
    /// An energy that is negative or no number.
    #[error("{field} is {value}; what costs energy costs 0 or more")]
    Energy {
        /// Which.
        field: &'static str,
        /// What was given.
        value: f64,
    },
    /// A rate that is not above 0.
    #[error("{field} is {value}; a rate is at least 1 a second (infinity leaves its cost out)")]
    Rate {
        /// Which.
        field: &'static str,
        /// What was given.
        value: f64,
    },
}

impl Config {
    /// Names the first field with a value that no device has.
    pub fn check(&self) -> Result<(), ConfigError> {
        let flash = &self.flash;
        for (field, value, least, most) in [
            ("flash.channels", flash.channels, 1, 4096),
            ("flash.dies_per_channel", flash.dies_per_channel, 1, 4096),
            ("flash.planes", flash.planes, 1, 16),
            ("flash.page_bytes", flash.page_bytes, 64, 1 << 24),
            ("flash.registers", flash.registers, 1, 255),
            ("firmware.cores", self.firmware.cores, 1, 1024),
            ("host.cores", self.host.cores, 1, 1024),
            ("pcie.unit_bytes", self.pcie.unit_bytes, 1, u32::MAX),
            ("payload.id_bytes", self.payload.id_bytes, 1, u32::MAX),
            ("accelerator.rows", self.accelerator.rows, 1, u32::MAX),
            ("accelerator.columns", self.accelerator.columns, 1, u32::MAX),
            ("discrete.rows", self.discrete.rows, 1, u32::MAX),
            ("discrete.columns", self.discrete.columns, 1, u32::MAX),
        ] {
            let [value, least, most] = [value, least, most].map(u64::from);
            if value < least {
                return Err(ConfigError::TooSmall { field, value, least });
            }
            if value > most {
                return Err(ConfigError::TooLarge { field, value, most });
            }
        }
        let types = flash.sense_types_ns.iter().map(|&ns| ("flash.sense_types_ns", ns));
        let times = [
            ("flash.sense_ns", flash.sense_ns),
            ("flash.read_command_ns", flash.read_command_ns),
            ("flash.planes_command_ns", flash.planes_command_ns),
            ("flash.data_setup_ns", flash.data_setup_ns),
            ("flash.sampler_ns", flash.sampler_ns),
            ("firmware.issue_ns", self.firmware.issue_ns),
            ("firmware.complete_ns", self.firmware.complete_ns),
            ("router.latency_ns", self.router.latency_ns),
            ("host.stack_ns", self.host.stack_ns),
            ("host.io_ns", self.host.io_ns),
        ];
        for (field, value) in times.into_iter().chain(types) {
            if !(0.0..=1e9).contains(&value) {
                return Err(ConfigError::Time { field, value });
            }
        }
        for (field, value) in [
            ("flash.channel_bytes_per_s", flash.channel_bytes_per_s),
            ("flash.sampler_bytes_per_s", flash.sampler_bytes_per_s),
            ("router.port_bytes_per_s", self.router.port_bytes_per_s),
            ("dram.bytes_per_s", self.dram.bytes_per_s),
            ("pcie.bytes_per_s", self.pcie.bytes_per_s),
            ("accelerator.hertz", self.accelerator.hertz),
            ("discrete.hertz", self.discrete.hertz),
        ] {
            if value.is_nan() || value < 1.0 {
                return Err(ConfigError::Rate { field, value });
            }
        }
        for (field, value) in self.energy.values() {
            if !(0.0..=1e6).contains(&value) {
                return Err(ConfigError::Energy { field, value });
            }
        }
        Ok(())
    }
}

impl Energy {
    /// All values, by name.
    fn values(&self) -> [(&'static str, f64); 17] {
        [
            ("energy.flash_volts", self.flash_volts),
            ("energy.sense_amperes", self.sense_amperes),
            ("energy.selected_amperes", self.selected_amperes),
            ("energy.standby_amperes", self.standby_amperes),
            ("energy.sampler_watts", self.sampler_watts),
            ("energy.pcie_joules_per_bit", self.pcie_joules_per_bit),
            ("energy.host_dram_joules_per_bit", self.host_dram_joules_per_bit),
            ("energy.dram_joules_per_bit", self.dram_joules_per_bit),
            ("energy.dram_watts", self.dram_watts),
            ("energy.add_joules", self.add_joules),
            ("energy.multiply_joules", self.multiply_joules),
            ("energy.sram_read_joules", self.sram_read_joules),
            ("energy.sram_write_joules", self.sram_write_joules),
            ("energy.sram_busy_watts", self.sram_busy_watts),
            ("energy.sram_idle_watts", self.sram_idle_watts),
            ("energy.core_watts", self.core_watts),
            ("energy.route_joules", self.route_joules),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_named() {
        let check = |change: fn(&mut Config)| {
            let mut config = Config::paper();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert!(check(|c| c.flash.dies_per_channel = 0).starts_with("flash.dies_per_channel is 0"));
        assert!(check(|c| c.flash.sense_ns = -1.0).starts_with("flash.sense_ns is -1"));
        assert!(check(|c| c.flash.sense_ns = f64::NAN).starts_with("flash.sense_ns is NaN"));
        assert!(check(|c| c.pcie.bytes_per_s = 0.0).starts_with("pcie.bytes_per_s is 0"));
        assert!(check(|c| c.flash.channels = 1 << 20).contains("at most 4096"));
        assert!(check(|c| c.discrete.rows = 0).starts_with("discrete.rows is 0"));
    }
}
