//! Bitmaps of nodes that can change: a directory of blocks of nodes, and a page of bits for each.
//!
//! Used for the gmap and for sets of node ids alike; what a bit means is not known here. The
//! invariant: a page has a bit set, or it does not exist, so the directory has no idle record.

use crate::bytes::is_zero;
use crate::catalog::TreeRoot;
use crate::error::{BuildError, ReadError};
use crate::io::BLOCK_BYTES;
use crate::page::{Edit, SegmentWriter};
use crate::topology::GMAP_NODES;
use crate::tree::{Record, Tree, TreeKind, TreeWriter};

/// A set of nodes; whoever changes it keeps the new root of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    /// Block of nodes -> page of bits.
    pub directory: Tree,
}

/// Byte and bit of a node in its page.
fn place(node: u64) -> (usize, u8) {
    let bit = (node % GMAP_NODES) as usize;
    (bit / 8, 1 << (bit % 8))
}

impl Bitmap {
    /// The set with this directory, in pages of `segment`.
    pub fn new(segment: u32, root: Option<TreeRoot>) -> Self {
        Self { directory: Tree { segment, kind: TreeKind::Gmap, root } }
    }

    /// Whether `node` is in the set.
    pub fn get(&self, edit: &mut Edit, node: u64) -> Result<bool, ReadError> {
        let Some(record) = self.directory.find(edit, node / GMAP_NODES)? else {
            return Ok(false);
        };
        let (byte, bit) = place(node);
        let bytes = edit.look(self.directory.segment, record.page)?;
        Ok(bytes.get(byte).is_some_and(|bits| bits & bit != 0))
    }

    /// The first of `nodes` that is in the set. A page is looked up once for neighbours in it.
    pub fn first_of(&self, edit: &mut Edit, nodes: &[u64]) -> Result<Option<u64>, ReadError> {
        for near in nodes.chunk_by(|a, b| a / GMAP_NODES == b / GMAP_NODES) {
            let key = near.first().map_or(0, |node| node / GMAP_NODES);
            let Some(record) = self.directory.find(edit, key)? else { continue };
            let bytes = edit.look(self.directory.segment, record.page)?;
            let is_set = |node: &&u64| {
                let (byte, bit) = place(**node);
                bytes.get(byte).is_some_and(|bits| bits & bit != 0)
            };
            if let Some(node) = near.iter().find(is_set) {
                return Ok(Some(*node));
            }
        }
        Ok(None)
    }

    /// Puts `node` into the set.
    pub fn set(&mut self, edit: &mut Edit, node: u64) -> Result<(), ReadError> {
        let (key, segment) = (node / GMAP_NODES, self.directory.segment);
        let page = match self.directory.find(edit, key)? {
            Some(record) => record.page,
            None => {
                let page = edit.create(segment, vec![0; BLOCK_BYTES])?;
                self.directory.insert(edit, Record { key, page, extra: 0 })?;
                page
            }
        };
        let (byte, bit) = place(node);
        if let Some(bits) = edit.write(segment, page)?.get_mut(byte) {
            *bits |= bit;
        }
        Ok(())
    }

    /// Takes `node` out of the set.
    pub fn clear(&mut self, edit: &mut Edit, node: u64) -> Result<(), ReadError> {
        let (key, segment) = (node / GMAP_NODES, self.directory.segment);
        let Some(record) = self.directory.find(edit, key)? else {
            return Ok(());
        };
        let (byte, bit) = place(node);
        let bytes = edit.write(segment, record.page)?;
        if let Some(bits) = bytes.get_mut(byte) {
            *bits &= !bit;
        }
        if is_zero(bytes) {
            edit.remove(segment, record.page);
            self.directory.remove(edit, key)?;
        }
        Ok(())
    }

    /// The smallest node of the set that `is_wanted`. A page is looked up once for all its nodes.
    pub fn find(
        &self,
        edit: &mut Edit,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<u64>, ReadError> {
        let mut from = Some(0);
        while let Some(record) = from.map(|key| self.directory.lower_bound(edit, key)) {
            let Some(record) = record? else { break };
            let held = edit.read(self.directory.segment, record.page)?;
            let start = record.key.saturating_mul(GMAP_NODES);
            let mut nodes = set_bits(held.bytes()).map(|bit| start.saturating_add(bit));
            if let Some(node) = nodes.find(|node| is_wanted(*node)) {
                return Ok(Some(node));
            }
            from = record.key.checked_add(1);
        }
        Ok(None)
    }
}

/// Writes a set of ascending nodes into fresh pages.
pub(crate) struct BitmapWriter {
    directory: TreeWriter,
    block: Option<u64>,
    bits: Vec<u8>,
}

impl BitmapWriter {
    pub fn new() -> Self {
        let directory = TreeWriter::new(TreeKind::Gmap);
        Self { directory, block: None, bits: vec![0; BLOCK_BYTES] }
    }

    pub fn push(&mut self, pages: &mut SegmentWriter, node: u64) -> Result<(), BuildError> {
        let block = node / GMAP_NODES;
        if self.block != Some(block) {
            self.close(pages)?;
            self.block = Some(block);
        }
        let (byte, bit) = place(node);
        self.bits[byte] |= bit;
        Ok(())
    }

    /// Writes the page that is being filled.
    pub fn close(&mut self, pages: &mut SegmentWriter) -> Result<(), BuildError> {
        let Some(key) = self.block.take() else {
            return Ok(());
        };
        let page = pages.push_page(&self.bits)?;
        self.bits.fill(0);
        self.directory.push(pages, Record { key, page, extra: 0 })
    }

    pub fn finish(mut self, pages: &mut SegmentWriter) -> Result<Option<TreeRoot>, BuildError> {
        self.close(pages)?;
        self.directory.finish(pages)
    }
}

/// The numbers of the bits that are set, ascending.
pub(crate) fn set_bits(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let some = (0..).zip(bytes).filter(|(_, byte)| **byte != 0);
    some.flat_map(|(at, byte)| {
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at * 8 + bit)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ng_testing::Random;

    use super::*;
    use crate::catalog::Catalog;
    use crate::tree::edit::tests::{check_tree, live_pages, segment};

    #[test]
    fn a_bitmap_is_a_sorted_set_and_keeps_no_empty_page() {
        for (seed, bound) in [(11, 90), (12, 300_000), (13, 1 << 40)] {
            println!("seed {seed}");
            let mut random = Random::new(seed);
            let catalog = Catalog {
                fill: 0.9,
                reuse_ids: false,
                log: None,
                keys: None,
                page_bytes: 4096,
                node_types: Vec::new(),
                edge_types: Vec::new(),
                segments: vec![segment("bits", 4096)],
            };
            let mut edit = Edit::detached(catalog);
            let (mut bitmap, mut model) = (Bitmap::new(0, None), BTreeSet::new());
            for step in 0..9_000_u64 {
                let node = random.below(bound);
                let drains = step >= 6_000;
                if random.below(100) < if drains { 5 } else { 70 } {
                    bitmap.set(&mut edit, node).expect("sets");
                    model.insert(node);
                } else {
                    let chosen = model.range(node..).next().copied().unwrap_or(node);
                    bitmap.clear(&mut edit, chosen).expect("clears");
                    model.remove(&chosen);
                }
                let probe = random.below(bound);
                let expected = model.range(probe..).next().copied();
                if step % 20 == 0 {
                    let found = bitmap.find(&mut edit, |node| node >= probe);
                    assert_eq!(found.expect("reads"), expected);
                }
                assert_eq!(bitmap.get(&mut edit, node).expect("reads"), model.contains(&node));
                let some = [probe, probe.saturating_sub(1), node, bound / 2];
                let first = some.into_iter().find(|node| model.contains(node));
                assert_eq!(bitmap.first_of(&mut edit, &some).expect("reads"), first);
                if step % 1_000 == 0 {
                    let blocks: BTreeSet<u64> = model.iter().map(|n| n / GMAP_NODES).collect();
                    let (records, num_pages) = check_tree(&mut edit, bitmap.directory);
                    assert!(records.iter().map(|r| r.key).eq(blocks.iter().copied()));
                    assert_eq!(live_pages(&mut edit, 0), num_pages + blocks.len() as u64);
                }
            }
            for node in model {
                bitmap.clear(&mut edit, node).expect("clears");
            }
            assert_eq!((bitmap.directory.root, live_pages(&mut edit, 0)), (None, 0));
        }
    }
}
