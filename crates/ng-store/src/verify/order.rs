//! Orders of rows: that they are permutations.

use ng_types::NodeTypeId;

use crate::error::ReadError;
use crate::snapshot::Snapshot;
use crate::verify::Run;

/// Rows whose owners are looked for in one pass over the order, in the least memory.
const ROWS_MIN: u64 = 1 << 20;

impl Run<'_> {
    /// That no two nodes have one row; that each row is one of the type, reading it has seen. Rows
    /// are looked at in as many passes over the order as memory asks for, one bit for each row.
    pub(super) fn check_order(&mut self, snapshot: &Snapshot, id: NodeTypeId) {
        let order = self.version.node_type(id).ok().and_then(|meta| meta.order);
        let Some(order) = order else { return };
        let file = format!("t{}.dat", order.segment);
        let together = (self.inner.budget.limit_bytes() / 16 * 8).max(ROWS_MIN);
        for first in (0..order.num_nodes).step_by(usize::try_from(together).unwrap_or(usize::MAX)) {
            match self.find_twice(snapshot, id, first, together.min(order.num_nodes - first)) {
                Ok(None) => {}
                Ok(Some(node)) => {
                    let what = format!("node {node} has a row that another node has, too");
                    return self.report.add(&file, None, None, what);
                }
                Err(error) => return self.report.add_error(&file, &error),
            }
        }
    }

    /// The first node with a row of `first..first + count` that a node before it has.
    fn find_twice(
        &self,
        snapshot: &Snapshot,
        id: NodeTypeId,
        first: u64,
        count: u64,
    ) -> Result<Option<u64>, ReadError> {
        let _held = self.inner.reserve_batch(count.div_ceil(8))?;
        let mut seen = vec![0_u8; count.div_ceil(8) as usize];
        let mut found = None;
        snapshot.scan_order(id, &mut |node, row| {
            let Some(at) = row.checked_sub(first).filter(|at| *at < count) else { return };
            let Some(byte) = seen.get_mut((at / 8) as usize) else { return };
            if *byte & 1 << (at % 8) != 0 {
                found.get_or_insert(node);
            }
            *byte |= 1 << (at % 8);
        })?;
        Ok(found)
    }
}
