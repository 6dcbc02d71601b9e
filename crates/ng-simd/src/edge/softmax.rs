//! Softmax over the edges of each destination.

use std::ops::Range;

use super::canonical;
#[cfg(target_arch = "x86_64")]
use crate::dispatch::Path;
use crate::kernels::GraphKernels;
use crate::lists::{EdgeLists, ShapeError, check_length};
use crate::maths::exp_of_negative;

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
