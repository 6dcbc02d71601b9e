//! Operations on each element, products, and reductions along an axis.

use crate::dfg::{Binary, Op};

use super::facts::{Domain, Fact, Pointer, Rows};
use super::rules::{Analysis, Step, mix, place};

const MIXES: &str = "it multiplies the rows of different nodes or edges with each other";

pub(super) fn facts(of: &mut Analysis<'_>, step: &Step<'_>, all: &[Fact]) -> Result<Fact, String> {
    match step.op {
        Op::Identity => Ok(all[0]),
        Op::Cast(_) => Ok(Fact { pointer: None, ..row_wise(of, step, all)? }),
        Op::Unary(_)
        | Op::Elu { .. }
        | Op::LeakyRelu { .. }
        | Op::Where
        | Op::ToFixed(_)
        | Op::FromFixed { .. }
        | Op::FixedRescale { .. } => row_wise(of, step, all),
        Op::Linear { .. } | Op::QuantisedLinear | Op::FixedMatMul => linear(of, step, all),
        Op::Binary(binary) => {
            let pointer = places(of, step, all, *binary);
            Ok(Fact { pointer, ..row_wise(of, step, all)? })
        }
        Op::Softmax { axis } | Op::LogSoftmax { axis } => {
            let rows = all[0].rows().ok_or("it computes with the node ids of an edge index")?;
            if place(*axis, of.rank(step.inputs[0]))? == rows.axis {
                return Err("it normalises over all rows, so it needs all rows at once".to_owned());
            }
            Ok(all[0])
        }
        Op::Reduce { keep_dims, .. } => reduced(of, step, all, *keep_dims),
        Op::MatMul => product(of, step, all),
        Op::Gemm { trans_a, .. } => {
            let is_plain = |fact: &Fact| fact.rows().is_some_and(|rows| rows.axis == 0);
            if *trans_a || !is_plain(&all[0]) || all[1].rows().is_some() {
                return Err(MIXES.to_owned());
            }
            let pair = match all.get(2) {
                Some(_) => vec![step.inputs[0], step.inputs[2]],
                None => vec![step.inputs[0]],
            };
            aligned(of, &pair, of.rank(step.outputs[0]))?;
            Ok(Fact { domain: all[0].domain, ..mix(all) })
        }
        Op::SegmentMatmul => {
            let rows = [all[0].rows(), all[1].rows()];
            match rows {
                [Some(rows), Some(kinds)] if rows == kinds && all[2].rows().is_none() => {
                    Ok(Fact { domain: all[0].domain, ..mix(all) })
                }
                _ => Err("the rows and their types belong to different sets of nodes or edges"
                    .to_owned()),
            }
        }
        Op::GatherElements { axis } => {
            let rows = all[0].rows().filter(|rows| all[1].rows() == Some(*rows));
            let axis = place(*axis, of.rank(step.inputs[0]))?;
            match rows {
                Some(rows) if rows.axis != axis => Ok(Fact { domain: all[0].domain, ..mix(all) }),
                _ => Err("each row of its result needs elements of other rows".to_owned()),
            }
        }
        _ => Err("the input rows that each row of its result needs are unknown".to_owned()),
    }
}

/// The rows that all values share, whose axes are counted from the end, in a result of `rank`.
pub(super) fn aligned(
    of: &Analysis<'_>,
    values: &[crate::dfg::Value],
    rank: usize,
) -> Result<Rows, String> {
    let mut shared: Option<Rows> = None;
    for value in values {
        let fact = of.fact(*value);
        let rows = match fact.domain {
            Domain::Rows(rows) => rows,
            Domain::Edges(_) => {
                return Err("it computes with the node ids of an edge index".to_owned());
            }
            _ => continue,
        };
        let rows = Rows { axis: rows.axis + rank - of.rank(*value), ..rows };
        match shared {
            Some(known) if known != rows => {
                return Err("it combines rows of different sets of nodes or edges".to_owned());
            }
            _ => shared = Some(rows),
        }
    }
    let rows = shared.ok_or("none of its inputs has rows of nodes or edges")?;
    for value in values {
        let missing = rank - of.rank(*value);
        if of.fact(*value).rows().is_none()
            && let Some(axis) = rows.axis.checked_sub(missing)
            && of.shape(*value)[axis].number() != Some(1)
        {
            return Err("it combines rows with a constant that differs from row to row".to_owned());
        }
    }
    Ok(rows)
}

/// Each row of the result is made of the same row of what it takes.
pub(super) fn row_wise(of: &Analysis<'_>, step: &Step<'_>, all: &[Fact]) -> Result<Fact, String> {
    let rows = aligned(of, step.inputs, of.rank(step.outputs[0]))?;
    Ok(Fact { domain: Domain::Rows(rows), ..mix(all) })
}

/// Rows times a matrix of the model; each row by itself.
fn linear(of: &Analysis<'_>, step: &Step<'_>, all: &[Fact]) -> Result<Fact, String> {
    let last = of.rank(step.inputs[0]).saturating_sub(1);
    let rows = all[0].rows().filter(|rows| rows.axis != last);
    if rows.is_none() || all[1..].iter().any(|fact| fact.rows().is_some()) {
        return Err(MIXES.to_owned());
    }
    Ok(Fact { domain: all[0].domain, ..mix(all) })
}

/// Ends times a number, or plus a kind that each edge has: still ends.
fn places(of: &Analysis<'_>, step: &Step<'_>, all: &[Fact], binary: Binary) -> Option<Pointer> {
    let [one, other] = all else { return None };
    let (at, pointer) = match (one.pointer, other.pointer) {
        (Some(pointer), None) => (1, pointer),
        (None, Some(pointer)) => (0, pointer),
        _ => return None,
    };
    match (binary, all[at].domain) {
        (Binary::Mul, Domain::Constant) => {
            let [factor] = of.numbers(step.inputs[at])? else { return None };
            let times = pointer.times.checked_mul(usize::try_from(*factor).ok()?)?;
            Some(Pointer { times, ..pointer })
        }
        // A kind is less than the factor; the kernels refuse what is out of range.
        (Binary::Add, Domain::Rows(_)) if pointer.times > 1 => Some(pointer),
        _ => None,
    }
}

fn reduced(
    of: &mut Analysis<'_>,
    step: &Step<'_>,
    all: &[Fact],
    keep_dims: bool,
) -> Result<Fact, String> {
    let rows = all[0].rows().ok_or("it computes with the node ids of an edge index")?;
    let axes = of.axes(step)?;
    if axes.contains(&rows.axis) {
        return Ok(of.barrier(step, rows.space, all));
    }
    let before = axes.iter().filter(|axis| **axis < rows.axis).count();
    let axis = if keep_dims { rows.axis } else { rows.axis - before };
    Ok(Fact { domain: Domain::Rows(Rows { axis, ..rows }), ..mix(all) })
}

fn product(of: &Analysis<'_>, step: &Step<'_>, all: &[Fact]) -> Result<Fact, String> {
    let rank = of.rank(step.outputs[0]);
    let rows = aligned_product(of, step, all, rank)?;
    Ok(Fact { domain: Domain::Rows(rows), ..mix(all) })
}

/// Rows of a product are stacks of matrices, or the rows of the first matrix.
fn aligned_product(
    of: &Analysis<'_>,
    step: &Step<'_>,
    all: &[Fact],
    rank: usize,
) -> Result<Rows, String> {
    let from_end = |at: usize| {
        let rows = all[at].rows()?;
        Some((of.rank(step.inputs[at]) - rows.axis, rows))
    };
    match (from_end(0), from_end(1)) {
        (Some((1, _)), _) | (_, Some((1 | 2, _))) => Err(MIXES.to_owned()),
        (Some((2, rows)), None) => Ok(Rows { axis: rank - 2, ..rows }),
        _ => aligned(of, step.inputs, rank),
    }
}
