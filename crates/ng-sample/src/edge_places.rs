//! Where the edges of a type are, by their number.
//!
//! What must not live here: what edges are looked for. The invariant: an edge has the same number
//! wherever its list is.

use ng_store::Snapshot;
use ng_types::{EdgeTypeId, NodeId, Reservation};

use crate::SampleError;
use crate::admission::{Admit, Stage};

/// Nodes between two that the number of earlier edges is kept for.
const STEP: u64 = 64;
/// Nodes whose degrees are read together.
const TOGETHER: u64 = 1 << 16;
/// Edges that are looked for together, and memory for the degree of a node meanwhile.
const FOUND_TOGETHER: usize = 1 << 10;
const BYTES_PER_DEGREE: u64 = 72;

/// How many edges of a type there are before some of the nodes, so that an edge is found by its
/// number: edges are counted list by list, in the order of destinations.
#[derive(Debug)]
pub struct EdgePlaces {
    edge_type: EdgeTypeId,
    /// Before every [`STEP`]th node, and in all.
    before: Vec<u64>,
    _held: Reservation,
}

impl EdgePlaces {
    /// Reads the degrees of all nodes.
    ///
    /// # Errors
    /// [`SampleError::Read`], [`SampleError::Budget`].
    pub fn new(snapshot: &Snapshot, edge_type: EdgeTypeId) -> Result<Self, SampleError> {
        let meta = snapshot.catalog().edge_types.get(usize::from(edge_type.0));
        let destination = meta.ok_or_else(|| no_type(edge_type))?.destination;
        let num_nodes = snapshot.catalog().node_types[usize::from(destination.0)].num_nodes;
        let _held = snapshot.reserve((num_nodes / STEP + 2) * size_of::<u64>() as u64)?;
        let (mut before, mut sum) = (Vec::with_capacity((num_nodes / STEP + 2) as usize), 0);
        for first in (0..num_nodes).step_by(TOGETHER as usize) {
            let nodes: Vec<NodeId> = (first..num_nodes.min(first + TOGETHER)).collect();
            for degrees in snapshot.degrees(edge_type, &nodes)?.chunks(STEP as usize) {
                before.push(sum);
                sum += degrees.iter().sum::<u64>();
            }
        }
        before.push(sum);
        Ok(Self { edge_type, before, _held })
    }

    /// How many edges there are.
    pub fn num_edges(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// The destination of each edge, and its position in the list.
    pub(crate) fn find(
        &self,
        snapshot: &Snapshot,
        numbers: &[u64],
        admit: &Admit<'_>,
    ) -> Result<(Vec<NodeId>, Vec<u64>), SampleError> {
        let at_once = numbers.len().min(FOUND_TOGETHER) as u64;
        let _held = admit(Stage::Topology, at_once * STEP * BYTES_PER_DEGREE)?;
        let (mut nodes, mut positions) = (Vec::new(), Vec::new());
        for numbers in numbers.chunks(FOUND_TOGETHER) {
            let found = self.find_some(snapshot, numbers)?;
            nodes.extend(found.0);
            positions.extend(found.1);
        }
        Ok((nodes, positions))
    }

    fn find_some(
        &self,
        snapshot: &Snapshot,
        numbers: &[u64],
    ) -> Result<(Vec<NodeId>, Vec<u64>), SampleError> {
        let (mut nodes, mut starts) = (Vec::new(), Vec::new());
        for number in numbers {
            if *number >= self.num_edges() {
                let (known, given) = (self.num_edges(), number);
                let what = format!("edge {given} does not exist: its type has {known} edges");
                return Err(SampleError::Spec(what));
            }
            let group = self.before.partition_point(|before| before <= number) - 1;
            starts.push((nodes.len(), *number - self.before[group]));
            let first = group as u64 * STEP;
            nodes.extend(first..self.end_of(snapshot, first));
        }
        let degrees = snapshot.degrees(self.edge_type, &nodes)?;
        let place = |(start, mut left): (usize, u64)| {
            let mut at = start;
            while left >= degrees[at] {
                left -= degrees[at];
                at += 1;
            }
            (nodes[at], left)
        };
        Ok(starts.into_iter().map(place).unzip())
    }

    fn end_of(&self, snapshot: &Snapshot, first: u64) -> u64 {
        let catalog = snapshot.catalog();
        let destination = catalog.edge_types[usize::from(self.edge_type.0)].destination;
        catalog.node_types[usize::from(destination.0)].num_nodes.min(first + STEP)
    }
}

/// Why an edge type is not found.
pub(crate) fn no_type(edge_type: EdgeTypeId) -> SampleError {
    SampleError::Spec(format!("edge type {} does not exist in the store", edge_type.0))
}
