//! Softmax of rows, and its logarithm.
//!
//! The invariant: a sum has as many partial sums as the widest register has lanes, on every
//! processor, so that all paths give the same bits.

#[cfg(target_arch = "x86_64")]
use crate::dispatch::Path;
use crate::kernels::GraphKernels;
use crate::lists::{ShapeError, check_length};
use crate::maths::{exp_of_negative, ln_from_1};

/// Elements side by side.
const PARTS: usize = 16;

/// All bits of what is new in a part, behind none of what is not.
static NEW: [u32; 2 * PARTS] = {
    let mut all = [0; 2 * PARTS];
    let mut at = PARTS;
    while at < 2 * PARTS {
        all[at] = u32::MAX;
        at += 1;
    }
    all
};

/// Elements that stay in L1 between two steps.
const BLOCK: usize = 2048;

impl GraphKernels {
    /// Fills `to` with the softmax of each row of `width` elements in `from`, or its logarithm. A
    /// row with a NaN or an infinity becomes [`f32::NAN`], but for infinities below 0 beside finite
    /// values.
    ///
    /// ```
    /// use ng_simd::GraphKernels;
    /// let mut found = [9.0; 4];
    /// let rows = [1.0, 1.0, f32::NEG_INFINITY, 0.0];
    /// GraphKernels::best().softmax_rows(2, false, &rows, &mut found)?;
    /// assert_eq!(found, [0.5, 0.5, 0.0, 1.0]);
    /// # Ok::<(), ng_simd::ShapeError>(())
    /// ```
    ///
    /// # Errors
    /// [`ShapeError`]
    pub fn softmax_rows(
        self,
        width: usize,
        is_log: bool,
        from: &[f32],
        to: &mut [f32],
    ) -> Result<(), ShapeError> {
        if width == 0 {
            return check_length("rows", from.len(), &[0]);
        }
        check_length("rows", from.len(), &[to.len() / width, width])?;
        check_length("out", to.len(), &[from.len()])?;
        let of_block = (BLOCK / width).max(1) * width;
        let mut powers = vec![0.0; of_block.min(to.len())];
        let (mut tops, mut sums) = (vec![0.0; of_block / width], vec![0.0; of_block / width]);
        for (from, to) in from.chunks(of_block).zip(to.chunks_mut(of_block)) {
            let (powers, count) = (&mut powers[..from.len()], from.len() / width);
            let (tops, sums) = (&mut tops[..count], &mut sums[..count]);
            let rows = Rows { width, from, to, powers, tops, sums };
            match self.path() {
                // SAFETY: the path is given only where the processor has it.
                #[cfg(target_arch = "x86_64")]
                Path::Avx512 => unsafe { softmax_avx512(rows, is_log) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Path::Avx2 => unsafe { softmax_avx2(rows, is_log) },
                _ => softmax(rows, is_log),
            }
        }
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn softmax_avx512(rows: Rows<'_>, is_log: bool) {
    softmax(rows, is_log);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn softmax_avx2(rows: Rows<'_>, is_log: bool) {
    softmax(rows, is_log);
}

/// Whole rows of a block.
struct Rows<'a> {
    width: usize,
    from: &'a [f32],
    to: &'a mut [f32],
    /// As many elements.
    powers: &'a mut [f32],
    /// An element for each row.
    tops: &'a mut [f32],
    /// An element for each row.
    sums: &'a mut [f32],
}

/// Step by step for all rows of a block, so that no row waits for the one before.
#[inline(always)]
fn softmax(rows: Rows<'_>, is_log: bool) {
    let Rows { width, from, to, powers, tops, sums } = rows;
    for ((top, row), powers) in
        tops.iter_mut().zip(from.chunks_exact(width)).zip(powers.chunks_exact_mut(width))
    {
        // A NaN comes to the sum in any case.
        let larger = |kept: f32, x: f32| if x > kept { x } else { kept };
        *top = fold(row, f32::NEG_INFINITY, larger);
        map(row, powers, |x| x - *top);
    }
    powers.iter_mut().for_each(|power| *power = exp_of_negative(*power));
    for (sum, powers) in sums.iter_mut().zip(powers.chunks_exact(width)) {
        *sum = fold(powers, 0.0, |a, b| a + b);
    }
    if is_log {
        sums.iter_mut().for_each(|sum| *sum = ln_from_1(*sum));
    }
    let rows = from.chunks_exact(width).zip(powers.chunks_exact(width));
    let canonical = |x: f32| if x.is_nan() { f32::NAN } else { x };
    for (((row, powers), to), (top, sum)) in
        rows.zip(to.chunks_exact_mut(width)).zip(tops.iter().zip(sums))
    {
        if is_log {
            map(row, to, |x| canonical(x - *top - *sum));
        } else {
            map(powers, to, |power| canonical(power / *sum));
        }
    }
}

/// The last sixteen elements of a row, if its sixteens do not end with it, and how many of them are
/// in the sixteens. A narrow row has neither.
#[inline(always)]
fn last(row: &[f32]) -> Option<(&[f32; PARTS], usize)> {
    let rest = row.len() % PARTS;
    row.last_chunk::<PARTS>().filter(|_| rest > 0).map(|last| (last, PARTS - rest))
}

/// Joins the elements of a row and `start`, which changes nothing: sixteen partial results side by
/// side, and those in halves.
#[inline(always)]
fn fold(row: &[f32], start: f32, of: impl Fn(f32, f32) -> f32) -> f32 {
    let mut kept = [start; PARTS];
    let (parts, _) = row.as_chunks::<PARTS>();
    for part in parts {
        kept.iter_mut().zip(part).for_each(|(kept, x)| *kept = of(*kept, *x));
    }
    if let Some((last, known)) = last(row) {
        for ((kept, x), is_new) in kept.iter_mut().zip(last).zip(&NEW[PARTS - known..]) {
            let bits = x.to_bits() & is_new | start.to_bits() & !is_new;
            *kept = of(*kept, f32::from_bits(bits));
        }
    } else if parts.is_empty() {
        kept.iter_mut().zip(row).for_each(|(kept, x)| *kept = of(*kept, *x));
    }
    for half in [8, 4, 2, 1] {
        let (low, high) = kept.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = of(*low, *high));
    }
    kept[0]
}

/// Fills `to` with what becomes of each element of a row. Some are done twice.
#[inline(always)]
fn map(row: &[f32], to: &mut [f32], of: impl Fn(f32) -> f32) {
    let (parts, _) = row.as_chunks::<PARTS>();
    for (part, to) in parts.iter().zip(to.as_chunks_mut::<PARTS>().0) {
        to.iter_mut().zip(part).for_each(|(to, x)| *to = of(*x));
    }
    if let (Some((last, _)), Some(to)) = (last(row), to.last_chunk_mut::<PARTS>()) {
        to.iter_mut().zip(last).for_each(|(to, x)| *to = of(*x));
    } else if parts.is_empty() {
        to.iter_mut().zip(row).for_each(|(to, x)| *to = of(*x));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Path;

    fn rows(width: usize) -> Vec<f32> {
        (0..7 * width).map(|at| (at * 7919 % 4001) as f32 / 100.0 - 20.0).collect()
    }

    #[test]
    fn rows_are_near_the_definition_and_the_same_on_every_path() {
        for width in [1, 2, 15, 16, 17, 47, 64, 200, 2049] {
            for is_log in [false, true] {
                let of = |kernels: GraphKernels| {
                    let mut found = vec![9.0; 7 * width];
                    let done = kernels.softmax_rows(width, is_log, &rows(width), &mut found);
                    assert_eq!(done, Ok(()));
                    found
                };
                let found = of(GraphKernels::best());
                for path in [Path::Portable, Path::Avx2] {
                    let Some(kernels) = GraphKernels::on(path) else { continue };
                    assert_eq!(of(kernels), found, "{path:?}, {width}");
                }
                for (found, row) in found.chunks(width).zip(rows(width).chunks(width)) {
                    let top = row.iter().copied().fold(f32::MIN, f32::max);
                    let sum: f64 = row.iter().map(|x| f64::from(x - top).exp()).sum();
                    for (found, x) in found.iter().zip(row) {
                        let log = f64::from(x - top) - sum.ln();
                        let wanted = if is_log { log } else { log.exp() };
                        let gap = (f64::from(*found) - wanted).abs();
                        assert!(gap <= 1e-6 * wanted.abs().max(1.0), "{found}, not {wanted}");
                    }
                }
            }
        }
    }

    #[test]
    fn odd_rows_are_no_numbers() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for is_log in [false, true] {
            for row in [[0.0, nan], [inf, 0.0], [-inf, -inf], [nan, inf], [nan, nan]] {
                let mut found = [9.0; 2];
                let done = GraphKernels::best().softmax_rows(2, is_log, &row, &mut found);
                assert_eq!(done, Ok(()));
                assert!(found.iter().all(|x| x.to_bits() == nan.to_bits()), "{row:?}: {found:?}");
            }
        }
        let mut found = [9.0; 2];
        let kernels = GraphKernels::best();
        assert_eq!(kernels.softmax_rows(2, true, &[-inf, 3.0], &mut found), Ok(()));
        assert_eq!(found, [-inf, 0.0]);
        assert!(kernels.softmax_rows(2, true, &[0.0; 3], &mut found).is_err());
    }
}
