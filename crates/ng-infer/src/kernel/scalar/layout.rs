//! Elements that only move.

use super::places::{around, axis_of, broadcast_places, checked, strided};
use crate::dfg::{place, places};
use crate::kernel::error::KernelError;
use crate::kernel::view::{Data, DataMut, View, ViewMut};

/// Runs a body for the elements of whatever type two tensors have.
macro_rules! with_elements {
    ($of:expr, $out:expr, |$from:ident, $to:ident| $body:expr) => {
        match ($of.data, &mut $out.data) {
            (Data::F32($from), DataMut::F32($to)) => $body,
            (Data::I64($from), DataMut::I64($to)) => $body,
            (Data::Bool($from), DataMut::Bool($to)) => $body,
            (Data::F16($from), DataMut::F16($to)) => $body,
            (Data::I8($from), DataMut::I8($to)) => $body,
            _ => panic!("types were checked before"),
        }
    };
}

pub(super) fn copy(of: &View<'_>, out: &mut ViewMut<'_>) {
    with_elements!(of, out, |from, to| to.copy_from_slice(from));
}

fn copy_from_places(of: &View<'_>, out: &mut ViewMut<'_>, places: impl Iterator<Item = usize>) {
    with_elements!(of, out, |from, to| to
        .iter_mut()
        .zip(places)
        .for_each(|(to, at)| *to = from[at]));
}

pub(super) fn shape(of: &View<'_>, start: i64, out: &mut ViewMut<'_>) {
    let rank = of.dims.len() as i64;
    let start = if start < 0 { start.saturating_add(rank) } else { start }.clamp(0, rank);
    let dims = of.dims.iter().skip(start as usize);
    out.i64().iter_mut().zip(dims).for_each(|(to, dim)| *to = *dim as i64);
}

pub(super) fn expand(of: &View<'_>, out: &mut ViewMut<'_>) {
    copy_from_places(of, out, broadcast_places(of.dims, out.dims));
}

pub(super) fn transpose(of: &View<'_>, perm: Option<&[usize]>, out: &mut ViewMut<'_>) {
    let reversed: Vec<usize> = (0..of.dims.len()).rev().collect();
    let stride = |axis: &usize| of.dims[axis + 1..].iter().product();
    let strides = perm.unwrap_or(&reversed).iter().map(stride).collect();
    copy_from_places(of, out, strided(out.dims.to_vec(), strides));
}

pub(super) fn concat(parts: &[View<'_>], axis: usize, out: &mut ViewMut<'_>) {
    let (before, all, behind) = around(out.dims, axis);
    let mut start = 0;
    for part in parts {
        let len = part.dims[axis];
        with_elements!(part, out, |from, to| {
            for line in 0..before {
                let (at, of) = ((line * all + start) * behind, line * len * behind);
                to[at..at + len * behind].copy_from_slice(&from[of..of + len * behind]);
            }
        });
        start += len;
    }
}

pub(super) fn slice(inputs: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), KernelError> {
    let of = &inputs[0];
    let mut taken: Vec<Vec<i64>> = of.dims.iter().map(|len| (0..*len as i64).collect()).collect();
    for (at, start) in inputs[1].i64().iter().enumerate() {
        let get = |input: usize| inputs.get(input).map(|list| list.i64()[at]);
        let axis = axis_of(get(3).unwrap_or(at as i64), of)?;
        let end = get(2).unwrap_or(i64::MAX);
        taken[axis] = places(*start, end, get(4).unwrap_or(1), of.dims[axis] as i64).collect();
    }
    let walk = strided(out.dims.to_vec(), unit_strides(out.dims));
    let place = |at: usize| {
        let (mut rest, mut place, mut stride) = (at, 0, 1);
        for (axis, taken) in taken.iter().enumerate().rev() {
            place += taken[rest % taken.len()] as usize * stride;
            rest /= taken.len();
            stride *= of.dims[axis];
        }
        place
    };
    copy_from_places(of, out, walk.map(place));
    Ok(())
}

fn unit_strides(dims: &[usize]) -> Vec<usize> {
    (0..dims.len()).map(|axis| dims[axis + 1..].iter().product()).collect()
}

pub(super) fn gather(
    of: &View<'_>,
    index: &View<'_>,
    axis: usize,
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let (before, len, behind) = around(of.dims, axis);
    let each = index.i64().iter().enumerate();
    let at = |(place, index): (usize, &i64)| from_end(*index, place, len);
    let rows = each.map(at).collect::<Result<Vec<usize>, _>>()?;
    with_elements!(of, out, |from, to| {
        for line in 0..before {
            for (at, row) in rows.iter().enumerate() {
                let (to_at, from_at) = (line * rows.len() + at, line * len + row);
                to[to_at * behind..(to_at + 1) * behind]
                    .copy_from_slice(&from[from_at * behind..(from_at + 1) * behind]);
            }
        }
    });
    Ok(())
}

/// An index that may count from the end; errors name it as it was given.
fn from_end(index: i64, place: usize, len: usize) -> Result<usize, KernelError> {
    let at = if index < 0 { index.saturating_add(len as i64) } else { index };
    checked(at, place, len).map_err(|_| KernelError::Index { index, place, len })
}

pub(super) fn gather_elements(
    of: &View<'_>,
    index: &View<'_>,
    axis: usize,
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let strides = unit_strides(of.dims);
    let beside = (0..strides.len()).map(|at| if at == axis { 0 } else { strides[at] }).collect();
    let walk = strided(out.dims.to_vec(), beside);
    let mut places = Vec::with_capacity(index.i64().len());
    for (place, (start, index)) in walk.zip(index.i64()).enumerate() {
        places.push(start + from_end(*index, place, of.dims[axis])? * strides[axis]);
    }
    copy_from_places(of, out, places.into_iter());
    Ok(())
}

pub(super) fn tile(of: &View<'_>, out: &mut ViewMut<'_>) {
    let (dims, strides) = (out.dims, unit_strides(of.dims));
    let steps = unit_strides(dims);
    let place = |at: usize| {
        let each = (0..dims.len()).map(|axis| at / steps[axis] % dims[axis]);
        each.zip(of.dims).zip(&strides).map(|((i, len), stride)| i % len * stride).sum()
    };
    let count: usize = dims.iter().product();
    copy_from_places(of, out, (0..count).map(place));
}

pub(super) fn gather_nd(
    of: &View<'_>,
    index: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let depth = index.dims.last().copied().unwrap_or(0);
    let behind: usize = of.dims[depth..].iter().product();
    let lists: usize = index.dims.iter().rev().skip(1).product();
    let mut starts = Vec::with_capacity(lists);
    for list in 0..lists {
        let mut start = 0;
        for axis in 0..depth {
            let place = list * depth + axis;
            start = start * of.dims[axis] + from_end(index.i64()[place], place, of.dims[axis])?;
        }
        starts.push(start * behind);
    }
    copy_from_places(of, out, starts.into_iter().flat_map(|start| start..start + behind));
    Ok(())
}

pub(super) fn compress(
    of: &View<'_>,
    flags: &View<'_>,
    axis: Option<i64>,
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let (before, len, behind) = match axis {
        Some(axis) => around(of.dims, place(axis, of.dims.len()).map_err(KernelError::Misfit)?),
        None => (1, of.dims.iter().product(), 1),
    };
    let flags = flags.bool();
    if flags.len() > len {
        return Err(KernelError::Misfit(format!(
            "got {} flags for an axis of length {len}",
            flags.len()
        )));
    }
    let kept: Vec<usize> = (0..flags.len()).filter(|at| flags[*at]).collect();
    let lines = (0..before).flat_map(|line| kept.iter().map(move |at| line * len + at));
    copy_from_places(of, out, lines.flat_map(|line| line * behind..(line + 1) * behind));
    Ok(())
}

pub(super) fn range(inputs: &[View<'_>], out: &mut ViewMut<'_>) {
    match &mut out.data {
        DataMut::I64(to) => {
            let (start, step) = (inputs[0].i64()[0], inputs[2].i64()[0]);
            let number = |at: usize| start.wrapping_add(step.wrapping_mul(at as i64));
            to.iter_mut().enumerate().for_each(|(at, to)| *to = number(at));
        }
        _ => {
            let (start, step) = (inputs[0].f32()[0], inputs[2].f32()[0]);
            out.f32().iter_mut().enumerate().for_each(|(at, to)| *to = start + step * at as f32);
        }
    }
}

pub(super) fn fill(value: f64, out: &mut ViewMut<'_>) {
    match &mut out.data {
        DataMut::F32(to) => to.fill(value as f32),
        DataMut::I64(to) => to.fill(value as i64),
        DataMut::Bool(to) => to.fill(value != 0.0),
        _ => panic!("types were checked before"),
    }
}
