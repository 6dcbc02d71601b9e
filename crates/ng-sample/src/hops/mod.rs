//! The hops of a batch: the frontier of each is expanded from where its lists are, then numbered.
//!
//! Numbering and draws follow `docs/reference/format.md`, section 11: a node belongs to the
//! smallest hop that reaches it, and the nodes of a hop are numbered by (destination's number, edge
//! type, draw index) of their first draw. Nothing here depends on the order in which reads
//! complete, because the store answers a whole frontier in request order, nor on whether a topology
//! is in memory.

mod disjoint;
mod inside;
mod lists;
mod memory;
mod pages;
pub(crate) mod streaming;
mod subgraph;
mod until;

use std::sync::Arc;

use ng_store::RowQueue;
use ng_types::canary::planted;
use ng_types::{EdgeTypeId, MemoryUser, NodeId, NodeTypeId};

pub(crate) use self::disjoint::{Asked, Disjoint};
pub use self::disjoint::{DisjointSample, DisjointSeeds};
pub(crate) use self::lists::Wanted;
use self::streaming::{Engine, Extent, Lists};
pub use self::subgraph::HearNodes;
pub(crate) use self::subgraph::{Ahead, Edges, Ends, Expanding, Hops, Step, append, num_bytes};
use crate::admission::{Admit, Growing, Stage};
use crate::compact::{CompactSample, Extras};
use crate::draw::{Around, BatchKey, Rule, Source};
use crate::ids::Id;
use crate::node_filter::NodeFilter;
use crate::node_map::NodeMap;
use crate::{SampleError, Sampler};

impl Sampler {
    pub(crate) fn sample_hops<I: Id>(
        &self,
        (seeds, stream): (&[(NodeTypeId, &[NodeId])], u64),
        (hops, held): (&mut Hops<I>, &mut Growing),
        mut ahead: Option<Ahead<'_, '_>>,
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
        let key = BatchKey::new(self.spec().seed ^ budget_state, stream);
        let mut early = self.read_early(key, seeds, admit)?;
        for hop in 0..self.spec().fanouts.hops() {
            if let Some(ahead) = &mut ahead {
                hops.tell_newest(hop, ahead.hear);
            }
            let rows = ahead.as_ref().map(|ahead| ahead.rows);
            self.sample_hop((key, hop), (early.as_mut(), rows), (hops, held), admit)?;
        }
        if let Some(ahead) = ahead {
            hops.tell_newest(self.spec().fanouts.hops(), ahead.hear);
        }
        if let Some(lists) = early {
            self.streaming.count(&lists);
        }
        let _held = admit(Stage::Topology, hops.compact_bytes(self.ends()))?;
        let (nodes, edges) = hops.compact(self.ends());
        Ok(CompactSample { nodes, edges, extras: Extras::default(), _held })
    }

    fn sample_hop<I: Id>(
        &self,
        turn: (BatchKey, usize),
        (mut early, rows): (Option<&mut Lists>, Option<&Arc<RowQueue>>),
        (hops, held): (&mut Hops<I>, &mut Growing),
        admit: &Admit<'_>,
    ) -> Result<(), SampleError> {
        let (snapshot, mut places) = (self.snapshot(), 0_u64);
        for (index, ends) in self.ends().iter().enumerate() {
            let Some(rule) = self.rule(turn, index) else { continue };
            let Expanding { ids, sources, step, edges } = hops.expanding(index, *ends);
            if ids.is_empty() {
                continue;
            }
            let relation = &snapshot.catalog().edge_types[index].relation;
            let filter = NodeFilter::of(rule, sources, admit)?;
            let is_wanted = &|_, source, _| filter.as_ref().is_some_and(|nodes| nodes.has(source));
            let around = Around { is_wanted, ..Around::nothing(relation) };
            if let Some(topology) = &self.resident[index] {
                let more = memory::plan(topology, (rule, around), ids, step, edges)?;
                places = places.saturating_add(more);
                continue;
            }
            let nodes: Vec<NodeId> = ids.iter().map(|id| id.get()).collect();
            let read = match (rule, early.as_deref_mut()) {
                (Rule::Positions(uniform), Some(lists)) => lists.expand(snapshot, uniform, &nodes),
                (Rule::Positions(uniform), None) => pages::draw(snapshot, uniform, &nodes, rows),
                (Rule::Entries(rule), _) => {
                    let (edge_type, mut held) = (EdgeTypeId(index as u16), Growing::default());
                    let mut reserve = |bytes| held.grow(bytes, admit);
                    pages::choose(snapshot, edge_type, (rule, around), &nodes, &mut reserve)
                }
            };
            step.keep_read(read?, edges)?;
        }
        held.grow(hops.bytes_for_hop(self.ends(), places), admit)?;
        for (index, ends) in self.ends().iter().enumerate() {
            let Some(rule) = self.rule(turn, index) else { continue };
            let Expanding { ids, step, edges, .. } = hops.expanding(index, *ends);
            match &self.resident[index] {
                Some(topology) => memory::take(topology, rule, ids, step, edges),
                None => step.take_read(edges),
            }
        }
        hops.record(self.ends());
        hops.end_hop();
        held.shrink(hops.num_bytes());
        Ok(())
    }

    /// How an edge type is drawn from at a hop of a batch; `None` if it is left out.
    pub(crate) fn rule(&self, (key, hop): (BatchKey, usize), edge_type: usize) -> Option<Rule> {
        let source = NodeTypeId(self.ends()[edge_type].source as u16);
        let edge_type = EdgeTypeId(edge_type as u16);
        let fanout = self.spec().fanouts.get(edge_type, hop);
        Rule::new((self.spec().method, fanout), key, edge_type, source)
    }

    /// Lets the streaming engine read the lists of a batch where that pays.
    fn read_early(
        &self,
        key: BatchKey,
        seeds: &[(NodeTypeId, &[NodeId])],
        admit: &Admit<'_>,
    ) -> Result<Option<Lists>, SampleError> {
        let is_fit = self.spec().method.works_with(Source::Streaming)
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
        let what = (self.spec(), self.ends());
        streaming::read_lists(self.snapshot(), what, key, seeds, held).map(Some)
    }
}
