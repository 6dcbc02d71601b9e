//! Each element by itself, and shapes that broadcast.

use ng_simd::{Function, GraphKernels};

use super::broadcast::Lines;
use super::parallel::{EXPONENTIAL, by_rows};
use crate::dfg::{Binary, Op, Unary};
use crate::kernel::context::Context;
use crate::kernel::error::KernelError;
use crate::kernel::view::{Data, DataMut, View, ViewMut};

/// Elements that stay in L1 between two passes over them.
const BLOCK: usize = 4096;

/// Whether it was done; the reference does the others.
pub(super) fn unary(
    kernels: GraphKernels,
    op: &Op,
    of: &View<'_>,
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<bool, KernelError> {
    let (Data::F32(from), DataMut::F32(to)) = (of.data, &mut out.data) else { return Ok(false) };
    let Some(cost) = cost(op) else { return Ok(false) };
    by_rows(context, cost * from.len(), 1, to, |first, to| {
        for (to, from) in to.chunks_mut(BLOCK).zip(from[first..].chunks(BLOCK)) {
            to.copy_from_slice(&from[..to.len()]);
            replace(kernels, op, to);
        }
        Ok(())
    })?;
    Ok(true)
}

/// The same in the elements themselves.
pub(super) fn unary_in_place(
    kernels: GraphKernels,
    op: &Op,
    to: &mut [f32],
    context: &Context,
) -> Result<(), KernelError> {
    let work = cost(op).unwrap_or(1) * to.len();
    by_rows(context, work, 1, to, |_, to| {
        replace(kernels, op, to);
        Ok(())
    })
}

/// How many simple steps an element takes; `None` if it is not done here.
pub(super) fn cost(op: &Op) -> Option<usize> {
    match op {
        Op::LeakyRelu { .. } => Some(1),
        Op::Elu { .. } => Some(EXPONENTIAL),
        Op::Unary(unary) => match unary {
            Unary::Abs | Unary::Neg | Unary::Reciprocal | Unary::Relu | Unary::Sqrt => Some(1),
            Unary::Erf | Unary::Exp | Unary::Sigmoid | Unary::Tanh => Some(EXPONENTIAL),
            // By the functions of the system, one by one.
            Unary::Log | Unary::Softplus => Some(8 * EXPONENTIAL),
            Unary::Not => None,
        },
        _ => None,
    }
}

/// Replaces elements by what an operation with a [`cost`] makes of them.
fn replace(kernels: GraphKernels, op: &Op, all: &mut [f32]) {
    macro_rules! each {
        ($of:expr) => {
            all.iter_mut().for_each(|x| *x = $of(*x))
        };
    }
    match op {
        Op::LeakyRelu { alpha } => each!(|x| if x < 0.0 { alpha * x } else { x }),
        Op::Elu { alpha } => kernels.apply(Function::Elu { alpha: *alpha }, all),
        Op::Unary(unary) => match unary {
            Unary::Abs => each!(f32::abs),
            Unary::Neg => each!(|x: f32| -x),
            Unary::Reciprocal => each!(|x: f32| 1.0 / x),
            Unary::Relu => each!(|x: f32| if x < 0.0 { 0.0 } else { x }),
            Unary::Sqrt => each!(f32::sqrt),
            Unary::Erf => kernels.apply(Function::Erf, all),
            Unary::Exp => kernels.apply(Function::Exp, all),
            Unary::Sigmoid => kernels.apply(Function::Sigmoid, all),
            Unary::Tanh => kernels.apply(Function::Tanh, all),
            Unary::Log => each!(f32::ln),
            Unary::Softplus => each!(|x: f32| x.max(0.0) + (-x.abs()).exp().ln_1p()),
            Unary::Not => {}
        },
        _ => {}
    }
}

/// Calls `each` with a line of the result and those of two tensors.
fn pairs<A: Copy + Sync, B: Copy + Sync, T: Send>(
    lines: &Lines<2>,
    (a, b): (&[A], &[B]),
    to: &mut [T],
    context: &Context,
    of: impl Fn(A, B) -> T + Sync,
) -> Result<(), KernelError> {
    by_rows(context, to.len(), 1, to, |first, mut to| {
        lines.each(first, to.len(), |count, [one, other]| {
            let line = to.split_off_mut(..count).unwrap_or_default();
            match (&a[one], &b[other]) {
                ([a], b) if b.len() == count => {
                    line.iter_mut().zip(b).for_each(|(to, b)| *to = of(*a, *b));
                }
                (a, [b]) => line.iter_mut().zip(a).for_each(|(to, a)| *to = of(*a, *b)),
                (a, b) => {
                    line.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to = of(*a, *b));
                }
            }
        });
        Ok(())
    })
}

/// Whether it was done; the reference does the others.
pub(super) fn binary(
    binary: Binary,
    one: &View<'_>,
    other: &View<'_>,
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<bool, KernelError> {
    let lines = Lines::new(out.dims, [one.dims, other.dims]);
    let (Data::F32(a), Data::F32(b)) = (one.data, other.data) else { return Ok(false) };
    macro_rules! each {
        ($to:expr, $of:expr) => {
            pairs(&lines, (a, b), $to, context, $of)
        };
    }
    match &mut out.data {
        DataMut::F32(to) => match binary {
            Binary::Add => each!(to, |x, y| x + y),
            Binary::Sub => each!(to, |x, y| x - y),
            Binary::Mul => each!(to, |x, y| x * y),
            Binary::Div => each!(to, |x, y| x / y),
            Binary::Max => each!(to, larger),
            Binary::Min => each!(to, smaller),
            // Squares are the usual powers.
            Binary::Pow if *b == [2.0] => each!(to, |x, _| x * x),
            Binary::Pow => each!(to, f32::powf),
            _ => return Ok(false),
        },
        DataMut::Bool(to) => match binary {
            Binary::Equal => each!(to, |x, y| x == y),
            Binary::Greater => each!(to, |x, y| x > y),
            Binary::GreaterOrEqual => each!(to, |x, y| x >= y),
            Binary::Less => each!(to, |x, y| x < y),
            Binary::LessOrEqual => each!(to, |x, y| x <= y),
            _ => return Ok(false),
        },
        _ => return Ok(false),
    }?;
    Ok(true)
}

/// Whether [`binary_in_place`] does it.
pub(super) fn is_in_place(binary: Binary) -> bool {
    binary.is_arithmetic() && binary != Binary::Pow
}

/// One tensor of the result's shape, which becomes the result, with another that is broadcast.
/// `is_second` says whether it is the second.
pub(super) fn binary_in_place(
    binary: Binary,
    is_second: bool,
    other: &View<'_>,
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let lines = Lines::new(out.dims, [other.dims]);
    let others = other.f32();
    macro_rules! each {
        ($of:expr) => {{
            let to = out.f32();
            by_rows(context, to.len(), 1, to, |first, mut to| {
                lines.each(first, to.len(), |count, [part]| {
                    let line = to.split_off_mut(..count).unwrap_or_default();
                    match &others[part] {
                        [y] => line.iter_mut().for_each(|x| *x = $of(*x, *y)),
                        all => line.iter_mut().zip(all).for_each(|(x, y)| *x = $of(*x, *y)),
                    }
                });
                Ok(())
            })
        }};
    }
    match (binary, is_second) {
        (Binary::Add, _) => each!(|x: f32, y: f32| x + y),
        (Binary::Mul, _) => each!(|x: f32, y: f32| x * y),
        (Binary::Sub, false) => each!(|x: f32, y: f32| x - y),
        (Binary::Sub, true) => each!(|x: f32, y: f32| y - x),
        (Binary::Div, false) => each!(|x: f32, y: f32| x / y),
        (Binary::Div, true) => each!(|x: f32, y: f32| y / x),
        (Binary::Max, false) => each!(larger),
        (Binary::Max, true) => each!(|x, y| larger(y, x)),
        (Binary::Min, false) => each!(smaller),
        (Binary::Min, true) => each!(|x, y| smaller(y, x)),
        _ => Err(KernelError::NotServed(binary.name().to_owned())),
    }
}

/// As in PyTorch, NaN wins.
pub(super) fn larger(x: f32, y: f32) -> f32 {
    if x > y || x.is_nan() { x } else { y }
}

/// As in PyTorch, NaN wins.
pub(super) fn smaller(x: f32, y: f32) -> f32 {
    if x < y || x.is_nan() { x } else { y }
}

pub(super) fn choose(
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    fn each<T: Copy + Send + Sync>(
        inputs: &[View<'_>],
        (a, b): (&[T], &[T]),
        (dims, to): (&[usize], &mut [T]),
        context: &Context,
    ) -> Result<(), KernelError> {
        let lines = Lines::new(dims, [inputs[0].dims, inputs[1].dims, inputs[2].dims]);
        let flags = inputs[0].bool();
        by_rows(context, to.len(), 1, to, |first, mut to| {
            lines.each(first, to.len(), |count, [flag, one, other]| {
                let line = to.split_off_mut(..count).unwrap_or_default();
                let (flags, a, b) = (&flags[flag], &a[one], &b[other]);
                let step = |len: usize| usize::from(len > 1);
                let steps = (step(flags.len()), step(a.len()), step(b.len()));
                for (i, to) in line.iter_mut().enumerate() {
                    *to = if flags[i * steps.0] { a[i * steps.1] } else { b[i * steps.2] };
                }
            });
            Ok(())
        })
    }
    let dims = out.dims;
    match (inputs[1].data, inputs[2].data, &mut out.data) {
        (Data::F32(a), Data::F32(b), DataMut::F32(to)) => each(inputs, (a, b), (dims, to), context),
        (Data::I64(a), Data::I64(b), DataMut::I64(to)) => each(inputs, (a, b), (dims, to), context),
        _ => each(inputs, (inputs[1].bool(), inputs[2].bool()), (dims, out.bool()), context),
    }
}

pub(super) fn expand(
    of: &View<'_>,
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    fn each<T: Copy + Send + Sync>(
        lines: &Lines<1>,
        from: &[T],
        to: &mut [T],
        context: &Context,
    ) -> Result<(), KernelError> {
        by_rows(context, to.len(), 1, to, |first, mut to| {
            lines.each(first, to.len(), |count, [part]| {
                let line = to.split_off_mut(..count).unwrap_or_default();
                match &from[part] {
                    [one] => line.fill(*one),
                    all => line.copy_from_slice(all),
                }
            });
            Ok(())
        })
    }
    let lines = Lines::new(out.dims, [of.dims]);
    match (of.data, &mut out.data) {
        (Data::F32(from), DataMut::F32(to)) => each(&lines, from, to, context),
        (Data::I64(from), DataMut::I64(to)) => each(&lines, from, to, context),
        _ => each(&lines, of.bool(), out.bool(), context),
    }
}
