//! What reads bytes of a peer as plain functions of bytes, for fuzzers and tests; no part of the
//! interface. What they answer does not matter; they must not panic, and must end.

pub use crate::shm::fuzzing::{shm_calls, shm_ring, shm_setup};

/// A decoder.
pub type Target = fn(&[u8]);

/// All of them by name.
pub const TARGETS: [(&str, Target); 3] =
    [("shm_ring", shm_ring), ("shm_setup", shm_setup), ("shm_calls", shm_calls)];
