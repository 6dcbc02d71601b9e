//! How a look-ahead reads, once that is chosen.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::policy::Reading;

/// Batches that are sampled before the topology makes room for rows, at most, if windows are short.
pub(super) const STRETCH_MIN: u64 = 1024;

/// A choice of reading, and its expected cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The policy.
    pub reading: Reading,
    /// The window in batches.
    pub window: u64,
    /// With two phases: batches that are sampled ahead before the topology goes, at most.
    pub sampled_first: Option<u64>,
    /// Rows that stay in memory all the time: those of a distribution.
    pub hot_rows: u64,
    /// Rows that memory has room for, the hot ones included.
    pub slots: u64,
    /// Bytes of these.
    pub slot_bytes: u64,
    /// Expected device requests a batch.
    pub reads: f64,
    /// Expected bytes a batch.
    pub read_bytes: f64,
    /// Expected bytes a batch that are written to disk.
    pub write_bytes: f64,
    /// Expected seconds of the device a batch.
    pub seconds: f64,
}

impl Chosen {
    /// Whether both read alike, however far they look ahead.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let how = |chosen: &Self| (chosen.reading, chosen.sampled_first.is_some());
        how(self) == how(other)
    }

    /// Whether the topology makes room for rows now and then.
    pub(super) fn is_scan_in_two_phases(&self) -> bool {
        self.reading == Reading::Scan && self.sampled_first.is_some()
    }
}

/// What is in force. Its lock is taken last, and nothing is waited for under it.
#[derive(Debug, Default)]
pub(super) struct InForce(Mutex<Plans>);

#[derive(Debug, Default)]
struct Plans {
    /// How the first batches are read.
    begun_with: Option<Chosen>,
    /// How the others are.
    chosen: Option<Chosen>,
}

impl InForce {
    /// Before anything is decided, batches are read like this.
    pub fn begin(&self, with: Chosen) {
        self.lock().begun_with = Some(with);
    }

    /// Batches are read like this from now on; returns how they were read by decision before.
    pub fn decide(&self, chosen: Chosen) -> Option<Chosen> {
        self.lock().chosen.replace(chosen)
    }

    /// What was decided.
    pub fn chosen(&self) -> Option<Chosen> {
        self.lock().chosen.clone()
    }

    /// How batches are read at present.
    pub fn reads_by(&self) -> Option<Chosen> {
        let plans = self.lock();
        plans.chosen.as_ref().or(plans.begun_with.as_ref()).cloned()
    }

    /// Jobs that are of use before the consumer takes another batch.
    pub fn ahead(&self) -> u64 {
        match &self.lock().chosen {
            Some(chosen) => chosen.sampled_first.unwrap_or(2 * chosen.window + 16),
            None => STRETCH_MIN,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Plans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
