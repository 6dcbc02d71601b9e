//! Operations that look at each element by itself.

use ng_types::Dtype;

use super::{CONTENT_MAX, Known, broadcast};
use crate::dfg::Dim;
use crate::dfg::op::{Binary, Op, Unary};

pub(super) fn unary(op: &Op, of: &Known) -> Result<Known, String> {
    match op {
        Op::Unary(Unary::Not) => of.wants(Dtype::Bool)?,
        Op::Unary(Unary::Neg | Unary::Abs) if of.dtype == Dtype::I64 => {}
        Op::Softmax { axis } | Op::LogSoftmax { axis } => {
            of.wants(Dtype::F32)?;
            of.axis(*axis)?;
        }
        _ => of.wants(Dtype::F32)?,
    }
    Ok(Known::new(of.dtype, of.shape.clone()))
}

pub(super) fn binary(binary: Binary, one: &Known, other: &Known) -> Result<Known, String> {
    other.wants(one.dtype)?;
    match (one.dtype, binary.is_logical()) {
        (Dtype::Bool, true) | (Dtype::F32 | Dtype::I64, false) => {}
        (Dtype::Bool, false) if binary == Binary::Equal => {}
        (dtype, _) => return Err(format!("{} does not support {}", binary.name(), dtype.name())),
    }
    if binary == Binary::Pow {
        one.wants(Dtype::F32)?;
    }
    let dtype = if binary.is_comparison() { Dtype::Bool } else { one.dtype };
    let mut known = Known::new(dtype, broadcast(&one.shape, &other.shape)?);
    if known.rank() < 2 && dtype == Dtype::I64 {
        known.content = content(binary, one, other);
    }
    Ok(known)
}

fn content(binary: Binary, one: &Known, other: &Known) -> Option<Vec<Dim>> {
    let (one, other) = (one.content.as_ref()?, other.content.as_ref()?);
    let len = if one.len() == 1 { other.len() } else { one.len() };
    let at = |all: &[Dim], i: usize| all.get(if all.len() == 1 { 0 } else { i }).cloned();
    let combine = |i| {
        let (one, other) = (at(one, i)?, at(other, i)?);
        match binary {
            Binary::Add => Some(one + other),
            Binary::Sub => Some(one - other),
            Binary::Mul => one.times(&other),
            // Whole numbers are divided towards zero, so only what leaves nothing is a length.
            Binary::Div => one.divided_by(&other),
            _ => None,
        }
    };
    if len > CONTENT_MAX { None } else { (0..len).map(combine).collect() }
}

pub(super) fn choose(condition: &Known, one: &Known, other: &Known) -> Result<Known, String> {
    condition.wants(Dtype::Bool)?;
    other.wants(one.dtype)?;
    let shape = broadcast(&one.shape, &other.shape)?;
    Ok(Known::new(one.dtype, broadcast(&condition.shape, &shape)?))
}

pub(super) fn cast(dtype: Dtype, of: &Known) -> Result<Known, String> {
    if of.dtype == Dtype::I8 || of.dtype == Dtype::F16 && dtype != Dtype::F32 {
        return Err(format!("casting {} to {} is not supported", of.dtype.name(), dtype.name()));
    }
    let mut known = Known::new(dtype, of.shape.clone());
    if dtype == of.dtype {
        known.content.clone_from(&of.content);
    }
    Ok(known)
}

pub(super) fn converted(of: &Known, from: Dtype, to: Dtype) -> Result<Known, String> {
    of.wants(from)?;
    Ok(Known::new(to, of.shape.clone()))
}

/// Whether an operation takes elements that are kept narrow. The others compute with them.
pub(super) fn takes_narrow(op: &Op) -> bool {
    use Op::{Cast, FixedMatMul, Gather, Identity, QuantisedLinear};
    matches!(op, Cast(_) | FixedMatMul | Gather { .. } | Identity | QuantisedLinear)
}
