//! Products of matrices, and reductions over axes.

use super::elements::relu;
use super::places::{broadcast_places, checked, strided};
use crate::dfg::{Op, Reduction, place};
use crate::kernel::error::KernelError;
use crate::kernel::view::{Data, DataMut, View, ViewMut};

/// `to = a * b` for matrices of `(m, k)` and `(k, n)`; an element of either is at
/// `row * strides.0 + column * strides.1`.
fn product(
    (m, k, n): (usize, usize, usize),
    (a, a_strides): (&[f32], (usize, usize)),
    (b, b_strides): (&[f32], (usize, usize)),
    to: &mut [f32],
) {
    for row in 0..m {
        for column in 0..n {
            let pair = |i: usize| {
                let (at, with) = (row * a_strides.0 + i * a_strides.1, i * b_strides.0);
                a[at] * b[with + column * b_strides.1]
            };
            to[row * n + column] = (0..k).map(pair).sum();
        }
    }
}

pub(super) fn mat_mul(one: &View<'_>, other: &View<'_>, out: &mut ViewMut<'_>) {
    let split = |dims: &[usize]| {
        let (stacks, last) = dims.split_at(dims.len() - 2);
        (stacks.to_vec(), last[0], last[1])
    };
    let ((ones, m, k), (others, _, n)) = (split(one.dims), split(other.dims));
    let (stacks, ..) = split(out.dims);
    let places = broadcast_places(&ones, &stacks).zip(broadcast_places(&others, &stacks));
    let (a, b, to) = (one.f32(), other.f32(), out.f32());
    for (stack, (i, j)) in places.enumerate() {
        let (a, b) = (&a[i * m * k..(i + 1) * m * k], &b[j * k * n..(j + 1) * k * n]);
        product((m, k, n), (a, (k, 1)), (b, (n, 1)), &mut to[stack * m * n..(stack + 1) * m * n]);
    }
}

pub(super) fn gemm(op: &Op, inputs: &[View<'_>], out: &mut ViewMut<'_>) {
    let Op::Gemm { alpha, beta, trans_a, trans_b } = op else { return };
    let strides = |dims: &[usize], is_turned| if is_turned { (1, dims[1]) } else { (dims[1], 1) };
    let (a, b) = (&inputs[0], &inputs[1]);
    let k = a.dims[usize::from(!trans_a)];
    let (a, b) = ((a.f32(), strides(a.dims, *trans_a)), (b.f32(), strides(b.dims, *trans_b)));
    let dims = out.dims;
    let to = out.f32();
    product((dims[0], k, dims[1]), a, b, to);
    to.iter_mut().for_each(|to| *to *= alpha);
    if let Some(added) = inputs.get(2) {
        let places = broadcast_places(added.dims, dims);
        to.iter_mut().zip(places).for_each(|(to, at)| *to += beta * added.f32()[at]);
    }
}

pub(super) fn linear(is_relu: bool, inputs: &[View<'_>], out: &mut ViewMut<'_>) {
    let (k, n) = (inputs[1].dims[0], inputs[1].dims[1]);
    let rows = out.dims[..out.dims.len() - 1].iter().product();
    let to = out.f32();
    product((rows, k, n), (inputs[0].f32(), (k, 1)), (inputs[1].f32(), (n, 1)), to);
    if let Some(bias) = inputs.get(2) {
        let bias = bias.f32().iter().cycle();
        to.iter_mut().zip(bias).for_each(|(to, bias)| *to += bias);
    }
    if let Some(rows) = inputs.get(3) {
        to.iter_mut().zip(rows.f32()).for_each(|(to, row)| *to += row);
    }
    if is_relu {
        to.iter_mut().for_each(|to| *to = relu(*to));
    }
}

pub(super) fn reduce(
    how: Reduction,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let of = &inputs[0];
    let rank = of.dims.len();
    let axes = match inputs.get(1).map(View::i64) {
        None | Some([]) => (0..rank).collect(),
        Some(axes) => axes
            .iter()
            .map(|axis| place(*axis, rank))
            .collect::<Result<Vec<_>, _>>()
            .map_err(KernelError::Misfit)?,
    };
    // For each element of the input the place of the result that it goes into.
    let (mut strides, mut stride) = (vec![0; rank], 1);
    for axis in (0..rank).rev().filter(|axis| !axes.contains(axis)) {
        strides[axis] = stride;
        stride *= of.dims[axis];
    }
    let places = strided(of.dims.to_vec(), strides);
    let count: usize = axes.iter().map(|axis| of.dims[*axis]).product();
    if count == 0 && matches!(how, Reduction::Max | Reduction::Min) {
        let problem = format!("{} of an empty set is not defined", how.name());
        return Err(KernelError::Misfit(problem));
    }
    match (of.data, &mut out.data) {
        (Data::I64(from), DataMut::I64(to)) => {
            to.fill(match how {
                Reduction::Sum | Reduction::Mean => 0,
                Reduction::Max => i64::MIN,
                Reduction::Min => i64::MAX,
                Reduction::Mul => 1,
            });
            for (x, at) in from.iter().zip(places) {
                to[at] = match how {
                    Reduction::Sum | Reduction::Mean => to[at].wrapping_add(*x),
                    Reduction::Max => to[at].max(*x),
                    Reduction::Min => to[at].min(*x),
                    Reduction::Mul => to[at].wrapping_mul(*x),
                };
            }
            if how == Reduction::Mean {
                to.iter_mut().for_each(|to| *to /= count.max(1) as i64);
            }
        }
        _ => {
            let (from, to) = (of.f32(), out.f32());
            to.fill(start(how));
            from.iter().zip(places).for_each(|(x, at)| to[at] = combine(how, to[at], *x));
            if how == Reduction::Mean {
                to.iter_mut().for_each(|to| *to /= count as f32);
            }
        }
    }
    Ok(())
}

/// What a reduction begins with.
pub(super) fn start(how: Reduction) -> f32 {
    match how {
        Reduction::Sum | Reduction::Mean => 0.0,
        Reduction::Max => f32::NEG_INFINITY,
        Reduction::Min => f32::INFINITY,
        Reduction::Mul => 1.0,
    }
}

/// What has come so far with one more; NaN stays.
pub(super) fn combine(how: Reduction, so_far: f32, x: f32) -> f32 {
    match how {
        Reduction::Sum | Reduction::Mean => so_far + x,
        Reduction::Mul => so_far * x,
        _ if so_far.is_nan() || x.is_nan() => f32::NAN,
        Reduction::Max => so_far.max(x),
        Reduction::Min => so_far.min(x),
    }
}

pub(super) fn segment_matmul(
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let (rows, kinds, matrices) = (inputs[0].f32(), inputs[1].i64(), &inputs[2]);
    let (count, k, n) = (matrices.dims[0], matrices.dims[1], matrices.dims[2]);
    let to = out.f32();
    for (place, kind) in kinds.iter().enumerate() {
        let kind = checked(*kind, place, count)?;
        let row = (&rows[place * k..(place + 1) * k], (k, 1));
        let matrix = (&matrices.f32()[kind * k * n..(kind + 1) * k * n], (n, 1));
        product((1, k, n), row, matrix, &mut to[place * n..(place + 1) * n]);
    }
    Ok(())
}
