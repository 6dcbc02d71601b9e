//! The nodes and edges of a batch, in one subgraph or in one for each seed.

use ng_sample::{
    CompactEdges, CompactSample, DisjointSample, DisjointSeeds, SampleScratch, Sampler,
};
use ng_store::Owner;
use ng_types::{NodeId, NodeTypeId};

use crate::ask::Ask;
use crate::rows::Gathering;
use crate::{EngineError, Reach};

/// By node type, each node once, and which of them each node of the sample is.
type Once = (Vec<Vec<NodeId>>, Vec<Vec<u32>>);

/// What was sampled.
pub(crate) struct Sampled {
    pub sample: CompactSample,
    /// Lists that were drawn from.
    pub lists: u64,
    /// By node type, each node once, and which of them each node of the sample is; of subgraphs
    /// that do not share nodes.
    once: Option<Once>,
    /// By node type the subgraph of each node, if there are several.
    subgraphs: Option<Vec<Vec<u32>>>,
}

impl Sampled {
    /// What each of `count` seeds reaches in `hops` hops.
    pub fn reaches(&self, hops: usize, count: usize) -> Vec<Option<Reach>> {
        Reach::of_all(&self.sample, (hops, count), self.subgraphs.as_deref())
    }

    /// The nodes whose rows are read, and which of them each row is, if nodes repeat.
    pub fn once(&self, owner: Owner) -> Option<(&[NodeId], &[u32])> {
        let Owner::Node(id) = owner else { return None };
        let (ids, places) = self.once.as_ref()?;
        let (ids, places) = (ids.get(usize::from(id.0))?, places.get(usize::from(id.0))?);
        (ids.len() < places.len()).then_some((ids, places))
    }
}

/// Samples what a batch is asked for; `gathering` hears of nodes as they are reached.
pub(crate) fn sample(
    sampler: &Sampler,
    ask: &Ask<'_>,
    (scratch, reads_ahead): (&mut SampleScratch, bool),
    gathering: &mut Gathering<'_>,
) -> Result<Sampled, EngineError> {
    let (hops, queue) = (sampler.hops(), gathering.queue());
    let mut hear = |hop: usize, of: NodeTypeId, ids: &[NodeId]| {
        if reads_ahead && hop < hops {
            gathering.hear(of, ids);
        }
    };
    let Some(subgraphs) = ask.subgraphs else {
        let mut sample =
            sampler.sample_hearing(ask.seeds, ask.stream, scratch, &mut hear, &queue)?;
        if let Some((_, graph_of, _)) = ask.graphs {
            sample.edges.iter_mut().for_each(|edges| leave_graphs_out(edges, graph_of));
        }
        let lists = sample.edges.iter().map(|edges| edges.counts.len() as u64).sum();
        return Ok(Sampled { sample, lists, once: None, subgraphs: None });
    };
    let seeds = ask.seeds.iter().zip(subgraphs);
    let seeds: Vec<DisjointSeeds<'_>> = seeds
        .map(|((node_type, ids), subgraphs)| DisjointSeeds {
            node_type: *node_type,
            ids,
            subgraphs,
        })
        .collect();
    let found = sampler.sample_disjoint(&seeds, ask.stream, scratch, &mut hear, &queue)?;
    let DisjointSample { sample, distinct, places, subgraphs, lists } = found;
    Ok(Sampled { sample, lists, once: Some((distinct, places)), subgraphs: Some(subgraphs) })
}

/// Takes out edges between nodes of different graphs: they belong to neither.
fn leave_graphs_out(edges: &mut CompactEdges, graph_of: &[i64]) {
    let graph = |node: usize| graph_of.get(node);
    let mut kept = Vec::with_capacity(edges.rows.len());
    let mut rows = edges.rows.iter();
    for (destination, count) in edges.counts.iter_mut().enumerate() {
        let of_list = rows.by_ref().take(*count as usize);
        let before = kept.len();
        kept.extend(of_list.map(|row| graph(*row as usize) == graph(destination)));
        *count = kept[before..].iter().filter(|is_kept| **is_kept).count() as u32;
    }
    if kept.iter().all(|is_kept| *is_kept) {
        return;
    }
    edges.per_hop = vec![kept.iter().filter(|is_kept| **is_kept).count()];
    edges.keep(&kept);
}
