//! The reference device: each operation as its definition says, one element after the other.
//!
//! The other devices are tested against it, so it is plain before it is fast. The invariant: sums
//! go in the order of the elements, in f32.

mod edges;
mod elements;
mod layout;
mod products;

use super::{Kernel, KernelError, View, ViewMut};
use crate::dfg::{Op, place};
pub(super) use edges::count;
pub(super) use layout::range_len;

/// The device `cpu-scalar`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar;

impl Kernel for Scalar {
    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
    ) -> Result<(), KernelError> {
        use Op::*;
        let [out] = outputs else { return Err(KernelError::NotServed(op.name())) };
        match op {
            Unary(_) | Elu { .. } | LeakyRelu { .. } => elements::unary(op, &inputs[0], out),
            Softmax { axis } => elements::softmax(&inputs[0], *axis, out, false)?,
            LogSoftmax { axis } => elements::softmax(&inputs[0], *axis, out, true)?,
            Binary(binary) => elements::binary(*binary, &inputs[0], &inputs[1], out)?,
            Where => elements::choose(inputs, out),
            Cast(_) => elements::cast(&inputs[0], out),
            Identity | Reshape | Squeeze | Unsqueeze => layout::copy(&inputs[0], out),
            MatMul => products::mat_mul(&inputs[0], &inputs[1], out),
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
            Compress { axis } => layout::compress(&inputs[0], &inputs[1], *axis, out)?,
            Range => layout::range(inputs, out),
            ConstantOfShape { value, .. } => layout::fill(*value, out),
            Scatter(how) => edges::scatter(*how, inputs, out)?,
            Spmm(how) => edges::spmm(*how, inputs, out)?,
            EdgeSoftmax => edges::softmax(inputs, out)?,
            SelfLoops => edges::self_loops(&inputs[0], &inputs[1], out)?,
            Degree => edges::degree(&inputs[0], out)?,
            SegmentMatMul => products::segment_mat_mul(inputs, out)?,
            BatchPre => return Err(KernelError::NotServed(op.name())),
        }
        Ok(())
    }
}

fn axis_of(axis: i64, of: &View<'_>) -> Result<usize, KernelError> {
    place(axis, of.dims.len()).map_err(KernelError::Misfit)
}

/// How many elements lie before an axis, along it, and behind it.
fn around(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    (dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product())
}

/// For each element of a tensor of shape `to`, in order, the place of the element of `from` that
/// is broadcast to it.
fn broadcast_places(from: &[usize], to: &[usize]) -> impl Iterator<Item = usize> + use<> {
    let mut strides = vec![0; to.len()];
    let mut stride = 1;
    for (axis, len) in from.iter().enumerate().rev() {
        strides[to.len() - from.len() + axis] = if *len == 1 { 0 } else { stride };
        stride *= len;
    }
    strided(to.to_vec(), strides)
}

/// The places of a walk in row-major order, where one step along an axis is a stride.
fn strided(dims: Vec<usize>, strides: Vec<usize>) -> impl Iterator<Item = usize> {
    let count: usize = dims.iter().product();
    let mut index = vec![0; dims.len()];
    let mut at = 0;
    (0..count).map(move |_| {
        let now = at;
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < dims[axis] {
                break;
            }
            at -= strides[axis] * dims[axis];
            index[axis] = 0;
        }
        now
    })
}

/// An index that is below `len`.
fn checked(index: i64, place: usize, len: usize) -> Result<usize, KernelError> {
    let found = usize::try_from(index).ok().filter(|at| *at < len);
    found.ok_or(KernelError::Index { index, place, len })
}
