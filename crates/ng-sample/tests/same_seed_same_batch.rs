//! G1: the same seed gives the same batch, byte for byte, whatever serves it.

#![allow(clippy::expect_used)]

mod common;

use std::collections::BTreeMap;

use common::{Graph, PAPERS, features, open, scaled};
use ng_io::BackendChoice;
use ng_sample::{Engine, Fanouts, Jobs, MiniBatch, Pipeline, SampleSpec, Sampler, Way};
use ng_types::NodeTypeId;

const BACKENDS: [&str; 5] = ["memory", "mmap", "pread", "direct", "uring"];
const PAGE_BYTES: [u32; 3] = [4096, 16384, 65536];
const MEMORY: [u64; 2] = [24 << 20, 256 << 20];
const THREADS: [usize; 3] = [1, 2, 4];

fn batches(
    dir: &std::path::Path,
    memory: u64,
    backend: BackendChoice,
    threads: usize,
) -> Vec<MiniBatch> {
    let store = open(dir, memory, backend);
    let spec = SampleSpec::uniform(
        Fanouts::uniform(&[7, 5], common::EDGE_TYPES.len()).expect("fanouts"),
        11,
    );
    let tensors = [features(), scaled()].concat();
    let sampler = Sampler::new(store.snapshot(), spec, tensors).expect("sampler");
    let engine = if threads == 2 { Engine::Hops } else { Engine::Streaming };
    let sampler = sampler.with_engine(engine);
    // Five batches an epoch.
    let jobs = Jobs::once(NodeTypeId(1), (0..PAPERS).step_by(3).collect(), 64);
    let jobs = Jobs { first: (1, 0), ..jobs };
    let stream = Pipeline::new(sampler, jobs, Way::Each { prefetch: 3, threads });
    let stream = stream.expect("stream");
    stream.map(|batch| batch.expect("batch")).collect()
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
