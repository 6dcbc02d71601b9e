//! Operations that only move elements.

use ng_types::Dtype;

use super::{Known, Unknown, broadcast, place, same};
use crate::dfg::Dim;

/// A clamped index that may count from the end, as `Shape` and `Slice` take it.
fn clamped(index: i64, len: i64) -> i64 {
    let index = if index < 0 { index.saturating_add(len) } else { index };
    index.clamp(0, len)
}

pub(super) fn shape(of: &Known, start: i64, end: Option<i64>) -> Result<Known, String> {
    let rank = of.rank() as i64;
    let (start, end) = (clamped(start, rank), clamped(end.unwrap_or(rank), rank));
    let content: Vec<Dim> = of.shape.get(start as usize..end as usize).unwrap_or_default().to_vec();
    let shape = vec![Dim::from(content.len() as i64)];
    Ok(Known { dtype: Dtype::I64, shape, content: Some(content) })
}

/// The places that `Slice` takes of an axis of `len`.
pub(crate) fn places(
    start: i64,
    end: i64,
    step: i64,
    len: i64,
) -> impl ExactSizeIterator<Item = i64> + Clone {
    let from_end = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let (start, end) = (from_end(start), from_end(end));
    let (start, end) = match step > 0 {
        true => (start.clamp(0, len), end.clamp(0, len)),
        false => (start.clamp(-1, len - 1), end.clamp(-1, len - 1)),
    };
    let span = if step > 0 { end - start } else { start - end };
    let count = span.max(0).unsigned_abs().div_ceil(step.unsigned_abs().max(1));
    (0..count as usize).map(move |at| start + at as i64 * step)
}

/// The lengths that a list gives; unknown ones if only how many there are is known.
fn lengths(list: &Known, unknown: &mut Unknown) -> Result<Vec<Dim>, String> {
    list.wants(Dtype::I64)?;
    list.wants_rank(1)?;
    match (&list.content, list.shape[0].number()) {
        (Some(content), _) => Ok(content.clone()),
        (None, Some(rank)) if (0..=16).contains(&rank) => {
            Ok((0..rank).map(|_| unknown.next()).collect())
        }
        _ => Err("the number of dimensions of the new shape is unknown".to_owned()),
    }
}

fn product(dims: &[Dim]) -> Option<Dim> {
    dims.iter().try_fold(Dim::from(1), |all, dim| all.times(dim))
}

pub(super) fn reshape(
    of: &Known,
    list: &Known,
    allow_zero: bool,
    unknown: &mut Unknown,
) -> Result<Known, String> {
    let mut shape = lengths(list, unknown)?;
    let kept = |(at, dim): (usize, &Dim)| match (dim.number(), of.shape.get(at)) {
        (Some(0), _) if allow_zero => Ok(dim.clone()),
        (Some(0), Some(kept)) => Ok(kept.clone()),
        (Some(0), None) => Err(format!(
            "the new shape has 0 (keep) for dimension {at}, which the input does not have"
        )),
        _ => Ok(dim.clone()),
    };
    shape = shape.iter().enumerate().map(kept).collect::<Result<_, _>>()?;
    let is_rest = |dim: &Dim| dim.number() == Some(-1);
    if shape.iter().filter(|dim| is_rest(dim)).count() > 1 {
        return Err("more than one dimension of the new shape is -1".to_owned());
    }
    if let Some(at) = shape.iter().position(is_rest) {
        let rest: Vec<Dim> = shape.iter().filter(|dim| !is_rest(dim)).cloned().collect();
        shape[at] = rest_of(&of.shape, &rest).unwrap_or_else(|| unknown.next());
    } else if let (Some(before), Some(after)) = (product(&of.shape), product(&shape)) {
        same(&before, &after, "the input and the new shape differ in the number of elements")?;
    }
    if let Some(negative) = shape.iter().filter_map(Dim::number).find(|n| *n < 0) {
        return Err(format!("length {negative} is negative"));
    }
    let mut known = Known::new(of.dtype, shape);
    if known.rank() < 2 {
        known.content.clone_from(&of.content);
    }
    Ok(known)
}

/// What is left of the elements of `all` beside `others`: what both have is taken out first.
fn rest_of(all: &[Dim], others: &[Dim]) -> Option<Dim> {
    let mut all = all.to_vec();
    let mut left = Vec::new();
    for other in others {
        match all.iter().position(|dim| dim == other && dim.number() != Some(0)) {
            Some(at) => drop(all.swap_remove(at)),
            None => left.push(other.clone()),
        }
    }
    product(&all)?.divided_by(&product(&left)?)
}

pub(super) fn expand(of: &Known, list: &Known, unknown: &mut Unknown) -> Result<Known, String> {
    Ok(Known::new(of.dtype, broadcast(&of.shape, &lengths(list, unknown)?)?))
}

pub(super) fn transpose(of: &Known, perm: Option<&[usize]>) -> Result<Known, String> {
    let reversed: Vec<usize> = (0..of.rank()).rev().collect();
    let perm = perm.unwrap_or(&reversed);
    if perm.len() != of.rank() {
        return Err(format!("{perm:?} is not a permutation of {} axes", of.rank()));
    }
    Ok(Known::new(of.dtype, perm.iter().map(|axis| of.shape[*axis].clone()).collect()))
}

pub(super) fn concat(parts: &[&Known], axis: i64) -> Result<Known, String> {
    let first = parts[0];
    let axis = first.axis(axis)?;
    let mut shape = first.shape.clone();
    for part in &parts[1..] {
        part.wants(first.dtype)?;
        part.wants_rank(first.rank())?;
        for (at, dim) in shape.iter_mut().enumerate() {
            *dim = match at == axis {
                true => dim.clone() + part.shape[at].clone(),
                false => same(
                    dim,
                    &part.shape[at],
                    &format!("the inputs differ in the length of axis {at}"),
                )?,
            };
        }
    }
    let mut known = Known::new(first.dtype, shape);
    if known.rank() == 1 {
        let all: Option<Vec<Vec<Dim>>> = parts.iter().map(|part| part.content.clone()).collect();
        known.content = all.map(|all| all.concat());
    }
    Ok(known)
}

pub(super) fn slice(inputs: &[&Known], unknown: &mut Unknown) -> Result<Known, String> {
    let of = inputs[0];
    for list in &inputs[1..] {
        list.wants(Dtype::I64)?;
        list.wants_rank(1)?;
    }
    let numbers = |at: usize| inputs.get(at).map(|list| list.numbers());
    let Some(count) = inputs[1].shape[0].number() else {
        return Err("the number of axes is unknown".to_owned());
    };
    let axes = numbers(3).unwrap_or_else(|| Some((0..count).collect()));
    let axes = axes.ok_or("the axes are not constant")?;
    let steps = numbers(4).unwrap_or_else(|| Some(vec![1; axes.len()]));
    let (starts, ends) = (numbers(1).flatten(), numbers(2).flatten());
    let mut known = Known::new(of.dtype, of.shape.clone());
    for (at, axis) in axes.iter().enumerate() {
        let axis = of.axis(*axis)?;
        let get = |list: &Option<Vec<i64>>| list.as_ref().and_then(|list| list.get(at).copied());
        let len = of.shape[axis].number();
        known.shape[axis] = match (get(&starts), get(&ends), get(&steps), len) {
            (_, _, Some(0), _) => return Err("a step is 0".to_owned()),
            (Some(0), Some(i64::MAX), Some(1), _) => of.shape[axis].clone(),
            (Some(start), Some(end), Some(step), Some(len)) => {
                let taken = places(start, end, step, len);
                if let (1, Some(content)) = (of.rank(), &of.content) {
                    let get = |at: i64| content.get(at as usize).cloned();
                    known.content = taken.clone().map(get).collect();
                }
                Dim::from(taken.len() as i64)
            }
            _ => unknown.next(),
        };
    }
    Ok(known)
}

fn axes(list: &Known, rank: usize) -> Result<Vec<usize>, String> {
    list.wants(Dtype::I64)?;
    let axes = list.numbers().ok_or("the axes are not constant")?;
    let mut places = axes.iter().map(|axis| place(*axis, rank)).collect::<Result<Vec<_>, _>>()?;
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("{axes:?} contains an axis twice"));
    }
    Ok(places)
}

pub(super) fn squeeze(inputs: &[&Known]) -> Result<Known, String> {
    let of = inputs[0];
    let gone = match inputs.get(1) {
        Some(list) => axes(list, of.rank())?,
        None => (0..of.rank()).filter(|axis| of.shape[*axis].number() == Some(1)).collect(),
    };
    for axis in &gone {
        let len = &of.shape[*axis];
        let long = |_| format!("axis {axis} cannot be removed: its length is {len}, not 1");
        same(len, &Dim::from(1), "").map_err(long)?;
    }
    let kept = (0..of.rank()).filter(|axis| !gone.contains(axis));
    let shape = kept.map(|axis| of.shape[axis].clone()).collect();
    Ok(Known { dtype: of.dtype, shape, content: of.content.clone() })
}

pub(super) fn unsqueeze(of: &Known, list: &Known) -> Result<Known, String> {
    let count = list.shape.first().map_or(Some(1), Dim::number);
    let count = count.ok_or("the number of axes is unknown")? as usize;
    let new = axes(list, of.rank() + count)?;
    let mut old = of.shape.iter().cloned();
    let dim = |axis| match new.contains(&axis) {
        true => Some(Dim::from(1)),
        false => old.next(),
    };
    let mut known = Known::new(of.dtype, (0..of.rank() + count).map_while(dim).collect());
    if known.rank() < 2 {
        known.content.clone_from(&of.content);
    }
    Ok(known)
}

pub(super) fn gather(of: &Known, index: &Known, axis: i64) -> Result<Known, String> {
    index.wants(Dtype::I64)?;
    let axis = of.axis(axis)?;
    let (before, after) = (&of.shape[..axis], &of.shape[axis + 1..]);
    let mut known = Known::new(of.dtype, [before, &index.shape, after].concat());
    if let (1, Some(content), Some(index)) = (of.rank(), &of.content, index.numbers()) {
        let get = |at: &i64| {
            let at = place(*at, content.len())?;
            Ok(content[at].clone())
        };
        known.content = Some(index.iter().map(get).collect::<Result<_, String>>()?);
    }
    Ok(known)
}

pub(super) fn gather_elements(of: &Known, index: &Known, axis: i64) -> Result<Known, String> {
    index.wants(Dtype::I64)?;
    index.wants_rank(of.rank())?;
    let axis = of.axis(axis)?;
    for (at, (dim, len)) in index.shape.iter().zip(&of.shape).enumerate() {
        let too_long = |(dim, len)| at != axis && dim > len;
        if dim.number().zip(len.number()).is_some_and(too_long) {
            return Err(format!("the index has length {dim} along axis {at}, more than {len}"));
        }
    }
    Ok(Known::new(of.dtype, index.shape.clone()))
}

pub(super) fn tile(of: &Known, list: &Known, unknown: &mut Unknown) -> Result<Known, String> {
    let times = lengths(list, unknown)?;
    if times.len() != of.rank() {
        return Err(format!("got {} repeats, expected {}: one per axis", times.len(), of.rank()));
    }
    let dim = |(dim, times): (&Dim, &Dim)| dim.times(times).unwrap_or_else(|| unknown.next());
    Ok(Known::new(of.dtype, of.shape.iter().zip(&times).map(dim).collect()))
}

pub(super) fn gather_nd(of: &Known, index: &Known) -> Result<Known, String> {
    index.wants(Dtype::I64)?;
    let Some((last, lists)) = index.shape.split_last() else {
        return Err("expected lists of indices, found a scalar".to_owned());
    };
    let depth = last.number().ok_or("the length of the index lists is unknown")? as usize;
    let rest = of.shape.get(depth..);
    let rest = rest.ok_or("the index lists are longer than the number of axes")?;
    Ok(Known::new(of.dtype, [lists, rest].concat()))
}

pub(super) fn compress(
    of: &Known,
    flags: &Known,
    axis: Option<i64>,
    unknown: &mut Unknown,
) -> Result<Known, String> {
    flags.wants(Dtype::Bool)?;
    flags.wants_rank(1)?;
    let Some(axis) = axis else { return Ok(Known::new(of.dtype, vec![unknown.next()])) };
    let mut known = Known::new(of.dtype, of.shape.clone());
    known.shape[of.axis(axis)?] = unknown.next();
    Ok(known)
}

pub(super) fn range(inputs: &[&Known], unknown: &mut Unknown) -> Result<Known, String> {
    for number in inputs {
        number.wants(inputs[0].dtype)?;
        if !number.is_number() {
            return Err("expected three scalars: start, limit and step".to_owned());
        }
    }
    let content = |at: usize| inputs[at].content.as_ref().and_then(|all| all.first().cloned());
    let len = match (content(0), content(1), content(2).and_then(|step| step.number())) {
        (_, _, Some(0)) => return Err("the step is 0".to_owned()),
        (Some(start), Some(end), Some(1)) => {
            let len = end - start;
            if len.number().is_some_and(|n| n < 0) { Dim::from(0) } else { len }
        }
        _ => unknown.next(),
    };
    Ok(Known::new(inputs[0].dtype, vec![len]))
}

pub(super) fn filled(dtype: Dtype, list: &Known, unknown: &mut Unknown) -> Result<Known, String> {
    if !matches!(dtype, Dtype::F32 | Dtype::I64 | Dtype::Bool) {
        return Err(format!("a tensor cannot be filled with values of type {}", dtype.name()));
    }
    Ok(Known::new(dtype, lengths(list, unknown)?))
}
