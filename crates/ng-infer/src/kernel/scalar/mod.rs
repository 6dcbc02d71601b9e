//! The reference device: each operation as its definition says, one element after the other.
//!
//! The other devices are tested against it, so it is plain before it is fast. The invariant: sums
//! go in the order of the elements, in f32.

mod edges;
mod elements;
mod fixed;
mod layout;
mod lists;
mod places;
mod products;
mod quantised;

use super::context::Context;
use super::contract::Kernel;
use super::error::KernelError;
use super::view::{Data, View, ViewMut};
use crate::dfg::Op;
use places::axis_of;

/// The device `cpu-scalar`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar;

impl Kernel for Scalar {
    fn is_exact_by_row(&self) -> bool {
        true
    }

    fn in_place(&self, op: &Op, input: usize) -> bool {
        match op {
            Op::Unary(_) | Op::Elu { .. } | Op::LeakyRelu { .. } => true,
            Op::Binary(binary) => binary.is_arithmetic() && input < 2,
            _ => false,
        }
    }

    fn run_in_place(
        &self,
        op: &Op,
        at: usize,
        others: &[View<'_>],
        to: &mut ViewMut<'_>,
        _: &Context,
    ) -> Result<(), KernelError> {
        match (op, others) {
            (Op::Binary(binary), [other]) => elements::binary_in_place(*binary, at, other, to),
            _ => {
                elements::unary_in_place(op, to);
                Ok(())
            }
        }
    }

    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        _: &Context,
    ) -> Result<(), KernelError> {
        use Op::*;
        if inputs.iter().any(|view| matches!(view.data, Data::Rows(_))) {
            let problem = format!("{} does not support references to rows", op.name());
            return Err(KernelError::Misfit(problem));
        }
        if let (RemoveSelfLoopsAttr, [edges, rows]) = (op, &mut *outputs) {
            edges::remove_self_loops(&inputs[0], edges);
            edges::keep_others(&inputs[0], &inputs[1], rows);
            return Ok(());
        }
        if let (EdgeLists, [offsets, sources, places]) = (op, &mut *outputs) {
            return lists::edge_lists(inputs, offsets.i64(), sources.i64(), places.i64());
        }
        let [out] = outputs else { return Err(KernelError::NotServed(op.name())) };
        match op {
            Unary(_) | Elu { .. } | LeakyRelu { .. } => elements::unary(op, &inputs[0], out),
            Softmax { axis } => elements::softmax(&inputs[0], *axis, out, false)?,
            LogSoftmax { axis } => elements::softmax(&inputs[0], *axis, out, true)?,
            Binary(binary) => elements::binary(*binary, &inputs[0], &inputs[1], out)?,
            Where => elements::choose(inputs, out),
            Cast(_) => elements::cast(&inputs[0], out),
            Identity | Reshape { .. } | Squeeze | Unsqueeze => layout::copy(&inputs[0], out),
            MatMul => products::mat_mul(&inputs[0], &inputs[1], out),
            QuantisedLinear => quantised::linear(inputs, out),
            ToFixed(format) => fixed::to_fixed(*format, &inputs[0], out)?,
            FromFixed { fraction } => fixed::from_fixed(*fraction, &inputs[0], out),
            FixedRescale { bits, shift } => fixed::rescale(*bits, *shift, &inputs[0], out),
            FixedMatMul => fixed::mat_mul(&inputs[0], &inputs[1], out),
            FixedScatter(how) => fixed::scatter(*how, inputs, out)?,
            Gemm { .. } => products::gemm(op, inputs, out),
            Reduce { how, .. } => products::reduce(*how, inputs, out)?,
            Shape { start, .. } => layout::shape(&inputs[0], *start, out),
            Expand => layout::expand(&inputs[0], out),
            Transpose { perm } => layout::transpose(&inputs[0], perm.as_deref(), out),
            Concat { axis } => layout::concat(inputs, axis_of(*axis, &inputs[0])?, out),
            Slice => layout::slice(inputs, out)?,
            Gather { axis } => {
                layout::gather(&inputs[0], &inputs[1], axis_of(*axis, &inputs[0])?, out)?;
            }
            GatherElements { axis } => {
                let axis = axis_of(*axis, &inputs[0])?;
                layout::gather_elements(&inputs[0], &inputs[1], axis, out)?;
            }
            Tile => layout::tile(&inputs[0], out),
            GatherNd => layout::gather_nd(&inputs[0], &inputs[1], out)?,
            Compress { axis } => layout::compress(&inputs[0], &inputs[1], *axis, out)?,
            Range => layout::range(inputs, out),
            ConstantOfShape { value, .. } => layout::fill(*value, out),
            Scatter(how) => edges::scatter(*how, inputs, out)?,
            Spmm(how) => edges::spmm(*how, inputs, out)?,
            Aggregate(how) => lists::aggregate(*how, inputs, out)?,
            Sddmm(binary) => lists::sddmm(*binary, inputs, out)?,
            Linear { relu } | LinearSum { relu } => products::linear(*relu, inputs, out),
            EdgeSoftmax => edges::softmax(inputs, out)?,
            AddSelfLoops => edges::add_self_loops(&inputs[0], &inputs[1], out)?,
            RemoveSelfLoops => edges::remove_self_loops(&inputs[0], out),
            SelfLoopAttr => edges::self_loop_attr(inputs, out)?,
            GcnNorm => edges::gcn_norm(inputs, out)?,
            Degree => edges::degree(&inputs[0], out)?,
            SegmentMatmul => products::segment_matmul(inputs, out)?,
            BatchPre | RemoveSelfLoopsAttr | EdgeLists => {
                return Err(KernelError::NotServed(op.name()));
            }
        }
        Ok(())
    }
}
