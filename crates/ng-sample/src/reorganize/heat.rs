//! How often a batch wants each node, without sampling: inclusion probabilities from passes over
//! the edges.
//!
//! A seed is in a batch with probability batch size / seeds. A node that a hop expands with
//! probability q brings each of its d in-neighbours with probability q min(1, fanout / d); the
//! sums of these are taken for rates of independent events. Nothing is resident but a few numbers
//! a node; neighbour lists stream by.

use ng_store::{Expansion, ReadError, Snapshot};
use ng_types::{EdgeTypeId, Reservation};

use super::{Batches, Phases, Progress, ReorganizeError};

/// Bytes for each node of a type: three numbers, and the degrees of the edge types that end there.
const BYTES_PER_NODE: u64 = 12;
const BYTES_PER_DEGREE: u64 = 4;

/// What [`heat`] holds of the budget while it works.
pub(super) fn heat_bytes(snapshot: &Snapshot) -> u64 {
    let catalog = snapshot.catalog();
    let nodes = catalog.node_types.iter().map(|meta| meta.num_nodes * BYTES_PER_NODE);
    let degrees = catalog.edge_types.iter().map(|meta| {
        let owner = catalog.node_types.get(usize::from(meta.destination.0));
        owner.map_or(0, |owner| owner.num_nodes * BYTES_PER_DEGREE)
    });
    nodes.sum::<u64>() + degrees.sum::<u64>()
}

/// Entries that [`heat`] looks at.
fn heat_work(snapshot: &Snapshot, batches: &Batches) -> u64 {
    let edges: u64 = snapshot.catalog().edge_types.iter().map(|meta| meta.num_edges).sum();
    edges * (batches.fanouts.hops() as u64 + 1)
}

/// How hot nodes are: the memory is part of the budget until this is dropped.
pub struct Heat {
    /// By node type: the probability that a batch wants each node. Of visits: how often it is
    /// visited.
    pub by_type: Vec<Vec<f32>>,
    pub(super) _held: Reservation,
}

/// One node type.
struct Nodes {
    /// The probability that no hop so far has reached a node.
    missed: Vec<f32>,
    /// That the hop before reached it first.
    expanded: Vec<f32>,
    /// Rate of the hop under way.
    rate: Vec<f32>,
}

/// Computes the probability that a batch contains each node, from one pass over the edges for the
/// degrees and one per hop. Needs about 20 bytes per node of the budget while it runs, and 4 for
/// the result.
///
/// # Errors
/// [`ReorganizeError::Read`], and [`ReorganizeError::Stopped`] by `phases`.
pub fn heat(
    snapshot: &Snapshot,
    batches: &Batches,
    phases: &mut Phases<'_>,
) -> Result<Heat, ReorganizeError> {
    let total = heat_work(snapshot, batches);
    let progress = &mut Progress { phase: "heat", done: 0, total, tell: phases };
    let mut held = snapshot.reserve(heat_bytes(snapshot)).map_err(ReadError::from)?;
    let catalog = snapshot.catalog();
    let mut nodes: Vec<Nodes> = catalog
        .node_types
        .iter()
        .map(|meta| {
            let zeros = || vec![0.0; meta.num_nodes as usize];
            Nodes { missed: vec![1.0; meta.num_nodes as usize], expanded: zeros(), rate: zeros() }
        })
        .collect();
    if let Some(seeds) = nodes.get_mut(usize::from(batches.node_type.0)) {
        let all = batches.num_seeds(snapshot);
        let share = (batches.batch_size as f32 / (all as f32).max(1.0)).min(1.0);
        for seed in (0..all).map(|at| batches.seed(at) as usize) {
            seeds.expanded[seed] = share;
            seeds.missed[seed] = 1.0 - share;
        }
    }
    let edge_types = || (0..).map(EdgeTypeId).zip(&catalog.edge_types);
    let mut degrees = Vec::new();
    for (id, meta) in edge_types() {
        let mut all = vec![0_u32; nodes[usize::from(meta.destination.0)].rate.len()];
        scan(snapshot, id, progress, &mut |node, sources| {
            let degree = &mut all[node as usize];
            *degree = degree.saturating_add(sources.len() as u32);
        })?;
        degrees.push(all);
    }
    for hop in 0..batches.fanouts.hops() {
        for ((id, meta), degrees) in edge_types().zip(&degrees) {
            let fanout = batches.fanouts.get(id, hop);
            let (from, to) = (usize::from(meta.destination.0), usize::from(meta.source.0));
            // Taken out, because both may be one type.
            let expanded = std::mem::take(&mut nodes[from].expanded);
            let rates = &mut nodes[to].rate;
            scan(snapshot, id, progress, &mut |node, sources| {
                let degree = degrees[node as usize] as f32;
                let share = if fanout < 0 { 1.0 } else { (fanout as f32 / degree).min(1.0) };
                let rate = expanded[node as usize] * share;
                if rate > 0.0 {
                    for source in sources {
                        rates[*source as usize] += rate;
                    }
                }
            })?;
            nodes[from].expanded = expanded;
        }
        nodes.iter_mut().for_each(Nodes::end_hop);
    }
    let by_type: Vec<Vec<f32>> = nodes.into_iter().map(Nodes::heat).collect();
    let left = held.split(by_type.iter().map(|heat| 4 * heat.len() as u64).sum());
    Ok(Heat { by_type, _held: left })
}

impl Nodes {
    fn end_hop(&mut self) {
        let all = self.missed.iter_mut().zip(&mut self.expanded).zip(&mut self.rate);
        for ((missed, expanded), rate) in all {
            let reached = -(-*rate).exp_m1();
            *expanded = *missed * reached;
            *missed *= 1.0 - reached;
            *rate = 0.0;
        }
    }

    fn heat(self) -> Vec<f32> {
        self.missed.into_iter().map(|missed| 1.0 - missed).collect()
    }
}

/// Lends all neighbour lists of an edge type, long ones in parts.
fn scan(
    snapshot: &Snapshot,
    id: EdgeTypeId,
    progress: &mut Progress<'_>,
    visit: &mut dyn FnMut(u64, &[u64]),
) -> Result<(), ReorganizeError> {
    let mut stopped = false;
    let scanned = snapshot.scan_topology(id, &mut |nodes: &[u64], lists: &Expansion| {
        for (node, range) in nodes.iter().zip(lists.offsets.windows(2)) {
            visit(*node, &lists.sources[range[0]..range[1]]);
        }
        stopped = !progress.step(lists.sources.len() as u64);
        if stopped { Err(ReadError::Missing { what: "rest of the lists".into() }) } else { Ok(()) }
    });
    if stopped {
        return Err(ReorganizeError::Stopped);
    }
    Ok(scanned?)
}
