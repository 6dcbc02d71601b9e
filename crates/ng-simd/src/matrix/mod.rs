//! Products of matrices of f32: rows of activations times packed weights, with what follows a
//! product in the same pass.
//!
//! What lives here: [`PackedMatrix`], [`Product`] and its kernel. What must not: threads, and
//! layers. The invariant: an element is one chain of fused multiply-adds in the order of the inner
//! dimension, whatever the tile that it lies in, so that all paths and all splits by rows give the
//! same bits.

mod tile;
mod weights;

#[cfg(target_arch = "x86_64")]
use crate::dispatch::Path;
use crate::finish::Finish;
use crate::kernels::GraphKernels;
use crate::lanes::Portable;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lists::{ShapeError, check_length};

pub use weights::PackedMatrix;

/// The operands of [`GraphKernels::multiply`].
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// m x k elements, row by row.
    pub rows: &'a [f32],
    /// k x n.
    pub weights: &'a PackedMatrix,
    /// What follows; the bias has n elements.
    pub finish: Finish<'a>,
}

impl GraphKernels {
    /// Multiplies to `out` (m x n). Callers split the work by rows.
    ///
    /// The sum of an element begins with 0 and takes one fused multiply-add for each of the k
    /// elements, in their order; then [`Finish`] follows. Every NaN becomes [`f32::NAN`]. A
    /// processor without an instruction for fused multiply-adds is slow.
    ///
    /// ```
    /// use ng_simd::{Finish, GraphKernels, PackedMatrix, Product};
    /// let weights = PackedMatrix::pack(&[1.0, 2.0, -3.0, 4.0], 2, 2)?;
    /// let finish = Finish { bias: Some(&[0.5, 0.0]), is_added: true, is_rectified: true };
    /// let product = Product { rows: &[1.0, 1.0], weights: &weights, finish };
    /// let mut out = [1.0, 1.0];
    /// GraphKernels::best().multiply(&product, &mut out)?;
    /// assert_eq!(out, [0.0, 7.0]);
    /// # Ok::<(), ng_simd::ShapeError>(())
    /// ```
    ///
    /// # Errors
    /// [`ShapeError`]
    pub fn multiply(self, product: &Product<'_>, out: &mut [f32]) -> Result<(), ShapeError> {
        let (depth, width) = (product.weights.depth(), product.weights.width());
        product.finish.check(width)?;
        if width == 0 {
            return check_length("out", out.len(), &[0]);
        }
        let num_rows = out.len() / width;
        check_length("out", out.len(), &[num_rows, width])?;
        check_length("rows", product.rows.len(), &[num_rows, depth])?;
        match self.path() {
            // SAFETY: the path is given only where the processor has it; lengths are checked.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => unsafe { multiply_avx512(product, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { multiply_avx2(product, out) },
            // SAFETY: plain Rust runs everywhere; lengths are checked.
            _ => unsafe { tile::multiply::<Portable>(product, out) },
        }
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2,fma,f16c")]
unsafe fn multiply_avx512(product: &Product<'_>, out: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply::<Avx512>(product, out) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply_avx2(product: &Product<'_>, out: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply::<Avx2>(product, out) };
}
