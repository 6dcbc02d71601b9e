//! A segment: its two files as a checkpoint left them, and what commits have changed since.
//!
//! What must not live here: reading ([`super::reader`]) and writing ([`super::writer`]) pages.

use std::sync::Arc;

use ng_types::canary::planted;
use ng_types::checksum;

use crate::catalog::SegmentMeta;
use crate::error::{Damage, OpenError, ReadError};
use crate::io::{BLOCK_BYTES, FileId, Reader};
use crate::page::{
    INNER_ENTRIES, Inner, LeafSpec, Located, Page, PageMap, Place, Slot, pages_per_leaf,
};
use crate::tensor::layout::RowLayout;

const BLOCK: u64 = BLOCK_BYTES as u64;

pub(crate) fn data_file(name: &str) -> String {
    format!("{name}.dat")
}

pub(crate) fn table_file(name: &str) -> String {
    format!("{name}.map")
}

/// The files of a segment as one checkpoint left them.
#[derive(Debug)]
pub(crate) struct Placed {
    pub id: u32,
    pub meta: SegmentMeta,
    pub data: FileId,
    pub table: FileId,
}

impl Placed {
    /// Opens both files and compares their lengths with the catalog.
    pub fn open(
        reader: &Reader,
        path: &str,
        id: u32,
        meta: &SegmentMeta,
    ) -> Result<Self, OpenError> {
        let open = |file: String, expected: u64| {
            let id = reader.open(&file).map_err(ReadError::from)?;
            let found = reader.len(id).map_err(ReadError::from)?;
            if found < expected {
                let path = path.into();
                return Err(OpenError::Truncated { path, file, expected, found });
            }
            Ok(id)
        };
        let data_bytes = meta.physical_pages() * u64::from(meta.page_bytes);
        let data = open(data_file(&meta.name), data_bytes)?;
        let table = open(table_file(&meta.name), meta.map_blocks * BLOCK)?;
        Ok(Self { id, meta: meta.clone(), data, table })
    }

    /// A segment that no checkpoint has written yet: no page has a place, so no file is read.
    pub fn fresh(id: u32, meta: SegmentMeta) -> Self {
        let meta = SegmentMeta { num_pages: 0, ..meta };
        Self { id, meta, data: FileId(u32::MAX), table: FileId(u32::MAX) }
    }

    /// An error about a page that is not there.
    pub fn nowhere(&self, page: u64) -> ReadError {
        self.damaged(page, &Damage::new("a pointer leads to a page that has no physical page"))
    }

    /// 4 KiB blocks of a page.
    pub fn blocks_per_page(&self) -> u64 {
        u64::from(self.meta.page_bytes) / BLOCK
    }

    /// What is known about leaf `index` before it is read.
    pub fn leaf_spec(&self, index: u64) -> LeafSpec {
        let first_logical = index * pages_per_leaf(self.meta.page_bytes);
        let left = self.meta.num_pages.saturating_sub(first_logical);
        LeafSpec {
            segment: self.id,
            first_logical,
            num_pages: left.min(pages_per_leaf(self.meta.page_bytes)),
            blocks_per_page: self.blocks_per_page(),
            physical_pages: self.meta.physical_pages(),
            map_blocks: self.meta.map_blocks,
        }
    }

    /// What is known about the leaf that covers a page.
    pub fn leaf_spec_of(&self, page: u64) -> LeafSpec {
        self.leaf_spec(page / pages_per_leaf(self.meta.page_bytes))
    }

    /// Types inner block `index`.
    pub fn inner<'a>(&self, bytes: &'a [u8], index: u64) -> Result<Inner<'a>, Damage> {
        let first = index * INNER_ENTRIES as u64;
        let count = self.meta.num_leaves().saturating_sub(first).min(INNER_ENTRIES as u64);
        Inner::decode(bytes, self.id, index as u32, count as usize, self.meta.map_blocks)
    }

    /// The cache key of a block of one of the files. Blocks are numbered by where they are, so
    /// versions share what did not change between them.
    pub fn key(&self, place: Place, block: u64) -> u64 {
        u64::from(self.id) << 48 | (place as u64) << 46 | block
    }

    pub fn file(&self, place: Place) -> (FileId, String) {
        match place {
            Place::Data => (self.data, data_file(&self.meta.name)),
            Place::Table => (self.table, table_file(&self.meta.name)),
        }
    }

    /// An error about a page of this segment.
    pub fn damaged(&self, page: u64, damage: &Damage) -> ReadError {
        let file = data_file(&self.meta.name);
        ReadError::Damaged { file, page, what: damage.to_string() }
    }
}

/// A segment in one version: what the last checkpoint wrote, and what commits changed since.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub placed: Arc<Placed>,
    /// Logical pages in this version.
    pub num_pages: u64,
    pub changed: PageMap,
}

impl std::ops::Deref for Segment {
    type Target = Placed;

    fn deref(&self) -> &Placed {
        &self.placed
    }
}

impl Segment {
    /// The segment as its checkpoint left it.
    pub fn unchanged(placed: Arc<Placed>) -> Self {
        let num_pages = placed.meta.num_pages;
        Self { placed, num_pages, changed: PageMap::default() }
    }

    /// Whether every logical page is the physical page of the same number.
    pub fn is_identity(&self) -> bool {
        self.changed.is_empty() && self.meta.physical_pages.is_none()
    }

    /// The bytes of a page that was changed since the checkpoint.
    pub fn changed_page(&self, page: u64) -> Result<Option<&Page>, ReadError> {
        match self.changed.get(page) {
            Some(Slot::Changed(held)) => Ok(Some(held)),
            Some(Slot::Dead) => Err(self.nowhere(page)),
            None => Ok(None),
        }
    }

    /// Lends a row of a tensor that was changed since the checkpoint, page by page: (first byte in
    /// the row, bytes). A row is changed as a whole.
    pub fn changed_row(
        &self,
        layout: RowLayout,
        row: u64,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), ReadError> {
        let place = layout.place(row);
        let page_bytes = self.blocks_per_page() as usize * BLOCK_BYTES;
        let mut byte = place.block as usize * BLOCK_BYTES + place.offset;
        let mut at = 0;
        while at < layout.row_bytes() {
            let page = (byte / page_bytes) as u64;
            let held = self.changed_page(page)?.ok_or_else(|| self.nowhere(page))?;
            let rest = &held.bytes()[byte % page_bytes..];
            let len = rest.len().min(layout.row_bytes() - at);
            take(at, &rest[..len]);
            (at, byte) = (at + len, byte + len);
        }
        Ok(())
    }
}

/// Segment `id` of a version.
pub(crate) fn segment_of(segments: &[Segment], id: u32) -> Result<&Segment, ReadError> {
    let missing = || ReadError::Missing { what: format!("segment {id}") };
    segments.get(id as usize).ok_or_else(missing)
}

/// Compares blocks with their checksums; `file` is for the message.
pub(crate) fn verify_blocks(
    segment: &Placed,
    file: &str,
    expected: &[Located],
    bytes: &[u8],
) -> Result<(), ReadError> {
    if planted("skip_checksum") {
        return Ok(());
    }
    for (located, block) in expected.iter().zip(bytes.chunks_exact(BLOCK_BYTES)) {
        let found = checksum::of(block);
        if found != located.crc {
            return Err(ReadError::Checksum {
                file: file.into(),
                page: located.block / segment.blocks_per_page(),
                block: located.block,
                expected: located.crc,
                found,
            });
        }
    }
    Ok(())
}
