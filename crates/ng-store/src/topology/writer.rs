//! Writing the topology of one edge type in one pass.
//!
//! Holds one page of each kind, one page per tree level and the list at hand while it is short:
//! memory does not depend on the graph. L-type and H-type pages share a segment in the order in
//! which they fill.

use std::sync::Arc;

use ng_types::{NODE_ID_BOUND, NodeId};

use crate::build::spec::Part;
use crate::catalog::TopologyMeta;
use crate::error::BuildError;
use crate::io::{BLOCK_BYTES, Disk};
use crate::page::{FinishedSegment, SegmentWriter};
use crate::topology::h_page::HPageBuilder;
use crate::topology::l_page::LPageBuilder;
use crate::topology::{Entry, EntryLayout};
use crate::tree::{BitmapWriter, Record, TreeKind, TreeWriter};

/// What the builder tells a new writer.
pub(crate) struct TopologySpec {
    pub edge_type: u16,
    pub name: String,
    pub layout: EntryLayout,
    pub page_bytes: u32,
    pub fill: f64,
    pub pages_segment: u32,
    pub index_segment: u32,
}

/// Writes the neighbour lists of one edge type: destinations ascending, entries in list order.
///
/// Independent of its builder, so it may run on another thread.
pub struct TopologyWriter {
    spec: TopologySpec,
    entry_bytes: usize,
    pages: SegmentWriter,
    index: SegmentWriter,
    l_tree: TreeWriter,
    h_tree: TreeWriter,
    gmap: BitmapWriter,
    l_page: LPageBuilder,
    list: Vec<u8>,
    destination: Option<NodeId>,
    hub: Option<Hub>,
    scratch: Vec<u8>,
    totals: TopologyTotals,
    num_l_pages: u64,
    num_h_lists: u64,
}

/// Bounds of what was pushed; the builder compares them with the catalog.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TopologyTotals {
    pub num_edges: u64,
    pub source_bound: u64,
    pub destination_bound: u64,
    pub edge_id_bound: u64,
}

struct Hub {
    first_page: u64,
    degree: u64,
    page: HPageBuilder,
}

/// A finished topology, to be given to [`crate::StoreBuilder::add`].
#[derive(Debug)]
pub struct TopologyPart {
    pub(crate) edge_type: u16,
    pub(crate) meta: TopologyMeta,
    pub(crate) totals: TopologyTotals,
    pub(crate) segments: [FinishedSegment; 2],
}

impl TopologyWriter {
    pub(crate) fn create(disk: &Arc<dyn Disk>, spec: TopologySpec) -> Result<Self, BuildError> {
        let (name, page_bytes) = (&spec.name, spec.page_bytes);
        let pages =
            SegmentWriter::create(disk, spec.pages_segment, &format!("{name}.topo"), page_bytes)?;
        let index = SegmentWriter::create(
            disk,
            spec.index_segment,
            &format!("{name}.index"),
            BLOCK_BYTES as u32,
        )?;
        let edge_type = u32::from(spec.edge_type);
        let l_page = LPageBuilder::new(spec.layout, edge_type, page_bytes as usize, spec.fill);
        Ok(Self {
            entry_bytes: spec.layout.entry_bytes(),
            spec,
            pages,
            index,
            l_tree: TreeWriter::new(TreeKind::L),
            h_tree: TreeWriter::new(TreeKind::H),
            gmap: BitmapWriter::new(),
            l_page,
            list: Vec::new(),
            destination: None,
            hub: None,
            scratch: Vec::new(),
            totals: TopologyTotals::default(),
            num_l_pages: 0,
            num_h_lists: 0,
        })
    }

    /// Appends one entry to the list of `destination`.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] if a larger destination came before, [`BuildError::IdOutOfRange`]
    /// if the source does not fit the declared number of nodes, [`BuildError::Write`].
    pub fn push(&mut self, destination: NodeId, entry: Entry) -> Result<(), BuildError> {
        self.push_run(destination, &[entry])
    }

    /// Appends entries to the list of `destination`; may be called again for the same one.
    ///
    /// # Errors
    /// As [`TopologyWriter::push`].
    pub fn push_run(&mut self, destination: NodeId, run: &[Entry]) -> Result<(), BuildError> {
        if run.is_empty() {
            return Ok(());
        }
        self.turn_to(destination)?;
        let layout = self.spec.layout;
        for entry in run {
            self.count(entry.source)?;
            if layout.has_edge_ids {
                if entry.edge_id >= NODE_ID_BOUND {
                    return Err(self.out_of_range("edge id", entry.edge_id, NODE_ID_BOUND));
                }
                self.totals.edge_id_bound = self.totals.edge_id_bound.max(entry.edge_id + 1);
            }
            layout.encode(entry, &mut self.list);
            self.spill()?;
        }
        Ok(())
    }

    /// [`TopologyWriter::push_run`] for edge types without edge ids, times and weights (where an
    /// edge type has these columns they are 0).
    ///
    /// # Errors
    /// As [`TopologyWriter::push`].
    pub fn push_sources(&mut self, destination: NodeId, run: &[u64]) -> Result<(), BuildError> {
        if !self.spec.layout.is_plain() {
            let entry = |source: &u64| Entry { source: *source, ..Entry::default() };
            let entries: Vec<Entry> = run.iter().map(entry).collect();
            return self.push_run(destination, &entries);
        }
        if run.is_empty() {
            return Ok(());
        }
        self.turn_to(destination)?;
        for source in run {
            self.count(*source)?;
            self.list.extend((*source as u32).to_le_bytes());
            self.spill()?;
        }
        Ok(())
    }

    fn turn_to(&mut self, destination: NodeId) -> Result<(), BuildError> {
        match self.destination {
            Some(current) if current == destination => return Ok(()),
            Some(current) if current > destination => {
                return Err(BuildError::OutOfOrder {
                    what: format!("destination {destination}"),
                    previous: format!("destination {current}"),
                });
            }
            _ => {}
        }
        if destination >= NODE_ID_BOUND {
            return Err(self.out_of_range("destination", destination, NODE_ID_BOUND));
        }
        self.close_list()?;
        self.destination = Some(destination);
        self.totals.destination_bound = destination + 1;
        Ok(())
    }

    #[inline]
    fn count(&mut self, source: u64) -> Result<(), BuildError> {
        let bound = self.spec.layout.id_bound();
        if source >= bound {
            return Err(self.out_of_range("source", source, bound));
        }
        self.totals.source_bound = self.totals.source_bound.max(source + 1);
        self.totals.num_edges += 1;
        Ok(())
    }

    fn out_of_range(&self, kind: &'static str, id: u64, bound: u64) -> BuildError {
        let owner = format!("the id width of {}", self.spec.name);
        BuildError::IdOutOfRange { kind, id, owner, bound }
    }

    /// Turns the list at hand into an H-type list once it is too long for an L-type page.
    #[inline]
    fn spill(&mut self) -> Result<(), BuildError> {
        if self.hub.is_none() && self.list.len() <= self.l_page.list_bytes_max() {
            return Ok(());
        }
        self.spill_hub()
    }

    fn spill_hub(&mut self) -> Result<(), BuildError> {
        let node = self.destination.unwrap_or(0);
        let edge_type = u32::from(self.spec.edge_type);
        let page_bytes = self.spec.page_bytes as usize;
        let (first_page, layout) = (self.pages.next_page(), self.spec.layout);
        let hub = self.hub.get_or_insert_with(|| Hub {
            first_page,
            degree: 0,
            page: HPageBuilder::new(layout, page_bytes),
        });
        for entry in self.list.chunks_exact(self.entry_bytes) {
            if hub.page.is_full() {
                let pages = &mut self.pages;
                hub.page.take(edge_type, node, |page| pages.push_page(page).map(drop))?;
            }
            hub.page.add(entry);
            hub.degree += 1;
        }
        self.list.clear();
        Ok(())
    }

    fn close_list(&mut self) -> Result<(), BuildError> {
        let Some(node) = self.destination.take() else {
            return Ok(());
        };
        if let Some(mut hub) = self.hub.take() {
            if !hub.page.is_empty() {
                let (edge_type, pages) = (u32::from(self.spec.edge_type), &mut self.pages);
                hub.page.take(edge_type, node, |page| pages.push_page(page).map(drop))?;
            }
            let record = Record { key: node, page: hub.first_page, extra: hub.degree };
            self.h_tree.push(&mut self.index, record)?;
            self.num_h_lists += 1;
            return self.gmap.push(&mut self.index, node);
        }
        if !self.l_page.fits(node, self.list.len()) {
            self.close_l_page()?;
        }
        self.l_page.add(node, &self.list);
        self.list.clear();
        Ok(())
    }

    fn close_l_page(&mut self) -> Result<(), BuildError> {
        if self.l_page.is_empty() {
            return Ok(());
        }
        let key = self.l_page.last();
        self.l_page.take(&mut self.scratch);
        let page = self.pages.push_page(&self.scratch)?;
        self.num_l_pages += 1;
        self.l_tree.push(&mut self.index, Record { key, page, extra: 0 })
    }

    /// Writes what is left and makes it durable.
    ///
    /// # Errors
    /// [`BuildError::Write`].
    pub fn finish(mut self) -> Result<Part, BuildError> {
        self.close_list()?;
        self.close_l_page()?;
        self.gmap.close(&mut self.index)?;
        let meta = TopologyMeta {
            id_width: self.spec.layout.id_width,
            pages: self.spec.pages_segment,
            index: self.spec.index_segment,
            l_root: self.l_tree.finish(&mut self.index)?,
            h_root: self.h_tree.finish(&mut self.index)?,
            gmap_root: self.gmap.finish(&mut self.index)?,
            num_l_pages: self.num_l_pages,
            num_h_lists: self.num_h_lists,
        };
        Ok(Part::Topology(TopologyPart {
            edge_type: self.spec.edge_type,
            meta,
            totals: self.totals,
            segments: [self.pages.finish()?, self.index.finish()?],
        }))
    }
}
