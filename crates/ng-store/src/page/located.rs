//! Where a block is, and what it must sum up to.

use serde::{Deserialize, Serialize};

/// Which of a segment's files a cached block is in; part of its cache key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Data = 0,
    Table = 1,
}

/// Where a block is on disk and what it must sum up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Located {
    pub block: u64,
    pub crc: u32,
}

impl Located {
    /// A logical block that has no place: its page is dead or was never written.
    pub const NOWHERE: Self = Self { block: u64::MAX, crc: 0 };
}
