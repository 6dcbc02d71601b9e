//! L-type pages: many short neighbour lists, with a slot directory at the end of the page.
//!
//! Slots ascend by node, nodes without neighbours have none. Invariant: the node ranges of the
//! L-type pages of an edge type are disjoint, which the index relies on.

use crate::bytes::{ensure, is_zero, le_u16, le_u32, put};
use crate::error::Damage;
use crate::topology::page::{HEADER_BYTES, PageKind};
use crate::topology::{EntryLayout, PageHeader};

/// Bytes of a slot: node less the page's first node u32, offset u16, count u16.
pub(crate) const SLOT_BYTES: usize = 8;

/// A typed L-type page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LPage<'a> {
    header: PageHeader,
    bytes: &'a [u8],
    slots: &'a [[u8; SLOT_BYTES]],
    entry_bytes: usize,
}

impl<'a> LPage<'a> {
    /// Types a page. Slots are checked where they are used, all of them by [`LPage::check`].
    #[inline]
    pub fn decode(bytes: &'a [u8], edge_type: u32, layout: EntryLayout) -> Result<Self, Damage> {
        let header = PageHeader::decode(bytes, edge_type, layout)?;
        ensure(header.kind == PageKind::L, || {
            "expected an L-type page, found an H-type page".into()
        })?;
        let directory = usize::from(header.num_slots) * SLOT_BYTES;
        let slots = bytes
            .len()
            .checked_sub(directory)
            .filter(|start| *start >= HEADER_BYTES && directory > 0)
            .and_then(|start| bytes.get(start..))
            .ok_or_else(|| Damage::new("L-type page: the directory does not fit"))?;
        let entry_bytes = layout.entry_bytes();
        Ok(Self { header, bytes, slots: slots.as_chunks().0, entry_bytes })
    }

    /// Lists in the page.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The smallest node.
    pub fn first(&self) -> u64 {
        self.header.node
    }

    /// Offset of the first byte after the lists.
    pub fn end(&self) -> usize {
        self.header.end_or_part as usize
    }

    /// Bytes of lists and slots.
    pub fn used_bytes(&self) -> usize {
        (self.end() + self.slots.len() * SLOT_BYTES).saturating_sub(HEADER_BYTES)
    }

    /// The slot of `node`, or the one that it would get.
    #[inline]
    pub fn find(&self, node: u64) -> Result<usize, usize> {
        find_slot(self.slots, self.header.node, node)
    }

    /// The raw entries of `node`'s list; empty if the page has none.
    #[inline]
    pub fn list(&self, node: u64) -> Result<&'a [u8], Damage> {
        match self.find(node).ok().and_then(|place| self.slots.get(place)) {
            Some(slot) => self.entries(slot),
            None => Ok(&[]),
        }
    }

    /// Node and raw entries of slot `index`.
    pub fn slot(&self, index: usize) -> Result<(u64, &'a [u8]), Damage> {
        let slot = self
            .slots
            .get(index)
            .ok_or_else(|| Damage::new("L-type page: the slot does not exist"))?;
        Ok((self.header.node.saturating_add(u64::from(le_u32(slot, 0))), self.entries(slot)?))
    }

    /// Node, raw entries and number of entries of slot `index`.
    pub fn slot_and_count(&self, index: usize) -> Result<(u64, &'a [u8], u16), Damage> {
        let (node, list) = self.slot(index)?;
        Ok((node, list, (list.len() / self.entry_bytes) as u16))
    }

    fn entries(&self, slot: &[u8; SLOT_BYTES]) -> Result<&'a [u8], Damage> {
        let offset = usize::from(le_u16(slot, 4));
        let end = offset + usize::from(le_u16(slot, 6)) * self.entry_bytes;
        let limit = self.bytes.len() - self.slots.len() * SLOT_BYTES;
        let list = self.bytes.get(offset..end);
        list.filter(|list| offset >= HEADER_BYTES && end <= limit && !list.is_empty()).ok_or_else(
            || Damage::new(format!("L-type page: the list at {offset}..{end} is out of range")),
        )
    }

    /// Full check for verify: order, counts, no overlap, nothing between lists and directory.
    pub fn check(bytes: &'a [u8], edge_type: u32, layout: EntryLayout) -> Result<Self, Damage> {
        let page = Self::decode(bytes, edge_type, layout)?;
        let first = page.slots.first().map(|slot| le_u32(slot, 0));
        ensure(first == Some(0), || "L-type page: first node differs from the first slot".into())?;
        let (mut at, mut previous, mut entries) = (HEADER_BYTES, None, 0);
        for slot in page.slots {
            let node = le_u32(slot, 0);
            ensure(previous < Some(node), || "L-type page: the slots are not ascending".into())?;
            let offset = usize::from(le_u16(slot, 4));
            ensure(offset == at, || "L-type page: lists overlap or leave a gap".into())?;
            let list = page.entries(slot)?;
            at += list.len();
            entries += list.len() / page.entry_bytes;
            previous = Some(node);
        }
        let limit = bytes.len() - page.slots.len() * SLOT_BYTES;
        let totals = (page.header.num_entries as usize, page.header.end_or_part as usize);
        ensure(totals == (entries, at), || "L-type page: counts differ from the slots".into())?;
        let free = &bytes[at..limit];
        ensure(is_zero(free), || "L-type page: free space is not 0".into())?;
        Ok(page)
    }
}

/// The slot of `node` in a directory relative to `first`, or the one that it would get.
#[inline]
pub(crate) fn find_slot(slots: &[[u8; SLOT_BYTES]], first: u64, node: u64) -> Result<usize, usize> {
    let delta = node.checked_sub(first).ok_or(0_usize)?;
    let place = slots.partition_point(|slot| u64::from(le_u32(slot, 0)) < delta);
    let found = slots.get(place).is_some_and(|slot| u64::from(le_u32(slot, 0)) == delta);
    if found { Ok(place) } else { Err(place) }
}

/// Fills one L-type page.
pub(crate) struct LPageBuilder {
    layout: EntryLayout,
    edge_type: u32,
    page_bytes: usize,
    limit: usize,
    lists: Vec<u8>,
    slots: Vec<u8>,
    first: u64,
    last: u64,
}

impl LPageBuilder {
    /// A builder that fills pages up to `fill` of the space after the header.
    pub fn new(layout: EntryLayout, edge_type: u32, page_bytes: usize, fill: f64) -> Self {
        let limit = ((page_bytes - HEADER_BYTES) as f64 * fill) as usize;
        Self {
            layout,
            edge_type,
            page_bytes,
            limit,
            lists: Vec::new(),
            slots: Vec::new(),
            first: 0,
            last: 0,
        }
    }

    /// The longest list in bytes that goes to an L-type page: half of the space after the header.
    pub fn list_bytes_max(&self) -> usize {
        (self.page_bytes - HEADER_BYTES) / 2
    }

    /// Whether the page has no list.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The largest node of the page.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether a list of `bytes` for `node` belongs on this page.
    pub fn fits(&self, node: u64, bytes: usize) -> bool {
        let used = self.lists.len() + self.slots.len() + bytes + SLOT_BYTES;
        self.is_empty() || (used <= self.limit && node - self.first <= u64::from(u32::MAX))
    }

    /// Adds a list that fits; nodes ascend.
    pub fn add(&mut self, node: u64, list: &[u8]) {
        if self.is_empty() {
            self.first = node;
        }
        let delta = (node - self.first) as u32;
        let offset = (HEADER_BYTES + self.lists.len()) as u16;
        let count = (list.len() / self.layout.entry_bytes()) as u16;
        self.lists.extend_from_slice(list);
        self.slots.extend(delta.to_le_bytes());
        self.slots.extend(offset.to_le_bytes());
        self.slots.extend(count.to_le_bytes());
        self.last = node;
    }

    /// Encodes the page and starts the next.
    pub fn take(&mut self, page: &mut Vec<u8>) {
        page.clear();
        page.resize(self.page_bytes, 0);
        let header = PageHeader {
            kind: PageKind::L,
            num_slots: (self.slots.len() / SLOT_BYTES) as u16,
            node: self.first,
            num_entries: (self.lists.len() / self.layout.entry_bytes()) as u32,
            end_or_part: (HEADER_BYTES + self.lists.len()) as u32,
            edge_type: self.edge_type,
        };
        header.encode(self.layout, page);
        put(page, HEADER_BYTES, &self.lists);
        put(page, self.page_bytes - self.slots.len(), &self.slots);
        self.lists.clear();
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: EntryLayout =
        EntryLayout { id_width: 4, has_edge_ids: false, has_time: false, has_weight: false };

    fn page_of(nodes: &[(u64, usize)]) -> Vec<u8> {
        let mut builder = LPageBuilder::new(LAYOUT, 2, 4096, 0.9);
        for (node, count) in nodes {
            assert!(builder.fits(*node, count * 4));
            builder.add(*node, &vec![*node as u8; count * 4]);
        }
        let mut page = Vec::new();
        builder.take(&mut page);
        page
    }

    #[test]
    fn lists_are_found_by_node_and_others_are_empty() {
        let page = page_of(&[(1 << 33, 3), ((1 << 33) + 9, 1)]);
        let typed = LPage::check(&page, 2, LAYOUT).expect("valid");
        assert_eq!(typed.list((1 << 33) + 9), Ok([9; 4].as_slice()));
        assert_eq!(typed.list(1 << 33).map(<[u8]>::len), Ok(12));
        for absent in [0, (1 << 33) + 8, (1 << 33) + 10, u64::MAX] {
            assert_eq!(typed.list(absent), Ok([].as_slice()));
        }
    }

    #[test]
    fn a_list_farther_than_32_bits_from_the_first_starts_a_page() {
        let mut builder = LPageBuilder::new(LAYOUT, 2, 4096, 0.9);
        builder.add(5, &[0; 4]);
        assert!(builder.fits(5 + u64::from(u32::MAX), 4));
        assert!(!builder.fits(6 + u64::from(u32::MAX), 4));
    }

    #[test]
    fn any_flipped_byte_that_is_no_id_fails_the_full_check() {
        let page = page_of(&[(7, 3), (9, 1), (12, 40)]);
        let lists = HEADER_BYTES..HEADER_BYTES + 44 * 4;
        for at in (0..page.len()).filter(|at| !lists.contains(at)) {
            let mut bytes = page.clone();
            bytes[at] ^= 0x41;
            let result = LPage::check(&bytes, 2, LAYOUT);
            // Which node a list belongs to is known to checksums and, for the last, to the index.
            let is_node = at >= page.len() - 24 && at % 8 < 4;
            assert!(result.is_err() || (8..16).contains(&at) || is_node, "byte {at}");
        }
    }
}
