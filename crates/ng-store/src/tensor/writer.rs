//! Writing a tensor in one pass: rows in, pages out, one page held.

use std::sync::Arc;

use crate::bytes::put;
use crate::catalog::{Owner, ROW_BYTES_MAX, TensorMeta, row_bytes};
use crate::error::BuildError;
use crate::io::Disk;
use crate::segment::{FinishedSegment, SegmentWriter};
use crate::tensor::layout::RowLayout;

/// Writes the rows of one tensor, in row order.
///
/// Independent of its builder, so it may run on another thread.
pub struct TensorWriter {
    owner: Owner,
    slot: u16,
    meta: TensorMeta,
    layout: RowLayout,
    pages: SegmentWriter,
    page_bytes: usize,
    page: Vec<u8>,
    rows_in_page: u64,
    scales: Option<FinishedSegment>,
}

/// A finished tensor, to be given to [`crate::StoreBuilder::add`].
#[derive(Debug)]
pub struct TensorPart {
    pub(crate) owner: Owner,
    pub(crate) slot: u16,
    pub(crate) meta: TensorMeta,
    pub(crate) segment: FinishedSegment,
    pub(crate) scales: Option<FinishedSegment>,
}

impl TensorWriter {
    /// `slot` is the place of the tensor in its owner's list.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        owner: Owner,
        slot: u16,
        meta: TensorMeta,
    ) -> Result<Self, BuildError> {
        let bytes = row_bytes(meta.dtype, &meta.shape).ok_or_else(|| {
            let shape = &meta.shape;
            BuildError::invalid(format!(
                "tensor {:?}: a row of shape {shape:?} must have 1 to {ROW_BYTES_MAX} bytes",
                meta.name
            ))
        })?;
        let page_bytes = RowLayout::page_bytes_for(bytes);
        let layout = RowLayout::new(bytes, page_bytes);
        let name = format!("t{}", meta.segment);
        let pages = SegmentWriter::create(disk, meta.segment, &name, page_bytes)?;
        let page = vec![0; layout.unit_bytes()];
        let page_bytes = page_bytes as usize;
        Ok(Self {
            owner,
            slot,
            meta,
            layout,
            pages,
            page_bytes,
            page,
            rows_in_page: 0,
            scales: None,
        })
    }

    /// Hands over the scales of the columns, which are written already.
    pub(crate) fn with_scales(self, scales: FinishedSegment) -> Self {
        Self { scales: Some(scales), ..self }
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.layout.row_bytes()
    }

    /// Rows pushed so far.
    pub fn num_rows(&self) -> u64 {
        self.meta.num_rows
    }

    /// Appends whole rows: `n * row_bytes` bytes, little-endian, one row after the other.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for a part of a row, [`BuildError::Write`].
    pub fn push_rows(&mut self, rows: &[u8]) -> Result<(), BuildError> {
        let width = self.layout.row_bytes();
        if !rows.len().is_multiple_of(width) {
            let (name, len) = (&self.meta.name, rows.len());
            let what = format!("tensor {name:?}: {len} bytes are no whole number of {width}");
            return Err(BuildError::invalid(what));
        }
        let mut rest = rows;
        while !rest.is_empty() {
            let room = (self.layout.unit_rows() - self.rows_in_page) as usize * width;
            let (now, later) = rest.split_at(room.min(rest.len()));
            put(&mut self.page, self.rows_in_page as usize * width, now);
            let count = (now.len() / width) as u64;
            self.rows_in_page += count;
            self.meta.num_rows += count;
            if self.rows_in_page == self.layout.unit_rows() {
                self.flush()?;
            }
            rest = later;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BuildError> {
        for page in self.page.chunks(self.page_bytes) {
            self.pages.push_page(page)?;
        }
        // Full units are overwritten whole; the last may be short, and the rest of it is 0.
        self.page.fill(0);
        self.rows_in_page = 0;
        Ok(())
    }

    /// Writes what is left and makes it durable.
    ///
    /// # Errors
    /// [`BuildError::Write`].
    pub fn finish(mut self) -> Result<TensorPart, BuildError> {
        if self.rows_in_page > 0 {
            self.flush()?;
        }
        let segment = self.pages.finish()?;
        let Self { owner, slot, meta, scales, .. } = self;
        Ok(TensorPart { owner, slot, meta, segment, scales })
    }
}

/// Writes the scales of the columns of a tensor, as one row.
pub(crate) fn write_scales(
    disk: &Arc<dyn Disk>,
    meta: &TensorMeta,
    segment: u32,
    scales: &[f32],
) -> Result<FinishedSegment, BuildError> {
    let row: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let layout = meta.scales_layout().ok_or_else(|| {
        let shape = &meta.shape;
        BuildError::invalid(format!("tensor {:?}: no scales for rows of {shape:?}", meta.name))
    })?;
    let page_bytes = RowLayout::page_bytes_for(row.len() as u64);
    let mut pages = SegmentWriter::create(disk, segment, &format!("t{segment}"), page_bytes)?;
    let mut unit = vec![0; layout.unit_bytes()];
    put(&mut unit, 0, &row);
    for page in unit.chunks(page_bytes as usize) {
        pages.push_page(page)?;
    }
    pages.finish()
}
