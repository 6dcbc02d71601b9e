//! The values of the two modes, and what they differ in.

use super::{
    Accelerator, Config, Dram, Energy, Firmware, Flash, Host, Memory, Payload, Pcie, Router, Switch,
};

impl Config {
    /// As in the publication, with what it leaves out.
    pub fn paper() -> Self {
        Self {
            flash: Flash {
                channels: 16,
                dies_per_channel: 8,
                planes: 1,
                page_bytes: 4000,
                spare_bytes: 0,
                channel_bytes_per_s: 800e6,
                sense_ns: 3_000.0,
                sense_types_ns: Vec::new(),
                program_ns: 30_000.0,
                registers: 2,
                read_command_ns: 0.0,
                planes_command_ns: 0.0,
                data_setup_ns: 0.0,
                round_robin: false,
                sampler_ns: 200.0,
                sampler_bytes_per_s: 1_365e6,
            },
            firmware: Firmware { cores: 4, issue_ns: 200.0, complete_ns: 0.0 },
            router: Router {
                latency_ns: 0.0,
                port_bytes_per_s: f64::INFINITY,
                command_bytes: 16,
                queue_depth: 0,
            },
            dram: Dram { bytes_per_s: f64::INFINITY, lookup_bytes: 0 },
            pcie: Pcie {
                bytes_per_s: 8e9,
                unit_bytes: 4000,
                payload_bytes: 0,
                overhead_bytes: 0,
                both_directions: false,
            },
            host: Host { stack_ns: 10_000.0, cores: 1, io_ns: 0.0, fault_ns: 0.0 },
            memory: Memory::default(),
            accelerator: Accelerator {
                rows: 64,
                columns: 64,
                lanes: 0,
                hertz: 800e6,
                words_per_cycle: 16,
                word_bits: Accelerator::usual_word_bits(),
                gather_ns: 0.0,
                gathers_in_flight: 0,
                sums_on_array: false,
                scratchpad_bytes: Accelerator::usual_scratchpad(),
                timed: true,
            },
            discrete: Accelerator {
                rows: 128,
                columns: 128,
                lanes: 0,
                hertz: 1e9,
                words_per_cycle: 0,
                word_bits: Accelerator::usual_word_bits(),
                gather_ns: 0.0,
                gathers_in_flight: 0,
                sums_on_array: false,
                scratchpad_bytes: 32 << 20,
                timed: false,
            },
            payload: Payload { header_bytes: 0, child_bytes: 0, id_bytes: 4 },
            energy: Energy::paper(),
            features_beside_lists: true,
        }
    }

    /// With every cost in it.
    pub fn detailed() -> Self {
        let mut config = Self::paper();
        let flash = &mut config.flash;
        (flash.planes, flash.page_bytes, flash.spare_bytes) = (2, 4096, 224);
        flash.program_ns = 100_000.0;
        (flash.read_command_ns, flash.planes_command_ns) = (290.0, 940.0);
        (flash.data_setup_ns, flash.round_robin) = (30.0, true);
        config.firmware = Firmware { cores: 4, issue_ns: 600.0, complete_ns: 200.0 };
        config.router = Router {
            latency_ns: 10.0,
            port_bytes_per_s: 16.0 * 400e6,
            command_bytes: 16,
            queue_depth: 64,
        };
        config.dram = Dram { bytes_per_s: 0.8 * 25.6e9, lookup_bytes: 64 };
        config.pcie = Pcie {
            bytes_per_s: 7.877e9,
            unit_bytes: 1,
            payload_bytes: 256,
            overhead_bytes: 28,
            both_directions: true,
        };
        config.host =
            Host { stack_ns: 10_000.0, cores: 2, io_ns: 1_000.0, fault_ns: Host::usual_fault_ns() };
        config.accelerator.lanes = 64;
        (config.discrete.lanes, config.discrete.timed) = (128, true);
        config.payload = Payload { header_bytes: 16, child_bytes: 16, id_bytes: 4 };
        config.energy = Energy::detailed();
        config.features_beside_lists = false;
        config
    }

    /// What the two modes differ in, one cost at a time: a name, and what takes it from another
    /// configuration.
    pub const SWITCHES: &'static [(&'static str, Switch)] = &[
        // Batches program nothing, so its time changes none of their figures.
        ("planes", |c, o| {
            (c.flash.planes, c.flash.program_ns) = (o.flash.planes, o.flash.program_ns);
        }),
        ("pages with spare bytes", |c, o| {
            c.flash.page_bytes = o.flash.page_bytes;
            c.flash.spare_bytes = o.flash.spare_bytes;
        }),
        ("command cycles on the channel", |c, o| {
            c.flash.read_command_ns = o.flash.read_command_ns;
            c.flash.planes_command_ns = o.flash.planes_command_ns;
            c.flash.data_setup_ns = o.flash.data_setup_ns;
            c.flash.round_robin = o.flash.round_robin;
        }),
        ("firmware time", |c, o| c.firmware = o.firmware.clone()),
        ("router", |c, o| c.router = o.router.clone()),
        ("DRAM", |c, o| c.dram = o.dram.clone()),
        ("PCIe packets", |c, o| c.pcie = o.pcie.clone()),
        ("processor per I/O", |c, o| c.host = o.host.clone()),
        ("vector unit, discrete accelerator", |c, o| {
            c.accelerator = o.accelerator.clone();
            c.discrete = o.discrete.clone();
        }),
        ("ids and headers of results", |c, o| c.payload = o.payload.clone()),
        ("energy of cores, samplers, router", |c, o| c.energy = o.energy.clone()),
        ("rows apart from lists", |c, o| c.features_beside_lists = o.features_beside_lists),
    ];
}

impl Host {
    /// 4 us, a proposal of ours: `benchmarks/page_faults.py` reads pages of a file at random, one
    /// at a time, once with `O_DIRECT` and once through a mapping of which nothing is in memory.
    ///
    /// On a virtual machine with 2 cores (Linux 6.18) a mapped page took 3.5 and 3.3 us more of a
    /// core and came 5.5 and 5.4 us later (medians of 15 rounds of 20,000 pages, twice). The disk's
    /// share is the same on both sides. Memory was not short, so making room for a page is not part
    /// of it.
    pub fn usual_fault_ns() -> f64 {
        4_000.0
    }
}

impl Default for Memory {
    /// Public knowledge of a socket with six modules of each kind, chosen by us.
    ///
    /// DRAM: about 90 ns for a random load, lines of 64 bytes; 125 GB/s is the figure of SmartSAGE
    /// (section III.B). Optane DC: 305 ns for a random load, 39.4 GB/s of reads, units of 256 bytes
    /// (Izraelevitz and others, arXiv 1903.05714). Table 2.1 of the thesis Scaling Graph Neural
    /// Networks with Persistent Memory has 50 ns for both DRAM and phase-change memory, which are
    /// figures of cells; the thesis emulates such memory on an SSD (its section 4.4).
    fn default() -> Self {
        Self {
            dram_latency_ns: 90.0,
            dram_bytes_per_s: 125e9,
            dram_unit_bytes: 64,
            pmem_latency_ns: 305.0,
            pmem_bytes_per_s: 39.4e9,
            pmem_unit_bytes: 256,
        }
    }
}

impl Energy {
    /// As in the publication: samplers, cores and router cost nothing.
    pub fn paper() -> Self {
        // From 45 to 32 nm.
        let scale = (32.0f64 / 45.0).powi(2);
        Self {
            flash_volts: 3.3,
            sense_amperes: 25e-3,
            selected_amperes: 5e-3,
            standby_amperes: 10e-6,
            sampler_watts: 0.0,
            pcie_joules_per_bit: 7.5e-12,
            host_dram_joules_per_bit: 40e-12,
            dram_joules_per_bit: 22e-12,
            dram_watts: 0.0,
            add_joules: 0.4e-12 * scale,
            multiply_joules: 1.1e-12 * scale,
            sram_read_joules: 0.585e-9,
            sram_write_joules: 0.616e-9,
            sram_busy_watts: 3.83,
            sram_idle_watts: 0.195,
            core_watts: 0.0,
            route_joules: 0.0,
        }
    }

    /// With all parts: samplers as published; cores, DRAM and router as proposed here.
    pub fn detailed() -> Self {
        Self {
            sampler_watts: 5.23e-3,
            dram_watts: 0.15,
            core_watts: 0.25,
            route_joules: 20e-12,
            ..Self::paper()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_modes_describe_a_device() {
        assert_eq!(Config::paper().check(), Ok(()));
        assert_eq!(Config::detailed().check(), Ok(()));
    }

    #[test]
    fn taking_every_switch_makes_one_mode_of_the_other() {
        let (mut from, to) = (Config::paper(), Config::detailed());
        for (name, switch) in Config::SWITCHES {
            let before = from.clone();
            switch(&mut from, &to);
            assert_ne!(from, before, "{name} changes nothing");
        }
        assert_eq!(from, to);
    }

    #[test]
    fn a_configuration_of_before_has_the_usual_memory_and_fault() {
        let mut saved = serde_json::to_value(Config::detailed()).unwrap();
        saved.as_object_mut().unwrap().remove("memory");
        saved["host"].as_object_mut().unwrap().remove("fault_ns");
        assert_eq!(serde_json::from_value::<Config>(saved).unwrap(), Config::detailed());
    }

    #[test]
    fn a_configuration_survives_json_and_unknown_fields_do_not() {
        for config in [Config::paper(), Config::detailed()] {
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
            let wrong = text.replacen("channels", "chanels", 1);
            let error = serde_json::from_str::<Config>(&wrong).unwrap_err().to_string();
            assert!(error.contains("unknown field `chanels`"), "{error}");
        }
    }
}
