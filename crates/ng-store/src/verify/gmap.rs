//! The gmap against the H index: exactly the nodes with a long list have their bit set.

use crate::catalog::TreeRoot;
use crate::error::{Damage, ReadError};
use crate::io::BLOCK_BYTES;
use crate::page::{Pages, Segment};
use crate::topology::GMAP_NODES;
use crate::tree::{TreeCursor, TreeKind, Unclaimed, claim, read_page};

/// Hears of the long lists in ascending order and compares block by block.
pub(super) struct GmapCheck<'a> {
    pages: &'a Pages,
    index: &'a Segment,
    unclaimed: &'a Unclaimed,
    cursor: TreeCursor<'a>,
    block: Option<u64>,
    expected: Vec<u8>,
}

impl<'a> GmapCheck<'a> {
    pub fn new(
        pages: &'a Pages,
        index: &'a Segment,
        root: Option<TreeRoot>,
        unclaimed: &'a Unclaimed,
    ) -> Self {
        let cursor = TreeCursor::new(pages, index, TreeKind::Gmap, root).claiming(unclaimed);
        let expected = vec![0; BLOCK_BYTES];
        Self { pages, index, unclaimed, cursor, block: None, expected }
    }

    /// A node with a long list.
    pub fn hub(&mut self, node: u64) -> Result<(), ReadError> {
        let block = node / GMAP_NODES;
        if self.block != Some(block) {
            self.compare()?;
            self.block = Some(block);
            self.expected.fill(0);
        }
        let bit = (node % GMAP_NODES) as usize;
        if let Some(byte) = self.expected.get_mut(bit / 8) {
            *byte |= 1 << (bit % 8);
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<(), ReadError> {
        let Some(block) = self.block.take() else {
            return Ok(());
        };
        let wrong = |what: &'static str| self.index.damaged(block, &Damage::new(what));
        let record = self.cursor.next()?;
        let record = record.filter(|record| record.key == block);
        let record = record
            .ok_or_else(|| wrong("gmap: the bitmap of a block with long lists is missing"))?;
        claim(self.unclaimed, self.index, record.page)?;
        if read_page(self.pages, self.index, record.page)? != self.expected {
            return Err(wrong("gmap: bits differ from the H index"));
        }
        Ok(())
    }

    /// Ends the comparison.
    pub fn finish(&mut self) -> Result<(), ReadError> {
        self.compare()?;
        if self.cursor.next()?.is_some() {
            let what = Damage::new("gmap: a block without long lists has a bitmap");
            return Err(self.index.damaged(0, &what));
        }
        Ok(())
    }
}
