//! Changing neighbour lists one entry at a time (HolisticGNN, section 4.1, unit operations).
//!
//! What lives here: the operations on a list, whichever kind it is of; short lists are placed in
//! `l_lists.rs`, long ones in `h_edit.rs`. What must not: files, logs, versions. The invariant: the
//! order of a list is content, so neither eviction, promotion nor demotion changes it; after each
//! call pages, indexes, gmap and counts of the catalog agree.

use ng_types::EdgeTypeId;

use crate::bytes::ensure;
use crate::catalog::{EdgeTypeMeta, TreeRoot};
use crate::error::{Damage, ReadError};
use crate::page::Edit;
use crate::topology::h_edit::HList;
use crate::topology::page::HEADER_BYTES;
use crate::topology::{Entry, EntryLayout, HLayout};
use crate::tree::{Bitmap, Record, Tree, TreeKind};

/// No page is fuller when it has evicted.
const EVICTED_FILL_MAX: f64 = 0.9;

/// The lists of one edge type in a transaction.
pub(crate) struct TopologyEdit<'a> {
    pub(super) edit: &'a mut Edit,
    pub(super) edge_type: EdgeTypeId,
    pub(super) layout: EntryLayout,
    pub(super) h_layout: HLayout,
    /// Segment of the pages.
    pub(super) topo: u32,
    /// Segment of trees and gmap.
    pub(super) index: u32,
    pub(super) page_bytes: usize,
    /// Lists and slots that an L-type page keeps when it is full.
    pub(super) fill_bytes: usize,
}

/// Where a node's list is.
enum Home {
    /// In pages of its own.
    Long(HList),
    /// In this L-type page if anywhere: the first whose key is not below the node, else the last.
    Short(Option<Record>),
}

impl<'a> TopologyEdit<'a> {
    /// The lists of `edge_type`; a full L-type page evicts until it is filled to `fill`, and leaves
    /// some room even if an import left none: it would have to evict again and again.
    ///
    /// # Errors
    /// [`ReadError::Missing`] if there is no such edge type.
    pub fn new(edit: &'a mut Edit, edge_type: EdgeTypeId, fill: f64) -> Result<Self, ReadError> {
        let missing = || ReadError::Missing { what: format!("edge type {}", edge_type.0) };
        let meta = edit.catalog.edge_types.get(usize::from(edge_type.0)).ok_or_else(missing)?;
        let (layout, topo, index) =
            (EntryLayout::of(meta), meta.topology.pages, meta.topology.index);
        let page_bytes = edit.page_bytes(topo);
        let room = page_bytes.checked_sub(HEADER_BYTES).ok_or_else(missing)?;
        let fill_bytes = (room as f64 * fill.min(EVICTED_FILL_MAX)) as usize;
        let h_layout = HLayout::new(layout, page_bytes as u32);
        Ok(Self { edit, edge_type, layout, h_layout, topo, index, page_bytes, fill_bytes })
    }

    /// The list of `node`; empty if it has no neighbours.
    #[cfg(test)]
    pub fn list(&mut self, node: u64) -> Result<Vec<Entry>, ReadError> {
        let found = self.matching(node, None)?.1;
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    /// The length of the list of `node`.
    pub fn degree(&mut self, node: u64) -> Result<u64, ReadError> {
        let home = self.home(node)?;
        self.degree_at(&home, node)
    }

    /// Appends an entry to the list of `node`; where entries have a time, puts it after the last
    /// one that is not later.
    pub fn insert(&mut self, node: u64, entry: &Entry) -> Result<(), ReadError> {
        let raw = self.encode(entry);
        match self.home(node)? {
            Home::Long(list) => self.h_insert(list, entry.time, &raw)?,
            Home::Short(home) => self.insert_short(home, node, entry.time, &raw)?,
        }
        self.meta().num_edges += 1;
        self.edit.counts.list_updates += 1;
        self.edit.touched.list(self.edge_type, node);
        Ok(())
    }

    /// The entries of `node`'s list that come from `source`, with their positions.
    pub fn find(&mut self, node: u64, source: u64) -> Result<Vec<(u64, Entry)>, ReadError> {
        Ok(self.matching(node, Some(source))?.1)
    }

    /// Takes the entries of `node`'s list that come from `source` out of it, or the one of them
    /// with this edge id, and returns them. The others keep their order.
    pub fn remove(
        &mut self,
        node: u64,
        source: u64,
        edge_id: Option<u64>,
    ) -> Result<Vec<Entry>, ReadError> {
        let (home, mut found) = self.matching(node, Some(source))?;
        found.retain(|(_, entry)| edge_id.is_none_or(|edge_id| edge_id == entry.edge_id));
        let (positions, entries): (Vec<u64>, Vec<Entry>) = found.into_iter().unzip();
        if !entries.is_empty() {
            match home {
                Home::Long(list) => self.h_remove(list, &positions)?,
                Home::Short(home) => self.remove_short(home, node, Some(&positions))?,
            }
        }
        self.count_removed(node, entries.len());
        Ok(entries)
    }

    /// Overwrites the entry at `position` of `node`'s list by one of the same time.
    ///
    /// # Errors
    /// [`ReadError::PositionOutOfRange`] if the list is shorter.
    pub fn set(&mut self, node: u64, position: u64, entry: &Entry) -> Result<(), ReadError> {
        let (raw, home) = (self.encode(entry), self.home(node)?);
        let degree = self.degree_at(&home, node)?;
        if position >= degree {
            return Err(ReadError::PositionOutOfRange { node, position, degree });
        }
        self.edit.touched.list(self.edge_type, node);
        match home {
            Home::Long(list) => self.h_overwrite(list, position, &raw, 0),
            Home::Short(home) => self.set_short(home, node, position as usize, &raw),
        }
    }

    /// Takes the whole list of `node` out and returns it.
    pub fn take(&mut self, node: u64) -> Result<Vec<Entry>, ReadError> {
        let (home, found) = self.matching(node, None)?;
        if !found.is_empty() {
            match home {
                Home::Long(list) => self.h_drop(list)?,
                Home::Short(home) => self.remove_short(home, node, None)?,
            }
        }
        self.count_removed(node, found.len());
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    fn encode(&self, entry: &Entry) -> Vec<u8> {
        debug_assert!(entry.source < self.layout.id_bound(), "{entry:?}");
        let mut raw = Vec::with_capacity(self.layout.entry_bytes());
        self.layout.encode(entry, &mut raw);
        raw
    }

    fn count_removed(&mut self, node: u64, count: usize) {
        if count > 0 && !ng_types::canary::planted("lists_change_unseen") {
            self.edit.touched.list(self.edge_type, node);
        }
        let meta = self.meta();
        meta.num_edges = meta.num_edges.saturating_sub(count as u64);
        self.edit.counts.list_updates += count as u64;
    }

    fn home(&mut self, node: u64) -> Result<Home, ReadError> {
        if !self.gmap().get(self.edit, node)? {
            return Ok(Home::Short(self.tree(TreeKind::L).at_or_last(self.edit, node)?));
        }
        let tree = self.tree(TreeKind::H);
        let Some(record) = tree.find(self.edit, node)? else {
            let page = tree.root.map_or(0, |root| root.page);
            let what = Damage::new(format!("node {node} is in the gmap but not in the H index"));
            return Err(self.edit.damaged(self.index, page, &what));
        };
        Ok(Home::Long(HList::of(record)))
    }

    fn degree_at(&mut self, home: &Home, node: u64) -> Result<u64, ReadError> {
        match home {
            Home::Long(list) => Ok(list.degree),
            Home::Short(home) => {
                let bytes = self.short_list(*home, node, &mut |list| list.len())?;
                Ok((bytes.unwrap_or(0) / self.layout.entry_bytes()) as u64)
            }
        }
    }

    /// Where the list of `node` is, and its entries from `source` (or all), with positions.
    fn matching(
        &mut self,
        node: u64,
        source: Option<u64>,
    ) -> Result<(Home, Vec<(u64, Entry)>), ReadError> {
        let (home, layout) = (self.home(node)?, self.layout);
        let mut found = Vec::new();
        let mut visit = |first: u64, block: &[u8]| match source {
            Some(source) => layout.find_source(block, source, &mut |place, entry| {
                found.push((first + place, entry));
            }),
            None => {
                let entries = block.chunks_exact(layout.entry_bytes());
                found.extend((first..).zip(entries.map(|raw| layout.decode(raw))));
            }
        };
        match &home {
            Home::Long(list) => self.h_scan(*list, &mut visit)?,
            Home::Short(home) => {
                self.short_list(*home, node, &mut |list| visit(0, list))?;
            }
        }
        Ok((home, found))
    }

    /// The edge type; it exists, or [`TopologyEdit::new`] would have failed.
    pub(super) fn meta(&mut self) -> &mut EdgeTypeMeta {
        &mut self.edit.catalog.edge_types[usize::from(self.edge_type.0)]
    }

    pub(super) fn gmap(&mut self) -> Bitmap {
        Bitmap { directory: self.tree(TreeKind::Gmap) }
    }

    pub(super) fn tree(&mut self, kind: TreeKind) -> Tree {
        Tree { segment: self.index, kind, root: *self.root(kind) }
    }

    /// Changes one of the trees and keeps its root.
    pub(super) fn change_tree<T>(
        &mut self,
        kind: TreeKind,
        change: impl FnOnce(&mut Tree, &mut Edit) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let mut tree = self.tree(kind);
        let result = change(&mut tree, self.edit);
        *self.root(kind) = tree.root;
        result
    }

    /// Changes the record of a key that the index has been asked for before; `change` says whether
    /// it was found again, as it is unless keys are out of order.
    pub(super) fn change_record(
        &mut self,
        kind: TreeKind,
        key: u64,
        change: impl FnOnce(&mut Tree, &mut Edit) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        let found = self.change_tree(kind, change)?;
        ensure(found, || format!("the {kind:?} index has no record with key {key}"))
            .map_err(|damage| self.edit.damaged(self.index, 0, &damage))
    }

    fn root(&mut self, kind: TreeKind) -> &mut Option<TreeRoot> {
        let topology = &mut self.meta().topology;
        match kind {
            TreeKind::H => &mut topology.h_root,
            TreeKind::Gmap => &mut topology.gmap_root,
            TreeKind::L | TreeKind::Names => &mut topology.l_root,
        }
    }
}
