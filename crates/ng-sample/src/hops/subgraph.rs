//! A subgraph while it grows hop by hop, and the memory for it, which is kept from batch to batch.
//!
//! A hop is drawn first, edge type by edge type, and numbered then, so that loads of many entries
//! are under way at the same time. What must not live here: where entries come from. Invariant:
//! `counts` of an edge type has an entry for every destination that a hop has expanded.

use std::ops::Range;
use std::sync::Arc;

use ng_store::{
    Catalog, EXPAND_BYTES_PER_DESTINATION, EXPAND_BYTES_PER_ENTRY, Expansion, RowQueue,
};
use ng_types::{NodeId, NodeTypeId};

use crate::SampleError;
use crate::compact::{CompactEdges, CompactNodes};
use crate::draw::count;
use crate::ids::{Id, Ids};
use crate::node_map::NodeMap;

/// Hears which nodes of a type a hop has added; hop 0 are the seeds.
pub type HearNodes<'a> = dyn FnMut(usize, NodeTypeId, &[NodeId]) + 'a;

/// Rows to ask for while a batch is still being drawn.
pub(crate) struct Ahead<'a, 'b> {
    pub hear: &'a mut HearNodes<'b>,
    /// What was asked for, which is read with the lists.
    pub rows: &'a Arc<RowQueue>,
}

/// The edges of one type so far, in columns; a column that the type lacks is empty.
#[derive(Default)]
pub(crate) struct Edges {
    /// Local numbers of the sources.
    pub rows: Vec<u32>,
    /// Entries of each expanded destination, by local number.
    pub counts: Vec<u32>,
    pub edge_ids: Vec<u64>,
    pub times: Vec<i64>,
    pub weights: Vec<f32>,
    pub per_hop: Vec<usize>,
}

impl Edges {
    fn clear(&mut self) {
        self.rows.clear();
        self.counts.clear();
        self.edge_ids.clear();
        self.times.clear();
        self.weights.clear();
        self.per_hop.clear();
    }

    fn num_bytes(&self) -> usize {
        let narrow = self.rows.capacity() + self.counts.capacity() + self.weights.capacity();
        narrow * 4 + (self.edge_ids.capacity() + self.times.capacity()) * 8
    }
}

/// What one hop drew under one edge type.
#[derive(Default)]
pub(crate) struct Step<I> {
    /// How many entries were, or will be, drawn.
    pub draws: u64,
    /// Sources in the order of destinations and draws.
    pub sources: Vec<I>,
    /// Where in memory the list of each destination begins, and how long it is.
    pub lists: Vec<(u64, u64)>,
    /// Places of chosen entries: of some destinations at a time, or of all where they are known
    /// only when they have been looked at.
    pub places: Vec<u64>,
    /// The store's answer, where the topology is not in memory.
    pub read: Option<Expansion>,
}

impl<I: Id> Step<I> {
    /// Keeps the store's answer until there is memory for what comes of it.
    pub fn keep_read(&mut self, read: Expansion, edges: &mut Edges) -> Result<(), SampleError> {
        self.draws = read.sources.len() as u64;
        for ends in read.offsets.windows(2) {
            edges.counts.push(count((ends[1] - ends[0]) as u64)?);
        }
        self.read = Some(read);
        Ok(())
    }

    /// Takes the store's answer apart.
    pub fn take_read(&mut self, edges: &mut Edges) {
        let Some(read) = self.read.take() else { return };
        self.sources.extend(read.sources.iter().map(|id| I::new(*id)));
        edges.edge_ids.extend_from_slice(&read.edge_ids);
        edges.times.extend_from_slice(&read.times);
        edges.weights.extend_from_slice(&read.weights);
    }

    /// Bytes that are not kept, while the step is under way.
    fn passing_bytes(&self) -> u64 {
        self.read.as_ref().map_or(0, passing_bytes)
    }

    fn num_bytes(&self) -> usize {
        let Self { sources, lists, places, .. } = self;
        sources.capacity() * size_of::<I>() + lists.capacity() * 16 + places.capacity() * 8
    }
}

/// An edge type as sampling sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// Index of the source's node type.
    pub source: usize,
    /// Index of the destination's.
    pub destination: usize,
    /// Bytes of edge id, time and weight of an entry.
    pub data_bytes: u64,
    /// Edge ids are below this.
    pub edge_id_bound: u64,
}

impl Ends {
    /// By edge type id.
    pub fn of(catalog: &Catalog) -> Vec<Self> {
        let ends = catalog.edge_types.iter().map(|meta| Self {
            source: usize::from(meta.source.0),
            destination: usize::from(meta.destination.0),
            data_bytes: u64::from(meta.has_edge_ids) * 8
                + u64::from(meta.has_time) * 8
                + u64::from(meta.has_weight) * 4,
            edge_id_bound: meta.num_edge_ids,
        });
        ends.collect()
    }
}

/// The subgraph.
#[derive(Default)]
pub(crate) struct Hops<I> {
    nodes: Vec<NodeMap<I>>,
    /// By edge type.
    pub edges: Vec<Edges>,
    /// By edge type.
    pub steps: Vec<Step<I>>,
    /// The nodes that the next hop expands, by node type.
    frontier: Vec<Range<usize>>,
    /// Nodes that each hop added, by node type.
    per_hop: Vec<Vec<usize>>,
}

/// A hop under one edge type.
pub(crate) struct Expanding<'a, I> {
    /// The destinations.
    pub ids: &'a [I],
    /// The nodes of the sources' type before the hop.
    pub sources: &'a NodeMap<I>,
    pub step: &'a mut Step<I>,
    pub edges: &'a mut Edges,
}

impl<I: Id> Hops<I> {
    /// Forgets the last subgraph, not its memory.
    pub fn clear(&mut self, node_types: usize, edge_types: usize) {
        self.nodes.resize_with(node_types, NodeMap::default);
        self.edges.resize_with(edge_types, Edges::default);
        self.steps.resize_with(edge_types, Step::default);
        self.nodes.iter_mut().for_each(NodeMap::clear);
        self.edges.iter_mut().for_each(Edges::clear);
        self.clear_steps();
        self.frontier.clear();
        self.frontier.resize(node_types, 0..0);
        self.per_hop.clear();
        self.per_hop.resize(node_types, Vec::new());
    }

    fn clear_steps(&mut self) {
        for step in &mut self.steps {
            step.draws = 0;
            step.sources.clear();
            step.lists.clear();
            step.places.clear();
            step.read = None;
        }
    }

    pub fn push_seeds(&mut self, node_type: usize, ids: &[NodeId]) {
        ids.iter().for_each(|id| self.nodes[node_type].push_seed(I::new(*id)));
    }

    /// What the hop expands under an edge type, and what it fills.
    pub fn expanding(&mut self, edge_type: usize, ends: Ends) -> Expanding<'_, I> {
        Expanding {
            ids: &self.nodes[ends.destination].ids()[self.frontier[ends.destination].clone()],
            sources: &self.nodes[ends.source],
            step: &mut self.steps[edge_type],
            edges: &mut self.edges[edge_type],
        }
    }

    /// Ends a hop, or the seeds: what is new will be expanded next.
    pub fn end_hop(&mut self) {
        self.clear_steps();
        for ((map, frontier), per_hop) in
            self.nodes.iter().zip(&mut self.frontier).zip(&mut self.per_hop)
        {
            *frontier = frontier.end..map.len();
            per_hop.push(frontier.len());
        }
    }

    /// Nodes of a type by number.
    pub fn ids(&self, node_type: usize) -> &[I] {
        self.nodes[node_type].ids()
    }

    /// Those that the last hop added.
    pub fn newest(&self, node_type: usize) -> &[I] {
        &self.nodes[node_type].ids()[self.frontier[node_type].clone()]
    }

    /// Tells of the nodes that `hop`, the last one, added.
    pub fn tell_newest(&self, hop: usize, hear: &mut HearNodes<'_>) {
        for (node_type, (map, frontier)) in (0..).zip(self.nodes.iter().zip(&self.frontier)) {
            if !frontier.is_empty() {
                let newest = &map.ids()[frontier.clone()];
                let ids: Vec<NodeId> = newest.iter().map(|id| id.get()).collect();
                hear(hop, NodeTypeId(node_type), &ids);
            }
        }
    }

    /// Numbers the sources of a hop and appends its edges.
    pub fn record(&mut self, ends: &[Ends]) {
        for ((edges, step), ends) in self.edges.iter_mut().zip(&self.steps).zip(ends) {
            edges.counts.resize(self.frontier[ends.destination].end, 0);
            edges.per_hop.push(step.sources.len());
        }
        for source in 0..self.nodes.len() {
            let is_feeding = |e: &usize| ends[*e].source == source && self.steps[*e].draws > 0;
            let feeding: Vec<usize> = (0..ends.len()).filter(is_feeding).collect();
            match feeding.as_slice() {
                [] => {}
                [only] => {
                    let rows = &mut self.edges[*only].rows;
                    self.nodes[source].number_all(&self.steps[*only].sources, rows);
                }
                several => self.record_in_turns(source, several, ends),
            }
        }
    }

    /// Numbers sources of several edge types: by destination, then edge type, then draw.
    fn record_in_turns(&mut self, source: usize, edge_types: &[usize], ends: &[Ends]) {
        let frontiers = || edge_types.iter().map(|e| &self.frontier[ends[*e].destination]);
        let start = frontiers().map(|frontier| frontier.start).min().unwrap_or(0);
        let end = frontiers().map(|frontier| frontier.end).max().unwrap_or(0);
        let mut taken = vec![0; edge_types.len()];
        for destination in start..end {
            for (edge_type, taken) in edge_types.iter().zip(&mut taken) {
                if self.frontier[ends[*edge_type].destination].contains(&destination) {
                    let edges = &mut self.edges[*edge_type];
                    let from = *taken;
                    *taken += edges.counts[destination] as usize;
                    let sources = &self.steps[*edge_type].sources[from..*taken];
                    self.nodes[source].number_all(sources, &mut edges.rows);
                }
            }
        }
    }

    /// An upper bound of the memory until the hop is recorded: what is kept now, what the draws of
    /// the hop may add, and what the store's answers take.
    pub fn bytes_for_hop(&self, ends: &[Ends], places: u64) -> u64 {
        let per_draw = |ends: &Ends| {
            2 * (size_of::<I>() + size_of::<u32>()) as u64
                + 2 * ends.data_bytes
                + NodeMap::<I>::BYTES_PER_NODE
        };
        let steps = self.steps.iter().zip(ends);
        let of_steps: u64 = steps
            .map(|(step, ends)| {
                step.draws.saturating_mul(per_draw(ends)).saturating_add(step.passing_bytes())
            })
            .fold(0, u64::saturating_add);
        let expanded: usize = ends.iter().map(|e| self.frontier[e.destination].len()).sum();
        self.num_bytes()
            .saturating_add(of_steps)
            .saturating_add(expanded as u64 * 2 * size_of::<u32>() as u64)
            .saturating_add(places.saturating_mul(size_of::<u64>() as u64))
    }

    /// Bytes of all that is kept.
    pub fn num_bytes(&self) -> u64 {
        let nodes: u64 = self.nodes.iter().map(NodeMap::num_bytes).sum();
        let edges: usize = self.edges.iter().map(Edges::num_bytes).sum();
        let steps: usize = self.steps.iter().map(Step::num_bytes).sum();
        nodes + (edges + steps) as u64
    }

    /// Bytes of [`Hops::compact`].
    pub fn compact_bytes(&self, ends: &[Ends]) -> u64 {
        let nodes: usize = self.nodes.iter().map(|map| map.len() * size_of::<I>()).sum();
        let edges = self.edges.iter().zip(ends).map(|(edges, ends)| {
            let narrow = edges.rows.len() + edges.counts.len() + edges.weights.len();
            let id_bytes = if ends.edge_id_bound <= 1 << 32 { 4 } else { 8 };
            narrow * 4 + edges.times.len() * 8 + edges.edge_ids.len() * id_bytes
        });
        (nodes + edges.sum::<usize>()) as u64
    }

    /// The finished subgraph in arrays of their own, without room to spare.
    pub fn compact(&mut self, ends: &[Ends]) -> (Vec<CompactNodes>, Vec<CompactEdges>) {
        let per_hop = self.per_hop.iter_mut().map(std::mem::take);
        let nodes = self.nodes.iter().zip(per_hop);
        let nodes = nodes.map(|(map, per_hop)| CompactNodes { ids: I::pack(map.ids()), per_hop });
        let edges = self.edges.iter_mut().zip(ends).map(|(edges, ends)| CompactEdges {
            rows: edges.rows.clone(),
            counts: edges.counts.clone(),
            edge_ids: Ids::below(ends.edge_id_bound, &edges.edge_ids),
            times: edges.times.clone(),
            weights: edges.weights.clone(),
            per_hop: std::mem::take(&mut edges.per_hop),
        });
        (nodes.collect(), edges.collect())
    }
}

/// Bytes of all columns.
pub(crate) fn num_bytes(entries: &Expansion) -> u64 {
    let Expansion { offsets, sources, edge_ids, times, weights } = entries;
    let wide = offsets.len() + sources.len() + edge_ids.len() + times.len();
    (wide * 8 + weights.len() * 4) as u64
}

/// Bytes of the store's answer, and of what it took to make it.
pub(crate) fn passing_bytes(read: &Expansion) -> u64 {
    num_bytes(read)
        + read.sources.len() as u64 * EXPAND_BYTES_PER_ENTRY
        + read.offsets.len() as u64 * EXPAND_BYTES_PER_DESTINATION
}

/// Appends some entries.
pub(crate) fn append(to: &mut Expansion, from: &Expansion, at: Range<usize>) {
    let slice = |len: usize| if len == 0 { 0..0 } else { at.clone() };
    to.sources.extend_from_slice(&from.sources[at.clone()]);
    to.edge_ids.extend_from_slice(&from.edge_ids[slice(from.edge_ids.len())]);
    to.times.extend_from_slice(&from.times[slice(from.times.len())]);
    to.weights.extend_from_slice(&from.weights[slice(from.weights.len())]);
}
