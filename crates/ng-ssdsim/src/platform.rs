//! The platforms: who samples, what leaves the channel and the SSD, what waits for what
//! (SIMULATOR, section 3; BeaconGNN, section VII.A).

use serde::Serialize;
use thiserror::Error;

use crate::engine::Path;
use crate::planning::Asked;

/// Where neighbours are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Sampler {
    /// By the host's processor.
    Host,
    /// By the SSD's cores.
    Core,
    /// By a sampler on each die.
    Die,
}

/// What the host gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ToHost {
    /// Every page.
    Pages,
    /// Ids and rows of features, hop by hop.
    IdsAndRows,
    /// Every page to a processor beside the SSD, and from there ids and rows, hop by hop.
    PagesThenIdsAndRows,
    /// Pages of lists, and of the last hop its rows.
    PagesAndLastRows,
    /// Ids, hop by hop.
    Ids,
    /// Results, once a batch.
    Results,
    /// Nothing: its memory holds the graph.
    Nothing,
}

/// How the one that draws gets lists and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Access {
    /// Commands to the SSD, as many at a time as are known.
    Commands,
    /// Reads of one page, one at a time for each worker, past the page cache (`O_DIRECT`).
    Direct,
    /// The same by faults on memory-mapped pages. No page is in the page cache, and nothing is read
    /// ahead: graphs are far larger than memory, and neighbours lie anywhere.
    Mapped,
    /// Loads from DRAM that holds the whole graph; there is no SSD.
    Dram,
    /// Loads from persistent memory that holds the whole graph; there is no SSD.
    Pmem,
}

/// One way to run a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Platform {
    /// As users name it.
    pub name: &'static str,
    /// Where neighbours are drawn.
    pub sampler: Sampler,
    /// Whether a hop waits for the one before.
    pub barrier: bool,
    /// Whether commands pass the SSD's cores.
    pub firmware: bool,
    /// What the host gets.
    pub to_host: ToHost,
    /// Pages go on to the host while others are read.
    pub overlaps: bool,
    /// The unit of a read in bytes: reads are rounded up to it. 0 reads whole pages.
    pub sector_bytes: u32,
    /// How lists and rows are read.
    pub access: Access,
}

/// The platforms of the publication, in its order.
pub const PLATFORMS: [Platform; 8] = [
    Platform::of("CC", Sampler::Host, true, true, ToHost::Pages),
    Platform::of("SmartSage", Sampler::Core, true, true, ToHost::IdsAndRows),
    Platform::of("GList", Sampler::Host, true, true, ToHost::PagesAndLastRows),
    Platform::of("BG-1", Sampler::Core, true, true, ToHost::Ids),
    Platform::of("BG-DG", Sampler::Core, false, true, ToHost::Results),
    Platform::of("BG-SP", Sampler::Die, true, true, ToHost::Ids),
    Platform::of("BG-DGSP", Sampler::Die, false, true, ToHost::Results),
    Platform::of("BG-2", Sampler::Die, false, false, ToHost::Results),
];

/// Others to compare with: CC with its transfers beside the reads, and CC that reads sectors. The
/// rest is what SmartSAGE (sections III, IV and VI) compares: a processor beside the SSD that pages
/// are copied to first, its own design with one command for many targets, a host that reads page
/// after page, and one that has the graph in its memory.
pub const MORE_PLATFORMS: [Platform; 8] = [
    Platform {
        overlaps: true,
        ..Platform::of("CC-pipe", Sampler::Host, true, true, ToHost::Pages)
    },
    Platform {
        sector_bytes: 512,
        ..Platform::of("CC-512", Sampler::Host, true, true, ToHost::Pages)
    },
    Platform::of("FPGA-CSD", Sampler::Host, true, true, ToHost::PagesThenIdsAndRows),
    Platform::of(COALESCED, Sampler::Core, false, true, ToHost::IdsAndRows),
    Platform::reading("SSD-mmap", Access::Mapped),
    Platform::reading("SSD-direct", Access::Direct),
    Platform::in_memory("host-PMEM", Access::Pmem),
    Platform::in_memory("host-DRAM", Access::Dram),
];

/// The platform whose commands can ask for many targets.
pub const COALESCED: &str = "SmartSAGE-coalesced";

/// A name that no platform has.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("unknown platform {name:?}; known: {}", names())]
pub struct UnknownPlatform {
    /// What was asked for.
    pub name: String,
}

fn names() -> String {
    let names: Vec<_> = every().map(|platform| platform.name).collect();
    names.join(", ")
}

fn every() -> impl Iterator<Item = Platform> {
    PLATFORMS.into_iter().chain(MORE_PLATFORMS)
}

impl Platform {
    const fn of(
        name: &'static str,
        sampler: Sampler,
        barrier: bool,
        firmware: bool,
        to_host: ToHost,
    ) -> Self {
        let access = Access::Commands;
        Self { name, sampler, barrier, firmware, to_host, overlaps: false, sector_bytes: 0, access }
    }

    /// A host that reads pages one after the other.
    const fn reading(name: &'static str, access: Access) -> Self {
        let of = Self::of(name, Sampler::Host, false, true, ToHost::Pages);
        Self { overlaps: true, access, ..of }
    }

    /// A host that has everything in its memory.
    const fn in_memory(name: &'static str, access: Access) -> Self {
        Self { access, ..Self::of(name, Sampler::Host, false, false, ToHost::Nothing) }
    }

    /// The platform of this name.
    pub fn by_name(name: &str) -> Result<Self, UnknownPlatform> {
        let found = every().find(|platform| platform.name == name);
        found.ok_or_else(|| UnknownPlatform { name: name.to_owned() })
    }

    /// Whether the whole batch is computed inside the SSD.
    pub fn computes_inside(&self) -> bool {
        matches!(self.to_host, ToHost::Ids | ToHost::Results)
    }

    /// Whether results bring forth the next commands, with neither a barrier nor a chain.
    pub fn is_streaming(&self) -> bool {
        !self.barrier && self.access == Access::Commands
    }

    /// Whether a worker has one read under way at a time.
    pub fn reads_in_chains(&self) -> bool {
        matches!(self.access, Access::Direct | Access::Mapped)
    }

    /// What it asks of its dies.
    pub fn asked(&self) -> Asked {
        Asked {
            sampled: self.sampler == Sampler::Die,
            streaming: self.is_streaming(),
            sector_bytes: self.sector_bytes,
            chained: self.reads_in_chains(),
        }
    }

    /// The way of its commands.
    pub fn path(&self) -> Path {
        Path {
            firmware: self.firmware,
            router: !self.firmware,
            to_host: self.overlaps,
            barrier: self.barrier,
            stack: self.reads_in_chains(),
            faults: self.access == Access::Mapped,
        }
    }
}
