//! What a batch costs in joules, part by part.

use serde::Serialize;

use crate::accelerator::{Gemm, Work};
use crate::config::{Accelerator, Config, Energy};
use crate::engine::Outcome;
use crate::time::{Picos, to_seconds};

/// Bits of one access to the accelerator's memory.
const ACCESS_BITS: u64 = 512;

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
    pub commands: u64,
    pub outcome: &'a Outcome,
    pub dies: u64,
    /// Of the batch as a whole.
    pub time: Picos,
    /// Bytes between SSD and host.
    pub host_bytes: u64,
    /// Bytes that are read where they are, in the host's memory, which holds the graph: no SSD.
    pub memory_bytes: Option<u64>,
    /// Whether rows of features are in the host's memory when they are computed on.
    pub computes_outside: bool,
    pub array: &'a Accelerator,
    pub works: &'a [Work],
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
        // Written once and read once, or there already.
        let host_bits = of.memory_bytes.map_or(2.0 * bits(of.host_bytes), bits);
        let has_ssd = of.memory_bytes.is_none();
        Self {
            flash: if has_ssd { flash(costs, of) } else { 0.0 },
            samplers: costs.sampler_watts * to_seconds(of.outcome.sampler_busy),
            cores: costs.core_watts * to_seconds(of.outcome.core_busy),
            router: if of.routed { costs.route_joules * of.commands as f64 } else { 0.0 },
            dram: if has_ssd { dram(costs, of) } else { 0.0 },
            pcie: bits(of.host_bytes) * costs.pcie_joules_per_bit,
            host_dram: if of.computes_outside {
                host_bits * costs.host_dram_joules_per_bit
            } else {
                0.0
            },
            arithmetic: of.works.iter().map(|work| arithmetic(costs, of.array, work)).sum(),
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

/// The SSD's memory: what is written and read, and what it takes whatever happens.
fn dram(costs: &Energy, of: &Activity) -> f64 {
    let bits = |bytes: u64| 8.0 * bytes as f64;
    (2.0 * bits(of.outcome.dram_bytes) + bits(of.outcome.hit_bytes)) * costs.dram_joules_per_bit
        + costs.dram_watts * to_seconds(of.time)
}

/// Additions and multiplications of products and rows.
fn arithmetic(costs: &Energy, array: &Accelerator, work: &Work) -> f64 {
    let (add, multiply) = times_of_words(array.word_bits);
    let (add, multiply) = (costs.add_joules * add, costs.multiply_joules * multiply);
    let products: u64 = gemms(array, work).map(|gemm| gemm.m * gemm.k * gemm.n).sum();
    let (mut added, mut multiplied) = (0, 0);
    for rows in work.rows.iter().filter(|rows| !array.selects(rows)) {
        let operations = rows.operations();
        (added, multiplied) = (added + operations.0, multiplied + operations.1);
    }
    products as f64 * (multiply + add) + added as f64 * add + multiplied as f64 * multiply
}

/// The energy of an addition and of a multiplication of `bits`-bit words, as multiples of those of
/// 16 bits: Horowitz (ISSCC 2014, 45 nm) has 0.03 and 0.2 pJ for integers of 8 bits, 0.4 and 1.1 pJ
/// for floating point of 16, and 0.9 and 3.7 pJ of 32.
fn times_of_words(bits: u32) -> (f64, f64) {
    match bits {
        8 => (0.03 / 0.4, 0.2 / 1.1),
        32 => (0.9 / 0.4, 3.7 / 1.1),
        _ => (1.0, 1.0),
    }
}

/// All that the array computes: products by weights, and by matrices that select rows.
fn gemms<'a>(array: &'a Accelerator, work: &'a Work) -> impl Iterator<Item = Gemm> + 'a {
    let selected = work.rows.iter().filter(|rows| array.selects(rows));
    work.gemms().chain(selected.map(|rows| rows.shape))
}

/// Operands and results of products, and leakage.
fn sram(costs: &Energy, of: &Activity) -> f64 {
    let (mut read, mut written) = (0, 0);
    for gemm in of.works.iter().flat_map(|work| gemms(of.array, work)) {
        let words = of.array.gemm_words(gemm);
        (read, written) = (read + words.0, written + words.1);
    }
    let bits = u64::from(of.array.word_bits);
    let accesses = |words: u64| (words * bits) as f64 / ACCESS_BITS as f64;
    let idle = of.time.saturating_sub(of.computing);
    accesses(read) * costs.sram_read_joules
        + accesses(written) * costs.sram_write_joules
        + to_seconds(of.computing) * costs.sram_busy_watts
        + to_seconds(idle) * costs.sram_idle_watts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accelerator::{Layer, Model};

    /// One layer of two nodes with six neighbours; rows of 5 columns, of 4, and of 3 in the result.
    fn work(layer: Layer) -> Work {
        let model = Model { columns: 5, hidden: 4, outputs: 3, backward: false, layer };
        Work::of_batch(&model, &[2, 6])
    }

    fn close(found: f64, wanted: f64) {
        assert!((found / wanted - 1.0).abs() < 1e-12, "{found} {wanted}");
    }

    #[test]
    fn each_operation_costs_what_words_of_its_size_cost() {
        let costs = Energy { add_joules: 0.4, multiply_joules: 1.1, ..Energy::paper() };
        let with = |bits| Accelerator { word_bits: bits, ..Config::detailed().accelerator };
        let products = f64::from(2 * 5 * 4 + 2 * 4 * 3);
        for (bits, add, multiply) in [(8, 0.03, 0.2), (16, 0.4, 1.1), (32, 0.9, 3.7)] {
            let of = |layer| arithmetic(&costs, &with(bits), &work(layer));
            close(of(Layer::Sage), products * (add + multiply) + 30.0 * add);
            // Six neighbours and two own rows, each scaled and summed.
            close(of(Layer::Gcn), products * (add + multiply) + 40.0 * (add + multiply));
        }
    }

    #[test]
    fn zeros_of_a_selection_cost_as_much_as_anything() {
        let costs = Energy { add_joules: 1.0, multiply_joules: 1.0, ..Energy::paper() };
        let array = Accelerator::lsap();
        let work = work(Layer::Gcn);
        assert!(array.selects(&work.rows[0]));
        let selected = f64::from(2 * 8 * 5);
        let products = f64::from(2 * 5 * 4 + 2 * 4 * 3);
        close(arithmetic(&costs, &array, &work), 2.0 * (products + selected));
        // What the core sums, it sums without zeros.
        let core = Accelerator { sums_on_array: false, ..array };
        close(arithmetic(&costs, &core, &work), 2.0 * products + 2.0 * 8.0 * 5.0);
    }
}
