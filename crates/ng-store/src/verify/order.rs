//! Orders of rows: that they are permutations.

use ng_types::{MemoryUser, NodeTypeId};

use crate::error::ReadError;
use crate::store::Snapshot;
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
        let together = (self.inner.budget.share(MemoryUser::VerifiedRows) * 8).max(ROWS_MIN);
        for first in (0..order.num_nodes).step_by(usize::try_from(together).unwrap_or(usize::MAX)) {
            match self.find_twice(snapshot, id, first, together.min(order.num_nodes - first)) {
                Ok(None) => {}
                Ok(Some(node)) => {
                    let what = format!("node {node} has the same row as another node");
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ng_types::Dtype;

    use super::*;
    use crate::build::builder::StoreBuilder;
    use crate::build::spec::{BuildOptions, TensorSpec};
    use crate::catalog::{Owner, TensorRef};
    use crate::store::{OpenOptions, Store};
    use crate::verify::verify;

    /// A sound store but for the order of its 5 rows.
    fn build(path: &std::path::Path, order: [u8; 5]) {
        let mut builder = StoreBuilder::create(path, BuildOptions::default()).unwrap();
        let node = builder.node_type("node", 5).unwrap();
        let (name, shape) = ("x".into(), Vec::new());
        let spec = TensorSpec { name, dtype: Dtype::U8, shape, mask_width: None };
        let mut rows = builder.tensor(Owner::Node(node), spec).unwrap();
        rows.push_rows(&[10, 11, 12, 13, 14]).unwrap();
        builder.add(rows.finish().unwrap()).unwrap();
        let mut rows = builder.row_order(node, 5).unwrap();
        order.iter().for_each(|row| rows.push(&[*row, 0, 0]).unwrap());
        builder.add_row_order(rows.finish().unwrap()).unwrap();
        builder.commit().unwrap();
    }

    #[test]
    fn an_order_that_is_no_permutation_is_a_problem_and_rows_past_the_end_are_not_read() {
        for (order, expected) in [
            ([4, 0, 3, 1, 2], None),
            ([4, 0, 3, 0, 2], Some("node 3 has the same row as another node")),
            ([4, 0, 5, 1, 2], Some("row 5 is out of range in an order of 5 nodes")),
        ] {
            let dir = tempfile::tempdir().unwrap();
            build(dir.path(), order);
            let options = OpenOptions { memory: Some(16 << 20), ..OpenOptions::default() };
            let report = verify(dir.path(), &options, &mut |_, _| true).unwrap();
            let found = report.problems.first().map(|problem| problem.what.as_str());
            assert_eq!(found, expected);
            let store = Store::open(dir.path(), &options).unwrap();
            let tensor = TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 0 };
            let mut out = [0];
            let read = store.snapshot().gather(tensor, &[2], &mut out);
            assert_eq!((read.is_ok(), out), if order[2] < 5 { (true, [13]) } else { (false, [0]) });
        }
    }
}
