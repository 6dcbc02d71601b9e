//! How many batches are in a device at the same time, and who cannot have several.

use serde::{Deserialize, Serialize};

use crate::platform::{COALESCED, Platform};
use crate::reuse::Reuse;
use crate::simulate::SimulateError;

/// Workers that share a device, at most.
pub(crate) const WORKERS_MAX: u32 = 64;

/// Who works at the same time (SmartSAGE, sections III.B and VI).
///
/// Workers begin together, each with a batch of its own, and the next batches begin when the last
/// of these is over. Batches share the device and the host:
///
/// - the servers of the SSD, each of which takes who comes first, whichever batch that is for;
/// - the link, in each direction, whose transfers follow each other, so that their times add up;
/// - the cores of the host, all `host.cores` of them, for what takes a core.
///
/// What takes no server overlaps: each batch waits for its own hops and for its own visits of the
/// storage stack (`host.stack_ns`), and for those of no other batch. Batches are computed one after
/// the other on one accelerator, while the next ones are prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Crowd {
    /// Batches at the same time, 1 to 64.
    pub workers: u32,
    /// Targets that one command to the SSD asks for, on [`COALESCED`] alone; 0 is a whole batch.
    pub targets_per_command: u32,
}

impl Default for Crowd {
    fn default() -> Self {
        Self { workers: 1, targets_per_command: 0 }
    }
}

impl Crowd {
    /// Whether a platform can have it, beside what it reads once for several.
    pub(crate) fn check(&self, platform: Platform, reuse: &Reuse) -> Result<(), SimulateError> {
        let Self { workers, targets_per_command } = *self;
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(SimulateError::Workers { workers });
        }
        if targets_per_command > 0 && platform.name != COALESCED {
            let platform = platform.name;
            return Err(SimulateError::Coalescing { platform, targets_per_command });
        }
        let other = match reuse {
            Reuse { grouped: 2.., .. } => format!("{} grouped batches", reuse.grouped),
            Reuse { cache_pages: 1.., .. } => format!("a cache of {} pages", reuse.cache_pages),
            _ => return Ok(()),
        };
        if workers == 1 { Ok(()) } else { Err(SimulateError::Both { workers, other }) }
    }

    /// Commands from the host for a batch.
    pub(crate) fn commands(&self, targets: u64) -> u64 {
        match self.targets_per_command {
            0 => 1,
            some => targets.div_ceil(u64::from(some)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_together_is_named_with_both_sides() {
        let said = |name, workers, targets_per_command, reuse| {
            let platform = Platform::by_name(name).expect("known");
            let found = Crowd { workers, targets_per_command }.check(platform, &reuse);
            found.err().map(|error| error.to_string())
        };
        let none = Reuse::default;
        for name in ["CC", "BG-2", "SSD-mmap", "host-DRAM", COALESCED] {
            assert_eq!(said(name, 64, 0, none()), None, "{name}");
            let found = said(name, 65, 0, none()).expect("too many");
            assert_eq!(found, "65 is not a valid number of workers: expected 1 to 64");
        }
        assert_eq!(said(COALESCED, 3, 16, none()), None);
        let found = said("SmartSage", 1, 16, none()).expect("one command a hop");
        assert!(
            found.starts_with("SmartSage does not support 16 targets per command; only"),
            "{found}"
        );
        let grouped = Reuse { grouped: 4, ..none() };
        assert_eq!(said("CC", 1, 0, grouped.clone()), None);
        let found = said("CC", 2, 0, grouped).expect("both");
        assert!(
            found.starts_with("2 workers cannot be combined with 4 grouped batches"),
            "{found}"
        );
        let found = said("CC", 2, 0, Reuse { cache_pages: 9, ..none() }).expect("both");
        assert!(
            found.starts_with("2 workers cannot be combined with a cache of 9 pages"),
            "{found}"
        );
        assert_eq!(said("CC", 2, 0, Reuse { merged: true, ..none() }), None);
    }
}
