//! H-type pages: the entries of one long list, nothing else.
//!
//! Every 4 KiB block of a page holds whole entries, so an entry is read with one block: the first
//! block of a page has room for `first_block`, each other block for `other_block` entries. Position
//! p of a list is on page p / `per_page` of its run; no page is read to find that out.

use ng_types::canary::planted;

use crate::bytes::{ensure, is_zero};
use crate::error::Damage;
use crate::io::BLOCK_BYTES;
use crate::topology::page::{HEADER_BYTES, PageKind};
use crate::topology::{EntryLayout, PageHeader};

/// Set beside the degree in the H index: the run has room for the next power of two of its pages.
pub(crate) const ROOM_BIT: u64 = 1 << 63;

/// The degree in a record of the H index.
#[inline]
pub(crate) fn degree_of(extra: u64) -> u64 {
    extra & !ROOM_BIT
}

/// Where entries of an H-type list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HLayout {
    entry_bytes: u64,
    first_block: u64,
    other_block: u64,
    blocks_per_page: u64,
    per_page: u64,
}

/// The place of one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HPlace {
    /// Page of the list, from 0.
    pub page: u64,
    /// Block in the page.
    pub block: u64,
    /// Byte in the block.
    pub offset: usize,
}

impl HLayout {
    /// The layout for pages of `page_bytes` and entries of `layout`.
    pub fn new(layout: EntryLayout, page_bytes: u32) -> Self {
        let entry_bytes = layout.entry_bytes() as u64;
        let block = BLOCK_BYTES as u64;
        let blocks_per_page = (u64::from(page_bytes) / block).max(1);
        let first_block = (block - HEADER_BYTES as u64) / entry_bytes;
        let other_block = block / entry_bytes;
        let per_page = first_block + (blocks_per_page - 1) * other_block;
        Self { entry_bytes, first_block, other_block, blocks_per_page, per_page }
    }

    /// Pages of a list of `degree` entries.
    pub fn pages(&self, degree: u64) -> u64 {
        degree.div_ceil(self.per_page)
    }

    /// Entries in a full page.
    pub fn per_page(&self) -> u64 {
        self.per_page
    }

    /// Where position `position` is.
    #[inline]
    pub fn place(&self, position: u64) -> HPlace {
        let page = position / self.per_page;
        let in_page = position % self.per_page;
        let (block, slot, start) = if in_page < self.first_block {
            (0, in_page, HEADER_BYTES)
        } else {
            let rest = in_page - self.first_block;
            (1 + rest / self.other_block, rest % self.other_block, 0)
        };
        let early = planted("h_page_off_by_one") && block == 0 && slot + 1 == self.first_block;
        let slot = if early { slot - 1 } else { slot };
        HPlace { page, block, offset: start + (slot * self.entry_bytes) as usize }
    }

    /// The pieces of a page in list order: (byte offset in the page, entries) of each block.
    pub fn blocks(&self, num_entries: u64) -> impl Iterator<Item = (usize, usize)> {
        let layout = *self;
        let mut left = num_entries;
        (0..self.blocks_per_page).map_while(move |block| {
            let (start, room) = if block == 0 {
                (HEADER_BYTES, layout.first_block)
            } else {
                (block as usize * BLOCK_BYTES, layout.other_block)
            };
            let count = left.min(room);
            left -= count;
            (count > 0).then_some((start, count as usize))
        })
    }
}

/// Types the header of page `part` of `node`'s list with `degree` entries, for scans and verify.
pub(crate) fn check_h_page(
    bytes: &[u8],
    edge_type: u32,
    layout: EntryLayout,
    list: (u64, u64),
    part: u64,
) -> Result<u64, Damage> {
    let (node, degree) = list;
    let h_layout = HLayout::new(layout, bytes.len() as u32);
    let header = PageHeader::decode(bytes, edge_type, layout)?;
    let before = part * h_layout.per_page();
    let expected = degree.saturating_sub(before).min(h_layout.per_page());
    ensure(header.kind == PageKind::H && header.num_slots == 0, || {
        "expected an H-type page".into()
    })?;
    ensure(header.node == node && u64::from(header.end_or_part) == part, || {
        format!(
            "H-type page: it holds part {} of node {}, expected part {part} of node {node}",
            header.end_or_part, header.node
        )
    })?;
    ensure(u64::from(header.num_entries) == expected, || {
        format!("H-type page: it has {} entries, expected {expected}", header.num_entries)
    })?;
    let mut end = HEADER_BYTES;
    for (start, count) in h_layout.blocks(expected) {
        let gap = &bytes[end..start.max(end)];
        ensure(is_zero(gap), || "H-type page: padding is not 0".into())?;
        end = start + count * layout.entry_bytes();
    }
    let tail = &bytes[end..];
    ensure(is_zero(tail), || "H-type page: padding is not 0".into())?;
    Ok(expected)
}

/// Fills the pages of one list.
pub(crate) struct HPageBuilder {
    layout: EntryLayout,
    h_layout: HLayout,
    page: Vec<u8>,
    in_page: u64,
    part: u32,
}

impl HPageBuilder {
    /// A builder for the first page of a list.
    pub fn new(layout: EntryLayout, page_bytes: usize) -> Self {
        let h_layout = HLayout::new(layout, page_bytes as u32);
        Self { layout, h_layout, page: vec![0; page_bytes], in_page: 0, part: 0 }
    }

    /// Whether the page takes no more.
    pub fn is_full(&self) -> bool {
        self.in_page == self.h_layout.per_page()
    }

    /// Whether the page has no entry.
    pub fn is_empty(&self) -> bool {
        self.in_page == 0
    }

    /// Adds one encoded entry to a page that is not full.
    pub fn add(&mut self, entry: &[u8]) {
        let place = self.h_layout.place(self.in_page);
        let at = place.block as usize * BLOCK_BYTES + place.offset;
        crate::bytes::put(&mut self.page, at, entry);
        self.in_page += 1;
    }

    /// Hands the encoded page to `write` and starts the next part.
    pub fn take<E>(
        &mut self,
        edge_type: u32,
        node: u64,
        write: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let header = PageHeader {
            kind: PageKind::H,
            num_slots: 0,
            node,
            num_entries: self.in_page as u32,
            end_or_part: self.part,
            edge_type,
        };
        header.encode(self.layout, &mut self.page);
        write(&self.page)?;
        self.page.fill(0);
        self.in_page = 0;
        self.part += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts() -> Vec<(EntryLayout, u32)> {
        let mut all = Vec::new();
        for bits in 0..16_u8 {
            let layout = EntryLayout {
                id_width: if bits & 8 == 0 { 4 } else { 5 },
                has_edge_ids: bits & 1 != 0,
                has_time: bits & 2 != 0,
                has_weight: bits & 4 != 0,
            };
            all.extend([4096, 8192, 65536].map(|page_bytes| (layout, page_bytes)));
        }
        all
    }

    #[test]
    fn positions_fill_blocks_in_order_and_never_straddle_one() {
        for (layout, page_bytes) in layouts() {
            let h_layout = HLayout::new(layout, page_bytes);
            let mut previous = None;
            for position in 0..3 * h_layout.per_page() {
                let place = h_layout.place(position);
                assert!(place.offset + layout.entry_bytes() <= BLOCK_BYTES);
                let key = (place.page, place.block, place.offset);
                assert!(previous < Some(key));
                previous = Some(key);
            }
        }
    }

    #[test]
    fn positions_past_2_to_the_32_keep_their_arithmetic() {
        for (layout, page_bytes) in layouts() {
            let h_layout = HLayout::new(layout, page_bytes);
            for position in [1_u64 << 32, (1 << 32) + 1, 98_765_432_109, (1 << 39) + 12_345] {
                let place = h_layout.place(position);
                let in_page =
                    u128::from(position) - u128::from(place.page) * u128::from(h_layout.per_page());
                assert_eq!(h_layout.place(in_page as u64), HPlace { page: 0, ..place });
                assert_eq!(h_layout.pages(position + 1), place.page + 1);
            }
        }
    }
}
