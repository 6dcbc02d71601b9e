//! Clusters have each live node once, and batches of them the edges of the raw lists between their
//! nodes, whoever takes part and wherever the lists are.

use std::sync::Arc;

use crate::common;
use crate::common::{Graph, PAPERS};
use ng_io::BackendChoice;
use ng_sample::{
    Fanouts, Inputs, Jobs, Method, Pipeline, SampleError, SampleSpec, Sampler, SeedPlan, Way,
};
use ng_store::Store;
use ng_types::NodeTypeId;

const PAPER: NodeTypeId = NodeTypeId(1);

fn sampler(store: &Store, fanouts: [&[i64]; 3]) -> Result<Sampler, SampleError> {
    let fanouts = Fanouts::new(fanouts.map(<[i64]>::to_vec).to_vec()).expect("fanouts");
    let spec = SampleSpec { method: Method::Induced, ..SampleSpec::uniform(fanouts, 0) };
    Sampler::new(store.snapshot(), spec, common::features())
}

#[test]
fn edges_between_nodes_are_those_of_the_raw_lists_in_order_of_destination() {
    let graph = Graph::new(11);
    let dir = tempfile::tempdir().expect("directory");
    graph.build(dir.path(), 4096);
    let store = common::open(dir.path(), 64 << 20, BackendChoice::Auto);
    // Hubs (multiples of 97) among them, and no order.
    let nodes: Vec<u64> = (0..PAPERS).filter(|n| n % 3 == 0).map(|n| n * 7 % 900).collect();
    let mut wanted = Vec::new();
    for (at, node) in (0..).zip(&nodes) {
        for (source, edge_id) in &graph.lists[0][*node as usize] {
            if let Some(number) = nodes.iter().position(|n| n == source) {
                wanted.push((number as i64, at, *edge_id as i64));
            }
        }
    }
    let of_pages = sampler(&store, [&[-1], &[0], &[0]]).expect("sampler").without_held_topologies();
    let in_memory = of_pages.clone().with_topology_that_fits().expect("loads");
    assert!(in_memory.topology_bytes() > 0);
    for sampler in [of_pages, in_memory] {
        let found = sampler.sample(&[(PAPER, &nodes)], 0).expect("batch");
        let edges = &found.edges[0];
        let got = edges.rows.iter().zip(&edges.cols).zip(&edges.edge_ids);
        assert!(got.map(|((s, d), id)| (*s, *d, *id)).eq(wanted.iter().copied()));
        assert_eq!(found.nodes[1].ids, nodes.iter().map(|n| *n as i64).collect::<Vec<_>>());
        assert_eq!(found.num_seeds(), nodes.len());
        let none = sampler.sample(&[(PAPER, &[])], 0).expect("batch");
        assert_eq!((none.edges[0].rows.len(), none.num_bytes()), (0, 0));
        let far = sampler.sample(&[(PAPER, &[1 << 40])], 0).expect_err("refused");
        assert!(matches!(far, SampleError::Read(_)));
    }
}

#[test]
fn what_induces_nothing_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    Graph::new(12).build(dir.path(), 4096);
    let store = common::open(dir.path(), 64 << 20, BackendChoice::Auto);
    let refused = |fanouts| sampler(&store, fanouts).err().expect("refused").to_string();
    assert!(refused([&[0], &[-1], &[0]]).contains("join two node types"));
    assert!(refused([&[5], &[0], &[0]]).contains("got 1 hops and fanout 5"));
    assert!(refused([&[-1, -1], &[0, 0], &[0, 0]]).contains("got 2 hops"));
}

#[test]
fn batches_of_clusters_have_every_node_once_and_ranks_share_them() {
    let dir = tempfile::tempdir().expect("directory");
    Graph::new(13).build(dir.path(), 4096);
    let store = common::open(dir.path(), 64 << 20, BackendChoice::Auto);
    let sampler = sampler(&store, [&[-1], &[0], &[0]]).expect("sampler");
    let inputs = Inputs::clusters(&store.snapshot(), PAPER, 17).expect("clusters");
    let clusters: Vec<Vec<u64>> = (0..17).map(|cluster| inputs.nodes(vec![cluster])).collect();
    assert!(clusters.iter().all(|nodes| [52, 53].contains(&nodes.len())));
    assert!(clusters.concat().into_iter().eq(0..PAPERS));
    let whole = SeedPlan { shuffle: true, seed: 3, ..SeedPlan::in_order(17, 4) };
    let inputs = Arc::new(inputs);
    let jobs = |plan| Jobs::new(Arc::clone(&inputs), plan, (1, 0), false);
    let mut seen = Vec::new();
    for batch in 0..whole.steps() {
        let nodes_of = |plan| jobs(plan).job(batch).nodes().expect("nodes").to_vec();
        let mut nodes = nodes_of(whole);
        assert!(nodes.is_sorted(), "clusters are read in the order of rows");
        seen.extend_from_slice(&nodes);
        let of_rank = |rank| nodes_of(SeedPlan { rank, world_size: 2, ..whole });
        let mut of_ranks =
            if batch < 4 { (0..2).flat_map(of_rank).collect() } else { nodes.clone() };
        of_ranks.sort_unstable();
        nodes.sort_unstable();
        assert_eq!(of_ranks, nodes, "batch {batch}");
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..PAPERS));
    assert_eq!(jobs(SeedPlan { world_size: 2, ..whole }).len(), 4, "ranks leave the last one out");
    let way = Way::Each { prefetch: 2, threads: 2 };
    let made = Pipeline::new(sampler.clone(), jobs(whole), way).expect("starts");
    for (number, made) in (0..).zip(made) {
        let job = jobs(whole).job(number);
        let seeds = job.nodes().expect("nodes");
        assert!(made.expect("batch") == sampler.sample(&[(PAPER, seeds)], 9).expect("batch"));
    }
}
