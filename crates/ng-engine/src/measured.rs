//! What nodes took so far in the mean.

use std::sync::{Mutex, PoisonError};

use ng_io::IoCounts;

/// Nodes after which what was measured counts half: devices and caches change.
const NODES_REMEMBERED: f64 = 4096.0;

/// What a node took in the mean, of batches that nothing else ran beside.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerNode {
    /// Neighbour lists that were drawn from.
    pub lists: f64,
    /// Rows of nodes and edges.
    pub rows: f64,
    /// Reads of the device.
    pub reads: f64,
    /// Bytes that they brought.
    pub read_bytes: f64,
    /// Seconds in which a read was in flight.
    pub device_seconds: f64,
    /// Seconds until the answer was there.
    pub seconds: f64,
}

/// Sums over batches, of which old ones count less.
#[derive(Debug, Default)]
pub(crate) struct Measured(Mutex<(f64, PerNode)>);

/// What a batch did.
pub(crate) struct Done {
    pub nodes: usize,
    pub lists: u64,
    pub rows: u64,
    pub io: IoCounts,
    pub seconds: f64,
}

impl Measured {
    pub fn add(&self, done: &Done) {
        let (nodes, sums) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = (-(done.nodes as f64) / NODES_REMEMBERED).exp2();
        let add = |sum: &mut f64, more: f64| *sum = kept * *sum + more;
        add(nodes, done.nodes as f64);
        add(&mut sums.lists, done.lists as f64);
        add(&mut sums.rows, done.rows as f64);
        add(&mut sums.reads, done.io.reads as f64);
        add(&mut sums.read_bytes, done.io.read_bytes as f64);
        add(&mut sums.device_seconds, done.io.busy_us as f64 / 1e6);
        add(&mut sums.seconds, done.seconds);
    }

    pub fn mean(&self) -> Option<PerNode> {
        let (nodes, sums) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (nodes > 0.0).then(|| PerNode {
            lists: sums.lists / nodes,
            rows: sums.rows / nodes,
            reads: sums.reads / nodes,
            read_bytes: sums.read_bytes / nodes,
            device_seconds: sums.device_seconds / nodes,
            seconds: sums.seconds / nodes,
        })
    }
}
