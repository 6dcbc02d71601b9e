//! What a replay takes of the budget, counted the same way when hot rows are chosen and when they
//! are loaded.
//!
//! The invariant: the sum is reserved before the first read of a replay, and nothing is taken for
//! rows beside it.

use ng_store::{Owner, Snapshot, TensorRef};

use super::hot::HotSet;
use ng_types::MemoryUser;

use crate::Sampler;

/// Records in memory: one being gathered, one on its way.
pub(crate) const RECORDS: u64 = 2;

/// Left to the block cache, which serves while hot rows are loaded.
const BLOCK_CACHE_BYTES: u64 = 16 << 20;

/// Staging memory of the thread that reads records.
const STAGING_BYTES: u64 = 4 << 20;

/// Memory of a replay by what it is for, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayMemory {
    /// Hot rows, and the maps that tell them.
    pub hot: u64,
    /// Tensors that are held whole.
    pub whole: u64,
    /// One record that was read.
    pub record: u64,
    /// Rows of batches that are being made, or are with the consumer.
    pub buffers: u64,
    /// Subgraphs, narrow columns, staging, and some room.
    pub others: u64,
}

/// The largest batch that a replay will meet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Largest {
    pub record_bytes: u64,
    pub batch_bytes: u64,
    /// By table.
    pub rows: Vec<u64>,
}

impl ReplayMemory {
    /// What `sampler` takes to replay batches up to `largest`, `prefetch` of them ahead.
    pub(crate) fn new(sampler: &Sampler, hot: &HotSet, largest: &Largest, prefetch: u64) -> Self {
        let mut memory = Self { hot: hot.row_bytes() + hot.map_bytes(), ..Self::default() };
        let most_rows = largest.rows.iter().copied().max().unwrap_or(0);
        let (mut narrow, mut order) = (0, 0);
        for (tensor, decoder) in sampler.columns().tensors() {
            // Sparse rows come through the store's caches.
            let Some(out_bytes) = decoder.map(|decoder| decoder.out_bytes() as u64) else {
                continue;
            };
            match hot.tables.iter().position(|table| table.tensor == tensor) {
                Some(at) => {
                    memory.buffers += (prefetch + 1) * buffer_bytes(largest.rows[at], out_bytes);
                }
                None => {
                    memory.whole += whole_bytes(sampler.snapshot(), tensor);
                    narrow += most_rows * out_bytes;
                    order = order_bytes(sampler.snapshot(), tensor).max(order);
                }
            }
        }
        memory.record = largest.record_bytes;
        memory.others = (prefetch + 2) * (largest.batch_bytes + narrow)
            + STAGING_BYTES
            + order
            + sampler.snapshot().budget().share(MemoryUser::ReplaySlack);
        memory
    }

    /// All of it with `records` records in memory.
    pub(crate) fn with_records(&self, records: u64) -> u64 {
        self.hot + self.whole + self.record * records + self.buffers + self.others
    }

    /// A budget that has room for it with `records` records, beside what is held already.
    pub(crate) fn budget_for(&self, records: u64) -> u64 {
        let wanted = self.with_records(records) + BLOCK_CACHE_BYTES;
        MemoryUser::ReplaySlack.budget_beside(wanted)
    }

    /// All of it, with as many records as one wants to have.
    pub fn num_bytes(&self) -> u64 {
        self.with_records(RECORDS)
    }
}

/// Bytes of a buffer for `rows` rows of `out_bytes`.
pub(crate) fn buffer_bytes(rows: u64, out_bytes: u64) -> u64 {
    (rows * out_bytes).next_multiple_of(2 << 20)
}

/// What loading a whole tensor takes for a moment where rows do not lie in the order of ids.
fn order_bytes(snapshot: &Snapshot, tensor: TensorRef) -> u64 {
    match tensor.owner {
        Owner::Node(node_type) => snapshot.order_bytes(node_type),
        Owner::Edge(_) => 0,
    }
}

/// Bytes of a whole tensor, unless it is stored without its zeros.
pub(crate) fn whole_bytes(snapshot: &Snapshot, tensor: TensorRef) -> u64 {
    let meta = snapshot.catalog().tensor(tensor).filter(|meta| !meta.is_sparse());
    meta.map_or(0, |meta| meta.num_rows.saturating_mul(meta.row_bytes()))
}

/// Bytes of the budget that a replay may have.
pub(crate) fn room(snapshot: &Snapshot) -> u64 {
    snapshot.free_beside_blocks(BLOCK_CACHE_BYTES)
}
