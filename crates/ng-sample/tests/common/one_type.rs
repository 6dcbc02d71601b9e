//! Graphs of one node type and one edge type: the store made from lists and rows that a test says.

use std::path::Path;

use ng_store::{BuildOptions, EdgeTypeSpec, Entry, Owner, StoreBuilder, TensorSpec};
use ng_types::{Dtype, philox4x32_10};

/// A repeatable number.
pub fn number(seed: u32, at: u64) -> u64 {
    let block = philox4x32_10([at as u32, (at >> 32) as u32, 0, 98], [seed, 0]);
    u64::from(block[0]) | u64::from(block[1]) << 32
}

/// The list of a node: up to 11 neighbours, every second of which has a low id more often.
pub fn skewed_list(nodes: u64) -> impl Fn(u64) -> Vec<u64> {
    move |destination| {
        let source = |at: u64| {
            let draw = number(2, destination * 16 + at) % nodes;
            if at.is_multiple_of(2) { draw * draw / nodes } else { draw }
        };
        (0..number(1, destination) % 12).map(source).collect()
    }
}

/// The bytes of a row that differ from those of its neighbours.
pub fn bytes(row: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| (row * 7 + i * 13 + i / 3) as u8).collect()
}

/// What edges carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    Nothing,
    /// Ids, of which each belongs to so many edges in a row.
    Ids(u64),
    /// An id each, the place in the list as time, and a weight.
    All,
}

/// A tensor of nodes or edges.
pub struct Rows {
    pub name: &'static str,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// Of the columns, if they have any.
    pub scales: Vec<f32>,
    pub of_edges: bool,
    /// The bytes of a row by its number and length.
    pub bytes: fn(u64, u64) -> Vec<u8>,
}

impl Rows {
    /// Of nodes, with `bytes`.
    pub fn new(name: &'static str, dtype: Dtype, shape: &[u64]) -> Self {
        let (shape, scales) = (shape.to_vec(), Vec::new());
        Self { name, dtype, shape, scales, of_edges: false, bytes }
    }
}

/// Builds the store in an empty directory; `list` need not be sorted.
pub fn build(dir: &Path, nodes: u64, edges: Edges, list: &dyn Fn(u64) -> Vec<u64>, all: &[Rows]) {
    let mut builder = StoreBuilder::create(dir, BuildOptions::default()).expect("builder");
    let node = builder.node_type("node", nodes).expect("type");
    let spec = EdgeTypeSpec {
        source: node,
        relation: "to".into(),
        destination: node,
        undirected: false,
        unique: false,
        has_edge_ids: edges != Edges::Nothing,
        has_time: edges == Edges::All,
        has_weight: edges == Edges::All,
    };
    let edge_type = builder.edge_type(spec).expect("edge type");
    let mut writer = builder.topology(edge_type).expect("writer");
    let sharing = if let Edges::Ids(sharing) = edges { sharing } else { 1 };
    let mut count = 0;
    for destination in 0..nodes {
        let mut list = list(destination);
        list.sort_unstable();
        for (at, source) in list.into_iter().enumerate() {
            let (edge_id, time, weight) = (count / sharing, at as i64, count as f32 / 3.0);
            writer.push(destination, Entry { source, edge_id, time, weight }).expect("push");
            count += 1;
        }
    }
    builder.add(writer.finish().expect("finish")).expect("add");
    for tensor in all {
        let Rows { name, dtype, shape, scales, of_edges, bytes } = tensor;
        let (name, len) =
            ((*name).into(), shape.iter().product::<u64>() * dtype.size_bytes() as u64);
        let spec = TensorSpec { name, dtype: *dtype, shape: shape.clone(), mask_width: None };
        let owner = if *of_edges { Owner::Edge(edge_type) } else { Owner::Node(node) };
        let writer = match scales.as_slice() {
            [] => builder.tensor(owner, spec),
            scales => builder.scaled_tensor(owner, spec, scales),
        };
        let mut writer = writer.expect("tensor");
        let rows = if *of_edges { count.div_ceil(sharing) } else { nodes };
        (0..rows).for_each(|row| writer.push_rows(&bytes(row, len)).expect("row"));
        builder.add(writer.finish().expect("finish")).expect("add");
    }
    builder.commit().expect("commit");
}

/// Opens a store with `memory` bytes by plain reads, few at a time.
pub fn open(dir: &Path, memory: u64) -> ng_store::Store {
    let options = ng_store::OpenOptions {
        memory: Some(memory),
        backend: ng_io::BackendChoice::Pread,
        queue_depth: 8,
        ..ng_store::OpenOptions::default()
    };
    ng_store::Store::open(dir, &options).expect("open")
}
