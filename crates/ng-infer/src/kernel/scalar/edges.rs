//! Operations on edges: what messages come to.

use super::places::checked;
use super::products::{combine, start};
use crate::dfg::Reduction;
use crate::kernel::error::KernelError;
use crate::kernel::numbers::{count, others};
use crate::kernel::view::{View, ViewMut};

/// Combines messages by the index of each; `message(i)` gives the row of message i, and a factor
/// for each of the equal parts of the row.
pub(super) fn combine_all<'a>(
    how: Reduction,
    index: impl Iterator<Item = i64>,
    width: usize,
    to: &mut [f32],
    message: impl Fn(usize) -> Result<(&'a [f32], &'a [f32]), KernelError>,
) -> Result<(), KernelError> {
    let rows = to.len().checked_div(width).unwrap_or(0);
    let mut counts = vec![0_u32; rows];
    to.fill(start(how));
    for (place, at) in index.enumerate() {
        if width == 0 {
            break;
        }
        let at = checked(at, place, rows)?;
        counts[at] += 1;
        let to = &mut to[at * width..(at + 1) * width];
        let (row, factors) = message(place)?;
        let part = width / factors.len();
        for ((to, row), factor) in to.chunks_mut(part).zip(row.chunks(part)).zip(factors) {
            to.iter_mut().zip(row).for_each(|(to, x)| *to = combine(how, *to, x * factor));
        }
    }
    for (to, count) in to.chunks_exact_mut(width.max(1)).zip(&counts) {
        match (how, count) {
            (Reduction::Mul, _) => {}
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
    let message = |place: usize| Ok((&from[place * width..(place + 1) * width], &[1.0][..]));
    combine_all(how, inputs[1].i64().iter().copied(), width, out.f32(), message)
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
        let weight = weights.map_or(&[1.0][..], |weights| &weights[place..=place]);
        Ok((&from[source * width..(source + 1) * width], weight))
    };
    combine_all(how, destinations.iter().copied(), width, out.f32(), message)
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

pub(super) fn add_self_loops(
    edges: &View<'_>,
    nodes: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let edges = edges.i64();
    let (sources, destinations) = edges.split_at(edges.len() / 2);
    let nodes = 0..count(nodes)? as i64;
    let first = sources.iter().copied().chain(nodes.clone());
    let second = destinations.iter().copied().chain(nodes);
    out.i64().iter_mut().zip(first.chain(second)).for_each(|(to, node)| *to = node);
    Ok(())
}

pub(super) fn remove_self_loops(edges: &View<'_>, out: &mut ViewMut<'_>) {
    let all = edges.i64();
    let second = all.len() / 2;
    let kept = others(edges).chain(others(edges).map(|at| second + at));
    out.i64().iter_mut().zip(kept).for_each(|(to, at)| *to = all[at]);
}

/// The rows of edges that lead from a node to another.
pub(super) fn keep_others(edges: &View<'_>, rows: &View<'_>, out: &mut ViewMut<'_>) {
    let width: usize = rows.dims[1..].iter().product();
    let from = rows.f32();
    let places = others(edges).flat_map(|at| at * width..(at + 1) * width);
    out.f32().iter_mut().zip(places).for_each(|(to, at)| *to = from[at]);
}

pub(super) fn self_loop_attr(
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let (edges, rows, fill) = (inputs[0].i64(), &inputs[1], &inputs[2]);
    let width: usize = rows.dims[1..].iter().product();
    let (sources, destinations) = edges.split_at(edges.len() / 2);
    let (from, to) = (rows.f32(), out.f32());
    to.copy_from_slice(fill.f32());
    for (place, (source, destination)) in sources.iter().zip(destinations).enumerate() {
        if source == destination {
            let at = checked(*source, place, fill.dims[0])?;
            to[at * width..(at + 1) * width]
                .copy_from_slice(&from[place * width..(place + 1) * width]);
        }
    }
    Ok(())
}

pub(super) fn gcn_norm(inputs: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), KernelError> {
    let (edges, weights, nodes) = (inputs[0].i64(), inputs[1].f32(), count(&inputs[2])?);
    let (sources, destinations) = edges.split_at(edges.len() / 2);
    let mut root = vec![0.0_f32; nodes];
    for (place, (destination, weight)) in destinations.iter().zip(weights).enumerate() {
        root[checked(*destination, place, nodes)?] += weight;
    }
    for sum in &mut root {
        *sum = if *sum == 0.0 { 0.0 } else { sum.powf(-0.5) };
    }
    for (place, to) in out.f32().iter_mut().enumerate() {
        let source = checked(sources[place], place, nodes)?;
        let destination = destinations[place] as usize;
        *to = root[source] * weights[place] * root[destination];
    }
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
