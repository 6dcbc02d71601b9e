//! Links as seeds: edges of a type by their numbers, and pairs of nodes that no edge joins.
//!
//! What must not live here: what is sampled around the ends. The invariants: an edge has the same
//! number wherever its list is; a negative link is not an edge at or before its time.

use std::collections::HashMap;
use std::sync::Arc;

use ng_store::Expansion;
use ng_types::canary::planted;
use ng_types::{DrawKey, Draws, EdgeTypeId, NodeId, Purpose, Reservation};

use crate::admission::{Admit, Stage};
use crate::draw::{Around, ByEntry, Rule};
use crate::hops::Wanted;
use crate::{Inputs, LinkSpec, Negatives, SampleError, Sampler, TimesOf};

/// Pairs that are drawn in place of one before it is taken for impossible.
const TRIES_MAX: u32 = 1000;
/// Tries after which ends are drawn among the nodes that a link's time allows alone.
const TRIES_OF_ALL: u32 = 16;

/// Nodes whose times are read together, and memory for each in the order of time.
const DATED_TOGETHER: u64 = 1 << 16;
const BYTES_PER_DATED: u64 = 16;

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
        admit: &Admit<'_>,
    ) -> Result<Links, SampleError> {
        let places = links.places.as_ref().ok_or_else(|| {
            SampleError::Spec(
                "links are given by edge number, but the sampler has no index of edge numbers"
                    .into(),
            )
        })?;
        let (destinations, positions) = places.find(self.snapshot(), numbers, admit)?;
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

    /// Appends the negative ends: sources and destinations of pairs, or destinations alone. Draws
    /// are numbered by the place of the link in the global batch, `first` and on, so that ranks
    /// share its negatives.
    pub(crate) fn add_negatives(
        &self,
        spec: &LinkSpec,
        (key, first): (DrawKey, u64),
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
        let draws = |at: usize, end: usize| {
            let (link, turn) = (first + link_of(at) as u64, (at / positives) as u64);
            draws_of(key, (link, turn), end)
        };
        let mut found: Vec<[NodeId; 2]> = vec![[0; 2]; wanted];
        let mut open: Vec<usize> = (0..wanted).collect();
        let mut dated = None;
        for attempt in 0..TRIES_MAX {
            if attempt == TRIES_OF_ALL {
                dated = self.dated_ends(spec, admit)?;
            }
            for at in &open {
                let draw = |end: usize| match &dated {
                    None => draw_node(draws(*at, end), attempt, &spec.nodes[end]),
                    Some(ends) => ends[end].draw(draws(*at, end), attempt, until(*at)),
                };
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

/// The nodes of a type in the order of their times.
struct DatedNodes {
    nodes: Vec<(i64, NodeId)>,
    _held: Reservation,
}

impl DatedNodes {
    /// A node that is not later than `until`.
    fn draw(&self, draws: Draws, attempt: u32, until: i64) -> Result<NodeId, SampleError> {
        let allowed = self.nodes.partition_point(|(time, _)| *time <= until) as u64;
        if allowed == 0 {
            return Err(SampleError::Spec(format!(
                "there is no node for a negative link at time {until}: all nodes are later"
            )));
        }
        Ok(self.nodes[draws.below(attempt, allowed) as usize].1)
    }
}

impl Sampler {
    /// The nodes of both ends by time; none where nodes have no times that count.
    fn dated_ends(
        &self,
        spec: &LinkSpec,
        admit: &Admit<'_>,
    ) -> Result<Option<[DatedNodes; 2]>, SampleError> {
        let time = self.spec().shape.time.as_ref();
        if time.is_none_or(|time| time.times == TimesOf::Edges) {
            return Ok(None);
        }
        let ends = self.ends()[usize::from(spec.edge_type.0)];
        let dated = |end: usize, node_type: usize| -> Result<DatedNodes, SampleError> {
            let (inputs, live) = &spec.nodes[end];
            let held = admit(Stage::Topology, live.saturating_mul(BYTES_PER_DATED))?;
            let mut nodes = Vec::with_capacity(*live as usize);
            for first in (0..*live).step_by(DATED_TOGETHER as usize) {
                let ids = inputs.nodes((first..(first + DATED_TOGETHER).min(*live)).collect());
                nodes.extend(self.times_of(node_type, &ids)?.into_iter().zip(ids));
            }
            nodes.sort_unstable();
            Ok(DatedNodes { nodes, _held: held })
        };
        Ok(Some([dated(0, ends.source)?, dated(1, ends.destination)?]))
    }
}

/// The draws for an end of a negative link: how often its link has had one before is in the place
/// of an edge type, as far as it fits there, and above the number of the link.
fn draws_of(key: DrawKey, (link, turn): (u64, u64), end: usize) -> Draws {
    const TURNS: u64 = 1 << 15;
    key.draws(EdgeTypeId((turn % TURNS) as u16 * 2 + end as u16), link | (turn / TURNS) << 32)
}

/// A live node, drawn for an end of a negative link, at an attempt.
fn draw_node(
    draws: Draws,
    attempt: u32,
    (nodes, live): &(Arc<Inputs>, u64),
) -> Result<NodeId, SampleError> {
    let place = if *live == 0 { None } else { Some(draws.below(attempt, *live)) };
    let found = place.and_then(|place| nodes.nodes(vec![place]).first().copied());
    found.ok_or_else(|| {
        SampleError::Spec(
            "negative links cannot be drawn: the node type of one end has no nodes".into(),
        )
    })
}
