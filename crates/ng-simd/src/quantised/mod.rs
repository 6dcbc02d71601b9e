//! Products of matrices in steps of 8 bits: rows of activations times packed weights.
//!
//! What lives here: [`PackedWeights`], [`QuantisedRows`], and the kernels that make and multiply
//! them. What must not: threads, and layers. The invariant: the sums of steps are exact integers,
//! without saturation, so that all paths give the same bits; only the last two products, with the
//! scales, and the bias round.

mod rows;
mod tile;
mod weights;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
use crate::dispatch::Path;
use crate::finish::Finish;
use crate::kernels::GraphKernels;
use crate::lists::{ShapeError, check_length};
use tile::{Plain, Product};
#[cfg(target_arch = "x86_64")]
use x86::{multiply_avx2, multiply_avx512};

pub use rows::{QuantiseError, QuantisedRows, StepRange};
pub use weights::{PackError, PackedWeights};

impl GraphKernels {
    /// The product of `rows` (m x k) and `weights` (k x n), and what follows, to `out` (m x n).
    /// Callers split it by rows.
    ///
    /// An element is `(sum of products of steps) * scale of the row * scale of the column`, and
    /// then [`Finish`] follows; each of these operations rounds. Every NaN becomes [`f32::NAN`].
    ///
    /// ```
    /// use ng_simd::{Finish, GraphKernels, PackedWeights, QuantisedRows, StepRange};
    /// let kernels = GraphKernels::best();
    /// let weights = PackedWeights::pack(&[1, 2, -3, 4], &[0.5, 1.0])?; // 2 x 2
    /// let (mut steps, mut scales) = ([0; 2], [0.0]);
    /// kernels.quantise_rows(&[127.0, -127.0], 2, StepRange::Signed, &mut steps, &mut scales)?;
    /// let rows = QuantisedRows { steps: &steps, scales: &scales, range: StepRange::Signed };
    /// let mut out = [0.0; 2];
    /// let finish = Finish::with(Some(&[10.0, 0.0]));
    /// kernels.multiply_quantised(&rows, &weights, &finish, &mut out)?;
    /// assert_eq!(out, [264.0, -254.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShapeError`]
    pub fn multiply_quantised(
        self,
        rows: &QuantisedRows<'_>,
        weights: &PackedWeights,
        finish: &Finish<'_>,
        out: &mut [f32],
    ) -> Result<(), ShapeError> {
        let num_rows = rows.scales.len();
        check_length("steps", rows.steps.len(), &[num_rows, weights.depth()])?;
        check_length("out", out.len(), &[num_rows, weights.width()])?;
        finish.check(weights.width())?;
        let product = Product { rows: *rows, weights, finish: *finish };
        match self.path() {
            // SAFETY: the path is given only where the processor has it.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => unsafe { multiply_avx512(&product, out) },
            // SAFETY: the path is given only where the processor has it.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { multiply_avx2(&product, out) },
            // SAFETY: plain Rust runs everywhere.
            _ => unsafe { tile::multiply::<Plain>(&product, out) },
        }
        Ok(())
    }
}
