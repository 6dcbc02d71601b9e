//! Links as seeds: edges of a type by their numbers, and pairs of nodes that no edge joins.
//!
//! What must not live here: what is sampled around the ends. The invariants: an edge has the same
//! number wherever its list is; a negative link is not an edge at or before its time.

use std::collections::HashMap;
use std::sync::Arc;

use ng_store::Expansion;
use ng_types::canary::planted;
use ng_types::{DrawKey, EdgeTypeId, NodeId, Purpose};

use crate::admission::Admit;
use crate::draw::{Around, ByEntry, Rule};
use crate::hops::Wanted;
use crate::{Inputs, LinkSpec, Negatives, SampleError, Sampler, TimesOf};

/// Pairs that are drawn in place of one before it is taken for impossible.
const TRIES_MAX: u32 = 100;

/// Links with both ends, and the time of each where they have one.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub sources: Vec<NodeId>,
    pub destinations: Vec<NodeId>,
    pub times: Vec<i64>,
}

impl Sampler {
    /// The edges with these numbers; with their own times unless others are given.
    pub(crate) fn edges_numbered(
        &self,
        links: &LinkSpec,
        numbers: &[u64],
        times: Vec<i64>,
    ) -> Result<Links, SampleError> {
        let places = links.places.as_ref().ok_or_else(|| {
            SampleError::Spec("links are given by number, and where edges are is not known".into())
        })?;
        let (destinations, positions) = places.find(self.snapshot(), numbers)?;
        let mut found = Expansion::default();
        let mut one = |at: usize, _: u64, to: &mut Vec<u64>| to.push(positions[at]);
        self.snapshot().expand(links.edge_type, &destinations, &mut one, &mut found)?;
        let looks_at_edges =
            self.spec().shape.time.as_ref().is_some_and(|time| time.times == TimesOf::Edges);
        // An edge is scored as of just before it: at its own time it would be in the sample.
        let before = |time: &i64| time.saturating_sub(1);
        let own = || found.times.iter().map(before).collect();
        let times = if times.is_empty() && looks_at_edges { own() } else { times };
        Ok(Links { sources: found.sources, destinations, times })
    }

    /// Appends the negative ends: sources and destinations of pairs, or destinations alone.
    pub(crate) fn add_negatives(
        &self,
        spec: &LinkSpec,
        key: DrawKey,
        links: &mut Links,
        admit: &Admit<'_>,
    ) -> Result<(), SampleError> {
        let positives = links.sources.len();
        let wanted = spec.num_negatives(positives);
        if wanted == 0 {
            return Ok(());
        }
        let is_pair = matches!(spec.negatives, Negatives::Binary(_));
        let key = key.apart(Purpose::Negatives);
        // As PyG repeats times: link after link, as often as it takes.
        let link_of = |at: usize| at % positives;
        let until = |at: usize| links.times.get(link_of(at)).copied().unwrap_or(i64::MAX);
        let mut found: Vec<[NodeId; 2]> = vec![[0; 2]; wanted];
        let mut open: Vec<usize> = (0..wanted).collect();
        for attempt in 0..TRIES_MAX {
            for at in &open {
                let draw = |end: usize| draw_node(key, &spec.nodes[end], (end, *at, attempt));
                let source = if is_pair { draw(0)? } else { links.sources[link_of(*at)] };
                found[*at] = [source, draw(1)?];
            }
            let pairs: Vec<([NodeId; 2], i64)> =
                open.iter().map(|at| (found[*at], until(*at))).collect();
            let bad = self.are_no_negatives(spec.edge_type, &pairs, admit)?;
            let mut bad = bad.into_iter();
            open.retain(|_| bad.next().unwrap_or(false));
            if open.is_empty() {
                break;
            }
        }
        if let Some(at) = open.first() {
            let [node, _] = found[*at];
            return Err(SampleError::NoNegative {
                relation: self.relation(spec.edge_type).into(),
                node,
                tries: TRIES_MAX,
            });
        }
        let (sources, destinations): (Vec<_>, Vec<_>) =
            found.into_iter().map(|[source, destination]| (source, destination)).unzip();
        let times: Vec<i64> = (0..wanted).map(until).collect();
        if is_pair {
            links.sources.extend(sources);
        }
        links.destinations.extend(destinations);
        if !links.times.is_empty() {
            links.times.extend(times);
        }
        Ok(())
    }

    fn relation(&self, edge_type: EdgeTypeId) -> &str {
        &self.snapshot().catalog().edge_types[usize::from(edge_type.0)].relation
    }

    /// Which pairs are edges that are not later than their time, or a node with itself, or have an
    /// end that is later.
    fn are_no_negatives(
        &self,
        edge_type: EdgeTypeId,
        pairs: &[([NodeId; 2], i64)],
        admit: &Admit<'_>,
    ) -> Result<Vec<bool>, SampleError> {
        let ends = self.ends()[usize::from(edge_type.0)];
        let (mut lists, mut nodes) = (HashMap::new(), Vec::new());
        // When the first edge of each pair was; `None` until one is found.
        let mut first: HashMap<(usize, NodeId), Option<i64>> = HashMap::new();
        for ([source, destination], _) in pairs {
            let list = *lists.entry(*destination).or_insert_with(|| {
                nodes.push(*destination);
                nodes.len() - 1
            });
            first.insert((list, *source), None);
        }
        let is_wanted = &|list, source, _| first.contains_key(&(list, source));
        let around = Around { is_wanted, ..Around::nothing(self.relation(edge_type)) };
        let request = Wanted { edge_type: usize::from(edge_type.0), nodes: &nodes, until: None };
        let rule = Rule::Entries(ByEntry::Among);
        let edges = self.read_lists(request, (rule, around), None, admit)?;
        for (list, range) in edges.offsets.windows(2).enumerate() {
            for at in range[0]..range[1] {
                let time = edges.times.get(at).copied().unwrap_or(i64::MIN);
                if let Some(first) = first.get_mut(&(list, edges.sources[at])) {
                    *first = Some(first.map_or(time, |first| first.min(time)));
                }
            }
        }
        let late = self.are_late(pairs)?;
        let bad = |(([source, destination], until), late): (&([NodeId; 2], i64), bool)| {
            let first = first.get(&(lists[destination], *source)).copied().flatten();
            let is_edge = first.is_some_and(|first| first <= *until);
            let is_loop = ends.source == ends.destination && source == destination;
            (is_edge && !planted("negative_links_may_be_edges")) || is_loop || late
        };
        Ok(pairs.iter().zip(late).map(bad).collect())
    }

    /// Which pairs have an end that is later than their time.
    fn are_late(&self, pairs: &[([NodeId; 2], i64)]) -> Result<Vec<bool>, SampleError> {
        let mut late = vec![false; pairs.len()];
        let of_nodes =
            self.spec().shape.time.as_ref().is_some_and(|time| time.times != TimesOf::Edges);
        let Some(links) = self.spec().links.as_ref().filter(|_| of_nodes) else { return Ok(late) };
        let ends = self.ends()[usize::from(links.edge_type.0)];
        for (end, node_type) in [ends.source, ends.destination].into_iter().enumerate() {
            let nodes: Vec<NodeId> = pairs.iter().map(|(pair, _)| pair[end]).collect();
            let times = self.times_of(node_type, &nodes)?;
            for ((late, time), (_, until)) in late.iter_mut().zip(times).zip(pairs) {
                *late |= time > *until;
            }
        }
        Ok(late)
    }
}

/// A live node, drawn for an end of a negative link, at an attempt.
fn draw_node(
    key: DrawKey,
    (nodes, live): &(Arc<Inputs>, u64),
    (end, number, attempt): (usize, usize, u32),
) -> Result<NodeId, SampleError> {
    let draws = key.draws(EdgeTypeId(end as u16), number as u64);
    let place = if *live == 0 { None } else { Some(draws.below(attempt, *live)) };
    let found = place.and_then(|place| nodes.nodes(vec![place]).first().copied());
    found.ok_or_else(|| {
        SampleError::Spec(
            "a negative link joins two nodes, and a node type of its ends has none".into(),
        )
    })
}
