//! Reductions over the first or the last axes, and softmax over the last.

use ng_simd::GraphKernels;

use super::elements::{larger, smaller};
use super::parallel::{EXPONENTIAL, by_rows};
use crate::dfg::{Reduction, place};
use crate::kernel::context::Context;
use crate::kernel::error::{KernelError, misfit};
use crate::kernel::view::{Data, DataMut, View, ViewMut};

/// Partial results of a row: as many as the widest register has lanes.
const PARTS: usize = 16;

/// Whether it was done: over the first axes, or the last ones.
pub(super) fn reduce(
    how: Reduction,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<bool, KernelError> {
    let dims = inputs[0].dims;
    let (Data::F32(from), DataMut::F32(to)) = (inputs[0].data, &mut out.data) else {
        return Ok(false);
    };
    let mut is_reduced = vec![inputs.get(1).is_none_or(|axes| axes.i64().is_empty()); dims.len()];
    for axis in inputs.get(1).map_or(&[][..], |axes| axes.i64()) {
        is_reduced[place(*axis, dims.len()).map_err(KernelError::Misfit)?] = true;
    }
    if from.is_empty() {
        return Ok(false);
    }
    let first = is_reduced.iter().take_while(|is_reduced| **is_reduced).count();
    let last = is_reduced.iter().rev().take_while(|is_reduced| **is_reduced).count();
    let all = is_reduced.iter().filter(|is_reduced| **is_reduced).count();
    if last == all {
        rows(how, from, dims[dims.len() - last..].iter().product(), to, context)?;
    } else if first == all {
        columns(how, from, dims[..first].iter().product(), to, context)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// One result for each row of `len` elements.
fn rows(
    how: Reduction,
    from: &[f32],
    len: usize,
    to: &mut [f32],
    context: &Context,
) -> Result<(), KernelError> {
    by_rows(context, from.len(), 1, to, |first, to| {
        for (to, row) in to.iter_mut().zip(from[first * len..].chunks_exact(len)) {
            *to = match how {
                Reduction::Sum => fold(row, 0.0, |a, b| a + b),
                Reduction::Mean => fold(row, 0.0, |a, b| a + b) / len as f32,
                Reduction::Mul => fold(row, 1.0, |a, b| a * b),
                Reduction::Max => fold(row, f32::NEG_INFINITY, larger),
                Reduction::Min => fold(row, f32::INFINITY, smaller),
            };
        }
        Ok(())
    })
}

/// A row in `PARTS` parts, and those in halves: the compiler keeps them side by side.
fn fold(row: &[f32], start: f32, of: impl Fn(f32, f32) -> f32) -> f32 {
    let mut parts = [start; PARTS];
    let (chunks, rest) = row.as_chunks::<PARTS>();
    for chunk in chunks {
        parts.iter_mut().zip(chunk).for_each(|(part, x)| *part = of(*part, *x));
    }
    parts.iter_mut().zip(rest).for_each(|(part, x)| *part = of(*part, *x));
    for half in [8, 4, 2, 1] {
        let (low, high) = parts.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = of(*low, *high));
    }
    parts[0]
}

/// One result for each column of `count` rows, in the order of the rows.
fn columns(
    how: Reduction,
    from: &[f32],
    count: usize,
    to: &mut [f32],
    context: &Context,
) -> Result<(), KernelError> {
    let width = to.len();
    let start = match how {
        Reduction::Sum | Reduction::Mean => 0.0,
        Reduction::Mul => 1.0,
        Reduction::Max => f32::NEG_INFINITY,
        Reduction::Min => f32::INFINITY,
    };
    by_rows(context, from.len(), 1, to, |first, to| {
        to.fill(start);
        for row in from.chunks_exact(width) {
            let columns = to.iter_mut().zip(&row[first..]);
            match how {
                Reduction::Sum | Reduction::Mean => columns.for_each(|(to, x)| *to += x),
                Reduction::Mul => columns.for_each(|(to, x)| *to *= x),
                Reduction::Max => columns.for_each(|(to, x)| *to = larger(*to, *x)),
                Reduction::Min => columns.for_each(|(to, x)| *to = smaller(*to, *x)),
            }
        }
        if how == Reduction::Mean {
            to.iter_mut().for_each(|to| *to /= count as f32);
        }
        Ok(())
    })
}

/// Whether it was done: over the last axis.
pub(super) fn softmax(
    kernels: GraphKernels,
    of: &View<'_>,
    axis: i64,
    is_log: bool,
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<bool, KernelError> {
    let axis = place(axis, of.dims.len()).map_err(KernelError::Misfit)?;
    let len = of.dims[axis];
    if axis + 1 != of.dims.len() || len == 0 {
        return Ok(false);
    }
    let from = of.f32();
    by_rows(context, EXPONENTIAL * from.len(), len, out.f32(), |first, to| {
        let from = &from[first * len..][..to.len()];
        kernels.softmax_rows(len, is_log, from, to).map_err(misfit)
    })?;
    Ok(true)
}
