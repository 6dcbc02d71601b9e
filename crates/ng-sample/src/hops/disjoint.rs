//! Several seeds in one batch, each with a subgraph of its own, as if it were alone.
//!
//! A node that two of them reach is there twice, and is expanded with the fanout of the hop at
//! which each of them reaches it. Its list is read once for each hop, and its rows once. What must
//! not live here: draws and where lists are. The invariant: the part of a seed has the nodes of
//! each hop, and the edges of each node in their order, that [`Sampler::sample_hearing`] gives for
//! the seed alone. Nodes of one hop may have other numbers.
//!
//! Nodes are numbered by (subgraph, node) in one number: the node in the low bits.

use std::collections::HashMap;
use std::sync::Arc;

use ng_store::{Expansion, RowQueue};
use ng_types::{NodeId, NodeTypeId};

use super::inside::{Inside, NODE, NODE_BITS, Nodes};
use super::lists::Wanted;
use super::subgraph::{Ends, Expanding, HearNodes, Hops, passing_bytes};
use super::until::Until;
use crate::admission::{Admit, Growing, Stage};
use crate::clock::Work;
use crate::compact::{CompactSample, Extras};
use crate::draw::{Around, BatchKey, ByEntry, Dated, Dates, Rule, count};
use crate::ids::Ids;
use crate::node_filter::NodeFilter;
use crate::node_map::NodeMap;
use crate::{SampleError, SampleScratch, Sampler, Temporal, TimesOf};

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

/// What subgraphs that are sampled together are asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub seeds: &'a [DisjointSeeds<'a>],
    pub key: BatchKey,
    /// Up to when each subgraph reaches; empty unless sampling looks at times.
    pub untils: &'a [i64],
    /// What is read with the lists.
    pub rows: Option<&'a Arc<RowQueue>>,
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

    /// The lists of the `newest` nodes, each once for each time up to which it is drawn from, and
    /// which of them each is.
    fn lists_of(&self, node_type: usize, newest: &[u64], untils: &[i64]) -> ListsOf {
        let (map, places) = (&self.nodes[node_type], &self.places[node_type]);
        let places = &places[places.len() - newest.len()..];
        let mut lists = ListsOf::default();
        let mut known = vec![u32::MAX; map.len()];
        let mut known_at = HashMap::new();
        for (place, id) in places.iter().zip(newest) {
            let until = untils.get((id >> NODE_BITS) as usize).copied();
            let number = match until {
                None => &mut known[*place as usize],
                Some(until) => known_at.entry((*place, until)).or_insert(u32::MAX),
            };
            if *number == u32::MAX {
                *number = lists.nodes.len() as u32;
                lists.nodes.push(map.ids()[*place as usize]);
                lists.untils.extend(until);
            }
            lists.numbers.push(*number);
        }
        lists
    }

    /// The nodes of a type: all of them, each once, and the places of all among these.
    fn nodes_of<'a>(&'a self, node_type: usize, all: &'a NodeMap<u64>) -> Nodes<'a> {
        Nodes { all, distinct: &self.nodes[node_type], places: &self.places[node_type] }
    }

    fn num_bytes(&self) -> u64 {
        self.nodes.iter().map(NodeMap::num_bytes).sum::<u64>() + self.places_bytes()
    }

    fn places_bytes(&self) -> u64 {
        self.places.iter().map(Vec::capacity).sum::<usize>() as u64 * 4
    }
}

/// Lists that are drawn from.
#[derive(Default)]
struct ListsOf {
    nodes: Vec<NodeId>,
    /// Up to when each is drawn from; empty unless sampling looks at times.
    untils: Vec<i64>,
    /// Which of them each destination has.
    numbers: Vec<u32>,
}

/// What was drawn under an edge type.
struct Drawn {
    edge_type: usize,
    /// Which of the lists each destination has.
    numbers: Vec<u32>,
    found: Expansion,
    /// Only what is in the subgraph of a destination is an edge of it.
    is_induced: bool,
}

impl Sampler {
    /// Samples around seeds in subgraphs of their own; `hear` and `rows` are as of
    /// [`Sampler::sample_hearing`], and `hear` is told of each node once.
    ///
    /// # Errors
    /// As [`Sampler::sample_hearing`]; [`SampleError::Spec`] if there are more subgraphs or nodes
    /// than numbers for them.
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
            let asked = Asked { seeds, key, untils: &[], rows: Some(rows) };
            self.disjoint_hops(asked, &mut scratch.disjoint, hear, admit)
        })
    }

    pub(crate) fn disjoint_hops(
        &self,
        asked: Asked<'_>,
        Disjoint { hops, distinct, held }: &mut Disjoint,
        hear: &mut HearNodes<'_>,
        admit: &Admit<'_>,
    ) -> Result<DisjointSample, SampleError> {
        let catalog = self.snapshot().catalog();
        hops.clear(catalog.node_types.len(), catalog.edge_types.len());
        distinct.clear(catalog.node_types.len());
        let (mut num_seeds, mut lists) = (0, 0);
        for DisjointSeeds { node_type, ids, subgraphs } in asked.seeds {
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
                    "disjoint sampling needs one subgraph per seed, at most {most} subgraphs, and \
                     node ids below 2^{NODE_BITS}"
                ))
            })?;
            hops.push_seeds(usize::from(node_type.0), &numbers);
        }
        hops.end_hop();
        distinct.learn(hops, 0, hear);
        for hop in 0..self.spec().fanouts.hops() {
            lists += self.disjoint_hop((&asked, hop), (hops, distinct, held), admit)?;
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
            sample: CompactSample { nodes, edges, extras: Extras::default(), _held },
            distinct: distinct.nodes.iter().map(|map| map.ids().to_vec()).collect(),
            places: std::mem::take(&mut distinct.places),
            subgraphs,
            lists,
        })
    }

    /// Returns how many lists were drawn from.
    fn disjoint_hop(
        &self,
        (asked, hop): (&Asked<'_>, usize),
        (hops, distinct, held): (&mut Hops<u64>, &Distinct, &mut Growing),
        admit: &Admit<'_>,
    ) -> Result<u64, SampleError> {
        let (mut all, mut lists, mut passing, mut draws) = (Vec::new(), 0, 0, 0);
        let numbers = asked.seeds.iter().flat_map(|seeds| seeds.subgraphs);
        let subgraphs = numbers.max().map_or(0, |last| *last as usize + 1);
        for (edge_type, ends) in self.ends().iter().enumerate() {
            let Some(rule) = self.dated_rule((asked.key, hop), edge_type) else { continue };
            let Expanding { ids, sources, step, edges } = hops.expanding(edge_type, *ends);
            if ids.is_empty() {
                continue;
            }
            let ListsOf { nodes, untils, numbers } =
                distinct.lists_of(ends.destination, ids, asked.untils);
            lists += nodes.len() as u64;
            let wanted = Wanted { edge_type, nodes: &nodes, until: self.until(edge_type, &untils) };
            // What any of the subgraphs has.
            let filter = NodeFilter::of(rule, &distinct.nodes[ends.source], admit)?;
            let is_wanted = &|_, source, _| filter.as_ref().is_some_and(|nodes| nodes.has(source));
            let of_nodes = &|nodes: &[NodeId]| self.times_of(ends.source, nodes);
            let dates = Some(Dates { untils: &untils, of_nodes });
            let relation = &self.snapshot().catalog().edge_types[edge_type].relation;
            let around = Around { relation, is_wanted, dates };
            let is_induced = filter.is_some();
            let found = self.read_lists(wanted, (rule, around), asked.rows, admit)?;
            let first = edges.counts.len();
            if is_induced {
                let bytes = Inside::num_bytes(sources.ids().len(), ids.len(), subgraphs);
                let _passing = admit(Stage::Topology, bytes)?;
                edges.counts.resize(first + ids.len(), 0);
                let counts = &mut edges.counts[first..];
                let of = distinct.nodes_of(ends.source, sources);
                let inside = Inside::new((ids, &numbers), nodes.len(), of, subgraphs);
                inside.each(&found, |destination, _| counts[destination] += 1);
                passing += bytes;
            } else {
                for number in &numbers {
                    let [start, end] = list(&found, *number);
                    edges.counts.push(count((end - start) as u64)?);
                }
            }
            step.draws += edges.counts[first..].iter().map(|count| u64::from(*count)).sum::<u64>();
            passing += passing_bytes(&found);
            draws += step.draws;
            all.push(Drawn { edge_type, numbers, found, is_induced });
        }
        let more = passing + distinct.num_bytes() + draws.saturating_mul(BYTES_PER_NODE);
        held.grow(hops.bytes_for_hop(self.ends(), 0).saturating_add(more), admit)?;
        for drawn in all {
            let ends = self.ends()[drawn.edge_type];
            take(drawn, hops, ends, (distinct, subgraphs));
        }
        hops.record(self.ends());
        hops.end_hop();
        Ok(lists)
    }

    /// As [`Sampler::rule`], where nodes that sources are have times.
    fn dated_rule(&self, turn: (BatchKey, usize), edge_type: usize) -> Option<Rule> {
        let rule = self.rule(turn, edge_type)?;
        let temporal = self.spec().shape.time.as_ref();
        let has_times =
            |temporal: &&Temporal| temporal.of_nodes(self.ends()[edge_type].source).is_some();
        let (Some(temporal), Rule::Positions(uniform)) = (temporal.filter(has_times), rule) else {
            return Some(rule);
        };
        let (key, edge_type, fanout) = (uniform.key, uniform.edge_type, uniform.fanout);
        let (replace, takes_last) = (uniform.replace, temporal.takes_last);
        let dated = Dated { key, edge_type, fanout, replace, takes_last };
        Some(Rule::Entries(ByEntry::Dated(dated)))
    }

    /// Up to when lists of an edge type are drawn from, if its edges have times that count.
    fn until<'a>(&self, edge_type: usize, untils: &'a [i64]) -> Option<Until<'a>> {
        let temporal = self.spec().shape.time.as_ref()?;
        let counts = self.snapshot().catalog().edge_types[edge_type].has_time
            && temporal.times == TimesOf::Edges;
        counts.then_some(Until { times: untils, takes_last: temporal.takes_last })
    }

    /// The times of nodes of a type.
    pub(crate) fn times_of(
        &self,
        node_type: usize,
        nodes: &[NodeId],
    ) -> Result<Vec<i64>, SampleError> {
        let temporal = self.spec().shape.time.as_ref();
        let Some(tensor) = temporal.and_then(|temporal| temporal.of_nodes(node_type)) else {
            return Ok(vec![i64::MIN; nodes.len()]);
        };
        let mut bytes = vec![0; nodes.len() * size_of::<i64>()];
        self.snapshot().gather(tensor, nodes, &mut bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|time| i64::from_le_bytes(*time)).collect())
    }
}

/// Puts what was drawn into the columns.
fn take(drawn: Drawn, hops: &mut Hops<u64>, ends: Ends, (distinct, subgraphs): (&Distinct, usize)) {
    let Drawn { edge_type, numbers, found, is_induced } = drawn;
    let Expanding { ids, sources, step, edges } = hops.expanding(edge_type, ends);
    step.sources.reserve(step.draws as usize);
    if !is_induced {
        for (id, number) in ids.iter().zip(numbers) {
            let [start, end] = list(&found, number);
            let range = |len: usize| if len == 0 { 0..0 } else { start..end };
            step.sources.extend(found.sources[start..end].iter().map(|node| id & !NODE | node));
            edges.edge_ids.extend_from_slice(&found.edge_ids[range(found.edge_ids.len())]);
            edges.times.extend_from_slice(&found.times[range(found.times.len())]);
            edges.weights.extend_from_slice(&found.weights[range(found.weights.len())]);
        }
        return;
    }
    let counts = &edges.counts[edges.counts.len() - ids.len()..];
    let mut next: Vec<usize> = Vec::with_capacity(ids.len());
    let mut num_edges = 0;
    for count in counts {
        next.push(num_edges);
        num_edges += *count as usize;
    }
    let mut entries = vec![(0, 0); num_edges];
    let of = distinct.nodes_of(ends.source, sources);
    let inside = Inside::new((ids, &numbers), found.offsets.len() - 1, of, subgraphs);
    inside.each(&found, |destination, at| {
        entries[next[destination]] = (destination, at);
        next[destination] += 1;
    });
    for (destination, at) in entries {
        step.sources.push(ids[destination] & !NODE | found.sources[at]);
        edges.edge_ids.extend(found.edge_ids.get(at));
        edges.times.extend(found.times.get(at));
        edges.weights.extend(found.weights.get(at));
    }
}

/// Where the entries of a list are.
#[inline]
fn list(found: &Expansion, number: u32) -> [usize; 2] {
    [found.offsets[number as usize], found.offsets[number as usize + 1]]
}
