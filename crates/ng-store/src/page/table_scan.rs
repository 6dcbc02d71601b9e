//! Walking a whole page table: which blocks it has, and where every page is.

use crate::error::{Damage, ReadError};
use crate::page::{Entries, FAN_CHILDREN, Leaf, Located, Pages, Placed, pages_per_child};

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
    let mut first = 0;
    while first < num_leaves {
        let leaves: Vec<u64> = (first..num_leaves.min(first + TOGETHER)).collect();
        let located = pages.locate_leaves(placed, &leaves)?;
        let there = leaves.into_iter().zip(located).filter(|(_, at)| *at != Located::NOWHERE);
        let (leaves, located): (Vec<u64>, Vec<Located>) = there.unzip();
        scan_leaves(pages, placed, &leaves, &located, visit)?;
        first += TOGETHER;
    }
    Ok(())
}

fn scan_leaves(
    pages: &Pages,
    placed: &Placed,
    leaves: &[u64],
    located: &[Located],
    visit: &mut dyn FnMut(Found),
) -> Result<(), ReadError> {
    let per_page = placed.blocks_per_page();
    let mut children: Vec<(u64, Located)> = Vec::new();
    let mut look = |index: usize, bytes: &[u8]| {
        let spec = placed.leaf_spec(leaves.get(index).copied().unwrap_or(0));
        let wrong = |damage: Damage| placed.damaged(spec.first_logical, &damage);
        match Leaf::decode(bytes, &spec).map_err(wrong)? {
            Leaf::Run(run) => {
                let (physical, crcs) = run.pages(per_page);
                let pages = (spec.first_logical..).zip(physical..).zip(crcs);
                pages.for_each(|((logical, physical), _)| {
                    visit(Found::Page { logical, physical });
                });
            }
            Leaf::Fan(fan) => {
                let all = (0..FAN_CHILDREN).filter_map(|child| {
                    fan.child(child).map(|located| (fan.first_logical(child), located))
                });
                children.extend(all);
            }
        }
        Ok(())
    };
    pages.table_blocks(placed, located, &mut look)?;
    located.iter().for_each(|leaf| visit(Found::Block(leaf.block)));
    let places: Vec<Located> = children.iter().map(|(_, located)| *located).collect();
    let mut look = |index: usize, bytes: &[u8]| {
        let first = children.get(index).map_or(0, |(first, _)| *first);
        let wrong = |damage: Damage| placed.damaged(first, &damage);
        let entries = Entries::decode(bytes, &placed.leaf_spec_of(first), first).map_err(wrong)?;
        for place in 0..pages_per_child(placed.meta.page_bytes) {
            if let Some((physical, _, _)) = entries.entry(place) {
                visit(Found::Page { logical: first + place, physical });
            }
        }
        Ok(())
    };
    pages.table_blocks(placed, &places, &mut look)?;
    places.iter().for_each(|child| visit(Found::Block(child.block)));
    Ok(())
}
