//! Stores that change: built from a shape, then given random transactions.

use std::sync::Arc;

use ng_store::{
    BuildOptions, EdgeData, EdgeTypeSpec, OpenOptions, Owner, Store, StoreBuilder, TensorRef,
    TensorSpec, Transaction,
};
use ng_testing::{MemDisk, Random};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

pub const NODES: NodeTypeId = NodeTypeId(0);
pub const EDGES: EdgeTypeId = EdgeTypeId(0);
pub const ROWS: TensorRef = TensorRef { owner: Owner::Node(NODES), index: 0 };

/// What a store is like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    pub num_nodes: u64,
    pub page_bytes: u32,
    pub row_bytes: u64,
    /// Each edge both ways in one edge type, else in one of its own.
    pub undirected: bool,
    pub unique: bool,
    pub has_edge_ids: bool,
    pub has_time: bool,
    pub has_weight: bool,
    pub reuse_ids: bool,
}

impl Shape {
    /// A store with nodes of zeros and no edges.
    pub fn build(&self) -> MemDisk {
        let disk = MemDisk::new();
        let options = BuildOptions {
            page_bytes: self.page_bytes,
            reuse_ids: self.reuse_ids,
            ..BuildOptions::default()
        };
        let mut builder = StoreBuilder::on_disk(Arc::new(disk.clone()), options).unwrap();
        let node = builder.node_type("node", self.num_nodes).unwrap();
        let spec = EdgeTypeSpec {
            source: node,
            relation: "edge".into(),
            destination: node,
            undirected: self.undirected,
            unique: self.unique,
            has_edge_ids: self.has_edge_ids,
            has_time: self.has_time,
            has_weight: self.has_weight,
        };
        let edge = builder.edge_type(spec.clone()).unwrap();
        let mut types = vec![edge];
        if !self.undirected {
            types
                .push(builder.edge_type(EdgeTypeSpec { relation: "back".into(), ..spec }).unwrap());
        }
        builder.set_reverse(edge, types[types.len() - 1]).unwrap();
        for edge in &types {
            let part = builder.topology(*edge).unwrap().finish().unwrap();
            builder.add(part).unwrap();
        }
        let rows = vec![0; (self.num_nodes * self.row_bytes) as usize];
        tensor(&mut builder, Owner::Node(node), self.row_bytes, &rows);
        if self.has_edge_ids {
            tensor(&mut builder, Owner::Edge(edge), 4, &[]);
        }
        builder.commit().unwrap();
        disk
    }
}

fn tensor(builder: &mut StoreBuilder, owner: Owner, row_bytes: u64, rows: &[u8]) {
    let (dtype, shape) = (Dtype::U8, vec![row_bytes]);
    let spec = TensorSpec { name: "x".into(), dtype, shape, mask_width: None };
    let mut writer = builder.tensor(owner, spec).unwrap();
    writer.push_rows(rows).unwrap();
    builder.add(writer.finish().unwrap()).unwrap();
}

/// Opens it with so much memory that no checkpoint starts by itself.
pub fn open(disk: &MemDisk) -> Store {
    let options = OpenOptions { memory: Some(256 << 20), ..OpenOptions::default() };
    Store::open_on(Arc::new(disk.clone()), &options).unwrap()
}

/// Does something at random; what the store refuses is left out.
pub fn step(tx: &mut Transaction, shape: &Shape, random: &mut Random) {
    let bound = tx.catalog().unwrap().node_types[0].num_nodes;
    // Squares make hubs.
    let (a, b) = (random.below(bound), random.below(bound) * random.below(bound) / bound);
    match random.below(400) {
        0 => drop(tx.delete_node(NODES, b)),
        1..10 => drop(tx.add_node(NODES)),
        10..50 => drop(tx.delete_edge(EDGES, a, b, None)),
        50..90 => drop(tx.set_row(ROWS, a, &random.bytes(shape.row_bytes as usize))),
        _ => {
            let data = EdgeData { time: random.below(50) as i64 - 25, weight: 0.5 };
            drop(tx.add_edge(EDGES, a, b, data));
        }
    }
}

/// A transaction of `count` steps.
pub fn change(store: &Store, shape: &Shape, random: &mut Random, count: u64) {
    let mut tx = store.write().unwrap();
    (0..count).for_each(|_| step(&mut tx, shape, random));
    tx.commit().unwrap();
}
