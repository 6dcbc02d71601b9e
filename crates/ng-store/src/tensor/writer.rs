//! Writing a tensor in one pass: rows in, pages out, one page held.

use std::sync::Arc;

use crate::build::spec::Part;
use crate::bytes::put;
use crate::catalog::{Owner, TensorMeta, row_bytes};
use crate::error::BuildError;
use crate::io::Disk;
use crate::limits::ROW_BYTES_MAX;
use crate::page::{FinishedSegment, SegmentWriter};
use crate::tensor::layout::RowLayout;

/// Writes rows of equal width into a segment of their own.
pub(crate) struct RowsWriter {
    layout: RowLayout,
    pages: SegmentWriter,
    page: Vec<u8>,
    rows_in_page: u64,
    pub num_rows: u64,
}

impl RowsWriter {
    /// Rows of `row_bytes` in segment `tS`.
    pub fn create(disk: &Arc<dyn Disk>, segment: u32, row_bytes: u64) -> Result<Self, BuildError> {
        let layout = RowLayout::best(row_bytes);
        let name = format!("t{segment}");
        let pages = SegmentWriter::create(disk, segment, &name, layout.page_bytes())?;
        let page = vec![0; layout.unit_bytes()];
        Ok(Self { layout, pages, page, rows_in_page: 0, num_rows: 0 })
    }

    /// The same, of a later checkpoint than an import.
    pub fn of_checkpoint(mut self, checkpoint_id: u64) -> Self {
        self.pages.checkpoint_id = checkpoint_id as u32;
        self
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.layout.row_bytes()
    }

    /// Appends whole rows.
    pub fn push(&mut self, rows: &[u8]) -> Result<(), BuildError> {
        let width = self.layout.row_bytes();
        let mut rest = rows;
        while !rest.is_empty() {
            let room = (self.layout.unit_rows() - self.rows_in_page) as usize * width;
            let (now, later) = rest.split_at(room.min(rest.len()));
            put(&mut self.page, self.rows_in_page as usize * width, now);
            let count = (now.len() / width) as u64;
            self.rows_in_page += count;
            self.num_rows += count;
            if self.rows_in_page == self.layout.unit_rows() {
                self.flush()?;
            }
            rest = later;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BuildError> {
        for page in self.page.chunks(self.layout.page_bytes() as usize) {
            self.pages.push_page(page)?;
        }
        // Full units are overwritten whole; the last may be short, and the rest of it is 0.
        self.page.fill(0);
        self.rows_in_page = 0;
        Ok(())
    }

    /// Writes what is left and makes it durable.
    pub fn finish(mut self) -> Result<FinishedSegment, BuildError> {
        if self.rows_in_page > 0 {
            self.flush()?;
        }
        self.pages.finish()
    }
}

/// Writes the rows of one tensor, in row order.
///
/// Independent of its builder, so it may run on another thread.
pub struct TensorWriter {
    owner: Owner,
    slot: u16,
    meta: TensorMeta,
    rows: RowsWriter,
    pub(crate) scales: Option<FinishedSegment>,
}

/// A finished tensor, to be given to [`crate::StoreBuilder::add`].
#[derive(Debug)]
pub struct TensorPart {
    pub(crate) owner: Owner,
    pub(crate) slot: u16,
    pub(crate) meta: TensorMeta,
    pub(crate) segment: FinishedSegment,
    /// Scales of its columns, or entries of its sparse rows.
    pub(crate) beside: Option<FinishedSegment>,
}

impl TensorWriter {
    /// `slot` is the place of the tensor in its owner's list.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        owner: Owner,
        slot: u16,
        meta: TensorMeta,
    ) -> Result<Self, BuildError> {
        let rows = RowsWriter::create(disk, meta.segment, checked_row_bytes(&meta)?)?;
        Ok(Self { owner, slot, meta, rows, scales: None })
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.rows.row_bytes()
    }

    /// Rows pushed so far.
    pub fn num_rows(&self) -> u64 {
        self.rows.num_rows
    }

    /// Appends whole rows: `n * row_bytes` bytes, little-endian, one row after the other.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for a part of a row, [`BuildError::Write`].
    pub fn push_rows(&mut self, rows: &[u8]) -> Result<(), BuildError> {
        let width = self.row_bytes();
        if !rows.len().is_multiple_of(width) {
            let (name, len) = (&self.meta.name, rows.len());
            let what = format!(
                "tensor {name:?}: {len} bytes is not a multiple of the row size of {width} bytes"
            );
            return Err(BuildError::invalid(what));
        }
        self.rows.push(rows)
    }

    /// Writes what is left and makes it durable.
    ///
    /// # Errors
    /// [`BuildError::Write`].
    pub fn finish(self) -> Result<Part, BuildError> {
        let Self { owner, slot, mut meta, rows, scales } = self;
        meta.num_rows = rows.num_rows;
        Ok(Part::Tensor(TensorPart { owner, slot, meta, segment: rows.finish()?, beside: scales }))
    }
}

/// Bytes of a row, if that is allowed.
pub(crate) fn checked_row_bytes(meta: &TensorMeta) -> Result<u64, BuildError> {
    row_bytes(meta.dtype, &meta.shape).ok_or_else(|| {
        let shape = &meta.shape;
        BuildError::invalid(format!(
            "tensor {:?}: rows of shape {shape:?} are not valid: expected 1 to \
             {ROW_BYTES_MAX} bytes each",
            meta.name
        ))
    })
}

/// Writes the scales of the columns of a tensor, as one row.
pub(crate) fn write_scales(
    disk: &Arc<dyn Disk>,
    meta: &TensorMeta,
    segment: u32,
    scales: &[f32],
) -> Result<FinishedSegment, BuildError> {
    let layout = meta.scales_layout().ok_or_else(|| {
        let shape = &meta.shape;
        BuildError::invalid(format!(
            "tensor {:?}: rows of shape {shape:?} cannot have scales",
            meta.name
        ))
    })?;
    let row: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let mut rows = RowsWriter::create(disk, segment, layout.row_bytes() as u64)?;
    rows.push(&row)?;
    rows.finish()
}
