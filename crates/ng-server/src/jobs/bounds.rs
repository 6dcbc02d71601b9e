//! [`JobBounds`]: what jobs may take.

use std::time::Duration;

use serde::Deserialize;

use crate::config::units::{de_bytes, de_time};

/// What jobs may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobBounds {
    /// Jobs that have not ended.
    pub unfinished: usize,
    /// Bytes of their targets.
    #[serde(deserialize_with = "de_bytes")]
    pub target_bytes: u64,
    /// Jobs that are computed at the same time.
    pub running: usize,
    /// Bytes of one result.
    #[serde(deserialize_with = "de_bytes")]
    pub result_bytes: u64,
    /// Jobs that have ended and are kept.
    pub kept: usize,
    /// Bytes of their results.
    #[serde(deserialize_with = "de_bytes")]
    pub kept_bytes: u64,
    /// How long a result is kept unless the request sets it.
    #[serde(deserialize_with = "de_time")]
    pub keep: Duration,
    /// How long a request may have it kept.
    #[serde(deserialize_with = "de_time")]
    pub keep_max: Duration,
}

impl Default for JobBounds {
    fn default() -> Self {
        Self {
            unfinished: 64,
            target_bytes: 256 << 20,
            running: 1,
            result_bytes: 256 << 20,
            kept: 1024,
            kept_bytes: 512 << 20,
            keep: Duration::from_secs(600),
            keep_max: Duration::from_secs(24 * 3600),
        }
    }
}
