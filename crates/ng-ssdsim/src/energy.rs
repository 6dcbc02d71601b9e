//! What a batch costs in joules, part by part.

use serde::Serialize;

use crate::accelerator::{WORD_BYTES, Work};
use crate::config::{Accelerator, Config, Energy};
use crate::engine::Outcome;
use crate::plan::Plan;
use crate::time::{Picos, to_seconds};

/// Bytes of one access to the accelerator's memory.
const ACCESS_BYTES: u64 = 64;

/// Joules of a batch, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Joules {
    /// Dies: senses, the one that its channel has selected, standby.
    pub flash: f64,
    /// Samplers on dies.
    pub samplers: f64,
    /// The SSD's cores.
    pub cores: f64,
    /// The router between channels.
    pub router: f64,
    /// The SSD's memory.
    pub dram: f64,
    /// The link.
    pub pcie: f64,
    /// The host's memory.
    pub host_dram: f64,
    /// Additions and multiplications.
    pub arithmetic: f64,
    /// The accelerator's memory.
    pub sram: f64,
}

/// What a batch did, as far as energy is concerned.
pub(crate) struct Activity<'a> {
    pub plan: &'a Plan,
    pub outcome: &'a Outcome,
    pub dies: u64,
    /// Of the batch as a whole.
    pub time: Picos,
    /// Bytes between SSD and host.
    pub host_bytes: u64,
    /// Whether rows of features are in the host's memory when they are computed on.
    pub computes_outside: bool,
    pub array: &'a Accelerator,
    pub work: &'a Work,
    pub computing: Picos,
    pub routed: bool,
}

impl Joules {
    /// All parts together.
    pub fn total(&self) -> f64 {
        self.parts().iter().map(|(_, joules)| joules).sum()
    }

    /// The parts, by name.
    pub fn parts(&self) -> [(&'static str, f64); 9] {
        [
            ("flash", self.flash),
            ("samplers", self.samplers),
            ("cores", self.cores),
            ("router", self.router),
            ("DRAM", self.dram),
            ("PCIe", self.pcie),
            ("host DRAM", self.host_dram),
            ("arithmetic", self.arithmetic),
            ("SRAM", self.sram),
        ]
    }

    pub(crate) fn of(config: &Config, of: &Activity) -> Self {
        let costs = &config.energy;
        let bits = |bytes: u64| 8.0 * bytes as f64;
        // Written once and read once.
        let host_bits = 2.0 * bits(of.host_bytes);
        Self {
            flash: flash(costs, of),
            samplers: costs.sampler_watts * to_seconds(of.outcome.sampler_busy),
            cores: costs.core_watts * to_seconds(of.outcome.core_busy),
            router: if of.routed { costs.route_joules * of.plan.len() as f64 } else { 0.0 },
            dram: (2.0 * bits(of.outcome.dram_bytes) + bits(of.outcome.hit_bytes))
                * costs.dram_joules_per_bit
                + costs.dram_watts * to_seconds(of.time),
            pcie: bits(of.host_bytes) * costs.pcie_joules_per_bit,
            host_dram: if of.computes_outside {
                host_bits * costs.host_dram_joules_per_bit
            } else {
                0.0
            },
            arithmetic: arithmetic(costs, of.work),
            sram: sram(costs, of),
        }
    }
}

/// Senses, and of each channel the die that it has selected, one at a time; the others stand by,
/// whether or not their registers hold data.
fn flash(costs: &Energy, of: &Activity) -> f64 {
    let (sensed, selected) = (of.outcome.die_busy, of.outcome.channel_busy);
    let (sensed, selected) = (to_seconds(sensed), to_seconds(selected));
    let idle = (of.dies as f64 * to_seconds(of.time) - sensed - selected).max(0.0);
    let charge = costs.sense_amperes * sensed
        + costs.selected_amperes * selected
        + costs.standby_amperes * idle;
    costs.flash_volts * charge
}

fn arithmetic(costs: &Energy, work: &Work) -> f64 {
    let products = work.multiplications() as f64;
    let sums: u64 = work.sums.iter().map(|(count, width)| count * width).sum();
    products * (costs.multiply_joules + costs.add_joules) + sums as f64 * costs.add_joules
}

/// Operands and results of products, and leakage.
fn sram(costs: &Energy, of: &Activity) -> f64 {
    let (mut read, mut written) = (0, 0);
    for gemm in of.work.gemms() {
        let words = of.array.gemm_words(gemm);
        (read, written) = (read + words.0, written + words.1);
    }
    let accesses = |words: u64| (words * WORD_BYTES) as f64 / ACCESS_BYTES as f64;
    let idle = of.time.saturating_sub(of.computing);
    accesses(read) * costs.sram_read_joules
        + accesses(written) * costs.sram_write_joules
        + to_seconds(of.computing) * costs.sram_busy_watts
        + to_seconds(idle) * costs.sram_idle_watts
}
