//! Page tables as backups read them: front to back, in groups of leaves, from a store or a backup.
//!
//! The tables of two versions of a segment have the same groups, so they are compared as they come.

use crate::error::Damage;
use crate::io::BLOCK_BYTES;
use crate::page::{Entries, FAN_CHILDREN, INNER_ENTRIES, Leaf, Located, Placed, pages_per_child};

use super::error::BackupError;

/// An inner block has 20 groups of leaves, which keep within a megabyte.
const LEAVES_TOGETHER: usize = 17;
const _: () = assert!(LEAVES_TOGETHER * 20 == INNER_ENTRIES);

/// Where blocks of page tables come from.
pub(super) trait TableSource {
    /// Appends the blocks at `places` to `into`, each of which matches its checksum.
    fn read(
        &mut self,
        placed: &Placed,
        places: &[Located],
        into: &mut Vec<u8>,
    ) -> Result<(), BackupError>;

    /// An error about the leaf or block of entries of `page`.
    fn damaged(&self, placed: &Placed, page: u64, damage: &Damage) -> BackupError;
}

/// A page that has a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageAt {
    pub logical: u64,
    pub physical: u64,
    /// In which it was written there.
    pub checkpoint_id: u32,
}

/// Some leaves of a table with all below them.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Blocks of the table in the order of `docs/reference/backup.md`.
    pub blocks: Vec<u8>,
    /// Which blocks of the `.map` file they are.
    pub places: Vec<u64>,
    /// Ascending by logical page.
    pub pages: Vec<PageAt>,
    /// Those of the blocks of each page.
    crcs: Vec<[u8; 4]>,
}

impl Group {
    /// The checksums of the blocks of page `index`.
    pub fn crcs(&self, index: usize) -> &[[u8; 4]] {
        let width = self.crcs.len() / self.pages.len().max(1);
        &self.crcs[index * width..(index + 1) * width]
    }

    /// Where the blocks of page `index` are, and their checksums.
    pub fn located(&self, index: usize) -> impl Iterator<Item = Located> {
        let crcs = self.crcs(index);
        let first = self.pages.get(index).map_or(0, |page| page.physical * crcs.len() as u64);
        (first..).zip(crcs).map(|(block, crc)| Located { block, crc: u32::from_le_bytes(*crc) })
    }

    fn push(&mut self, page: PageAt, crcs: &[[u8; 4]]) {
        self.pages.push(page);
        self.crcs.extend_from_slice(crcs);
    }

    /// For each page of this group whether `other`, of another version of the segment, has it in
    /// the same place, written in the same checkpoint, with the same checksums.
    pub fn is_also_in(&self, other: &Self) -> Vec<bool> {
        let mut at = 0;
        let is_same = |(index, page): (usize, &PageAt)| {
            at += other.pages[at..].partition_point(|older| older.logical < page.logical);
            other.pages.get(at).is_some_and(|found| {
                let place = (found.logical, found.physical, found.checkpoint_id);
                place == (page.logical, page.physical, page.checkpoint_id)
                    && other.crcs(at) == self.crcs(index)
            })
        };
        self.pages.iter().enumerate().map(is_same).collect()
    }
}

/// A walk over the page table of a segment.
pub(super) struct Walk<'a> {
    placed: &'a Placed,
    source: &'a mut dyn TableSource,
    next_leaf: u64,
    /// Under the inner block that is being walked.
    leaves: Vec<Located>,
}

impl<'a> Walk<'a> {
    pub fn new(placed: &'a Placed, source: &'a mut dyn TableSource) -> Self {
        Self { placed, source, next_leaf: 0, leaves: Vec::new() }
    }

    /// The next group; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Group>, BackupError> {
        if self.next_leaf >= self.placed.meta.num_leaves() {
            return Ok(None);
        }
        let mut group = Group::default();
        let from = (self.next_leaf % INNER_ENTRIES as u64) as usize;
        if from == 0 {
            self.enter_inner(&mut group)?;
        }
        let to = self.leaves.len().min(from + LEAVES_TOGETHER);
        let numbers = self.next_leaf..;
        let leaves = numbers.zip(&self.leaves[from..to]).filter(|(_, at)| **at != Located::NOWHERE);
        let (numbers, places): (Vec<u64>, Vec<Located>) = leaves.map(|(n, at)| (n, *at)).unzip();
        self.next_leaf += (to - from) as u64;
        self.read_leaves(&mut group, &numbers, &places)?;
        Ok(Some(group))
    }

    fn enter_inner(&mut self, group: &mut Group) -> Result<(), BackupError> {
        let placed = self.placed;
        let index = self.next_leaf / INNER_ENTRIES as u64;
        let count = (placed.meta.num_leaves() - self.next_leaf).min(INNER_ENTRIES as u64) as usize;
        let first = placed.leaf_spec(self.next_leaf).first_logical;
        let missing = || Damage::new("the catalog lacks a page table block");
        let place = placed.meta.table.get(index as usize).ok_or_else(missing);
        let place = place.map_err(|damage| self.source.damaged(placed, first, &damage))?;
        let block = read(self.source, placed, &[*place], group)?;
        let inner = placed.inner(&group.blocks[block..], index);
        let inner = inner.map_err(|damage| self.source.damaged(placed, first, &damage))?;
        self.leaves = (0..count).filter_map(|leaf| inner.leaf(leaf)).collect();
        Ok(())
    }

    /// Leaves, then the blocks of entries below those that are fans.
    fn read_leaves(
        &mut self,
        group: &mut Group,
        numbers: &[u64],
        places: &[Located],
    ) -> Result<(), BackupError> {
        let placed = self.placed;
        let start = read(self.source, placed, places, group)?;
        let blocks = group.blocks[start..].to_vec();
        // Of each leaf, what comes of it: pages at once, or children that are read together.
        let (mut children, mut runs) = (Vec::new(), Vec::new());
        for (number, bytes) in numbers.iter().zip(blocks.chunks_exact(BLOCK_BYTES)) {
            let spec = placed.leaf_spec(*number);
            let leaf = Leaf::decode(bytes, &spec)
                .map_err(|damage| self.source.damaged(placed, spec.first_logical, &damage))?;
            match leaf {
                Leaf::Run(run) => runs.push((spec.first_logical, children.len(), run)),
                Leaf::Fan(fan) => children.extend(
                    (0..FAN_CHILDREN)
                        .filter_map(|child| Some((fan.first_logical(child), fan.child(child)?))),
                ),
            }
        }
        let below: Vec<Located> = children.iter().map(|(_, at)| *at).collect();
        let start = read(self.source, placed, &below, group)?;
        let blocks = group.blocks[start..].to_vec();
        let mut runs = runs.into_iter().peekable();
        let width = placed.blocks_per_page();
        for index in 0..=children.len() {
            while let Some((first, _, run)) = runs.next_if(|(_, before, _)| *before == index) {
                let (physical, crcs) = run.pages(width);
                let checkpoint_id = run.checkpoint_id();
                for ((logical, physical), crcs) in (first..).zip(physical..).zip(crcs) {
                    group.push(PageAt { logical, physical, checkpoint_id }, crcs);
                }
            }
            let Some((first, _)) = children.get(index) else { break };
            let bytes = &blocks[index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES];
            let entries = Entries::decode(bytes, &placed.leaf_spec_of(*first), *first)
                .map_err(|damage| self.source.damaged(placed, *first, &damage))?;
            for place in 0..pages_per_child(placed.meta.page_bytes) {
                if let Some((physical, checkpoint_id, crcs)) = entries.entry(place) {
                    group.push(PageAt { logical: first + place, physical, checkpoint_id }, crcs);
                }
            }
        }
        Ok(())
    }
}

/// Appends blocks of the table to the group; where they begin in its bytes.
fn read(
    source: &mut dyn TableSource,
    placed: &Placed,
    places: &[Located],
    group: &mut Group,
) -> Result<usize, BackupError> {
    let start = group.blocks.len();
    source.read(placed, places, &mut group.blocks)?;
    group.places.extend(places.iter().map(|at| at.block));
    Ok(start)
}
