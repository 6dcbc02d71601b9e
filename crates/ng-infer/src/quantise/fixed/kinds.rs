//! Which operations are done in whole numbers, and which of their values are rounded.
//!
//! The invariant: what is multiplied, gathered or given is rounded; sums of products stay wide
//! until then.

use ng_types::Dtype;

use crate::dfg::{Binary, Dfg, Node, Op, Reduction, Source, TensorType, Unary, Value};

/// How an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A product with a matrix: always in whole numbers.
    Product,
    /// Numbers times numbers, in whole numbers if one of them is.
    Times,
    /// Sums, extremes and choices, in whole numbers if one of them is.
    Sum,
    /// Elements that only move, as whatever they are.
    Move,
    /// All else: single precision, or not of numbers at all.
    Float,
}

fn kind(node: &Node, types: &[TensorType]) -> Kind {
    let shape = |at: usize| &types[node.inputs[at].0].shape;
    let numbers = |value: &Value| types[value.0].dtype == Dtype::F32;
    if !node.outputs.iter().chain(&node.inputs).any(numbers) {
        return Kind::Float;
    }
    match node.op {
        Op::MatMul if shape(1).len() == 2 => Kind::Product,
        Op::Gemm { alpha, beta, trans_a, .. } if alpha == 1.0 && beta == 1.0 && !trans_a => {
            Kind::Product
        }
        Op::Linear { .. } => Kind::Product,
        Op::Binary(Binary::Mul) => Kind::Times,
        Op::Binary(Binary::Add | Binary::Sub | Binary::Max | Binary::Min)
        | Op::Unary(Unary::Relu | Unary::Neg | Unary::Abs)
        | Op::Where
        | Op::Concat { .. } => Kind::Sum,
        Op::Scatter(how) if how != Reduction::Mul => Kind::Sum,
        Op::Reduce { how: Reduction::Sum | Reduction::Max | Reduction::Min, .. } => Kind::Sum,
        Op::Identity
        | Op::Reshape { .. }
        | Op::Expand
        | Op::Transpose { .. }
        | Op::Slice
        | Op::Squeeze
        | Op::Unsqueeze
        | Op::Gather { .. }
        | Op::GatherNd
        | Op::GatherElements { .. }
        | Op::Tile
        | Op::Compress { .. } => Kind::Move,
        _ => Kind::Float,
    }
}

/// What is found of a graph before any format is known.
pub(super) struct Kinds {
    /// By node.
    pub nodes: Vec<Kind>,
    /// By value, whether it is a whole number in the end.
    is_fixed: Vec<bool>,
    /// By value, whether it has a format.
    is_rounded: Vec<bool>,
    numbers: Vec<bool>,
}

impl Kinds {
    pub fn new(dfg: &Dfg, types: &[TensorType]) -> Self {
        let nodes: Vec<Kind> = dfg.nodes().iter().map(|node| kind(node, types)).collect();
        let numbers: Vec<bool> = types.iter().map(|known| known.dtype == Dtype::F32).collect();
        let nothing = vec![false; types.len()];
        let mut this = Self { nodes, is_fixed: nothing.clone(), is_rounded: nothing, numbers };
        this.find_fixed(dfg);
        this.find_rounded(dfg);
        this
    }

    /// Whether a value is of single precision in the graph as it was.
    pub fn is_number(&self, value: Value) -> bool {
        self.numbers[value.0]
    }

    /// Whether a node is done in whole numbers.
    pub fn is_whole(&self, dfg: &Dfg, node: usize) -> bool {
        self.is_fixed[dfg.nodes()[node].outputs[0].0]
    }

    /// Whether a value gets a format where it comes from. Elements that only moved have that of
    /// before.
    pub fn is_point(&self, dfg: &Dfg, value: Value) -> bool {
        let moved = match dfg.source(value) {
            Source::Node { node, .. } => self.nodes[*node] == Kind::Move,
            _ => false,
        };
        self.is_rounded[value.0] && !moved
    }

    fn find_fixed(&mut self, dfg: &Dfg) {
        for value in dfg.values() {
            if !self.is_number(value) {
                continue;
            }
            self.is_fixed[value.0] = match dfg.source(value) {
                Source::Input { .. } => true,
                Source::Weight(_) => false,
                Source::Node { node, .. } => match self.nodes[*node] {
                    Kind::Product => true,
                    Kind::Float => false,
                    Kind::Times | Kind::Sum | Kind::Move => {
                        dfg.nodes()[*node].inputs.iter().any(|of| self.is_fixed[of.0])
                    }
                },
            };
        }
    }

    fn find_rounded(&mut self, dfg: &Dfg) {
        for (_, value) in dfg.outputs() {
            self.is_rounded[value.0] |= self.is_fixed[value.0];
        }
        for (at, node) in dfg.nodes().iter().enumerate().rev() {
            let (kind, is_whole) = (self.nodes[at], self.is_whole(dfg, at));
            let out = self.is_rounded[node.outputs[0].0];
            for (place, value) in node.inputs.iter().enumerate() {
                if !self.is_number(*value) || matches!(node.op, Op::Shape { .. }) {
                    continue;
                }
                let is_fixed = self.is_fixed[value.0];
                let is_weight = matches!(dfg.source(*value), Source::Weight(_));
                self.is_rounded[value.0] |= match (kind, is_whole) {
                    // A bias is added to the sum in its format.
                    (Kind::Product, _) => place < 2 || !is_weight && !is_fixed,
                    (Kind::Times, true) => true,
                    (Kind::Sum, true) => !(is_fixed || is_weight && is_added(&node.op)),
                    // Rows that edges take are stored before.
                    (Kind::Move, whole) => out || whole && matches!(node.op, Op::Gather { .. }),
                    (Kind::Times | Kind::Sum | Kind::Float, _) => is_fixed,
                };
            }
        }
        for value in dfg.inputs().map(|(value, _)| value) {
            // Nothing is done with an input before it has a format.
            self.is_rounded[value.0] = self.is_fixed[value.0];
        }
    }
}

/// Whether a weight takes the format of what it is combined with.
pub(super) fn is_added(op: &Op) -> bool {
    matches!(op, Op::Binary(_) | Op::Where)
}
