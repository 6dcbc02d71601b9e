//! A trace tells what sampling visited, position by position.

use crate::common;
use crate::common::one_type::{Edges, build, open, skewed_list};
use ng_sample::{Fanouts, Method, SampleError, SampleSpec, Sampler};
use ng_types::{NodeTypeId, Trace};

const NODES: u64 = 5_000;

fn spec() -> SampleSpec {
    SampleSpec::uniform(Fanouts::uniform(&[3, 3, 3], 1).expect("fanouts"), 7)
}

fn batches() -> Vec<(Vec<u64>, u64)> {
    (0..4).map(|stream| ((0..32).map(|n| stream * 100 + n * 3).collect(), stream)).collect()
}

fn traced(sampler: &Sampler) -> Result<Trace, SampleError> {
    let batches = batches();
    sampler.trace(batches.iter().map(|(seeds, stream)| (&seeds[..], *stream)))
}

#[test]
fn each_draw_stands_where_the_list_has_whom_it_finds() {
    let dir = tempfile::tempdir().expect("directory");
    let list = skewed_list(NODES);
    build(dir.path(), NODES, Edges::Nothing, &list, &[]);
    let store = open(dir.path(), 64 << 20);
    let sampler = Sampler::new(store.snapshot(), spec(), Vec::new())
        .expect("sampler")
        .without_held_topologies();
    let trace = traced(&sampler).expect("trace");
    assert_eq!(trace.check(), Ok(()));
    assert_eq!(trace.batches(), 4);
    let mut draws = 0;
    for (batch, (seeds, stream)) in batches().iter().enumerate() {
        let sample = sampler.sample(&[(NodeTypeId(0), seeds)], *stream).expect("sample");
        let range = trace.entries_of(batch);
        let nodes: Vec<i64> = trace.node[range.clone()].iter().map(|&node| node as i64).collect();
        assert_eq!(nodes, sample.nodes[0].ids);
        let mut edges = Vec::new();
        for entry in 0..range.len() as u32 {
            let at = range.start + entry as usize;
            let mut whole = list(trace.node[at]);
            whole.sort_unstable();
            assert_eq!(trace.degree[at] as usize, whole.len());
            for (position, found) in trace.draws_of(batch, entry) {
                assert_eq!(whole[position as usize], trace.node[range.start + found as usize]);
                edges.push((i64::from(found), i64::from(entry)));
            }
        }
        draws += edges.len();
        let block = &sample.edges[0];
        let wanted: Vec<_> = block.rows.iter().copied().zip(block.cols.iter().copied()).collect();
        assert_eq!(edges, wanted);
    }
    assert!(draws > 2_000, "{draws} draws");
}

#[test]
fn what_the_table_says_has_no_trace_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), NODES, Edges::Nothing, &skewed_list(NODES), &[]);
    let store = open(dir.path(), 64 << 20);
    let labor = SampleSpec { method: Method::Labor { dependent: 1 }, ..spec() };
    let sampler = Sampler::new(store.snapshot(), labor, Vec::new()).expect("sampler");
    let error = traced(&sampler).unwrap_err().to_string();
    assert!(error.contains("which the traces cannot provide"), "{error}");
    let dir = tempfile::tempdir().expect("directory");
    common::Graph::new(5).build(dir.path(), 4096);
    let store = common::open(dir.path(), 64 << 20, ng_io::BackendChoice::Auto);
    let fanouts = Fanouts::uniform(&[3, 3, 3], common::EDGE_TYPES.len()).expect("fanouts");
    let sampler = Sampler::new(store.snapshot(), SampleSpec::uniform(fanouts, 7), Vec::new());
    let error = traced(&sampler.expect("sampler")).unwrap_err().to_string();
    assert!(error.contains("one node type"), "{error}");
}
