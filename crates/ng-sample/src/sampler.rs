//! Hop by hop: expand the frontier, number what is new, record the edges, then gather rows.
//!
//! Numbering and draws follow `docs/format.md`, "Randomness": a node belongs to the smallest hop
//! that reaches it, and the nodes of a hop are numbered by (destination's number, edge type, draw
//! index) of their first draw. Nothing here depends on the order in which reads complete, because
//! the store answers a whole frontier in request order.

use std::ops::Range;
use std::sync::Arc;

use ng_store::{
    EXPAND_BYTES_PER_DESTINATION, EXPAND_BYTES_PER_ENTRY, Expansion, Snapshot, TensorRef,
};
use ng_types::canary::planted;
use ng_types::{DrawKey, EdgeTypeId, NodeId, NodeTypeId, Reservation};

use crate::columns::Columns;
use crate::node_map::NodeMap;
use crate::{ColumnSpec, EdgeBlock, MiniBatch, NodeBlock, SampleError, SampleSpec};

/// Samples mini-batches from one snapshot.
///
/// Cheap to share between threads; holds no state that a sample could depend on.
#[derive(Clone)]
pub struct Sampler {
    snapshot: Arc<Snapshot>,
    spec: Arc<SampleSpec>,
    columns: Arc<Columns>,
}

/// How memory for a batch is obtained: bytes wanted to a reservation.
pub(crate) type Admit<'a> = dyn Fn(Stage, u64) -> Result<Reservation, SampleError> + 'a;

/// What the memory is for. A pipeline admits columns in batch order, topology as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Topology,
    Columns,
}

impl Sampler {
    /// A sampler that also gathers `tensors`: node tensors for every node of the batch, edge
    /// tensors (by edge id) for every edge. Rows come as
    /// [`ng_store::TensorMeta::read_dtype`] says.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if the fanouts do not fit the edge types, or an edge tensor is asked
    /// for whose type keeps no edge ids; [`SampleError::Read`] if its scales cannot be read.
    pub fn new(
        snapshot: Arc<Snapshot>,
        spec: SampleSpec,
        tensors: Vec<TensorRef>,
    ) -> Result<Self, SampleError> {
        let columns: Vec<ColumnSpec> = tensors.into_iter().map(ColumnSpec::from).collect();
        Self::with_columns(snapshot, spec, &columns)
    }

    /// As [`Sampler::new`], with what each tensor shall be in a batch.
    ///
    /// # Errors
    /// As [`Sampler::new`], and [`SampleError::Read`] for what its elements cannot be.
    pub fn with_columns(
        snapshot: Arc<Snapshot>,
        spec: SampleSpec,
        wanted: &[ColumnSpec],
    ) -> Result<Self, SampleError> {
        spec.fanouts.check(snapshot.catalog())?;
        let columns = Arc::new(Columns::new(&snapshot, wanted)?);
        Ok(Self { snapshot, spec: Arc::new(spec), columns })
    }

    /// The snapshot that is sampled.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Samples around `seeds` (by node type; a type at most once) with the draws of `stream`.
    pub fn sample(
        &self,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
    ) -> Result<MiniBatch, SampleError> {
        let admit =
            |_: Stage, bytes: u64| self.snapshot.reserve(bytes).map_err(SampleError::from_budget);
        self.sample_admitted(seeds, stream, &admit)
    }

    pub(crate) fn sample_admitted(
        &self,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
        admit: &Admit<'_>,
    ) -> Result<MiniBatch, SampleError> {
        let mut batch = self.sample_topology(seeds, stream, admit)?.into_batch();
        self.columns.gather(&self.snapshot, &mut batch, admit)?;
        Ok(batch)
    }

    fn sample_topology(
        &self,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
        admit: &Admit<'_>,
    ) -> Result<Topology, SampleError> {
        let catalog = self.snapshot.catalog();
        let mut topology = Topology::new(catalog.node_types.len(), catalog.edge_types.len());
        for (node_type, ids) in seeds {
            self.snapshot.check_nodes(*node_type, ids)?;
            let map = &mut topology.nodes[usize::from(node_type.0)];
            ids.iter().for_each(|id| map.push_seed(*id));
        }
        topology.end_hop();
        let key = DrawKey::new(self.spec.seed, stream);
        for hop in 0..self.spec.fanouts.hops() {
            let expansions = self.expand(&topology, key, hop)?;
            topology.reservation.grow(topology.num_bytes_after(&expansions), admit)?;
            topology.record(&self.destination_types(), &expansions);
            topology.end_hop();
        }
        Ok(topology)
    }

    /// The node type id of each edge type's destinations.
    fn destination_types(&self) -> Vec<usize> {
        let edge_types = &self.snapshot.catalog().edge_types;
        edge_types.iter().map(|meta| usize::from(meta.destination.0)).collect()
    }

    fn expand(
        &self,
        topology: &Topology,
        key: DrawKey,
        hop: usize,
    ) -> Result<Vec<Step>, SampleError> {
        let mut steps = Vec::new();
        for (index, meta) in self.snapshot.catalog().edge_types.iter().enumerate() {
            let edge_type = EdgeTypeId(index as u16);
            let destination = usize::from(meta.destination.0);
            let frontier = topology.frontier[destination].clone();
            let fanout = self.spec.fanouts.get(edge_type, hop);
            let mut expansion = Expansion::default();
            if fanout != 0 && !frontier.is_empty() {
                let ids = &topology.nodes[destination].ids[frontier];
                let ids: Vec<NodeId> = ids.iter().map(|id| *id as NodeId).collect();
                let mut draw = |at: usize, degree: u64, positions: &mut Vec<u64>| {
                    self.draw(key, edge_type, ids[at], fanout, degree, positions);
                };
                self.snapshot.expand(edge_type, &ids, &mut draw, &mut expansion)?;
            }
            steps.push(Step { source: usize::from(meta.source.0), expansion });
        }
        Ok(steps)
    }

    fn draw(
        &self,
        key: DrawKey,
        edge_type: EdgeTypeId,
        destination: NodeId,
        fanout: i64,
        degree: u64,
        positions: &mut Vec<u64>,
    ) {
        let Ok(count) = u32::try_from(fanout) else {
            positions.extend(0..degree);
            return;
        };
        // The canary makes a draw depend on how far the budget has filled, which differs between
        // cache sizes and moments.
        let budget_state =
            if planted("draws_depend_on_budget") { self.snapshot.budget().used_bytes() } else { 0 };
        let mut draws = key.draws(edge_type, destination ^ budget_state);
        if self.spec.replace {
            draws.with_replacement(degree, count, positions);
        } else {
            draws.without_replacement(degree, count, positions);
        }
    }
}

fn num_bytes(expansion: &Expansion) -> usize {
    let Expansion { offsets, sources, edge_ids, times, weights } = expansion;
    (offsets.len() + sources.len() + edge_ids.len() + times.len()) * 8 + weights.len() * 4
}

/// One edge type's answer for one hop.
struct Step {
    source: usize,
    expansion: Expansion,
}

/// The subgraph while it grows.
struct Topology {
    nodes: Vec<NodeMap>,
    edges: Vec<EdgeBlock>,
    /// The nodes that the next hop expands, by node type.
    frontier: Vec<Range<usize>>,
    per_hop: Vec<Vec<usize>>,
    reservation: Growing,
}

impl Topology {
    fn new(node_types: usize, edge_types: usize) -> Self {
        Self {
            nodes: (0..node_types).map(|_| NodeMap::default()).collect(),
            edges: (0..edge_types).map(|_| EdgeBlock::default()).collect(),
            frontier: vec![0..0; node_types],
            per_hop: vec![Vec::new(); node_types],
            reservation: Growing::default(),
        }
    }

    fn end_hop(&mut self) {
        for ((map, frontier), per_hop) in
            self.nodes.iter().zip(&mut self.frontier).zip(&mut self.per_hop)
        {
            *frontier = frontier.end..map.len();
            per_hop.push(frontier.len());
        }
    }

    /// Numbers the sources of a hop and appends its edges, destination by destination.
    fn record(&mut self, destination_types: &[usize], steps: &[Step]) {
        let before: Vec<usize> = self.edges.iter().map(|edges| edges.rows.len()).collect();
        let start = self.frontier.iter().filter(|f| !f.is_empty()).map(|f| f.start).min();
        let end = self.frontier.iter().map(|f| f.end).max().unwrap_or(0);
        for destination in start.unwrap_or(end)..end {
            for (edge_type, step) in steps.iter().enumerate() {
                let frontier = &self.frontier[destination_types[edge_type]];
                if !step.expansion.offsets.is_empty() && frontier.contains(&destination) {
                    let at = destination - frontier.start;
                    let draws = step.expansion.offsets[at]..step.expansion.offsets[at + 1];
                    self.record_draws(edge_type, destination, step, draws);
                }
            }
        }
        for (edges, before) in self.edges.iter_mut().zip(before) {
            edges.per_hop.push(edges.rows.len() - before);
        }
    }

    fn record_draws(
        &mut self,
        edge_type: usize,
        destination: usize,
        step: &Step,
        draws: Range<usize>,
    ) {
        let Expansion { sources, edge_ids, times, weights, .. } = &step.expansion;
        let edges = &mut self.edges[edge_type];
        let map = &mut self.nodes[step.source];
        for source in &sources[draws.clone()] {
            edges.rows.push(i64::from(map.number(*source)));
            edges.cols.push(destination as i64);
        }
        if !edge_ids.is_empty() {
            edges.edge_ids.extend(edge_ids[draws.clone()].iter().map(|id| *id as i64));
        }
        if !times.is_empty() {
            edges.times.extend_from_slice(&times[draws.clone()]);
        }
        if !weights.is_empty() {
            edges.weights.extend_from_slice(&weights[draws]);
        }
    }

    /// An upper bound of the memory after a hop's edges are recorded, the expansions included.
    fn num_bytes_after(&self, steps: &[Step]) -> u64 {
        let nodes: usize = self.nodes.iter().map(NodeMap::len).sum();
        let edges: usize = self.edges.iter().map(EdgeBlock::num_bytes).sum();
        let drawn: usize = steps.iter().map(|step| step.expansion.sources.len()).sum();
        let expanded: usize = self.frontier.iter().map(ExactSizeIterator::len).sum();
        let expansions: usize = steps.iter().map(|step| num_bytes(&step.expansion)).sum();
        let per_edge = 4 * size_of::<i64>() as u64 + NodeMap::BYTES_PER_NODE;
        nodes as u64 * NodeMap::BYTES_PER_NODE
            + edges as u64
            + expansions as u64
            + drawn as u64 * (per_edge + EXPAND_BYTES_PER_ENTRY)
            + expanded as u64 * EXPAND_BYTES_PER_DESTINATION
    }

    /// The finished subgraph, still without columns. Maps and hop results are dropped here, so
    /// what was reserved for them is given back.
    fn into_batch(mut self) -> MiniBatch {
        let maps = self.nodes.into_iter().zip(self.per_hop);
        let nodes = maps.map(|(map, per_hop)| NodeBlock { ids: map.ids, per_hop }).collect();
        self.edges.iter_mut().for_each(EdgeBlock::shrink);
        let held = vec![self.reservation.take_all()];
        let mut batch = MiniBatch { nodes, edges: self.edges, columns: Vec::new(), held };
        batch.release_scratch();
        batch
    }
}

/// A reservation that grows by further reservations, because a grown one might have to wait.
#[derive(Default)]
struct Growing {
    parts: Option<Reservation>,
}

impl Growing {
    fn grow(&mut self, bytes: u64, admit: &Admit<'_>) -> Result<(), SampleError> {
        let have = self.parts.as_ref().map_or(0, Reservation::bytes);
        if bytes > have {
            let more = admit(Stage::Topology, bytes - have)?;
            match &mut self.parts {
                Some(parts) => parts.merge(more),
                None => self.parts = Some(more),
            }
        }
        Ok(())
    }

    fn take_all(&mut self) -> Option<Reservation> {
        self.parts.take()
    }
}
