//! Operations on edges: what messages come to.

use super::places::checked;
use super::products::{combine, start};
use crate::dfg::Reduction;
use crate::kernel::error::KernelError;
use crate::kernel::numbers::count;
use crate::kernel::view::{View, ViewMut};

/// Combines messages by the index of each; `message(i)` gives the row of message i and a factor.
fn aggregate<'a>(
    how: Reduction,
    index: &[i64],
    width: usize,
    to: &mut [f32],
    message: impl Fn(usize) -> Result<(&'a [f32], f32), KernelError>,
) -> Result<(), KernelError> {
    let rows = to.len().checked_div(width).unwrap_or(0);
    let mut counts = vec![0_u32; rows];
    to.fill(start(how));
    for (place, at) in index.iter().enumerate() {
        if width == 0 {
            break;
        }
        let at = checked(*at, place, rows)?;
        let (row, factor) = message(place)?;
        counts[at] += 1;
        let to = &mut to[at * width..(at + 1) * width];
        to.iter_mut().zip(row).for_each(|(to, x)| *to = combine(how, *to, x * factor));
    }
    for (to, count) in to.chunks_exact_mut(width.max(1)).zip(&counts) {
        match (how, count) {
            (_, 0) => to.fill(0.0),
            (Reduction::Mean, count) => to.iter_mut().for_each(|to| *to /= *count as f32),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn scatter(
    how: Reduction,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let width = inputs[0].dims[1..].iter().product();
    let from = inputs[0].f32();
    let message = |place: usize| Ok((&from[place * width..(place + 1) * width], 1.0));
    aggregate(how, inputs[1].i64(), width, out.f32(), message)
}

pub(super) fn spmm(
    how: Reduction,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let (edges, rows) = (inputs[0].i64(), &inputs[1]);
    let (count, width) = (rows.dims[0], rows.dims[1]);
    let (sources, destinations) = edges.split_at(edges.len() / 2);
    let weights = inputs.get(2).map(View::f32);
    let from = rows.f32();
    let message = |place: usize| {
        let source = checked(sources[place], place, count)?;
        let weight = weights.map_or(1.0, |weights| weights[place]);
        Ok((&from[source * width..(source + 1) * width], weight))
    };
    aggregate(how, destinations, width, out.f32(), message)
}

pub(super) fn softmax(inputs: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), KernelError> {
    let (from, index, groups) = (inputs[0].f32(), inputs[1].i64(), count(&inputs[2])?);
    let width: usize = inputs[0].dims[1..].iter().product();
    let mut at = Vec::with_capacity(index.len());
    for (place, index) in index.iter().enumerate() {
        at.push(checked(*index, place, groups)?);
    }
    let mut top = vec![f32::NEG_INFINITY; groups * width];
    let mut sum = vec![0.0_f32; groups * width];
    let places = || (0..from.len()).map(|i| (i, at[i / width] * width + i % width));
    for (i, group) in places() {
        top[group] = combine(Reduction::Max, top[group], from[i]);
    }
    let to = out.f32();
    for (i, group) in places() {
        to[i] = (from[i] - top[group]).exp();
        sum[group] += to[i];
    }
    for (i, group) in places() {
        // The sum that PyG divides by.
        to[i] /= sum[group] + 1e-16;
    }
    Ok(())
}

pub(super) fn self_loops(
    edges: &View<'_>,
    nodes: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let edges = edges.i64();
    let (sources, destinations) = edges.split_at(edges.len() / 2);
    let nodes = 0..count(nodes)? as i64;
    let others = || sources.iter().zip(destinations).filter(|(s, d)| s != d);
    let first = others().map(|(source, _)| *source).chain(nodes.clone());
    let second = others().map(|(_, destination)| *destination).chain(nodes);
    out.i64().iter_mut().zip(first.chain(second)).for_each(|(to, node)| *to = node);
    Ok(())
}

pub(super) fn degree(index: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), KernelError> {
    let to = out.f32();
    to.fill(0.0);
    for (place, index) in index.i64().iter().enumerate() {
        to[checked(*index, place, to.len())?] += 1.0;
    }
    Ok(())
}
