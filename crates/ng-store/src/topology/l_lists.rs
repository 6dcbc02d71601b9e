//! Which L-type page a short list is on, and what happens when that page is full.
//!
//! A list goes to the first page whose key (its largest node) is not below the node, so ranges of
//! nodes stay disjoint; a node above all keys goes to the last page while there is room. A full
//! page evicts the lists of its LARGEST nodes to a page of their own range (HolisticGNN, section
//! 4.1). The invariant: the key of a page in the L index is exactly its largest node.

use crate::error::{Damage, ReadError};
use crate::topology::l_edit::{LPageEdit, LTail};
use crate::topology::l_page::SLOT_BYTES;
use crate::topology::page::HEADER_BYTES;
use crate::topology::{LPage, TopologyEdit};
use crate::tree::{Record, TreeKind};

/// A node and the entries that go to a position of its list.
#[derive(Clone, Copy)]
struct Addition<'a> {
    node: u64,
    position: usize,
    raw: &'a [u8],
}

impl Addition<'_> {
    fn put(&self, page: &mut LPageEdit<'_>) -> Result<(), Damage> {
        page.insert(self.node, self.position, self.raw)
    }
}

/// What is to be done with an addition; each with its position in the list.
enum Plan {
    /// There is room.
    Place(usize),
    /// The page is full.
    Evict(usize),
    /// The list gets too long for an L-type page.
    Promote(usize),
    /// The node starts a page.
    Start,
}

/// How a full page is cut.
struct Cut {
    /// Lists that stay.
    len: usize,
    /// Whether the list of the addition does.
    stays: bool,
    /// Those that do not.
    tail: LTail,
}

impl TopologyEdit<'_> {
    /// Adds an entry by time, or a whole list, to the node that `home` is the page of.
    pub(super) fn insert_short(
        &mut self,
        home: Option<Record>,
        node: u64,
        time: i64,
        raw: &[u8],
    ) -> Result<(), ReadError> {
        let Some(home) = home else {
            return self.start_page(node, raw);
        };
        let addition = |position| Addition { node, position, raw };
        match self.plan(home, node, time, raw.len())? {
            Plan::Place(position) => {
                self.change_page(home.page, |page| addition(position).put(page))?;
                if node > home.key { self.rekey(home, node) } else { Ok(()) }
            }
            Plan::Evict(position) => self.evict(home, addition(position)),
            Plan::Promote(position) => {
                let copy = self.short_list(Some(home), node, &mut <[u8]>::to_vec)?;
                let mut list = copy.unwrap_or_default();
                let at = position * self.layout.entry_bytes();
                list.splice(at..at, raw.iter().copied());
                self.remove_short(Some(home), node, None)?;
                self.edit.counts.promotions += 1;
                self.h_create(node, &list)
            }
            Plan::Start => self.start_page(node, raw),
        }
    }

    /// Takes positions (ascending), or the whole list, out of the list of `node`.
    pub(super) fn remove_short(
        &mut self,
        home: Option<Record>,
        node: u64,
        positions: Option<&[u64]>,
    ) -> Result<(), ReadError> {
        let Some(home) = home else {
            return Ok(());
        };
        let (len, last) = self.change_page(home.page, |page| {
            let slot = page.find(node).map_err(|_| no_list(node))?;
            match positions {
                Some(positions) if positions.len() < page.count(slot) => {
                    for position in positions.iter().rev() {
                        page.remove_entry(slot, *position as usize)?;
                    }
                }
                _ => page.remove_list(slot)?,
            }
            Ok((page.len(), page.last()))
        })?;
        if len == 0 {
            self.edit.remove(self.topo, home.page);
            self.change_record(TreeKind::L, home.key, |tree, edit| {
                Ok(tree.remove(edit, home.key)?.is_some())
            })?;
            let topology = &mut self.meta().topology;
            topology.num_l_pages = topology.num_l_pages.saturating_sub(1);
        } else if last != home.key {
            self.rekey(home, last)?;
        }
        Ok(())
    }

    /// Overwrites an entry of `node`'s list.
    pub(super) fn set_short(
        &mut self,
        home: Option<Record>,
        node: u64,
        position: usize,
        raw: &[u8],
    ) -> Result<(), ReadError> {
        let Some(home) = home else {
            return Ok(());
        };
        self.change_page(home.page, |page| {
            let slot = page.find(node).map_err(|_| no_list(node))?;
            page.set(slot, position, raw)
        })
    }

    /// Shows the raw list of `node` to `visit`; `None` if the page has none.
    pub(super) fn short_list<T>(
        &mut self,
        home: Option<Record>,
        node: u64,
        visit: &mut dyn FnMut(&[u8]) -> T,
    ) -> Result<Option<T>, ReadError> {
        match home.filter(|home| home.key >= node) {
            Some(home) => self.read_page(home.page, |page| {
                let list = page.list(node)?;
                Ok((!list.is_empty()).then(|| visit(list)))
            }),
            None => Ok(None),
        }
    }

    fn plan(
        &mut self,
        home: Record,
        node: u64,
        time: i64,
        bytes: usize,
    ) -> Result<Plan, ReadError> {
        let (layout, room) = (self.layout, self.page_bytes - HEADER_BYTES);
        self.read_page(home.page, |page| {
            let list = page.list(node)?;
            let not_later = |raw: &[u8]| !layout.has_time || layout.decode(raw).time <= time;
            let width = layout.entry_bytes();
            let position = partition(list.len() / width, |at| not_later(&list[at * width..]));
            let span = home.key.max(node) - page.first().min(node);
            let slot = if list.is_empty() { SLOT_BYTES } else { 0 };
            Ok(if list.len() + bytes > room / 2 {
                Plan::Promote(position)
            } else if span > u64::from(u32::MAX) {
                Plan::Start
            } else if page.used_bytes() + bytes + slot <= room {
                Plan::Place(position)
            } else if node > home.key {
                Plan::Start
            } else {
                Plan::Evict(position)
            })
        })
    }

    /// A new page with one list.
    fn start_page(&mut self, node: u64, raw: &[u8]) -> Result<(), ReadError> {
        let page = self.create_page(|page| page.insert(node, 0, raw))?;
        let record = Record { key: node, page, extra: 0 };
        self.change_tree(TreeKind::L, |tree, edit| tree.insert(edit, record))
    }

    /// Moves the lists of the largest nodes away until the rest fits, with the addition in it or
    /// gone with them.
    fn evict(&mut self, home: Record, addition: Addition<'_>) -> Result<(), ReadError> {
        let (fill, room) = (self.fill_bytes, self.page_bytes - HEADER_BYTES);
        let cut = self.read_page(home.page, |page| cut(page, addition, fill, room))?;
        let added = if cut.stays { 0 } else { addition.raw.len() + SLOT_BYTES };
        let bytes = cut.tail.used_bytes() + added;
        let smallest = cut.tail.first().map_or(addition.node, |first| first.min(addition.node));
        let next = self.next_with_room(home.key, smallest, bytes)?;
        let last = self.change_page(home.page, |page| {
            page.truncate(cut.len)?;
            if cut.stays {
                addition.put(page)?;
            }
            Ok(page.last())
        })?;
        let fill_page = |page: &mut LPageEdit<'_>| {
            page.prepend(&cut.tail)?;
            if cut.stays { Ok(()) } else { addition.put(page) }
        };
        self.edit.counts.evictions += 1;
        self.edit.counts.lists_evicted += cut.tail.len() as u64;
        if let Some(next) = next {
            self.change_page(next, fill_page)?;
            return self.rekey(home, last);
        }
        let page = self.create_page(fill_page)?;
        self.change_record(TreeKind::L, home.key, |tree, edit| {
            tree.insert(edit, Record { key: last, ..home })?;
            tree.update(edit, Record { page, ..home })
        })
    }

    /// The page after `key` in the index, if it takes `bytes` from node `smallest` on.
    fn next_with_room(
        &mut self,
        key: u64,
        smallest: u64,
        bytes: usize,
    ) -> Result<Option<u64>, ReadError> {
        let tree = self.tree(TreeKind::L);
        let Some(next) = tree.lower_bound(self.edit, key.saturating_add(1))? else {
            return Ok(None);
        };
        if next.key.saturating_sub(smallest) > u64::from(u32::MAX) {
            return Ok(None);
        }
        let used = self.read_page(next.page, |page| Ok(page.used_bytes()))?;
        Ok((used + bytes <= self.fill_bytes).then_some(next.page))
    }

    fn rekey(&mut self, home: Record, key: u64) -> Result<(), ReadError> {
        let by = Record { key, ..home };
        self.change_record(TreeKind::L, home.key, |tree, edit| tree.replace(edit, home.key, by))
    }

    fn read_page<T>(
        &mut self,
        page: u64,
        visit: impl FnOnce(&LPage<'_>) -> Result<T, Damage>,
    ) -> Result<T, ReadError> {
        let bytes = self.edit.look(self.topo, page)?;
        LPage::decode(bytes, u32::from(self.edge_type.0), self.layout)
            .and_then(|typed| visit(&typed))
            .map_err(|damage| self.edit.damaged(self.topo, page, &damage))
    }

    fn change_page<T>(
        &mut self,
        page: u64,
        change: impl FnOnce(&mut LPageEdit<'_>) -> Result<T, Damage>,
    ) -> Result<T, ReadError> {
        let bytes = self.edit.write(self.topo, page)?;
        LPageEdit::decode(bytes, u32::from(self.edge_type.0), self.layout)
            .and_then(|mut typed| change(&mut typed))
            .map_err(|damage| self.edit.damaged(self.topo, page, &damage))
    }

    fn create_page(
        &mut self,
        fill: impl FnOnce(&mut LPageEdit<'_>) -> Result<(), Damage>,
    ) -> Result<u64, ReadError> {
        let mut bytes = vec![0; self.page_bytes];
        let edge_type = u32::from(self.edge_type.0);
        fill(&mut LPageEdit::blank(&mut bytes, edge_type, self.layout))
            .map_err(|damage| self.edit.damaged(self.topo, 0, &damage))?;
        self.meta().topology.num_l_pages += 1;
        self.edit.create(self.topo, bytes)
    }
}

fn no_list(node: u64) -> Damage {
    Damage::new(format!("L-type page: it has no list of node {node}"))
}

/// The first index below `len` for which `is_before` does not hold.
fn partition(len: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Cuts the lists of the largest nodes off a full page, one by one, until the rest with the
/// addition is within `fill` of the `room`. All that is cut off fits on one page.
fn cut(page: &LPage<'_>, addition: Addition<'_>, fill: usize, room: usize) -> Result<Cut, Damage> {
    let (place, is_new) = match page.find(addition.node) {
        Ok(slot) => (slot, false),
        Err(slot) => (slot, true),
    };
    // Lists are counted as if the addition were in the page already.
    let bytes_at = |at: usize| {
        if at == place && is_new {
            return Ok(addition.raw.len() + SLOT_BYTES);
        }
        let slot = if is_new && at > place { at - 1 } else { at };
        let added = if at == place { addition.raw.len() } else { 0 };
        Ok(page.slot(slot)?.1.len() + SLOT_BYTES + added)
    };
    let new_slot = if is_new { SLOT_BYTES } else { 0 };
    let mut rest = page.used_bytes() + addition.raw.len() + new_slot;
    let (mut len, mut gone) = (page.len() + usize::from(is_new), 0);
    while rest > fill && len > 1 {
        let bytes = bytes_at(len - 1)?;
        if gone + bytes > room {
            break;
        }
        (rest, gone, len) = (rest.saturating_sub(bytes), gone + bytes, len - 1);
    }
    let stays = place < len;
    if stays && is_new {
        len -= 1;
    }
    Ok(Cut { len, stays, tail: LTail::of(page, len)? })
}
