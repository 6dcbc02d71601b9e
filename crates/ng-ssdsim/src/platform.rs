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
    /// Pages of lists, and of the last hop its rows.
    PagesAndLastRows,
    /// Ids, hop by hop.
    Ids,
    /// Results, once a batch.
    Results,
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

/// A name that no platform has.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("no platform {name:?}; there are {}", names())]
pub struct UnknownPlatform {
    /// What was asked for.
    pub name: String,
}

fn names() -> String {
    PLATFORMS.map(|platform| platform.name).join(", ")
}

impl Platform {
    const fn of(
        name: &'static str,
        sampler: Sampler,
        barrier: bool,
        firmware: bool,
        to_host: ToHost,
    ) -> Self {
        Self { name, sampler, barrier, firmware, to_host }
    }

    /// The platform of this name.
    pub fn by_name(name: &str) -> Result<Self, UnknownPlatform> {
        let found = PLATFORMS.into_iter().find(|platform| platform.name == name);
        found.ok_or_else(|| UnknownPlatform { name: name.to_owned() })
    }

    /// Whether the whole batch is computed inside the SSD.
    pub fn computes_inside(&self) -> bool {
        matches!(self.to_host, ToHost::Ids | ToHost::Results)
    }

    /// What it asks of its dies.
    pub fn asked(&self) -> Asked {
        Asked { sampled: self.sampler == Sampler::Die, streaming: !self.barrier }
    }

    /// The way of its commands; `pages_to_host` where pages go on over PCIe one by one.
    pub fn path(&self, pages_to_host: bool) -> Path {
        Path {
            firmware: self.firmware,
            router: !self.firmware,
            to_host: pages_to_host && self.to_host == ToHost::Pages,
            barrier: self.barrier,
        }
    }
}
