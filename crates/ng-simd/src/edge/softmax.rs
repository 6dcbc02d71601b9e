//! Softmax over the edges of each destination.
//!
//! The exponential is a polynomial of our own: that of a system's library differs between systems,
//! and no compiler vectorises it.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::canonical;
use crate::dispatch::Path;
use crate::kernels::GraphKernels;
use crate::lists::{EdgeLists, ShapeError, check_length};

/// Keeps the divisor from being 0, as PyTorch Geometric does.
const LEAST_SUM: f32 = 1e-16;

impl GraphKernels {
    /// For each destination and head, the softmax of the logits of its edges:
    /// `exp(logit - largest) / (sum + 1e-16)`, where the sum is in the order of the list.
    ///
    /// `logits` has `num_edges` x `heads` elements, and `out` has `heads` for each edge of
    /// `destinations`. The exponential is within 2 ulps, and 0 where it would be subnormal. A NaN
    /// or a positive infinity makes all edges of its destination and head NaN; a negative infinity
    /// gives 0, unless the list has nothing else.
    ///
    /// ```
    /// use ng_simd::{EdgeLists, GraphKernels};
    /// let lists = EdgeLists::new(&[0, 2, 3], &[0, 1, 1], 2)?;
    /// let mut out = [0.0; 3];
    /// GraphKernels::best().edge_softmax(&lists, &[5.0, 5.0, 1.0], 1, 0..2, &mut out)?;
    /// assert_eq!(out, [0.5, 0.5, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShapeError`]
    pub fn edge_softmax(
        self,
        lists: &EdgeLists<'_>,
        logits: &[f32],
        heads: usize,
        destinations: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), ShapeError> {
        let edges = lists.edges_of(&destinations)?;
        check_length("logits", logits.len(), &[lists.num_edges(), heads])?;
        check_length("out", out.len(), &[edges.len(), heads])?;
        if heads == 0 {
            return Ok(());
        }
        match self.path() {
            // SAFETY: both paths are given only where the processor has AVX2.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 | Path::Avx512 => unsafe {
                softmax_avx2(lists, logits, heads, destinations, out);
            },
            _ => softmax(lists, logits, heads, destinations, out),
        }
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn softmax_avx2(
    lists: &EdgeLists<'_>,
    logits: &[f32],
    heads: usize,
    destinations: Range<usize>,
    out: &mut [f32],
) {
    softmax(lists, logits, heads, destinations, out);
}

#[inline(always)]
fn softmax(
    lists: &EdgeLists<'_>,
    logits: &[f32],
    heads: usize,
    destinations: Range<usize>,
    mut out: &mut [f32],
) {
    let mut largest = vec![0.0; heads];
    let mut sums = vec![0.0; heads];
    for destination in destinations {
        let edges = lists.edges(destination);
        let logits = &logits[edges.start * heads..edges.end * heads];
        let (list, rest) = std::mem::take(&mut out).split_at_mut(logits.len());
        out = rest;
        softmax_of_list(logits, &mut largest, &mut sums, list);
    }
}

/// The softmax of one list. The passes are separate so that each is vectorised.
#[inline(always)]
fn softmax_of_list(logits: &[f32], largest: &mut [f32], sums: &mut [f32], out: &mut [f32]) {
    let heads = largest.len();
    largest.fill(f32::NEG_INFINITY);
    for edge in logits.chunks_exact(heads) {
        for (largest, logit) in largest.iter_mut().zip(edge) {
            let is_kept = *logit <= *largest || largest.is_nan();
            *largest = if is_kept { *largest } else { *logit };
        }
    }
    for (edge, out) in logits.chunks_exact(heads).zip(out.chunks_exact_mut(heads)) {
        for ((logit, largest), out) in edge.iter().zip(&*largest).zip(out) {
            *out = logit - largest;
        }
    }
    for value in &mut *out {
        *value = exp_of_negative(*value);
    }
    sums.fill(0.0);
    for edge in out.chunks_exact(heads) {
        for (sum, value) in sums.iter_mut().zip(edge) {
            *sum += value;
        }
    }
    for edge in out.chunks_exact_mut(heads) {
        for (value, sum) in edge.iter_mut().zip(&*sums) {
            *value = canonical(*value / (sum + LEAST_SUM));
        }
    }
}

/// e to the power of a number that is not positive, by the polynomial of Cephes' `expf` (Moshier).
#[inline(always)]
fn exp_of_negative(power: f32) -> f32 {
    /// Added to a small number, it leaves the nearest integer in the low bits of the sum.
    const ROUNDING: f32 = 12_582_912.0;
    /// The logarithm of 2 in two parts. The upper one has few bits, so its products are exact.
    const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
    /// The logarithm of the smallest normal number.
    const LOWEST: f32 = -87.336_54;
    let rounded = power * LOG2_E + ROUNDING;
    let exponent = rounded - ROUNDING;
    let rest = power - exponent * LN_2[0] - exponent * LN_2[1];
    let mut sum = 1.987_569_1e-4;
    for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        sum = sum * rest + factor;
    }
    let fraction = sum * (rest * rest) + rest + 1.0;
    let scale = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    if power < LOWEST { 0.0 } else { fraction * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_within_two_ulps_and_exact_at_0() {
        assert_eq!((exp_of_negative(0.0), exp_of_negative(-0.0)), (1.0, 1.0));
        assert_eq!(exp_of_negative(f32::NEG_INFINITY), 0.0);
        assert!(exp_of_negative(f32::NAN).is_nan());
        assert!(exp_of_negative(-87.336_54) >= f32::MIN_POSITIVE);
        for bits in ((-1e-30_f32).to_bits()..(-87.33_f32).to_bits()).step_by(977) {
            let power = f32::from_bits(bits);
            let (found, exact) = (f64::from(exp_of_negative(power)), f64::from(power).exp());
            let ulp = exact * f64::from(f32::EPSILON);
            assert!((found - exact).abs() <= 2.0 * ulp, "{power}: {found}, not {exact}");
        }
    }
}
