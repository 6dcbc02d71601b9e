//! Quantised and fixed-point numbers.

use ng_types::Dtype;

use super::{Known, same};
use crate::dfg::Dim;
use crate::dfg::op::Op;

/// Whether an operation takes elements that are kept narrow. The others compute with them.
pub(super) fn is_taken(op: &Op) -> bool {
    use Op::{Cast, FixedMatMul, Gather, Identity, QuantisedLinear};
    matches!(op, Cast(_) | FixedMatMul | Gather { .. } | Identity | QuantisedLinear)
}

/// The shape of rows times a matrix.
fn product(rows: &Known, matrix: &Known) -> Result<Vec<Dim>, String> {
    matrix.wants_rank(2)?;
    let (inner, rest) = rows.shape.split_last().ok_or("wanted rows, found a number")?;
    same(inner, &matrix.shape[0], "inner lengths that differ")?;
    Ok([rest, &matrix.shape[1..]].concat())
}

pub(super) fn quantised_linear(inputs: &[&Known]) -> Result<Known, String> {
    let (rows, steps) = (inputs[0], inputs[1]);
    rows.wants(Dtype::F32)?;
    steps.wants(Dtype::I8)?;
    let shape = product(rows, steps)?;
    for column in &inputs[2..] {
        column.wants(Dtype::F32)?;
        column.wants_rank(1)?;
        same(&steps.shape[1], &column.shape[0], "columns and their numbers differ in length")?;
    }
    Ok(Known::new(Dtype::F32, shape))
}

pub(super) fn converted(of: &Known, from: Dtype, to: Dtype) -> Result<Known, String> {
    of.wants(from)?;
    Ok(Known::new(to, of.shape.clone()))
}

pub(super) fn fixed_mat_mul(rows: &Known, matrix: &Known) -> Result<Known, String> {
    rows.wants(Dtype::I64)?;
    if matrix.dtype != Dtype::I8 {
        matrix.wants(Dtype::I64)?;
    }
    Ok(Known::new(Dtype::I64, product(rows, matrix)?))
}
