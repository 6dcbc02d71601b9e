//! Reading the whole topology of an edge type into memory, in one pass and two bounded windows: one
//! is read while the other is unpacked (`unpack.rs`).
//!
//! Both indexes are walked together in the order of destinations, so that each list finds its place
//! when it is met. In a store that was imported, that is the order of the files, too, and reads are
//! as long as the disk takes them; pages that updates have moved are read some at a time, in the
//! order of their numbers. Nothing of it enters a cache but pages of the indexes.

use std::panic::resume_unwind;
use std::sync::Arc;

use ng_types::EdgeTypeId;

use crate::error::{Damage, ReadError};
use crate::io::BLOCK_BYTES;
use crate::page::{Segment, Window, read_blocks};
use crate::store::{Inner, Snapshot};
use crate::topology::resident::Shape;
use crate::topology::unpack::{Content, Unpacker};
use crate::topology::{EntryLayout, HLayout, ResidentTopology, degree_of};
use crate::tree::{Record, TreeCursor, TreeKind};
use crate::version::base::Version;

impl Snapshot {
    /// Returns the bytes that [`Snapshot::load_topology`] reserves while its result exists, without
    /// reading anything. 0 if the edge type does not exist.
    pub fn resident_bytes(&self, edge_type: EdgeTypeId) -> u64 {
        topology_bytes(&self.version, edge_type).unwrap_or(0)
    }

    /// Returns the topology of an edge type if the store holds it in memory.
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
        self.load_claimed_topology(edge_type);
    }

    /// Reads the topology of an edge type and holds it: whoever calls this has claimed it.
    pub(crate) fn load_claimed_topology(&self, edge_type: EdgeTypeId) {
        let (held, key) = (&self.inner.topologies, (edge_type, self.fingerprint()));
        match self.load_topology(edge_type) {
            Ok(topology) => held.keep(key, Some(topology), true),
            Err(error) => held.keep(key, None, matches!(error, ReadError::Budget(_))),
        }
    }

    /// Reads all neighbour lists of an edge type into memory. It reserves the memory from the
    /// budget first, and up to 8 MiB more while it reads. It does not wait for memory, because a
    /// batch may wait for memory that is already held.
    ///
    /// # Errors
    /// [`ReadError::Budget`], [`ReadError::NoMemory`], [`ReadError::Missing`],
    /// [`ReadError::Checksum`], [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn load_topology(&self, edge_type: EdgeTypeId) -> Result<Arc<ResidentTopology>, ReadError> {
        if let Some(held) = self.inner.topologies.take((edge_type, self.fingerprint())) {
            return Ok(held);
        }
        let (meta, topo, index) = self.version.topology(edge_type)?;
        let shape = shape(&self.version, edge_type)?;
        let held = self.reserve(shape.num_bytes())?;
        let of = (edge_type, self.fingerprint());
        let inner = &*self.inner;
        let layout = EntryLayout::of(meta);
        let cursor = |kind, root| TreeCursor::new(&inner.pages, index, kind, root);
        let mut lists = Lists {
            inner,
            topo,
            index,
            short: cursor(TreeKind::L, meta.topology.l_root),
            long: cursor(TreeKind::H, meta.topology.h_root),
            h_layout: HLayout::new(layout, topo.meta.page_bytes),
            next_long: None,
            part: 0,
            long_below: 0,
        };
        let into = ResidentTopology::zeroed(of, shape, held)?;
        let mut unpacker = Unpacker::new(topo, index, layout, into);
        lists.load(&mut unpacker)?;
        unpacker.finish().map(Arc::new)
    }
}

fn shape(version: &Version, edge_type: EdgeTypeId) -> Result<Shape, ReadError> {
    let meta = version.edge_type(edge_type)?;
    let nodes = |id| Ok::<_, ReadError>(version.node_type(id)?.num_nodes);
    Ok(Shape::new(meta, nodes(meta.source)?, nodes(meta.destination)?))
}

/// Bytes that the topology of an edge type takes in memory.
pub(crate) fn topology_bytes(version: &Version, edge_type: EdgeTypeId) -> Result<u64, ReadError> {
    Ok(shape(version, edge_type)?.num_bytes())
}

/// A page of the topology, and what it must hold.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub page: u64,
    pub content: Content,
}

/// Pages that are read together.
pub(super) struct Chunk {
    /// In the order of destinations.
    pub pieces: Vec<Piece>,
    /// The same pages, ascending.
    pages: Vec<u64>,
    page_bytes: usize,
    window: Window,
}

impl Chunk {
    /// The bytes of one of its pages.
    pub fn page(&self, page: u64) -> &[u8] {
        let at = self.pages.partition_point(|other| *other < page) * self.page_bytes;
        &self.window.bytes[at..at + self.page_bytes]
    }
}

/// All pages of an edge type in the order of destinations: each L-type page, then those of the long
/// lists up to its largest node, so that a list is met when all before it have their places.
struct Lists<'a> {
    inner: &'a Inner,
    topo: &'a Segment,
    index: &'a Segment,
    short: TreeCursor<'a>,
    long: TreeCursor<'a>,
    h_layout: HLayout,
    /// The long list that comes next, and the part of it.
    next_long: Option<Record>,
    part: u64,
    /// Long lists of destinations below this come before the next L-type page.
    long_below: u64,
}

impl Lists<'_> {
    fn load(&mut self, unpacker: &mut Unpacker<'_>) -> Result<(), ReadError> {
        self.next_long = self.long.next()?;
        let (mut chunk, mut next) = (self.chunk()?, self.chunk()?);
        self.read_next(&mut chunk)?;
        while !chunk.pieces.is_empty() {
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().name("ng-unpack".into());
                let unpack = || unpacker.unpack(&chunk);
                let unpacks = thread.spawn_scoped(scope, unpack).map_err(|source| {
                    ReadError::NoMemory { bytes: chunk.window.bytes.len() as u64, source }
                })?;
                let read = self.read_next(&mut next);
                unpacks.join().unwrap_or_else(|panic| resume_unwind(panic)).and(read)
            })?;
            std::mem::swap(&mut chunk, &mut next);
        }
        Ok(())
    }

    fn chunk(&self) -> Result<Chunk, ReadError> {
        let page_bytes = self.topo.meta.page_bytes as usize;
        let take = |bytes| Ok(self.inner.try_reserve(bytes)?);
        let window = Window::reserve_by(self.inner, page_bytes, self.topo.num_pages, take)?;
        Ok(Chunk { pieces: Vec::new(), pages: Vec::new(), page_bytes, window })
    }

    /// Reads the next pages, none behind the last.
    fn read_next(&mut self, chunk: &mut Chunk) -> Result<(), ReadError> {
        let Chunk { pieces, pages, page_bytes, window } = chunk;
        pieces.clear();
        while pieces.len() < window.bytes.len() / *page_bytes {
            let Some(piece) = self.next()? else { break };
            pieces.push(piece);
        }
        pages.clear();
        pages.extend(pieces.iter().map(|piece| piece.page));
        pages.sort_unstable();
        self.read(pages, &mut window.bytes)
    }

    fn next(&mut self) -> Result<Option<Piece>, ReadError> {
        loop {
            if let Some(list) = self.next_long.filter(|list| list.key < self.long_below) {
                let part = self.part;
                self.part += 1;
                if self.part >= self.h_layout.pages(degree_of(list.extra)) {
                    (self.next_long, self.part) = (self.long.next()?, 0);
                }
                let content = Content::Long { list, part };
                return Ok(Some(Piece { page: list.page.saturating_add(part), content }));
            }
            if let Some(record) = self.short.next()? {
                self.long_below = record.key;
                return Ok(Some(Piece { page: record.page, content: Content::Short(record) }));
            }
            if self.long_below == u64::MAX {
                return Ok(None);
            }
            self.long_below = u64::MAX;
        }
    }

    /// Reads pages, which ascend, to the window.
    fn read(&self, pages: &[u64], window: &mut [u8]) -> Result<(), ReadError> {
        let topo = self.topo;
        let twice = || self.index.damaged(0, &Damage::new("index: two records lead to one page"));
        if !pages.is_sorted_by(|a, b| a < b) {
            return Err(twice());
        }
        if let Some(page) = pages.last().filter(|page| **page >= topo.num_pages) {
            return Err(topo.damaged(*page, &Damage::new("a pointer leads past the last page")));
        }
        let per_page = topo.blocks_per_page();
        let blocks: Vec<u64> =
            pages.iter().flat_map(|page| page * per_page..(page + 1) * per_page).collect();
        let there = read_blocks(self.inner, topo, &blocks, window)?;
        let found = there.iter().map(Some).chain(std::iter::repeat(None));
        let missing = blocks.iter().zip(found).find(|(block, found)| Some(*block) != *found);
        missing.map_or(Ok(()), |(block, _)| Err(topo.nowhere(block / per_page)))
    }
}
