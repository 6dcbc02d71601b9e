//! G1: the same seed gives the same batch, byte for byte, whatever serves it.

use std::collections::{BTreeMap, BTreeSet};

use crate::common;
use crate::common::{Graph, PAPERS, features, open, scaled};
use ng_io::BackendChoice;
use ng_sample::{
    Engine, Fanouts, Jobs, METHODS, Method, MiniBatch, Pipeline, SampleSpec, Sampler, Way,
};
use ng_store::TensorRef;
use ng_types::NodeTypeId;

const BACKENDS: [&str; 5] = ["memory", "mmap", "pread", "odirect", "uring"];
const PAGE_BYTES: [u32; 3] = [4096, 16384, 65536];
const MEMORY: [u64; 2] = [24 << 20, 256 << 20];
const THREADS: [usize; 3] = [1, 2, 4];

fn batches(
    dir: &std::path::Path,
    memory: u64,
    backend: BackendChoice,
    threads: usize,
) -> Vec<MiniBatch> {
    let fanouts = Fanouts::uniform(&[7, 5], common::EDGE_TYPES.len()).expect("fanouts");
    let spec = SampleSpec::uniform(fanouts, 11);
    let tensors = [features(), scaled()].concat();
    batches_of((dir, memory, backend), &spec, tensors, (threads, 0))
}

/// Batches of a sampler that may use so much memory for topologies.
fn batches_of(
    (dir, memory, backend): (&std::path::Path, u64, BackendChoice),
    spec: &SampleSpec,
    tensors: Vec<TensorRef>,
    (threads, topology): (usize, u64),
) -> Vec<MiniBatch> {
    let store = open(dir, memory, backend);
    let sampler = Sampler::new(store.snapshot(), spec.clone(), tensors).expect("sampler");
    let sampler = sampler.without_held_topologies().with_topology_within(topology).expect("loads");
    assert_eq!(sampler.topology_bytes() > 0, topology > 0);
    let engine = if threads == 2 { Engine::Hops } else { Engine::Streaming };
    let sampler = sampler.with_engine(engine);
    // Five batches an epoch.
    let jobs = Jobs::once(NodeTypeId(1), (0..PAPERS).step_by(3).collect(), 64);
    let jobs = Jobs { first: (1, 0), ..jobs };
    let stream = Pipeline::new(sampler, jobs, Way::Each { prefetch: 3, threads });
    let stream = stream.expect("stream");
    stream.map(|batch| batch.expect("batch")).collect()
}

/// Each method with each of its options.
const METHODS_AND_OPTIONS: [Method; 6] = [
    Method::Uniform { replace: false },
    Method::Uniform { replace: true },
    Method::Labor { dependent: 1 },
    Method::Labor { dependent: 3 },
    Method::Weighted { replace: false },
    Method::Weighted { replace: true },
];

#[test]
fn every_method_gives_the_same_batches_whatever_serves_it() {
    let graph = Graph::new(4);
    let named: BTreeSet<&str> = METHODS_AND_OPTIONS.iter().map(|m| m.row().name).collect();
    assert_eq!(named, METHODS.iter().map(|row| row.name).collect(), "a method is not compared");
    let dirs = [4096, 65536].map(|page_bytes| {
        let dir = tempfile::tempdir().expect("temporary directory");
        graph.build(dir.path(), page_bytes);
        dir
    });
    let ways = [(24 << 20, 1, 0), (64 << 20, 2, 0), (256 << 20, 4, 0), (64 << 20, 4, 32 << 20)];
    let (mut cells, mut different) = (0, 0);
    for method in METHODS_AND_OPTIONS {
        // Only the first edge type has weights; -1 takes all whatever the method.
        let fanouts = vec![vec![7, 5], vec![-1, 0], vec![0, -1]];
        let spec = SampleSpec::new(Fanouts::new(fanouts).expect("fanouts"), method, 11);
        let mut expected: Option<Vec<MiniBatch>> = None;
        for (dir, backend) in dirs.iter().flat_map(|dir| BACKENDS.map(|backend| (dir, backend))) {
            for (memory, threads, topology) in ways {
                let choice = (dir.path(), memory, backend.parse().expect("known"));
                let found = batches_of(choice, &spec, Vec::new(), (threads, topology));
                match &expected {
                    Some(expected) => different += usize::from(*expected != found),
                    None => expected = Some(found),
                }
                cells += 1;
            }
        }
    }
    println!(
        "figure: {{\"id\":\"G1\",\"what\":\"methods\",\"tried\":{cells},\
         \"failed\":{different},\"seed\":11}}"
    );
    assert_eq!((cells, different), (2 * 6 * 5 * 4, 0));
}

#[test]
fn same_seed_same_batch_on_any_back_end_page_size_cache_and_thread_count() {
    let graph = Graph::new(1);
    let mut expected: Option<Vec<MiniBatch>> = None;
    let (mut cells, mut different) = (0, 0);
    let mut by_backend: BTreeMap<&str, usize> = BTreeMap::new();
    for page_bytes in PAGE_BYTES {
        let dir = tempfile::tempdir().expect("temporary directory");
        graph.build(dir.path(), page_bytes);
        for backend in BACKENDS {
            for memory in MEMORY {
                for threads in THREADS {
                    let choice = backend.parse().expect("known");
                    let found = batches(dir.path(), memory, choice, threads);
                    let same = expected
                        .get_or_insert_with(|| batches(dir.path(), memory, choice, threads))
                        == &found;
                    cells += 1;
                    different += usize::from(!same);
                    *by_backend.entry(backend).or_default() += 1;
                }
            }
        }
    }
    println!("figure: {{\"id\":\"G1\",\"tried\":{cells},\"failed\":{different},\"seed\":11}}");
    assert_eq!((cells, different), (3 * 5 * 2 * 3, 0), "{by_backend:?}");
}
