//! Softmax of rows, and its logarithm.
//!
//! The invariant: a sum has as many partial sums as the widest register has lanes, on every
//! processor, so that all paths give the same bits.

#[cfg(target_arch = "x86_64")]
use crate::dispatch::Path;
use crate::kernels::GraphKernels;
use crate::maths::{exp_of_negative, ln_from_1};

/// Elements side by side.
const PARTS: usize = 16;

impl GraphKernels {
    /// Replaces each row of `width` elements by its softmax, or by the logarithm of that. A row with
    /// a NaN or an infinity becomes [`f32::NAN`], but for infinities below 0 beside finite values.
    /// What is left behind the last whole row stays.
    ///
    /// ```
    /// use ng_simd::GraphKernels;
    /// let mut rows = [1.0, 1.0, f32::NEG_INFINITY, 0.0];
    /// GraphKernels::best().softmax_rows(2, false, &mut rows);
    /// assert_eq!(rows, [0.5, 0.5, 0.0, 1.0]);
    /// ```
    pub fn softmax_rows(self, width: usize, is_log: bool, rows: &mut [f32]) {
        match self.path() {
            // SAFETY: the path is given only where the processor has it.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => unsafe { softmax_avx512(width, is_log, rows) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { softmax_avx2(width, is_log, rows) },
            _ => softmax(width, is_log, rows),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn softmax_avx512(width: usize, is_log: bool, rows: &mut [f32]) {
    softmax(width, is_log, rows);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn softmax_avx2(width: usize, is_log: bool, rows: &mut [f32]) {
    softmax(width, is_log, rows);
}

#[inline(always)]
fn softmax(width: usize, is_log: bool, rows: &mut [f32]) {
    for row in rows.chunks_exact_mut(width.max(1)) {
        // A NaN comes to the sum in any case.
        let largest = |kept: f32, x: f32| if x > kept { x } else { kept };
        let mut parts = [f32::NEG_INFINITY; PARTS];
        each_part(row, |part| {
            parts.iter_mut().zip(part).for_each(|(kept, x)| *kept = largest(*kept, *x));
        });
        let top = joined(parts, largest);
        let mut sums = [0.0; PARTS];
        each_part(row, |part| {
            for (sum, x) in sums.iter_mut().zip(part) {
                let power = exp_of_negative(*x - top);
                *sum += power;
                *x = if is_log { *x - top } else { power };
            }
        });
        let sum = joined(sums, |a, b| a + b);
        let less = if is_log { ln_from_1(sum) } else { 1.0 };
        each_part(row, |part| {
            for x in part {
                let found = if is_log { *x - less } else { *x / sum };
                *x = if found.is_nan() { f32::NAN } else { found };
            }
        });
    }
}

/// Calls `each` with all elements of a row by sixteens. The last are filled up with what adds
/// nothing to a sum of powers, and is no largest value.
#[inline(always)]
fn each_part(row: &mut [f32], mut each: impl FnMut(&mut [f32; PARTS])) {
    let (parts, rest) = row.as_chunks_mut::<PARTS>();
    parts.iter_mut().for_each(&mut each);
    if !rest.is_empty() {
        let mut part = [f32::NEG_INFINITY; PARTS];
        part[..rest.len()].copy_from_slice(rest);
        each(&mut part);
        rest.copy_from_slice(&part[..rest.len()]);
    }
}

/// The parts in halves.
#[inline(always)]
fn joined(mut parts: [f32; PARTS], of: impl Fn(f32, f32) -> f32) -> f32 {
    for half in [8, 4, 2, 1] {
        let (low, high) = parts.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = of(*low, *high));
    }
    parts[0]
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
        for width in [1, 2, 15, 16, 17, 47, 64, 200] {
            for is_log in [false, true] {
                let mut found = rows(width);
                GraphKernels::best().softmax_rows(width, is_log, &mut found);
                for path in [Path::Portable, Path::Avx2] {
                    let mut other = rows(width);
                    let Some(kernels) = GraphKernels::on(path) else { continue };
                    kernels.softmax_rows(width, is_log, &mut other);
                    assert_eq!(other, found, "{path:?}, {width}");
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
                let mut found = row;
                GraphKernels::best().softmax_rows(2, is_log, &mut found);
                assert!(found.iter().all(|x| x.to_bits() == nan.to_bits()), "{row:?}: {found:?}");
            }
        }
        let mut found = [-inf, 3.0];
        GraphKernels::best().softmax_rows(2, true, &mut found);
        assert_eq!(found, [-inf, 0.0]);
    }
}
