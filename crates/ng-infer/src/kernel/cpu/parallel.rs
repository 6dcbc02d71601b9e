//! Work in parts: how many there are, and who does them.
//!
//! The invariant: rows are computed one by one, so that no byte depends on the parts.

use rayon::prelude::*;

use crate::kernel::context::Context;
use crate::kernel::error::KernelError;

/// Simple steps, such as sums, below which one thread is done before another has woken up.
const WORK_MIN: usize = 1 << 17;

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
    // Some more parts than threads, so that none waits long for the last.
    let parts = (work / (WORK_MIN / 4)).min(context.threads() * 4).max(1);
    let of_part = rows.div_ceil(parts);
    match context.pool().filter(|_| work >= WORK_MIN && rows > of_part) {
        None => each(0, out),
        Some(pool) => pool.install(|| {
            let parts = out.par_chunks_mut(of_part * width).enumerate();
            parts.map(|(part, out)| each(part * of_part, out)).collect()
        }),
    }
}
