//! Domains, levels and cuts, and graphs that cannot be analysed.

use crate::common::{f32s, i64s};
use ng_infer::dfg::levels::{Domain, End, Levels, LevelsError, MadeOf, Rows, Space};
use ng_infer::dfg::{
    Binary, Constant, Dfg, DfgError, Dim, Op, Reduction, TensorType, Unary, Value,
};
use ng_types::Dtype;

fn typed(dtype: Dtype, dims: &[&str]) -> TensorType {
    let dim = |text: &&str| text.parse().map_or_else(|_| Dim::symbol(text), |n: i64| Dim::from(n));
    TensorType { dtype, shape: dims.iter().map(dim).collect() }
}

/// A graph under construction, with the values that all layers share.
struct Draft {
    dfg: Dfg,
    x: Value,
    edges: Value,
}

impl Draft {
    fn new() -> Result<Self, DfgError> {
        let mut dfg = Dfg::default();
        let x = dfg.create_in("x", Some(typed(Dtype::F32, &["nodes", "4"])))?;
        let edges = dfg.create_in("edge_index", Some(typed(Dtype::I64, &["2", "edges"])))?;
        Ok(Self { dfg, x, edges })
    }

    fn weight(&mut self, tensor: Constant) -> Result<Value, DfgError> {
        let name = format!("weight {}", self.dfg.values().count());
        self.dfg.create_weight(&name, tensor)
    }

    fn number(&mut self, number: i64) -> Result<Value, DfgError> {
        self.weight(i64s(&[], &[number]))
    }

    fn op(&mut self, op: Op, inputs: &[Value]) -> Result<Value, DfgError> {
        Ok(self.dfg.create_op(op, inputs)?[0])
    }

    fn nodes(&mut self) -> Result<Value, DfgError> {
        let shape = self.op(Op::Shape { start: 0, end: Some(1) }, &[self.x])?;
        self.op(Op::Squeeze, &[shape])
    }

    fn end(&mut self, edges: Value, row: i64) -> Result<Value, DfgError> {
        let row = self.number(row)?;
        self.op(Op::Gather { axis: 0 }, &[edges, row])
    }

    fn gather(&mut self, rows: Value, ends: Value) -> Result<Value, DfgError> {
        self.op(Op::Gather { axis: 0 }, &[rows, ends])
    }

    /// The sum of what the sources of edges have.
    fn sum(&mut self, rows: Value) -> Result<Value, DfgError> {
        let (sources, destinations) = (self.end(self.edges, 0)?, self.end(self.edges, 1)?);
        let messages = self.gather(rows, sources)?;
        let nodes = self.nodes()?;
        self.op(Op::Scatter(Reduction::Sum), &[messages, destinations, nodes])
    }

    fn levels(mut self, out: Value) -> Result<(Dfg, Levels), LevelsError> {
        self.dfg.create_out("out", out)?;
        let levels = self.dfg.levels(&[])?;
        Ok((self.dfg, levels))
    }
}

fn refused(make: impl FnOnce(&mut Draft) -> Result<Value, DfgError>, words: &str) {
    let mut draft = Draft::new().expect("new");
    let out = make(&mut draft).expect("builds");
    let error = draft.levels(out).expect_err("cannot be followed").to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn each_layer_is_one_hop_and_cuts_where_it_gathers() {
    let mut draft = Draft::new().expect("new");
    let build = |draft: &mut Draft| -> Result<[Value; 4], DfgError> {
        let one = draft.sum(draft.x)?;
        let hidden = draft.op(Op::Unary(Unary::Relu), &[one])?;
        let destinations = draft.end(draft.edges, 1)?;
        let beside = draft.gather(hidden, destinations)?;
        let two = draft.sum(hidden)?;
        let both = draft.op(Op::Binary(Binary::Add), &[two, draft.x])?;
        Ok([one, hidden, beside, both])
    };
    let [one, hidden, beside, both] = build(&mut draft).expect("builds");
    let x = draft.x;
    let (dfg, levels) = draft.levels(both).expect("is analysed");
    let level = |value| levels.fact(value).level.to_string();
    assert_eq!([one, hidden, beside, both].map(level), ["1", "1", "1", "2"]);
    assert_eq!(levels.depth(&dfg), 2);
    let cuts: Vec<Value> = levels.cuts().iter().map(|cut| cut.table).collect();
    assert_eq!(cuts, [x, hidden]);
    let messages = dfg.nodes()[levels.cuts()[1].node].outputs[0];
    assert_eq!(level(messages), "1.5");
    let Domain::Rows(rows) = levels.fact(messages).domain else { panic!("has no rows") };
    let Space::Edges { sources, destinations, .. } = levels.space(rows.space) else {
        panic!("has no edges")
    };
    assert!(sources.is_some() && sources == destinations);
    assert!(levels.barriers().is_empty());
}

#[test]
fn functions_of_the_edges_cost_no_hop_and_know_their_loops() {
    let mut draft = Draft::new().expect("new");
    let build = |draft: &mut Draft| -> Result<[Value; 3], DfgError> {
        let nodes = draft.nodes()?;
        let removed = draft.op(Op::RemoveSelfLoops, &[draft.edges])?;
        let looped = draft.op(Op::AddSelfLoops, &[removed, nodes])?;
        let (sources, destinations) = (draft.end(looped, 0)?, draft.end(looped, 1)?);
        let degree = draft.op(Op::Degree, &[destinations, nodes])?;
        let root = draft.op(Op::Unary(Unary::Sqrt), &[degree])?;
        let of_source = draft.gather(root, sources)?;
        let column = draft.weight(i64s(&[1], &[-1]))?;
        let of_source_column = draft.op(Op::Unsqueeze, &[of_source, column])?;
        let rows = draft.gather(draft.x, sources)?;
        let messages = draft.op(Op::Binary(Binary::Mul), &[rows, of_source_column])?;
        let sum = draft.op(Op::Scatter(Reduction::Sum), &[messages, destinations, nodes])?;
        Ok([degree, of_source, sum])
    };
    let [degree, of_source, sum] = build(&mut draft).expect("builds");
    let (_, levels) = draft.levels(sum).expect("is analysed");
    let shown = |value| (levels.fact(value).level.to_string(), levels.fact(value).made_of);
    assert_eq!(shown(degree), ("0".to_owned(), MadeOf::Topology));
    assert_eq!(shown(of_source), ("0".to_owned(), MadeOf::Topology));
    assert_eq!(shown(sum), ("1".to_owned(), MadeOf::NodeRows));
    let Domain::Rows(rows) = levels.fact(of_source).domain else { panic!("has no rows") };
    let Space::Edges { loops, .. } = levels.space(rows.space) else { panic!("has no edges") };
    assert!(loops.removed && loops.added);
}

#[test]
fn rows_are_followed_through_shapes() {
    let mut draft = Draft::new().expect("new");
    let build = |draft: &mut Draft| -> Result<[Value; 4], DfgError> {
        let split = draft.weight(i64s(&[3], &[-1, 2, 2]))?;
        let heads = draft.op(Op::Reshape { allow_zero: false }, &[draft.x, split])?;
        let turned = draft.op(Op::Transpose { perm: Some(vec![1, 0, 2]) }, &[heads])?;
        let twice = draft.op(Op::Concat { axis: 0 }, &[draft.x, draft.x])?;
        let stack = draft.weight(i64s(&[3], &[2, -1, 4]))?;
        let stacked = draft.op(Op::Reshape { allow_zero: false }, &[twice, stack])?;
        let first = draft.weight(i64s(&[1], &[0]))?;
        let how = Op::Reduce { how: Reduction::Sum, keep_dims: false };
        let sum = draft.op(how, &[stacked, first])?;
        Ok([turned, twice, stacked, sum])
    };
    let all = build(&mut draft).expect("builds");
    let (_, levels) = draft.levels(all[3]).expect("is analysed");
    let shown = |value| match levels.fact(value).domain {
        Domain::Rows(Rows { axis, outer, inner, .. }) => (axis, outer, inner),
        _ => panic!("has no rows"),
    };
    assert_eq!(all.map(shown), [(1, 1, 1), (0, 2, 1), (1, 1, 1), (0, 1, 1)]);
}

#[test]
fn kinds_of_edges_are_places_of_their_destinations() {
    let mut draft = Draft::new().expect("new");
    let build = |draft: &mut Draft| -> Result<[Value; 2], DfgError> {
        let kinds = draft.dfg.create_in("kinds", Some(typed(Dtype::I64, &["edges"])))?;
        let three = draft.number(3)?;
        let (sources, destinations) = (draft.end(draft.edges, 0)?, draft.end(draft.edges, 1)?);
        let scaled = draft.op(Op::Binary(Binary::Mul), &[destinations, three])?;
        let index = draft.op(Op::Binary(Binary::Add), &[scaled, kinds])?;
        let nodes = draft.nodes()?;
        let places = draft.op(Op::Binary(Binary::Mul), &[nodes, three])?;
        let messages = draft.gather(draft.x, sources)?;
        let means = draft.op(Op::Scatter(Reduction::Mean), &[messages, index, places])?;
        let wide = draft.weight(i64s(&[2], &[-1, 12]))?;
        Ok([index, draft.op(Op::Reshape { allow_zero: false }, &[means, wide])?])
    };
    let [index, wide] = build(&mut draft).expect("builds");
    let (_, levels) = draft.levels(wide).expect("is analysed");
    let pointer = levels.fact(index).pointer.expect("holds ends");
    assert_eq!((pointer.end, pointer.times), (End::Destination, 3));
    assert!(matches!(levels.fact(wide).domain, Domain::Rows(rows) if rows.is_plain()));
}

#[test]
fn a_reduction_over_all_nodes_is_a_barrier() {
    let mut draft = Draft::new().expect("new");
    let build = |draft: &mut Draft| -> Result<Value, DfgError> {
        let sum = draft.sum(draft.x)?;
        let first = draft.weight(i64s(&[1], &[0]))?;
        let how = Op::Reduce { how: Reduction::Mean, keep_dims: true };
        let mean = draft.op(how, &[sum, first])?;
        draft.op(Op::Binary(Binary::Sub), &[sum, mean])
    };
    let out = build(&mut draft).expect("builds");
    let (dfg, levels) = draft.levels(out).expect("is analysed");
    let names: Vec<String> =
        levels.barriers().iter().map(|barrier| dfg.nodes()[barrier.node].op.name()).collect();
    assert_eq!(names, ["ReduceMean"]);
    let mut draft = Draft::new().expect("new");
    let batch = draft.dfg.create_in("batch", Some(typed(Dtype::I64, &["nodes"]))).expect("new");
    let graphs = draft.dfg.create_in("graphs", Some(typed(Dtype::I64, &[]))).expect("new");
    let pool = [draft.x, batch, graphs];
    let pooled = draft.op(Op::Scatter(Reduction::Max), &pool).expect("builds");
    let (_, levels) = draft.levels(pooled).expect("is analysed");
    assert_eq!(levels.barriers().len(), 1);
}

#[test]
fn rows_that_cannot_be_followed_are_refused_by_node() {
    let reshape = |draft: &mut Draft, to: &[i64]| {
        let to = draft.weight(i64s(&[to.len()], to))?;
        draft.op(Op::Reshape { allow_zero: false }, &[draft.x, to])
    };
    refused(
        |draft| reshape(draft, &[4, -1]),
        "node 1 (Reshape) cannot be used in layer-wise inference: its new shape does not keep",
    );
    refused(
        |draft| {
            let turned = draft.op(Op::Transpose { perm: None }, &[draft.x])?;
            draft.op(Op::MatMul, &[turned, draft.x])
        },
        "node 2 (MatMul) cannot be used in layer-wise inference: it multiplies the rows",
    );
    refused(
        |draft| {
            let own = draft.weight(f32s(&[5, 4], &[0.0; 20]))?;
            draft.op(Op::Binary(Binary::Add), &[draft.x, own])
        },
        "(Add) cannot be used in layer-wise inference: it combines rows with a constant",
    );
    refused(
        |draft| {
            let list = draft.weight(i64s(&[2], &[0, 1]))?;
            draft.op(Op::Gather { axis: 0 }, &[draft.x, list])
        },
        "(Gather) cannot be used in layer-wise inference: it indexes rows by numbers that are not",
    );
    refused(
        |draft| {
            let sources = draft.end(draft.edges, 0)?;
            let destinations = draft.end(draft.edges, 1)?;
            let messages = draft.gather(draft.x, destinations)?;
            let nodes = draft.nodes()?;
            draft.op(Op::Scatter(Reduction::Sum), &[messages, sources, nodes])
        },
        "(ScatterSum) cannot be used in layer-wise inference: it reduces by source",
    );
    refused(
        |draft| {
            let (zero, one) = (draft.number(0)?, draft.number(1)?);
            let nodes = draft.nodes()?;
            draft.op(Op::Range, &[zero, nodes, one])
        },
        "(Range) cannot be used in layer-wise inference: it creates rows whose values depend",
    );
}
