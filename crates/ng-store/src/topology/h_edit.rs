//! Long lists that change: entries put in, taken out and moved along their run of pages.
//!
//! A list owns a run of consecutive logical pages, so positions keep their arithmetic
//! ([`HLayout`](crate::topology::HLayout)). The run may have room for more: pages past the
//! last used one have a number and no bytes. The invariant: only pages that change are written, and
//! the bit of a node in the gmap is set exactly while the H index has it.

use std::sync::Arc;

use crate::bytes::{ensure, put};
use crate::error::ReadError;
use crate::io::BLOCK_BYTES;
use crate::page::Page;
use crate::topology::page::{HEADER_BYTES, PageKind};
use crate::topology::{PageHeader, ROOM_BIT, TopologyEdit, check_h_page, degree_of};
use crate::tree::{Record, TreeKind};

/// A record of the H index.
#[derive(Clone, Copy, Debug)]
pub(super) struct HList {
    node: u64,
    first_page: u64,
    pub degree: u64,
    /// The run has room for the next power of two of its pages, not just for those.
    has_room: bool,
}

impl HList {
    /// What a record says.
    pub fn of(record: Record) -> Self {
        let has_room = record.extra & ROOM_BIT != 0;
        let degree = degree_of(record.extra);
        Self { node: record.key, first_page: record.page, degree, has_room }
    }

    fn record(&self) -> Record {
        let room = if self.has_room { ROOM_BIT } else { 0 };
        Record { key: self.node, page: self.first_page, extra: self.degree | room }
    }

    /// The logical page of a part.
    fn page(&self, part: u64) -> u64 {
        self.first_page.saturating_add(part)
    }
}

impl TopologyEdit<'_> {
    /// Shows runs of entries, each with the position of its first, to `visit`.
    pub(super) fn h_scan(
        &mut self,
        list: HList,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), ReadError> {
        for part in 0..self.h_layout.pages(list.degree) {
            self.h_scan_part(list, part, visit)?;
        }
        Ok(())
    }

    /// Puts in an entry, by time where entries have one, else at the end.
    pub(super) fn h_insert(&mut self, list: HList, time: i64, raw: &[u8]) -> Result<(), ReadError> {
        let position =
            if self.layout.has_time { self.h_position(list, time)? } else { list.degree };
        let list = self.h_make_room(list)?;
        if position < list.degree {
            self.h_splice(list, Some((position, raw)), &[])?;
        } else if position.is_multiple_of(self.h_layout.per_page()) {
            self.h_put_part(list, position / self.h_layout.per_page(), raw)?;
        } else {
            self.h_overwrite(list, position, raw, 1)?;
        }
        self.h_update(HList { degree: list.degree + 1, ..list })
    }

    /// Takes out some positions (ascending); a list that gets short becomes L-type.
    pub(super) fn h_remove(&mut self, list: HList, positions: &[u64]) -> Result<(), ReadError> {
        let degree = list.degree - positions.len() as u64;
        let bytes = degree.saturating_mul(self.layout.entry_bytes() as u64);
        if bytes > (self.page_bytes - HEADER_BYTES) as u64 / 4 {
            self.h_splice(list, None, positions)?;
            return self.h_update(HList { degree, ..list });
        }
        let (mut rest, mut gone) = (Vec::new(), positions.iter().peekable());
        let width = self.layout.entry_bytes();
        self.h_scan(list, &mut |first, run| copy_without(first, run, width, &mut gone, &mut rest))?;
        self.h_drop(list)?;
        if rest.is_empty() {
            return Ok(());
        }
        self.edit.counts.demotions += 1;
        let home = self.tree(TreeKind::L).at_or_last(self.edit, list.node)?;
        self.insert_short(home, list.node, 0, &rest)
    }

    /// Makes a list of raw entries that has no pages yet.
    pub(super) fn h_create(&mut self, node: u64, raw: &[u8]) -> Result<(), ReadError> {
        let degree = (raw.len() / self.layout.entry_bytes()) as u64;
        let pages = self.h_layout.pages(degree);
        let first_page = self.edit.reserve_pages(self.topo, pages);
        let list = HList { node, first_page, degree, has_room: false };
        for (part, raw) in (0..pages).zip(raw.chunks(self.h_part_bytes())) {
            self.h_put_part(list, part, raw)?;
        }
        self.change_tree(TreeKind::H, |tree, edit| tree.insert(edit, list.record()))?;
        let mut gmap = self.gmap();
        gmap.set(self.edit, node)?;
        let topology = &mut self.meta().topology;
        topology.gmap_root = gmap.directory.root;
        topology.num_h_lists += 1;
        Ok(())
    }

    /// Gives up a list and its pages.
    pub(super) fn h_drop(&mut self, list: HList) -> Result<(), ReadError> {
        for part in 0..self.h_layout.pages(list.degree) {
            self.edit.remove(self.topo, list.page(part));
        }
        self.change_record(TreeKind::H, list.node, |tree, edit| {
            Ok(tree.remove(edit, list.node)?.is_some())
        })?;
        let mut gmap = self.gmap();
        gmap.clear(self.edit, list.node)?;
        let topology = &mut self.meta().topology;
        topology.gmap_root = gmap.directory.root;
        topology.num_h_lists = topology.num_h_lists.saturating_sub(1);
        Ok(())
    }

    fn h_update(&mut self, list: HList) -> Result<(), ReadError> {
        let record = list.record();
        self.change_record(TreeKind::H, list.node, |tree, edit| tree.update(edit, record))
    }

    /// Bytes of entries in a full page.
    fn h_part_bytes(&self) -> usize {
        self.h_layout.per_page() as usize * self.layout.entry_bytes()
    }

    fn h_read_part(&mut self, list: HList, part: u64) -> Result<Arc<Page>, ReadError> {
        let page = self.edit.read(self.topo, list.page(part))?;
        let (edge_type, owner) = (u32::from(self.edge_type.0), (list.node, list.degree));
        check_h_page(page.bytes(), edge_type, self.layout, owner, part)
            .map_err(|damage| self.edit.damaged(self.topo, list.page(part), &damage))?;
        Ok(page)
    }

    fn h_scan_part(
        &mut self,
        list: HList,
        part: u64,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), ReadError> {
        let page = self.h_read_part(list, part)?;
        let width = self.layout.entry_bytes();
        let mut position = part * self.h_layout.per_page();
        for (start, count) in self.h_layout.blocks(list.degree - position) {
            let block = &page.bytes()[start..start + count * width];
            visit(position, block);
            position += count as u64;
        }
        Ok(())
    }

    /// The position after the last entry that is not later than `time`.
    fn h_position(&mut self, list: HList, time: i64) -> Result<u64, ReadError> {
        let (mut low, mut high) = (0, list.degree);
        let mut held: Option<(u64, Arc<Page>)> = None;
        // What comes is mostly later than all that is there.
        let mut probe = list.degree.saturating_sub(1);
        while low < high {
            let place = self.h_layout.place(probe);
            let page = match held.take() {
                Some((part, page)) if part == place.page => page,
                _ => self.h_read_part(list, place.page)?,
            };
            let at = place.block as usize * BLOCK_BYTES + place.offset;
            let entry = self.layout.decode(&page.bytes()[at..]);
            if entry.time <= time {
                low = probe + 1;
            } else {
                high = probe;
            }
            held = Some((place.page, page));
            probe = low + (high - low) / 2;
        }
        Ok(low)
    }

    /// Moves a list whose run is full, if one more entry needs a page.
    fn h_make_room(&mut self, list: HList) -> Result<HList, ReadError> {
        let used = self.h_layout.pages(list.degree);
        let wanted = self.h_layout.pages(list.degree + 1);
        let room = if list.has_room { used.next_power_of_two() } else { used };
        if wanted <= room {
            return Ok(list);
        }
        let first_page = self.edit.reserve_pages(self.topo, wanted.next_power_of_two());
        for part in 0..used {
            let copy = self.edit.read(self.topo, list.page(part))?.bytes().to_vec();
            self.edit.put(self.topo, first_page + part, copy)?;
            self.edit.remove(self.topo, list.page(part));
        }
        Ok(HList { first_page, has_room: true, ..list })
    }

    /// Puts one entry in, or takes positions out, and moves all that is behind along.
    fn h_splice(
        &mut self,
        list: HList,
        inserted: Option<(u64, &[u8])>,
        removed: &[u64],
    ) -> Result<(), ReadError> {
        let (per_page, full) = (self.h_layout.per_page(), self.h_part_bytes());
        let width = self.layout.entry_bytes();
        let from = inserted.map(|(position, _)| position).or(removed.first().copied());
        let mut part_out = from.unwrap_or(0) / per_page;
        let pages = self.h_layout.pages(list.degree);
        let mut buffer = Vec::with_capacity(2 * full);
        let mut removed = removed.iter().peekable();
        let first_part = part_out;
        for part in first_part..pages {
            self.h_scan_part(list, part, &mut |first, run| {
                let Some((at, new)) = inserted else {
                    return copy_without(first, run, width, &mut removed, &mut buffer);
                };
                let before = at.saturating_sub(first) as usize * width;
                match run
                    .split_at_checked(before)
                    .filter(|(_, after)| at >= first && !after.is_empty())
                {
                    Some((before, after)) => {
                        buffer.extend_from_slice(before);
                        buffer.extend_from_slice(new);
                        buffer.extend_from_slice(after);
                    }
                    None => buffer.extend_from_slice(run),
                }
            })?;
            if let Some(raw) = buffer.get(..full) {
                self.h_put_part(list, part_out, raw)?;
                buffer.drain(..full);
                part_out += 1;
            }
        }
        if !buffer.is_empty() {
            self.h_put_part(list, part_out, &buffer)?;
            part_out += 1;
        }
        for part in part_out..pages {
            self.edit.remove(self.topo, list.page(part));
        }
        Ok(())
    }

    /// Writes a whole page of a list.
    fn h_put_part(&mut self, list: HList, part: u64, raw: &[u8]) -> Result<(), ReadError> {
        let (mut page, width) = (vec![0; self.page_bytes], self.layout.entry_bytes());
        let count = raw.len() / width;
        let header = PageHeader {
            kind: PageKind::H,
            num_slots: 0,
            node: list.node,
            num_entries: count as u32,
            end_or_part: part as u32,
            edge_type: u32::from(self.edge_type.0),
        };
        header.encode(self.layout, &mut page);
        let mut rest = raw;
        for (start, count) in self.h_layout.blocks(count as u64) {
            let (block, behind) = rest.split_at_checked(count * width).unwrap_or((rest, &[]));
            put(&mut page, start, block);
            rest = behind;
        }
        self.edit.put(self.topo, list.page(part), page)
    }

    /// Writes one entry into a page that is there, which then has `more` entries.
    pub(super) fn h_overwrite(
        &mut self,
        list: HList,
        position: u64,
        raw: &[u8],
        more: u32,
    ) -> Result<(), ReadError> {
        let (place, layout) = (self.h_layout.place(position), self.layout);
        let edge_type = u32::from(self.edge_type.0);
        let bytes = self.edit.write(self.topo, list.page(place.page))?;
        let owner = list.node;
        let outcome = PageHeader::decode(bytes, edge_type, layout).and_then(|header| {
            let part = u64::from(header.end_or_part);
            let sound = header.kind == PageKind::H && header.node == owner && part == place.page;
            ensure(sound, || {
                format!(
                    "H-type page: it holds part {part} of node {}, expected part {} of node \
                     {owner}",
                    header.node, place.page
                )
            })?;
            let num_entries = header.num_entries.saturating_add(more);
            PageHeader { num_entries, ..header }.encode(layout, bytes);
            put(bytes, place.block as usize * BLOCK_BYTES + place.offset, raw);
            Ok(())
        });
        outcome.map_err(|damage| self.edit.damaged(self.topo, list.page(place.page), &damage))
    }
}

/// Copies a run of entries whose first has position `first`, without those at positions of `gone`.
fn copy_without<'a>(
    first: u64,
    run: &[u8],
    width: usize,
    gone: &mut std::iter::Peekable<impl Iterator<Item = &'a u64>>,
    out: &mut Vec<u8>,
) {
    let end = first + (run.len() / width) as u64;
    let mut from = 0;
    while let Some(position) = gone.next_if(|position| **position < end) {
        assert!(*position >= first, "position {position} is not ascending");
        let at = (position - first) as usize * width;
        out.extend_from_slice(&run[from..at]);
        from = at + width;
    }
    out.extend_from_slice(&run[from..]);
}
