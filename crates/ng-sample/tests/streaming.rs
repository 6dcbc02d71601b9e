//! The streaming engine gives the batches that hops with barriers give, byte for byte.

use crate::common;
use crate::common::{Graph, Numbers, PAPERS, build_every_kind, features, open};
use ng_io::BackendChoice;
use ng_sample::{Engine, Fanouts, Method, SampleSpec, Sampler, StreamingStats};
use ng_store::{Store, StoreStats};
use ng_types::{MemoryUser, NodeTypeId};

/// A sampler of each engine.
fn samplers(store: &Store, fanouts: &Fanouts, replace: bool) -> [Sampler; 2] {
    let method = Method::Uniform { replace };
    let spec = SampleSpec { method, ..SampleSpec::uniform(fanouts.clone(), 40) };
    let sampler = Sampler::new(store.snapshot(), spec, Vec::new())
        .expect("sampler")
        .without_held_topologies();
    [sampler.clone().with_engine(Engine::Hops), sampler.with_engine(Engine::Streaming)]
}

#[test]
fn batches_are_the_same_without_barriers() {
    // Sources of the last type take 5 bytes in the second store.
    for nodes in [[700, 300, 400], [700, 300, 1 << 33]] {
        let dir = tempfile::tempdir().expect("temporary directory");
        build_every_kind(dir.path(), nodes);
        let mut numbers = Numbers(23, 0);
        let same = |hops: &[i64]| vec![hops.to_vec(); 6];
        let mixed = vec![
            vec![3, 0, 9],
            vec![0, 4, 1],
            vec![6, 2, 2],
            vec![2, 7, 3],
            vec![0, 0, 5],
            vec![60, 1, 4],
        ];
        for (fanouts, replace) in [
            (same(&[15, 10]), false),
            (same(&[2, 9, 4]), false),
            (same(&[9, 3, 1, 6]), true),
            (mixed, false),
            (same(&[5]), false),
            (same(&[3, -1]), false),
        ] {
            let fanouts = Fanouts::new(fanouts).expect("fanouts");
            for (backend, memory) in
                [(BackendChoice::Pread, 24 << 20), (BackendChoice::Auto, 64 << 20)]
            {
                let (first, second) =
                    (open(dir.path(), memory, backend), open(dir.path(), 64 << 20, backend));
                let [hops, _] = samplers(&second, &fanouts, replace);
                let [_, streaming] = samplers(&first, &fanouts, replace);
                for stream in 0..3 {
                    let zero: Vec<u64> = (0..5).map(|_| numbers.next(nodes[0])).collect();
                    let one = [0, 5, 0, 7, 5];
                    let seeds = [(NodeTypeId(1), &one[..]), (NodeTypeId(0), &zero)];
                    let expected = hops.sample(&seeds, stream).expect("hops");
                    assert!(streaming.sample(&seeds, stream).expect("streams") == expected);
                    let nobody = streaming.sample(&[], stream).expect("streams");
                    assert!(nobody == hops.sample(&[], stream).expect("hops"));
                }
            }
        }
    }
}

#[test]
fn a_list_that_was_expanded_early_is_extended_or_cut() {
    let graph = Graph::new(12);
    let dir = tempfile::tempdir().expect("temporary directory");
    graph.build(dir.path(), 4096);
    let run = |fanouts: &[i64]| -> StreamingStats {
        let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
        let fanouts = Fanouts::uniform(fanouts, common::EDGE_TYPES.len()).expect("fanouts");
        let [hops, streaming] = samplers(&store, &fanouts, false);
        for stream in 0..20 {
            let seeds: Vec<u64> = (0..6).map(|i| (i * 131 + stream * 17) % PAPERS).collect();
            let seeds = [(NodeTypeId(1), seeds.as_slice())];
            let found = streaming.sample(&seeds, stream).expect("streams");
            assert!(found == hops.sample(&seeds, stream).expect("hops"));
        }
        assert_eq!(hops.streaming_stats(), streaming.streaming_stats(), "of one sampler");
        streaming.streaming_stats()
    };
    // Two hops: whatever is not a seed belongs to the second.
    let two = run(&[7, 5]);
    assert_eq!((two.batches, two.extended, two.cut, two.unused, two.late), (20, 0, 0, 0, 0));
    // Lists of a node that seems to belong to a later hop are drawn with the fanout of that.
    let falling = run(&[9, 6, 4, 2]);
    assert!(falling.extended > 0 && falling.cut == 0, "{falling:?}");
    let rising = run(&[2, 4, 6, 9]);
    assert!(rising.cut > 0 && rising.extended == 0, "{rising:?}");
    assert!(falling.lists > 1000 && rising.lists > 1000);
}

#[test]
fn columns_are_gathered_and_the_memory_is_given_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Graph::new(13).build(dir.path(), 4096);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    let fanouts = Fanouts::uniform(&[4, 3], common::EDGE_TYPES.len()).expect("fanouts");
    let spec = SampleSpec::uniform(fanouts, 2);
    let sampler = Sampler::new(store.snapshot(), spec, features())
        .expect("sampler")
        .without_held_topologies();
    // Tensors that fit are held as long as nobody needs the memory.
    let cached = |store: &Store| {
        let StoreStats { block_cache_bytes, row_cache_bytes, memory, .. } = store.stats();
        let held = memory.iter().find(|share| share.user == MemoryUser::Resident);
        block_cache_bytes + row_cache_bytes + held.and_then(|share| share.held_bytes).unwrap_or(0)
    };
    let before = store.budget().used_bytes() - cached(&store);
    for stream in 0..3 {
        let seeds: Vec<u64> = (0..3).map(|i| (i * 31 + stream * 7) % PAPERS).collect();
        let seeds = [(NodeTypeId(1), seeds.as_slice())];
        let [hops, streaming] = [Engine::Hops, Engine::Auto]
            .map(|engine| sampler.clone().with_engine(engine).sample(&seeds, stream));
        assert!(hops.expect("hops") == streaming.expect("streams"));
    }
    assert_eq!(sampler.streaming_stats().batches, 3, "few lists are streamed by default");
    assert_eq!(store.budget().used_bytes() - cached(&store), before);
    let many: Vec<u64> = (0..PAPERS).collect();
    sampler.sample(&[(NodeTypeId(1), &many)], 0).expect("samples");
    assert_eq!(sampler.streaming_stats().batches, 3, "many are not");
}
