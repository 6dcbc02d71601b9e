//! Operations that treat rows one by one: which of what they take has the rows of what they give.
//!
//! The invariant: an operation that is not listed may do anything with rows.

use crate::dfg::{Known, Op, place};

/// How an operation treats rows one by one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RowByRow {
    /// For each input, whether it has the rows of the result; the others are taken as they are.
    Inputs(Vec<bool>),
    /// The first input in rows of another shape.
    Reshape(Vec<i64>),
    /// The first input, broadcast to rows of this shape.
    Expand(Vec<i64>),
}

/// How `op` treats rows; `None` if not one by one, or if that is not known.
pub(super) fn row_by_row(op: &Op, inputs: &[&Known], out: &Known) -> Option<RowByRow> {
    let rows = out.shape.first().filter(|rows| rows.number().is_none())?;
    let has_rows = |known: &Known| known.shape.first() == Some(rows);
    let rank = out.shape.len();
    // Whether an axis, which may count from the end, is not that of the rows.
    let is_inner = |axis: i64, rank: usize| place(axis, rank).is_ok_and(|axis| axis > 0);
    let all_inner = |list: Option<&&Known>, rank: usize| {
        let axes = list.and_then(|list| list.numbers());
        axes.is_some_and(|axes| !axes.is_empty() && axes.iter().all(|a| is_inner(*a, rank)))
    };
    let first = *inputs.first()?;
    // The first input has the rows, and the others are the same for all of them.
    let of_first = |is_so: bool| {
        let others = inputs.len() - 1;
        (is_so && has_rows(first)).then(|| {
            RowByRow::Inputs([true].into_iter().chain(std::iter::repeat_n(false, others)).collect())
        })
    };
    match op {
        Op::Unary(_)
        | Op::Elu { .. }
        | Op::LeakyRelu { .. }
        | Op::Cast(_)
        | Op::ToFixed(_)
        | Op::FromFixed { .. }
        | Op::FixedRescale { .. }
        | Op::Identity => of_first(true),
        Op::Softmax { axis } | Op::LogSoftmax { axis } => of_first(is_inner(*axis, rank)),
        Op::Binary(_) | Op::Where => broadcast(inputs, out),
        Op::MatMul => {
            let is_inner = rank > inputs[1].shape.len() || rank == 2;
            of_first(is_inner && first.shape.len() == rank)
        }
        Op::Linear { .. } | Op::QuantisedLinear | Op::FixedMatMul => of_first(rank > 1),
        Op::LinearSum { .. } => (rank > 1 && has_rows(first) && has_rows(inputs[3]))
            .then(|| RowByRow::Inputs(vec![true, false, false, true])),
        Op::Gemm { trans_a: false, .. } => {
            let has_matrix = inputs.get(2).is_some_and(|c| c.shape.len() == 2 && has_rows(c));
            let mut of = vec![has_rows(first), false];
            of.extend((inputs.len() > 2).then_some(has_matrix));
            of[0].then_some(RowByRow::Inputs(of))
        }
        Op::Reduce { .. } => of_first(all_inner(inputs.get(1), first.shape.len())),
        Op::Transpose { perm: Some(perm) } => of_first(perm.first() == Some(&0)),
        Op::Squeeze => of_first(all_inner(inputs.get(1), first.shape.len())),
        Op::Unsqueeze => of_first(all_inner(inputs.get(1), rank)),
        Op::Slice => {
            let axes = inputs.get(3).is_some();
            of_first(axes && all_inner(inputs.get(3), rank))
        }
        Op::Gather { axis } => of_first(is_inner(*axis, first.shape.len())),
        Op::GatherElements { axis } => {
            let are_rows = inputs.iter().all(|known| has_rows(known));
            (are_rows && is_inner(*axis, rank)).then(|| RowByRow::Inputs(vec![true, true]))
        }
        Op::Tile => {
            let times = inputs[1].content.as_ref().and_then(|times| times.first()?.number());
            of_first(times == Some(1))
        }
        Op::Concat { axis } => {
            let are_rows = inputs.iter().all(|known| has_rows(known));
            (are_rows && is_inner(*axis, rank)).then(|| RowByRow::Inputs(vec![true; inputs.len()]))
        }
        Op::SegmentMatmul => has_rows(inputs[1]).then(|| RowByRow::Inputs(vec![true, true, false])),
        Op::Reshape { .. } if has_rows(first) => Some(RowByRow::Reshape(row_shape(out)?)),
        Op::Expand if has_rows(first) && first.shape.len() == rank => {
            Some(RowByRow::Expand(row_shape(out)?))
        }
        _ => None,
    }
}

/// Inputs with all axes of the result have its rows, or one row for all of them.
fn broadcast(inputs: &[&Known], out: &Known) -> Option<RowByRow> {
    let of = |known: &&Known| {
        if known.shape.len() < out.shape.len() || known.shape[0].number() == Some(1) {
            return Some(false);
        }
        (known.shape[0] == out.shape[0]).then_some(true)
    };
    let of = inputs.iter().map(of).collect::<Option<Vec<_>>>()?;
    of.contains(&true).then_some(RowByRow::Inputs(of))
}

/// The lengths of a row, if all are known and none is 0, so that the number of rows follows.
fn row_shape(known: &Known) -> Option<Vec<i64>> {
    let lengths = known.shape[1..].iter().map(|dim| dim.number().filter(|n| *n > 0));
    lengths.collect()
}
