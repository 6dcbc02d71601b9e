//! Topology pages against themselves, the indexes, the gmap and the catalog.
//!
//! Pages and both indexes ascend together, so one pass over the pages with one cursor in each index
//! checks everything.

use ng_types::EdgeTypeId;

use crate::builder::Entry;
use crate::catalog::EdgeTypeMeta;
use crate::error::{Damage, ReadError};
use crate::pages::Segment;
use crate::segment::data_file;
use crate::topology::entry::EntryLayout;
use crate::topology::h_page::{HLayout, check_h_page};
use crate::topology::l_page::LPage;
use crate::topology::page::{PageHeader, PageKind};
use crate::tree::TreeKind;
use crate::verify::gmap::GmapCheck;
use crate::verify::tree_cursor::TreeCursor;
use crate::verify::{Run, VerifyReport};

struct TopologyCheck<'a> {
    edge_type: u32,
    meta: &'a EdgeTypeMeta,
    topo: &'a Segment,
    layout: EntryLayout,
    bounds: Bounds,
    l_cursor: TreeCursor<'a>,
    h_cursor: TreeCursor<'a>,
    gmap: GmapCheck<'a>,
    /// Set by the first damage: pages can then no longer be compared with the indexes.
    lost: bool,
    last_node: Option<u64>,
    hub: Option<Hub>,
    num_edges: u64,
    num_l_pages: u64,
    num_h_lists: u64,
}

#[derive(Clone, Copy)]
struct Bounds {
    source: u64,
    destination: u64,
    edge_id: u64,
}

/// The long list that the next pages belong to.
struct Hub {
    node: u64,
    degree: u64,
    part: u64,
}

impl Run<'_> {
    pub(super) fn check_topology(
        &mut self,
        id: EdgeTypeId,
        meta: &EdgeTypeMeta,
        topo: &Segment,
        index: &Segment,
    ) {
        let (inner, layout) = (self.inner, EntryLayout::of(meta));
        let pages = &inner.pages;
        let nodes = |id| inner.node_type(id).map_or(0, |owner| owner.num_nodes);
        let bounds = Bounds {
            source: nodes(meta.source),
            destination: nodes(meta.destination),
            edge_id: meta.num_edge_ids,
        };
        let cursor = |kind, root| TreeCursor::new(pages, index, kind, root);
        let mut check = TopologyCheck {
            edge_type: u32::from(id.0),
            meta,
            topo,
            layout,
            bounds,
            l_cursor: cursor(TreeKind::L, meta.topology.l_root),
            h_cursor: cursor(TreeKind::H, meta.topology.h_root),
            gmap: GmapCheck::new(pages, index, meta.topology.gmap_root),
            lost: false,
            last_node: None,
            hub: None,
            num_edges: 0,
            num_l_pages: 0,
            num_h_lists: 0,
        };
        self.check_blocks(topo, &mut |report, page, bytes, sound| {
            report.pages += 1;
            check.page(report, page, bytes, sound);
        });
        check.finish(&mut self.report, index);
    }
}

impl TopologyCheck<'_> {
    fn page(&mut self, report: &mut VerifyReport, page: u64, bytes: &[u8], sound: bool) {
        if !sound {
            self.lost = true;
            return;
        }
        let outcome = match PageHeader::decode(bytes, self.edge_type, self.layout) {
            Ok(header) if header.kind == PageKind::L => self.l_page(page, bytes),
            Ok(header) => self.h_page(page, bytes, &header),
            Err(damage) => Err(self.topo.damaged(page, &damage)),
        };
        if let Err(error) = outcome {
            self.lost = true;
            report.add_error(&data_file(&self.topo.meta.name), &error);
        }
    }

    fn wrong(&self, page: u64, what: impl Into<String>) -> ReadError {
        self.topo.damaged(page, &Damage::new(what.into()))
    }

    fn l_page(&mut self, page: u64, bytes: &[u8]) -> Result<(), ReadError> {
        if self.hub.is_some() {
            return Err(self.wrong(page, "an L-type page inside the run of an H-type list"));
        }
        let typed = LPage::check(bytes, self.edge_type, self.layout)
            .map_err(|damage| self.topo.damaged(page, &damage))?;
        for index in 0..typed.len() {
            let (node, list) =
                typed.slot(index).map_err(|damage| self.topo.damaged(page, &damage))?;
            if self.last_node.replace(node) >= Some(node) && !self.lost {
                return Err(self.wrong(page, "node ranges of L-type pages overlap"));
            }
            self.entries(page, node, list)?;
        }
        self.num_l_pages += 1;
        if !self.lost {
            let expected = self.l_cursor.next()?.map(|record| (record.key, record.page));
            if expected != self.last_node.map(|node| (node, page)) {
                return Err(self.wrong(page, "the L index names another page or node"));
            }
        }
        Ok(())
    }

    fn h_page(&mut self, page: u64, bytes: &[u8], header: &PageHeader) -> Result<(), ReadError> {
        let layout = HLayout::new(self.layout, bytes.len() as u32);
        if self.lost {
            // The degree is only known to the index, so take the page at its word.
            let part = u64::from(header.end_or_part);
            let degree = part * layout.per_page() + u64::from(header.num_entries);
            return self.h_part(page, bytes, (header.node, degree), part);
        }
        let hub = match self.hub.take() {
            Some(hub) => hub,
            None => {
                let record = self.h_cursor.next()?.filter(|record| record.page == page);
                let record =
                    record.ok_or_else(|| self.wrong(page, "the H index names another page"))?;
                self.gmap.hub(record.key)?;
                self.num_h_lists += 1;
                Hub { node: record.key, degree: record.extra, part: 0 }
            }
        };
        self.h_part(page, bytes, (hub.node, hub.degree), hub.part)?;
        if hub.part + 1 < layout.pages(hub.degree) {
            self.hub = Some(Hub { part: hub.part + 1, ..hub });
        }
        Ok(())
    }

    fn h_part(
        &mut self,
        page: u64,
        bytes: &[u8],
        list: (u64, u64),
        part: u64,
    ) -> Result<(), ReadError> {
        let count = check_h_page(bytes, self.edge_type, self.layout, list, part)
            .map_err(|damage| self.topo.damaged(page, &damage))?;
        let width = self.layout.entry_bytes();
        for (start, count) in HLayout::new(self.layout, bytes.len() as u32).blocks(count) {
            let raw = bytes.get(start..start + count * width).unwrap_or_default();
            self.entries(page, list.0, raw)?;
        }
        Ok(())
    }

    fn entries(&mut self, page: u64, node: u64, raw: &[u8]) -> Result<(), ReadError> {
        let bounds = self.bounds;
        if node >= bounds.destination {
            let what = format!("destination {node} of {} nodes", bounds.destination);
            return Err(self.wrong(page, what));
        }
        for bytes in raw.chunks_exact(self.layout.entry_bytes()) {
            let Entry { source, edge_id, .. } = self.layout.decode(bytes);
            if source >= bounds.source {
                let what = format!("node {node} has source {source} of {}", bounds.source);
                return Err(self.wrong(page, what));
            }
            if self.meta.has_edge_ids && edge_id >= bounds.edge_id {
                let what = format!("node {node} has edge id {edge_id} of {}", bounds.edge_id);
                return Err(self.wrong(page, what));
            }
            self.num_edges += 1;
        }
        Ok(())
    }

    fn finish(mut self, report: &mut VerifyReport, index: &Segment) {
        if self.lost {
            return;
        }
        let file = data_file(&index.meta.name);
        let rest = (|| {
            let left = self.l_cursor.next()?.is_some() || self.h_cursor.next()?.is_some();
            let trees = self.l_cursor.num_pages + self.h_cursor.num_pages;
            let unused = self.gmap.finish()? + trees != index.meta.num_pages;
            Ok::<_, ReadError>((left, unused))
        })();
        match rest {
            Ok((left, unused)) => {
                if left || self.hub.is_some() {
                    report.add(&file, None, None, "the index names lists that no page has");
                }
                if unused {
                    report.add(&file, None, None, "the index has pages that belong to no tree");
                }
            }
            Err(error) => report.add_error(&file, &error),
        }
        let topology = &self.meta.topology;
        let expected = (self.meta.num_edges, topology.num_l_pages, topology.num_h_lists);
        let found = (self.num_edges, self.num_l_pages, self.num_h_lists);
        if expected != found {
            let what = format!(
                "(edges, L-type pages, H-type lists) are {found:?}, the catalog says {expected:?}"
            );
            report.add(&data_file(&self.topo.meta.name), None, None, what);
        }
    }
}
