//! [`ShmOptions`]: sizes, limits and times of connections.

use std::thread::available_parallelism;
use std::time::Duration;

use crate::shm::error::ShmError;
use crate::shm::ring::{RING_BYTES_MAX, RING_BYTES_MIN};

/// With fewer cores, a side that spins keeps the other from answering.
const SPIN_CORES_MIN: usize = 4;

/// How connections are made and waited on.
///
/// ```
/// use ng_io::ShmOptions;
/// let options = ShmOptions { ring_bytes: 64 << 10, ..ShmOptions::default() };
/// assert!(options.connections_max > 0);
/// ```
#[derive(Clone, Debug)]
pub struct ShmOptions {
    /// Bytes of each of the two rings, a power of two from 4 KiB to 64 MiB; 1 MiB by default. A
    /// client gets the size that it requests, limited by the server's.
    pub ring_bytes: u32,
    /// How long a waiting side polls the ring before it sleeps. Default: 20 us, or 0 on fewer than
    /// 4 cores.
    pub spin: Duration,
    /// How often a sleeping side checks whether its peer is alive. Default: 100 ms. A killed peer
    /// is noticed after this time.
    pub peer_check: Duration,
    /// How many connections a server has at once; 64 by default.
    pub connections_max: usize,
    /// How long either side waits for the other while a connection is set up; 2 s by default.
    pub setup_wait: Duration,
}

impl Default for ShmOptions {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        let spin = if cores < SPIN_CORES_MIN { 0 } else { 20 };
        Self {
            ring_bytes: 1 << 20,
            spin: Duration::from_micros(spin),
            peer_check: Duration::from_millis(100),
            connections_max: 64,
            setup_wait: Duration::from_secs(2),
        }
    }
}

impl ShmOptions {
    pub(super) fn check(&self) -> Result<(), ShmError> {
        if is_ring_size(self.ring_bytes) {
            Ok(())
        } else {
            Err(ShmError::RingBytes { bytes: self.ring_bytes })
        }
    }
}

/// Whether a ring may be so long.
pub(super) fn is_ring_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&bytes)
}
