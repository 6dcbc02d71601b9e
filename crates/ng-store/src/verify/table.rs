//! The page table of a segment: every block of it, and that no place is given away twice.

use crate::error::{Damage, ReadError};
use crate::page::{
    INNER_ENTRIES, Located, PageSet, Placed, TableContent, decode_child, decode_leaf, table_file,
};
use crate::verify::Run;

/// Leaves that are read together.
const TOGETHER: usize = 64;

/// What a page table has.
pub(super) struct Table {
    /// Logical pages that have a place.
    pub present: PageSet,
    /// Nothing is wrong with the table, so pages that are missing are really missing.
    pub sound: bool,
}

/// A block of the table that covers the pages from the first number on.
type Covering = (u64, Located);

type Decode<'a> = dyn Fn(u64, &[u8]) -> Result<TableContent, Damage> + 'a;

impl Run<'_> {
    /// Walks the table of `segment`; an error is a budget that is too small.
    pub(super) fn check_table(&mut self, segment: &Placed) -> Result<Table, ReadError> {
        let meta = &segment.meta;
        let mut present = PageSet::new(self.inner, meta.num_pages)?;
        let mut pages = PageSet::new(self.inner, meta.physical_pages())?;
        let mut blocks = PageSet::new(self.inner, meta.map_blocks)?;
        let problems = self.report.num_problems();
        let decode_leaf = |first: u64, bytes: &[u8]| decode_leaf(segment, first, bytes);
        let decode_child = |first: u64, bytes: &[u8]| decode_child(segment, first, bytes);
        for (inner, pointer) in (0..).zip(&meta.table) {
            self.take_block(segment, &mut blocks, pointer.block);
            let leaves = self.leaves_of(segment, inner);
            for leaves in leaves.chunks(TOGETHER) {
                let mut found = self.table_blocks(segment, leaves, &decode_leaf);
                let children: Vec<Covering> =
                    found.iter_mut().flat_map(|leaf| std::mem::take(&mut leaf.children)).collect();
                found.extend(self.table_blocks(segment, &children, &decode_child));
                for (_, located) in leaves.iter().chain(&children) {
                    self.take_block(segment, &mut blocks, located.block);
                }
                for (logical, physical) in found.iter().flat_map(|content| &content.pages) {
                    present.insert(*logical);
                    if !pages.insert(*physical) {
                        let what = format!("physical page {physical} belongs to two pages");
                        self.report.add(&table_file(&meta.name), Some(*logical), None, what);
                    }
                }
            }
        }
        Ok(Table { present, sound: self.report.num_problems() == problems })
    }

    fn take_block(&mut self, segment: &Placed, blocks: &mut PageSet, block: u64) {
        if !blocks.insert(block) {
            let file = table_file(&segment.meta.name);
            self.report.add(&file, None, Some(block), "two pointers lead to this block");
        }
    }

    /// The leaves under an inner block.
    fn leaves_of(&mut self, segment: &Placed, inner: u64) -> Vec<Covering> {
        let first = inner * INNER_ENTRIES as u64;
        let leaves: Vec<u64> = (first..segment.meta.num_leaves()).take(INNER_ENTRIES).collect();
        match self.pages.locate_leaves(segment, &leaves) {
            Ok(located) => {
                let firsts = leaves.iter().map(|leaf| segment.leaf_spec(*leaf).first_logical);
                firsts.zip(located).filter(|(_, at)| *at != Located::NOWHERE).collect()
            }
            Err(error) => {
                self.report.add_error(&table_file(&segment.meta.name), &error);
                Vec::new()
            }
        }
    }

    /// Reads blocks together, and one by one if there is something wrong, so that all of it is
    /// reported.
    fn table_blocks(
        &mut self,
        segment: &Placed,
        blocks: &[Covering],
        decode: &Decode<'_>,
    ) -> Vec<TableContent> {
        if let Ok(found) = self.try_blocks(segment, blocks, decode) {
            return found;
        }
        let mut found = Vec::new();
        for block in blocks {
            match self.try_blocks(segment, std::slice::from_ref(block), decode) {
                Ok(content) => found.extend(content),
                Err(error) => self.report.add_error(&table_file(&segment.meta.name), &error),
            }
        }
        found
    }

    fn try_blocks(
        &self,
        segment: &Placed,
        blocks: &[Covering],
        decode: &Decode<'_>,
    ) -> Result<Vec<TableContent>, ReadError> {
        let mut found = Vec::new();
        let located: Vec<Located> = blocks.iter().map(|(_, located)| *located).collect();
        let mut look = |index: usize, bytes: &[u8]| {
            let first = blocks.get(index).map_or(0, |(first, _)| *first);
            let content = decode(first, bytes).map_err(|damage| ReadError::Damaged {
                file: table_file(&segment.meta.name),
                page: first,
                what: damage.to_string(),
            })?;
            found.push(content);
            Ok(())
        };
        self.pages.table_blocks(segment, &located, &mut look)?;
        Ok(found)
    }
}
