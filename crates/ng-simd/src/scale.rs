//! The scales of int8 columns: found in a first pass over the rows, checked when they are read.

use crate::dispatch::Kernels;
use crate::encode::Misfit;
use crate::portable::STEPS;

/// The largest magnitude of each column, gathered row by row.
///
/// ```
/// use ng_simd::ColumnRange;
/// let mut range = ColumnRange::new(2);
/// let rows: Vec<u8> = [1.0f32, -4.0, 2.0, 0.5].iter().flat_map(|v| v.to_le_bytes()).collect();
/// range.add_rows(&rows)?;
/// assert_eq!(range.scales(), [2.0 / 127.0, 4.0 / 127.0]);
/// # Ok::<(), ng_simd::Misfit>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnRange {
    kernels: Kernels,
    largest: Vec<f32>,
    rows: u64,
}

impl ColumnRange {
    /// No rows yet.
    pub fn new(columns: usize) -> Self {
        Self { kernels: Kernels::best(), largest: vec![0.0; columns], rows: 0 }
    }

    /// Looks at rows of f32, little-endian, one after the other.
    ///
    /// # Errors
    /// [`Misfit`] for a NaN or an infinity, with its row counted from the first that was ever
    /// added.
    pub fn add_rows(&mut self, rows: &[u8]) -> Result<(), Misfit> {
        for row in rows.chunks_exact((4 * self.largest.len()).max(1)) {
            if !self.kernels.raise(&mut self.largest, row) {
                let found = Misfit::first(row, |value| !value.is_finite());
                return Err(found.unwrap_or_default().in_row(self.rows));
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// Rows so far.
    pub fn num_rows(&self) -> u64 {
        self.rows
    }

    /// One scale for each column.
    pub fn scales(&self) -> Vec<f32> {
        self.largest.iter().map(|largest| scale_of(*largest, STEPS)).collect()
    }
}

/// The scale by which the largest magnitude has the largest step, of which there are `steps` above
/// 0.
pub(crate) fn scale_of(largest: f32, steps: f32) -> f32 {
    let scale = largest / steps;
    if scale < f32::MIN_POSITIVE {
        return 0.0;
    }
    // Next to the largest f32 the quotient may have been rounded up to where it overflows.
    if (scale * steps).is_finite() { scale } else { f32::from_bits(scale.to_bits() - 1) }
}

/// Whether a number read from somewhere is a scale.
pub(crate) fn is_scale(scale: f32) -> bool {
    scale == 0.0 && scale.is_sign_positive() || scale.is_normal() && scale > 0.0
}
