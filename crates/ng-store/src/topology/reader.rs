//! Reading neighbour lists for a batch of destinations.
//!
//! Destinations are sorted once, and every structure is then walked in that order: gmap, H index,
//! L index, L-type pages, blocks of H-type pages. Positions are drawn before an H-type page is
//! read, so a hub costs at most one block for each position. Results end in request order whatever
//! the order of arrival.

use ng_types::{EdgeTypeId, NodeId};

use crate::catalog::EdgeTypeMeta;
use crate::error::{Damage, ReadError};
use crate::io::BLOCK_BYTES;
use crate::pages::{Pages, Segment};
use crate::snapshot::{Draw, Expansion};
use crate::topology::GMAP_NODES;
use crate::topology::entry::EntryLayout;
use crate::topology::h_page::{HLayout, degree_of};
use crate::topology::l_page::LPage;
use crate::tree::TreeKind;
use crate::tree_lookup::{Hit, lookup, sort_by_page};

/// The topology of one edge type in an open store.
pub(crate) struct TopologyReader<'a> {
    pub pages: &'a Pages,
    pub edge_type: EdgeTypeId,
    pub meta: &'a EdgeTypeMeta,
    pub topo: &'a Segment,
    pub index: &'a Segment,
}

/// A destination of the request and its place there.
#[derive(Clone, Copy)]
struct Wanted {
    node: NodeId,
    place: usize,
}

/// One position of a long list that was drawn.
#[derive(Clone, Copy)]
struct HubEntry {
    block: u64,
    offset: u16,
    /// Where the entry goes among the arrivals.
    arrival: usize,
}

/// Entries in order of arrival, and where each destination's are.
struct Arrivals {
    layout: EntryLayout,
    entries: Expansion,
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
        let layout = EntryLayout::of(self.meta);
        let mut arrivals = Arrivals {
            layout,
            entries: Expansion::default(),
            lists: vec![(0, 0); destinations.len()],
            positions: Vec::new(),
        };
        let (hubs, others) = self.split_hubs(&wanted)?;
        self.read_l_pages(&others, draw, &mut arrivals)?;
        self.read_h_pages(&hubs, draw, &mut arrivals)?;
        arrivals.into_request_order(out);
        Ok(())
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
            let keys = blocks.get(hit.keys.clone()).unwrap_or_default();
            hit.keys.start += keys.partition_point(|block| *block < hit.record.key);
        }
        hits.retain(|hit| !hit.keys.is_empty());
        let pages = sort_by_page(self.index, &mut hits)?;
        let mut is_hub = vec![false; wanted.len()];
        let mut visit = |index: usize, bits: &[u8]| {
            let keys = hits.get(index).map_or(0..0, |hit| hit.keys.clone());
            let nodes = wanted.get(keys.clone()).unwrap_or_default();
            for (w, flag) in nodes.iter().zip(is_hub.get_mut(keys).unwrap_or_default()) {
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

    fn read_l_pages(
        &self,
        wanted: &[Wanted],
        draw: &mut Draw<'_>,
        arrivals: &mut Arrivals,
    ) -> Result<(), ReadError> {
        let nodes: Vec<u64> = wanted.iter().map(|w| w.node).collect();
        let mut hits = match self.meta.topology.l_root {
            Some(root) => lookup(self.pages, self.index, root, TreeKind::L, &nodes)?,
            None => Vec::new(),
        };
        let found = hits.last().map_or(0, |hit| hit.keys.end);
        let blocks_per_page = self.topo.blocks_per_page();
        let pages = sort_by_page(self.index, &mut hits)?;
        let firsts: Vec<u64> =
            pages.iter().map(|page| page.saturating_mul(blocks_per_page)).collect();
        let (edge_type, layout) = (u32::from(self.edge_type.0), arrivals.layout);
        let mut visit = |index: usize, bytes: &[u8]| {
            let Some(hit) = hits.get(index) else {
                return Ok(());
            };
            let wrong = |damage: Damage| self.topo.damaged(hit.record.page, &damage);
            let page = LPage::decode(bytes, edge_type, layout).map_err(wrong)?;
            for w in wanted.get(hit.keys.clone()).unwrap_or_default() {
                let list = page.list(w.node).map_err(wrong)?;
                arrivals.take_list(*w, list, draw)?;
            }
            Ok(())
        };
        self.pages.fetch(self.topo, &firsts, blocks_per_page as usize, &mut visit)?;
        for w in wanted.get(found..).unwrap_or_default() {
            arrivals.take_list(*w, &[], draw)?;
        }
        Ok(())
    }

    fn read_h_pages(
        &self,
        wanted: &[Wanted],
        draw: &mut Draw<'_>,
        arrivals: &mut Arrivals,
    ) -> Result<(), ReadError> {
        let Some(root) = self.meta.topology.h_root.filter(|_| !wanted.is_empty()) else {
            return Ok(());
        };
        let nodes: Vec<u64> = wanted.iter().map(|w| w.node).collect();
        let hits = lookup(self.pages, self.index, root, TreeKind::H, &nodes)?;
        let mut entries = Vec::new();
        let mut found = 0;
        for hit in &hits {
            let group = wanted.get(hit.keys.clone()).unwrap_or_default();
            found += group.iter().filter(|w| w.node == hit.record.key).count();
            self.draw_hub(hit, group, draw, arrivals, &mut entries)?;
        }
        if found != wanted.len() {
            let what = Damage::new("gmap names a long list that the H index lacks");
            return Err(self.index.damaged(root.page, &what));
        }
        self.read_hub_entries(entries, arrivals)
    }

    /// Draws positions of one long list for every request of it.
    fn draw_hub(
        &self,
        hit: &Hit,
        group: &[Wanted],
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
        for w in group {
            let (start, count) = arrivals.draw(*w, degree, draw)?;
            for (step, position) in arrivals.positions.iter().take(count).enumerate() {
                let place = h_layout.place(*position);
                entries.push(HubEntry {
                    block: (first_page + place.page) * self.topo.blocks_per_page() + place.block,
                    offset: place.offset as u16,
                    arrival: start + step,
                });
            }
            arrivals.entries.grow(arrivals.layout, count);
        }
        Ok(())
    }

    fn read_hub_entries(
        &self,
        mut entries: Vec<HubEntry>,
        arrivals: &mut Arrivals,
    ) -> Result<(), ReadError> {
        if !entries.is_sorted_by_key(|entry| entry.block) {
            entries.sort_unstable_by_key(|entry| (entry.block, entry.arrival));
        }
        let groups: Vec<&[HubEntry]> = entries.chunk_by(|a, b| a.block == b.block).collect();
        let blocks: Vec<u64> =
            groups.iter().filter_map(|group| group.first()).map(|entry| entry.block).collect();
        let layout = arrivals.layout;
        let mut visit = |index: usize, bytes: &[u8]| {
            for entry in groups.get(index).copied().unwrap_or_default() {
                let raw = bytes.get(usize::from(entry.offset)..BLOCK_BYTES).unwrap_or_default();
                arrivals.entries.set(entry.arrival, &layout.decode(raw));
            }
            Ok(())
        };
        self.pages.fetch(self.topo, &blocks, 1, &mut visit)?;
        Ok(())
    }
}

impl Arrivals {
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
        if let Some(place) = self.lists.get_mut(wanted.place) {
            *place = list;
        }
        Ok(list)
    }

    /// Draws from a list whose raw entries are at hand.
    #[inline]
    fn take_list(
        &mut self,
        wanted: Wanted,
        list: &[u8],
        draw: &mut Draw<'_>,
    ) -> Result<(), ReadError> {
        if self.layout.is_plain() {
            let list = list.as_chunks::<4>().0;
            self.draw(wanted, list.len() as u64, draw)?;
            let source = |position: &u64| {
                list.get(*position as usize).map_or(0, |raw| u64::from(u32::from_le_bytes(*raw)))
            };
            self.entries.sources.extend(self.positions.iter().map(source));
            return Ok(());
        }
        let width = self.layout.entry_bytes();
        self.draw(wanted, (list.len() / width) as u64, draw)?;
        for position in &self.positions {
            let raw = list.get(*position as usize * width..).unwrap_or_default();
            self.entries.push(self.layout, &self.layout.decode(raw));
        }
        Ok(())
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
            to.reserve(from.len());
            for (start, count) in lists {
                to.extend_from_slice(from.get(*start..start + count).unwrap_or_default());
            }
        }
        permute(&self.lists, &self.entries.sources, &mut out.sources);
        permute(&self.lists, &self.entries.edge_ids, &mut out.edge_ids);
        permute(&self.lists, &self.entries.times, &mut out.times);
        permute(&self.lists, &self.entries.weights, &mut out.weights);
    }
}
