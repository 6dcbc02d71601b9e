//! The device `cpu`: kernels that use what the processor has, on the threads of the run.
//!
//! What lives here: how operations are split into parts, and the kernels of `ng-simd` that do the
//! parts. What must not: intrinsics. The invariant: no byte depends on the number of threads or on
//! the kernels that the processor has. Shapes that no model has often are left to the reference.

mod broadcast;
mod edges;
mod elements;
mod layout;
mod lists;
mod parallel;
mod products;
mod reduce;
mod walk;
mod weights;

use std::sync::Arc;

use ng_simd::{GraphKernels, Path};

use super::context::Context;
use super::contract::Kernel;
use super::error::KernelError;
use super::scalar::Scalar;
use super::view::{DataMut, View, ViewMut};
use crate::dfg::{Op, Reduction};
use weights::{Matrix, Precision};

/// Operations that are alone of their kind and have a kernel here.
const ALONE: [&str; 20] = [
    "AddSelfLoops",
    "Concat",
    "EdgeLists",
    "EdgeSoftmax",
    "Elu",
    "Expand",
    "GEMM",
    "Gather",
    "GcnNorm",
    "LeakyRelu",
    "Linear",
    "LinearSum",
    "LogSoftmax",
    "MatMul",
    "QuantisedLinear",
    "SegmentMatmul",
    "Slice",
    "Softmax",
    "Transpose",
    "Where",
];

/// The device `cpu`.
///
/// ```
/// use ng_infer::kernel::Cpu;
/// assert!(Cpu::op_names().any(|name| name == "SpMM_Mean"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    kernels: GraphKernels,
    precision: Precision,
}

impl Default for Cpu {
    /// With the fastest kernels that the processor has.
    fn default() -> Self {
        Self { kernels: GraphKernels::best(), precision: Precision::Single }
    }
}

impl Cpu {
    /// With the kernels of `path`, or `None` where the processor lacks them.
    pub fn on(path: Path) -> Option<Self> {
        Some(Self { kernels: GraphKernels::on(path)?, precision: Precision::Single })
    }

    /// The same with constant weights of products in steps of 8 bits: each column has a scale, and
    /// each row that is multiplied gets one. A row with a NaN or an infinity gives NaN. Weights
    /// with one stay f32.
    #[must_use]
    pub fn with_int8_weights(self) -> Self {
        Self { precision: Precision::Int8, ..self }
    }

    /// The names of the operations that it has kernels for. The reference is as good for the
    /// others.
    pub fn op_names() -> impl Iterator<Item = String> {
        use crate::dfg::{Binary, Unary};
        let alone = ALONE.into_iter().map(str::to_owned);
        let unary = Unary::ALL.iter().filter(|(unary, _)| *unary != Unary::Not);
        let unary = unary.map(|(unary, _)| Op::Unary(*unary).name());
        let binary = Binary::ALL.iter().filter(|(binary, _)| !binary.is_logical());
        let pairs = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div].map(Op::Sddmm);
        let all = Reduction::ALL.iter().map(|(how, _)| *how);
        let reduce = all.clone().map(|how| Op::Reduce { how, keep_dims: true });
        let of_edges = all.filter(|how| *how != Reduction::Mul);
        let of_edges =
            of_edges.flat_map(|how| [Op::Scatter(how), Op::Spmm(how), Op::Aggregate(how)]);
        let ops = reduce.chain(of_edges).chain(pairs).map(|op| op.name());
        alone.chain(unary).chain(binary.map(|(_, name)| (*name).to_owned())).chain(ops)
    }

    /// Runs an operation with matrices that were packed before, if it has any.
    fn run_with(
        self,
        op: &Op,
        packed: &[Matrix],
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        let kernels = self.kernels;
        if let (Op::EdgeLists, [offsets, sources, places]) = (op, &mut *outputs) {
            let is_done = lists::edge_lists(inputs, offsets.i64(), sources.i64(), places.i64())?;
            return if is_done { Ok(()) } else { Scalar.run(op, inputs, outputs, context) };
        }
        let [out] = &mut *outputs else { return Err(KernelError::NotServed(op.name())) };
        match op {
            Op::MatMul => products::mat_mul(kernels, packed, inputs, out, context)?,
            Op::Gemm { .. } => products::gemm(kernels, packed, (op, inputs), out, context)?,
            Op::Linear { .. } | Op::LinearSum { .. } | Op::QuantisedLinear => {
                products::linear(kernels, packed, (op, inputs), out, context)?;
            }
            Op::SegmentMatmul => {
                products::segment_matmul(kernels, packed, inputs, out, context)?;
            }
            Op::Where => elements::choose(inputs, out, context)?,
            Op::Expand => elements::expand(&inputs[0], out, context)?,
            Op::Concat { axis } => layout::concat(inputs, *axis, out, context)?,
            Op::Transpose { perm } => layout::transpose(&inputs[0], perm.as_deref(), out, context)?,
            Op::Slice => walk::slice(inputs, out, context)?,
            Op::GcnNorm => edges::gcn_norm(inputs, out, context)?,
            Op::AddSelfLoops => edges::add_self_loops(&inputs[0], &inputs[1], out)?,
            _ => {
                if !self.run_if_usual(op, inputs, out, context)? {
                    return Scalar.run(op, inputs, outputs, context);
                }
            }
        }
        Ok(())
    }

    /// Runs an operation, and says whether it did: not for shapes and types that are rare.
    fn run_if_usual(
        self,
        op: &Op,
        inputs: &[View<'_>],
        out: &mut ViewMut<'_>,
        context: &Context,
    ) -> Result<bool, KernelError> {
        let (kernels, first) = (self.kernels, &inputs[0]);
        match op {
            Op::Unary(_) | Op::Elu { .. } | Op::LeakyRelu { .. } => {
                elements::unary(kernels, op, first, out, context)
            }
            Op::Binary(binary) => elements::binary(*binary, first, &inputs[1], out, context),
            Op::Softmax { axis } => reduce::softmax(kernels, first, *axis, false, out, context),
            Op::LogSoftmax { axis } => reduce::softmax(kernels, first, *axis, true, out, context),
            Op::Reduce { how, .. } => reduce::reduce(*how, inputs, out, context),
            Op::Gather { axis } => layout::gather(first, &inputs[1], *axis, out, context),
            Op::Scatter(how) => edges::scatter(kernels, *how, inputs, out, context),
            Op::Spmm(how) => edges::spmm(kernels, *how, inputs, out, context),
            Op::EdgeSoftmax => edges::softmax(kernels, inputs, out, context),
            Op::Sddmm(binary) => edges::sddmm(*binary, inputs, out, context),
            Op::Aggregate(how) => lists::aggregate(kernels, *how, inputs, out.f32(), context),
            _ => Ok(false),
        }
    }
}

impl Cpu {
    /// The same in the elements of an input, `at` a place.
    fn run_in_place_with(
        self,
        op: &Op,
        packed: &[Matrix],
        (at, others): (usize, &[View<'_>]),
        to: &mut ViewMut<'_>,
        context: &Context,
    ) -> Result<(), KernelError> {
        match (op, &mut to.data, others) {
            (Op::Binary(binary), DataMut::F32(_), [other]) => {
                elements::binary_in_place(*binary, at == 1, other, to, context)
            }
            (Op::LinearSum { .. }, ..) if at == 3 => {
                products::linear_onto(self.kernels, packed, (op, others), to, context)
            }
            (_, DataMut::F32(all), []) if elements::cost(op).is_some() => {
                elements::unary_in_place(self.kernels, op, all, context)
            }
            _ => Scalar.run_in_place(op, at, others, to, context),
        }
    }
}

impl Kernel for Cpu {
    fn is_exact_by_row(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        op: &Op,
        constants: &[Option<View<'_>>],
    ) -> Result<Option<Arc<dyn Kernel>>, KernelError> {
        let matrices = products::prepare(op, constants, self.precision)?;
        let prepared = |matrices| Arc::new(Prepared { cpu: *self, matrices }) as Arc<dyn Kernel>;
        Ok(matrices.map(prepared))
    }

    fn takes_rows(&self, op: &Op, input: usize) -> bool {
        // Products of messages are left to the reference.
        let reads_rows = match op {
            Op::Aggregate(how) => *how != Reduction::Mul,
            Op::Gather { axis } => *axis == 0,
            Op::Linear { .. } | Op::LinearSum { .. } | Op::QuantisedLinear => true,
            _ => false,
        };
        reads_rows && input == 0
    }

    fn in_place(&self, op: &Op, input: usize) -> bool {
        match op {
            Op::Binary(binary) => input < 2 && elements::is_in_place(*binary),
            Op::LinearSum { .. } => input == 3,
            _ => input == 0 && elements::cost(op).is_some(),
        }
    }

    fn run_in_place(
        &self,
        op: &Op,
        at: usize,
        others: &[View<'_>],
        to: &mut ViewMut<'_>,
        context: &Context,
    ) -> Result<(), KernelError> {
        self.run_in_place_with(op, &[], (at, others), to, context)
    }

    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        self.run_with(op, &[], inputs, outputs, context)
    }
}

/// The kernel of one node, with its weights.
struct Prepared {
    cpu: Cpu,
    matrices: Vec<Matrix>,
}

impl Kernel for Prepared {
    fn is_exact_by_row(&self) -> bool {
        true
    }

    fn takes_rows(&self, op: &Op, input: usize) -> bool {
        self.cpu.takes_rows(op, input)
    }

    fn in_place(&self, op: &Op, input: usize) -> bool {
        self.cpu.in_place(op, input)
    }

    fn run_in_place(
        &self,
        op: &Op,
        at: usize,
        others: &[View<'_>],
        to: &mut ViewMut<'_>,
        context: &Context,
    ) -> Result<(), KernelError> {
        self.cpu.run_in_place_with(op, &self.matrices, (at, others), to, context)
    }

    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        self.cpu.run_with(op, &self.matrices, inputs, outputs, context)
    }
}
