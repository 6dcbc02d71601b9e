//! The loop over destinations, columns and edges, written once for all lanes, rows and steps.
//!
//! A block of columns stays in registers while all edges of a list pass, so the output is written
//! once. A register that overlaps columns already done covers the rest of a row: these columns are
//! computed again, to the same bits.

use std::ops::Range;

use super::rows::Load;
use crate::copy::{LINE_BYTES, prefetch_address};
use crate::dispatch::Path;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{Lanes, Portable, Single};
use crate::lists::EdgeLists;

/// How many edges ahead rows are brought near: enough to hide memory, few enough to stay in L1.
const AHEAD: usize = 8;

/// The operands of a kernel.
pub(super) struct Job<'a, R> {
    pub lists: EdgeLists<'a>,
    pub rows: R,
    pub width: usize,
    pub weights: Option<&'a [f32]>,
    pub heads: usize,
    pub is_mean: bool,
    pub destinations: Range<usize>,
}

/// Combines the value of one more edge with the value kept of the edges before it.
pub(super) trait Step {
    /// The value kept before the first edge.
    const START: f32;

    /// # Safety
    /// The processor has the instructions of the lanes.
    unsafe fn step<L: Lanes>(kept: L, value: L) -> L;
}

pub(super) struct Sum;
pub(super) struct Larger;
pub(super) struct Smaller;

impl Step for Sum {
    const START: f32 = 0.0;

    #[inline(always)]
    unsafe fn step<L: Lanes>(kept: L, value: L) -> L {
        // SAFETY: the caller's promise.
        unsafe { kept.add(value) }
    }
}

impl Step for Larger {
    const START: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    unsafe fn step<L: Lanes>(kept: L, value: L) -> L {
        // SAFETY: the caller's promise.
        unsafe { kept.max(value) }
    }
}

impl Step for Smaller {
    const START: f32 = f32::INFINITY;

    #[inline(always)]
    unsafe fn step<L: Lanes>(kept: L, value: L) -> L {
        // SAFETY: the caller's promise.
        unsafe { kept.min(value) }
    }
}

/// Aggregates `job` to `out`, by the lanes of `path`.
///
/// # Safety
/// The processor has `path`; rows, scales and weights are as long as lists, width and heads say;
/// heads divide the width, and there is at least one; the
/// destinations exist; `out` has a row for each; the width is not 0.
pub(super) unsafe fn run<R: Load, S: Step>(path: Path, job: &Job<'_, R>, out: &mut [f32]) {
    match path {
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        Path::Avx512 => unsafe { run_avx512::<R, S>(job, out) },
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2 => unsafe { run_avx2::<R, S>(job, out) },
        // SAFETY: the caller's promise.
        _ => unsafe { lists::<Portable, R, S>(job, out) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2,f16c")]
unsafe fn run_avx512<R: Load, S: Step>(job: &Job<'_, R>, out: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { lists::<Avx512, R, S>(job, out) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn run_avx2<R: Load, S: Step>(job: &Job<'_, R>, out: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { lists::<Avx2, R, S>(job, out) };
}

#[inline(always)]
unsafe fn lists<L: Lanes, R: Load, S: Step>(job: &Job<'_, R>, out: &mut [f32]) {
    let part = job.width / job.heads;
    for (destination, out) in job.destinations.clone().zip(out.chunks_exact_mut(job.width)) {
        let edges = job.lists.edges(destination);
        if edges.is_empty() {
            out.fill(0.0);
            continue;
        }
        for head in 0..job.heads {
            let list = List { edges: edges.clone(), head };
            // SAFETY: the caller's promise, and the lanes are not more than the columns.
            unsafe {
                if part >= L::LEN {
                    columns::<L, R, S>(job, &list, out);
                } else if part >= Portable::LEN {
                    columns::<Portable, R, S>(job, &list, out);
                } else {
                    columns::<Single, R, S>(job, &list, out);
                }
            }
        }
    }
}

/// The edges of a destination, and the head whose columns are combined.
struct List {
    edges: Range<usize>,
    head: usize,
}

/// All columns of one head of a destination; it has at least as many as there are lanes.
#[inline(always)]
unsafe fn columns<L: Lanes, R: Load, S: Step>(job: &Job<'_, R>, list: &List, out: &mut [f32]) {
    let part = job.width / job.heads;
    let mut column = list.head * part;
    let end = column + part;
    // SAFETY: the caller's promise, and every block lies inside a head.
    unsafe {
        // AVX-512 has 32 registers, the others have 16.
        if L::LEN == 16 {
            while column + 16 * L::LEN <= end {
                block::<L, R, S, 16>(job, list, column, out);
                column += 16 * L::LEN;
            }
        }
        while column + 8 * L::LEN <= end {
            block::<L, R, S, 8>(job, list, column, out);
            column += 8 * L::LEN;
        }
        while column + 2 * L::LEN <= end {
            block::<L, R, S, 2>(job, list, column, out);
            column += 2 * L::LEN;
        }
        while column < end {
            block::<L, R, S, 1>(job, list, column.min(end - L::LEN), out);
            column += L::LEN;
        }
    }
}

/// `B` registers of columns from `column` of one destination, whose list is not empty.
#[inline(always)]
unsafe fn block<L: Lanes, R: Load, S: Step, const B: usize>(
    job: &Job<'_, R>,
    list: &List,
    column: usize,
    out: &mut [f32],
) {
    let sources = job.lists.sources();
    let count = list.edges.len() as f32;
    // SAFETY: every edge of a list has a source, every source a row, and the columns lie in it;
    // every edge has a weight for each head.
    unsafe {
        let mut kept = [L::splat(S::START); B];
        for edge in list.edges.clone() {
            if column == 0 {
                bring_near(job, edge + AHEAD);
            }
            let at = *sources.get_unchecked(edge) as usize * job.width + column;
            let of_edge = edge * job.heads + list.head;
            let weight = job.weights.map(|weights| L::splat(*weights.get_unchecked(of_edge)));
            for (register, kept) in kept.iter_mut().enumerate() {
                let skipped = register * L::LEN;
                let value = job.rows.load::<L>(at + skipped, column + skipped);
                let value = match weight {
                    Some(weight) => value.mul(weight),
                    None => value,
                };
                *kept = S::step(*kept, value);
            }
        }
        let to = out.as_mut_ptr().add(column);
        for (register, kept) in kept.iter().enumerate() {
            let whole = if job.is_mean { kept.div(L::splat(count)) } else { *kept };
            whole.canonical().store(to.add(register * L::LEN));
        }
    }
}

/// Brings the row of an edge near, if there is such an edge.
#[inline(always)]
fn bring_near<R: Load>(job: &Job<'_, R>, edge: usize) {
    let Some(&source) = job.lists.sources().get(edge) else { return };
    let row_bytes = job.width * R::BYTES;
    let row = job.rows.start().wrapping_add(source as usize * row_bytes);
    for skipped in (0..row_bytes).step_by(LINE_BYTES) {
        prefetch_address(row.wrapping_add(skipped));
    }
}
