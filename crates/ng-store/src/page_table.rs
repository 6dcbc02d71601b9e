//! The page table: which physical page holds a logical page, and the checksum of each 4 KiB block.
//!
//! Blocks of a `.map` file are leaves or inner blocks; a checksum always stands with the pointer:
//! data checksums in leaves, leaf checksums in inner blocks, inner checksums in the catalog. Every
//! leaf but the last covers the same number of pages, so a page's leaf is found by division.

use crate::bytes::{ensure, is_zero, le_u16, le_u32, le_u64, put};
use crate::error::Damage;
use crate::io::BLOCK_BYTES;

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
}

/// A run of logical pages that are physically consecutive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'a> {
    first_logical: u64,
    first_physical: u64,
    blocks_per_page: u64,
    crcs: &'a [[u8; 4]],
}

impl<'a> Leaf<'a> {
    /// Types a leaf block.
    pub fn decode(bytes: &'a [u8], spec: &LeafSpec) -> Result<Self, Damage> {
        ensure(bytes.len() == BLOCK_BYTES, || "page table leaf: short block".into())?;
        ensure(le_u16(bytes, 0) == MAGIC, || "page table leaf: wrong magic".into())?;
        let kind = bytes.get(2).copied().unwrap_or(u8::MAX);
        ensure(kind != KIND_ENTRIES, || "page table leaf: written by a newer release".into())?;
        ensure(kind == KIND_RUN && bytes.get(3) == Some(&0), || {
            format!("page table leaf: kind {kind} is not a leaf")
        })?;
        ensure(le_u32(bytes, 4) == spec.segment, || "page table leaf: other segment".into())?;
        let first_logical = le_u64(bytes, 8);
        ensure(first_logical == spec.first_logical, || {
            format!("page table leaf: starts at {first_logical}, not {}", spec.first_logical)
        })?;
        let num_pages = u64::from(le_u32(bytes, 28));
        ensure(num_pages == spec.num_pages, || {
            format!("page table leaf: {num_pages} pages, expected {}", spec.num_pages)
        })?;
        let first_physical = le_u64(bytes, 16);
        let end = first_physical.checked_add(num_pages);
        ensure(end.is_some_and(|end| end <= spec.physical_pages), || {
            format!("page table leaf: physical page {first_physical} is past the end of the file")
        })?;
        let count = (num_pages * spec.blocks_per_page) as usize;
        let all = bytes.get(LEAF_HEADER_BYTES..).unwrap_or_default().as_chunks::<4>().0;
        let (crcs, rest) = all
            .split_at_checked(count)
            .ok_or_else(|| Damage::new("page table leaf: more blocks than fit"))?;
        ensure(is_zero(rest.as_flattened()), || "page table leaf: padding is not 0".into())?;
        let blocks_per_page = spec.blocks_per_page;
        Ok(Self { first_logical, first_physical, blocks_per_page, crcs })
    }

    /// The block of the data file and its checksum, or `None` if the leaf does not cover it.
    pub fn block(&self, page: u64, block_in_page: u64) -> Option<(u64, u32)> {
        let place = page.checked_sub(self.first_logical)?;
        let index = place * self.blocks_per_page + block_in_page;
        let crc = self.crcs.get(index as usize)?;
        Some((self.first_physical * self.blocks_per_page + index, u32::from_le_bytes(*crc)))
    }
}

/// Encodes a leaf of kind run.
pub(crate) fn encode_leaf(
    segment: u32,
    first_page: u64,
    num_pages: u32,
    epoch: u32,
    crcs: &[u8],
) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    put(&mut block, 0, &MAGIC.to_le_bytes());
    put(&mut block, 2, &[KIND_RUN]);
    put(&mut block, 4, &segment.to_le_bytes());
    put(&mut block, 8, &first_page.to_le_bytes());
    put(&mut block, 16, &first_page.to_le_bytes());
    put(&mut block, 24, &epoch.to_le_bytes());
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
        ensure(bytes.len() == BLOCK_BYTES, || "page table inner block: short".into())?;
        let kind = bytes.get(2..4);
        ensure(le_u16(bytes, 0) == MAGIC && kind == Some(&[KIND_INNER, 0]), || {
            "page table inner block: wrong magic or kind".into()
        })?;
        ensure(le_u32(bytes, 4) == segment && le_u32(bytes, 8) == index, || {
            "page table inner block: belongs elsewhere".into()
        })?;
        let found = le_u32(bytes, 12) as usize;
        ensure(found == count, || {
            format!("page table inner block: {found} leaves, expected {count}")
        })?;
        let all = bytes.get(INNER_HEADER_BYTES..).unwrap_or_default();
        let (entries, rest) = all
            .as_chunks::<INNER_ENTRY_BYTES>()
            .0
            .split_at_checked(count)
            .ok_or_else(|| Damage::new("page table inner block: more leaves than fit"))?;
        ensure(is_zero(rest.as_flattened()), || "page table inner block: padding is not 0".into())?;
        let inside = entries.iter().all(|entry| le_u64(entry, 0) < map_blocks);
        ensure(inside, || "page table inner block: leaf past the end of the file".into())?;
        Ok(Self { entries })
    }

    /// Block of the `.map` file and checksum of leaf `index` under this block.
    pub fn leaf(&self, index: usize) -> Option<(u64, u32)> {
        self.entries.get(index).map(|entry| (le_u64(entry, 0), le_u32(entry, 8)))
    }
}

/// Encodes an inner block from entries of {leaf block u64, leaf checksum u32}.
pub(crate) fn encode_inner(segment: u32, index: u32, entries: &[(u64, u32)]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    put(&mut block, 0, &MAGIC.to_le_bytes());
    put(&mut block, 2, &[KIND_INNER]);
    put(&mut block, 4, &segment.to_le_bytes());
    put(&mut block, 8, &index.to_le_bytes());
    put(&mut block, 12, &(entries.len() as u32).to_le_bytes());
    for (place, (leaf, crc)) in entries.iter().enumerate() {
        let at = INNER_HEADER_BYTES + place * INNER_ENTRY_BYTES;
        put(&mut block, at, &leaf.to_le_bytes());
        put(&mut block, at + 8, &crc.to_le_bytes());
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
        }
    }

    #[test]
    fn a_leaf_gives_back_blocks_and_checksums() {
        let crcs: Vec<u8> = (0..20_u32).flat_map(|i| (i * 7).to_le_bytes()).collect();
        let block = encode_leaf(3, 508, 10, 1, &crcs);
        let leaf = Leaf::decode(&block, &spec(10)).expect("valid");
        assert_eq!(leaf.block(508, 0), Some((1016, 0)));
        assert_eq!(leaf.block(517, 1), Some((1035, 19 * 7)));
        assert_eq!((leaf.block(518, 0), leaf.block(507, 1)), (None, None));
        assert!(Leaf::decode(&block, &spec(9)).is_err());
        assert!(Leaf::decode(&block[1..], &spec(10)).is_err());
    }

    #[test]
    fn physical_blocks_past_2_to_the_32_keep_their_arithmetic() {
        let first = (1_u64 << 33) / 508 * 508;
        let block = encode_leaf(3, first, 1, 1, &[1, 0, 0, 0, 2, 0, 0, 0]);
        let spec = LeafSpec { first_logical: first, physical_pages: 1 << 34, ..spec(1) };
        let leaf = Leaf::decode(&block, &spec).expect("valid");
        assert_eq!(leaf.block(first, 1), Some((first * 2 + 1, 2)));
    }

    #[test]
    fn an_inner_block_gives_back_its_leaves() {
        let entries: Vec<(u64, u32)> = (0..340).map(|i| (i, i as u32 ^ 9)).collect();
        let block = encode_inner(1, 2, &entries);
        let inner = Inner::decode(&block, 1, 2, 340, 341).expect("valid");
        assert_eq!(inner.leaf(339), Some((339, 339 ^ 9)));
        assert_eq!(inner.leaf(340), None);
        assert!(Inner::decode(&block, 1, 2, 340, 339).is_err());
        assert!(Inner::decode(&block, 1, 1, 340, 341).is_err());
    }
}
