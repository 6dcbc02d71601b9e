//! What a run is given beside its plan, and what it took and moved.

use serde::Serialize;

use super::Round;
use crate::time::Picos;

/// What a run took and moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// From the first issue to the last result.
    pub makespan: Picos,
    /// Commands that were issued.
    pub issued: u64,
    /// Commands whose result was seen.
    pub completed: u64,
    /// Events.
    pub events: u64,
    /// Of each hop: first sense and last result.
    pub hops: Vec<(Picos, Picos)>,
    /// Time of senses, over all dies (planes together count once).
    pub die_busy: Picos,
    /// Senses; fewer than commands where planes sense together.
    pub senses: u64,
    /// Time of samplers on dies.
    pub sampler_busy: Picos,
    /// Time of channels, over all of them.
    pub channel_busy: Picos,
    /// Time of the SSD's cores.
    pub core_busy: Picos,
    /// Time of DRAM.
    pub dram_busy: Picos,
    /// Time of PCIe towards the host.
    pub pcie_busy: Picos,
    /// Time of the host's cores.
    pub host_busy: Picos,
    /// Bytes over channels, spare bytes included.
    pub channel_bytes: u64,
    /// Bytes into DRAM from channels.
    pub dram_bytes: u64,
    /// Bytes on the wire towards the host.
    pub pcie_bytes: u64,
    /// Commands that waited at one die, at most.
    pub queue_max: u32,
    /// Commands that found a full queue.
    pub spilled: u64,
    /// Commands whose page was in the SSD's memory.
    pub hits: u64,
    /// Bytes of these pages.
    pub hit_bytes: u64,
}

/// When things are issued that no command brings forth.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start<'a> {
    /// Of each root; at once where it is empty. In ascending order.
    pub arrivals: &'a [Picos],
    /// Of each batch, what the host does after each of its hops; after all of it where there is no
    /// barrier. Batches and hops without a round go on at once.
    pub rounds: &'a [Vec<Round>],
    /// The most requests in flight; adjacent roots with the same entry are one request. 0 is no
    /// limit.
    pub depth: u32,
}
