//! An order that keeps nodes together that are sampled together, for graphs whose ids say nothing.
//!
//! GLIST (Algorithm 2) starts from important vertices and lays the neighbourhoods of similar ones
//! side by side. Here every node finds its neighbourhood by itself: labels spread along edges
//! (label propagation with the absolute Potts model), first in many small groups, then in fewer and
//! larger ones, and each round sorts the groups and keeps the order of the round before inside of
//! them (Boldi et al., Layered Label Propagation, WWW 2011).

use std::sync::Arc;

use ng_store::{ReadError, ResidentTopology, Snapshot};
use ng_types::{EdgeTypeId, NodeTypeId, SeedOrder};

use super::{Progress, ReorganizeError};

/// What a node pays for each stranger in a group that it joins: the more, the smaller the groups.
const PENALTIES: [f32; 6] = [1.0, 0.25, 0.0625, 1.0 / 64.0, 1.0 / 512.0, 0.0];
/// Passes over the edges for each of them, at most.
const PASSES_MAX: usize = 6;
/// A round ends when fewer nodes than one in so many have changed their group.
const SETTLED: usize = 100;
/// Bytes for each node, beside the topology.
const BYTES_PER_NODE: u64 = 20;

/// Edge types between nodes of a type.
fn edge_types(snapshot: &Snapshot, id: NodeTypeId) -> impl Iterator<Item = EdgeTypeId> + '_ {
    let all = snapshot.catalog().edge_types.iter().enumerate();
    let inside = all.filter(move |(_, meta)| meta.source == id && meta.destination == id);
    inside.map(|(index, _)| EdgeTypeId(index as u16))
}

/// What [`regroup`] holds of the budget; `None` where no edges are between nodes of the type.
pub(super) fn locality_bytes(snapshot: &Snapshot, id: NodeTypeId) -> Option<u64> {
    let topologies = edge_types(snapshot, id).map(|edge_type| snapshot.resident_bytes(edge_type));
    let bytes = topologies.reduce(|sum, bytes| sum + bytes)?;
    let nodes = snapshot.catalog().node_types.get(usize::from(id.0)).map_or(0, |m| m.num_nodes);
    Some(bytes + nodes * BYTES_PER_NODE)
}

/// Nodes that are looked at, at most.
pub(super) fn locality_work(snapshot: &Snapshot, id: NodeTypeId) -> u64 {
    let nodes = snapshot.catalog().node_types.get(usize::from(id.0)).map_or(0, |m| m.num_nodes);
    nodes * (PENALTIES.len() * PASSES_MAX) as u64
}

/// Puts `order`, all nodes of a type, into groups; inside of the smallest ones it stays.
pub(super) fn regroup(
    snapshot: &Snapshot,
    id: NodeTypeId,
    order: &mut [u32],
    progress: &mut Progress<'_>,
) -> Result<(), ReorganizeError> {
    let nodes = order.len() as u64;
    let _held = snapshot.reserve(nodes * BYTES_PER_NODE).map_err(ReadError::from)?;
    let topologies: Vec<Arc<ResidentTopology>> = edge_types(snapshot, id)
        .map(|edge_type| snapshot.load_topology(edge_type))
        .collect::<Result<_, _>>()?;
    let mut groups = Groups::new(order.len());
    let mut rank = vec![0_u32; order.len()];
    for (round, penalty) in PENALTIES.into_iter().enumerate() {
        groups.start();
        let visits = SeedOrder::new(nodes, round as u64, 0);
        for pass in 0..PASSES_MAX {
            let mut changed = 0;
            for at in 0..nodes {
                changed += usize::from(groups.move_node(&topologies, visits.at(at), penalty));
                if at % (1 << 14) == 0 && !progress.step(nodes.min(1 << 14)) {
                    return Err(ReorganizeError::Stopped);
                }
            }
            if changed <= order.len() / SETTLED {
                progress.step(nodes * (PASSES_MAX - 1 - pass) as u64);
                break;
            }
        }
        for (place, node) in (0..).zip(order.iter()) {
            rank[*node as usize] = place;
        }
        // Groups in the order of the node that they are named after, nodes as they were.
        order.sort_unstable_by_key(|node| {
            (rank[groups.label[*node as usize] as usize], rank[*node as usize])
        });
    }
    Ok(())
}

struct Groups {
    /// By node: the node that its group is named after.
    label: Vec<u32>,
    /// By label: nodes.
    size: Vec<u32>,
    /// By label: neighbours of the node under way; zeros between nodes.
    near: Vec<u32>,
    /// Labels of these.
    found: Vec<u32>,
}

impl Groups {
    fn new(nodes: usize) -> Self {
        let zeros = || vec![0; nodes];
        Self { label: zeros(), size: zeros(), near: zeros(), found: Vec::new() }
    }

    /// Every node is a group.
    fn start(&mut self) {
        (0..).zip(&mut self.label).for_each(|(node, label)| *label = node);
        self.size.fill(1);
    }

    /// Lets a node join the group that suits it best; whether that is another one.
    fn move_node(&mut self, topologies: &[Arc<ResidentTopology>], node: u64, penalty: f32) -> bool {
        for topology in topologies {
            let sources = topology.sources();
            for at in topology.range(node) {
                let label = self.label[sources.get(at as usize) as usize];
                let near = &mut self.near[label as usize];
                if *near == 0 {
                    self.found.push(label);
                }
                *near += 1;
            }
        }
        let old = self.label[node as usize];
        self.size[old as usize] -= 1;
        let value = |groups: &Self, label: u32| {
            let near = groups.near[label as usize] as f32;
            near - penalty * (groups.size[label as usize] as f32 - near)
        };
        let mut best = (value(self, old), old);
        for label in self.found.iter().copied() {
            let found = value(self, label);
            if found > best.0 {
                best = (found, label);
            }
        }
        for label in self.found.drain(..) {
            self.near[label as usize] = 0;
        }
        self.label[node as usize] = best.1;
        self.size[best.1 as usize] += 1;
        best.1 != old
    }
}
