//! The row of a source and the row of a destination, for each edge: their dot product, or their
//! sum.

use std::ops::Range;

use super::canonical;
#[cfg(target_arch = "x86_64")]
use crate::dispatch::Path;
use crate::kernels::GraphKernels;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{Lanes, Portable};
use crate::lists::{EdgeLists, ShapeError, check_length};

/// How many sums a dot product has side by side: the lanes of the widest registers.
const PARTS: usize = 16;

/// A row for each source and one for each destination.
///
/// ```
/// use ng_simd::{EdgeLists, EdgePairs, GraphKernels};
/// let lists = EdgeLists::new(&[0, 2], &[1, 0], 2)?;
/// let (sources, destinations) = (&[1.0, 2.0, 3.0, 4.0], &[10.0, 20.0]);
/// let pairs = EdgePairs { lists, sources, destinations, heads: 1, width: 2 };
/// let mut dots = [0.0; 2];
/// GraphKernels::best().edge_dot(&pairs, 0..1, &mut dots)?;
/// assert_eq!(dots, [110.0, 50.0]);
/// let mut sums = [0.0; 4];
/// GraphKernels::best().edge_add(&pairs, 0..1, &mut sums)?;
/// assert_eq!(sums, [13.0, 24.0, 11.0, 22.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EdgePairs<'a> {
    /// The edges.
    pub lists: EdgeLists<'a>,
    /// `num_rows` x `heads` x `width` elements.
    pub sources: &'a [f32],
    /// `num_destinations` x `heads` x `width` elements.
    pub destinations: &'a [f32],
    /// Parts of a row that have a dot product each.
    pub heads: usize,
    /// Elements of each part.
    pub width: usize,
}

impl EdgePairs<'_> {
    /// The edges of `destinations`, or an error unless all of it fits together.
    fn check(&self, destinations: &Range<usize>) -> Result<Range<usize>, ShapeError> {
        let Self { lists, heads, width, .. } = *self;
        let edges = lists.edges_of(destinations)?;
        check_length("sources", self.sources.len(), &[lists.num_rows(), heads, width])?;
        let shape = [lists.num_destinations(), heads, width];
        check_length("destinations", self.destinations.len(), &shape)?;
        Ok(edges)
    }

    /// The rows of source and destination for each edge of a destination.
    #[inline(always)]
    fn of(&self, destination: usize) -> impl Iterator<Item = (&[f32], &[f32])> {
        let len = self.heads * self.width;
        let row = &self.destinations[destination * len..(destination + 1) * len];
        let sources = &self.lists.sources()[self.lists.edges(destination)];
        sources.iter().map(move |source| {
            let at = *source as usize * len;
            (&self.sources[at..at + len], row)
        })
    }
}

impl GraphKernels {
    /// For each edge and head the dot product of its two rows; `out` has `heads` elements for each
    /// edge of `destinations`.
    ///
    /// Columns are added in 16 sums, column `c` in sum `c % 16`, and those in halves: each of the
    /// first 8 and the one 8 places on, then 4, 2 and 1.
    ///
    /// # Errors
    /// [`ShapeError`]
    pub fn edge_dot(
        self,
        pairs: &EdgePairs<'_>,
        destinations: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), ShapeError> {
        let edges = pairs.check(&destinations)?;
        check_length("out", out.len(), &[edges.len(), pairs.heads])?;
        if pairs.width == 0 {
            out.fill(0.0);
            return Ok(());
        }
        match self.path() {
            // SAFETY: the path is given only where the processor has it.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => unsafe { dots_avx512(pairs, destinations, out) },
            // SAFETY: the path is given only where the processor has it.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { dots_avx2(pairs, destinations, out) },
            // SAFETY: plain Rust runs everywhere.
            _ => unsafe { dots::<Portable>(pairs, destinations, out) },
        }
        Ok(())
    }

    /// For each edge the sum of its two rows; `out` has `heads` x `width` elements for each edge of
    /// `destinations`.
    ///
    /// # Errors
    /// [`ShapeError`]
    pub fn edge_add(
        self,
        pairs: &EdgePairs<'_>,
        destinations: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), ShapeError> {
        let edges = pairs.check(&destinations)?;
        check_length("out", out.len(), &[edges.len(), pairs.heads, pairs.width])?;
        match self.path() {
            // SAFETY: both paths are given only where the processor has AVX2.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 | Path::Avx512 => unsafe { sums_avx2(pairs, destinations, out) },
            _ => sums(pairs, destinations, out),
        }
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2,f16c")]
unsafe fn dots_avx512(pairs: &EdgePairs<'_>, destinations: Range<usize>, out: &mut [f32]) {
    // SAFETY: the processor has AVX-512.
    unsafe { dots::<Avx512>(pairs, destinations, out) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn dots_avx2(pairs: &EdgePairs<'_>, destinations: Range<usize>, out: &mut [f32]) {
    // SAFETY: the processor has AVX2 and F16C.
    unsafe { dots::<Avx2>(pairs, destinations, out) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sums_avx2(pairs: &EdgePairs<'_>, destinations: Range<usize>, out: &mut [f32]) {
    sums(pairs, destinations, out);
}

/// # Safety
/// The processor has the instructions of the lanes.
#[inline(always)]
unsafe fn dots<L: Lanes>(pairs: &EdgePairs<'_>, destinations: Range<usize>, out: &mut [f32]) {
    let mut out = out.iter_mut();
    for (source, row) in destinations.flat_map(|destination| pairs.of(destination)) {
        let heads = source.chunks_exact(pairs.width).zip(row.chunks_exact(pairs.width));
        for ((source, row), out) in heads.zip(&mut out) {
            // SAFETY: the caller's promise.
            *out = canonical(unsafe { dot::<L>(source, row) });
        }
    }
}

/// # Safety
/// The processor has the instructions of the lanes.
#[inline(always)]
unsafe fn dot<L: Lanes>(a: &[f32], b: &[f32]) -> f32 {
    let (a_parts, a_rest) = a.as_chunks::<PARTS>();
    let (b_parts, b_rest) = b.as_chunks::<PARTS>();
    let mut parts = [0.0; PARTS];
    // SAFETY: the caller's promise; every load and store lies inside an array of `PARTS` elements.
    unsafe {
        // Lanes are 4 at the least.
        let mut sums = [L::splat(0.0); 4];
        let registers = PARTS / L::LEN;
        for (a, b) in a_parts.iter().zip(b_parts) {
            for (register, sum) in sums.iter_mut().enumerate().take(registers) {
                let at = register * L::LEN;
                *sum = sum.add(L::load(a.as_ptr().add(at)).mul(L::load(b.as_ptr().add(at))));
            }
        }
        for (register, sum) in sums.iter().enumerate().take(registers) {
            sum.store(parts.as_mut_ptr().add(register * L::LEN));
        }
    }
    for ((part, a), b) in parts.iter_mut().zip(a_rest).zip(b_rest) {
        *part += a * b;
    }
    for half in [8, 4, 2, 1] {
        let (low, high) = parts.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low += *high);
    }
    parts[0]
}

#[inline(always)]
fn sums(pairs: &EdgePairs<'_>, destinations: Range<usize>, out: &mut [f32]) {
    let mut rows = out.chunks_exact_mut((pairs.heads * pairs.width).max(1));
    for destination in destinations {
        for ((source, row), out) in pairs.of(destination).zip(&mut rows) {
            for ((out, a), b) in out.iter_mut().zip(source).zip(row) {
                *out = canonical(a + b);
            }
        }
    }
}
