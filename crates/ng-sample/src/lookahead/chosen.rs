//! How a look-ahead reads, once that is chosen.

use super::policy::Reading;

/// Batches that are sampled before the topology makes room for rows, at most, if windows are short.
pub(super) const STRETCH_MIN: u64 = 1024;

/// What was chosen, and what it is expected to cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The policy.
    pub reading: Reading,
    /// Batches that it looks ahead.
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
