//! What nodes took so far in the mean.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ng_io::{IoCounts, IoStats};

/// Nodes after which what was measured counts half: devices and caches change.
const NODES_REMEMBERED: f64 = 4096.0;

/// What a node took in the mean. Reads are those of the store while batches went on, shared out
/// over the nodes of all of these: what others read meanwhile is among them.
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
    /// Bytes of the memory budget for what is sampled, gathered and computed.
    pub memory_bytes: f64,
    /// Seconds until the answer was there, with all that went on beside it: the share of a node in
    /// those of its batch.
    pub seconds: f64,
}

/// What batches took.
#[derive(Debug, Default)]
pub(crate) struct Measured(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Batches that go on.
    running: usize,
    /// What the device had done up to which all is shared out.
    io: IoCounts,
    /// Sums over batches, of which old ones count less.
    nodes: f64,
    sums: PerNode,
}

/// What a batch did.
pub(crate) struct Done {
    pub nodes: usize,
    pub lists: u64,
    pub rows: u64,
    pub memory_bytes: u64,
    pub seconds: f64,
}

impl Measured {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch begins.
    pub fn begin(&self, io: &IoStats) {
        let state = &mut *self.lock();
        if state.running == 0 {
            state.io = io.counts();
        }
        state.running += 1;
    }

    /// A batch ends, with nothing done if it failed.
    pub fn end(&self, io: &IoStats, done: Option<Done>) {
        let state = &mut *self.lock();
        state.running = state.running.saturating_sub(1);
        let Some(done) = done else { return };
        let now = io.counts();
        let io = now.since(&std::mem::replace(&mut state.io, now));
        let kept = (-(done.nodes as f64) / NODES_REMEMBERED).exp2();
        let add = |sum: &mut f64, more: f64| *sum = kept * *sum + more;
        let sums = &mut state.sums;
        add(&mut state.nodes, done.nodes as f64);
        add(&mut sums.lists, done.lists as f64);
        add(&mut sums.rows, done.rows as f64);
        add(&mut sums.reads, io.reads as f64);
        add(&mut sums.read_bytes, io.read_bytes as f64);
        add(&mut sums.device_seconds, io.busy_us as f64 / 1e6);
        add(&mut sums.memory_bytes, done.memory_bytes as f64);
        add(&mut sums.seconds, done.seconds);
    }

    pub fn mean(&self) -> Option<PerNode> {
        let State { nodes, sums, .. } = *self.lock();
        (nodes > 0.0).then(|| PerNode {
            lists: sums.lists / nodes,
            rows: sums.rows / nodes,
            reads: sums.reads / nodes,
            read_bytes: sums.read_bytes / nodes,
            device_seconds: sums.device_seconds / nodes,
            memory_bytes: sums.memory_bytes / nodes,
            seconds: sums.seconds / nodes,
        })
    }
}
