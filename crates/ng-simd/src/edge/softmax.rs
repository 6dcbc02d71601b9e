//! Softmax over the edges of each destination.
//!
//! The exponential is a polynomial of our own: that of a system's library differs between systems,
//! and no compiler vectorises it.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::canonical;
#[cfg(target_arch = "x86_64")]
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
        let job = Job { lists: *lists, logits, heads, destinations };
        match self.path() {
            // SAFETY: both paths are given only where the processor has AVX2.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 | Path::Avx512 => unsafe { softmax_avx2(&job, out) },
            _ => softmax(&job, out),
        }
        Ok(())
    }
}

/// The operands of softmax.
struct Job<'a> {
    lists: EdgeLists<'a>,
    logits: &'a [f32],
    heads: usize,
    destinations: Range<usize>,
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn softmax_avx2(job: &Job<'_>, out: &mut [f32]) {
    softmax(job, out);
}

/// The usual numbers of heads have loops of their own, which the compiler unrolls.
#[inline(always)]
fn softmax(job: &Job<'_>, out: &mut [f32]) {
    match job.heads {
        1 => softmax_of_heads::<1>(job, out),
        4 => softmax_of_heads::<4>(job, out),
        8 => softmax_of_heads::<8>(job, out),
        _ => softmax_of_heads::<0>(job, out),
    }
}

/// Softmax of `HEADS` heads, or of any number if that is 0. The exponentials have a pass of their
/// own, so that short lists do not keep them from being vectorised.
#[inline(always)]
fn softmax_of_heads<const HEADS: usize>(job: &Job<'_>, out: &mut [f32]) {
    let Job { lists, logits, heads, .. } = *job;
    let heads = if HEADS == 0 { heads } else { HEADS };
    let mut of_heads = vec![0.0; heads];
    let mut rest = &mut *out;
    for destination in job.destinations.clone() {
        let edges = lists.edges(destination);
        let logits = &logits[edges.start * heads..edges.end * heads];
        let (list, after) = rest.split_at_mut(logits.len());
        rest = after;
        subtract_largest(logits, &mut of_heads[..heads], list);
    }
    for value in &mut *out {
        *value = exp_of_negative(*value);
    }
    let mut rest = &mut *out;
    for destination in job.destinations.clone() {
        let (list, after) = rest.split_at_mut(lists.edges(destination).len() * heads);
        rest = after;
        divide_by_sum(&mut of_heads[..heads], list);
    }
}

/// The logits of a list less the largest of each head.
#[inline(always)]
fn subtract_largest(logits: &[f32], largest: &mut [f32], out: &mut [f32]) {
    let heads = largest.len();
    largest.fill(f32::NEG_INFINITY);
    for edge in logits.chunks_exact(heads) {
        for (largest, logit) in largest.iter_mut().zip(edge) {
            // A NaN need not become the largest: it makes the sum one.
            *largest = if *logit > *largest { *logit } else { *largest };
        }
    }
    for (edge, out) in logits.chunks_exact(heads).zip(out.chunks_exact_mut(heads)) {
        for ((logit, largest), out) in edge.iter().zip(&*largest).zip(out) {
            *out = logit - largest;
        }
    }
}

/// The values of a list over their sum, for each head.
#[inline(always)]
fn divide_by_sum(sums: &mut [f32], list: &mut [f32]) {
    let heads = sums.len();
    sums.fill(0.0);
    for edge in list.chunks_exact(heads) {
        sums.iter_mut().zip(edge).for_each(|(sum, value)| *sum += value);
    }
    for edge in list.chunks_exact_mut(heads) {
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
