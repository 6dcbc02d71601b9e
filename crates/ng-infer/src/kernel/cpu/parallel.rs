//! Work in parts: how many there are, and who does them.
//!
//! The invariant: rows are computed one by one, so that no byte depends on the parts.

use crate::kernel::context::Context;
use crate::kernel::error::KernelError;

/// How much more than a sum a step costs: a factor for the work of [`by_rows`].
pub(super) const EXPONENTIAL: usize = 4;

/// Calls `each` with the number of a row and the rows from there on, for all rows of `width`
/// elements in `out`, on as many threads as `work` is worth, which counts simple steps.
pub(super) fn by_rows<T: Send>(
    context: &Context,
    work: usize,
    width: usize,
    out: &mut [T],
    each: impl Fn(usize, &mut [T]) -> Result<(), KernelError> + Sync + Send,
) -> Result<(), KernelError> {
    let rows = out.len().checked_div(width).unwrap_or(0);
    let of_part = rows.div_ceil(context.parts(work));
    if rows <= of_part {
        return each(0, out);
    }
    let parts = out.chunks_mut(of_part * width).enumerate();
    context.each(parts, |(part, out)| each(part * of_part, out))
}
