//! Batches from a file of the direct layout are the very batches of the paged layout, whatever the
//! lists and rows are; a hop reads the pages of its sections and no index; damage is named, and
//! never a wrong batch.

#![allow(clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;

use ng_io::BackendChoice;
use ng_sample::{
    BatchPlan, BatchStream, ColumnSpec, Fanouts, Method, MiniBatch, SampleError, SampleSpec,
    Sampler,
};
use ng_store::{
    BuildOptions, DirectError, DirectFile, DirectInfo, DirectOptions, DirectPlan, EdgeData,
    EdgeTypeSpec, Entry, OpenOptions, Owner, Store, StoreBuilder, TensorRef, TensorSpec,
};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId, philox4x32_10};

const NODE: NodeTypeId = NodeTypeId(0);
const MEMORY: u64 = 48 << 20;

fn number(seed: u32, at: u32) -> u64 {
    let block = philox4x32_10([at, 0, 0, 97], [seed, 0]);
    u64::from(block[0]) | u64::from(block[1]) << 32
}

fn bytes(row: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| (row * 7 + i * 13 + i / 3) as u8).collect()
}

/// What a graph is like.
#[derive(Clone, Copy)]
struct Like {
    nodes: u64,
    /// Every so many nodes there is a hub.
    hub_every: u64,
    hub_degree: u64,
    edge_data: bool,
    /// f32 columns of `x`.
    width: u64,
}

const SMALL: Like = Like { nodes: 12, hub_every: 99, hub_degree: 0, edge_data: false, width: 3 };
const HUBS: Like =
    Like { nodes: 4000, hub_every: 500, hub_degree: 9000, edge_data: false, width: 24 };
const DATA: Like =
    Like { nodes: 3000, hub_every: 700, hub_degree: 2500, edge_data: true, width: 8 };
const WIDE: Like =
    Like { nodes: 900, hub_every: 90, hub_degree: 3000, edge_data: false, width: 1433 };

/// A graph with hubs, nodes without neighbours, rows as they are and scaled ones.
fn build(dir: &Path, like: Like) {
    let mut builder = StoreBuilder::create(dir, BuildOptions::default()).expect("builder");
    let node = builder.node_type("node", like.nodes).expect("type");
    let spec = EdgeTypeSpec {
        source: node,
        relation: "to".into(),
        destination: node,
        undirected: false,
        unique: false,
        has_edge_ids: like.edge_data,
        has_time: like.edge_data,
        has_weight: like.edge_data,
    };
    let edge_type = builder.edge_type(spec).expect("edge type");
    let mut writer = builder.topology(edge_type).expect("writer");
    let mut edges = 0;
    for destination in 0..like.nodes {
        let degree = match destination {
            hub if hub % like.hub_every == 3 => like.hub_degree,
            lonely if lonely % 5 == 0 => 0,
            other => number(1, other as u32) % 30,
        };
        let source = |at: u64| number(2, (destination * 16_384 + at) as u32) % like.nodes;
        let mut list: Vec<u64> = (0..degree).map(source).collect();
        list.sort_unstable();
        for (at, source) in list.into_iter().enumerate() {
            let (time, weight) = (at as i64, edges as f32 / 3.0);
            let edge_id = if like.edge_data { edges } else { 0 };
            writer.push(destination, Entry { source, edge_id, time, weight }).expect("push");
            edges += 1;
        }
    }
    builder.add(writer.finish().expect("finish")).expect("add");
    let spec = |name: &str, dtype, width: u64| TensorSpec {
        name: name.into(),
        dtype,
        shape: vec![width],
        mask_width: None,
    };
    let scales: Vec<f32> = (0..16).map(|column| column as f32 / 8.0).collect();
    let owner = Owner::Node(node);
    let wide = builder.tensor(owner, spec("x", Dtype::F32, like.width)).expect("tensor");
    let half = builder.tensor(owner, spec("half", Dtype::F16, 5)).expect("tensor");
    let scaled = builder.scaled_tensor(owner, spec("steps", Dtype::I8, 16), &scales);
    let label = builder.tensor(owner, spec("y", Dtype::I64, 1)).expect("tensor");
    let scaled = scaled.expect("tensor");
    for (mut writer, len) in [(wide, 4 * like.width), (half, 10), (scaled, 16), (label, 8)] {
        (0..like.nodes).for_each(|row| writer.push_rows(&bytes(row, len)).expect("row"));
        builder.add(writer.finish().expect("finish")).expect("add");
    }
    if like.edge_data {
        let owner = Owner::Edge(edge_type);
        let mut edge = builder.tensor(owner, spec("edge_attr", Dtype::F32, 2)).expect("tensor");
        (0..edges).for_each(|row| edge.push_rows(&bytes(row, 8)).expect("row"));
        builder.add(edge.finish().expect("finish")).expect("add");
    }
    builder.commit().expect("commit");
}

fn open(dir: &Path, memory: u64) -> Store {
    let options = OpenOptions {
        memory: Some(memory),
        backend: BackendChoice::Pread,
        queue_depth: 8,
        ..OpenOptions::default()
    };
    Store::open(dir, &options).expect("open")
}

fn compile(store: &Store, dir: &Path, options: &DirectOptions) -> DirectInfo {
    let plan = DirectPlan::new(store.snapshot(), dir, options, &mut |_, _, _| true).expect("plan");
    let info = plan.info();
    assert_eq!(plan.write("t", &mut |_, _, _| true).expect("written"), info.file_bytes);
    info
}

fn attach(sampler: Sampler, dir: &Path) -> Result<Sampler, SampleError> {
    let file = DirectFile::open(Arc::clone(sampler.snapshot()), dir, "t.direct")?;
    sampler.with_direct(Arc::new(file))
}

fn sampler(store: &Store, fanouts: &[i64], replace: bool) -> Sampler {
    let fanouts = Fanouts::uniform(fanouts, 1).expect("fanouts");
    let spec = SampleSpec { fanouts, replace, seed: 11, method: Method::Uniform };
    let mut columns: Vec<ColumnSpec> =
        store.snapshot().catalog().tensor_refs().map(Into::into).collect();
    columns.reverse();
    let half = TensorRef { owner: Owner::Node(NODE), index: 1 };
    columns.push(ColumnSpec { tensor: half, dtype: Some(Dtype::F16), is_sparse: false });
    Sampler::with_columns(store.snapshot(), spec, &columns).expect("sampler")
}

fn seeds(like: Like, stream: u64) -> Vec<u64> {
    let mut seeds: Vec<u64> =
        (0..40).map(|i| number(5, (stream * 64 + i) as u32) % like.nodes).collect();
    (seeds[3], seeds[5], seeds[6]) = (seeds[0], 3, 0);
    seeds
}

fn assert_same(found: &MiniBatch, wanted: &MiniBatch) {
    assert_eq!(found.nodes, wanted.nodes);
    assert_eq!(found.edges, wanted.edges);
    assert_eq!(found.columns, wanted.columns);
}

#[test]
fn batches_are_those_of_the_paged_layout() {
    for (like, page_bytes) in
        [(SMALL, 0), (HUBS, 0), (HUBS, 16_384), (DATA, 4096), (WIDE, 4096), (WIDE, 65_536)]
    {
        let dir = tempfile::tempdir().expect("dir");
        build(dir.path(), like);
        let store = open(dir.path(), MEMORY);
        let info = compile(&store, dir.path(), &DirectOptions { page_bytes, tensors: None });
        assert_eq!(info.num_nodes, like.nodes);
        assert_eq!(info.address_bytes, 4);
        for (fanouts, replace) in [
            (&[15, 10][..], false),
            (&[-1], false),
            (&[6, -1], false),
            (&[4, 3, 2], true),
            (&[0, 5], false),
            (&[7, 0], false),
            (&[], false),
        ] {
            let paged = sampler(&store, fanouts, replace);
            let direct = attach(paged.clone(), dir.path()).expect("opens");
            for stream in 0..4 {
                let ids = seeds(like, stream);
                let wanted = paged.sample(&[(NODE, &ids)], stream).expect("paged");
                let found = direct.sample(&[(NODE, &ids)], stream).expect("direct");
                assert_same(&found, &wanted);
            }
        }
    }
}

#[test]
fn a_stream_of_batches_and_tensors_of_the_store_are_the_same_too() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), DATA);
    let store = open(dir.path(), MEMORY);
    let tensors = Some(vec!["y".into(), "x".into()]);
    compile(&store, dir.path(), &DirectOptions { page_bytes: 0, tensors });
    let paged = sampler(&store, &[9, 4], false);
    let direct = attach(paged.clone(), dir.path()).expect("opens");
    let plan = BatchPlan {
        node_type: NODE,
        seeds: (0..DATA.nodes).rev().collect(),
        batch_size: 128,
        first_stream: 70,
        drop_last: false,
        prefetch: 3,
        threads: 2,
    };
    let direct = BatchStream::new(direct, plan.clone()).expect("stream");
    let paged = BatchStream::new(paged, plan.clone()).expect("stream");
    let mut batches = 0;
    for (found, wanted) in direct.zip(paged) {
        assert_same(&found.expect("direct"), &wanted.expect("paged"));
        batches += 1;
    }
    assert_eq!(batches, plan.num_batches());
}

#[test]
fn what_the_layout_cannot_be_used_for_is_said() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), HUBS);
    let store = open(dir.path(), MEMORY);
    compile(&store, dir.path(), &DirectOptions::default());
    let spec = SampleSpec {
        fanouts: Fanouts::uniform(&[3], 1).expect("fanouts"),
        method: Method::Labor { dependent: 1 },
        replace: false,
        seed: 1,
    };
    let labor = Sampler::new(store.snapshot(), spec, vec![]).expect("sampler");
    let error = attach(labor, dir.path()).err().expect("refused").to_string();
    assert!(error.contains("labor"), "{error}");
    let direct = attach(sampler(&store, &[3], false), dir.path()).expect("opens");
    let error = direct.sample(&[(NODE, &[HUBS.nodes])], 0).expect_err("no such node");
    assert!(error.to_string().contains("out of range"), "{error}");
    let mut batch = store.write().expect("batch");
    batch.add_edge(EdgeTypeId(0), 1, 2, EdgeData::default()).expect("edge");
    batch.commit().expect("commit");
    let moved = sampler(&store, &[3], false);
    let error = attach(moved, dir.path()).err().expect("refused");
    assert!(matches!(error, SampleError::Direct(DirectError::Stale { .. })), "{error}");
}
