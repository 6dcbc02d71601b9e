//! [`RowEncoder`]: rows of f32 in, rows as they are stored out.
//!
//! Values are rounded, never silently changed otherwise: what does not fit is refused by its row
//! and column.

use std::sync::Arc;

use ng_types::Dtype;
use thiserror::Error;

use crate::decode::{DecodeError, check_scales};
use crate::dispatch::{Kernels, Path};
use crate::portable::has_step;

/// A value that the stored type cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Error)]
#[error("row {row}, column {column} is {value}")]
pub struct Misfit {
    /// Counted from the first of the rows that were given.
    pub row: u64,
    /// The place in the row, dimensions flattened.
    pub column: usize,
    /// The value.
    pub value: f32,
}

impl Misfit {
    pub(crate) fn first(row: &[u8], is_bad: impl Fn(f32) -> bool) -> Option<Self> {
        let mut values = row.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let column = values.position(&is_bad)?;
        let value = f32::from_le_bytes(*row.as_chunks().0.get(column)?);
        Some(Self { row: 0, column, value })
    }

    pub(crate) fn in_row(self, row: u64) -> Self {
        Self { row, ..self }
    }
}

/// Turns rows of f32 into rows as they are stored: f32, f16, bf16, or i8 with scales.
///
/// ```
/// use ng_simd::RowEncoder;
/// use ng_types::Dtype;
/// let encoder = RowEncoder::new(Dtype::F16, 1, None)?;
/// let mut out = Vec::new();
/// encoder.encode_rows(&1.0f32.to_le_bytes(), &mut out).expect("fits");
/// assert_eq!(out, [0x00, 0x3C]);
/// let misfit = encoder.encode_rows(&70_000f32.to_le_bytes(), &mut out).expect_err("too large");
/// assert_eq!((misfit.row, misfit.column), (0, 0));
/// # Ok::<(), ng_simd::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RowEncoder {
    kernels: Kernels,
    stored: Dtype,
    columns: usize,
    scales: Arc<[f32]>,
}

impl RowEncoder {
    /// An encoder of rows of `columns` elements; `scales` for i8, and for it alone.
    ///
    /// # Errors
    /// [`DecodeError`]
    pub fn new(
        stored: Dtype,
        columns: usize,
        scales: Option<Arc<[f32]>>,
    ) -> Result<Self, DecodeError> {
        check_scales(stored, columns, scales.as_deref())?;
        let is_float = [Dtype::F32, Dtype::F16, Dtype::Bf16].contains(&stored);
        if !is_float && scales.is_none() {
            return Err(DecodeError::Types { stored, wanted: Dtype::F32 });
        }
        let scales = scales.unwrap_or_default();
        Ok(Self { kernels: Kernels::best(), stored, columns, scales })
    }

    /// The same, with the kernels of `path`; `None` where the processor lacks them.
    pub fn on(self, path: Path) -> Option<Self> {
        Some(Self { kernels: Kernels::of(path)?, ..self })
    }

    /// Bytes of a stored row.
    pub fn stored_bytes(&self) -> usize {
        self.columns * self.stored.size_bytes()
    }

    /// Appends the stored form of rows of f32, little-endian, one after the other.
    ///
    /// # Errors
    /// [`Misfit`] for the first value that is out of range: a finite one beyond f16 or bf16, and
    /// for int8 one beyond 127 steps, a NaN or an infinity. `out` is then as it was.
    pub fn encode_rows(&self, rows: &[u8], out: &mut Vec<u8>) -> Result<(), Misfit> {
        let (start, width) = (out.len(), self.stored_bytes().max(1));
        let rows = rows.chunks_exact((4 * self.columns).max(1));
        out.resize(start + rows.len() * width, 0);
        let mut failure = None;
        for (number, (row, place)) in (0..).zip(rows.zip(out[start..].chunks_exact_mut(width))) {
            if let Some(misfit) = self.encode(row, place) {
                failure = Some(misfit.in_row(number));
                break;
            }
        }
        match failure {
            Some(misfit) => {
                out.truncate(start);
                Err(misfit)
            }
            None => Ok(()),
        }
    }

    /// Encodes one row; gives the first value that does not fit.
    fn encode(&self, row: &[u8], out: &mut [u8]) -> Option<Misfit> {
        match self.stored {
            Dtype::F16 => {
                self.kernels.f32_to_f16(row, out);
                // Only a row with an infinity in it has to be looked at again.
                let seen = has_infinity(out, 0x7C00);
                seen.then(|| Misfit::first(row, |v| v.is_finite() && v.abs() >= 65_520.0))?
            }
            Dtype::Bf16 => {
                self.kernels.f32_to_bf16(row, out);
                let limit = f32::from_bits(0x7F7F_8000);
                let seen = has_infinity(out, 0x7F80);
                seen.then(|| Misfit::first(row, |v| v.is_finite() && v.abs() >= limit))?
            }
            Dtype::I8 => {
                let all_fit = self.kernels.f32_to_i8(row, &self.scales, out);
                (!all_fit).then(|| self.first_beyond(row))?
            }
            _ => {
                let len = row.len().min(out.len());
                out[..len].copy_from_slice(&row[..len]);
                None
            }
        }
    }

    fn first_beyond(&self, row: &[u8]) -> Option<Misfit> {
        let values = row.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let mut columns = values.zip(self.scales.iter()).enumerate();
        let (column, (value, _)) =
            columns.find(|(_, (value, scale))| !has_step(*value, **scale))?;
        Some(Misfit { row: 0, column, value })
    }
}

fn has_infinity(halves: &[u8], infinity: u16) -> bool {
    let is_infinity = |bits: &[u8; 2]| u16::from_le_bytes(*bits) & 0x7FFF == infinity;
    halves.as_chunks().0.iter().fold(false, |seen, bits| seen | is_infinity(bits))
}
