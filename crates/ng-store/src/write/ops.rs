//! The operations of an open transaction: as its record will hold them, and what they cost.
//!
//! What must not live here: doing them. The invariant: the memory of the record is taken from the
//! budget before it grows.

use std::collections::{BTreeMap, HashSet};

use ng_types::{BudgetExceeded, EdgeTypeId, NodeTypeId, Reservation};

use crate::catalog::TensorRef;
use crate::error::ReadError;
use crate::limits::RECORD_BYTES_MAX;
use crate::store::Inner;
use crate::write::error::UpdateError;
use crate::write::op::{Op, for_each};

/// Memory is taken from the budget in steps of this.
const STEP_BYTES: u64 = 1 << 20;

/// What a transaction asks for.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    /// Encoded, one after the other.
    pub bytes: Vec<u8>,
    /// How many.
    pub count: u64,
    /// Bytes that they carry: 8 for an id, and the rows.
    pub payload_bytes: u64,
    /// Nodes that they delete.
    pub deleted: HashSet<(NodeTypeId, u64)>,
    /// Sources and destinations of edges that they add.
    pub edges: BTreeMap<EdgeTypeId, (Vec<u64>, Vec<u64>)>,
    /// Rows that they replace.
    pub rows: BTreeMap<TensorRef, Vec<u64>>,
    /// Memory that doing them may take, an upper bound.
    pub cost_bytes: u64,
    held: Option<Reservation>,
}

impl Ops {
    /// Appends an operation.
    pub fn push(&mut self, inner: &Inner, op: &Op<'_>) -> Result<(), UpdateError> {
        op.encode(&mut self.bytes);
        self.count(op);
        if self.bytes.len() as u64 > RECORD_BYTES_MAX {
            let what =
                format!("the transaction exceeds {RECORD_BYTES_MAX} bytes; commit it in parts");
            return Err(UpdateError::Unsupported { what });
        }
        self.charge(inner).map_err(|error| ReadError::from(error).into())
    }

    /// Forgets all but the first `bytes` of operations, and what a draft notes of them; shows each
    /// that is kept to `visit`.
    pub fn rewind(
        &mut self,
        bytes: usize,
        visit: &mut dyn FnMut(&Op<'_>) -> Result<(), UpdateError>,
    ) -> Result<(), UpdateError> {
        self.bytes.truncate(bytes);
        (self.count, self.payload_bytes) = (0, 0);
        self.deleted.clear();
        self.edges.clear();
        self.rows.clear();
        let bytes = std::mem::take(&mut self.bytes);
        let done = for_each(&bytes, &mut |op| {
            self.count(op);
            visit(op)
        });
        self.bytes = bytes;
        done
    }

    fn count(&mut self, op: &Op<'_>) {
        self.count += 1;
        self.payload_bytes += op.payload_bytes();
        if let Op::DeleteNode { node_type, id } = *op {
            self.deleted.insert((node_type, id));
        }
    }

    /// Notes the ends of edges that are added.
    pub fn touch_edges(&mut self, edge_type: EdgeTypeId, sources: &[u64], destinations: &[u64]) {
        let ends = self.edges.entry(edge_type).or_default();
        ends.0.extend_from_slice(sources);
        ends.1.extend_from_slice(destinations);
    }

    /// Notes rows that are replaced.
    pub fn touch_rows(&mut self, tensor: TensorRef, rows: &[u64]) {
        self.rows.entry(tensor).or_default().extend_from_slice(rows);
    }

    /// Covers the operations, their record, and what is noted of them.
    fn charge(&mut self, inner: &Inner) -> Result<(), BudgetExceeded> {
        let wanted = 2 * self.bytes.len() as u64 + 16 * self.count;
        let held = self.held.as_ref().map_or(0, Reservation::bytes);
        if wanted <= held + STEP_BYTES {
            return Ok(());
        }
        let more = inner.try_reserve(wanted.next_multiple_of(STEP_BYTES) - held)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}
