//! A topology in memory gives the batches that pages give, byte for byte.

use std::sync::Arc;

use crate::common::{EDGE_TYPES, Graph, Numbers, PAPERS, build_every_kind, features, open};
use ng_io::BackendChoice;
use ng_sample::{
    CompactSample, EdgeBlock, Fanouts, Ids, Method, MiniBatch, NodeBlock, SampleError,
    SampleScratch, SampleSpec, Sampler,
};
use ng_store::{ResidentTopology, Snapshot, Store};
use ng_types::{EdgeTypeId, NodeTypeId};

type Loaded = Vec<Option<Arc<ResidentTopology>>>;

/// Topologies of the edge types for which `chosen` says so.
fn load(snapshot: &Snapshot, chosen: impl Fn(usize) -> bool) -> Loaded {
    let types = 0..snapshot.catalog().edge_types.len();
    types
        .map(|e| chosen(e).then(|| snapshot.load_topology(EdgeTypeId(e as u16)).expect("loads")))
        .collect()
}

/// Batches from pages, from memory, from both, and from compact samples, must be equal.
fn compare(
    (store, loaded): (&Store, &Loaded),
    spec: &SampleSpec,
    seeds: &[(NodeTypeId, &[u64])],
    stream: u64,
) {
    let paged = Sampler::new(store.snapshot(), spec.clone(), Vec::new())
        .expect("sampler")
        .without_held_topologies();
    let expected = paged.sample(seeds, stream).expect("from pages");
    let mut scratch = SampleScratch::default();
    for chosen in [0b11_1111, 0b01_0101, 0b10_1010, 0] {
        let is_chosen = |at: usize| chosen >> at & 1 == 1;
        let some = (0..6).map(|at| loaded[at].clone().filter(|_| is_chosen(at))).collect();
        let sampler = paged.clone().with_resident(some).expect("fits");
        let found = sampler.sample(seeds, stream).expect("from memory");
        assert!(found == expected, "{spec:?}, stream {stream}");
        // Twice: the second works in memory that has been used.
        for _ in 0..2 {
            let sample = sampler.sample_compact(seeds, stream, &mut scratch).expect("compact");
            assert_eq!(sample.batch_bytes(), expected.num_bytes());
            assert_ids(&expected, |node_type| sample.node_ids(node_type).clone());
            let (nodes, edges) = widened(&sample);
            let is_same = nodes == expected.nodes && edges == expected.edges;
            assert!(is_same && expected.columns.is_empty(), "{spec:?}, stream {stream}, compact");
        }
    }
}

/// The arrays of a compact sample as a batch has them.
fn widened(sample: &CompactSample) -> (Vec<NodeBlock>, Vec<EdgeBlock>) {
    let wide = |ids: &Ids| ids.iter().map(|id| id as i64).collect();
    let nodes = sample.nodes.iter();
    let nodes = nodes.map(|n| NodeBlock { ids: wide(&n.ids), per_hop: n.per_hop.clone() });
    let edges = sample.edges.iter().map(|edges| EdgeBlock {
        rows: edges.rows.iter().map(|row| i64::from(*row)).collect(),
        cols: (0..).zip(&edges.counts).flat_map(|(col, n)| vec![col; *n as usize]).collect(),
        edge_ids: wide(&edges.edge_ids),
        times: edges.times.clone(),
        weights: edges.weights.clone(),
        per_hop: edges.per_hop.clone(),
    });
    (nodes.collect(), edges.collect())
}

fn assert_ids(expected: &MiniBatch, ids: impl Fn(NodeTypeId) -> Ids) {
    for (node_type, block) in expected.nodes.iter().enumerate() {
        let ids: Vec<i64> = ids(NodeTypeId(node_type as u16)).iter().map(|id| id as i64).collect();
        assert_eq!(ids, block.ids);
    }
}

#[test]
fn batches_from_memory_equal_batches_from_pages() {
    // With 2^33 nodes of the last type, ids of a sample are 8 bytes and sources take 5.
    for nodes in [[700, 300, 5000], [700, 300, 1 << 33]] {
        let dir = tempfile::tempdir().expect("temporary directory");
        build_every_kind(dir.path(), nodes);
        let store = open(dir.path(), 256 << 20, BackendChoice::Pread);
        let snapshot = store.snapshot();
        let loaded = load(&snapshot, |_| true);
        let store = (&store, &loaded);
        let mut numbers = Numbers(17, 0);
        let same = |hops: &[i64]| vec![hops.to_vec(); 6];
        let mixed = vec![vec![3, 0], vec![0, 4], vec![-1, 2], vec![2, -1], vec![0, 0], vec![60, 1]];
        for (fanouts, replace) in [
            (same(&[15, 10]), false),
            (same(&[5, 5, 2]), true),
            (same(&[-1]), false),
            (same(&[64, 3]), false),
            (same(&[300]), true),
            (same(&[]), false),
            (mixed.clone(), false),
            (mixed, true),
        ] {
            let fanouts = Fanouts::new(fanouts).expect("fanouts");
            let method = Method::Uniform { replace };
            let spec = SampleSpec { method, ..SampleSpec::uniform(fanouts, 31) };
            for stream in 0..2 {
                let zero: Vec<u64> = (0..20).map(|_| numbers.next(nodes[0])).collect();
                let one: Vec<u64> = [0, 5, 0, 7, 5].into_iter().chain(10..20).collect();
                compare(store, &spec, &[(NodeTypeId(0), &zero)], stream);
                compare(store, &spec, &[(NodeTypeId(1), &one), (NodeTypeId(0), &zero)], stream);
                compare(store, &spec, &[(NodeTypeId(2), &[nodes[2] - 1])], stream);
                compare(store, &spec, &[], stream);
            }
        }
    }
}

#[test]
fn columns_are_gathered_for_batches_from_memory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Graph::new(6).build(dir.path(), 4096);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let snapshot = store.snapshot();
    let fanouts = Fanouts::uniform(&[6, 4], EDGE_TYPES.len()).expect("fanouts");
    let spec = SampleSpec::uniform(fanouts, 2);
    let paged = Sampler::new(Arc::clone(&snapshot), spec, features())
        .expect("sampler")
        .without_held_topologies();
    let resident = paged.clone().with_resident(load(&snapshot, |_| true)).expect("fits");
    for stream in 0..5 {
        let seeds: Vec<u64> = (0..40).map(|i| (i * 31 + stream * 7) % PAPERS).collect();
        let seeds = [(NodeTypeId(1), seeds.as_slice())];
        let expected = paged.sample(&seeds, stream).expect("from pages");
        assert!(resident.sample(&seeds, stream).expect("from memory") == expected);
    }
}

#[test]
fn what_sampling_holds_is_counted_and_given_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build_every_kind(dir.path(), [700, 300, 5000]);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let snapshot = store.snapshot();
    let fanouts = Fanouts::uniform(&[15, 10], 6).expect("fanouts");
    let spec = SampleSpec::uniform(fanouts, 2);
    let sampler = Sampler::new(Arc::clone(&snapshot), spec, Vec::new())
        .expect("sampler")
        .without_held_topologies();
    let sampler = sampler.with_resident(load(&snapshot, |_| true)).expect("fits");
    let cached = |store: &Store| store.stats().block_cache_bytes + store.stats().row_cache_bytes;
    let before = store.budget().used_bytes() - cached(&store);
    let mut scratch = SampleScratch::default();
    let seeds: Vec<u64> = (0..50).collect();
    let samples: Vec<_> = (0..4)
        .map(|stream| sampler.sample_compact(&[(NodeTypeId(0), &seeds)], stream, &mut scratch))
        .map(|sample| sample.expect("sample"))
        .collect();
    let held: u64 = samples.iter().map(|sample| sample.num_bytes()).sum();
    let of_batches: u64 = samples.iter().map(|sample| sample.batch_bytes()).sum();
    assert!(held * 2 < of_batches, "{held} bytes stand for {of_batches}");
    assert!(scratch.num_bytes() > 0);
    assert_eq!(store.budget().used_bytes() - cached(&store), before + held + scratch.num_bytes());
    drop((samples, scratch));
    assert_eq!(store.budget().used_bytes() - cached(&store), before);
}

#[test]
fn a_topology_of_another_type_or_version_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build_every_kind(dir.path(), [70, 30, 500]);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let snapshot = store.snapshot();
    let spec = SampleSpec::uniform(Fanouts::uniform(&[2], 6).expect("fanouts"), 2);
    let sampler = |snapshot: &Arc<Snapshot>| {
        Sampler::new(Arc::clone(snapshot), spec.clone(), Vec::new())
            .expect("sampler")
            .without_held_topologies()
    };
    let mut turned = load(&snapshot, |_| true);
    turned.rotate_left(1);
    let is_spec = |result: Result<Sampler, SampleError>| {
        let error = result.err().map(|error| error.to_string()).unwrap_or_default();
        error.contains("edge type")
    };
    assert!(is_spec(sampler(&snapshot).with_resident(turned)));
    assert!(is_spec(sampler(&snapshot).with_resident(vec![None; 5])));
    let old = load(&snapshot, |e| e == 0);
    let mut batch = store.write().expect("writes");
    batch.add_node(NodeTypeId(0)).expect("adds");
    batch.commit().expect("commits");
    assert!(is_spec(sampler(&store.snapshot()).with_resident(old.clone())));
    assert!(sampler(&snapshot).with_resident(old).is_ok());
}
