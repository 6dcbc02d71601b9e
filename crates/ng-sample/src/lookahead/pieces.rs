//! What the stages hand to each other: sampled batches, rows to be read, batches whose rows have
//! their slots.

use std::borrow::Cow;
use std::sync::Arc;

use ng_store::{Owner, Planned, RowPlan};
use ng_types::Reservation;

use crate::{CompactSample, Ids};

/// A batch that was sampled and waits for its rows.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// Its place in the order of the jobs.
    pub index: u64,
    /// The subgraph.
    pub sample: CompactSample,
    /// By node type, where its rows lie in another order than its nodes: the row of each node.
    pub ordered: OrderedRows,
    /// Memory of these.
    pub held: Option<Reservation>,
}

/// Rows by node type, where they lie in another order than nodes.
pub(crate) type OrderedRows = Vec<Option<Vec<u32>>>;

impl Sampled {
    /// Bytes that are held of the budget.
    pub fn num_bytes(&self) -> u64 {
        self.sample.num_bytes() + self.held.as_ref().map_or(0, Reservation::bytes)
    }

    /// The rows that a tensor of `owner` gives to the batch. Tables have fewer than 2^32 rows.
    pub fn rows(&self, owner: Owner) -> Cow<'_, [u32]> {
        if let Owner::Node(node_type) = owner
            && let Some(Some(rows)) = self.ordered.get(usize::from(node_type.0))
        {
            return Cow::Borrowed(rows);
        }
        match self.sample.row_ids(owner) {
            Ids::Narrow(ids) => Cow::Borrowed(ids),
            Ids::Wide(ids) => ids.iter().map(|id| *id as u32).collect(),
        }
    }
}

/// Rows of one table that are read together.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The batch that cannot be gathered before.
    pub step: u64,
    /// The table.
    pub table: usize,
    /// How.
    pub plan: RowPlan,
    /// Where each row goes.
    pub slots: Vec<u32>,
}

impl Planned for Piece {
    fn plan(&self) -> &RowPlan {
        &self.plan
    }
}

/// The slots of a batch's rows, by table.
pub(crate) type BatchSlots = Arc<Vec<Vec<u32>>>;

/// A batch whose rows have their slots.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub sampled: Sampled,
    pub slots: BatchSlots,
    /// Rows that were planned to be read at its step.
    pub rows_read: u64,
}
