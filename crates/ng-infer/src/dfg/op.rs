//! The operations of a dataflow graph.
//!
//! What lives here: which there are, and how many values each takes and gives. What must not: how
//! any of them is computed. Those of ONNX mean what its operator set 20 says.

use ng_types::Dtype;

/// An operation. [`Op::Scatter`], [`Op::Spmm`] and those after them are of graphs, and
/// [`Op::Linear`] is several in one; the others are those of ONNX with the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Each element by itself.
    Unary(Unary),
    /// Two tensors of shapes that broadcast.
    Binary(Binary),
    /// `alpha * (exp(x) - 1)` below 0, x above.
    Elu {
        /// The factor.
        alpha: f32,
    },
    /// `alpha * x` below 0, x above.
    LeakyRelu {
        /// The factor.
        alpha: f32,
    },
    /// Condition, then, else.
    Where,
    /// Elements as another type.
    Cast(Dtype),
    /// The same value.
    Identity,
    /// Product of matrices, or of stacks of them.
    MatMul,
    /// Rows times a matrix in steps of 8 bits: rows, steps (`[in, out]`, I8), the value of a step
    /// in each column, and what is added to each. Each row is rounded to 127 steps to either side
    /// of 0, and the products of steps are summed exactly. A row that is not finite gives NaN.
    QuantisedLinear,
    /// Numbers in a fixed-point format, as I64: the nearest multiple, ties to the even one.
    ToFixed(FixedFormat),
    /// The numbers that fixed-point ones with so many fraction bits stand for.
    FromFixed {
        /// Bits behind the point.
        fraction: i32,
    },
    /// Fixed-point numbers with fewer fraction bits, rounded as [`Op::ToFixed`] does.
    FixedRescale {
        /// Of the result, with the sign; what is beyond them becomes the largest or smallest.
        bits: u32,
        /// How many fraction bits fewer; more if negative.
        shift: i32,
    },
    /// Rows times a matrix of whole numbers (I64 and I64 or I8): exact, or the largest or smallest
    /// number.
    FixedMatMul,
    /// [`Op::Scatter`] of whole numbers, but for Mul. A mean is rounded to nearest, ties to even.
    FixedScatter(Reduction),
    /// `alpha * A * B + beta * C`, where A and B may be transposed; C may be missing.
    Gemm {
        /// Factor of the product.
        alpha: f32,
        /// Factor of C.
        beta: f32,
        /// Whether A is transposed first.
        trans_a: bool,
        /// Whether B is transposed first.
        trans_b: bool,
    },
    /// A value over axes, which are the second input; all axes if that is missing.
    Reduce {
        /// Which value.
        how: Reduction,
        /// Whether the axes stay, with length 1.
        keep_dims: bool,
    },
    /// Exponentials over their sum along an axis.
    Softmax {
        /// The axis; negative from the end.
        axis: i64,
    },
    /// The logarithm of that.
    LogSoftmax {
        /// The axis; negative from the end.
        axis: i64,
    },
    /// The dimensions from `start` to `end`, as I64.
    Shape {
        /// The first; negative from the end.
        start: i64,
        /// Behind the last; negative from the end. The rank if `None`.
        end: Option<i64>,
    },
    /// The same elements in the shape of the second input, where -1 is what is left.
    Reshape {
        /// Whether 0 is a length; it keeps the dimension at its place otherwise.
        allow_zero: bool,
    },
    /// Broadcast to the shape of the second input.
    Expand,
    /// Axes in another order; reversed if `None`.
    Transpose {
        /// For each axis of the result the axis that it was.
        perm: Option<Vec<usize>>,
    },
    /// Tensors one behind the other.
    Concat {
        /// The axis; negative from the end.
        axis: i64,
    },
    /// Ranges: data, starts, ends, axes and steps; the last two may be missing.
    Slice,
    /// Without the axes of length 1 that the second input names; without all if that is missing.
    Squeeze,
    /// With axes of length 1 at the places that the second input names.
    Unsqueeze,
    /// Slices along an axis, by index.
    Gather {
        /// The axis; negative from the end.
        axis: i64,
    },
    /// Slices by the lists of indices along the last axis of the second input: one for each of the
    /// first axes.
    GatherNd,
    /// Elements along an axis, by an index of the shape of the result.
    GatherElements {
        /// The axis; negative from the end.
        axis: i64,
    },
    /// The tensor beside itself, as often along each axis as the second input says.
    Tile,
    /// Those slices along an axis for which a flag is set.
    Compress {
        /// The axis; negative from the end. The flattened tensor if `None`.
        axis: Option<i64>,
    },
    /// Numbers from a start up to a limit, in steps.
    Range,
    /// A shape filled with a number.
    ConstantOfShape {
        /// The number.
        value: f64,
        /// Its type: F32, I64 or Bool.
        dtype: Dtype,
    },
    /// Slices of the first input that are combined by the index of the second along axis 0, into
    /// as many as the third says. Where an index never occurs, the result is 0, or 1 for Mul.
    Scatter(Reduction),
    /// Edges (`[2, edges]`), rows (`[nodes, width]`), and a weight for each edge, which may be
    /// missing: for each node the rows of its sources, combined. Without edges as above.
    Spmm(Reduction),
    /// Sources and destinations of edges (`[edges]` each), and the number of nodes: the edges as
    /// lists of destinations. Gives offsets (`[nodes + 1]`: the list of node i goes from offset i
    /// to offset i + 1), the sources in the order of the lists, and for each edge of the lists its
    /// place among the edges that were given. Edges of one destination keep their order.
    EdgeLists,
    /// Rows (`[n, ...]`), the offsets and sources of lists, and weights, which may be missing: for
    /// each list the rows of its sources, combined; an empty list as in [`Op::Scatter`]. Weights
    /// come in the order of the lists. Without 1s at its end, their shape begins that of the
    /// messages, `[edges, ...]`: a weight for each edge, or for each of its heads.
    Aggregate(Reduction),
    /// Rows `a` and `b`, and two indices of one length: for each pair of indices `a` at the first
    /// with `b` at the second. The operation is one that gives F32.
    Sddmm(Binary),
    /// `x * weight + bias` for rows of `x` (`[..., in]`) and a weight of `[in, out]`; the bias
    /// (`[out]`) may be missing.
    Linear {
        /// Whether numbers below 0 become 0.
        relu: bool,
    },
    /// [`Op::Linear`] with a bias, and rows of the shape of the result that are added behind it:
    /// `x`, weight, bias, rows.
    LinearSum {
        /// Whether numbers below 0 become 0.
        relu: bool,
    },
    /// Exponentials over their sum among those with the same index: values, index, and how many
    /// there are.
    EdgeSoftmax,
    /// Edges, then one from each of so many nodes to itself.
    AddSelfLoops,
    /// Edges without those from a node to itself.
    RemoveSelfLoops,
    /// Edges, and a row for each: both without the edges from a node to itself.
    RemoveSelfLoopsAttr,
    /// Edges, a row for each, and a row for each node: the latter with those of the edges from a
    /// node to itself, the last of which stays.
    SelfLoopAttr,
    /// Edges, a weight for each, and how many nodes: weights divided by the roots of the sums of
    /// weights that come to either end (Kipf and Welling 2017); 0 where such a sum is 0.
    GcnNorm,
    /// How many elements of an index are each of so many numbers, as F32.
    Degree,
    /// Rows of several kinds, each times the matrix of its kind: rows (`[n, in]`), kinds (`[n]`),
    /// matrices (`[kinds, in, out]`).
    SegmentMatmul,
    /// Nodes to the edges of their sampled subgraph and the rows of its nodes. Only an engine with
    /// a store has a kernel for it.
    BatchPre,
}

/// A fixed-point format: whole multiples of 2 to the power of `-fraction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedFormat {
    /// Width of a number, with its sign: 2 to 62. What is beyond becomes the largest or smallest.
    pub bits: u32,
    /// Bits behind the point: -252 to 252. All bits may be behind it, or it behind all bits.
    pub fraction: i32,
}

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum $name { $($variant),+ }

        impl $name {
            /// Each of them with its name.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$variant, $text)),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

named! {
    /// Operations on each element: Not of Bool, Neg and Abs also of I64, the others of F32 alone.
    Unary {
        Abs = "Abs", Erf = "Erf", Exp = "Exp", Log = "Log", Neg = "Neg", Not = "Not",
        Reciprocal = "Reciprocal", Relu = "Relu", Sigmoid = "Sigmoid", Softplus = "Softplus",
        Sqrt = "Sqrt", Tanh = "Tanh",
    }
}

named! {
    /// Operations on pairs of elements of one type. Comparisons and And and Or give Bool.
    Binary {
        Add = "Add", And = "And", Div = "Div", Equal = "Equal", Greater = "Greater",
        GreaterOrEqual = "GreaterOrEqual", Less = "Less", LessOrEqual = "LessOrEqual", Max = "Max",
        Min = "Min", Mul = "Mul", Or = "Or", Pow = "Pow", Sub = "Sub",
    }
}

named! {
    /// How many values become one.
    Reduction { Sum = "Sum", Mean = "Mean", Max = "Max", Min = "Min", Mul = "Mul" }
}

impl Binary {
    /// Whether it is a question, whose answer is Bool.
    pub fn is_comparison(self) -> bool {
        use Binary::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        matches!(self, Equal | Greater | GreaterOrEqual | Less | LessOrEqual)
    }

    /// Whether it makes numbers of numbers.
    pub fn is_arithmetic(self) -> bool {
        !self.is_comparison() && !self.is_logical()
    }

    /// Whether it is of Bool.
    pub fn is_logical(self) -> bool {
        matches!(self, Self::And | Self::Or)
    }
}

impl Op {
    /// How many values it takes: at least and at most.
    pub fn inputs(&self) -> (usize, usize) {
        match self {
            Self::Unary(_)
            | Self::Elu { .. }
            | Self::LeakyRelu { .. }
            | Self::Cast(_)
            | Self::Identity
            | Self::Softmax { .. }
            | Self::LogSoftmax { .. }
            | Self::Shape { .. }
            | Self::Transpose { .. }
            | Self::ConstantOfShape { .. }
            | Self::ToFixed(_)
            | Self::FromFixed { .. }
            | Self::FixedRescale { .. }
            | Self::RemoveSelfLoops
            | Self::BatchPre => (1, 1),
            Self::Binary(_)
            | Self::MatMul
            | Self::FixedMatMul
            | Self::Reshape { .. }
            | Self::GatherNd
            | Self::GatherElements { .. }
            | Self::Tile
            | Self::Expand
            | Self::Unsqueeze
            | Self::Gather { .. }
            | Self::Compress { .. }
            | Self::AddSelfLoops
            | Self::RemoveSelfLoopsAttr
            | Self::Degree => (2, 2),
            Self::Reduce { .. } | Self::Squeeze => (1, 2),
            Self::Gemm { .. } | Self::Spmm(_) | Self::Linear { .. } => (2, 3),
            Self::Aggregate(_) => (3, 4),
            Self::Sddmm(_) | Self::LinearSum { .. } => (4, 4),
            Self::Where
            | Self::Range
            | Self::Scatter(_)
            | Self::FixedScatter(_)
            | Self::EdgeLists
            | Self::EdgeSoftmax
            | Self::SelfLoopAttr
            | Self::GcnNorm
            | Self::SegmentMatmul => (3, 3),
            Self::QuantisedLinear => (4, 4),
            Self::Slice => (3, 5),
            Self::Concat { .. } => (1, usize::MAX),
        }
    }

    /// How many values it gives.
    pub fn outputs(&self) -> usize {
        match self {
            Self::BatchPre | Self::RemoveSelfLoopsAttr => 2,
            Self::EdgeLists => 3,
            _ => 1,
        }
    }
}
