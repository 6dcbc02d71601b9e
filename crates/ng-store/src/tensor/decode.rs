//! Rows as something else than what is stored: what a snapshot knows of scales and decoders.
//!
//! How an element is converted is for `ng-simd`. The invariant: numbers from disk are scales only
//! after a [`RowDecoder`] has taken them.

use std::sync::Arc;

use ng_simd::{DecodeError, RowDecoder, RowEncoder, finish_streaming};
use ng_types::Dtype;

use crate::catalog::{TensorMeta, TensorRef};
use crate::error::{Damage, ReadError};
use crate::page::{Pages, Segment};
use crate::store::Snapshot;
use crate::tensor::reader::{GatherStats, TensorReader};

/// Gathers rows as they are stored.
type Gather = fn(&Snapshot, TensorRef, &[u64], &mut [u8]) -> Result<GatherStats, ReadError>;

impl Snapshot {
    /// Returns the scales of the columns of a tensor, or `None` if its elements are not scaled.
    ///
    /// # Errors
    /// [`ReadError::Missing`], [`ReadError::Checksum`], [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn scales(&self, tensor: TensorRef) -> Result<Option<Arc<[f32]>>, ReadError> {
        let (meta, _, _) = self.version.tensor(tensor)?;
        let Some(segment) = meta.scales else { return Ok(None) };
        read_scales(&self.inner.pages, meta, self.version.segment(segment)?).map(Some)
    }

    /// Returns the decoder from stored rows of a tensor to rows of `wanted`. It is valid for all
    /// versions of the store, and cheap to clone and to share.
    ///
    /// # Errors
    /// [`ReadError::Decode`] where rows cannot be read so, and those of [`Snapshot::scales`].
    pub fn decoder(&self, tensor: TensorRef, wanted: Dtype) -> Result<RowDecoder, ReadError> {
        let (meta, _, _) = self.version.tensor(tensor)?;
        // Whoever wants what is stored needs no scales.
        let scales = if wanted == meta.dtype { None } else { self.scales(tensor)? };
        let columns = usize::try_from(meta.num_columns()).unwrap_or(usize::MAX);
        RowDecoder::new(meta.dtype, columns, scales, wanted)
            .map_err(|source| ReadError::Decode { tensor: meta.name.clone(), source })
    }

    /// As [`Snapshot::gather`], through a decoder of this tensor: `out` has
    /// [`RowDecoder::out_bytes`] for each row. Where these are fewer than are stored, the stored
    /// rows are held in memory beside it.
    ///
    /// # Errors
    /// As [`Snapshot::gather`].
    pub fn gather_decoded(
        &self,
        tensor: TensorRef,
        decoder: &RowDecoder,
        rows: &[u64],
        out: &mut [u8],
    ) -> Result<GatherStats, ReadError> {
        self.decoded(tensor, decoder, rows, out, Self::gather)
    }

    /// Like [`Snapshot::gather_decoded`], but never makes the store hold the whole tensor. It is
    /// for callers that manage rows in memory themselves.
    ///
    /// # Errors
    /// As [`Snapshot::gather`].
    pub fn gather_once(
        &self,
        tensor: TensorRef,
        decoder: &RowDecoder,
        rows: &[u64],
        out: &mut [u8],
    ) -> Result<GatherStats, ReadError> {
        self.decoded(tensor, decoder, rows, out, Self::gather_uncounted)
    }

    fn decoded(
        &self,
        tensor: TensorRef,
        decoder: &RowDecoder,
        rows: &[u64],
        out: &mut [u8],
        gather: Gather,
    ) -> Result<GatherStats, ReadError> {
        if decoder.is_copy() {
            return gather(self, tensor, rows, out);
        }
        let expected = rows.len().saturating_mul(decoder.out_bytes());
        if out.len() != expected {
            return Err(ReadError::OutputSize { expected, found: out.len() });
        }
        if let Some(stats) = self.take_decoded(tensor, decoder, rows, out)? {
            return Ok(stats);
        }
        let stored_bytes = rows.len() * decoder.stored_bytes();
        if stored_bytes > out.len() {
            let mut stored = vec![0; stored_bytes];
            let stats = gather(self, tensor, rows, &mut stored)?;
            decoder.decode_rows(&stored, out);
            return Ok(stats);
        }
        let start = out.len() - stored_bytes;
        let stats = gather(self, tensor, rows, &mut out[start..])?;
        decoder.decode_in_place(out);
        Ok(stats)
    }
}

impl Snapshot {
    /// Decodes rows straight from memory, if the store holds all of them.
    fn take_decoded(
        &self,
        tensor: TensorRef,
        decoder: &RowDecoder,
        ids: &[u64],
        out: &mut [u8],
    ) -> Result<Option<GatherStats>, ReadError> {
        let (meta, segment, _) = self.version.tensor(tensor)?;
        let table = self.inner.tables.get(&segment.placed);
        let Some(table) = table.filter(|table| table.is_whole()) else { return Ok(None) };
        meta.check_rows(ids)?;
        let rows = self.rows_of(tensor.owner, ids)?;
        let (width, mut near) = (decoder.out_bytes(), Vec::new());
        let missing = table.each(segment, &rows, |place, row| {
            let target = &mut out[place * width..(place + 1) * width];
            decoder.decode_streaming(row, &mut near, target);
        });
        finish_streaming();
        let taken = (rows.len() - missing.len()) as u64;
        self.count_rows(GatherStats { rows: taken, rows_cached: taken });
        // Commits have changed these, so they are in memory, too.
        let mut stored = vec![0; decoder.stored_bytes()];
        for place in missing {
            self.gather(tensor, &ids[place..=place], &mut stored)?;
            decoder.decode(&stored, &mut out[place * width..(place + 1) * width]);
        }
        Ok(Some(GatherStats { rows: rows.len() as u64, rows_cached: rows.len() as u64 }))
    }
}

/// Reads the scales of a tensor.
pub(crate) fn read_scales(
    pages: &Pages,
    meta: &TensorMeta,
    segment: &Segment,
) -> Result<Arc<[f32]>, ReadError> {
    let layout = meta.scales_layout();
    let layout = layout.ok_or_else(|| ReadError::Missing { what: "scales".into() })?;
    let mut row = vec![0; layout.row_bytes()];
    TensorReader { pages, segment, layout, pool: None }.gather(&[0], &mut row)?;
    let scales = row.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    let scales: Arc<[f32]> = scales.collect();
    match RowEncoder::new(meta.dtype, scales.len(), Some(Arc::clone(&scales))) {
        Ok(_) => Ok(scales),
        Err(DecodeError::Scale { column, scale }) => {
            let what = format!(
                "tensor {:?}: the scale {scale} of column {column} is not valid",
                meta.name
            );
            Err(segment.damaged(0, &Damage::new(what)))
        }
        Err(source @ (DecodeError::Types { .. } | DecodeError::Scales { .. })) => {
            Err(ReadError::Decode { tensor: meta.name.clone(), source })
        }
    }
}
