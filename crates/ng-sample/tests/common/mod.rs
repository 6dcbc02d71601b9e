//! A small heterogeneous graph in memory, the store made from it, and a plain reference sampler
//! that follows docs/reference/format.md word by word without any cleverness.
#![allow(dead_code, clippy::expect_used)]

pub mod one_type;

use std::path::Path;

use ng_io::BackendChoice;
use ng_sample::Jobs;
use ng_store::{
    BuildOptions, EdgeTypeSpec, Entry, OpenOptions, Owner, Store, StoreBuilder, TensorRef,
    TensorSpec,
};
use ng_types::{DrawKey, Dtype, EdgeTypeId, NodeTypeId, philox4x32_10};

pub const AUTHORS: u64 = 300;
pub const PAPERS: u64 = 900;
pub const ROW: usize = 37;

/// Edge types of the graph: (source type, destination type).
pub const EDGE_TYPES: [(u16, u16); 3] = [(1, 1), (0, 1), (1, 0)];

/// A repeatable stream of numbers for building graphs.
pub struct Numbers(pub u32, pub u32);

impl Numbers {
    pub fn next(&mut self, bound: u64) -> u64 {
        self.1 += 1;
        let block = philox4x32_10([self.1, 0, 0, 99], [self.0, 0]);
        (u64::from(block[0]) | u64::from(block[1]) << 32) % bound
    }
}

/// Neighbour lists by edge type and destination: (source, edge id), in list order.
pub struct Graph {
    pub lists: Vec<Vec<Vec<(u64, u64)>>>,
}

pub fn num_nodes(node_type: u16) -> u64 {
    [AUTHORS, PAPERS][usize::from(node_type)]
}

impl Graph {
    /// Power-law-ish degrees: a few hubs that span many H pages, many short lists, some empty.
    pub fn new(seed: u32) -> Self {
        let mut numbers = Numbers(seed, 0);
        let mut lists = Vec::new();
        for (source, destination) in EDGE_TYPES {
            let mut of_type = Vec::new();
            let mut edge_id = 0;
            for node in 0..num_nodes(destination) {
                let degree = match node % 97 {
                    0 => 3000 + numbers.next(2000),
                    1..=20 => 0,
                    _ => numbers.next(30),
                };
                let mut list: Vec<u64> =
                    (0..degree).map(|_| numbers.next(num_nodes(source))).collect();
                list.sort_unstable();
                of_type.push(
                    list.into_iter()
                        .map(|s| {
                            (s, {
                                edge_id += 1;
                                edge_id - 1
                            })
                        })
                        .collect(),
                );
            }
            lists.push(of_type);
        }
        Self { lists }
    }

    pub fn build(&self, dir: &Path, page_bytes: u32) {
        let options = BuildOptions { page_bytes, ..BuildOptions::default() };
        let mut builder = StoreBuilder::create(dir, options).expect("builder");
        builder.node_type("author", AUTHORS).expect("authors");
        builder.node_type("paper", PAPERS).expect("papers");
        for (index, (source, destination)) in EDGE_TYPES.into_iter().enumerate() {
            let spec = EdgeTypeSpec {
                source: NodeTypeId(source),
                relation: format!("r{index}"),
                destination: NodeTypeId(destination),
                undirected: false,
                unique: false,
                has_edge_ids: index != 2,
                has_time: false,
                has_weight: index == 0,
            };
            let edge_type = builder.edge_type(spec).expect("edge type");
            let mut writer = builder.topology(edge_type).expect("writer");
            for (node, list) in self.lists[index].iter().enumerate() {
                for (source, edge_id) in list {
                    let weight = if index == 0 { (*edge_id % 9) as f32 * 0.7 } else { 0.0 };
                    let entry = Entry { source: *source, edge_id: *edge_id, time: 0, weight };
                    writer.push(node as u64, entry).expect("push");
                }
            }
            builder.add(writer.finish().expect("finish")).expect("add");
        }
        for node_type in 0..2 {
            let spec = TensorSpec {
                name: "x".into(),
                dtype: Dtype::F32,
                shape: vec![ROW as u64],
                mask_width: None,
            };
            let owner = Owner::Node(NodeTypeId(node_type));
            let mut writer = builder.tensor(owner, spec).expect("tensor");
            for node in 0..num_nodes(node_type) {
                writer.push_rows(&row(node_type, node)).expect("row");
            }
            builder.add(writer.finish().expect("finish")).expect("add");
            let (name, shape) = ("steps".into(), vec![ROW as u64]);
            let spec = TensorSpec { name, dtype: Dtype::I8, shape, mask_width: None };
            let mut writer = builder.scaled_tensor(owner, spec, &scales()).expect("tensor");
            for node in 0..num_nodes(node_type) {
                writer.push_rows(&steps(node)).expect("row");
            }
            builder.add(writer.finish().expect("finish")).expect("add");
        }
        builder.commit().expect("commit");
    }

    /// The reference: nodes by type, then (rows, cols, edge ids) by edge type.
    pub fn sample(
        &self,
        seeds: &[u64],
        fanouts: &[i64],
        replace: bool,
        seed: u64,
        stream: u64,
    ) -> Reference {
        let mut nodes: Vec<Vec<u64>> = vec![Vec::new(), seeds.to_vec()];
        let mut edges = vec![(Vec::new(), Vec::new(), Vec::new()); EDGE_TYPES.len()];
        let mut frontier = [0..0, 0..seeds.len()];
        let key = DrawKey::new(seed, stream);
        for fanout in fanouts {
            let last = frontier.iter().map(|f| f.end).max().unwrap_or(0);
            for destination in 0..last {
                for (edge_type, (from, to)) in EDGE_TYPES.into_iter().enumerate() {
                    if !frontier[usize::from(to)].contains(&destination) {
                        continue;
                    }
                    let id = nodes[usize::from(to)][destination];
                    let list = &self.lists[edge_type][id as usize];
                    let mut positions = Vec::new();
                    let draws = key.draws(EdgeTypeId(edge_type as u16), id);
                    let length = list.len() as u64;
                    match u32::try_from(*fanout) {
                        Err(_) => positions.extend(0..length),
                        Ok(n) if replace => {
                            draws.with_replacement(length, n, |at| positions.push(at));
                        }
                        Ok(n) => {
                            draws.without_replacement(length, n, |at| positions.push(at));
                        }
                    }
                    for position in positions {
                        let (source, edge_id) = list[position as usize];
                        let of_type = &mut nodes[usize::from(from)];
                        let number = of_type.iter().position(|n| *n == source);
                        let number = number.unwrap_or_else(|| {
                            of_type.push(source);
                            of_type.len() - 1
                        });
                        edges[edge_type].0.push(number as i64);
                        edges[edge_type].1.push(destination as i64);
                        edges[edge_type].2.push(edge_id as i64);
                    }
                }
            }
            for (frontier, nodes) in frontier.iter_mut().zip(&nodes) {
                *frontier = frontier.end..nodes.len();
            }
        }
        Reference { nodes, edges }
    }
}

/// What the reference sampler gives.
pub struct Reference {
    pub nodes: Vec<Vec<u64>>,
    pub edges: Vec<(Vec<i64>, Vec<i64>, Vec<i64>)>,
}

/// The feature row of a node, as bytes.
pub fn row(node_type: u16, node: u64) -> Vec<u8> {
    let value = |column: usize| node as f32 + column as f32 / 64.0 + f32::from(node_type) * 0.5;
    (0..ROW).flat_map(|column| value(column).to_le_bytes()).collect()
}

/// The scaled row of a node as it is stored.
pub fn steps(node: u64) -> Vec<u8> {
    (0..ROW).map(|column| (node * 7 + column as u64 * 31) as u8).collect()
}

pub fn scales() -> Vec<f32> {
    (0..ROW).map(|column| column as f32 / 8.0).collect()
}

/// The scaled tensors.
pub fn scaled() -> Vec<TensorRef> {
    (0..2).map(|t| TensorRef { owner: Owner::Node(NodeTypeId(t)), index: 1 }).collect()
}

pub fn features() -> Vec<TensorRef> {
    (0..2).map(|t| TensorRef { owner: Owner::Node(NodeTypeId(t)), index: 0 }).collect()
}

pub fn open(dir: &Path, memory: u64, backend: BackendChoice) -> Store {
    let options = OpenOptions { memory: Some(memory), backend, ..OpenOptions::default() };
    Store::open(dir, &options).expect("opens")
}

/// A store with every kind of edge type: (source type, destination type, edge ids, time, weight),
/// where the sources of some are so many that ids take 5 bytes.
pub fn build_every_kind(dir: &Path, nodes: [u64; 3]) {
    build_every_kind_with_rows(dir, nodes, 0);
}

/// The same, and the first node type has a tensor `x` whose rows take `row_bytes`.
pub fn build_every_kind_with_rows(dir: &Path, nodes: [u64; 3], row_bytes: u64) {
    let kinds = [
        (0, 0, true, true, true),
        (1, 0, false, true, false),
        (2, 0, true, false, false),
        (0, 1, false, false, true),
        (1, 1, false, false, false),
        (2, 1, false, false, false),
    ];
    let mut numbers = Numbers(nodes[2] as u32, 0);
    let mut builder = StoreBuilder::create(dir, BuildOptions::default()).expect("builder");
    for (index, count) in nodes.into_iter().enumerate() {
        builder.node_type(&format!("n{index}"), count).expect("node type");
    }
    for (index, (source, destination, ids, time, weight)) in kinds.into_iter().enumerate() {
        let spec = EdgeTypeSpec {
            source: NodeTypeId(source),
            relation: format!("r{index}"),
            destination: NodeTypeId(destination),
            undirected: false,
            unique: false,
            has_edge_ids: ids,
            has_time: time,
            has_weight: weight,
        };
        let edge_type = builder.edge_type(spec).expect("edge type");
        let mut writer = builder.topology(edge_type).expect("writer");
        let mut edge_id = 0;
        for node in 0..nodes[usize::from(destination)] {
            let degree = match node % 53 {
                0 => 2500,
                1..=9 => 0,
                _ => numbers.next(120),
            };
            for step in 0..degree {
                let entry = Entry {
                    source: numbers.next(nodes[usize::from(source)]),
                    edge_id: if ids { edge_id } else { 0 },
                    time: if time { step as i64 } else { 0 },
                    weight: if weight { numbers.next(100) as f32 } else { 0.0 },
                };
                edge_id += 1;
                writer.push(node, entry).expect("push");
            }
        }
        builder.add(writer.finish().expect("finish")).expect("add");
    }
    if row_bytes > 0 {
        let spec = TensorSpec {
            name: "x".into(),
            dtype: Dtype::U8,
            shape: vec![row_bytes],
            mask_width: None,
        };
        let mut writer = builder.tensor(Owner::Node(NodeTypeId(0)), spec).expect("tensor");
        for node in 0..nodes[0] {
            writer.push_rows(&one_type::bytes(node, row_bytes)).expect("row");
        }
        builder.add(writer.finish().expect("finish")).expect("add");
    }
    builder.commit().expect("commit");
}

/// An epoch of batches with the seeds of their numbers, of which only the last may be fewer; the
/// stream of a batch is its number.
pub fn jobs(node_type: NodeTypeId, batches: u64, seeds: impl Fn(u64) -> Vec<u64>) -> Jobs {
    let batch_size = seeds(0).len() as u64;
    Jobs::once(node_type, (0..batches).flat_map(seeds).collect(), batch_size)
}

/// The upper tail of chi-square, by the cube-root normal approximation (Wilson and Hilferty 1931).
pub fn chi_square_p(statistic: f64, freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    let z = ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    // Abramowitz and Stegun 26.2.17, one-sided.
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly = t
        * (0.319_381_53
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * poly;
    if z >= 0.0 { tail } else { 1.0 - tail }
}
