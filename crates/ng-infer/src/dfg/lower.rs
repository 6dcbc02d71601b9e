//! The same graph in fewer kinds of operations, for whoever computes it edge by edge.
//!
//! Softmax over edges, norms of GCN, degrees and products with sparse matrices become gathers,
//! reductions and operations on elements. A linear layer behind a sum or a mean moves before it
//! where that makes the rows narrower, or no wider. Values keep their names.

use std::collections::HashMap;

use super::constant::{Constant, Elements};
use super::error::DfgError;
use super::graph::{Dfg, Node, Source, Value};
use super::op::{Binary, Op, Reduction, Unary};

/// What the softmax of edges adds to each sum.
const SOFTMAX_SUM_ADDED: f32 = 1e-16;

/// Which linear layers move before the sum or mean that they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// Those that make rows narrower.
    Narrower,
    /// Those that do not make rows wider.
    NoWider,
}

impl Dfg {
    /// The graph in which edges are only gathered for, computed on one by one, and reduced along.
    /// Linear layers move before sums where `moves` says so.
    ///
    /// # Errors
    /// A name that a new value has to have is taken.
    pub fn lowered(&self, moves: Moves) -> Result<Self, DfgError> {
        let narrowed = Narrowed::find(self, moves);
        let mut lowering = Lowering { from: self, to: Self::default(), map: HashMap::new() };
        for value in self.values() {
            let name = self.name(value);
            let made = match self.source(value) {
                Source::Input { wanted } => lowering.to.create_in(name, wanted.clone())?,
                Source::Weight(tensor) => lowering.to.create_weight(name, tensor.clone())?,
                Source::Node { node, output: 0 } if !narrowed.skipped.contains(node) => {
                    let node = &self.nodes()[*node];
                    match narrowed.products.get(&value) {
                        Some(found) => lowering.narrowed(node, found)?,
                        None => lowering.node(node)?,
                    }
                    continue;
                }
                Source::Node { .. } => continue,
            };
            lowering.map.insert(value, made);
        }
        for (name, value) in self.outputs() {
            let value = lowering.get(*value);
            lowering.to.create_out(name, value)?;
        }
        Ok(lowering.to)
    }

    /// How many nodes and outputs take each value.
    fn uses(&self) -> HashMap<Value, usize> {
        let taken = self.nodes().iter().flat_map(|node| &node.inputs);
        let mut uses = HashMap::new();
        for value in taken.chain(self.outputs().iter().map(|(_, value)| value)) {
            *uses.entry(*value).or_default() += 1;
        }
        uses
    }

    /// The node that gives a value as its first one.
    fn maker(&self, value: Value) -> Option<(usize, &Node)> {
        match self.source(value) {
            Source::Node { node, output: 0 } => Some((*node, &self.nodes()[*node])),
            _ => None,
        }
    }
}

/// A linear layer that moves before the reduction whose result it takes.
struct Moved {
    gather: usize,
    scatter: usize,
}

/// The linear layers that make rows narrower, by what they give.
#[derive(Default)]
struct Narrowed {
    products: HashMap<Value, Moved>,
    /// Nodes that come with the product.
    skipped: Vec<usize>,
}

impl Narrowed {
    fn find(dfg: &Dfg, moves: Moves) -> Self {
        let (uses, mut this) = (dfg.uses(), Self::default());
        let is_alone = |value: &Value| uses.get(value) == Some(&1);
        for node in dfg.nodes() {
            let is_narrower = match (&node.op, dfg.source(node.inputs[0])) {
                (Op::MatMul | Op::Gemm { trans_a: false, .. }, Source::Node { .. }) => {
                    let turned = matches!(node.op, Op::Gemm { trans_b: true, .. });
                    let matrix = dfg.source(node.inputs[1]);
                    matches!(matrix, Source::Weight(w) if narrows(w, turned, moves))
                }
                _ => false,
            };
            let plain_c = match node.op {
                Op::Gemm { beta, .. } => beta == 1.0,
                _ => true,
            };
            let reduced = dfg.maker(node.inputs[0]).filter(|_| is_narrower && plain_c);
            let Some((scatter, reduction)) = reduced else { continue };
            let Op::Scatter(Reduction::Sum | Reduction::Mean) = reduction.op else { continue };
            let Some((gather, rows)) = dfg.maker(reduction.inputs[0]) else { continue };
            if matches!(rows.op, Op::Gather { .. })
                && is_alone(&node.inputs[0])
                && is_alone(&reduction.inputs[0])
            {
                this.products.insert(node.outputs[0], Moved { gather, scatter });
                this.skipped.extend([gather, scatter]);
            }
        }
        this
    }
}

/// Whether a matrix gives fewer columns than it takes, or no more of them.
fn narrows(matrix: &Constant, is_turned: bool, moves: Moves) -> bool {
    match (matrix.dims(), is_turned) {
        ([from, to], false) | ([to, from], true) => {
            to < from || (to == from && moves == Moves::NoWider)
        }
        _ => false,
    }
}

struct Lowering<'a> {
    from: &'a Dfg,
    to: Dfg,
    map: HashMap<Value, Value>,
}

impl Lowering<'_> {
    fn get(&self, value: Value) -> Value {
        // Values come in the order in which they were added, so what a node takes is there.
        self.map[&value]
    }

    /// One more node of what `node` becomes; its value is called after that of the node.
    fn step(
        &mut self,
        node: &Node,
        what: &str,
        op: Op,
        inputs: &[Value],
    ) -> Result<Value, DfgError> {
        let name = format!("{}.{what}", self.from.name(node.outputs[0]));
        Ok(self.to.create_named(&node.name, op, inputs, &[name])?[0])
    }

    /// The last node, which gives what `node` gives.
    fn last(&mut self, node: &Node, op: Op, inputs: &[Value]) -> Result<(), DfgError> {
        let names: Vec<String> =
            node.outputs.iter().map(|value| self.from.name(*value).to_owned()).collect();
        let made = self.to.create_named(&node.name, op, inputs, &names)?;
        self.map.extend(node.outputs.iter().copied().zip(made));
        Ok(())
    }

    fn number(&mut self, node: &Node, what: &str, elements: Elements) -> Result<Value, DfgError> {
        let name = format!("{}.{what}", self.from.name(node.outputs[0]));
        // One element, and no dimensions.
        let number = Constant::new(Vec::new(), elements);
        number.map_or(Err(DfgError::NoOutput), |number| self.to.create_weight(&name, number))
    }

    fn end(&mut self, node: &Node, edges: Value, what: &str, row: i64) -> Result<Value, DfgError> {
        let row = self.number(node, &format!("{what}.row"), Elements::I64(vec![row]))?;
        self.step(node, what, Op::Gather { axis: 0 }, &[edges, row])
    }

    fn node(&mut self, node: &Node) -> Result<(), DfgError> {
        let inputs: Vec<Value> = node.inputs.iter().map(|value| self.get(*value)).collect();
        match &node.op {
            Op::EdgeSoftmax => self.softmax(node, &inputs),
            Op::GcnNorm => self.gcn_norm(node, &inputs),
            Op::Degree => {
                let shape = Op::Shape { start: 0, end: None };
                let shape = self.step(node, "edges", shape, &inputs[..1])?;
                let one = self.number(node, "one", Elements::F32(vec![1.0]))?;
                let ones = self.step(node, "ones", Op::Expand, &[one, shape])?;
                self.last(node, Op::Scatter(Reduction::Sum), &[ones, inputs[0], inputs[1]])
            }
            Op::Spmm(how) => self.spmm(node, *how, &inputs),
            op => self.last(node, op.clone(), &inputs),
        }
    }

    fn softmax(&mut self, node: &Node, inputs: &[Value]) -> Result<(), DfgError> {
        let &[logits, index, size] = inputs else {
            return self.last(node, node.op.clone(), inputs);
        };
        let gather = Op::Gather { axis: 0 };
        let top = self.step(node, "max", Op::Scatter(Reduction::Max), &[logits, index, size])?;
        let top = self.step(node, "max.of", gather.clone(), &[top, index])?;
        let below = self.step(node, "below", Op::Binary(Binary::Sub), &[logits, top])?;
        let exp = self.step(node, "exp", Op::Unary(Unary::Exp), &[below])?;
        let sum = self.step(node, "sum", Op::Scatter(Reduction::Sum), &[exp, index, size])?;
        let sum = self.step(node, "sum.of", gather, &[sum, index])?;
        let added = self.number(node, "added", Elements::F32(vec![SOFTMAX_SUM_ADDED]))?;
        let sum = self.step(node, "divisor", Op::Binary(Binary::Add), &[sum, added])?;
        self.last(node, Op::Binary(Binary::Div), &[exp, sum])
    }

    fn gcn_norm(&mut self, node: &Node, inputs: &[Value]) -> Result<(), DfgError> {
        let &[edges, weights, size] = inputs else {
            return self.last(node, node.op.clone(), inputs);
        };
        let gather = Op::Gather { axis: 0 };
        let sources = self.end(node, edges, "sources", 0)?;
        let destinations = self.end(node, edges, "destinations", 1)?;
        let sum = Op::Scatter(Reduction::Sum);
        let degree = self.step(node, "degree", sum, &[weights, destinations, size])?;
        let zero = self.number(node, "zero", Elements::F32(vec![0.0]))?;
        let power = self.number(node, "power", Elements::F32(vec![-0.5]))?;
        let none = self.step(node, "none", Op::Binary(Binary::Equal), &[degree, zero])?;
        let root = self.step(node, "powers", Op::Binary(Binary::Pow), &[degree, power])?;
        let root = self.step(node, "root", Op::Where, &[none, zero, root])?;
        let from = self.step(node, "from", gather.clone(), &[root, sources])?;
        let to = self.step(node, "to", gather, &[root, destinations])?;
        let half = self.step(node, "half", Op::Binary(Binary::Mul), &[from, weights])?;
        self.last(node, Op::Binary(Binary::Mul), &[half, to])
    }

    fn spmm(&mut self, node: &Node, how: Reduction, inputs: &[Value]) -> Result<(), DfgError> {
        let (edges, rows) = (inputs[0], inputs[1]);
        let sources = self.end(node, edges, "sources", 0)?;
        let destinations = self.end(node, edges, "destinations", 1)?;
        let mut messages = self.step(node, "messages", Op::Gather { axis: 0 }, &[rows, sources])?;
        if let Some(weights) = inputs.get(2) {
            let last = self.number(node, "last", Elements::I64(vec![1]))?;
            let column = self.step(node, "column", Op::Unsqueeze, &[*weights, last])?;
            let product = Op::Binary(Binary::Mul);
            messages = self.step(node, "weighted", product, &[messages, column])?;
        }
        let shape = self.step(node, "shape", Op::Shape { start: 0, end: Some(1) }, &[rows])?;
        let size = self.step(node, "size", Op::Squeeze, &[shape])?;
        self.last(node, Op::Scatter(how), &[messages, destinations, size])
    }

    /// The product first, then the gather and the reduction.
    fn narrowed(&mut self, node: &Node, moved: &Moved) -> Result<(), DfgError> {
        let (from, gather) = (self.from, &self.from.nodes()[moved.gather]);
        let scatter = &from.nodes()[moved.scatter];
        let (rows, matrix) = (self.get(gather.inputs[0]), self.get(node.inputs[1]));
        let rows = self.step(node, "narrowed", node.op.clone(), &[rows, matrix])?;
        let sources = self.get(gather.inputs[1]);
        let messages = self.step(node, "messages", gather.op.clone(), &[rows, sources])?;
        let (index, size) = (self.get(scatter.inputs[1]), self.get(scatter.inputs[2]));
        let inputs = [messages, index, size];
        match node.inputs.get(2) {
            None => self.last(node, scatter.op.clone(), &inputs),
            Some(added) => {
                let added = self.get(*added);
                let sum = self.step(node, "reduced", scatter.op.clone(), &inputs)?;
                self.last(node, Op::Binary(Binary::Add), &[sum, added])
            }
        }
    }
}
