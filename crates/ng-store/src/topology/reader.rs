//! Reading neighbour lists for a batch of destinations.
//!
//! Destinations are sorted once, and every structure is then walked in that order: gmap, H index,
//! L index, L-type pages, blocks of H-type pages. Positions are drawn before an H-type page is
//! read, so a hub costs at most one block for each position. Results end in request order whatever
//! the order of arrival.

use ng_types::{EdgeTypeId, NodeId};

use crate::catalog::{EdgeTypeMeta, TreeRoot};
use crate::error::{Damage, ReadError};
use crate::io::BLOCK_BYTES;
use crate::page::{Pages, Segment};
use crate::topology::{Draw, EntryLayout, Expansion, GMAP_NODES, HLayout, LPage, degree_of};
use crate::tree::lookup::lookup;
use crate::tree::{Hit, TreeKind, sort_by_page};

/// The topology of one edge type in an open store.
pub(crate) struct TopologyReader<'a> {
    pub pages: &'a Pages,
    pub edge_type: EdgeTypeId,
    pub meta: &'a EdgeTypeMeta,
    /// Nodes of the type that sources are of.
    pub num_sources: u64,
    pub topo: &'a Segment,
    pub index: &'a Segment,
}

/// A destination of the request and its place there.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub node: NodeId,
    pub place: usize,
}

/// Where the lists of some destinations are.
pub(crate) struct Lists {
    /// Destinations with short lists or none, and the pages of those that have one.
    pub short: Vec<Wanted>,
    pub short_hits: Vec<Hit>,
    /// Destinations with long lists, and where each list is.
    pub long: Vec<Wanted>,
    pub long_hits: Vec<Hit>,
}

/// One position of a long list that was drawn.
#[derive(Clone, Copy)]
pub(crate) struct HubEntry {
    pub block: u64,
    pub offset: u16,
    /// Where the entry goes among the arrivals.
    pub arrival: usize,
}

/// What is read for a request: the page of some short lists, or entries in one block of long ones.
enum Part<'a> {
    Short(&'a Hit),
    Long(&'a [HubEntry]),
}

impl Part<'_> {
    /// The first block of it.
    fn block(&self, blocks_per_page: u64) -> u64 {
        match self {
            Self::Short(hit) => hit.record.page.saturating_mul(blocks_per_page),
            Self::Long(entries) => entries.first().map_or(0, |entry| entry.block),
        }
    }
}

/// Entries in order of arrival, and where each destination's are.
pub(crate) struct Arrivals {
    pub layout: EntryLayout,
    /// Sources, and edge ids where there are any, are below these.
    bounds: (u64, u64),
    pub entries: Expansion,
    /// Start and count by place in the request.
    lists: Vec<(usize, usize)>,
    positions: Vec<u64>,
}

impl TopologyReader<'_> {
    /// Chooses entries of the lists of `destinations` with `draw` and puts them into `out`.
    pub fn expand(
        &self,
        destinations: &[NodeId],
        draw: &mut Draw<'_>,
        out: &mut Expansion,
    ) -> Result<(), ReadError> {
        let mut wanted: Vec<Wanted> = destinations
            .iter()
            .enumerate()
            .map(|(place, node)| Wanted { node: *node, place })
            .collect();
        if !wanted.is_sorted_by_key(|w| w.node) {
            wanted.sort_unstable_by_key(|w| (w.node, w.place));
        }
        let mut arrivals = self.arrivals(destinations.len());
        let lists = self.locate(&wanted)?;
        self.read_pages(&lists, draw, &mut arrivals)?;
        arrivals.into_request_order(out);
        Ok(())
    }

    /// Room for the lists of `count` destinations.
    pub fn arrivals(&self, count: usize) -> Arrivals {
        Arrivals {
            layout: EntryLayout::of(self.meta),
            bounds: (self.num_sources, self.meta.num_edge_ids),
            entries: Expansion::default(),
            lists: vec![(0, 0); count],
            positions: Vec::new(),
        }
    }

    /// Finds the lists of `wanted`, which is sorted by node.
    pub fn locate(&self, wanted: &[Wanted]) -> Result<Lists, ReadError> {
        let (long, short) = self.split_hubs(wanted)?;
        let nodes = |wanted: &[Wanted]| wanted.iter().map(|w| w.node).collect::<Vec<u64>>();
        let find = |root: Option<TreeRoot>, kind, wanted: &[Wanted]| match root {
            Some(root) => lookup(self.pages, self.index, root, kind, &nodes(wanted)),
            None => Ok(Vec::new()),
        };
        let mut short_hits = find(self.meta.topology.l_root, TreeKind::L, &short)?;
        sort_by_page(self.index, &mut short_hits)?;
        let long_hits = find(self.meta.topology.h_root, TreeKind::H, &long)?;
        let is_of = |hit: &Hit| {
            let group = &long[hit.keys.clone()];
            group.iter().filter(|w| w.node == hit.record.key).count()
        };
        if long_hits.iter().map(is_of).sum::<usize>() != long.len() {
            let what = Damage::new("a node in the gmap is not in the H index");
            return Err(self.index.damaged(0, &what));
        }
        Ok(Lists { short, short_hits, long, long_hits })
    }

    /// Splits destinations by the gmap: long lists, and all others.
    fn split_hubs(&self, wanted: &[Wanted]) -> Result<(Vec<Wanted>, Vec<Wanted>), ReadError> {
        let Some(root) = self.meta.topology.gmap_root else {
            return Ok((Vec::new(), wanted.to_vec()));
        };
        let blocks: Vec<u64> = wanted.iter().map(|w| w.node / GMAP_NODES).collect();
        let mut hits = lookup(self.pages, self.index, root, TreeKind::Gmap, &blocks)?;
        // A record's key is the block itself: blocks in between have no bitmap and no long list.
        for hit in &mut hits {
            let keys = &blocks[hit.keys.clone()];
            hit.keys.start += keys.partition_point(|block| *block < hit.record.key);
        }
        hits.retain(|hit| !hit.keys.is_empty());
        let pages = sort_by_page(self.index, &mut hits)?;
        let mut is_hub = vec![false; wanted.len()];
        let mut visit = |index: usize, bits: &[u8]| {
            let keys = hits[index].keys.clone();
            let nodes = &wanted[keys.clone()];
            for (w, flag) in nodes.iter().zip(&mut is_hub[keys]) {
                let bit = (w.node % GMAP_NODES) as usize;
                *flag = bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
            }
            Ok(())
        };
        self.pages.fetch(self.index, &pages, 1, &mut visit)?;
        let pick = |hub: bool| {
            let chosen = wanted.iter().zip(&is_hub).filter(move |(_, is)| **is == hub);
            chosen.map(|(w, _)| *w).collect()
        };
        Ok((pick(true), pick(false)))
    }

    /// Reads the pages of short lists and the blocks of long ones; in one go where pages are
    /// blocks, so that nothing waits for the last of the former.
    fn read_pages(
        &self,
        lists: &Lists,
        draw: &mut Draw<'_>,
        arrivals: &mut Arrivals,
    ) -> Result<(), ReadError> {
        let mut entries = Vec::new();
        for hit in &lists.long_hits {
            for w in &lists.long[hit.keys.clone()] {
                self.draw_hub(hit, *w, draw, arrivals, &mut entries)?;
            }
        }
        if !entries.is_sorted_by_key(|entry| entry.block) {
            entries.sort_unstable_by_key(|entry| (entry.block, entry.arrival));
        }
        let long = entries.chunk_by(|a, b| a.block == b.block).map(Part::Long);
        let mut parts: Vec<Part<'_>> = long.collect();
        let per_page = self.topo.blocks_per_page();
        let short = lists.short_hits.iter().map(Part::Short);
        if per_page == 1 {
            parts.extend(short);
            parts.sort_unstable_by_key(|part| part.block(per_page));
        } else {
            self.read_parts(lists, &short.collect::<Vec<_>>(), per_page, (draw, arrivals))?;
        }
        self.read_parts(lists, &parts, 1, (draw, arrivals))?;
        for w in lists.without_page() {
            arrivals.take_list(*w, &[], draw, |damage| self.topo.damaged(0, &damage))?;
        }
        Ok(())
    }

    /// Reads `span` blocks for each of `parts`, whose blocks ascend.
    fn read_parts(
        &self,
        lists: &Lists,
        parts: &[Part<'_>],
        span: u64,
        (draw, arrivals): (&mut Draw<'_>, &mut Arrivals),
    ) -> Result<(), ReadError> {
        let per_page = self.topo.blocks_per_page();
        let firsts: Vec<u64> = parts.iter().map(|part| part.block(per_page)).collect();
        let mut visit = |index: usize, bytes: &[u8]| match parts[index] {
            Part::Short(hit) => {
                let wrong = |damage: Damage| self.topo.damaged(hit.record.page, &damage);
                let page = self.l_page(bytes).map_err(wrong)?;
                for w in &lists.short[hit.keys.clone()] {
                    let list = page.list(w.node).map_err(wrong)?;
                    arrivals.take_list(*w, list, draw, wrong)?;
                }
                Ok(())
            }
            Part::Long(entries) => {
                for entry in entries {
                    arrivals
                        .take_hub_entry(entry, bytes)
                        .map_err(|damage| self.topo.damaged(entry.block / per_page, &damage))?;
                }
                Ok(())
            }
        };
        self.pages.fetch(self.topo, &firsts, span as usize, &mut visit).map(drop)
    }

    /// Types an L-type page of this edge type.
    pub fn l_page<'b>(&self, bytes: &'b [u8]) -> Result<LPage<'b>, Damage> {
        LPage::decode(bytes, u32::from(self.edge_type.0), EntryLayout::of(self.meta))
    }

    /// Draws positions of one long list.
    pub fn draw_hub(
        &self,
        hit: &Hit,
        wanted: Wanted,
        draw: &mut Draw<'_>,
        arrivals: &mut Arrivals,
        entries: &mut Vec<HubEntry>,
    ) -> Result<(), ReadError> {
        let h_layout = HLayout::new(arrivals.layout, self.topo.meta.page_bytes);
        let (first_page, degree) = (hit.record.page, degree_of(hit.record.extra));
        let end = first_page.checked_add(h_layout.pages(degree));
        if end.is_none_or(|end| end > self.topo.num_pages) {
            let what = Damage::new("H index: a list runs past the end of the file");
            return Err(self.index.damaged(0, &what));
        }
        let (start, count) = arrivals.draw(wanted, degree, draw)?;
        for (step, position) in arrivals.positions.iter().take(count).enumerate() {
            let place = h_layout.place(*position);
            entries.push(HubEntry {
                block: (first_page + place.page) * self.topo.blocks_per_page() + place.block,
                offset: place.offset as u16,
                arrival: start + step,
            });
        }
        arrivals.entries.grow(arrivals.layout, count);
        Ok(())
    }
}

impl Lists {
    /// Destinations above all that the L index knows: they have no list.
    pub fn without_page(&self) -> &[Wanted] {
        let found = self.short_hits.iter().map(|hit| hit.keys.end).max().unwrap_or(0);
        &self.short[found..]
    }
}

impl Arrivals {
    /// Decodes an entry from the block that holds it.
    pub fn take_hub_entry(&mut self, entry: &HubEntry, block: &[u8]) -> Result<(), Damage> {
        let raw = &block[usize::from(entry.offset)..BLOCK_BYTES];
        self.entries.set(entry.arrival, &self.layout.decode(raw));
        self.entries.check(entry.arrival..entry.arrival + 1, self.bounds)
    }

    /// Calls `draw` and reserves a place for what it chose; the positions are in `positions`.
    #[inline]
    fn draw(
        &mut self,
        wanted: Wanted,
        degree: u64,
        draw: &mut Draw<'_>,
    ) -> Result<(usize, usize), ReadError> {
        self.positions.clear();
        draw(wanted.place, degree, &mut self.positions);
        if let Some(position) = self.positions.iter().find(|position| **position >= degree) {
            let (node, position) = (wanted.node, *position);
            return Err(ReadError::PositionOutOfRange { node, position, degree });
        }
        let list = (self.entries.sources.len(), self.positions.len());
        self.lists[wanted.place] = list;
        Ok(list)
    }

    /// Draws from a list whose raw entries are at hand; `wrong` says where they are from.
    #[inline]
    pub fn take_list(
        &mut self,
        wanted: Wanted,
        list: &[u8],
        draw: &mut Draw<'_>,
        wrong: impl Fn(Damage) -> ReadError,
    ) -> Result<(), ReadError> {
        let from = self.entries.sources.len();
        if self.layout.is_plain() {
            let list = list.as_chunks::<4>().0;
            self.draw(wanted, list.len() as u64, draw)?;
            let source = |position: &u64| u64::from(u32::from_le_bytes(list[*position as usize]));
            self.entries.sources.extend(self.positions.iter().map(source));
            return self.entries.check(from.., self.bounds).map_err(wrong);
        }
        let width = self.layout.entry_bytes();
        self.draw(wanted, (list.len() / width) as u64, draw)?;
        for position in &self.positions {
            let raw = &list[*position as usize * width..];
            self.entries.push(self.layout, &self.layout.decode(raw));
        }
        self.entries.check(from.., self.bounds).map_err(wrong)
    }

    fn into_request_order(self, out: &mut Expansion) {
        out.clear();
        out.offsets.reserve(self.lists.len() + 1);
        out.offsets.push(0);
        let mut end = 0;
        let mut ordered = true;
        for (start, count) in &self.lists {
            ordered &= *count == 0 || *start == end;
            end += count;
            out.offsets.push(end);
        }
        if ordered {
            let offsets = std::mem::take(&mut out.offsets);
            *out = Expansion { offsets, ..self.entries };
            return;
        }
        fn permute<T: Copy>(lists: &[(usize, usize)], from: &[T], to: &mut Vec<T>) {
            // A column that the edge type lacks stays empty.
            if from.is_empty() {
                return;
            }
            to.reserve(from.len());
            for (start, count) in lists {
                to.extend_from_slice(&from[*start..start + count]);
            }
        }
        permute(&self.lists, &self.entries.sources, &mut out.sources);
        permute(&self.lists, &self.entries.edge_ids, &mut out.edge_ids);
        permute(&self.lists, &self.entries.times, &mut out.times);
        permute(&self.lists, &self.entries.weights, &mut out.weights);
    }
}
