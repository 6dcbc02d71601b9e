//! Subgraphs that are sampled together are those of each seed alone, node by node and edge by edge,
//! and what several of them reach is heard of once.

#![allow(clippy::expect_used)]

use crate::common::{Numbers, build_every_kind, open};
use ng_io::BackendChoice;
use ng_sample::{
    CompactSample, DisjointSample, DisjointSeeds, Fanouts, Method, SampleError, SampleScratch,
    SampleSpec, Sampler,
};
use ng_store::RowQueue;
use ng_types::NodeTypeId;

/// An edge: local numbers or ids of both ends, id, time, weight.
type Edge = (usize, usize, Option<u64>, Option<i64>, Option<u32>);

/// Nodes by type with the hop of each, and edges by type between ids, in any order but that of the
/// edges of one destination.
#[derive(Default, PartialEq)]
struct Plain {
    nodes: Vec<Vec<(u64, usize)>>,
    edges: Vec<Vec<Edge>>,
}

impl Plain {
    fn of(mut nodes: Vec<Vec<(u64, usize)>>, mut edges: Vec<Vec<Edge>>, ends: &[Ends]) -> Self {
        for (edges, (from, to)) in edges.iter_mut().zip(ends) {
            for edge in edges.iter_mut() {
                edge.0 = nodes[*from][edge.0].0 as usize;
                edge.1 = nodes[*to][edge.1].0 as usize;
            }
            edges.sort_by_key(|edge| edge.1);
        }
        nodes.iter_mut().for_each(|nodes| nodes.sort_unstable());
        Self { nodes, edges }
    }
}

/// The node types of an edge type.
type Ends = (usize, usize);

fn nodes_of(sample: &CompactSample) -> Vec<Vec<(u64, usize)>> {
    let of_type = |nodes: &ng_sample::CompactNodes| {
        let hops = nodes.per_hop.iter().enumerate();
        let hops = hops.flat_map(|(hop, count)| std::iter::repeat_n(hop, *count));
        nodes.ids.iter().zip(hops).collect()
    };
    sample.nodes.iter().map(of_type).collect()
}

fn edges_of(sample: &CompactSample) -> Vec<Vec<Edge>> {
    let of_type = |edges: &ng_sample::CompactEdges| {
        let ends = edges.counts.iter().enumerate();
        let ends = ends.flat_map(|(to, count)| std::iter::repeat_n(to, *count as usize));
        let edge = |(at, (to, row)): (usize, (usize, &u32))| {
            let weight = edges.weights.get(at).map(|weight| weight.to_bits());
            (*row as usize, to, edges.edge_ids.get(at), edges.times.get(at).copied(), weight)
        };
        ends.zip(&edges.rows).enumerate().map(edge).collect()
    };
    sample.edges.iter().map(of_type).collect()
}

/// The subgraphs apart.
fn apart(
    found: &DisjointSample,
    ends: &[Ends],
    seeds: &[(usize, Vec<u64>, Vec<u32>)],
    count: usize,
) -> Vec<Plain> {
    let (nodes, edges) = (nodes_of(&found.sample), edges_of(&found.sample));
    let mut of: Vec<Vec<Option<usize>>> = nodes.iter().map(|all| vec![None; all.len()]).collect();
    for (node_type, _, subgraphs) in seeds {
        for (of, subgraph) in of[*node_type].iter_mut().zip(subgraphs) {
            *of = Some(*subgraph as usize);
        }
    }
    // Edges of a hop come before those of the next one, type by type.
    for _ in 0..4 {
        for (edges, (from, to)) in edges.iter().zip(ends) {
            for (source, destination, ..) in edges {
                let subgraph = of[*to][*destination];
                let known = &mut of[*from][*source];
                assert!(known.is_none() || subgraph.is_none() || *known == subgraph, "they meet");
                *known = known.or(subgraph);
            }
        }
    }
    let empty = || (vec![Vec::new(); nodes.len()], vec![Vec::new(); ends.len()]);
    let mut all: Vec<(Vec<_>, Vec<_>)> = (0..count).map(|_| empty()).collect();
    let mut local: Vec<Vec<usize>> = nodes.iter().map(|all| vec![0; all.len()]).collect();
    for (node_type, nodes) in nodes.iter().enumerate() {
        for (at, node) in nodes.iter().enumerate() {
            let mine = &mut all[of[node_type][at].expect("reached")].0[node_type];
            local[node_type][at] = mine.len();
            mine.push(*node);
        }
    }
    for (edge_type, (edges, (from, to))) in edges.iter().zip(ends).enumerate() {
        for (source, destination, id, time, weight) in edges {
            let subgraph = of[*to][*destination].expect("reached");
            let (source, destination) = (local[*from][*source], local[*to][*destination]);
            let edge = (source, destination, *id, *time, *weight);
            all[subgraph].1[edge_type].push(edge);
        }
    }
    all.into_iter().map(|(nodes, edges)| Plain::of(nodes, edges, ends)).collect()
}

/// Nodes of two types in subgraphs, with up to two of each type.
fn random_seeds(numbers: &mut Numbers, count: u32) -> [(usize, Vec<u64>, Vec<u32>); 2] {
    let mut seeds = [(0, Vec::new(), Vec::new()), (1, Vec::new(), Vec::new())];
    for subgraph in 0..count {
        for (node_type, ids, subgraphs) in &mut seeds {
            let bound = [300, 200][*node_type];
            let mut mine: Vec<u64> = (0..numbers.next(3)).map(|_| numbers.next(bound)).collect();
            mine.dedup();
            subgraphs.extend(std::iter::repeat_n(subgraph, mine.len()));
            ids.extend(mine);
        }
    }
    seeds
}

#[test]
fn each_subgraph_is_that_of_its_seeds_alone() {
    let dir = tempfile::tempdir().expect("directory");
    for (turn, wide) in [700, (1 << 32) + 700].into_iter().enumerate() {
        let dir = dir.path().join(turn.to_string());
        std::fs::create_dir(&dir).expect("folder");
        build_every_kind(&dir, [300, 200, wide]);
        let store = open(&dir, 64 << 20, BackendChoice::Pread);
        let snapshot = store.snapshot();
        let catalog = snapshot.catalog();
        let ends: Vec<Ends> = (catalog.edge_types.iter())
            .map(|meta| (usize::from(meta.source.0), usize::from(meta.destination.0)))
            .collect();
        let lists = [vec![5, 3, 2], vec![0, 4, 1], vec![2, 2, 2], vec![3, 3, 0], vec![4, 2, 1]];
        let fanouts = Fanouts::new([&lists[..], &[vec![1, -1, 1]]].concat()).expect("fanouts");
        let spec = SampleSpec::uniform(fanouts, 3);
        let cold = Sampler::new(snapshot.clone(), spec, Vec::new()).expect("sampler");
        let cold = cold.without_held_topologies();
        let warm = cold.clone().with_topology_within(u64::MAX).expect("lists in memory");
        let mut numbers = Numbers(5 + turn as u32, 0);
        let mut scratch = SampleScratch::default();
        for (sampler, count) in [&cold, &warm].into_iter().flat_map(|s| [(s, 1), (s, 40)]) {
            let seeds = random_seeds(&mut numbers, count as u32);
            let given = seeds.each_ref().map(|(node_type, ids, subgraphs)| DisjointSeeds {
                node_type: NodeTypeId(*node_type as u16),
                ids,
                subgraphs,
            });
            let mut heard = vec![Vec::new(); 3];
            let mut hear = |_: usize, of: NodeTypeId, ids: &[u64]| {
                heard[usize::from(of.0)].extend_from_slice(ids);
            };
            let rows = RowQueue::new(&snapshot);
            let found = sampler.sample_disjoint(&given, 9, &mut scratch, &mut hear, &rows);
            let found = found.expect("sample");
            assert_eq!(heard, found.distinct, "each node is heard of once");
            let (mut lists, mut alone) = (0, Vec::new());
            for subgraph in 0..count as u32 {
                let mine = seeds.each_ref().map(|(node_type, ids, subgraphs)| {
                    let of = ids.iter().zip(subgraphs).filter(|(_, of)| **of == subgraph);
                    (NodeTypeId(*node_type as u16), of.map(|(id, _)| *id).collect::<Vec<u64>>())
                });
                let mine = mine.each_ref().map(|(of, ids)| (*of, ids.as_slice()));
                let sample = sampler.sample_compact(&mine, 9, &mut scratch).expect("sample");
                lists += sample.edges.iter().map(|edges| edges.counts.len() as u64).sum::<u64>();
                alone.push(Plain::of(nodes_of(&sample), edges_of(&sample), &ends));
            }
            let found_apart = apart(&found, &ends, &seeds, count);
            assert_eq!(found_apart.len(), alone.len());
            for (at, (found, alone)) in found_apart.iter().zip(&alone).enumerate() {
                assert!(found.nodes == alone.nodes, "{turn}: nodes of subgraph {at} of {count}");
                assert!(found.edges == alone.edges, "{turn}: edges of subgraph {at} of {count}");
            }
            let all: usize = found.places.iter().map(Vec::len).sum();
            let distinct: usize = found.distinct.iter().map(Vec::len).sum();
            assert!(count == 1 || distinct * 2 < all, "{distinct} of {all} nodes");
            assert!(found.lists <= lists, "{} of {lists} lists", found.lists);
            for ((nodes, distinct), places) in
                found.sample.nodes.iter().zip(&found.distinct).zip(&found.places)
            {
                let named: Vec<u64> = places.iter().map(|at| distinct[*at as usize]).collect();
                assert_eq!(named, nodes.ids.iter().collect::<Vec<_>>());
            }
        }
        let used = store.budget().used_bytes();
        drop(scratch);
        assert!(store.budget().used_bytes() < used, "the memory was of the budget");
    }
}

#[test]
fn what_cannot_be_sampled_together_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    build_every_kind(dir.path(), [60, 40, 50]);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let fanouts = Fanouts::uniform(&[2], 6).expect("fanouts");
    let sample = |method: Method, ids: &[u64], subgraphs: &[u32]| {
        let spec = SampleSpec { method, ..SampleSpec::uniform(fanouts.clone(), 0) };
        let sampler = Sampler::new(store.snapshot(), spec, Vec::new()).expect("sampler");
        let seeds = [DisjointSeeds { node_type: NodeTypeId(0), ids, subgraphs }];
        let rows = RowQueue::new(&store.snapshot());
        let mut scratch = SampleScratch::default();
        sampler.sample_disjoint(&seeds, 0, &mut scratch, &mut |_, _, _| (), &rows).map(drop)
    };
    let uniform = Method::Uniform { replace: false };
    assert!(sample(uniform, &[11], &[(1 << 24) - 1]).is_ok());
    for (method, ids, subgraphs) in
        [(uniform, vec![11], vec![1 << 24]), (uniform, vec![11, 12], vec![0])]
    {
        let refused = sample(method, &ids, &subgraphs);
        assert!(matches!(refused, Err(SampleError::Spec(_))), "{method:?} {refused:?}");
    }
    assert!(matches!(sample(uniform, &[60], &[0]), Err(SampleError::Read(_))));
}
