//! Small graphs that change, and models for them.

use std::sync::Arc;

use ng_engine::ModelFile;
use ng_infer::dfg::{Binary, Constant, Dfg, Elements, Op, Reduction, Value};
use ng_store::{
    BuildOptions, EdgeData, EdgeTypeSpec, Entry, Expansion, OpenOptions, Owner, Store,
    StoreBuilder, TensorSpec, Transaction,
};
use ng_testing::{MemDisk, Random};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

/// Elements of a row.
const WIDTH: usize = 4;

/// Which edges there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One type of nodes; edges have a reverse index.
    Directed,
    /// One type of nodes; edges have none.
    WithoutReverse,
    /// One type of nodes.
    Undirected,
    /// Two types of nodes, edges from each to the other, with reverse indexes.
    TwoTypes,
}

/// What a layer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The mean of neighbours, and the node itself.
    Sage,
    /// A sum of neighbours over their in-degrees.
    Degrees,
}

impl Shape {
    pub fn num_node_types(self) -> u16 {
        if self == Self::TwoTypes { 2 } else { 1 }
    }

    /// Source, destination and reverse of each edge type.
    pub fn edge_types(self) -> &'static [(u16, u16, Option<u16>)] {
        match self {
            Self::Directed => &[(0, 0, Some(1)), (0, 0, Some(0))],
            Self::WithoutReverse => &[(0, 0, None)],
            Self::Undirected => &[(0, 0, Some(0))],
            Self::TwoTypes => &[(0, 1, Some(1)), (1, 0, Some(0)), (1, 0, Some(3)), (0, 1, Some(2))],
        }
    }

    /// Edge types that are no reverse indexes.
    pub fn own(self) -> impl Iterator<Item = u16> {
        let all = self.edge_types();
        (0..all.len() as u16).filter(|at| all[usize::from(*at)].2.is_none_or(|other| other >= *at))
    }

    /// Fanouts, the same for each hop, of the edge types that are no reverse indexes.
    pub fn fanouts(self, fanout: i64, hops: usize) -> ng_sample::Fanouts {
        let all = 0..self.edge_types().len() as u16;
        let of = |id: u16| vec![if self.own().any(|own| own == id) { fanout } else { 0 }; hops];
        ng_sample::Fanouts::new(all.map(of).collect()).expect("fanouts")
    }

    /// A store of `nodes` nodes of each type, with some two edges to each.
    pub fn build(self, nodes: u64, random: &mut Random) -> MemDisk {
        let disk = MemDisk::new();
        let options = BuildOptions { reuse_ids: true, ..BuildOptions::default() };
        let mut builder = StoreBuilder::on_disk(Arc::new(disk.clone()), options).expect("builder");
        for at in 0..self.num_node_types() {
            builder.node_type(&format!("n{at}"), nodes).expect("node type");
        }
        let mut lists = vec![vec![Vec::new(); nodes as usize]; self.edge_types().len()];
        for id in self.own() {
            for _ in 0..2 * nodes {
                let (source, destination) = (random.below(nodes), random.below(nodes));
                lists[usize::from(id)][destination as usize].push(source);
                if let Some(reverse) = self.edge_types()[usize::from(id)].2
                    && (reverse != id || source != destination)
                {
                    lists[usize::from(reverse)][source as usize].push(destination);
                }
            }
        }
        for (at, (source, destination, reverse)) in self.edge_types().iter().enumerate() {
            let spec = EdgeTypeSpec {
                source: NodeTypeId(*source),
                relation: format!("r{at}"),
                destination: NodeTypeId(*destination),
                undirected: *reverse == Some(at as u16),
                unique: false,
                has_edge_ids: false,
                has_time: false,
                has_weight: false,
            };
            builder.edge_type(spec).expect("edge type");
        }
        for (at, (_, _, reverse)) in self.edge_types().iter().enumerate() {
            let id = EdgeTypeId(at as u16);
            if let Some(reverse) = reverse {
                builder.set_reverse(id, EdgeTypeId(*reverse)).expect("reverse");
            }
            let mut writer = builder.topology(id).expect("writer");
            for (node, list) in (0..).zip(&mut lists[at]) {
                list.sort_unstable();
                for source in list {
                    let entry = Entry { source: *source, edge_id: 0, time: 0, weight: 0.0 };
                    writer.push(node, entry).expect("entry");
                }
            }
            builder.add(writer.finish().expect("lists")).expect("lists");
        }
        for node_type in (0..self.num_node_types()).map(NodeTypeId) {
            for name in ["x", "unused"] {
                let (name, shape) = (name.to_owned(), vec![WIDTH as u64]);
                let spec = TensorSpec { name, dtype: Dtype::F32, shape, mask_width: None };
                let mut writer = builder.tensor(Owner::Node(node_type), spec).expect("tensor");
                (0..nodes).for_each(|_| writer.push_rows(&row(random)).expect("row"));
                builder.add(writer.finish().expect("rows")).expect("rows");
            }
        }
        builder.commit().expect("commit");
        disk
    }

    /// A model of layers that are alike; it answers for nodes of the last type.
    pub fn model(self, layer: Layer, layers: usize) -> ModelFile {
        let mut draft = Draft { graph: Dfg::default(), weights: 0 };
        if self == Self::TwoTypes {
            draft.two_types(layers)
        } else {
            draft.one(layer, layers)
        }
        ModelFile::of_graph(draft.graph)
    }
}

fn row(random: &mut Random) -> Vec<u8> {
    let number = |_| (random.below(1_000) as f32 / 500.0 - 1.0).to_le_bytes();
    (0..WIDTH).flat_map(number).collect()
}

pub fn open(disk: &MemDisk) -> Store {
    let options = OpenOptions { memory: Some(32 << 20), ..OpenOptions::default() };
    Store::open_on(Arc::new(disk.clone()), &options).expect("store")
}

/// One random change; what is refused changes nothing.
pub fn change(store: &Store, tx: &mut Transaction, shape: Shape, random: &mut Random) {
    let node_type = NodeTypeId(random.below(shape.num_node_types().into()) as u16);
    let own: Vec<u16> = shape.own().collect();
    let edge_type = EdgeTypeId(own[random.below(own.len() as u64) as usize]);
    let bound = store.snapshot().catalog().node_types[0]
        .num_nodes
        .min(store.snapshot().catalog().node_types.last().expect("types").num_nodes);
    let (a, b) = (random.below(bound), random.below(bound));
    match random.below(20) {
        0 => drop(tx.delete_node(node_type, a)),
        1 => {
            let new = tx.add_node(node_type).expect("node");
            set(tx, node_type, "x", new, random);
        }
        2..8 => drop(tx.add_edge(edge_type, a, b, EdgeData::default())),
        8..14 => {
            let mut list = Expansion::default();
            store.snapshot().neighbors(edge_type, &[b], &mut list).expect("list");
            if let Some(source) = list.sources.first() {
                let _ = tx.delete_edge(edge_type, *source, b, None);
            }
        }
        14..16 => set(tx, node_type, "unused", a, random),
        _ => set(tx, node_type, "x", a, random),
    }
}

/// Gives a node another row, if it exists.
pub fn set(
    tx: &mut Transaction,
    node_type: NodeTypeId,
    name: &str,
    node: u64,
    random: &mut Random,
) {
    let tensor = tx.tensor(Owner::Node(node_type), name).expect("tensor");
    let _ = tx.set_row(tensor, node, &row(random));
}

struct Draft {
    graph: Dfg,
    weights: usize,
}

impl Draft {
    fn op(&mut self, op: Op, inputs: &[Value]) -> Value {
        self.graph.create_op(op, inputs).expect("operation")[0]
    }

    fn weight(&mut self, dims: &[usize], elements: Elements) -> Value {
        self.weights += 1;
        let weight = Constant::new(dims.to_vec(), elements).expect("weight");
        self.graph.create_weight(&format!("w{}", self.weights), weight).expect("weight")
    }

    /// Rows times a matrix in which no element is 0, so that every change shows.
    fn product(&mut self, rows: Value) -> Value {
        let start = self.weights * 5;
        let weights = (start..start + WIDTH * WIDTH).map(|at| (at % 13) as f32 / 26.0 + 0.1);
        let weights = self.weight(&[WIDTH, WIDTH], Elements::F32(weights.collect()));
        self.op(Op::MatMul, &[rows, weights])
    }

    fn with_own(&mut self, neighbours: Value, own: Value) -> Value {
        let (neighbours, own) = (self.product(neighbours), self.product(own));
        self.op(Op::Binary(Binary::Add), &[neighbours, own])
    }

    fn input(&mut self, name: &str) -> Value {
        self.graph.create_in(name, None).expect("input")
    }

    fn one(&mut self, layer: Layer, layers: usize) {
        let (edges, mut h) = (self.input("edge_index"), self.input("x"));
        let degrees = (layer == Layer::Degrees).then(|| {
            let degrees = self.input("in_degree");
            let shape = self.weight(&[2], Elements::I64(vec![-1, 1]));
            let column = self.op(Op::Reshape { allow_zero: false }, &[degrees, shape]);
            let one = self.weight(&[], Elements::F32(vec![1.0]));
            self.op(Op::Binary(Binary::Add), &[column, one])
        });
        for _ in 0..layers {
            h = match degrees {
                Some(degrees) => {
                    let scaled = self.op(Op::Binary(Binary::Div), &[h, degrees]);
                    let sum = self.op(Op::Spmm(Reduction::Sum), &[edges, scaled]);
                    self.with_own(sum, scaled)
                }
                None => {
                    let mean = self.op(Op::Spmm(Reduction::Mean), &[edges, h]);
                    self.with_own(mean, h)
                }
            };
        }
        self.graph.create_out("out", h).expect("output");
    }

    fn two_types(&mut self, layers: usize) {
        let edges =
            ["n0__r0__n1", "n1__r2__n0"].map(|key| self.input(&format!("edge_index_dict.{key}")));
        let mut h = ["x_dict.n0", "x_dict.n1"].map(|name| self.input(name));
        for _ in 0..layers {
            let to_second = self.mean(edges[0], h[0], h[1]);
            let to_first = self.mean(edges[1], h[1], h[0]);
            h = [self.with_own(to_first, h[0]), self.with_own(to_second, h[1])];
        }
        self.graph.create_out("out", h[1]).expect("output");
    }

    /// The mean of what comes from nodes of one type to those of another.
    fn mean(&mut self, edges: Value, from: Value, to: Value) -> Value {
        let [sources, destinations] = [0, 1].map(|row| {
            let row = self.weight(&[], Elements::I64(vec![row]));
            self.op(Op::Gather { axis: 0 }, &[edges, row])
        });
        let messages = self.op(Op::Gather { axis: 0 }, &[from, sources]);
        let count = self.op(Op::Shape { start: 0, end: Some(1) }, &[to]);
        let count = self.op(Op::Squeeze, &[count]);
        self.op(Op::Scatter(Reduction::Mean), &[messages, destinations, count])
    }
}
