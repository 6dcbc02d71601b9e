//! [`QuantisedRows`]: activations in steps, with a scale for each row.

use thiserror::Error;

#[cfg(target_arch = "x86_64")]
use crate::dispatch::Path;
use crate::encode::Misfit;
use crate::kernels::GraphKernels;
use crate::lists::{ShapeError, check_length};
use crate::portable::STEPS;
use crate::scale::scale_of;

/// The meaning of the steps of activations. Each is a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepRange {
    /// -127 to 127, stored as 1 to 255: an i8 with its upper bit flipped.
    Signed,
    /// 0 to 255: twice as fine, for values that are not negative, as after a ReLU.
    Unsigned,
}

impl StepRange {
    /// The byte of a zero.
    #[inline(always)]
    pub(super) fn zero(self) -> i32 {
        match self {
            Self::Signed => 128,
            Self::Unsigned => 0,
        }
    }

    /// The largest step.
    fn largest(self) -> f32 {
        match self {
            Self::Signed => STEPS,
            Self::Unsigned => 255.0,
        }
    }
}

/// Rows of activations in steps.
#[derive(Clone, Copy, Debug)]
pub struct QuantisedRows<'a> {
    /// m x k bytes, row by row.
    pub steps: &'a [u8],
    /// The value of one step in each row: m elements.
    pub scales: &'a [f32],
    /// The meaning of the bytes.
    pub range: StepRange,
}

/// Why rows cannot be quantised. Steps and scales may have been written in part.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum QuantiseError {
    /// Slices do not fit together. Nothing was written.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A NaN, an infinity, or a negative value where the range has none.
    #[error("{0}, which cannot be quantised")]
    Value(Misfit),
}

impl GraphKernels {
    /// Quantises rows of f32 (m x `width`) to `steps` (m x `width`) and `scales` (m).
    ///
    /// The scale of a row is its largest magnitude over the largest step, and 0 where that would be
    /// subnormal; then all its steps are 0. Steps are rounded to nearest, ties to even.
    ///
    /// # Errors
    /// [`QuantiseError`]
    pub fn quantise_rows(
        self,
        rows: &[f32],
        width: usize,
        range: StepRange,
        steps: &mut [u8],
        scales: &mut [f32],
    ) -> Result<(), QuantiseError> {
        check_length("rows", rows.len(), &[scales.len(), width])?;
        check_length("steps", steps.len(), &[scales.len(), width])?;
        if width == 0 {
            scales.fill(0.0);
            return Ok(());
        }
        for (number, scales) in scales.chunks_mut(TOGETHER).enumerate() {
            let first = number * TOGETHER;
            let place = first * width..(first + scales.len()) * width;
            let (rows, steps) = (&rows[place.clone()], &mut steps[place]);
            let found = match self.path() {
                // SAFETY: the path is given only where the processor has it.
                #[cfg(target_arch = "x86_64")]
                Path::Avx512 => unsafe { quantise_avx512(rows, range, steps, scales) },
                // SAFETY: the path is given only where the processor has it.
                #[cfg(target_arch = "x86_64")]
                Path::Avx2 => unsafe { quantise_avx2(rows, range, steps, scales) },
                _ => quantise(rows, range, steps, scales),
            };
            found.map_err(|row| {
                let misfit = misfit(&rows[row * width..(row + 1) * width], range);
                QuantiseError::Value(misfit.in_row((first + row) as u64))
            })?;
        }
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn quantise_avx512(
    rows: &[f32],
    range: StepRange,
    steps: &mut [u8],
    scales: &mut [f32],
) -> Result<(), usize> {
    quantise(rows, range, steps, scales)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn quantise_avx2(
    rows: &[f32],
    range: StepRange,
    steps: &mut [u8],
    scales: &mut [f32],
) -> Result<(), usize> {
    quantise(rows, range, steps, scales)
}

/// Rows that pass each step together: they stay in L1, and no row waits for the one before.
const TOGETHER: usize = 16;

/// Fills the steps and scales of at most [`TOGETHER`] rows; the first row in which a value has no
/// step is an error.
#[inline(always)]
fn quantise(
    rows: &[f32],
    range: StepRange,
    steps: &mut [u8],
    scales: &mut [f32],
) -> Result<(), usize> {
    /// Added to a small number, it leaves the nearest integer in the low bits of the sum; ties go
    /// to the even one.
    const ROUNDING: f32 = 12_582_912.0;
    let width = rows.len() / scales.len();
    // The bits of positive numbers are ordered as the numbers are; NaN comes after infinity. The
    // bits of a number that is less than 0 are greater than those of -0.
    let all = || rows.chunks_exact(width);
    for (scale, row) in scales.iter_mut().zip(all()) {
        *scale = f32::from_bits(most(row, |value| value.abs().to_bits()));
    }
    let mut found = scales.iter().zip(all());
    if let Some(row) = found.position(|(largest, row)| {
        let has_negative = || most(row, |value| value.to_bits()) > (-0.0_f32).to_bits();
        !largest.is_finite() || range == StepRange::Unsigned && has_negative()
    }) {
        return Err(row);
    }
    let mut steps_of_one = [0.0; TOGETHER];
    for (scale, steps_of_one) in scales.iter_mut().zip(&mut steps_of_one) {
        *scale = scale_of(*scale, range.largest());
        // Without a scale every step is 0.
        *steps_of_one = if *scale == 0.0 { 0.0 } else { 1.0 / *scale };
    }
    let zero = range.zero() as u8;
    for ((steps, row), steps_of_one) in steps.chunks_exact_mut(width).zip(all()).zip(steps_of_one) {
        for (step, value) in steps.iter_mut().zip(row) {
            *step = ((value * steps_of_one + ROUNDING).to_bits() as u8).wrapping_add(zero);
        }
    }
    Ok(())
}

/// The largest of what the values of a row become.
#[inline(always)]
fn most(row: &[f32], of: impl Fn(&f32) -> u32) -> u32 {
    row.iter().fold(0, |most, value| most.max(of(value)))
}

/// The first value without a step.
fn misfit(row: &[f32], range: StepRange) -> Misfit {
    let is_bad = |value: &f32| !value.is_finite() || range == StepRange::Unsigned && *value < 0.0;
    let column = row.iter().position(is_bad).unwrap_or_default();
    Misfit { row: 0, column, value: row[column] }
}
