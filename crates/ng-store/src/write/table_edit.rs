//! What a checkpoint makes of the page table of one segment.
//!
//! Copy on write from the changed entries up: no block of the old table is touched, so the old root
//! stays whole until the new one is durable. Nothing is written here; the blocks are handed back.

use std::ops::Range;

use ng_types::checksum;

use crate::error::{Damage, ReadError};
use crate::page::{
    Entries, FAN_CHILDREN, INNER_ENTRIES, Leaf, Located, Pages, Placed, empty_entries, encode_fan,
    encode_inner, encode_leaf, pages_per_child, pages_per_leaf, set_entry,
};
use crate::write::space::Space;

/// Where logical pages go.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Logical page, and its new physical page or `None` if it is dead; ascending.
    pub pages: Vec<(u64, Option<u64>)>,
    /// Checksums of the blocks of each page, 0 for dead ones.
    pub crcs: Vec<[u8; 4]>,
}

/// The blocks of the new table that differ from the old.
#[derive(Debug, Default)]
pub(crate) struct NewTable {
    /// The inner blocks, for the catalog.
    pub table: Vec<Located>,
    /// To be written: number and bytes.
    pub blocks: Vec<(u64, Vec<u8>)>,
    /// Blocks that only the old table reaches.
    pub retired: Vec<u64>,
}

impl NewTable {
    /// The blocks that it takes.
    pub fn block_runs(&self) -> Vec<Range<u64>> {
        self.blocks.iter().map(|(block, _)| *block..block + 1).collect()
    }
}

/// Works out a new table.
pub(crate) struct TableEdit<'a> {
    pub pages: &'a Pages,
    /// The old table.
    pub placed: &'a Placed,
    /// Logical pages of the new one.
    pub num_pages: u64,
    pub checkpoint_id: u32,
    /// Blocks of the table's file.
    pub space: &'a mut Space,
    pub out: NewTable,
}

impl TableEdit<'_> {
    /// Applies `moves`; after an error no block is taken.
    pub fn apply(mut self, moves: &Moves) -> Result<NewTable, ReadError> {
        match self.work_out(moves) {
            Ok(()) => Ok(self.out),
            Err(error) => {
                self.space.give_back(&self.out.block_runs());
                Err(error)
            }
        }
    }

    fn work_out(&mut self, moves: &Moves) -> Result<(), ReadError> {
        let per_leaf = pages_per_leaf(self.placed.meta.page_bytes);
        let width = self.placed.blocks_per_page() as usize;
        let mut changed: Vec<(u64, Located)> = Vec::new();
        let mut at = 0;
        assert_eq!(moves.crcs.len(), moves.pages.len() * width, "each block has a checksum");
        for group in moves.pages.chunk_by(|a, b| a.0 / per_leaf == b.0 / per_leaf) {
            let leaf = group[0].0 / per_leaf;
            let crcs = &moves.crcs[at * width..(at + group.len()) * width];
            changed.push((leaf, self.leaf(leaf, group, crcs)?));
            at += group.len();
        }
        self.inners(&changed)
    }

    fn old_leaf(&self, leaf: u64) -> Result<Located, ReadError> {
        if leaf >= self.placed.meta.num_leaves() {
            return Ok(Located::NOWHERE);
        }
        let found = self.pages.locate_leaves(self.placed, &[leaf])?;
        Ok(found.first().copied().unwrap_or(Located::NOWHERE))
    }

    fn add(&mut self, bytes: Vec<u8>) -> Located {
        let block = self.space.take(1)[0].start;
        let crc = checksum::of(&bytes);
        self.out.blocks.push((block, bytes));
        Located { block, crc }
    }

    /// The new leaf of a group of changed pages.
    fn leaf(
        &mut self,
        leaf: u64,
        group: &[(u64, Option<u64>)],
        crcs: &[[u8; 4]],
    ) -> Result<Located, ReadError> {
        let (id, page_bytes) = (self.placed.id, self.placed.meta.page_bytes);
        let first = leaf * pages_per_leaf(page_bytes);
        let old = self.old_leaf(leaf)?;
        if old != Located::NOWHERE {
            self.out.retired.push(old.block);
        } else if let Some(physical) = as_run(first, group) {
            let (count, checkpoint_id) = (group.len() as u32, self.checkpoint_id);
            let crcs = crcs.as_flattened();
            return Ok(self.add(encode_leaf(id, (first, physical), count, checkpoint_id, crcs)));
        }
        let mut children = self.open_leaf(leaf, old)?;
        let width = self.placed.blocks_per_page();
        let per_child = pages_per_child(page_bytes);
        for ((page, physical), crcs) in group.iter().zip(crcs.chunks_exact(width as usize)) {
            let child = (page - first) / per_child;
            let child_place = &mut children[child as usize];
            if let Child::Old(located) = *child_place {
                let first = first + child * per_child;
                *child_place = Child::New(self.open_child(located, first)?);
            }
            if let Child::New(bytes) = child_place {
                let entry = physical.map(|physical| (physical, self.checkpoint_id, crcs));
                set_entry(bytes, (page - first) % per_child, width, entry);
            }
        }
        let mut places = [Located::NOWHERE; FAN_CHILDREN as usize];
        for (child, place) in children.into_iter().zip(&mut places) {
            *place = match child {
                Child::Old(located) => located,
                Child::New(bytes) if self.is_empty(&bytes) => Located::NOWHERE,
                Child::New(bytes) => self.add(bytes),
            };
        }
        if places.iter().all(|place| *place == Located::NOWHERE) {
            return Ok(Located::NOWHERE);
        }
        Ok(self.add(encode_fan(id, first, &places)))
    }

    /// The children of a leaf, those of a run made from it.
    fn open_leaf(&self, leaf: u64, old: Located) -> Result<Vec<Child>, ReadError> {
        let nowhere = || Child::Old(Located::NOWHERE);
        let mut children: Vec<Child> = (0..FAN_CHILDREN).map(|_| nowhere()).collect();
        if old == Located::NOWHERE {
            return Ok(children);
        }
        let spec = self.placed.leaf_spec(leaf);
        let (width, page_bytes) = (self.placed.blocks_per_page(), self.placed.meta.page_bytes);
        let per_child = pages_per_child(page_bytes);
        let mut look = |_: usize, bytes: &[u8]| {
            let wrong = |damage: Damage| self.placed.damaged(spec.first_logical, &damage);
            match Leaf::decode(bytes, &spec).map_err(wrong)? {
                Leaf::Fan(fan) => {
                    for (number, child) in (0..).zip(&mut children) {
                        *child = Child::Old(fan.child(number).unwrap_or(Located::NOWHERE));
                    }
                }
                Leaf::Run(run) => {
                    let (physical, crcs) = run.pages(width);
                    for ((place, physical), crcs) in (0..).zip(physical..).zip(crcs) {
                        let number: u64 = place / per_child;
                        let Some(child) = children.get_mut(number as usize) else { continue };
                        if let Child::Old(_) = child {
                            let first = spec.first_logical + number * per_child;
                            *child = Child::New(empty_entries(spec.segment, first, page_bytes));
                        }
                        if let Child::New(bytes) = child {
                            // It was not written now, and backups go by that.
                            let entry = Some((physical, run.checkpoint_id(), crcs));
                            set_entry(bytes, place % per_child, width, entry);
                        }
                    }
                }
            }
            Ok(())
        };
        self.pages.table_blocks(self.placed, &[old], &mut look)?;
        Ok(children)
    }

    fn open_child(&mut self, old: Located, first: u64) -> Result<Vec<u8>, ReadError> {
        if old == Located::NOWHERE {
            return Ok(empty_entries(self.placed.id, first, self.placed.meta.page_bytes));
        }
        self.out.retired.push(old.block);
        let mut copy = Vec::new();
        let mut look = |_: usize, bytes: &[u8]| {
            let wrong = |damage: Damage| self.placed.damaged(first, &damage);
            Entries::decode(bytes, &self.placed.leaf_spec_of(first), first).map_err(wrong)?;
            copy = bytes.to_vec();
            Ok(())
        };
        self.pages.table_blocks(self.placed, &[old], &mut look)?;
        Ok(copy)
    }

    fn is_empty(&self, bytes: &[u8]) -> bool {
        let empty = empty_entries(0, 0, self.placed.meta.page_bytes);
        // Headers differ, entries do not.
        bytes.get(32..) == empty.get(32..)
    }

    /// New inner blocks over the changed leaves, and over leaves that came into being.
    fn inners(&mut self, changed: &[(u64, Located)]) -> Result<(), ReadError> {
        let per_inner = INNER_ENTRIES as u64;
        let old_leaves = self.placed.meta.num_leaves();
        let new_leaves = self.num_pages.div_ceil(pages_per_leaf(self.placed.meta.page_bytes));
        let count = |leaves: u64, inner: u64| {
            leaves.saturating_sub(inner * per_inner).min(per_inner) as usize
        };
        let mut rest = changed;
        for inner in 0..new_leaves.div_ceil(per_inner) {
            let here = rest.partition_point(|(leaf, _)| leaf / per_inner == inner);
            let (here, later) = rest.split_at(here);
            rest = later;
            let old = self.placed.meta.table.get(inner as usize).copied();
            let grown = count(new_leaves, inner) != count(old_leaves, inner);
            if let Some(old) = old.filter(|_| here.is_empty() && !grown) {
                self.out.table.push(old);
                continue;
            }
            let mut entries = vec![Located::NOWHERE; count(new_leaves, inner)];
            if let Some(old) = old {
                let leaves: Vec<u64> =
                    (inner * per_inner..).take(count(old_leaves, inner)).collect();
                let located = self.pages.locate_leaves(self.placed, &leaves)?;
                entries.iter_mut().zip(located).for_each(|(entry, old)| *entry = old);
                self.out.retired.push(old.block);
            }
            for (leaf, located) in here {
                if let Some(entry) = entries.get_mut((leaf % per_inner) as usize) {
                    *entry = *located;
                }
            }
            let added = self.add(encode_inner(self.placed.id, inner as u32, &entries));
            self.out.table.push(added);
        }
        Ok(())
    }
}

/// A block of entries: as it is on disk, or as it will be.
enum Child {
    Old(Located),
    New(Vec<u8>),
}

/// The first physical page, if the group is a run that starts its leaf.
fn as_run(first: u64, group: &[(u64, Option<u64>)]) -> Option<u64> {
    let physical = group.first()?.1?;
    let is_run = (first..).zip(physical..).zip(group);
    let mut is_run = is_run.map(|((page, place), found)| *found == (page, Some(place)));
    is_run.all(|same| same).then_some(physical)
}
