//! Writing one segment: pages to `NAME.dat`, their table to `NAME.map`, both front to back.
//!
//! Memory does not grow with the segment but for 12 bytes per 1.3 GiB in the catalog.

use std::sync::Arc;

use ng_types::checksum;

use crate::catalog::SegmentMeta;
use crate::error::BuildError;
use crate::io::{Appender, BLOCK_BYTES, Disk};
use crate::page::{
    INNER_ENTRIES, Located, data_file, encode_inner, encode_leaf, pages_per_leaf, table_file,
};
use crate::version::root::FIRST_CHECKPOINT;

/// Longer segments do not stay in the page cache while they are written: they would push out what
/// is read meanwhile, and nobody reads them at once.
const LEAVES_CACHE_BYTES: u64 = 1 << 30;

pub(crate) struct SegmentWriter {
    id: u32,
    /// In which its pages are written.
    pub checkpoint_id: u32,
    data: Appender,
    table: Appender,
    meta: SegmentMeta,
    leaf: Vec<u8>,
    leaf_first: u64,
    inner: Vec<Located>,
}

impl SegmentWriter {
    pub fn create(
        disk: &Arc<dyn Disk>,
        id: u32,
        name: &str,
        page_bytes: u32,
    ) -> Result<Self, BuildError> {
        let data = Appender::create(Arc::clone(disk), &data_file(name))?;
        let data = data.leaving_cache(LEAVES_CACHE_BYTES);
        let table = Appender::create(Arc::clone(disk), &table_file(name))?;
        let meta = SegmentMeta { name: name.into(), page_bytes, ..SegmentMeta::default() };
        let (checkpoint_id, leaf, inner) = (FIRST_CHECKPOINT, Vec::new(), Vec::new());
        Ok(Self { id, checkpoint_id, data, table, meta, leaf, leaf_first: 0, inner })
    }

    /// The logical page that the next push will get.
    pub fn next_page(&self) -> u64 {
        self.meta.num_pages
    }

    /// Appends a page of exactly `page_bytes` and says which it is.
    pub fn push_page(&mut self, page: &[u8]) -> Result<u64, BuildError> {
        debug_assert_eq!(page.len(), self.meta.page_bytes as usize);
        self.data.write(page)?;
        for block in page.chunks(BLOCK_BYTES) {
            self.leaf.extend(checksum::of(block).to_le_bytes());
        }
        let number = self.meta.num_pages;
        self.meta.num_pages += 1;
        if self.meta.num_pages - self.leaf_first == pages_per_leaf(self.meta.page_bytes) {
            self.flush_leaf()?;
        }
        Ok(number)
    }

    fn flush_leaf(&mut self) -> Result<(), BuildError> {
        let num_pages = (self.meta.num_pages - self.leaf_first) as u32;
        let first = (self.leaf_first, self.leaf_first);
        let block = encode_leaf(self.id, first, num_pages, self.checkpoint_id, &self.leaf);
        let pointer = self.push_table_block(&block)?;
        self.inner.push(pointer);
        self.leaf.clear();
        self.leaf_first = self.meta.num_pages;
        if self.inner.len() == INNER_ENTRIES {
            self.flush_inner()?;
        }
        Ok(())
    }

    fn flush_inner(&mut self) -> Result<(), BuildError> {
        let block = encode_inner(self.id, self.meta.table.len() as u32, &self.inner);
        let pointer = self.push_table_block(&block)?;
        self.meta.table.push(pointer);
        self.inner.clear();
        Ok(())
    }

    fn push_table_block(&mut self, block: &[u8]) -> Result<Located, BuildError> {
        self.table.write(block)?;
        let pointer = Located { block: self.meta.map_blocks, crc: checksum::of(block) };
        self.meta.map_blocks += 1;
        Ok(pointer)
    }

    /// Writes what is left and makes both files durable.
    pub fn finish(mut self) -> Result<FinishedSegment, BuildError> {
        if !self.leaf.is_empty() {
            self.flush_leaf()?;
        }
        if !self.inner.is_empty() {
            self.flush_inner()?;
        }
        self.data.finish()?;
        self.table.finish()?;
        Ok(FinishedSegment { id: self.id, meta: self.meta })
    }
}

/// A segment on disk that is not yet in a catalog.
#[derive(Debug)]
pub(crate) struct FinishedSegment {
    pub id: u32,
    pub meta: SegmentMeta,
}
