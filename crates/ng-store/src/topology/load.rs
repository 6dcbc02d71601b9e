//! Reading the whole topology of an edge type into memory, in one pass and bounded windows.
//!
//! Both indexes are walked together in the order of destinations, so that each list finds its place
//! when it is met. In a store that was imported, that is the order of the files, too; pages that
//! updates have moved are read some at a time, in the order of their numbers. Nothing of it enters
//! a cache but pages of the indexes.

use std::sync::Arc;

use ng_types::EdgeTypeId;

use crate::bytes::ensure;
use crate::error::{Damage, ReadError};
use crate::io::BLOCK_BYTES;
use crate::page::{Segment, Window, read_blocks};
use crate::store::{Inner, Snapshot};
use crate::topology::resident::Shape;
use crate::topology::{
    Column, EntryLayout, HLayout, LPage, ResidentTopology, check_h_page, degree_of,
};
use crate::tree::{Record, TreeCursor, TreeKind};

impl Snapshot {
    /// What [`Snapshot::load_topology`] takes of the budget for as long as its answer lives: known
    /// before anything is read. 0 if there is no such edge type.
    pub fn resident_bytes(&self, edge_type: EdgeTypeId) -> u64 {
        self.shape(edge_type).map_or(0, |shape| shape.num_bytes())
    }

    fn shape(&self, edge_type: EdgeTypeId) -> Result<Shape, ReadError> {
        let meta = self.version.edge_type(edge_type)?;
        let nodes = |id| Ok::<_, ReadError>(self.version.node_type(id)?.num_nodes);
        Ok(Shape::new(meta, nodes(meta.source)?, nodes(meta.destination)?))
    }

    /// The topology of an edge type, if the store holds it for whoever samples.
    pub fn held_topology(&self, edge_type: EdgeTypeId) -> Option<Arc<ResidentTopology>> {
        self.inner.topologies.get((edge_type, self.fingerprint()))
    }

    /// Counts lists that were read one by one. Where it pays, the store holds all of them from now
    /// on, in memory that cached blocks had or nobody uses; a failure is left to whoever reads the
    /// list that it comes from.
    pub fn count_lists(&self, edge_type: EdgeTypeId, lists: u64) {
        let (held, key) = (&self.inner.topologies, (edge_type, self.fingerprint()));
        let bytes = self.resident_bytes(edge_type);
        if !held.count(key, lists * BLOCK_BYTES as u64, bytes) {
            return;
        }
        if !self.inner.make_room_for_topology(bytes) {
            return held.keep(key, None, true);
        }
        match self.load_topology(edge_type) {
            Ok(topology) => held.keep(key, Some(topology), true),
            Err(error) => held.keep(key, None, matches!(error, ReadError::Budget(_))),
        }
    }

    /// Reads all neighbour lists of an edge type into memory that stays. All of it is reserved from
    /// the budget first; up to 8 MiB more are used while it is read. No memory is waited for: a
    /// batch may wait for what is held already.
    ///
    /// # Errors
    /// [`ReadError::Budget`], [`ReadError::NoMemory`], [`ReadError::Missing`],
    /// [`ReadError::Checksum`], [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn load_topology(&self, edge_type: EdgeTypeId) -> Result<Arc<ResidentTopology>, ReadError> {
        if let Some(held) = self.inner.topologies.take((edge_type, self.fingerprint())) {
            return Ok(held);
        }
        let (meta, topo, index) = self.version.topology(edge_type)?;
        let shape = self.shape(edge_type)?;
        let held = self.reserve(shape.num_bytes())?;
        let of = (edge_type, self.fingerprint());
        let inner = &*self.inner;
        let page_bytes = topo.meta.page_bytes as usize;
        let cursor = |kind, root| TreeCursor::new(&inner.pages, index, kind, root);
        let window = || {
            let take = |bytes| Ok(inner.try_reserve(bytes)?);
            Window::reserve_by(inner, page_bytes, topo.num_pages, take)
        };
        let mut lists_window = window()?;
        let mut loader = Loader {
            inner,
            topo,
            index,
            layout: EntryLayout::of(meta),
            h_layout: HLayout::new(EntryLayout::of(meta), topo.meta.page_bytes),
            long_lists: cursor(TreeKind::H, meta.topology.h_root),
            next_long: None,
            parts: Vec::new(),
            parts_window: window()?,
            into: ResidentTopology::zeroed(of, shape, held)?,
            next_node: 0,
            next_entry: 0,
        };
        loader.load(cursor(TreeKind::L, meta.topology.l_root), &mut lists_window.bytes)?;
        Ok(Arc::new(loader.into))
    }
}

/// A page of a long list.
struct Part {
    page: u64,
    node: u64,
    degree: u64,
    part: u64,
    /// Where the list begins among all entries.
    start: u64,
}

struct Loader<'a> {
    inner: &'a Inner,
    topo: &'a Segment,
    index: &'a Segment,
    layout: EntryLayout,
    h_layout: HLayout,
    long_lists: TreeCursor<'a>,
    /// The first long list that has no place yet.
    next_long: Option<Record>,
    /// Pages of long lists that have a place and are not read yet.
    parts: Vec<Part>,
    parts_window: Window,
    into: ResidentTopology,
    /// The first destination whose list has no place yet.
    next_node: u64,
    /// The end of the lists that have a place.
    next_entry: u64,
}

impl Loader<'_> {
    fn load(
        &mut self,
        mut short_lists: TreeCursor<'_>,
        window: &mut [u8],
    ) -> Result<(), ReadError> {
        self.next_long = self.long_lists.next()?;
        let page_bytes = self.topo.meta.page_bytes as usize;
        let mut records = Vec::new();
        loop {
            records.clear();
            while records.len() < window.len() / page_bytes {
                let Some(record) = short_lists.next()? else { break };
                records.push(record);
            }
            if records.is_empty() {
                break;
            }
            self.short_lists(&records, window)?;
        }
        self.long_lists_below(u64::MAX)?;
        self.read_parts()?;
        let (place, end) = (self.next_node, self.next_entry);
        self.into.offsets.fill(place, self.into.shape.num_nodes + 1 - place, end);
        let expected = self.into.shape.num_edges;
        let counts = || format!("{end} entries in all lists, the catalog says {expected}");
        ensure(end == expected, counts).map_err(|damage| self.index.damaged(0, &damage))
    }

    /// Gives the next destination with a list its place among all entries.
    fn place(&mut self, node: u64, degree: u64) -> Result<u64, Damage> {
        let Shape { num_nodes, num_edges, .. } = self.into.shape;
        ensure(node >= self.next_node && node < num_nodes, || {
            format!("list of node {node} of {num_nodes}, after that of a later one")
        })?;
        let start = self.next_entry;
        let end = start.checked_add(degree).filter(|end| *end <= num_edges);
        self.next_entry = end.ok_or_else(|| Damage::new("more entries than the catalog says"))?;
        self.into.offsets.fill(self.next_node, node + 1 - self.next_node, start);
        self.next_node = node + 1;
        Ok(start)
    }

    /// Reads L-type pages, given by ascending largest node.
    fn short_lists(&mut self, records: &[Record], window: &mut [u8]) -> Result<(), ReadError> {
        let mut pages: Vec<u64> = records.iter().map(|record| record.page).collect();
        pages.sort_unstable();
        self.read(&pages, window)?;
        let page_bytes = self.topo.meta.page_bytes as usize;
        let edge_type = u32::from(self.into.edge_type.0);
        let topo = self.topo;
        for record in records {
            let at = pages.partition_point(|page| *page < record.page) * page_bytes;
            let bytes = &window[at..at + page_bytes];
            let wrong = |damage: Damage| topo.damaged(record.page, &damage);
            let page = LPage::check(bytes, edge_type, self.layout).map_err(wrong)?;
            for slot in 0..page.len() {
                let (node, list, count) = page.slot_and_count(slot).map_err(wrong)?;
                self.long_lists_below(node)?;
                let start = self.place(node, u64::from(count)).map_err(wrong)?;
                self.put(start, list).map_err(wrong)?;
            }
            ensure(self.next_node == record.key.saturating_add(1), || {
                "the L index names another largest node".into()
            })
            .map_err(wrong)?;
        }
        Ok(())
    }

    /// Gives the long lists of destinations below `node` their places.
    fn long_lists_below(&mut self, node: u64) -> Result<(), ReadError> {
        while let Some(record) = self.next_long.filter(|record| record.key < node) {
            let (key, degree) = (record.key, degree_of(record.extra));
            let index = self.index;
            let start = self.place(key, degree).map_err(|damage| index.damaged(0, &damage))?;
            for part in 0..self.h_layout.pages(degree) {
                let page = record.page.saturating_add(part);
                self.parts.push(Part { page, node: key, degree, part, start });
                if self.parts.len() * self.topo.meta.page_bytes as usize
                    >= self.parts_window.bytes.len()
                {
                    self.read_parts()?;
                }
            }
            self.next_long = self.long_lists.next()?;
        }
        Ok(())
    }

    fn read_parts(&mut self) -> Result<(), ReadError> {
        let mut parts = std::mem::take(&mut self.parts);
        let mut window = std::mem::take(&mut self.parts_window.bytes);
        parts.sort_unstable_by_key(|part| part.page);
        let pages: Vec<u64> = parts.iter().map(|part| part.page).collect();
        self.read(&pages, &mut window)?;
        let page_bytes = self.topo.meta.page_bytes as usize;
        for (part, bytes) in parts.iter().zip(window.chunks_exact(page_bytes)) {
            self.long_list_part(part, bytes)
                .map_err(|damage| self.topo.damaged(part.page, &damage))?;
        }
        self.parts_window.bytes = window;
        parts.clear();
        self.parts = parts;
        Ok(())
    }

    fn long_list_part(&mut self, part: &Part, bytes: &[u8]) -> Result<(), Damage> {
        let edge_type = u32::from(self.into.edge_type.0);
        let list = (part.node, part.degree);
        let count = check_h_page(bytes, edge_type, self.layout, list, part.part)?;
        let h_layout = self.h_layout;
        let mut at = part.start + part.part * h_layout.per_page();
        for (from, count) in h_layout.blocks(count) {
            let raw = from..from + count * self.layout.entry_bytes();
            self.put(at, &bytes[raw])?;
            at += count as u64;
        }
        Ok(())
    }

    /// Reads pages, which ascend, to the window.
    fn read(&self, pages: &[u64], window: &mut [u8]) -> Result<(), ReadError> {
        let topo = self.topo;
        let twice = || self.index.damaged(0, &Damage::new("index: two records lead to one page"));
        if !pages.is_sorted_by(|a, b| a < b) {
            return Err(twice());
        }
        if let Some(page) = pages.last().filter(|page| **page >= topo.num_pages) {
            return Err(topo.damaged(*page, &Damage::new("a pointer is past the end")));
        }
        let per_page = topo.blocks_per_page();
        let blocks: Vec<u64> =
            pages.iter().flat_map(|page| page * per_page..(page + 1) * per_page).collect();
        let there = read_blocks(self.inner, topo, &blocks, window)?;
        let found = there.iter().map(Some).chain(std::iter::repeat(None));
        let missing = blocks.iter().zip(found).find(|(block, found)| Some(*block) != *found);
        missing.map_or(Ok(()), |(block, _)| Err(topo.nowhere(block / per_page)))
    }

    /// Decodes entries to the columns, from `at` on: a place that [`Loader::place`] has given, so
    /// the columns have it.
    fn put(&mut self, at: u64, raw: &[u8]) -> Result<(), Damage> {
        let (layout, shape) = (self.layout, self.into.shape);
        let num_sources = shape.num_sources;
        let beyond = |source: u64| format!("source {source} of {num_sources} nodes");
        if layout.is_plain() && self.into.sources.width() <= 4 {
            let raw = raw.as_chunks::<4>().0;
            let most = |most: u32, raw: &[u8; 4]| most.max(u32::from_le_bytes(*raw));
            let most = u64::from(raw.iter().fold(0, most));
            ensure(most < num_sources || raw.is_empty(), || beyond(most))?;
            let width = self.into.sources.width();
            let places = self.into.sources.numbers(at, raw.len()).chunks_exact_mut(width);
            for (place, raw) in places.zip(raw) {
                place.copy_from_slice(&raw[..width]);
            }
            return Ok(());
        }
        for (at, raw) in (at..).zip(raw.chunks_exact(layout.entry_bytes())) {
            let entry = layout.decode(raw);
            ensure(entry.source < num_sources, || beyond(entry.source))?;
            set(&mut self.into.sources, at, &entry.source.to_le_bytes());
            if layout.has_edge_ids {
                ensure(entry.edge_id < shape.num_edge_ids, || {
                    format!("edge id {} of {}", entry.edge_id, shape.num_edge_ids)
                })?;
                set(&mut self.into.edge_ids, at, &entry.edge_id.to_le_bytes());
            }
            if layout.has_time {
                set(&mut self.into.times, at, &entry.time.to_le_bytes());
            }
            if layout.has_weight {
                set(&mut self.into.weights, at, &entry.weight.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Writes number `at` of a column.
fn set(column: &mut Column, at: u64, value: &[u8]) {
    let width = column.width();
    column.numbers(at, 1).copy_from_slice(&value[..width]);
}
