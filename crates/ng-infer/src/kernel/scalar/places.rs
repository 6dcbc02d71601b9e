//! Where elements are: axes, walks, and indices that are checked.

use crate::dfg::place;
use crate::kernel::error::KernelError;
use crate::kernel::view::View;

pub(super) fn axis_of(axis: i64, of: &View<'_>) -> Result<usize, KernelError> {
    place(axis, of.dims.len()).map_err(KernelError::Misfit)
}

/// How many elements lie before an axis, along it, and behind it.
pub(super) fn around(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    (dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product())
}

/// For each element of a tensor of shape `to`, in order, the place of the element of `from` that
/// is broadcast to it.
pub(super) fn broadcast_places(
    from: &[usize],
    to: &[usize],
) -> impl Iterator<Item = usize> + use<> {
    let mut strides = vec![0; to.len()];
    let mut stride = 1;
    for (axis, len) in from.iter().enumerate().rev() {
        strides[to.len() - from.len() + axis] = if *len == 1 { 0 } else { stride };
        stride *= len;
    }
    strided(to.to_vec(), strides)
}

/// The places of a walk in row-major order, where one step along an axis is a stride.
pub(super) fn strided(dims: Vec<usize>, strides: Vec<usize>) -> impl Iterator<Item = usize> {
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
pub(super) fn checked(index: i64, place: usize, len: usize) -> Result<usize, KernelError> {
    let found = usize::try_from(index).ok().filter(|at| *at < len);
    found.ok_or(KernelError::Index { index, place, len })
}
