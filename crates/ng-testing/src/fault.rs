//! The faults that [`crate::FaultDisk`] plays, and when. `docs/explanation/crash-model.md` says
//! which of them real devices and file systems show.

use std::collections::BTreeMap;

/// Something that a disk does instead of what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A transfer stops early, anywhere, also in the middle of a block.
    Short,
    /// A transfer moves no byte, without an error.
    Nothing,
    /// EINTR.
    Interrupted,
    /// EAGAIN.
    TryAgain,
    /// EIO.
    Error,
    /// ENOSPC; reads never meet it, every other operation may.
    Full,
    /// A read gives bytes in which one bit is flipped, without an error.
    Flip,
    /// A read gives the bytes of another block, without an error.
    Misdirected,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 8] = [
        Self::Short,
        Self::Nothing,
        Self::Interrupted,
        Self::TryAgain,
        Self::Error,
        Self::Full,
        Self::Flip,
        Self::Misdirected,
    ];

    /// Faults that a correct engine hides from its callers as long as they pass.
    pub const PASSING: [Self; 4] = [Self::Short, Self::Nothing, Self::Interrupted, Self::TryAgain];
}

/// How often each fault strikes an operation at random: out of 1,000.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Odds {
    per_mille: BTreeMap<Fault, u64>,
}

impl Odds {
    /// No fault at random.
    pub fn never() -> Self {
        Self::default()
    }

    /// Each of [`Fault::PASSING`] with the same odds.
    pub fn passing(per_mille: u64) -> Self {
        Fault::PASSING.iter().fold(Self::never(), |odds, fault| odds.with(*fault, per_mille))
    }

    /// The same with other odds for `fault`.
    #[must_use]
    pub fn with(mut self, fault: Fault, per_mille: u64) -> Self {
        self.per_mille.insert(fault, per_mille);
        self
    }

    /// The fault of a number below 1,000 that was drawn.
    pub(crate) fn pick(&self, mut drawn: u64) -> Option<Fault> {
        for (fault, odds) in &self.per_mille {
            if drawn < *odds {
                return Some(*fault);
            }
            drawn -= odds;
        }
        None
    }
}

/// What goes wrong, and when. Operations are numbered from 0 in the order in which they end: reads,
/// writes, allocations, syncs, renames, removals, opens, locks and pins.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// Replays a run.
    pub seed: u64,
    /// So many reads are held to be shuffled before each goes to the disk; 1 keeps the order.
    pub window: usize,
    /// Faults at random.
    pub odds: Odds,
    /// Faults at given operations.
    pub at: BTreeMap<u64, Fault>,
    /// Whether a fault of `at` strikes all later operations, too.
    pub sticky: bool,
}

impl FaultPlan {
    /// Shuffles reads and does nothing else.
    pub fn new(seed: u64) -> Self {
        Self { seed, window: 64, odds: Odds::never(), at: BTreeMap::new(), sticky: false }
    }

    /// The same with faults at random.
    #[must_use]
    pub fn with_odds(self, odds: Odds) -> Self {
        Self { odds, ..self }
    }

    /// The same with one fault at operation `index`, or from there on.
    #[must_use]
    pub fn with_fault_at(mut self, index: u64, fault: Fault, sticky: bool) -> Self {
        self.at.insert(index, fault);
        self.sticky = sticky;
        self
    }

    /// The fault that operation `index` was planned to meet.
    pub(crate) fn planned(&self, index: u64) -> Option<Fault> {
        if self.sticky {
            self.at.range(..=index).next_back().map(|(_, fault)| *fault)
        } else {
            self.at.get(&index).copied()
        }
    }
}

/// What a [`crate::FaultDisk`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Operations so far, struck or not.
    pub operations: u64,
    /// Reads among them.
    pub reads: u64,
    /// How often each fault struck.
    pub struck: BTreeMap<Fault, u64>,
}

impl FaultCounts {
    /// How often any fault struck.
    pub fn total(&self) -> u64 {
        self.struck.values().sum()
    }
}
