//! Walking a whole page table: which blocks it has, and where every page is.

use crate::error::{Damage, ReadError};
use crate::page::{
    Entries, FAN_CHILDREN, Leaf, Located, Pages, Placed, pages_per_child, pages_per_leaf,
};

/// Leaves that are looked at together.
const TOGETHER: u64 = 256;

/// What a page table is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A block of the table's own file.
    Block(u64),
    /// A page.
    Page { logical: u64, physical: u64 },
}

/// Tells `visit` of every block and page of the table.
pub(crate) fn scan_table(
    pages: &Pages,
    placed: &Placed,
    visit: &mut dyn FnMut(Found),
) -> Result<(), ReadError> {
    placed.meta.table.iter().for_each(|inner| visit(Found::Block(inner.block)));
    let num_leaves = placed.meta.num_leaves();
    for first in (0..num_leaves).step_by(TOGETHER as usize) {
        let leaves: Vec<u64> = (first..num_leaves.min(first + TOGETHER)).collect();
        let located = pages.locate_leaves(placed, &leaves)?;
        let firsts = leaves.iter().map(|leaf| placed.leaf_spec(*leaf).first_logical);
        let there = firsts.zip(located).filter(|(_, at)| *at != Located::NOWHERE);
        let children = scan_blocks(pages, placed, &there.collect::<Vec<_>>(), decode_leaf, visit)?;
        scan_blocks(pages, placed, &children, decode_child, visit)?;
    }
    Ok(())
}

/// Tells `visit` of blocks and of their pages; gives their children.
fn scan_blocks(
    pages: &Pages,
    placed: &Placed,
    blocks: &[(u64, Located)],
    decode: fn(&Placed, u64, &[u8]) -> Result<TableContent, Damage>,
    visit: &mut dyn FnMut(Found),
) -> Result<Vec<(u64, Located)>, ReadError> {
    let located: Vec<Located> = blocks.iter().map(|(_, located)| *located).collect();
    let mut children = Vec::new();
    let mut look = |index: usize, bytes: &[u8]| {
        let (first, _) = blocks[index];
        let wrong = |damage: Damage| placed.damaged(first, &damage);
        let content = decode(placed, first, bytes).map_err(wrong)?;
        let pages = content.pages.into_iter();
        pages.for_each(|(logical, physical)| visit(Found::Page { logical, physical }));
        children.extend(content.children);
        Ok(())
    };
    pages.table_blocks(placed, &located, &mut look)?;
    located.iter().for_each(|at| visit(Found::Block(at.block)));
    Ok(children)
}

/// What a leaf or a child of one holds.
#[derive(Default)]
pub(crate) struct TableContent {
    /// Pages and their places.
    pub pages: Vec<(u64, u64)>,
    /// First pages of children, and their blocks.
    pub children: Vec<(u64, Located)>,
}

pub(crate) fn decode_leaf(
    segment: &Placed,
    first: u64,
    bytes: &[u8],
) -> Result<TableContent, Damage> {
    let mut content = TableContent::default();
    let per_leaf = pages_per_leaf(segment.meta.page_bytes);
    match Leaf::decode(bytes, &segment.leaf_spec(first / per_leaf))? {
        Leaf::Run(run) => {
            let (physical, crcs) = run.pages(segment.blocks_per_page());
            content.pages.extend((first..).zip(physical..).zip(crcs).map(|(pair, _)| pair));
        }
        Leaf::Fan(fan) => {
            let children = (0..FAN_CHILDREN)
                .filter_map(|child| Some((fan.first_logical(child), fan.child(child)?)));
            content.children.extend(children);
        }
    }
    Ok(content)
}

pub(crate) fn decode_child(
    segment: &Placed,
    first: u64,
    bytes: &[u8],
) -> Result<TableContent, Damage> {
    let entries = Entries::decode(bytes, &segment.leaf_spec_of(first), first)?;
    let mut content = TableContent::default();
    for place in 0..pages_per_child(segment.meta.page_bytes) {
        if let Some((physical, _, _)) = entries.entry(place) {
            content.pages.push((first + place, physical));
        }
    }
    Ok(content)
}
