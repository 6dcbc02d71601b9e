//! Several seeds in one batch, each with a subgraph of its own, as if it were alone.
//!
//! A node that two of them reach is there twice, and is expanded with the fanout of the hop at
//! which each of them reaches it. Its list is read once for each hop, and its rows once. What must
//! not live here: draws and where lists are. The invariant: the part of a seed has the nodes of
//! each hop, and the edges of each node in their order, that [`Sampler::sample_hearing`] gives for
//! the seed alone. Nodes of one hop may have other numbers.
//!
//! Nodes are numbered by (subgraph, node) in one number: the node in the low bits.

use std::sync::Arc;

use ng_store::{Expansion, ResidentTopology, RowQueue};
use ng_types::{NodeId, NodeTypeId};

use super::memory;
use super::pages;
use super::subgraph::{Edges, Expanding, HearNodes, Hops, Step, passing_bytes};
use crate::admission::{Admit, Growing, Stage};
use crate::clock::Work;
use crate::compact::CompactSample;
use crate::draw::{Around, BatchKey, Rule, Uniform, count};
use crate::ids::Ids;
use crate::node_map::NodeMap;
use crate::older::{self, OlderLists};
use crate::{SampleError, SampleScratch, Sampler};

/// Bits of a node's id; the subgraph is above them.
const NODE_BITS: u32 = 40;
const NODE: u64 = (1 << NODE_BITS) - 1;

/// Memory for a node that may be new, beside what numbering takes.
const BYTES_PER_NODE: u64 = NodeMap::<u64>::BYTES_PER_NODE + 3 * size_of::<u32>() as u64;

/// Seeds of one type, and which subgraph each is of.
#[derive(Clone, Copy, Debug)]
pub struct DisjointSeeds<'a> {
    /// Their type.
    pub node_type: NodeTypeId,
    /// Nodes; the same one at most once in a subgraph.
    pub ids: &'a [NodeId],
    /// The subgraph of each.
    pub subgraphs: &'a [u32],
}

/// Subgraphs side by side: seeds first, then the nodes that each hop has added.
#[derive(Debug)]
pub struct DisjointSample {
    /// All of them as one. A node is there once for each subgraph that reaches it.
    pub sample: CompactSample,
    /// By node type, each node once, in the order in which hops reached them.
    pub distinct: Vec<Vec<NodeId>>,
    /// By node type, for each node of the sample its place among the distinct ones.
    pub places: Vec<Vec<u32>>,
    /// By node type, for each node of the sample the subgraph that it is of.
    pub subgraphs: Vec<Vec<u32>>,
    /// Lists that were drawn from; one that several subgraphs reach at a hop counts once.
    pub lists: u64,
}

/// Memory for it that is kept, and what pays for it.
#[derive(Default)]
pub(crate) struct Disjoint {
    hops: Hops<u64>,
    distinct: Distinct,
    held: Growing,
}

impl Disjoint {
    /// Bytes of the budget that are held for it.
    pub fn held_bytes(&self) -> u64 {
        self.held.bytes()
    }
}

/// Each node of a type once, beside the nodes of all subgraphs.
#[derive(Default)]
struct Distinct {
    nodes: Vec<NodeMap<u64>>,
    places: Vec<Vec<u32>>,
}

impl Distinct {
    fn clear(&mut self, node_types: usize) {
        self.nodes.resize_with(node_types, NodeMap::default);
        self.nodes.iter_mut().for_each(NodeMap::clear);
        self.places.clear();
        self.places.resize(node_types, Vec::new());
    }

    /// Learns the nodes that a hop has added, and tells of those that no one has reached before.
    fn learn(&mut self, hops: &Hops<u64>, hop: usize, hear: &mut HearNodes<'_>) {
        for (at, (map, places)) in self.nodes.iter_mut().zip(&mut self.places).enumerate() {
            let ids: Vec<u64> = hops.newest(at).iter().map(|id| id & NODE).collect();
            let known = map.len();
            map.number_all(&ids, places);
            if map.len() > known {
                hear(hop, NodeTypeId(at as u16), &map.ids()[known..]);
            }
        }
    }

    /// The nodes of the newest `count` ones, each once, and which of them each is.
    fn of_newest(&self, node_type: usize, count: usize) -> (Vec<NodeId>, Vec<u32>) {
        let (map, places) = (&self.nodes[node_type], &self.places[node_type]);
        let mut known = vec![u32::MAX; map.len()];
        let mut nodes = Vec::with_capacity(count);
        let newest = places[places.len() - count..].iter();
        let numbers = newest.map(|place| {
            let number = &mut known[*place as usize];
            if *number == u32::MAX {
                *number = nodes.len() as u32;
                nodes.push(map.ids()[*place as usize]);
            }
            *number
        });
        let numbers = numbers.collect();
        (nodes, numbers)
    }

    fn num_bytes(&self) -> u64 {
        self.nodes.iter().map(NodeMap::num_bytes).sum::<u64>() + self.places_bytes()
    }

    fn places_bytes(&self) -> u64 {
        self.places.iter().map(Vec::capacity).sum::<usize>() as u64 * 4
    }
}

/// What was drawn under an edge type, by distinct destination.
struct Drawn {
    edge_type: usize,
    /// Which of the lists each destination has.
    numbers: Vec<u32>,
    found: Expansion,
}

impl Sampler {
    /// Samples around seeds in subgraphs of their own; `hear` and `rows` are as of
    /// [`Sampler::sample_hearing`], and `hear` is told of each node once.
    ///
    /// # Errors
    /// As [`Sampler::sample_hearing`]; [`SampleError::Spec`] if entries are not drawn by position,
    /// or there are more subgraphs or nodes than numbers for them.
    pub fn sample_disjoint(
        &self,
        seeds: &[DisjointSeeds<'_>],
        stream: u64,
        scratch: &mut SampleScratch,
        hear: &mut HearNodes<'_>,
        rows: &Arc<RowQueue>,
    ) -> Result<DisjointSample, SampleError> {
        let admit =
            |_: Stage, bytes: u64| self.snapshot().reserve(bytes).map_err(SampleError::from);
        self.clock().time(Work::Sample, &admit, |admit| {
            let key = BatchKey::new(self.spec().seed, stream);
            self.disjoint_hops((seeds, key), &mut scratch.disjoint, (hear, rows), admit)
        })
    }

    fn disjoint_hops(
        &self,
        (seeds, key): (&[DisjointSeeds<'_>], BatchKey),
        Disjoint { hops, distinct, held }: &mut Disjoint,
        (hear, rows): (&mut HearNodes<'_>, &Arc<RowQueue>),
        admit: &Admit<'_>,
    ) -> Result<DisjointSample, SampleError> {
        let catalog = self.snapshot().catalog();
        hops.clear(catalog.node_types.len(), catalog.edge_types.len());
        distinct.clear(catalog.node_types.len());
        let (mut num_seeds, mut lists) = (0, 0);
        for DisjointSeeds { node_type, ids, subgraphs } in seeds {
            self.snapshot().check_nodes(*node_type, ids)?;
            num_seeds += ids.len() as u64 * (NodeMap::<u64>::BYTES_PER_NODE + BYTES_PER_NODE);
            held.grow(hops.num_bytes() + distinct.num_bytes() + num_seeds, admit)?;
            let of_subgraph = |(id, subgraph): (&NodeId, &u32)| {
                let fits = *id <= NODE && *subgraph < 1 << (u64::BITS - NODE_BITS);
                fits.then(|| u64::from(*subgraph) << NODE_BITS | id)
            };
            let numbers: Option<Vec<u64>> = ids.iter().zip(*subgraphs).map(of_subgraph).collect();
            let numbers = numbers.filter(|numbers| numbers.len() == ids.len());
            let numbers = numbers.ok_or_else(|| {
                let most = 1_u64 << (u64::BITS - NODE_BITS);
                SampleError::Spec(format!(
                    "subgraphs are sampled together if there are up to {most}, each seed is of \
                     one, and nodes are below 2^{NODE_BITS}"
                ))
            })?;
            hops.push_seeds(usize::from(node_type.0), &numbers);
        }
        hops.end_hop();
        distinct.learn(hops, 0, hear);
        for hop in 0..self.spec().fanouts.hops() {
            lists += self.disjoint_hop((key, hop), rows, (hops, distinct, held), admit)?;
            distinct.learn(hops, hop + 1, hear);
            held.shrink(hops.num_bytes() + distinct.num_bytes());
        }
        let apart = distinct.num_bytes() + distinct.places_bytes();
        let _held = admit(Stage::Topology, hops.compact_bytes(self.ends()) + apart)?;
        let (mut nodes, edges) = hops.compact(self.ends());
        let subgraphs_of = |at| hops.ids(at).iter().map(|id| (id >> NODE_BITS) as u32).collect();
        let subgraphs = (0..nodes.len()).map(subgraphs_of).collect();
        for ((at, nodes), meta) in nodes.iter_mut().enumerate().zip(&catalog.node_types) {
            let ids: Vec<u64> = hops.ids(at).iter().map(|id| id & NODE).collect();
            nodes.ids = Ids::below(meta.num_nodes, &ids);
        }
        Ok(DisjointSample {
            sample: CompactSample { nodes, edges, _held },
            distinct: distinct.nodes.iter().map(|map| map.ids().to_vec()).collect(),
            places: std::mem::take(&mut distinct.places),
            subgraphs,
            lists,
        })
    }

    /// Returns how many lists were drawn from.
    fn disjoint_hop(
        &self,
        turn: (BatchKey, usize),
        rows: &Arc<RowQueue>,
        (hops, distinct, held): (&mut Hops<u64>, &Distinct, &mut Growing),
        admit: &Admit<'_>,
    ) -> Result<u64, SampleError> {
        let (mut all, mut lists, mut passing, mut draws) = (Vec::new(), 0, 0, 0);
        for (edge_type, ends) in self.ends().iter().enumerate() {
            let Some(rule) = self.rule(turn, edge_type) else { continue };
            let Expanding { ids, step, edges, .. } = hops.expanding(edge_type, *ends);
            if ids.is_empty() {
                continue;
            }
            let Rule::Positions(uniform) = rule else {
                let what =
                    "subgraphs are sampled together only where entries are drawn by position";
                return Err(SampleError::Spec(what.into()));
            };
            let (nodes, numbers) = distinct.of_newest(ends.destination, ids.len());
            lists += nodes.len() as u64;
            let found = match (&self.resident[edge_type], &self.older[edge_type]) {
                (Some(topology), _) => draw_resident(topology, uniform, &nodes)?,
                (None, Some(older)) => self.draw_older(older, uniform, &nodes, rows)?,
                (None, None) => pages::draw(self.snapshot(), uniform, &nodes, Some(rows))?,
            };
            for number in &numbers {
                let [start, end] = list(&found, *number);
                edges.counts.push(count((end - start) as u64)?);
                step.draws += (end - start) as u64;
            }
            passing += passing_bytes(&found);
            draws += step.draws;
            all.push(Drawn { edge_type, numbers, found });
        }
        let more = passing + distinct.num_bytes() + draws.saturating_mul(BYTES_PER_NODE);
        held.grow(hops.bytes_for_hop(self.ends(), 0).saturating_add(more), admit)?;
        for Drawn { edge_type, numbers, found } in all {
            let Expanding { ids, step, edges, .. } =
                hops.expanding(edge_type, self.ends()[edge_type]);
            step.sources.reserve(step.draws as usize);
            for (id, number) in ids.iter().zip(numbers) {
                let [start, end] = list(&found, number);
                let subgraph = id & !NODE;
                let sources = found.sources[start..end].iter();
                step.sources.extend(sources.map(|source| subgraph | source));
                let range = |len: usize| if len == 0 { 0..0 } else { start..end };
                edges.edge_ids.extend_from_slice(&found.edge_ids[range(found.edge_ids.len())]);
                edges.times.extend_from_slice(&found.times[range(found.times.len())]);
                edges.weights.extend_from_slice(&found.weights[range(found.weights.len())]);
            }
        }
        hops.record(self.ends());
        hops.end_hop();
        Ok(lists)
    }
}

impl Sampler {
    /// The draws from lists of which most are in memory.
    fn draw_older(
        &self,
        older: &OlderLists,
        uniform: Uniform,
        nodes: &[NodeId],
        rows: &Arc<RowQueue>,
    ) -> Result<Expansion, SampleError> {
        let (to_read, kept): (Vec<NodeId>, Vec<NodeId>) =
            nodes.iter().partition(|node| older.has_changed(**node));
        let kept = draw_resident(older.topology(), uniform, &kept)?;
        if to_read.is_empty() {
            return Ok(kept);
        }
        let read = pages::draw(self.snapshot(), uniform, &to_read, Some(rows))?;
        Ok(older::merged(older, nodes, &kept, &read))
    }
}

/// Where the entries of a list are.
#[inline]
fn list(found: &Expansion, number: u32) -> [usize; 2] {
    [found.offsets[number as usize], found.offsets[number as usize + 1]]
}

/// The draws from lists in memory, as the store gives them.
fn draw_resident(
    topology: &ResidentTopology,
    uniform: Uniform,
    nodes: &[NodeId],
) -> Result<Expansion, SampleError> {
    let (mut step, mut edges) = (Step::<u64>::default(), Edges::default());
    let (rule, around) =
        (Rule::Positions(uniform), Around { relation: "", is_in_batch: &|_| false });
    memory::plan(topology, (rule, around), nodes, &mut step, &mut edges)?;
    memory::take(topology, rule, nodes, &mut step, &mut edges);
    let Edges { counts, edge_ids, times, weights, .. } = edges;
    let mut offsets = Vec::with_capacity(counts.len() + 1);
    offsets.push(0);
    let mut end = 0;
    offsets.extend(counts.iter().map(|count| {
        end += *count as usize;
        end
    }));
    Ok(Expansion { offsets, sources: step.sources, edge_ids, times, weights })
}
