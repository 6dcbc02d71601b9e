//! Small models and batches in hop order.

#![allow(dead_code)]

use ng_infer::dfg::{
    Binary, Constant, Dfg, Dim, Elements, Op, Reduction, TensorType, Unary, Value,
};
use ng_infer::kernel::{Context, View};
use ng_infer::plan::{Explanation, Options, Plan};
use ng_infer::run::{Devices, RunError};
use ng_testing::Random;
use ng_types::Dtype;

pub const WIDTH: usize = 6;

pub fn random_f32s(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect()
}

pub fn tensor(dims: &[usize], all: Vec<f32>) -> Constant {
    Constant::new(dims.to_vec(), Elements::F32(all)).expect("as many as the shape says")
}

pub fn whole(dims: &[usize], all: Vec<i64>) -> Constant {
    Constant::new(dims.to_vec(), Elements::I64(all)).expect("as many as the shape says")
}

/// A graph that is built, and what its weights are drawn from.
pub struct Build {
    pub dfg: Dfg,
    pub random: Random,
    pub x: Value,
    pub edges: Value,
    /// How many nodes there are, and the ends of edges.
    pub nodes: Value,
    pub sources: Value,
    pub destinations: Value,
}

impl Build {
    /// With `x` and `edge_index`; with a loop of each node if `loops`.
    pub fn new(seed: u64, loops: bool) -> Self {
        let mut dfg = Dfg::default();
        let typed = |dtype, shape: [Dim; 2]| Some(TensorType { dtype, shape: shape.into() });
        let rows = typed(Dtype::F32, [Dim::symbol("nodes"), Dim::from(WIDTH as i64)]);
        let x = dfg.create_in("x", rows).expect("new");
        let pairs = typed(Dtype::I64, [Dim::from(2), Dim::symbol("edges")]);
        let edges = dfg.create_in("edge_index", pairs).expect("new");
        let mut this = Self {
            dfg,
            random: Random::new(seed),
            x,
            edges,
            nodes: x,
            sources: x,
            destinations: x,
        };
        this.nodes = this.op(Op::Shape { start: 0, end: Some(1) }, &[x]);
        if loops {
            let others = this.op(Op::RemoveSelfLoops, &[edges]);
            this.edges = this.op(Op::AddSelfLoops, &[others, this.nodes]);
        }
        let (zero, one) = (this.numbers(&[], &[0]), this.numbers(&[], &[1]));
        this.sources = this.op(Op::Gather { axis: 0 }, &[this.edges, zero]);
        this.destinations = this.op(Op::Gather { axis: 0 }, &[this.edges, one]);
        this
    }

    pub fn op(&mut self, op: Op, inputs: &[Value]) -> Value {
        self.dfg.create_op(op, inputs).expect("fits")[0]
    }

    pub fn constant(&mut self, tensor: Constant) -> Value {
        let name = format!("weight {}", self.dfg.values().count());
        self.dfg.create_weight(&name, tensor).expect("new")
    }

    pub fn numbers(&mut self, dims: &[usize], all: &[i64]) -> Value {
        self.constant(whole(dims, all.to_vec()))
    }

    pub fn weight(&mut self, dims: &[usize]) -> Value {
        let all = random_f32s(&mut self.random, dims.iter().product());
        self.constant(tensor(dims, all))
    }

    pub fn sent(&mut self, rows: Value) -> Value {
        let sources = self.sources;
        self.op(Op::Gather { axis: -2 }, &[rows, sources])
    }

    pub fn scattered(&mut self, how: Reduction, messages: Value) -> Value {
        let (to, nodes) = (self.destinations, self.nodes);
        self.op(Op::Scatter(how), &[messages, to, nodes])
    }

    /// A product with a weight and a bias, as exporters write it.
    pub fn linear(&mut self, x: Value, from: usize, to: usize) -> Value {
        let (weight, bias) = (self.weight(&[from, to]), self.weight(&[to]));
        let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false };
        self.op(gemm, &[x, weight, bias])
    }

    pub fn relu(&mut self, x: Value) -> Value {
        self.op(Op::Unary(Unary::Relu), &[x])
    }

    pub fn sage(&mut self, how: Reduction, x: Value, from: usize, to: usize) -> Value {
        let messages = self.sent(x);
        let sums = self.scattered(how, messages);
        let sums = self.linear(sums, from, to);
        let weight = self.weight(&[from, to]);
        let own = self.op(Op::MatMul, &[x, weight]);
        self.op(Op::Binary(Binary::Add), &[sums, own])
    }

    pub fn gcn(&mut self, x: Value, from: usize, to: usize) -> Value {
        let count = self.op(Op::Shape { start: 0, end: Some(1) }, &[self.sources]);
        let one = self.constant(tensor(&[1], vec![1.0]));
        let ones = self.op(Op::Expand, &[one, count]);
        let norm = self.op(Op::GcnNorm, &[self.edges, ones, self.nodes]);
        let column = self.numbers(&[2], &[-1, 1]);
        let norm = self.op(Op::Reshape { allow_zero: false }, &[norm, column]);
        let weight = self.weight(&[from, to]);
        let x = self.op(Op::MatMul, &[x, weight]);
        let messages = self.sent(x);
        let messages = self.op(Op::Binary(Binary::Mul), &[norm, messages]);
        let sums = self.scattered(Reduction::Sum, messages);
        let bias = self.weight(&[to]);
        self.op(Op::Binary(Binary::Add), &[sums, bias])
    }

    pub fn gin(&mut self, x: Value, from: usize, to: usize) -> Value {
        let messages = self.sent(x);
        let sums = self.scattered(Reduction::Sum, messages);
        let own = self.constant(tensor(&[], vec![1.5]));
        let own = self.op(Op::Binary(Binary::Mul), &[own, x]);
        let all = self.op(Op::Binary(Binary::Add), &[sums, own]);
        self.linear(all, from, to)
    }

    /// Two heads of `to / 2` each.
    pub fn gat(&mut self, x: Value, from: usize, to: usize) -> Value {
        let half = to as i64 / 2;
        let weight = self.weight(&[from, to]);
        let x = self.op(Op::MatMul, &[x, weight]);
        let heads = self.numbers(&[3], &[-1, 2, half]);
        let x = self.op(Op::Reshape { allow_zero: true }, &[x, heads]);
        let last = self.numbers(&[1], &[-1]);
        let mut of_ends = Vec::new();
        for end in [self.sources, self.destinations] {
            let attention = self.weight(&[1, 2, to / 2]);
            let products = self.op(Op::Binary(Binary::Mul), &[x, attention]);
            let sum = Op::Reduce { how: Reduction::Sum, keep_dims: false };
            let logits = self.op(sum, &[products, last]);
            of_ends.push(self.op(Op::Gather { axis: 0 }, &[logits, end]));
        }
        let logits = self.op(Op::Binary(Binary::Add), &of_ends);
        let logits = self.op(Op::LeakyRelu { alpha: 0.2 }, &[logits]);
        let (to_nodes, nodes) = (self.destinations, self.nodes);
        let weights = self.op(Op::EdgeSoftmax, &[logits, to_nodes, nodes]);
        let weights = self.op(Op::Unsqueeze, &[weights, last]);
        let sources = self.sources;
        let messages = self.op(Op::Gather { axis: 0 }, &[x, sources]);
        let messages = self.op(Op::Binary(Binary::Mul), &[weights, messages]);
        let sums = self.scattered(Reduction::Sum, messages);
        let flat = self.numbers(&[2], &[-1, to as i64]);
        self.op(Op::Reshape { allow_zero: true }, &[sums, flat])
    }

    /// Messages that no fusion knows: of both ends, through an operation of their own.
    pub fn custom(&mut self, x: Value, from: usize, to: usize) -> Value {
        let messages = self.sent(x);
        let (of, at) = (self.destinations, Op::Gather { axis: 0 });
        let own = self.op(at, &[x, of]);
        let differences = self.op(Op::Binary(Binary::Sub), &[messages, own]);
        let both = self.op(Op::Concat { axis: -1 }, &[own, differences]);
        let messages = self.linear(both, 2 * from, to);
        self.scattered(Reduction::Max, messages)
    }
}

/// Models by name.
pub fn models() -> Vec<(&'static str, Dfg)> {
    let make = |loops, of: &dyn Fn(&mut Build) -> Value| {
        let mut build = Build::new(7, loops);
        let out = of(&mut build);
        build.dfg.create_out("out", out).expect("new");
        build.dfg
    };
    let two = |layer: fn(&mut Build, Value, usize, usize) -> Value| {
        move |build: &mut Build| {
            let h = layer(build, build.x, WIDTH, 4);
            let h = build.relu(h);
            layer(build, h, 4, 2)
        }
    };
    let sage = |how| {
        move |build: &mut Build| {
            let h = build.sage(how, build.x, WIDTH, 4);
            let h = build.relu(h);
            build.sage(how, h, 4, 3)
        }
    };
    let jumping = |build: &mut Build| {
        let one = build.sage(Reduction::Mean, build.x, WIDTH, 4);
        let one = build.relu(one);
        let two = build.gin(one, 4, 4);
        let three = build.gcn(two, 4, 4);
        build.op(Op::Concat { axis: -1 }, &[one, two, three])
    };
    let spmm = |build: &mut Build| {
        let edges = build.edges;
        let h = build.op(Op::Spmm(Reduction::Mean), &[edges, build.x]);
        let h = build.linear(h, WIDTH, 4);
        let h = build.relu(h);
        build.op(Op::Spmm(Reduction::Max), &[edges, h])
    };
    vec![
        ("SAGE sum", make(false, &sage(Reduction::Sum))),
        ("SAGE mean", make(false, &sage(Reduction::Mean))),
        ("SAGE max", make(false, &sage(Reduction::Max))),
        ("SAGE min", make(false, &sage(Reduction::Min))),
        ("GCN", make(false, &two(Build::gcn))),
        ("GCN with loops", make(true, &two(Build::gcn))),
        ("GIN", make(false, &two(Build::gin))),
        ("GAT", make(false, &two(Build::gat))),
        ("GAT with loops", make(true, &two(Build::gat))),
        ("custom", make(false, &two(Build::custom))),
        ("custom with loops", make(true, &two(Build::custom))),
        ("jumping", make(true, &jumping)),
        ("SpMM", make(false, &spmm)),
    ]
}

/// A batch in hop order.
pub struct Batch {
    pub x: Constant,
    pub edges: Constant,
    pub hops: Vec<usize>,
}

impl Batch {
    /// `seeds` seeds and so many hops; nodes have up to `most` edges, from new nodes or known ones.
    pub fn new(random: &mut Random, seeds: usize, hops: usize, most: u64) -> Self {
        let (mut counts, mut ends) = (vec![seeds], (Vec::new(), Vec::new()));
        for _ in 0..hops {
            let known: usize = counts.iter().sum();
            let last = counts[counts.len() - 1];
            let mut new = 0;
            for node in known - last..known {
                for _ in 0..random.below(most + 1) {
                    let is_new = random.below(2) == 0;
                    let source = random.below((known + new) as u64) as usize;
                    ends.0.push(if is_new { known + new } else { source } as i64);
                    ends.1.push(node as i64);
                    new += usize::from(is_new);
                }
            }
            counts.push(new);
        }
        let nodes: usize = counts.iter().sum();
        let count = ends.0.len();
        ends.0.append(&mut ends.1);
        Self {
            x: tensor(&[nodes, WIDTH], random_f32s(random, nodes * WIDTH)),
            edges: whole(&[2, count], ends.0),
            hops: counts,
        }
    }

    pub fn inputs(&self) -> [(&str, View<'_>); 2] {
        [("x", view_of(&self.x)), ("edge_index", view_of(&self.edges))]
    }
}

pub fn view_of(tensor: &Constant) -> View<'_> {
    View::new(tensor.dims(), tensor.elements())
}

pub fn options(fuse: bool, trim: bool) -> Options {
    Options { fuse, trim, ..Options::default() }
}

pub fn plan(dfg: &Dfg, options: &Options) -> Plan {
    Plan::new(dfg, &Devices::default(), options).unwrap_or_else(|error| panic!("{error}"))
}

/// What a plan gives, with all hops or without.
pub fn run(plan: &Plan, batch: &Batch, with_hops: bool) -> Result<Vec<Constant>, RunError> {
    let hops = [("nodes", batch.hops.as_slice())];
    let hops = if with_hops { &hops[..] } else { &[] };
    Ok(plan.run(&batch.inputs(), hops, &Context::default())?.to_constants())
}

pub fn ops(told: &Explanation) -> Vec<String> {
    told.steps.iter().map(|step| step.op.clone()).collect()
}

/// The first rows.
pub fn first(of: &Constant, rows: usize) -> Constant {
    let width: usize = of.dims()[1..].iter().product();
    let Elements::F32(all) = of.elements() else { panic!("f32 expected") };
    let dims = [&[rows], &of.dims()[1..]].concat();
    tensor(&dims, all[..rows * width].to_vec())
}
