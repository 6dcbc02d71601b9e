//! [`OlderLists`]: lists in memory that outlive commits.
//!
//! Most commits change few lists. Those are read from the store; all others are still what they
//! were when the topology was loaded. What must not live here: which lists changed.

use std::sync::Arc;

use ng_store::{Expansion, ResidentTopology};
use ng_types::{Bits, NodeId, Reservation};

/// One of so many lists may have changed before it pays to load them anew.
const CHANGED_PARTS: u64 = 16;

/// A topology of an older snapshot, and which of its lists have changed since.
#[derive(Clone)]
pub struct OlderLists {
    topology: Arc<ResidentTopology>,
    changed: Arc<(Bits, Reservation)>,
}

impl OlderLists {
    /// Bytes of the budget beside the topology, for a snapshot with so many nodes.
    pub fn bytes_for(num_nodes: u64) -> u64 {
        Bits::bytes_for(num_nodes)
    }

    /// The lists of a snapshot with `num_nodes` nodes, which differs from that of the topology in
    /// those of `changed`. `None` if too many lists have to be read.
    pub fn new(
        topology: Arc<ResidentTopology>,
        (changed, num_nodes): (&[NodeId], u64),
        held: Reservation,
    ) -> Option<Self> {
        Self::of(topology, Bits::new(num_nodes), (changed, num_nodes), held)
    }

    /// The same lists after further commits. `None` if too many have to be read by then.
    pub fn for_newer(&self, changed: (&[NodeId], u64), held: Reservation) -> Option<Self> {
        let bits = self.changed.0.clone().with_room(changed.1);
        Self::of(Arc::clone(&self.topology), bits, changed, held)
    }

    fn of(
        topology: Arc<ResidentTopology>,
        mut bits: Bits,
        (changed, num_nodes): (&[NodeId], u64),
        held: Reservation,
    ) -> Option<Self> {
        changed.iter().for_each(|node| bits.add(*node..*node + 1));
        let to_read = bits.count() + num_nodes.saturating_sub(topology.num_nodes());
        let pays = to_read.saturating_mul(CHANGED_PARTS) <= num_nodes;
        pays.then(|| Self { topology, changed: Arc::new((bits, held)) })
    }

    /// The topology.
    pub(crate) fn topology(&self) -> &ResidentTopology {
        &self.topology
    }

    /// Whether the list of a node has to be read.
    #[inline]
    pub(crate) fn has_changed(&self, node: NodeId) -> bool {
        node >= self.topology.num_nodes() || self.changed.0.has(node)
    }
}

/// The lists of `nodes`: those that have changed are in one expansion, all others in another.
pub(crate) fn merged(
    lists: &OlderLists,
    nodes: &[NodeId],
    kept: &Expansion,
    read: &Expansion,
) -> Expansion {
    fn of<T: Copy>(columns: [&[T]; 2], ranges: &[(bool, usize, usize)]) -> Vec<T> {
        let mut out = Vec::with_capacity(columns[0].len() + columns[1].len());
        for (is_read, start, end) in ranges {
            let column = columns[usize::from(*is_read)];
            out.extend_from_slice(column.get(*start..*end).unwrap_or_default());
        }
        out
    }
    let (mut next, mut ranges, mut offsets) = ([0, 0], Vec::with_capacity(nodes.len()), vec![0]);
    let mut end = 0;
    for node in nodes {
        let is_read = lists.has_changed(*node);
        let (at, from) = (&mut next[usize::from(is_read)], if is_read { read } else { kept });
        let range = (is_read, from.offsets[*at], from.offsets[*at + 1]);
        *at += 1;
        end += range.2 - range.1;
        offsets.push(end);
        ranges.push(range);
    }
    Expansion {
        offsets,
        sources: of([&kept.sources, &read.sources], &ranges),
        edge_ids: of([&kept.edge_ids, &read.edge_ids], &ranges),
        times: of([&kept.times, &read.times], &ranges),
        weights: of([&kept.weights, &read.weights], &ranges),
    }
}
