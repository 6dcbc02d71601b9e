//! What in the elements says how much an operation gives.

use super::error::KernelError;
use super::view::{Data, View};

/// A count that is not negative.
pub(super) fn count(view: &View<'_>) -> Result<usize, KernelError> {
    let number = view.i64()[0];
    usize::try_from(number)
        .map_err(|_| KernelError::Misfit(format!("{number} is not a valid count")))
}

/// How many numbers a range has.
pub(super) fn range_len(inputs: &[View<'_>]) -> Result<usize, KernelError> {
    let len = match inputs[0].data {
        Data::I64(_) => {
            let number = |at: usize| i128::from(inputs[at].i64()[0]);
            let (start, end, step) = (number(0), number(1), number(2));
            if step == 0 { f64::NAN } else { (end - start) as f64 / step as f64 }
        }
        _ => {
            let number = |at: usize| f64::from(inputs[at].f32()[0]);
            (number(1) - number(0)) / number(2)
        }
    };
    if !len.is_finite() {
        return Err(KernelError::Misfit("the range is infinite".to_owned()));
    }
    Ok(len.ceil().max(0.0) as usize)
}

/// The places of edges that lead from a node to another.
pub(super) fn others<'a>(edges: &View<'a>) -> impl Iterator<Item = usize> + use<'a> {
    let edges = edges.i64();
    let (sources, destinations) = edges.split_at(edges.len() / 2);
    (0..sources.len()).filter(move |at| sources[*at] != destinations[*at])
}
