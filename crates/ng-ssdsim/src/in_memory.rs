//! A host whose memory holds the whole graph, DRAM or persistent memory: no SSD, and no events.
//!
//! Sampling from memory is a matter of latency (SmartSAGE, section III.B): a list is a load that no
//! cache answers, and so is a row. What is drawn from one list, and what follows in one row, the
//! processor loads together, so it costs bytes alone. The arithmetic of a draw is left out, as it
//! is on every other platform.

use ng_types::Trace;

use crate::config::Config;
use crate::platform::Access;
use crate::time::{Picos, Rate, from_ns};

/// A kind of memory: what an access takes, bytes a second, bytes of an access.
pub(crate) struct InMemory {
    latency_ns: f64,
    bytes_per_s: f64,
    unit_bytes: u64,
    id_bytes: u64,
    row_bytes: u64,
    cores: u64,
}

/// What a batch takes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Loads that are waited for.
    pub accesses: u64,
    /// Bytes of whole units.
    pub bytes: u64,
}

impl InMemory {
    /// The memory that a platform has its graph in, if that is the host's.
    pub fn of(access: Access, config: &Config, row_bytes: u32) -> Option<Self> {
        let memory = &config.memory;
        let (latency_ns, bytes_per_s, unit_bytes) = match access {
            Access::Commands | Access::Direct | Access::Mapped => return None,
            Access::Dram => {
                (memory.dram_latency_ns, memory.dram_bytes_per_s, memory.dram_unit_bytes)
            }
            Access::Pmem => {
                (memory.pmem_latency_ns, memory.pmem_bytes_per_s, memory.pmem_unit_bytes)
            }
        };
        let (id_bytes, row_bytes) = (u64::from(config.payload.id_bytes), u64::from(row_bytes));
        let (unit_bytes, cores) = (u64::from(unit_bytes), u64::from(config.host.cores));
        Some(Self { latency_ns, bytes_per_s, unit_bytes, id_bytes, row_bytes, cores })
    }

    /// What a batch loads: a list for each node that is drawn from, a row for each node. Draws that
    /// share a unit bring it once.
    pub fn load(&self, trace: &Trace, batch: usize) -> Load {
        let mut load = Load { accesses: 0, bytes: 0 };
        let mut units: Vec<u64> = Vec::new();
        for entry in 0..trace.entries_of(batch).len() as u32 {
            units.clear();
            let positions = trace.draws_of(batch, entry).map(|(position, _)| u64::from(position));
            units.extend(positions.map(|position| position * self.id_bytes / self.unit_bytes));
            units.sort_unstable();
            units.dedup();
            load.accesses += u64::from(!units.is_empty()) + u64::from(self.row_bytes > 0);
            let brought = units.len() as u64 + self.row_bytes.div_ceil(self.unit_bytes);
            load.bytes += brought * self.unit_bytes;
        }
        load
    }

    /// Seconds of batches one after the other.
    pub fn seconds(&self, loads: &[Load]) -> f64 {
        let of = |load: &Load| {
            load.accesses as f64 * self.latency_ns * 1e-9 + load.bytes as f64 / self.bytes_per_s
        };
        loads.iter().map(of).sum()
    }

    /// The time of batches that begin together, each drawn by one core at a time. Cores and memory
    /// are shared evenly, and no batch is quicker than it is alone.
    pub fn time(&self, loads: &[Load]) -> Picos {
        let rate = Rate::bytes_per_second(self.bytes_per_s);
        let moving = |load: &Load| rate.time_of(load.bytes);
        let alone = |load: &Load| load.accesses * from_ns(self.latency_ns) + moving(load);
        let all: Picos = loads.iter().map(alone).sum();
        let longest = loads.iter().map(alone).max().unwrap_or(0);
        let together = (loads.len() as u64).clamp(1, self.cores);
        all.div_ceil(together).max(longest).max(loads.iter().map(moving).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(cores: u32) -> InMemory {
        let mut config = Config::detailed();
        (config.host.cores, config.memory.dram_latency_ns) = (cores, 100.0);
        (config.memory.dram_bytes_per_s, config.memory.dram_unit_bytes) = (1e9, 64);
        InMemory::of(Access::Dram, &config, 200).expect("DRAM")
    }

    /// A target with draws at these positions, which find a node each.
    fn trace(positions: &[u32]) -> Trace {
        let mut trace = Trace::default();
        trace.begin_batch();
        let seed = trace.visit(1, 5_000, 0);
        let found: Vec<u32> = positions.iter().map(|_| trace.visit(2, 9, 1)).collect();
        for (&position, &child) in positions.iter().zip(&found) {
            trace.draw(seed, position, child);
        }
        trace.end_batch();
        trace
    }

    #[test]
    fn a_list_and_each_row_are_waited_for_and_draws_of_one_line_bring_it_once() {
        // 16 ids a line: positions 0 and 15 share one. Rows of 200 bytes are four lines.
        let load = memory(1).load(&trace(&[0, 15, 16, 4_000]), 0);
        assert_eq!(load, Load { accesses: 1 + 5, bytes: (3 + 5 * 4) * 64 });
        // A byte a nanosecond.
        assert_eq!(memory(1).time(&[load]), (600 + 1_472) * 1_000);
        assert!((memory(1).seconds(&[load]) - 2_072e-9).abs() < 1e-15);
        assert!(InMemory::of(Access::Direct, &Config::paper(), 200).is_none());
    }

    #[test]
    fn workers_share_cores_and_no_batch_is_quicker_than_alone() {
        let (short, long) = (Load { accesses: 10, bytes: 0 }, Load { accesses: 90, bytes: 0 });
        let time = |cores, loads: &[Load]| memory(cores).time(loads) / 100_000;
        assert_eq!(
            (time(1, &[short; 4]), time(2, &[short; 4]), time(8, &[short; 4])),
            (40, 20, 10)
        );
        assert_eq!(
            (time(8, &[short]), time(2, &[short, long]), time(1, &[short, long])),
            (10, 90, 100)
        );
        // Cores wait for memory that has no more to give: 4,000 bytes at a byte a nanosecond.
        let wide = Load { accesses: 1, bytes: 1_000 };
        assert_eq!(memory(64).time(&[wide; 4]), 4_000_000);
    }
}
