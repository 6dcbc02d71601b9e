//! Walks through a tensor in steps of elements: slices, and axes in another order.

use super::parallel::by_rows;
use crate::dfg::{place, places};
use crate::kernel::context::Context;
use crate::kernel::error::KernelError;
use crate::kernel::view::{Data, DataMut, View, ViewMut};

/// Which elements of a tensor come to a result, in order.
struct Walk {
    /// The place of the first.
    start: i64,
    /// Length and step of each axis of the result but the last.
    outer: Vec<(usize, i64)>,
    /// Elements of a line, and the step from one to the next.
    line: (usize, i64),
}

impl Walk {
    /// From length and step of each axis; axes that go on as one are one.
    fn new(start: i64, axes: impl DoubleEndedIterator<Item = (usize, i64)>) -> Self {
        let mut all: Vec<(usize, i64)> = Vec::new();
        for (len, step) in axes.rev().filter(|(len, _)| *len != 1) {
            match all.last_mut() {
                Some((inner, by)) if step == *by * *inner as i64 => *inner *= len,
                _ => all.push((len, step)),
            }
        }
        let line = if all.is_empty() { (1, 1) } else { all.remove(0) };
        all.reverse();
        Self { start, outer: all, line }
    }

    /// The place of the first element of a line.
    fn first(&self, mut line: usize) -> i64 {
        let mut at = self.start;
        for (len, step) in self.outer.iter().rev() {
            at += (line % len) as i64 * step;
            line /= len;
        }
        at
    }

    fn copy<T: Copy + Send + Sync>(
        &self,
        from: &[T],
        to: &mut [T],
        context: &Context,
    ) -> Result<(), KernelError> {
        let (len, step) = self.line;
        by_rows(context, 2 * to.len(), len, to, |first, to| {
            for (line, to) in to.chunks_exact_mut(len.max(1)).enumerate() {
                let at = self.first(first + line);
                if step == 1 {
                    to.copy_from_slice(&from[at as usize..at as usize + len]);
                } else {
                    let places = (0..len as i64).map(|i| at + i * step);
                    to.iter_mut().zip(places).for_each(|(to, at)| *to = from[at as usize]);
                }
            }
            Ok(())
        })
    }

    fn copy_any(
        &self,
        of: &View<'_>,
        out: &mut ViewMut<'_>,
        context: &Context,
    ) -> Result<(), KernelError> {
        match (of.data, &mut out.data) {
            (Data::F32(from), DataMut::F32(to)) => self.copy(from, to, context),
            (Data::I64(from), DataMut::I64(to)) => self.copy(from, to, context),
            _ => self.copy(of.bool(), out.bool(), context),
        }
    }
}

/// How far apart neighbours along each axis are.
fn strides(dims: &[usize]) -> Vec<i64> {
    (0..dims.len()).map(|axis| dims[axis + 1..].iter().product::<usize>() as i64).collect()
}

pub(super) fn slice(
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let of = &inputs[0];
    // The first place and the step of each axis; of an axis that is named twice, the last.
    let mut taken = vec![(0, 1); of.dims.len()];
    for (at, first) in inputs[1].i64().iter().enumerate() {
        let get = |input: usize| inputs.get(input).map(|list| list.i64()[at]);
        let axis =
            place(get(3).unwrap_or(at as i64), of.dims.len()).map_err(KernelError::Misfit)?;
        let (end, step) = (get(2).unwrap_or(i64::MAX), get(4).unwrap_or(1));
        let first = places(*first, end, step, of.dims[axis] as i64).next();
        taken[axis] = (first.unwrap_or(0), step);
    }
    let strides = strides(of.dims);
    let start = taken.iter().zip(&strides).map(|((first, _), stride)| first * stride).sum();
    let steps = taken.iter().zip(&strides).map(|((_, step), stride)| step.wrapping_mul(*stride));
    let axes: Vec<_> = out.dims.iter().copied().zip(steps).collect();
    Walk::new(start, axes.into_iter()).copy_any(of, out, context)
}

pub(super) fn transpose(
    of: &View<'_>,
    perm: Option<&[usize]>,
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let steps = strides(of.dims);
    let rank = steps.len();
    let axis = |at: usize| perm.map_or(rank - 1 - at, |perm| perm[at]);
    let steps: Vec<i64> = (0..rank).map(|at| steps[axis(at)]).collect();
    let axes = out.dims.iter().copied().zip(steps);
    Walk::new(0, axes).copy_any(of, out, context)
}
