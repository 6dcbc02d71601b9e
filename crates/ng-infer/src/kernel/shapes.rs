//! Types and shapes of what an operation gives, for tensors that are there.

use ng_types::Dtype;

use super::error::KernelError;
use super::numbers::{others, range_len};
use super::view::{Data, View};
use crate::dfg::{Exact, Op, exact, place};

/// More elements than this are an error, not a reason to end the process.
const ELEMENTS_MAX: usize = 1 << 36;

/// Types and shapes of what `op` gives.
///
/// # Errors
///
/// What it is given does not fit, or the result would be larger than any memory.
pub fn shapes(op: &Op, inputs: &[View<'_>]) -> Result<Vec<(Dtype, Vec<usize>)>, KernelError> {
    let known: Vec<_> = inputs
        .iter()
        .map(|view| {
            let numbers = if let Data::I64(all) = view.data { Some(all) } else { None };
            (view.dtype(), view.dims, numbers)
        })
        .collect();
    let found = match exact(op, &known).map_err(KernelError::Misfit)? {
        Some(found) => found,
        None => told_by_elements(op, inputs)?,
    };
    for (_, dims) in &found {
        let count = dims.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim));
        if count.is_none_or(|count| count > ELEMENTS_MAX) {
            return Err(KernelError::Misfit(format!(
                "a result of shape {dims:?} is too large: at most {ELEMENTS_MAX} elements are \
                 supported"
            )));
        }
    }
    Ok(found)
}

/// Where how much there is depends on the elements.
fn told_by_elements(op: &Op, inputs: &[View<'_>]) -> Result<Vec<Exact>, KernelError> {
    match op {
        Op::Compress { axis } => {
            let kept = inputs[1].bool().iter().filter(|is_kept| **is_kept).count();
            let mut dims = inputs[0].dims.to_vec();
            match axis {
                None => dims = vec![kept],
                Some(axis) => dims[place(*axis, inputs[0].dims.len()).map_err(misfit)?] = kept,
            }
            Ok(vec![(inputs[0].dtype(), dims)])
        }
        Op::RemoveSelfLoops | Op::RemoveSelfLoopsAttr => {
            let kept = others(&inputs[0]).count();
            let mut found = vec![(Dtype::I64, vec![2, kept])];
            if let Some(rows) = inputs.get(1) {
                let mut dims = rows.dims.to_vec();
                dims[0] = kept;
                found.push((rows.dtype(), dims));
            }
            Ok(found)
        }
        Op::Range => Ok(vec![(inputs[0].dtype(), vec![range_len(inputs)?])]),
        _ => Err(misfit("the shape of the result is unknown".to_owned())),
    }
}

fn misfit(problem: String) -> KernelError {
    KernelError::Misfit(problem)
}
