//! Elements that only move.

use super::parallel::by_rows;
use super::walk;
use crate::dfg::place;
use crate::kernel::context::Context;
use crate::kernel::error::KernelError;
use crate::kernel::rows::TableRows;
use crate::kernel::view::{Data, DataMut, View, ViewMut};

/// Rows ahead of the one that is copied that are brought near.
const AHEAD: usize = 8;

/// Sides of the squares by which a matrix is transposed: both sides stay in L1.
const SQUARE: usize = 16;

/// Runs a body for the elements of whatever type two tensors have.
macro_rules! with_elements {
    ($of:expr, $out:expr, |$from:ident, $to:ident| $body:expr) => {
        match ($of.data, &mut $out.data) {
            (Data::F32($from), DataMut::F32($to)) => $body,
            (Data::I64($from), DataMut::I64($to)) => $body,
            (Data::Bool($from), DataMut::Bool($to)) => $body,
            (Data::F16($from), DataMut::F16($to)) => $body,
            (Data::I8($from), DataMut::I8($to)) => $body,
            _ => {
                return Err(KernelError::Misfit("the dtypes of input and output differ".to_owned()))
            }
        }
    };
}

/// Whether it was done: along the first axis, or one before which all have length 1.
pub(super) fn gather(
    of: &View<'_>,
    index: &View<'_>,
    axis: i64,
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<bool, KernelError> {
    let axis = place(axis, of.dims.len()).map_err(KernelError::Misfit)?;
    if of.dims[..axis].iter().any(|len| *len != 1) {
        return Ok(false);
    }
    let (len, width) = (of.dims[axis], of.dims[axis + 1..].iter().product());
    let mut rows = Vec::with_capacity(index.i64().len());
    for (place, index) in index.i64().iter().enumerate() {
        let at = if *index < 0 { index.saturating_add(len as i64) } else { *index };
        let found = usize::try_from(at).ok().filter(|at| *at < len);
        rows.push(found.ok_or(KernelError::Index { index: *index, place, len })?);
    }
    if let Data::Rows(table) = of.data {
        let rows: Vec<u32> = rows.into_iter().map(|row| table.rows[row]).collect();
        TableRows { rows: &rows, ..table }.copy_to(width, out.f32(), context)?;
        return Ok(true);
    }
    with_elements!(of, out, |from, to| gather_rows(from, &rows, width, to, context))?;
    Ok(true)
}

fn gather_rows<T: Copy + Send + Sync>(
    from: &[T],
    rows: &[usize],
    width: usize,
    to: &mut [T],
    context: &Context,
) -> Result<(), KernelError> {
    by_rows(context, to.len(), width, to, |first, to| {
        let rows = &rows[first..];
        if width == 1 {
            to.iter_mut().zip(rows).for_each(|(to, row)| *to = from[*row]);
            return Ok(());
        }
        for (at, to) in to.chunks_exact_mut(width.max(1)).enumerate() {
            if let Some(next) = rows.get(at + AHEAD) {
                ng_simd::prefetch(&from[next * width..(next + 1) * width]);
            }
            to.copy_from_slice(&from[rows[at] * width..(rows[at] + 1) * width]);
        }
        Ok(())
    })
}

pub(super) fn concat(
    parts: &[View<'_>],
    axis: i64,
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let axis = place(axis, out.dims.len()).map_err(KernelError::Misfit)?;
    let behind = |dims: &[usize]| dims[axis..].iter().product::<usize>();
    let line = behind(out.dims);
    let mut start = 0;
    for part in parts {
        let (len, first) = (behind(part.dims), start);
        start += len;
        with_elements!(part, out, |from, to| by_rows(context, from.len(), line, to, |row, to| {
            let from = from[row * len..].chunks_exact(len.max(1));
            for (to, from) in to.chunks_exact_mut(line.max(1)).zip(from) {
                to[first..first + len].copy_from_slice(from);
            }
            Ok(())
        }))?;
    }
    Ok(())
}

/// A matrix in squares, other tensors in lines.
pub(super) fn transpose(
    of: &View<'_>,
    perm: Option<&[usize]>,
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let ([rows, columns], None | Some([1, 0])) = (of.dims, perm) else {
        return walk::transpose(of, perm, out, context);
    };
    let (rows, columns) = (*rows, *columns);
    fn turn<T: Copy>(from: &[T], (rows, columns): (usize, usize), first: usize, to: &mut [T]) {
        let lines = to.len() / rows;
        for corner in (0..lines).step_by(SQUARE) {
            for start in (0..rows).step_by(SQUARE) {
                for line in corner..lines.min(corner + SQUARE) {
                    for row in start..rows.min(start + SQUARE) {
                        to[line * rows + row] = from[row * columns + first + line];
                    }
                }
            }
        }
    }
    with_elements!(of, out, |from, to| by_rows(context, 2 * from.len(), rows, to, |first, to| {
        if rows > 0 {
            turn(from, (rows, columns), first, to);
        }
        Ok(())
    }))
}
