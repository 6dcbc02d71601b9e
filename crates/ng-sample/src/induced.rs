//! The subgraph that some nodes induce: all edges of one type between them.
//!
//! What lives here: reading the nodes' lists part by part and keeping the entries whose source is
//! among the nodes. What must not: which nodes belong together. The invariant: edges come by
//! destination in the order of the nodes, then in list order, and all memory is reserved before it
//! is taken.

use ng_store::{Expansion, ReadError, Snapshot};
use ng_types::{EdgeTypeId, NodeId, Reservation};

use crate::error::SampleError;
use crate::node_map::NodeMap;

/// Entries of lists that are looked at together; a longer list is a part of its own.
const PART_ENTRIES: u64 = 1 << 18;

/// Bytes of an entry of a list with all that it may carry.
const ENTRY_BYTES: u64 = 8 + 8 + 8 + 4;

/// The edges between some nodes, with local ids: the place of a node in the list that was given.
#[derive(Debug)]
pub struct Induced {
    /// Local ids of the sources.
    pub sources: Vec<i64>,
    /// Local ids of the destinations.
    pub destinations: Vec<i64>,
    /// Edge ids, or empty where the type has none.
    pub edge_ids: Vec<i64>,
    /// Times, or empty where the type has none.
    pub times: Vec<i64>,
    /// Weights, or empty where the type has none.
    pub weights: Vec<f32>,
    /// The memory of all of these.
    pub held: Reservation,
}

/// The edges of `edge_type` between `nodes`.
///
/// # Errors
/// [`SampleError::Spec`] where the type joins two node types or a node comes twice, and those of
/// [`Snapshot::neighbors`] and of the budget.
pub fn induced(
    snapshot: &Snapshot,
    edge_type: EdgeTypeId,
    nodes: &[NodeId],
) -> Result<Induced, SampleError> {
    let found = snapshot.catalog().edge_types.get(usize::from(edge_type.0));
    if found.is_some_and(|meta| meta.source != meta.destination) {
        let what = "nodes of one type induce edges of a type that joins it with itself; this one \
                    joins two";
        return Err(SampleError::Spec(what.into()));
    }
    let _map = snapshot.reserve_batch(nodes.len() as u64 * NodeMap::<u64>::BYTES_PER_NODE)?;
    let mut map = NodeMap::default();
    nodes.iter().for_each(|node| map.push_seed(*node));
    if let Some(twice) = nodes.iter().zip(0..).find(|(node, at)| map.find(**node) != Some(*at)) {
        return Err(SampleError::Spec(format!("node {} is given twice", twice.0)));
    }
    let degrees = snapshot.degrees(edge_type, nodes)?;
    let mut out = Induced {
        sources: Vec::new(),
        destinations: Vec::new(),
        edge_ids: Vec::new(),
        times: Vec::new(),
        weights: Vec::new(),
        held: snapshot.reserve_batch(0)?,
    };
    let mut first = 0;
    while first < nodes.len() {
        let (last, entries) = part(&degrees, first);
        let _lists = snapshot.reserve_batch(entries * ENTRY_BYTES)?;
        let mut lists = Expansion::default();
        let part = nodes.get(first..last).unwrap_or_default();
        snapshot.neighbors(edge_type, part, &mut lists)?;
        out.keep(snapshot, &map, first, &lists)?;
        first = last;
    }
    Ok(out)
}

/// The end of the part that begins at node `first`, and how many entries its lists have.
fn part(degrees: &[u64], first: usize) -> (usize, u64) {
    let (mut last, mut entries) = (first, 0);
    for degree in degrees.get(first..).unwrap_or_default() {
        if last > first && entries + degree > PART_ENTRIES {
            break;
        }
        entries += degree;
        last += 1;
    }
    (last, entries)
}

impl Induced {
    /// Appends those entries of the lists of nodes `first` ... whose sources are in `map`.
    fn keep(
        &mut self,
        snapshot: &Snapshot,
        map: &NodeMap<u64>,
        first: usize,
        lists: &Expansion,
    ) -> Result<(), ReadError> {
        let sources = lists.sources.iter().enumerate();
        let kept: Vec<(usize, u32)> =
            sources.filter_map(|(at, id)| map.find(*id).map(|number| (at, number))).collect();
        self.make_room(snapshot, kept.len(), lists)?;
        let mut destination = 0;
        for (at, number) in kept {
            while lists.offsets.get(destination + 1).is_some_and(|end| *end <= at) {
                destination += 1;
            }
            self.sources.push(i64::from(number));
            self.destinations.push((first + destination) as i64);
            self.edge_ids.extend(lists.edge_ids.get(at).map(|id| *id as i64));
            self.times.extend(lists.times.get(at));
            self.weights.extend(lists.weights.get(at));
        }
        Ok(())
    }

    /// Reserves and takes memory for `count` more edges, at least as many as there are.
    fn make_room(
        &mut self,
        snapshot: &Snapshot,
        count: usize,
        lists: &Expansion,
    ) -> Result<(), ReadError> {
        if self.sources.len() + count <= self.sources.capacity() {
            return Ok(());
        }
        let more = count.max(self.sources.len());
        let columns = [!lists.edge_ids.is_empty(), !lists.times.is_empty()];
        let wide = 2 + columns.into_iter().map(u64::from).sum::<u64>();
        let narrow = u64::from(!lists.weights.is_empty());
        self.held.merge(snapshot.reserve_batch(more as u64 * (wide * 8 + narrow * 4))?);
        self.sources.reserve_exact(more);
        self.destinations.reserve_exact(more);
        self.edge_ids.reserve_exact(if columns[0] { more } else { 0 });
        self.times.reserve_exact(if columns[1] { more } else { 0 });
        self.weights.reserve_exact(if narrow > 0 { more } else { 0 });
        Ok(())
    }
}
