//! Unpacking pages of a topology into the columns of a [`ResidentTopology`], list by list.
//!
//! Pages come in the order of destinations (`load.rs`), a long list behind the L-type page whose
//! range it lies in. So an L-type page is unpacked up to the list that comes next, and kept until
//! the rest is due. What must not live here: reading. The invariant: lists get their places in the
//! order of destinations, each once and inside the columns, whatever the pages say.

use crate::bytes::ensure;
use crate::error::{Damage, ReadError};
use crate::page::Segment;
use crate::topology::load::Chunk;
use crate::topology::resident::Shape;
use crate::topology::{
    Column, EntryLayout, HLayout, LPage, ResidentTopology, check_h_page, degree_of,
};
use crate::tree::Record;

/// What a page must hold.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// The lists of an L-type page; the key is its largest destination.
    Short(Record),
    /// A part of a long list.
    Long { list: Record, part: u64 },
}

/// Takes pages in the order of destinations.
pub(super) struct Unpacker<'a> {
    topo: &'a Segment,
    index: &'a Segment,
    layout: EntryLayout,
    h_layout: HLayout,
    into: ResidentTopology,
    /// The first destination whose list has no place yet.
    next_node: u64,
    /// The end of the lists that have a place.
    next_entry: u64,
    /// The newest L-type page, what the index says of it, and its first list without a place.
    short: Option<(Record, usize)>,
    short_bytes: Vec<u8>,
    /// Where the newest long list begins among all entries.
    long_start: u64,
}

impl<'a> Unpacker<'a> {
    pub fn new(
        topo: &'a Segment,
        index: &'a Segment,
        layout: EntryLayout,
        into: ResidentTopology,
    ) -> Self {
        Self {
            topo,
            index,
            layout,
            h_layout: HLayout::new(layout, topo.meta.page_bytes),
            into,
            next_node: 0,
            next_entry: 0,
            short: None,
            short_bytes: Vec::new(),
            long_start: 0,
        }
    }

    /// Takes the pages that come next.
    pub fn unpack(&mut self, chunk: &Chunk) -> Result<(), ReadError> {
        let topo = self.topo;
        for piece in &chunk.pieces {
            let wrong = |damage: Damage| topo.damaged(piece.page, &damage);
            let bytes = chunk.page(piece.page);
            match piece.content {
                Content::Short(record) => {
                    self.short_before(None)?;
                    let edge_type = u32::from(self.into.edge_type.0);
                    LPage::check(bytes, edge_type, self.layout).map_err(wrong)?;
                    self.short_bytes.clear();
                    self.short_bytes.extend_from_slice(bytes);
                    self.short = Some((record, 0));
                }
                Content::Long { list, part } => {
                    if part == 0 {
                        self.short_before(Some(list.key))?;
                        let placed = self.place(list.key, degree_of(list.extra));
                        self.long_start =
                            placed.map_err(|damage| self.index.damaged(0, &damage))?;
                    }
                    self.long_part(list, part, bytes).map_err(wrong)?;
                }
            }
        }
        Ok(())
    }

    /// The topology, once all pages have come.
    pub fn finish(mut self) -> Result<ResidentTopology, ReadError> {
        self.short_before(None)?;
        let (place, end) = (self.next_node, self.next_entry);
        self.into.offsets.fill(place, self.into.shape.num_nodes + 1 - place, end);
        let expected = self.into.shape.num_edges;
        let counts = || format!("the lists have {end} entries, and the catalog says {expected}");
        ensure(end == expected, counts).map_err(|damage| self.index.damaged(0, &damage))?;
        Ok(self.into)
    }

    /// Gives the next destination with a list its place among all entries.
    fn place(&mut self, node: u64, degree: u64) -> Result<u64, Damage> {
        let Shape { num_nodes, num_edges, .. } = self.into.shape;
        ensure(node >= self.next_node && node < num_nodes, || {
            format!("the list of node {node} is out of order, or there are only {num_nodes} nodes")
        })?;
        let start = self.next_entry;
        let end = start.checked_add(degree).filter(|end| *end <= num_edges);
        self.next_entry =
            end.ok_or_else(|| Damage::new("the lists have more entries than the catalog says"))?;
        self.into.offsets.fill(self.next_node, node + 1 - self.next_node, start);
        self.next_node = node + 1;
        Ok(start)
    }

    /// Unpacks the lists of the newest L-type page before that of a destination, or all, and ends
    /// the page if that is the last of it.
    fn short_before(&mut self, node: Option<u64>) -> Result<(), ReadError> {
        let Some((record, first)) = self.short.take() else { return Ok(()) };
        let wrong = |damage: Damage| self.topo.damaged(record.page, &damage);
        let bytes = std::mem::take(&mut self.short_bytes);
        let next = self.short_lists(&bytes, first, node.unwrap_or(u64::MAX));
        self.short_bytes = bytes;
        let next = next.map_err(wrong)?;
        if node.is_some_and(|node| node <= record.key) {
            self.short = Some((record, next));
            return Ok(());
        }
        ensure(self.next_node == record.key.saturating_add(1), || {
            "the largest node of an L-type page differs from the L index".into()
        })
        .map_err(wrong)
    }

    /// Unpacks the lists of a page from slot `first` on, up to that of a destination; the slot of
    /// the latter.
    fn short_lists(&mut self, bytes: &[u8], first: usize, below: u64) -> Result<usize, Damage> {
        let page = LPage::decode(bytes, u32::from(self.into.edge_type.0), self.layout)?;
        for slot in first..page.len() {
            let (node, list, count) = page.slot_and_count(slot)?;
            if node >= below {
                return Ok(slot);
            }
            let start = self.place(node, u64::from(count))?;
            self.put(start, list)?;
        }
        Ok(page.len())
    }

    fn long_part(&mut self, list: Record, part: u64, bytes: &[u8]) -> Result<(), Damage> {
        let edge_type = u32::from(self.into.edge_type.0);
        let of = (list.key, degree_of(list.extra));
        let count = check_h_page(bytes, edge_type, self.layout, of, part)?;
        let h_layout = self.h_layout;
        let mut at = self.long_start + part * h_layout.per_page();
        for (from, count) in h_layout.blocks(count) {
            let raw = from..from + count * self.layout.entry_bytes();
            self.put(at, &bytes[raw])?;
            at += count as u64;
        }
        Ok(())
    }

    /// Decodes entries to the columns, from `at` on: a place that [`Unpacker::place`] has given, so
    /// the columns have it.
    fn put(&mut self, at: u64, raw: &[u8]) -> Result<(), Damage> {
        let (layout, shape) = (self.layout, self.into.shape);
        let num_sources = shape.num_sources;
        let beyond =
            |source: u64| format!("source {source} is out of range: there are {num_sources} nodes");
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
                    format!(
                        "edge id {} is out of range: edge ids are below {}",
                        entry.edge_id, shape.num_edge_ids
                    )
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
