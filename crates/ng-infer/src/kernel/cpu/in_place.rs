//! Simple operations in the elements of an input, which saves memory and its traffic.

use super::parallel::by_rows;
use crate::dfg::{Binary, Op, Unary};
use crate::kernel::context::Context;
use crate::kernel::contract::Kernel;
use crate::kernel::error::KernelError;
use crate::kernel::scalar::Scalar;
use crate::kernel::view::{Data, DataMut, View, ViewMut};

/// Whether an operation is as quick in place as elsewhere.
pub(super) fn is_done(op: &Op, input: usize) -> bool {
    match op {
        Op::LeakyRelu { .. } => true,
        Op::Unary(unary) => {
            matches!(unary, Unary::Abs | Unary::Neg | Unary::Reciprocal | Unary::Relu | Unary::Sqrt)
        }
        Op::Binary(binary) => {
            input < 2 && matches!(binary, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
        }
        _ => false,
    }
}

pub(super) fn run(
    op: &Op,
    at: usize,
    others: &[View<'_>],
    to: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let dims = to.dims;
    match (op, &mut to.data, others) {
        (Op::Binary(binary), DataMut::F32(to), [View { dims: of, data: Data::F32(other) }]) => {
            let Some(span) = span(of, dims) else { return elsewhere(op, at, others, dims, to) };
            match (binary, at) {
                (Binary::Add, _) => pairs(to, other, span, context, |x, y| x + y),
                (Binary::Mul, _) => pairs(to, other, span, context, |x, y| x * y),
                (Binary::Sub, 0) => pairs(to, other, span, context, |x, y| x - y),
                (Binary::Sub, _) => pairs(to, other, span, context, |x, y| y - x),
                (_, 0) => pairs(to, other, span, context, |x, y| x / y),
                _ => pairs(to, other, span, context, |x, y| y / x),
            }
        }
        (Op::LeakyRelu { alpha }, DataMut::F32(to), _) => {
            each(to, context, |x| if x < 0.0 { alpha * x } else { x })
        }
        (Op::Unary(unary), DataMut::F32(to), _) => match unary {
            Unary::Abs => each(to, context, f32::abs),
            Unary::Neg => each(to, context, |x| -x),
            Unary::Reciprocal => each(to, context, |x| 1.0 / x),
            Unary::Relu => each(to, context, |x| if x < 0.0 { 0.0 } else { x }),
            _ => each(to, context, f32::sqrt),
        },
        _ => Scalar.run_in_place(op, at, others, to, context),
    }
}

/// Shapes that are rare are left to the reference.
fn elsewhere(
    op: &Op,
    at: usize,
    others: &[View<'_>],
    dims: &[usize],
    to: &mut [f32],
) -> Result<(), KernelError> {
    let mut to = ViewMut { dims, data: DataMut::F32(to) };
    Scalar.run_in_place(op, at, others, &mut to, &Context::default())
}

/// How elements of one tensor meet those of another that is broadcast to it.
#[derive(Clone, Copy)]
enum Span {
    /// The other begins again after its last element: it is a row, or all.
    Row,
    /// Each element of the other is for so many.
    Column(usize),
}

fn span(of: &[usize], to: &[usize]) -> Option<Span> {
    let lead = of.iter().take_while(|len| **len == 1).count();
    if to.ends_with(&of[lead..]) {
        return Some(Span::Row);
    }
    let kept = of.iter().rposition(|len| *len != 1).map_or(0, |last| last + 1);
    let is_column = of.len() == to.len() && to.starts_with(&of[..kept]);
    is_column.then(|| Span::Column(to[kept..].iter().product()))
}

fn each(
    to: &mut [f32],
    context: &Context,
    of: impl Fn(f32) -> f32 + Sync + Send,
) -> Result<(), KernelError> {
    by_rows(context, to.len(), 1, to, |_, to| {
        to.iter_mut().for_each(|x| *x = of(*x));
        Ok(())
    })
}

fn pairs(
    to: &mut [f32],
    other: &[f32],
    span: Span,
    context: &Context,
    of: impl Fn(f32, f32) -> f32 + Sync + Send,
) -> Result<(), KernelError> {
    if let [y] = *other {
        return each(to, context, |x| of(x, y));
    }
    let (work, width) = match span {
        // All of the other meets all of `to`: the parts are as good as elements.
        Span::Row if other.len() == to.len() => (to.len(), 1),
        Span::Row => (to.len(), other.len()),
        Span::Column(width) => (to.len(), width),
    };
    by_rows(context, work, width, to, |first, to| {
        match span {
            Span::Row if width == 1 => {
                to.iter_mut().zip(&other[first..]).for_each(|(x, y)| *x = of(*x, *y));
            }
            Span::Row => {
                for to in to.chunks_exact_mut(width.max(1)) {
                    to.iter_mut().zip(other).for_each(|(x, y)| *x = of(*x, *y));
                }
            }
            Span::Column(_) => {
                for (to, y) in to.chunks_exact_mut(width.max(1)).zip(&other[first..]) {
                    to.iter_mut().for_each(|x| *x = of(*x, *y));
                }
            }
        }
        Ok(())
    })
}
