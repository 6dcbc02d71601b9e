//! Batches that are more than the neighbourhoods of nodes: seeds that are links, subgraphs of their
//! own, times, and edges that were not drawn.
//!
//! What lives here: the order of the steps. What must not: how entries are chosen, where lists are.
//! The invariant: a step sees what the steps before it have made, and nothing else of the batch.

use std::collections::{HashMap, HashSet};

use ng_types::canary::planted;
use ng_types::{DrawKey, EdgeTypeId, NodeId, NodeTypeId};

use crate::admission::{Admit, Growing, Stage};
use crate::clock::Work;
use crate::compact::{CompactEdges, CompactSample, Extras};
use crate::draw::BatchKey;
use crate::edge_sets::both_ways;
use crate::hops::Asked;
use crate::links::Links;
use crate::spread::Visited;
use crate::{
    DisjointSeeds, EdgeSet, Fanouts, Job, Method, MiniBatch, SampleError, SampleScratch,
    SampleSpec, Sampler, Seeds, Shape, Spread, TimesOf,
};

/// Memory for a seed while a batch is begun: its id, its time, and maps of both.
const BYTES_PER_SEED: u64 = 128;

/// What a batch begins with.
#[derive(Default)]
struct Start {
    /// Nodes by type; a type at most once.
    groups: Vec<Group>,
    /// Local numbers of what the seeds were given as.
    targets: Vec<u32>,
    /// The times of seeds, as they are told.
    times: Vec<i64>,
}

/// The first nodes of a type.
struct Group {
    node_type: NodeTypeId,
    ids: Vec<NodeId>,
    /// The number of the subgraph that the batch reports for each of them.
    labels: Vec<u32>,
    /// Up to when each reaches; empty unless sampling looks at times.
    times: Vec<i64>,
}

impl Start {
    /// Nodes that are seeds themselves.
    fn of_nodes(node_type: NodeTypeId, ids: &[NodeId], times: Vec<i64>) -> Self {
        let labels = (0..ids.len() as u32).collect();
        let group = Group { node_type, ids: ids.to_vec(), labels, times: times.clone() };
        Self { groups: vec![group], targets: Vec::new(), times }
    }

    /// The ends of `positives` links and of the others behind them: sources, then destinations.
    fn of_links(ends: [NodeTypeId; 2], links: Links, positives: usize, is_disjoint: bool) -> Self {
        let Links { sources, destinations, times } = links;
        let mut start = Self { times, ..Self::default() };
        for (node_type, ids) in ends.into_iter().zip([sources, destinations]) {
            start.add_ends(node_type, ids, positives, is_disjoint);
        }
        start
    }

    fn add_ends(&mut self, node_type: NodeTypeId, ids: Vec<NodeId>, positives: usize, all: bool) {
        let known = self.groups.iter().position(|group| group.node_type == node_type);
        let at = known.unwrap_or(self.groups.len());
        if known.is_none() {
            let (labels, times) = (Vec::new(), Vec::new());
            self.groups.push(Group { node_type, ids: Vec::new(), labels, times });
        }
        let group = &mut self.groups[at];
        let mut numbers: HashMap<NodeId, u32> =
            if all { HashMap::new() } else { group.ids.iter().copied().zip(0..).collect() };
        for (link, id) in ids.into_iter().enumerate() {
            let next = group.ids.len() as u32;
            let number = if all { next } else { *numbers.entry(id).or_insert(next) };
            self.targets.push(number);
            if number == next {
                group.ids.push(id);
                group.labels.push((link % positives) as u32);
                group.times.extend(self.times.get(link));
            }
        }
    }
}

impl Sampler {
    /// Makes the batch of a job, with rows.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn make(&self, job: &Job) -> Result<MiniBatch, SampleError> {
        let admit =
            |_: Stage, bytes: u64| self.snapshot().reserve(bytes).map_err(SampleError::from);
        self.make_admitted(job, &admit)
    }

    /// Makes the subgraph of a job in the fewest bytes.
    pub(crate) fn sample_job(
        &self,
        job: &Job,
        scratch: &mut SampleScratch,
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        if let (Seeds::Nodes { node_type, ids, .. }, true) = (&job.seeds, self.spec().is_plain()) {
            let seeds = [(*node_type, ids.as_slice())];
            return self.sample_compact_admitted(&seeds, job.stream, scratch, admit);
        }
        self.clock().time(Work::Sample, admit, |admit| {
            self.with_lists_at_hand(|sampler| sampler.sample_shaped(job, scratch, admit))
        })
    }

    fn sample_shaped(
        &self,
        job: &Job,
        scratch: &mut SampleScratch,
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        let key = BatchKey::new(self.spec().seed, job.stream);
        let mut held = Growing::default();
        held.grow(self.first_nodes(job).saturating_mul(BYTES_PER_SEED), admit)?;
        let start = self.start(job, key, admit)?;
        let shape = &self.spec().shape;
        let mut sample = match (&shape.spread, shape.is_disjoint) {
            (Spread::Hops, true) => self.spread_apart(&start, key, scratch, admit)?,
            (Spread::Hops, false) => {
                let groups = start.groups.iter();
                let seeds: Vec<_> =
                    groups.map(|group| (group.node_type, group.ids.as_slice())).collect();
                self.spread((&seeds, job.stream), scratch, None, admit)?
            }
            (spread, _) => self.collect(spread, &start, (key.draws(), job.first), admit)?,
        };
        match &shape.edges {
            EdgeSet::Drawn => {}
            EdgeSet::BothWays(others) => {
                let more = admit(Stage::Topology, sample.num_bytes())?;
                // A copy of the edges, and both directions in the order of their ends.
                let _passing = admit(Stage::Topology, 3 * sample.num_bytes())?;
                both_ways(&mut sample, others, self.snapshot().catalog());
                sample._held.merge(more);
            }
            EdgeSet::Induced(_) => sample = self.induce(sample, scratch, admit)?,
        }
        sample.extras.targets = start.targets;
        sample.extras.times = start.times;
        let extras = admit(Stage::Topology, sample.extras.num_bytes())?;
        sample._held.merge(extras);
        // Look-ahead counts on what a sample takes, not on what it took.
        sample.settle();
        Ok(sample)
    }

    /// How many nodes a batch begins with, at most.
    fn first_nodes(&self, job: &Job) -> u64 {
        match (&job.seeds, &self.spec().roots, &self.spec().links) {
            // Both ends of each, where edges are drawn.
            (Seeds::Drawn, Some(roots), _) => roots.count.saturating_mul(2),
            (Seeds::Links { .. } | Seeds::Edges { .. }, _, Some(links)) => {
                let count = job.num_seeds();
                (count.saturating_add(links.num_negatives(count)) as u64).saturating_mul(2)
            }
            _ => job.num_seeds() as u64,
        }
    }

    /// The nodes that a batch has otherwise than by hops.
    fn collect(
        &self,
        spread: &Spread,
        start: &Start,
        (key, first): (DrawKey, u64),
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        let [Group { node_type, ids, .. }] = start.groups.as_slice() else {
            return Err(SampleError::Spec(
                "batches of walks, or with sampling budgets (HGT), need seeds of one node type"
                    .into(),
            ));
        };
        let (seeds, mut extras) = ((*node_type, ids.as_slice()), Extras::default());
        let collected = match spread {
            Spread::Hops => unreachable!("hops are made elsewhere"),
            Spread::Walks(walks) => self.collect_walks(walks, seeds, key, admit)?,
            Spread::Budgets(budgets) => self.collect_budgets(budgets, seeds, key, admit)?,
            Spread::Visits(visits) => {
                let Visited { collected, edges } =
                    self.collect_visits(visits, seeds, (key, first), admit)?;
                extras.visits = edges;
                collected
            }
        };
        let catalog = self.snapshot().catalog();
        let _held = admit(Stage::Topology, collected.num_bytes() + extras.num_bytes())?;
        let nodes = collected.into_nodes(catalog);
        let edges = vec![CompactEdges::default(); catalog.edge_types.len()];
        Ok(CompactSample { nodes, edges, extras, _held })
    }

    /// The nodes that a batch begins with.
    fn start(&self, job: &Job, key: BatchKey, admit: &Admit<'_>) -> Result<Start, SampleError> {
        let mut links = match &job.seeds {
            Seeds::Nodes { node_type, ids, times } => {
                let times = self.times_of_seeds(*node_type, ids, times)?;
                return Ok(Start::of_nodes(*node_type, ids, times));
            }
            Seeds::Drawn => {
                let what = "seeds are to be drawn, but the specification does not say how";
                let roots = self.spec().roots.as_ref();
                let roots = roots.ok_or_else(|| SampleError::Spec(what.into()))?;
                let mut ids = self.draw_roots(roots, key.draws(), admit)?;
                if self.spec().shape.spread == Spread::Hops {
                    let mut seen = HashSet::new();
                    ids.retain(|id| seen.insert(*id));
                }
                return Ok(Start::of_nodes(roots.node_type(), &ids, Vec::new()));
            }
            Seeds::Links { sources, destinations, times } => Links {
                sources: sources.clone(),
                destinations: destinations.clone(),
                times: times.clone(),
            },
            Seeds::Edges { numbers, times } => {
                self.edges_numbered(self.link_spec()?, numbers, times.clone(), admit)?
            }
        };
        let spec = self.link_spec()?;
        if self.spec().shape.time.is_some() && links.times.len() != links.sources.len() {
            return Err(SampleError::Spec(
                "temporal sampling of links needs a time for each link".into(),
            ));
        }
        let ends = self.ends()[usize::from(spec.edge_type.0)];
        let ends = [ends.source, ends.destination].map(|id| NodeTypeId(id as u16));
        self.snapshot().check_nodes(ends[0], &links.sources)?;
        self.snapshot().check_nodes(ends[1], &links.destinations)?;
        let positives = links.sources.len();
        self.add_negatives(spec, (key.draws(), job.first), &mut links, admit)?;
        Ok(Start::of_links(ends, links, positives.max(1), self.spec().shape.is_disjoint))
    }

    fn link_spec(&self) -> Result<&crate::LinkSpec, SampleError> {
        let what = "seeds are links, but the specification has no edge type for them";
        self.spec().links.as_ref().ok_or_else(|| SampleError::Spec(what.into()))
    }

    /// Up to when seeds reach: what was given for them, else the times of the nodes.
    fn times_of_seeds(
        &self,
        node_type: NodeTypeId,
        ids: &[NodeId],
        given: &[i64],
    ) -> Result<Vec<i64>, SampleError> {
        let Some(temporal) = &self.spec().shape.time else { return Ok(Vec::new()) };
        if given.len() == ids.len() {
            return Ok(given.to_vec());
        }
        let node_type = usize::from(node_type.0);
        if temporal.of_nodes(node_type).is_none() {
            let name = &self.snapshot().catalog().node_types[node_type].name;
            return Err(SampleError::Spec(format!(
                "node type {name:?} has no times; give a time for each seed"
            )));
        }
        self.times_of(node_type, ids)
    }

    /// Hops from seeds with subgraphs of their own.
    fn spread_apart(
        &self,
        start: &Start,
        key: BatchKey,
        scratch: &mut SampleScratch,
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        let (mut untils, mut labels, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for group in &start.groups {
            let first = labels.len() as u32;
            numbers.push((first..first + group.ids.len() as u32).collect::<Vec<u32>>());
            labels.extend_from_slice(&group.labels);
            untils.extend_from_slice(&group.times);
        }
        let groups = start.groups.iter().zip(&numbers);
        let seeds: Vec<DisjointSeeds<'_>> = groups
            .map(|(group, subgraphs)| DisjointSeeds {
                node_type: group.node_type,
                ids: &group.ids,
                subgraphs,
            })
            .collect();
        let asked = Asked { seeds: &seeds, key, untils: &untils, rows: None };
        let found = self.disjoint_hops(asked, &mut scratch.disjoint, &mut |_, _, _| {}, admit)?;
        let mut sample = found.sample;
        let label = |number: &u32| labels[*number as usize];
        let of_type = |numbers: Vec<u32>| numbers.iter().map(label).collect();
        if self.spec().shape.edges == EdgeSet::Drawn
            || matches!(self.spec().shape.edges, EdgeSet::BothWays(_))
        {
            sample.extras.subgraphs = found.subgraphs.into_iter().map(of_type).collect();
            return Ok(sample);
        }
        // Edges are induced inside each subgraph, which labels may not tell apart.
        let mut induced = self.induce_apart(sample, &found.subgraphs, scratch, admit)?;
        self.keep_past(&mut induced, &found.subgraphs, &untils);
        induced.extras.subgraphs = found.subgraphs.into_iter().map(of_type).collect();
        Ok(induced)
    }

    /// The same nodes with all edges between them.
    fn induce(
        &self,
        sample: CompactSample,
        scratch: &mut SampleScratch,
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        if self.spec().shape.is_disjoint {
            return Ok(sample);
        }
        let ids: Vec<Vec<NodeId>> =
            sample.nodes.iter().map(|nodes| nodes.ids.iter().collect()).collect();
        let groups = (0..).map(NodeTypeId).zip(&ids);
        let seeds: Vec<_> = groups.map(|(id, ids)| (id, ids.as_slice())).collect();
        let induced = self.inducing()?.spread((&seeds, 0), scratch, None, admit)?;
        Ok(with_nodes_of(induced, sample))
    }

    /// The same inside each of the subgraphs.
    fn induce_apart(
        &self,
        sample: CompactSample,
        subgraphs: &[Vec<u32>],
        scratch: &mut SampleScratch,
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        let ids: Vec<Vec<NodeId>> =
            sample.nodes.iter().map(|nodes| nodes.ids.iter().collect()).collect();
        let groups = (0..).map(NodeTypeId).zip(ids.iter().zip(subgraphs));
        let seeds: Vec<DisjointSeeds<'_>> = groups
            .map(|(node_type, (ids, subgraphs))| DisjointSeeds { node_type, ids, subgraphs })
            .collect();
        let (key, untils) = (BatchKey::new(0, 0), &[][..]);
        let asked = Asked { seeds: &seeds, key, untils, rows: None };
        let sampler = self.inducing()?;
        let found =
            sampler.disjoint_hops(asked, &mut scratch.disjoint, &mut |_, _, _| {}, admit)?;
        Ok(with_nodes_of(found.sample, sample))
    }

    /// Takes out the edges that are later than the subgraph of their destination reaches.
    fn keep_past(&self, sample: &mut CompactSample, subgraphs: &[Vec<u32>], untils: &[i64]) {
        let time = self.spec().shape.time.as_ref();
        if time.is_none_or(|time| time.times != TimesOf::Edges) || planted("the_future_is_induced")
        {
            return;
        }
        for (edges, ends) in sample.edges.iter_mut().zip(self.ends()) {
            if edges.times.is_empty() {
                continue;
            }
            let mut kept = Vec::with_capacity(edges.times.len());
            for (count, subgraph) in edges.counts.iter_mut().zip(&subgraphs[ends.destination]) {
                let (start, until) = (kept.len(), untils[*subgraph as usize]);
                let list = &edges.times[start..start + *count as usize];
                kept.extend(list.iter().map(|time| *time <= until));
                *count = kept[start..].iter().filter(|kept| **kept).count() as u32;
            }
            edges.keep(&kept);
            edges.per_hop = vec![edges.rows.len()];
        }
    }

    /// The sampler of all edges between its seeds.
    fn inducing(&self) -> Result<Self, SampleError> {
        let marked = (0..self.ends().len() as u16).map(EdgeTypeId);
        let fanouts = marked.map(|id| vec![if self.spec().shape.induces(id) { -1 } else { 0 }]);
        let fanouts = Fanouts::new(fanouts.collect())?;
        let is_disjoint = self.spec().shape.is_disjoint;
        let shape = Shape { is_disjoint, ..Shape::default() };
        Ok(self.with_spec(SampleSpec {
            shape,
            ..SampleSpec::new(fanouts, Method::Induced, self.spec().seed)
        }))
    }
}

/// The edges of one sample with the nodes of another, which are the same ones.
fn with_nodes_of(edges: CompactSample, nodes: CompactSample) -> CompactSample {
    debug_assert!(edges.nodes.iter().zip(&nodes.nodes).all(|(a, b)| a.ids == b.ids));
    let mut held = edges._held;
    held.merge(nodes._held);
    CompactSample { nodes: nodes.nodes, edges: edges.edges, extras: nodes.extras, _held: held }
}
