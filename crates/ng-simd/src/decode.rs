//! [`RowDecoder`]: one stored row in, one row of the wanted type out.

use std::sync::Arc;

use ng_types::Dtype;
use thiserror::Error;

use crate::aggregate::Rows;
use crate::bytes::bytes_as_f32;
use crate::copy::copy_streaming;
use crate::dispatch::{Kernels, Path};
use crate::scale::is_scale;

/// Elements that go through f32 at once on their way from one narrow type to another.
const STEP: usize = 64;

/// Why there is no such decoder or encoder.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DecodeError {
    /// No conversion between these types.
    #[error("rows stored as {stored} cannot be read as {wanted}; use f32, f16, bf16 or {stored}")]
    Types {
        /// On disk.
        stored: Dtype,
        /// Asked for.
        wanted: Dtype,
    },
    /// Scales that do not belong to the columns.
    #[error(
        "{found} scales for {columns} columns of {stored}; expected one scale for each column of \
         i8, and none for other dtypes"
    )]
    Scales {
        /// On disk.
        stored: Dtype,
        /// Elements of a row.
        columns: usize,
        /// Scales given.
        found: usize,
    },
    /// A number that no encoder would have written.
    #[error(
        "column {column}: {scale} is not a valid scale; expected 0 or a positive normal number"
    )]
    Scale {
        /// The column.
        column: usize,
        /// What is there.
        scale: f32,
    },
}

/// Turns stored rows into rows of the wanted type. Cheap to clone and to share.
///
/// ```
/// use std::sync::Arc;
/// use ng_simd::RowDecoder;
/// use ng_types::Dtype;
/// let decoder = RowDecoder::new(Dtype::I8, 2, Some(Arc::from([0.5, 2.0])), Dtype::F32)?;
/// let mut out = [0; 8];
/// decoder.decode(&[3, 0xFF], &mut out);
/// assert_eq!(out[..4], 1.5f32.to_le_bytes());
/// assert_eq!(out[4..], (-2.0f32).to_le_bytes());
/// # Ok::<(), ng_simd::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RowDecoder {
    kernels: Kernels,
    stored: Dtype,
    wanted: Dtype,
    columns: usize,
    scales: Option<Arc<[f32]>>,
}

impl RowDecoder {
    /// A decoder for rows of `columns` elements. Without `scales`, i8 is an integer like any other.
    ///
    /// Every type can be read as itself; f32, f16, bf16 and scaled i8 as f32, f16 and bf16.
    ///
    /// # Errors
    /// [`DecodeError`]
    pub fn new(
        stored: Dtype,
        columns: usize,
        scales: Option<Arc<[f32]>>,
        wanted: Dtype,
    ) -> Result<Self, DecodeError> {
        check_scales(stored, columns, scales.as_deref())?;
        let floats = [Dtype::F32, Dtype::F16, Dtype::Bf16];
        let is_number = floats.contains(&stored) || scales.is_some();
        if stored != wanted && !(is_number && floats.contains(&wanted)) {
            return Err(DecodeError::Types { stored, wanted });
        }
        Ok(Self { kernels: Kernels::best(), stored, wanted, columns, scales })
    }

    /// The same, with the kernels of `path`; `None` where the processor lacks them.
    pub fn on(self, path: Path) -> Option<Self> {
        Some(Self { kernels: Kernels::of(path)?, ..self })
    }

    /// The kernels that run.
    pub fn path(&self) -> Path {
        self.kernels.path()
    }

    /// What comes out.
    pub fn wanted(&self) -> Dtype {
        self.wanted
    }

    /// Whether rows come out as they are stored.
    pub fn is_copy(&self) -> bool {
        self.stored == self.wanted
    }

    /// Bytes of a stored row.
    pub fn stored_bytes(&self) -> usize {
        self.columns * self.stored.size_bytes()
    }

    /// Bytes of a row that comes out.
    pub fn out_bytes(&self) -> usize {
        self.columns * self.wanted.size_bytes()
    }

    /// Stored rows as kernels read them where they lie: as what [`RowDecoder::decode`] makes of
    /// them. `None` if they cannot, or if what is wanted is not f32.
    pub fn in_place<'a>(&'a self, stored_rows: &'a [u8]) -> Option<Rows<'a>> {
        match (self.stored, self.wanted, self.scales.as_deref()) {
            (Dtype::F32, Dtype::F32, _) => Some(Rows::F32(bytes_as_f32(stored_rows)?)),
            (Dtype::F16, Dtype::F32, _) => Some(Rows::F16(stored_rows)),
            (Dtype::Bf16, Dtype::F32, _) => Some(Rows::Bf16(stored_rows)),
            (Dtype::I8, Dtype::F32, Some(scales)) => Some(Rows::I8 { steps: stored_rows, scales }),
            _ => None,
        }
    }

    /// Decodes one row of [`RowDecoder::stored_bytes`] to [`RowDecoder::out_bytes`].
    #[inline]
    pub fn decode(&self, stored_row: &[u8], out: &mut [u8]) {
        debug_assert_eq!(stored_row.len(), self.stored_bytes());
        debug_assert_eq!(out.len(), self.out_bytes());
        let kernels = self.kernels;
        match (self.stored, self.wanted, self.scales.as_deref()) {
            (stored, wanted, _) if stored == wanted => {
                let len = stored_row.len().min(out.len());
                out[..len].copy_from_slice(&stored_row[..len]);
            }
            (Dtype::F16, Dtype::F32, _) => kernels.f16_to_f32(stored_row, out),
            (Dtype::Bf16, Dtype::F32, _) => kernels.bf16_to_f32(stored_row, out),
            (Dtype::I8, Dtype::F32, Some(scales)) => kernels.i8_to_f32(stored_row, scales, out),
            (Dtype::F32, Dtype::F16, _) => kernels.f32_to_f16(stored_row, out),
            (Dtype::F32, Dtype::Bf16, _) => kernels.f32_to_bf16(stored_row, out),
            _ => self.decode_through_f32(stored_row, out),
        }
    }

    /// As [`RowDecoder::decode`], past the processor's caches: for rows of a batch that is larger
    /// than they are. `near` is memory that is used again and again. Call
    /// [`finish_streaming`](crate::finish_streaming) before another thread is told of the rows.
    #[inline]
    pub fn decode_streaming(&self, stored_row: &[u8], near: &mut Vec<u8>, out: &mut [u8]) {
        if self.is_copy() {
            copy_streaming(stored_row, out);
            return;
        }
        near.resize(out.len(), 0);
        self.decode(stored_row, near);
        copy_streaming(near, out);
    }

    fn decode_through_f32(&self, stored_row: &[u8], out: &mut [u8]) {
        let (from, to) = (self.stored.size_bytes(), self.wanted.size_bytes());
        let mut scales = self.scales.iter().flat_map(|all| all.chunks(STEP));
        let parts = stored_row.chunks(STEP * from).zip(out.chunks_mut(STEP * to));
        for (stored, out) in parts {
            let mut wide = [0; 4 * STEP];
            let wide = &mut wide[..stored.len() / from * 4];
            match self.stored {
                Dtype::F16 => self.kernels.f16_to_f32(stored, wide),
                Dtype::Bf16 => self.kernels.bf16_to_f32(stored, wide),
                _ => self.kernels.i8_to_f32(stored, scales.next().unwrap_or_default(), wide),
            }
            match self.wanted {
                Dtype::F16 => self.kernels.f32_to_f16(wide, out),
                _ => self.kernels.f32_to_bf16(wide, out),
            }
        }
    }

    /// Decodes rows that stand one after the other.
    pub fn decode_rows(&self, stored: &[u8], out: &mut [u8]) {
        let rows = stored.chunks_exact(self.stored_bytes().max(1));
        for (stored, out) in rows.zip(out.chunks_exact_mut(self.out_bytes().max(1))) {
            self.decode(stored, out);
        }
    }

    /// Decodes rows that stand one after the other at the END of `buffer`, which they fill
    /// from its start when they are decoded. For rows that do not get narrower.
    pub fn decode_in_place(&self, buffer: &mut [u8]) {
        let (from, to) = (self.stored_bytes(), self.out_bytes());
        if self.is_copy() || to == 0 || from > to {
            return;
        }
        let mut row = vec![0; from];
        let count = buffer.len() / to;
        let mut stored_at = buffer.len() - count * from;
        // A row ends where the ones after it, at least as wide as their stored form, still fit: it
        // covers none that is not yet decoded.
        for out_at in (0..count).map(|index| index * to) {
            row.copy_from_slice(&buffer[stored_at..stored_at + from]);
            stored_at += from;
            self.decode(&row, &mut buffer[out_at..out_at + to]);
        }
    }
}

/// An error unless these are the scales of rows of `columns` elements.
pub(crate) fn check_scales(
    stored: Dtype,
    columns: usize,
    scales: Option<&[f32]>,
) -> Result<(), DecodeError> {
    let Some(scales) = scales else { return Ok(()) };
    if stored != Dtype::I8 || scales.len() != columns {
        return Err(DecodeError::Scales { stored, columns, found: scales.len() });
    }
    match scales.iter().position(|scale| !is_scale(*scale)) {
        Some(column) => Err(DecodeError::Scale { column, scale: scales[column] }),
        None => Ok(()),
    }
}
