//! Changing the bytes of one L-type page in place.
//!
//! Nothing is allocated or encoded anew: bytes move inside the page, offsets and deltas follow.
//! What must not live here: which page a list belongs to. The invariant, which
//! [`LPage::check`] states: lists are contiguous in the order of slots from the end of the header,
//! what is free is 0, and the header names the smallest node.

use std::ops::Range;

use crate::bytes::{ensure, le_u16, le_u32, put};
use crate::error::Damage;
use crate::topology::l_page::{SLOT_BYTES, find_slot};
use crate::topology::page::{HEADER_BYTES, PageKind};
use crate::topology::{EntryLayout, LPage, PageHeader};

/// The last lists of a page on their way to another.
#[derive(Debug, Default)]
pub(crate) struct LTail {
    /// Raw entries of the lists, in order.
    lists: Vec<u8>,
    /// Node and entries of each list.
    slots: Vec<(u64, u16)>,
}

impl LTail {
    /// Copies the lists of `page` from slot `from` on.
    pub fn of(page: &LPage<'_>, from: usize) -> Result<Self, Damage> {
        let mut tail = Self::default();
        for slot in from..page.len() {
            let (node, list, entries) = page.slot_and_count(slot)?;
            tail.lists.extend_from_slice(list);
            tail.slots.push((node, entries));
        }
        Ok(tail)
    }

    /// How many lists.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The smallest node.
    pub fn first(&self) -> Option<u64> {
        self.slots.first().map(|(node, _)| *node)
    }

    /// The largest node.
    fn last(&self) -> Option<u64> {
        self.slots.last().map(|(node, _)| *node)
    }

    /// Bytes that a page needs for them.
    pub fn used_bytes(&self) -> usize {
        self.lists.len() + self.slots.len() * SLOT_BYTES
    }
}

/// A page that changes; its header is right after each call.
#[derive(Debug)]
pub(crate) struct LPageEdit<'a> {
    bytes: &'a mut [u8],
    entry_bytes: usize,
    num_slots: usize,
    end: usize,
    first: u64,
}

impl<'a> LPageEdit<'a> {
    /// Types a page.
    pub fn decode(
        bytes: &'a mut [u8],
        edge_type: u32,
        layout: EntryLayout,
    ) -> Result<Self, Damage> {
        let typed = LPage::decode(bytes, edge_type, layout)?;
        let (num_slots, end, first) = (typed.len(), typed.end(), typed.first());
        let entry_bytes = layout.entry_bytes();
        let limit = bytes.len() - num_slots * SLOT_BYTES;
        let sound = (HEADER_BYTES..=limit).contains(&end);
        ensure(sound && (end - HEADER_BYTES).is_multiple_of(entry_bytes), || {
            format!("L-type page: lists end at {end}")
        })?;
        Ok(Self { bytes, entry_bytes, num_slots, end, first })
    }

    /// Makes a page of zeros a page without lists, which must get one before anyone reads it.
    pub fn blank(bytes: &'a mut [u8], edge_type: u32, layout: EntryLayout) -> Self {
        let header = PageHeader {
            kind: PageKind::L,
            num_slots: 0,
            node: 0,
            num_entries: 0,
            end_or_part: HEADER_BYTES as u32,
            edge_type,
        };
        header.encode(layout, bytes);
        let entry_bytes = layout.entry_bytes();
        Self { bytes, entry_bytes, num_slots: 0, end: HEADER_BYTES, first: 0 }
    }

    /// How many lists.
    pub fn len(&self) -> usize {
        self.num_slots
    }

    /// The largest node; 0 in a page without lists.
    pub fn last(&self) -> u64 {
        let delta = self.slots().last().map_or(0, |slot| le_u32(slot, 0));
        self.first.saturating_add(u64::from(delta))
    }

    /// Bytes between lists and directory.
    pub fn free_bytes(&self) -> usize {
        self.directory() - self.end
    }

    /// The slot of `node`, or the one that it would get.
    pub fn find(&self, node: u64) -> Result<usize, usize> {
        find_slot(self.slots(), self.first, node)
    }

    /// Entries of the list of a slot.
    pub fn count(&self, slot: usize) -> usize {
        self.slots().get(slot).map_or(0, |slot| usize::from(le_u16(slot, 6)))
    }

    /// Puts `raw` entries at a position of `node`'s list; where there is none they become it.
    pub fn insert(&mut self, node: u64, position: usize, raw: &[u8]) -> Result<(), Damage> {
        match self.find(node) {
            Ok(slot) => self.insert_entries(slot, position, raw),
            Err(slot) => self.insert_list(slot, node, raw),
        }
    }

    /// Overwrites one entry of a list.
    pub fn set(&mut self, slot: usize, position: usize, raw: &[u8]) -> Result<(), Damage> {
        let at = self.entry(slot, position)?;
        put(self.bytes, at.start, raw);
        Ok(())
    }

    /// Takes out one entry of a list that has others.
    pub fn remove_entry(&mut self, slot: usize, position: usize) -> Result<(), Damage> {
        let count = self.count(slot);
        ensure(count > 1, || "L-type page: the last entry goes with its list".into())?;
        // A list without entries has no slot, so its last entry is not for this function.
        self.close(self.entry(slot, position)?);
        self.set_count(slot, count - 1);
        self.move_offsets(slot + 1, self.entry_bytes.wrapping_neg());
        self.store();
        Ok(())
    }

    /// Takes out a whole list.
    pub fn remove_list(&mut self, slot: usize) -> Result<(), Damage> {
        let list = self.list(slot)?;
        let bytes = list.len();
        self.close(list);
        self.move_offsets(slot + 1, bytes.wrapping_neg());
        // The directory ends where the page does, so the slots before the one that goes move up.
        let directory = self.directory();
        self.bytes.copy_within(directory..directory + slot * SLOT_BYTES, directory + SLOT_BYTES);
        put(self.bytes, directory, &[0; SLOT_BYTES]);
        self.num_slots -= 1;
        // Deltas count from the smallest node: if that went, from the one after it.
        let by = self.slots().first().map_or(0, |slot| le_u32(slot, 0));
        if by > 0 {
            self.move_deltas(by.wrapping_neg());
        }
        self.first = if self.num_slots == 0 { 0 } else { self.first.saturating_add(by.into()) };
        self.store();
        Ok(())
    }

    /// Drops all lists from slot `len` on.
    pub fn truncate(&mut self, len: usize) -> Result<(), Damage> {
        if len >= self.num_slots {
            return Ok(());
        }
        // Lists are contiguous in the order of slots: the first that goes begins where all that
        // stays ends. Whatever is free is 0, or a page would depend on what was in it before.
        let end = self.list(len)?.start;
        self.zero(end..self.end);
        let (directory, kept) = (self.directory(), len * SLOT_BYTES);
        let target = self.bytes.len() - kept;
        self.bytes.copy_within(directory..directory + kept, target);
        self.zero(directory..target);
        (self.num_slots, self.end) = (len, end);
        if len == 0 {
            self.first = 0;
        }
        self.store();
        Ok(())
    }

    /// Puts lists of smaller nodes before all others.
    pub fn prepend(&mut self, tail: &LTail) -> Result<(), Damage> {
        let Some(first) = tail.first() else {
            return Ok(());
        };
        self.check_room(tail.used_bytes())?;
        ensure(self.num_slots == 0 || tail.last() < Some(self.first), || {
            format!("L-type page: node {} is also on the previous page", self.first)
        })?;
        self.rebase(first)?;
        self.open(HEADER_BYTES, &tail.lists);
        self.move_offsets(0, tail.lists.len());
        // The directory grows downward, so the new slots come first, as smaller nodes do.
        self.num_slots += tail.len();
        let mut offset = HEADER_BYTES;
        for (slot, (node, entries)) in tail.slots.iter().enumerate() {
            self.put_slot(slot, node.saturating_sub(first) as u32, offset, *entries);
            offset += usize::from(*entries) * self.entry_bytes;
        }
        debug_assert_eq!(offset, HEADER_BYTES + tail.lists.len(), "each byte belongs to a list");
        self.store();
        Ok(())
    }

    fn insert_entries(&mut self, slot: usize, position: usize, raw: &[u8]) -> Result<(), Damage> {
        debug_assert!(raw.len().is_multiple_of(self.entry_bytes), "whole entries");
        let list = self.list(slot)?;
        let at = list.start + position * self.entry_bytes;
        ensure(at <= list.end, || {
            format!("L-type page: position {position} is past the end of its list")
        })?;
        self.check_room(raw.len())?;
        self.open(at, raw);
        self.set_count(slot, self.count(slot) + raw.len() / self.entry_bytes);
        self.move_offsets(slot + 1, raw.len());
        self.store();
        Ok(())
    }

    fn insert_list(&mut self, slot: usize, node: u64, raw: &[u8]) -> Result<(), Damage> {
        debug_assert!(raw.len().is_multiple_of(self.entry_bytes), "whole entries");
        let at = if slot == self.num_slots { self.end } else { self.list(slot)?.start };
        // All that can fail comes before the first byte changes: what is refused leaves the page as
        // it was.
        self.check_room(raw.len() + SLOT_BYTES)?;
        if slot == 0 {
            self.rebase(node)?;
        }
        let delta = node.saturating_sub(self.first);
        ensure(delta <= u64::from(u32::MAX), || {
            format!("L-type page: node {node} is too far from the first node")
        })?;
        self.open(at, raw);
        // The list of this slot moves as well: the new one gets its place and its number.
        self.move_offsets(slot, raw.len());
        let directory = self.directory();
        self.bytes.copy_within(directory..directory + slot * SLOT_BYTES, directory - SLOT_BYTES);
        self.num_slots += 1;
        self.put_slot(slot, delta as u32, at, (raw.len() / self.entry_bytes) as u16);
        self.store();
        Ok(())
    }

    fn check_room(&self, bytes: usize) -> Result<(), Damage> {
        let free = self.free_bytes();
        ensure(bytes <= free, || format!("L-type page: {bytes} bytes for {free} that are free"))
    }

    /// Makes `first` the smallest node, which no list of the page is below.
    fn rebase(&mut self, first: u64) -> Result<(), Damage> {
        let by = if self.num_slots == 0 { 0 } else { self.first.saturating_sub(first) };
        // The largest node is the farthest, so if its delta fits all others do, and `by` too.
        let span = self.last().saturating_sub(first);
        ensure(self.num_slots == 0 || span <= u64::from(u32::MAX), || {
            format!("L-type page: node {first} is too far from the first node")
        })?;
        self.move_deltas(by as u32);
        self.first = first;
        Ok(())
    }

    /// Writes the header's fields.
    fn store(&mut self) {
        debug_assert!(self.end <= self.directory(), "lists of {} bytes run into slots", self.end);
        let entries = (self.end - HEADER_BYTES) / self.entry_bytes;
        put(self.bytes, 6, &(self.num_slots as u16).to_le_bytes());
        put(self.bytes, 8, &self.first.to_le_bytes());
        put(self.bytes, 16, &(entries as u32).to_le_bytes());
        put(self.bytes, 20, &(self.end as u32).to_le_bytes());
    }

    /// Makes room at `at` and fills it.
    fn open(&mut self, at: usize, raw: &[u8]) {
        assert!(self.end + raw.len() <= self.directory(), "{} bytes have no room", raw.len());
        self.bytes.copy_within(at..self.end, at + raw.len());
        put(self.bytes, at, raw);
        self.end += raw.len();
    }

    fn close(&mut self, gap: Range<usize>) {
        assert!(gap.start >= HEADER_BYTES && gap.end <= self.end, "{gap:?} is not of the lists");
        self.bytes.copy_within(gap.end..self.end, gap.start);
        self.zero(self.end - gap.len()..self.end);
        self.end -= gap.len();
    }

    fn zero(&mut self, range: Range<usize>) {
        self.bytes[range].fill(0);
    }

    /// Where the directory starts.
    fn directory(&self) -> usize {
        self.bytes.len() - self.num_slots * SLOT_BYTES
    }

    fn slots(&self) -> &[[u8; SLOT_BYTES]] {
        self.bytes[self.directory()..].as_chunks().0
    }

    fn slots_mut(&mut self) -> &mut [[u8; SLOT_BYTES]] {
        let directory = self.directory();
        self.bytes[directory..].as_chunks_mut().0
    }

    fn put_slot(&mut self, slot: usize, delta: u32, offset: usize, entries: u16) {
        let slot = &mut self.slots_mut()[slot];
        put(slot, 0, &delta.to_le_bytes());
        put(slot, 4, &(offset as u16).to_le_bytes());
        put(slot, 6, &entries.to_le_bytes());
    }

    fn set_count(&mut self, slot: usize, count: usize) {
        assert!(count > 0, "slot {slot} would be that of an empty list");
        put(&mut self.slots_mut()[slot], 6, &(count as u16).to_le_bytes());
    }

    /// Adds to the offsets of slots; what wraps around subtracts.
    fn move_offsets(&mut self, from: usize, by: usize) {
        for slot in &mut self.slots_mut()[from..] {
            let moved = le_u16(slot, 4).wrapping_add(by as u16);
            put(slot, 4, &moved.to_le_bytes());
        }
    }

    /// Adds to the deltas of all slots; what wraps around subtracts.
    fn move_deltas(&mut self, by: u32) {
        for slot in self.slots_mut() {
            let moved = le_u32(slot, 0).wrapping_add(by);
            put(slot, 0, &moved.to_le_bytes());
        }
    }

    /// Where the list of a slot is, inside the lists.
    fn list(&self, slot: usize) -> Result<Range<usize>, Damage> {
        let offset = self.slots().get(slot).map_or(0, |slot| usize::from(le_u16(slot, 4)));
        let end = offset + self.count(slot) * self.entry_bytes;
        ensure(offset >= HEADER_BYTES && end <= self.end, || {
            format!("L-type page: the list at {offset}..{end} is out of range")
        })?;
        Ok(offset..end)
    }

    /// Where an entry of a list is.
    fn entry(&self, slot: usize, position: usize) -> Result<Range<usize>, Damage> {
        let list = self.list(slot)?;
        let at = list.start + position * self.entry_bytes;
        ensure(at < list.end, || {
            format!("L-type page: position {position} is past the end of its list")
        })?;
        Ok(at..at + self.entry_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ng_testing::Random;

    use super::*;

    type Model = BTreeMap<u64, Vec<Vec<u8>>>;

    fn compare(bytes: &[u8], layout: EntryLayout, model: &Model) {
        if model.is_empty() {
            return;
        }
        let page = LPage::check(bytes, 5, layout).expect("canonical");
        assert_eq!(page.len(), model.len());
        for (slot, (node, entries)) in model.iter().enumerate() {
            assert_eq!(page.slot(slot), Ok((*node, entries.concat().as_slice())));
            assert_eq!(page.find(*node), Ok(slot));
        }
    }

    fn edited<T>(
        bytes: &mut [u8],
        layout: EntryLayout,
        change: impl FnOnce(&mut LPageEdit<'_>) -> Result<T, Damage>,
    ) -> T {
        let is_blank = bytes.iter().skip(6).take(2).all(|byte| *byte == 0);
        if is_blank {
            bytes.fill(0);
        }
        let mut page = if is_blank {
            LPageEdit::blank(bytes, 5, layout)
        } else {
            LPageEdit::decode(bytes, 5, layout).expect("typed")
        };
        change(&mut page).expect("a sound page")
    }

    fn slot_of(model: &Model, node: u64) -> usize {
        model.range(..node).count()
    }

    fn step(random: &mut Random, layout: EntryLayout, bytes: &mut [u8], model: &mut Model) {
        let width = layout.entry_bytes();
        let base = 1 << 34;
        let spread = [40, 5_000, 1 << 32][random.below(3) as usize];
        let node = base + random.below(spread);
        let chosen = model.range(node..).next().map(|(node, list)| (*node, list.len()));
        let entry = random.bytes(width);
        let pick = random.below(10);
        match chosen {
            Some((node, len)) if pick < 2 && len > 1 => {
                let (slot, at) = (slot_of(model, node), random.below(len as u64) as usize);
                edited(bytes, layout, |page| page.remove_entry(slot, at));
                model.get_mut(&node).expect("there").remove(at);
            }
            Some((node, _)) if pick < 3 => {
                let slot = slot_of(model, node);
                edited(bytes, layout, |page| page.remove_list(slot));
                model.remove(&node);
            }
            Some((node, len)) if pick < 4 => {
                let (slot, at) = (slot_of(model, node), random.below(len as u64) as usize);
                edited(bytes, layout, |page| page.set(slot, at, &entry));
                model.get_mut(&node).expect("there")[at] = entry;
            }
            _ => {
                let list = model.get(&node);
                let (at, need) = list.map_or((0, width + SLOT_BYTES), |l| (l.len(), width));
                let at = random.below(at as u64 + 1) as usize;
                let fits = edited(bytes, layout, |page| Ok(page.free_bytes())) >= need;
                if fits {
                    edited(bytes, layout, |page| page.insert(node, at, &entry));
                    model.entry(node).or_default().insert(at, entry);
                } else {
                    let keep = random.below(model.len() as u64) as usize;
                    take_tail(layout, bytes, model, keep);
                }
            }
        }
    }

    /// Moves lists to a page that has one of its own, and checks both.
    fn take_tail(layout: EntryLayout, bytes: &mut [u8], model: &mut Model, keep: usize) {
        let tail = LTail::of(&LPage::check(bytes, 5, layout).expect("sound"), keep).expect("tail");
        let first = tail.first().expect("a list");
        assert_eq!(tail.len(), model.len() - keep);
        edited(bytes, layout, |page| page.truncate(keep));
        let mut moved = model.split_off(&first);
        let mut other = vec![0; bytes.len()];
        let far = first + u64::from(u32::MAX);
        let own = vec![7; layout.entry_bytes()];
        if tail.used_bytes() + own.len() + SLOT_BYTES <= bytes.len() - HEADER_BYTES {
            edited(&mut other, layout, |page| page.insert(far, 0, &own));
            if let Some(list) = moved.get_mut(&far) {
                list.push(own);
                return;
            }
            moved.insert(far, vec![own]);
        }
        edited(&mut other, layout, |page| page.prepend(&tail));
        compare(&other, layout, &moved);
    }

    #[test]
    fn a_page_stays_canonical_whatever_is_done_to_it() {
        for (seed, page_bytes) in [(21, 4096), (22, 4096), (23, 8192), (24, 65_536)] {
            println!("seed {seed}");
            let mut random = Random::new(seed);
            for bits in [0, 1, 6, 15] {
                let layout = EntryLayout {
                    id_width: if bits & 8 == 0 { 4 } else { 5 },
                    has_edge_ids: bits & 1 != 0,
                    has_time: bits & 2 != 0,
                    has_weight: bits & 4 != 0,
                };
                let (mut bytes, mut model) = (vec![0; page_bytes], Model::new());
                let steps = if page_bytes > 8192 { 12_000 } else { 4_000 };
                for step_number in 0..steps {
                    step(&mut random, layout, &mut bytes, &mut model);
                    if page_bytes <= 8192 || step_number % 50 == 0 {
                        compare(&bytes, layout, &model);
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_the_page_alone() {
        let layout =
            EntryLayout { id_width: 4, has_edge_ids: false, has_time: false, has_weight: false };
        let mut bytes = vec![0; 4096];
        let raw = vec![1; 4_000];
        let mut page = LPageEdit::blank(&mut bytes, 5, layout);
        page.insert(10, 0, &raw).expect("fits");
        assert_eq!(page.free_bytes(), 4_096 - 32 - 4_000 - 8);
        assert!(page.insert(10, 0, &[1; 60]).is_err());
        assert!(page.insert(11, 0, &[1; 52]).is_err());
        assert!(page.insert(10, 1_001, &[1; 4]).is_err());
        assert!(page.insert(11 + u64::from(u32::MAX), 0, &[1; 4]).is_err());
        assert!(page.remove_entry(0, 1_000).is_err());
        assert!(page.remove_list(1).is_err());
        let page = LPage::check(&bytes, 5, layout).expect("canonical");
        assert_eq!(page.slot(0), Ok((10, raw.as_slice())));
    }
}
