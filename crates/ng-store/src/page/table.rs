//! The page table: which physical page holds a logical page, and the checksum of each 4 KiB block.
//!
//! Blocks of a `.map` file are leaves or inner blocks; a checksum always stands with the pointer:
//! data checksums in leaves, leaf checksums in inner blocks, inner checksums in the catalog. Every
//! leaf covers the same number of pages, so a page's leaf is found by division. A leaf is a run
//! while its pages are consecutive; once one has moved it is a fan of four blocks of entries.

use crate::bytes::{ensure, is_zero, le_u16, le_u32, le_u64, put};
use crate::error::Damage;
use crate::io::BLOCK_BYTES;
use crate::page::Located;

/// Block checksums in a leaf.
pub(crate) const LEAF_CRCS: usize = (BLOCK_BYTES - LEAF_HEADER_BYTES) / 4;
/// Leaves under an inner block.
pub(crate) const INNER_ENTRIES: usize = (BLOCK_BYTES - INNER_HEADER_BYTES) / INNER_ENTRY_BYTES;

const LEAF_HEADER_BYTES: usize = 32;
const INNER_HEADER_BYTES: usize = 16;
const INNER_ENTRY_BYTES: usize = 12;
const MAGIC: u16 = 0x5450;
const KIND_RUN: u8 = 0;
const KIND_ENTRIES: u8 = 1;
const KIND_INNER: u8 = 2;
const KIND_FAN: u8 = 3;
/// A pointer to nothing.
const NONE: u64 = u64::MAX;
/// Blocks of entries under a fan.
pub(crate) const FAN_CHILDREN: u64 = 4;

/// Pages that a full leaf covers.
pub(crate) fn pages_per_leaf(page_bytes: u32) -> u64 {
    (LEAF_CRCS / (page_bytes as usize / BLOCK_BYTES).clamp(1, LEAF_CRCS)) as u64
}

/// What the reader knows about a leaf before it reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafSpec {
    pub segment: u32,
    pub first_logical: u64,
    pub num_pages: u64,
    pub blocks_per_page: u64,
    /// Pages that the data file holds.
    pub physical_pages: u64,
    /// Blocks that the table's file holds.
    pub map_blocks: u64,
}

/// A typed leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaf<'a> {
    /// Pages where the first one is, one after the other.
    Run(Run<'a>),
    /// Blocks with an entry for each page.
    Fan(Fan<'a>),
}

impl<'a> Leaf<'a> {
    /// Types a leaf block.
    pub fn decode(bytes: &'a [u8], spec: &LeafSpec) -> Result<Self, Damage> {
        ensure(bytes.len() == BLOCK_BYTES, || "page table leaf: the block is too short".into())?;
        ensure(le_u16(bytes, 0) == MAGIC, || "page table leaf: wrong magic".into())?;
        ensure(le_u32(bytes, 4) == spec.segment, || {
            "page table leaf: it belongs to another \
                                                     segment"
                .into()
        })?;
        let first_logical = le_u64(bytes, 8);
        ensure(first_logical == spec.first_logical, || {
            format!(
                "page table leaf: it starts at page {first_logical}, expected {}",
                spec.first_logical
            )
        })?;
        match bytes.get(2..4) {
            Some([KIND_RUN, 0]) => Run::decode(bytes, spec).map(Self::Run),
            Some([KIND_FAN, 0]) => Fan::decode(bytes, spec).map(Self::Fan),
            kind => {
                Err(Damage::new(format!("page table leaf: {kind:?} is not a valid kind of leaf")))
            }
        }
    }
}

/// A run of logical pages that are physically consecutive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    first_block: u64,
    first_physical_block: u64,
    checkpoint_id: u32,
    crcs: &'a [[u8; 4]],
}

impl<'a> Run<'a> {
    fn decode(bytes: &'a [u8], spec: &LeafSpec) -> Result<Self, Damage> {
        let num_pages = u64::from(le_u32(bytes, 28));
        ensure(0 < num_pages && num_pages <= spec.num_pages, || {
            format!("page table leaf: it has {num_pages} pages, expected {}", spec.num_pages)
        })?;
        let first_physical = le_u64(bytes, 16);
        let end = first_physical.checked_add(num_pages);
        ensure(end.is_some_and(|end| end <= spec.physical_pages), || {
            format!("page table leaf: physical page {first_physical} is past the end of the file")
        })?;
        let count = (num_pages * spec.blocks_per_page) as usize;
        let all = bytes[LEAF_HEADER_BYTES..].as_chunks::<4>().0;
        let (crcs, rest) = all
            .split_at_checked(count)
            .ok_or_else(|| Damage::new("page table leaf: more blocks than fit"))?;
        ensure(is_zero(rest.as_flattened()), || "page table leaf: padding is not 0".into())?;
        let first_block = spec.first_logical * spec.blocks_per_page;
        let first_physical_block = first_physical * spec.blocks_per_page;
        Ok(Self { first_block, first_physical_block, checkpoint_id: le_u32(bytes, 24), crcs })
    }

    /// The checkpoint in which all of its pages were written.
    pub fn checkpoint_id(&self) -> u32 {
        self.checkpoint_id
    }

    /// The first physical page and the checksums of each page.
    pub fn pages(&self, blocks_per_page: u64) -> (u64, impl Iterator<Item = &'a [[u8; 4]]>) {
        let first = self.first_physical_block / blocks_per_page;
        (first, self.crcs.chunks_exact(blocks_per_page as usize))
    }

    /// Where a logical block is.
    #[inline]
    pub fn block(&self, block: u64) -> Located {
        let index = block.wrapping_sub(self.first_block);
        let crc = usize::try_from(index).ok().and_then(|index| self.crcs.get(index));
        crc.map_or(Located::NOWHERE, |crc| Located {
            block: self.first_physical_block + index,
            crc: u32::from_le_bytes(*crc),
        })
    }
}

/// Whether an entry leads to one of so many blocks, or nowhere, with nothing behind it.
fn is_pointer(entry: &[u8; INNER_ENTRY_BYTES], map_blocks: u64) -> bool {
    match le_u64(entry, 0) {
        NONE => le_u32(entry, 8) == 0,
        block => block < map_blocks,
    }
}

/// Pages that one block of entries covers.
pub(crate) fn pages_per_child(page_bytes: u32) -> u64 {
    pages_per_leaf(page_bytes).div_ceil(FAN_CHILDREN)
}

/// Pointers to the blocks of entries of a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fan<'a> {
    first_logical: u64,
    pages_per_child: u64,
    entries: &'a [[u8; INNER_ENTRY_BYTES]],
}

impl<'a> Fan<'a> {
    fn decode(bytes: &'a [u8], spec: &LeafSpec) -> Result<Self, Damage> {
        let all = &bytes[LEAF_HEADER_BYTES..];
        let (entries, rest) = all
            .split_at_checked(FAN_CHILDREN as usize * INNER_ENTRY_BYTES)
            .ok_or_else(|| Damage::new("page table fan: the block is too short"))?;
        let entries = entries.as_chunks::<INNER_ENTRY_BYTES>().0;
        let reserved = &bytes[16..LEAF_HEADER_BYTES];
        ensure(is_zero(rest) && is_zero(reserved), || "page table fan: padding is not 0".into())?;
        let inside = entries.iter().all(|entry| is_pointer(entry, spec.map_blocks));
        ensure(inside, || "page table fan: a block is past the end of the file".into())?;
        let page_bytes = spec.blocks_per_page as u32 * BLOCK_BYTES as u32;
        let (first_logical, pages_per_child) = (spec.first_logical, pages_per_child(page_bytes));
        Ok(Self { first_logical, pages_per_child, entries })
    }

    /// The block of a child, or `None` if it covers no page that exists.
    pub fn child(&self, child: u64) -> Option<Located> {
        let entry = self.entries.get(child as usize)?;
        let block = le_u64(entry, 0);
        (block != NONE).then(|| Located { block, crc: le_u32(entry, 8) })
    }

    /// The blocks of all children that cover pages that exist.
    pub fn children(&self) -> impl Iterator<Item = Located> {
        (0..FAN_CHILDREN).filter_map(|child| self.child(child))
    }

    /// The first page that a child covers.
    pub fn first_logical(&self, child: u64) -> u64 {
        self.first_logical + child * self.pages_per_child
    }

    /// Splits a range of ascending blocks by the child that covers them.
    pub fn split<'b>(
        &self,
        blocks: &'b [u64],
        range: std::ops::Range<usize>,
        blocks_per_page: u64,
    ) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> + 'b {
        let (first, per_child) = (self.first_logical, self.pages_per_child);
        let ends =
            (0..FAN_CHILDREN).map(move |child| (first + (child + 1) * per_child) * blocks_per_page);
        let mut at = range.start;
        ends.enumerate().filter_map(move |(child, end)| {
            let rest = &blocks[at..range.end];
            let start = at;
            at += rest.partition_point(|block| *block < end);
            (at > start).then_some((child as u64, start..at))
        })
    }
}

/// A block of entries: where each page is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    first_logical: u64,
    blocks_per_page: u64,
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Types a block of entries that starts at page `first_logical`.
    pub fn decode(bytes: &'a [u8], spec: &LeafSpec, first_logical: u64) -> Result<Self, Damage> {
        ensure(bytes.len() == BLOCK_BYTES && le_u16(bytes, 0) == MAGIC, || {
            "page table entries: wrong size or magic".into()
        })?;
        ensure(bytes.get(2..4) == Some(&[KIND_ENTRIES, 0]), || {
            "page table entries: wrong kind".into()
        })?;
        ensure(le_u32(bytes, 4) == spec.segment && le_u64(bytes, 8) == first_logical, || {
            "page table entries: they belong to other pages".into()
        })?;
        let blocks_per_page = spec.blocks_per_page;
        let page_bytes = blocks_per_page as u32 * BLOCK_BYTES as u32;
        let this = Self { first_logical, blocks_per_page, bytes: &bytes[LEAF_HEADER_BYTES..] };
        let used = (pages_per_child(page_bytes) as usize) * entry_bytes(blocks_per_page);
        let padding = &this.bytes[used..];
        let reserved = &bytes[16..LEAF_HEADER_BYTES];
        ensure(is_zero(padding) && is_zero(reserved), || {
            "page table entries: padding is not 0".into()
        })?;
        let end = spec.first_logical + spec.num_pages;
        for place in 0..pages_per_child(page_bytes) {
            let physical = this.entry(place).map(|(physical, _, _)| physical);
            ensure(physical.is_none_or(|page| page < spec.physical_pages), || {
                "page table entries: a page is past the end of the file".into()
            })?;
            ensure(physical.is_none() || first_logical + place < end, || {
                format!("page table entries: page {} is past the last page", first_logical + place)
            })?;
            ensure(physical.is_some() || this.is_empty(place), || {
                "page table entries: padding is not 0".into()
            })?;
        }
        Ok(this)
    }

    /// Whether an entry that leads nowhere has nothing behind it.
    fn is_empty(&self, place: u64) -> bool {
        let width = entry_bytes(self.blocks_per_page);
        let entry = self.bytes.chunks_exact(width).nth(place as usize);
        entry.is_some_and(|entry| is_zero(&entry[8..]))
    }

    /// Physical page, checkpoint of its writing, and checksums of page `place` of this block.
    pub fn entry(&self, place: u64) -> Option<(u64, u32, &'a [[u8; 4]])> {
        let width = entry_bytes(self.blocks_per_page);
        let at = usize::try_from(place).ok()?.checked_mul(width)?;
        let entry = self.bytes.get(at..at.checked_add(width)?)?;
        let physical = le_u64(entry, 0);
        let crcs = entry[12..].as_chunks::<4>().0;
        (physical != NONE).then(|| (physical, le_u32(entry, 8), crcs))
    }

    /// Where a logical block is.
    pub fn block(&self, block: u64) -> Located {
        let page = (block / self.blocks_per_page).wrapping_sub(self.first_logical);
        let in_page = block % self.blocks_per_page;
        let found = self.entry(page).and_then(|(physical, _, crcs)| {
            let crc = u32::from_le_bytes(*crcs.get(in_page as usize)?);
            Some(Located { block: physical * self.blocks_per_page + in_page, crc })
        });
        found.unwrap_or(Located::NOWHERE)
    }
}

/// Bytes of an entry: physical page u64, checkpoint u32, crc32c of each block.
pub(crate) fn entry_bytes(blocks_per_page: u64) -> usize {
    12 + 4 * blocks_per_page as usize
}

/// A block of some kind that says no more than its segment.
fn blank(kind: u8, segment: u32) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    put(&mut block, 0, &MAGIC.to_le_bytes());
    put(&mut block, 2, &[kind]);
    put(&mut block, 4, &segment.to_le_bytes());
    block
}

fn put_pointer(block: &mut [u8], at: usize, to: &Located) {
    put(block, at, &to.block.to_le_bytes());
    put(block, at + 8, &to.crc.to_le_bytes());
}

/// A block of entries for pages from `first_logical` on, none of which exists.
pub(crate) fn empty_entries(segment: u32, first_logical: u64, page_bytes: u32) -> Vec<u8> {
    let mut block = blank(KIND_ENTRIES, segment);
    put(&mut block, 8, &first_logical.to_le_bytes());
    let blocks_per_page = u64::from(page_bytes) / BLOCK_BYTES as u64;
    for place in 0..pages_per_child(page_bytes) {
        set_entry(&mut block, place, blocks_per_page, None);
    }
    block
}

/// Overwrites entry `place` of a block of entries.
pub(crate) fn set_entry(
    block: &mut [u8],
    place: u64,
    blocks_per_page: u64,
    entry: Option<(u64, u32, &[[u8; 4]])>,
) {
    let width = entry_bytes(blocks_per_page);
    let at = LEAF_HEADER_BYTES + place as usize * width;
    let (physical, checkpoint_id, crcs) = entry.unwrap_or((NONE, 0, &[]));
    put(block, at, &vec![0; width]);
    put(block, at, &physical.to_le_bytes());
    put(block, at + 8, &checkpoint_id.to_le_bytes());
    put(block, at + 12, crcs.as_flattened());
}

/// Encodes a fan from the blocks of its children.
pub(crate) fn encode_fan(
    segment: u32,
    first_logical: u64,
    children: &[Located; FAN_CHILDREN as usize],
) -> Vec<u8> {
    let mut block = blank(KIND_FAN, segment);
    put(&mut block, 8, &first_logical.to_le_bytes());
    for (place, child) in children.iter().enumerate() {
        let at = LEAF_HEADER_BYTES + place * INNER_ENTRY_BYTES;
        put_pointer(&mut block, at, child);
    }
    block
}

/// Encodes a leaf of kind run.
pub(crate) fn encode_leaf(
    segment: u32,
    (first_page, first_physical): (u64, u64),
    num_pages: u32,
    checkpoint_id: u32,
    crcs: &[u8],
) -> Vec<u8> {
    let mut block = blank(KIND_RUN, segment);
    put(&mut block, 8, &first_page.to_le_bytes());
    put(&mut block, 16, &first_physical.to_le_bytes());
    put(&mut block, 24, &checkpoint_id.to_le_bytes());
    put(&mut block, 28, &num_pages.to_le_bytes());
    put(&mut block, LEAF_HEADER_BYTES, crcs);
    block
}

/// An inner block: pointers to leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner<'a> {
    entries: &'a [[u8; INNER_ENTRY_BYTES]],
}

impl<'a> Inner<'a> {
    /// Types the inner block at place `index` of segment `segment`, which has `count` leaves.
    pub fn decode(
        bytes: &'a [u8],
        segment: u32,
        index: u32,
        count: usize,
        map_blocks: u64,
    ) -> Result<Self, Damage> {
        ensure(bytes.len() == BLOCK_BYTES, || "page table inner block: it is too short".into())?;
        let kind = bytes.get(2..4);
        ensure(le_u16(bytes, 0) == MAGIC && kind == Some(&[KIND_INNER, 0]), || {
            "page table inner block: wrong magic or kind".into()
        })?;
        ensure(le_u32(bytes, 4) == segment && le_u32(bytes, 8) == index, || {
            "page table inner block: it has another segment or index".into()
        })?;
        let found = le_u32(bytes, 12) as usize;
        ensure(found == count, || {
            format!("page table inner block: it has {found} leaves, expected {count}")
        })?;
        let all = &bytes[INNER_HEADER_BYTES..];
        let (entries, rest) = all
            .as_chunks::<INNER_ENTRY_BYTES>()
            .0
            .split_at_checked(count)
            .ok_or_else(|| Damage::new("page table inner block: more leaves than fit"))?;
        ensure(is_zero(rest.as_flattened()), || "page table inner block: padding is not 0".into())?;
        let inside = entries.iter().all(|entry| is_pointer(entry, map_blocks));
        ensure(inside, || "page table inner block: a leaf is past the end of the file".into())?;
        Ok(Self { entries })
    }

    /// Block of the `.map` file and checksum of leaf `index` under this block; nowhere if none of
    /// its pages exists.
    pub fn leaf(&self, index: usize) -> Option<Located> {
        let entry = self.entries.get(index)?;
        Some(Located { block: le_u64(entry, 0), crc: le_u32(entry, 8) })
    }
}

/// Encodes an inner block from the blocks of its leaves.
pub(crate) fn encode_inner(segment: u32, index: u32, entries: &[Located]) -> Vec<u8> {
    let mut block = blank(KIND_INNER, segment);
    put(&mut block, 8, &index.to_le_bytes());
    put(&mut block, 12, &(entries.len() as u32).to_le_bytes());
    for (place, leaf) in entries.iter().enumerate() {
        let at = INNER_HEADER_BYTES + place * INNER_ENTRY_BYTES;
        put_pointer(&mut block, at, leaf);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(num_pages: u64) -> LeafSpec {
        LeafSpec {
            segment: 3,
            first_logical: 508,
            num_pages,
            blocks_per_page: 2,
            physical_pages: 10_000,
            map_blocks: 10,
        }
    }

    fn run<'a>(block: &'a [u8], spec: &LeafSpec) -> Run<'a> {
        match Leaf::decode(block, spec).expect("valid") {
            Leaf::Run(run) => run,
            Leaf::Fan(_) => panic!("a fan"),
        }
    }

    #[test]
    fn a_run_gives_back_blocks_and_checksums() {
        let crcs: Vec<u8> = (0..20_u32).flat_map(|i| (i * 7).to_le_bytes()).collect();
        let block = encode_leaf(3, (508, 508), 10, 1, &crcs);
        let leaf = run(&block, &spec(10));
        assert_eq!(leaf.block(1016), Located { block: 1016, crc: 0 });
        assert_eq!(leaf.block(1035), Located { block: 1035, crc: 19 * 7 });
        assert_eq!((leaf.block(1036), leaf.block(1015)), (Located::NOWHERE, Located::NOWHERE));
        assert!(Leaf::decode(&block, &spec(9)).is_err());
        assert!(Leaf::decode(&block[1..], &spec(10)).is_err());
    }

    #[test]
    fn physical_blocks_past_2_to_the_32_keep_their_arithmetic() {
        let first = (1_u64 << 33) / 508 * 508;
        let block = encode_leaf(3, (first, first), 1, 1, &[1, 0, 0, 0, 2, 0, 0, 0]);
        let spec = LeafSpec { first_logical: first, physical_pages: 1 << 34, ..spec(1) };
        let place = run(&block, &spec).block(first * 2 + 1);
        assert_eq!(place, Located { block: first * 2 + 1, crc: 2 });
    }

    #[test]
    fn entries_move_pages_one_by_one_for_every_page_size() {
        for page_bytes in [4096, 8192, 16_384, 32_768, 65_536] {
            let blocks_per_page = u64::from(page_bytes) / 4096;
            let num_pages = pages_per_child(page_bytes);
            let spec = LeafSpec { blocks_per_page, ..spec(num_pages) };
            assert!(pages_per_child(page_bytes) * FAN_CHILDREN >= pages_per_leaf(page_bytes));
            let last = pages_per_child(page_bytes) - 1;
            let mut block = empty_entries(3, 508, page_bytes);
            let crcs: Vec<[u8; 4]> = (0..blocks_per_page).map(|i| [i as u8, 1, 2, 3]).collect();
            set_entry(&mut block, last, blocks_per_page, Some((77, 5, &crcs)));
            let entries = Entries::decode(&block, &spec, 508).expect("valid");
            let place = entries.block((508 + last + 1) * blocks_per_page - 1);
            let crc = u32::from_le_bytes([blocks_per_page as u8 - 1, 1, 2, 3]);
            assert_eq!(place, Located { block: 78 * blocks_per_page - 1, crc });
            assert_eq!(entries.block(508 * blocks_per_page), Located::NOWHERE);
            assert_eq!(entries.block(507 * blocks_per_page), Located::NOWHERE);
            assert!(Entries::decode(&block, &spec, 509).is_err());
            let short = LeafSpec { physical_pages: 77, ..spec };
            assert!(Entries::decode(&block, &short, 508).is_err());
            let shorter = LeafSpec { num_pages: num_pages - 1, ..spec };
            assert!(Entries::decode(&block, &shorter, 508).is_err(), "a page past the end");
            for at in [16, 31, LEAF_HEADER_BYTES + 8, LEAF_HEADER_BYTES + 12] {
                let mut damaged = block.clone();
                damaged[at] = 1;
                assert!(Entries::decode(&damaged, &spec, 508).is_err(), "byte {at}");
            }
        }
    }

    #[test]
    fn a_pointer_to_nothing_has_nothing_behind_it() {
        let child = |block, crc| Located { block, crc };
        let fan = |last| encode_fan(3, 508, &[child(1, 9), child(2, 9), child(3, 9), last]);
        assert!(Leaf::decode(&fan(Located::NOWHERE), &spec(508)).is_ok());
        assert!(Leaf::decode(&fan(child(NONE, 1)), &spec(508)).is_err());
        let mut padded = fan(Located::NOWHERE);
        padded[BLOCK_BYTES - 1] = 1;
        assert!(Leaf::decode(&padded, &spec(508)).is_err());
        let inner = |crc| encode_inner(1, 2, &[child(NONE, crc)]);
        assert!(Inner::decode(&inner(0), 1, 2, 1, 341).is_ok());
        assert!(Inner::decode(&inner(1), 1, 2, 1, 341).is_err());
    }

    #[test]
    fn a_fan_gives_back_its_children_and_splits_blocks_among_them() {
        let child = |block| Located { block, crc: 9 };
        let block = encode_fan(3, 508, &[child(4), Located::NOWHERE, child(6), child(7)]);
        let Leaf::Fan(fan) = Leaf::decode(&block, &spec(508)).expect("valid") else {
            panic!("a run");
        };
        assert_eq!(
            (fan.child(0), fan.child(1), fan.child(3)),
            (Some(child(4)), None, Some(child(7)))
        );
        let blocks = [1016, 1017, (508 + 127) * 2, (508 + 381) * 2, (508 + 507) * 2 + 1];
        let split: Vec<_> = fan.split(&blocks, 0..5, 2).collect();
        assert_eq!(split, [(0, 0..2), (1, 2..3), (3, 3..5)]);
        assert_eq!(fan.first_logical(3), 508 + 381);
        let short = LeafSpec { map_blocks: 7, ..spec(508) };
        assert!(Leaf::decode(&block, &short).is_err());
    }

    #[test]
    fn an_inner_block_gives_back_its_leaves() {
        let located = |i: u64| Located { block: i, crc: i as u32 ^ 9 };
        let entries: Vec<Located> = (0..340).map(located).collect();
        let block = encode_inner(1, 2, &entries);
        let inner = Inner::decode(&block, 1, 2, 340, 341).expect("valid");
        assert_eq!(inner.leaf(339), Some(located(339)));
        assert_eq!(inner.leaf(340), None);
        assert!(Inner::decode(&block, 1, 2, 340, 339).is_err());
        assert!(Inner::decode(&block, 1, 1, 340, 341).is_err());
    }
}
