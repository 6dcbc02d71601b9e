//! Operations on edges: what messages come to.

use ng_simd::{EdgeLists, GraphKernels, Rows};

use super::lists::{Lists, Messages, check, combine, fit, outside};
use super::parallel::{EXPONENTIAL, by_rows};
use crate::dfg::{Binary, Reduction};
use crate::kernel::context::Context;
use crate::kernel::error::{KernelError, misfit};
use crate::kernel::numbers::count;
use crate::kernel::view::{View, ViewMut};

/// Whether it was done; the reference does what is too large for kernels, and products.
pub(super) fn scatter(
    kernels: GraphKernels,
    how: Reduction,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<bool, KernelError> {
    let (rows, index, size) = (inputs[0].f32(), inputs[1].i64(), out.dims[0]);
    let width: usize = inputs[0].dims[1..].iter().product();
    if how == Reduction::Mul || width == 0 || !fit(&[index.len(), size]) {
        return Ok(false);
    }
    check(index, size)?;
    let lists = Lists::new(index, size);
    let sources = lists.edges(index.len());
    let messages = Messages { rows: Rows::F32(rows), len: index.len(), width, weights: None };
    combine(kernels, how, (&lists.offsets, &sources), &messages, out.f32(), context)?;
    Ok(true)
}

/// Whether it was done; the reference does what is too large for kernels, and products.
pub(super) fn spmm(
    kernels: GraphKernels,
    how: Reduction,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<bool, KernelError> {
    let (edges, rows) = (inputs[0].i64(), &inputs[1]);
    let (len, width) = (rows.dims[0], rows.dims[1]);
    let (sources, destinations) = edges.split_at(edges.len() / 2);
    if how == Reduction::Mul || width == 0 || !fit(&[sources.len(), len]) {
        return Ok(false);
    }
    check_pairs(destinations, len, sources, len)?;
    let lists = Lists::new(destinations, len);
    let sources = lists.sorted(sources, |source| source as u32);
    let sorted;
    let mut weights = inputs.get(2).map(View::f32);
    if let (Some(given), Some(_)) = (weights, &lists.order) {
        sorted = lists.sorted(given, |weight| weight);
        weights = Some(&sorted);
    }
    let messages = Messages { rows: Rows::F32(rows.f32()), len, width, weights };
    combine(kernels, how, (&lists.offsets, &sources), &messages, out.f32(), context)?;
    Ok(true)
}

/// That two indices of one length are below their lengths. The error is about the first place, and
/// there about the first index.
fn check_pairs(
    first: &[i64],
    first_len: usize,
    second: &[i64],
    second_len: usize,
) -> Result<(), KernelError> {
    match (outside(first, first_len), outside(second, second_len)) {
        (Some(one), Some(other)) if other < one => check(second, second_len),
        (Some(_), _) => check(first, first_len),
        (None, _) => check(second, second_len),
    }
}

/// Whether it was done; the reference does what is too large for kernels.
pub(super) fn softmax(
    kernels: GraphKernels,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<bool, KernelError> {
    let (logits, index, size) = (inputs[0].f32(), inputs[1].i64(), count(&inputs[2])?);
    let heads: usize = inputs[0].dims[1..].iter().product();
    if heads == 0 || !fit(&[index.len(), size]) {
        return Ok(false);
    }
    check(index, size)?;
    let lists = Lists::new(index, size);
    let sources: Vec<u32> = (0..index.len() as u32).collect();
    let of_edges = EdgeLists::new(&lists.offsets, &sources, sources.len()).map_err(misfit)?;
    let Some(order) = &lists.order else {
        softmax_of_lists(kernels, &of_edges, logits, heads, out.f32(), context)?;
        return Ok(true);
    };
    let mut sorted = Vec::with_capacity(logits.len());
    for edge in order {
        sorted.extend_from_slice(&logits[*edge as usize * heads..(*edge as usize + 1) * heads]);
    }
    let mut found = vec![0.0; logits.len()];
    softmax_of_lists(kernels, &of_edges, &sorted, heads, &mut found, context)?;
    let to = out.f32();
    for (edge, found) in order.iter().zip(found.chunks_exact(heads)) {
        to[*edge as usize * heads..(*edge as usize + 1) * heads].copy_from_slice(found);
    }
    Ok(true)
}

/// Lists that are done by one thread at a time.
const LISTS: usize = 1024;

fn softmax_of_lists(
    kernels: GraphKernels,
    lists: &EdgeLists<'_>,
    logits: &[f32],
    heads: usize,
    out: &mut [f32],
    context: &Context,
) -> Result<(), KernelError> {
    let size = lists.num_destinations();
    let mut parts = Vec::with_capacity(size.div_ceil(LISTS));
    let mut rest = out;
    for first in (0..size).step_by(LISTS) {
        let destinations = first..size.min(first + LISTS);
        let edges = lists.edges_of(&destinations).map_err(misfit)?;
        let (part, behind) = rest.split_at_mut(edges.len() * heads);
        parts.push((destinations, part));
        rest = behind;
    }
    let each = |(destinations, out)| {
        kernels.edge_softmax(lists, logits, heads, destinations, out).map_err(misfit)
    };
    match context.parts(EXPONENTIAL * logits.len()) {
        1 => parts.into_iter().try_for_each(each),
        _ => context.each(parts.into_iter(), each),
    }
}

/// Whether it was done.
pub(super) fn sddmm(
    binary: Binary,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<bool, KernelError> {
    let width: usize = out.dims[1..].iter().product();
    let (one, other) = (&inputs[0], &inputs[1]);
    let (first, second) = (inputs[2].i64(), inputs[3].i64());
    check_pairs(first, one.dims[0], second, other.dims[0])?;
    let (a, b) = (one.f32(), other.f32());
    let to = out.f32();
    macro_rules! each {
        ($of:expr) => {
            by_rows(context, 2 * to.len(), width, to, |edge, to| {
                let ends = first[edge..].iter().zip(&second[edge..]);
                for (to, (i, j)) in to.chunks_exact_mut(width.max(1)).zip(ends) {
                    let (i, j) = (*i as usize * width, *j as usize * width);
                    let pairs = a[i..i + width].iter().zip(&b[j..j + width]);
                    to.iter_mut().zip(pairs).for_each(|(to, (x, y))| *to = $of(*x, *y));
                }
                Ok(())
            })
        };
    }
    match binary {
        Binary::Add => each!(|x: f32, y: f32| x + y),
        Binary::Sub => each!(|x: f32, y: f32| x - y),
        Binary::Mul => each!(|x: f32, y: f32| x * y),
        Binary::Div => each!(|x: f32, y: f32| x / y),
        _ => return Ok(false),
    }?;
    Ok(true)
}

pub(super) fn gcn_norm(
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let (edges, weights, nodes) = (inputs[0].i64(), inputs[1].f32(), count(&inputs[2])?);
    let (sources, destinations) = edges.split_at(edges.len() / 2);
    check(destinations, nodes)?;
    check(sources, nodes)?;
    let mut roots = vec![0.0_f32; nodes];
    for (destination, weight) in destinations.iter().zip(weights) {
        roots[*destination as usize] += weight;
    }
    for sum in &mut roots {
        *sum = if *sum == 0.0 || sum.is_infinite() { 0.0 } else { 1.0 / sum.sqrt() };
    }
    by_rows(context, 4 * weights.len(), 1, out.f32(), |first, to| {
        let ends = sources[first..].iter().zip(&destinations[first..]);
        for ((to, weight), (source, destination)) in to.iter_mut().zip(&weights[first..]).zip(ends)
        {
            *to = roots[*source as usize] * weight * roots[*destination as usize];
        }
        Ok(())
    })
}

pub(super) fn add_self_loops(
    edges: &View<'_>,
    nodes: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let edges = edges.i64();
    let nodes = count(nodes)?;
    let half = edges.len() / 2 + nodes;
    for (to, from) in out.i64().chunks_exact_mut(half.max(1)).zip([0, edges.len() / 2]) {
        let (of_edges, of_nodes) = to.split_at_mut(edges.len() / 2);
        of_edges.copy_from_slice(&edges[from..from + of_edges.len()]);
        of_nodes.iter_mut().zip(0..).for_each(|(to, node)| *to = node);
    }
    Ok(())
}
