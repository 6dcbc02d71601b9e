//! The hops of a batch: the frontier of each is expanded from where its lists are, then numbered.
//!
//! Numbering and draws follow `docs/format.md`, section 11: a node belongs to the smallest hop
//! that reaches it, and the nodes of a hop are numbered by (destination's number, edge type, draw
//! index) of their first draw. Nothing here depends on the order in which reads complete, because
//! the store answers a whole frontier in request order, nor on whether a topology is in memory.

pub(crate) mod memory;
pub(crate) mod streaming;
mod subgraph;

use ng_simd::SourceSelector;
use ng_store::Expansion;
use ng_types::canary::planted;
use ng_types::{DrawKey, EdgeTypeId, MemoryUser, NodeId, NodeTypeId, Reservation, SourceKey};

use self::memory::{self as resident, Rule};
use self::streaming::{Engine, Extent, Lists};
pub(crate) use self::subgraph::{Edges, Ends, EntryData, Hops, Step, append, count};
use crate::admission::{Admit, Growing, Stage};
use crate::compact::CompactSample;
use crate::draw::labor::{self, Labor};
use crate::ids::Id;
use crate::node_map::NodeMap;
use crate::{Method, SampleError, Sampler};

/// A hop of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub key: DrawKey,
    pub stream: u64,
    pub hop: usize,
}

impl Sampler {
    pub(crate) fn sample_hops<I: Id>(
        &self,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
        (hops, held): (&mut Hops<I>, &mut Growing),
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        let catalog = self.snapshot().catalog();
        hops.clear(catalog.node_types.len(), catalog.edge_types.len());
        let mut num_seeds = 0;
        for (node_type, ids) in seeds {
            self.snapshot().check_nodes(*node_type, ids)?;
            num_seeds += ids.len() as u64;
            held.grow(hops.num_bytes() + num_seeds * NodeMap::<I>::BYTES_PER_NODE, admit)?;
            hops.push_seeds(usize::from(node_type.0), ids);
        }
        hops.end_hop();
        // The canary makes draws depend on how far the budget has filled, which differs between
        // cache sizes and moments.
        let budget_state = if planted("draws_depend_on_budget") {
            self.snapshot().budget().used_bytes()
        } else {
            0
        };
        let key = DrawKey::new(self.spec().seed ^ budget_state, stream);
        let mut early = self.read_early(key, seeds, admit)?;
        let mut lists = early.as_mut().map(|(lists, _)| lists);
        for hop in 0..self.spec().fanouts.hops() {
            let turn = Turn { key, stream, hop };
            self.sample_hop(turn, lists.as_deref_mut(), (hops, held), admit)?;
        }
        if let Some((lists, _)) = &early {
            self.streaming.count(lists);
        }
        drop(early);
        let _held = admit(Stage::Topology, hops.compact_bytes(self.ends()))?;
        let (nodes, edges) = hops.compact(self.ends());
        Ok(CompactSample { nodes, edges, _held })
    }

    fn sample_hop<I: Id>(
        &self,
        turn: Turn,
        mut early: Option<&mut Lists>,
        (hops, held): (&mut Hops<I>, &mut Growing),
        admit: &Admit<'_>,
    ) -> Result<(), SampleError> {
        let mut places = 0_u64;
        for (index, ends) in self.ends().iter().enumerate() {
            let Some(rule) = self.rule(turn, index) else { continue };
            let (ids, step, edges) = hops.expanding(index, *ends);
            if ids.is_empty() {
                continue;
            }
            let nodes = || ids.iter().map(|id| id.get()).collect::<Vec<NodeId>>();
            match (&self.resident[index], self.labor(turn, rule), early.as_deref_mut()) {
                (Some(topology), Some(labor), _) => {
                    labor::plan(topology, labor, ids, step, edges)?;
                }
                (Some(topology), None, _) => {
                    resident::plan(topology, rule, ids, step, edges)?;
                    places = places.saturating_add(rule.places(step.draws));
                }
                (None, Some(labor), _) => {
                    let held = admit(Stage::Topology, labor::READ_BYTES)?;
                    let read = labor::read(self.snapshot(), labor, &nodes(), &held)?;
                    step.keep_read(read, edges)?;
                }
                (None, None, Some(lists)) => {
                    step.keep_read(lists.expand(self.snapshot(), rule, &nodes())?, edges)?;
                }
                (None, None, None) => step.keep_read(self.read(rule, &nodes())?, edges)?,
            }
        }
        held.grow(hops.bytes_for_hop(self.ends(), places), admit)?;
        for (index, ends) in self.ends().iter().enumerate() {
            let Some(rule) = self.rule(turn, index) else { continue };
            let (ids, step, edges) = hops.expanding(index, *ends);
            match &self.resident[index] {
                Some(topology) if self.labor(turn, rule).is_some() => {
                    labor::take(topology, step, &mut edges.data);
                }
                Some(topology) => resident::draw(topology, rule, ids, step, &mut edges.data),
                None => step.take_read(&mut edges.data),
            }
        }
        hops.record(self.ends());
        hops.end_hop();
        held.shrink(hops.num_bytes());
        Ok(())
    }

    /// How an edge type is drawn from at a hop; `None` if it is left out.
    pub(crate) fn rule(&self, turn: Turn, edge_type: usize) -> Option<Rule> {
        let (key, edge_type) = (turn.key, EdgeTypeId(edge_type as u16));
        let fanout = self.spec().fanouts.get(edge_type, turn.hop);
        let replace = self.spec().replace;
        (fanout != 0).then(|| Rule { key, edge_type, fanout: u32::try_from(fanout).ok(), replace })
    }

    /// How entries are chosen instead, if that is by source.
    fn labor(&self, turn: Turn, rule: Rule) -> Option<Labor> {
        let Method::Labor { dependent } = self.spec().method else { return None };
        let source = self.ends()[usize::from(rule.edge_type.0)].source;
        let group = turn.stream / u64::from(dependent);
        let key = SourceKey::new(self.spec().seed, group, NodeTypeId(source as u16));
        let (selector, edge_type) = (SourceSelector::new(key), rule.edge_type);
        Some(Labor { selector, edge_type, fanout: rule.fanout? })
    }

    /// Expands a frontier from pages.
    fn read(&self, rule: Rule, nodes: &[NodeId]) -> Result<Expansion, SampleError> {
        let mut expansion = Expansion::default();
        let mut draw = |at: usize, degree: u64, positions: &mut Vec<u64>| {
            rule.draw(nodes[at], degree, |position| positions.push(position));
        };
        self.snapshot().expand(rule.edge_type, nodes, &mut draw, &mut expansion)?;
        Ok(expansion)
    }

    /// Lets the streaming engine read the lists of a batch, with the memory for them, where that
    /// pays.
    fn read_early(
        &self,
        key: DrawKey,
        seeds: &[(NodeTypeId, &[NodeId])],
        admit: &Admit<'_>,
    ) -> Result<Option<(Lists, Reservation)>, SampleError> {
        // Draws of a smaller fanout are the first ones of a larger, which other methods lack.
        let is_fit = self.spec().method == Method::Uniform
            && self.spec().fanouts.hops() >= 2
            && self.resident.iter().all(Option::is_none);
        if self.engine == Engine::Hops || !is_fit {
            return Ok(None);
        }
        let mut counts = vec![0; self.snapshot().catalog().node_types.len()];
        for (node_type, ids) in seeds {
            counts[usize::from(node_type.0)] += ids.len() as u64;
        }
        let Some(extent) = Extent::of(self.spec(), self.ends(), counts) else {
            return Ok(None);
        };
        let held = if self.engine == Engine::Streaming {
            admit(Stage::Topology, extent.num_bytes())?
        } else {
            // Hops need less memory, so streaming is not worth waiting for any.
            let fits = extent.num_bytes() <= self.snapshot().budget().share(MemoryUser::Streaming);
            let held =
                (extent.is_small() && fits).then(|| self.snapshot().reserve(extent.num_bytes()));
            let Some(Ok(held)) = held else { return Ok(None) };
            held
        };
        let of = (self.spec(), self.ends());
        let lists = streaming::read_lists(self.snapshot(), of, key, seeds)?;
        Ok(Some((lists, held)))
    }
}
