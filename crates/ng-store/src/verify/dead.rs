//! Deleted nodes: as many as the catalog says, and no list knows any of them.

use std::collections::HashMap;

use ng_types::{MemoryUser, NodeTypeId};

use crate::catalog::{BitmapMeta, TreeRoot};
use crate::error::{Damage, ReadError};
use crate::io::BLOCK_BYTES;
use crate::page::{Pages, Segment};
use crate::topology::GMAP_NODES;
use crate::tree::lookup::lookup;
use crate::tree::{TreeCursor, TreeKind, Unclaimed, claim, read_page};
use crate::verify::Run;
use crate::version::base::Version;

impl<'r> Run<'r> {
    /// Checks the bitmap of deleted nodes of a type.
    pub(super) fn check_dead(&mut self, id: NodeTypeId) -> Result<(), ReadError> {
        let version: &'r Version = self.version;
        let owner = version.node_type(id)?;
        let Some(BitmapMeta { segment, root }) = owner.dead else {
            return Ok(());
        };
        let segment = version.segment(segment)?;
        let table = self.check_present(segment)?;
        let unclaimed = Unclaimed::new(table.present);
        let pages = self.pages;
        let mut cursor = TreeCursor::new(pages, segment, TreeKind::Gmap, root).claiming(&unclaimed);
        let mut count = 0;
        while let Some(record) = cursor.next()? {
            claim(&unclaimed, segment, record.page)?;
            let bits = read_page(pages, segment, record.page)?;
            let here: u64 = bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
            let last = bits.iter().rposition(|byte| *byte != 0).unwrap_or(0);
            let bit = bits.get(last).map_or(0, |byte| u64::from(byte.leading_zeros() ^ 7));
            let node = record.key.saturating_mul(GMAP_NODES).saturating_add(last as u64 * 8 + bit);
            if here == 0 || node >= owner.num_nodes {
                let what = "deleted nodes: a bitmap is empty, or has nodes that never existed";
                return Err(segment.damaged(record.page, &Damage::new(what)));
            }
            count += here;
        }
        let expected = owner.num_nodes - owner.num_nodes_live;
        let unused = table.sound && unclaimed.borrow().len() > 0;
        if count != expected || unused {
            let rest = if unused { " and pages without an owner" } else { "" };
            let what =
                format!("found {count} deleted nodes{rest}, and the catalog says {expected}");
            return Err(segment.damaged(0, &Damage::new(what)));
        }
        Ok(())
    }

    /// The deleted nodes of a type, if there are any.
    pub(super) fn dead_set(&self, id: NodeTypeId) -> Option<DeadSet<'r>> {
        let version: &'r Version = self.version;
        let owner = version.node_type(id).ok()?;
        let BitmapMeta { segment, root } = owner.dead?;
        let segment = version.segment(segment).ok()?;
        let pages_max = self.inner.budget.share(MemoryUser::VerifiedDead) as usize / BLOCK_BYTES;
        let pages_max = pages_max.max(1);
        let held = HashMap::new();
        root.map(|root| DeadSet { pages: self.pages, segment, root, held, pages_max })
    }
}

/// Looks nodes up in a bitmap; holds its share of the budget at most.
pub(super) struct DeadSet<'a> {
    pages: &'a Pages,
    segment: &'a Segment,
    root: TreeRoot,
    held: HashMap<u64, Option<Vec<u8>>>,
    pages_max: usize,
}

impl DeadSet<'_> {
    pub fn contains(&mut self, node: u64) -> Result<bool, ReadError> {
        let block = node / GMAP_NODES;
        if !self.held.contains_key(&block) {
            if self.held.len() >= self.pages_max {
                self.held.clear();
            }
            let hits = lookup(self.pages, self.segment, self.root, TreeKind::Gmap, &[block])?;
            let record = hits.first().map(|hit| hit.record).filter(|found| found.key == block);
            let bits = record.map(|found| read_page(self.pages, self.segment, found.page));
            self.held.insert(block, bits.transpose()?);
        }
        let (byte, bit) = ((node % GMAP_NODES) / 8, node % 8);
        let bits = self.held.get(&block).and_then(Option::as_ref);
        Ok(bits.and_then(|bits| bits.get(byte as usize)).is_some_and(|byte| byte >> bit & 1 == 1))
    }
}
