//! Topology pages against themselves, the indexes, the gmap and the catalog.
//!
//! Pages may be anywhere, so both indexes are walked in the order of their keys and the pages that
//! they name are read some at a time, in the order of their numbers. Whatever page nothing has led
//! to in the end is checked for its bytes, and is one too many.

use ng_types::EdgeTypeId;

use crate::catalog::EdgeTypeMeta;
use crate::error::{Damage, ReadError};
use crate::page::{Segment, data_file};
use crate::topology::{EntryLayout, HLayout, LPage, check_h_page, degree_of};
use crate::tree::{Record, TreeCursor, TreeKind, Unclaimed, claim};
use crate::verify::Run;
use crate::verify::blocks::{PageState, Window};
use crate::verify::gmap::GmapCheck;
use crate::verify::lists::ListCheck;

/// What an index says of a page.
#[derive(Clone, Copy)]
enum Part {
    /// An L-type page and its largest node.
    Short { key: u64 },
    /// A part of the list of a node with so many entries.
    Long { node: u64, degree: u64, part: u64 },
}

struct TopologyCheck<'a> {
    edge_type: u32,
    meta: &'a EdgeTypeMeta,
    topo: &'a Segment,
    layout: EntryLayout,
    lists: ListCheck<'a>,
    gmap: GmapCheck<'a>,
    unclaimed: &'a Unclaimed,
    /// The next node with a long list while L-type pages are checked.
    hub: Option<u64>,
    hubs: TreeCursor<'a>,
    /// Pages to read, in the order of the index.
    waiting: Vec<(u64, Part)>,
    window: Window,
    last_node: Option<u64>,
    num_l_pages: u64,
    num_h_lists: u64,
    /// A list could not be read, so the counts mean nothing.
    lost: bool,
}

impl<'r> Run<'r> {
    /// Checks both segments of an edge type.
    pub(super) fn check_topology(
        &mut self,
        id: EdgeTypeId,
        (meta, topo, index): (&'r EdgeTypeMeta, &'r Segment, &'r Segment),
    ) -> Result<(), ReadError> {
        let index_table = self.check_present(index)?;
        self.check_lengths(topo);
        let topo_table = self.check_table(topo)?;
        let complete = index_table.sound && topo_table.sound;
        let trees = Unclaimed::new(index_table.present);
        let unclaimed = Unclaimed::new(topo_table.present);
        let roots = &meta.topology;
        let pages = self.pages;
        let cursor = |kind, root| TreeCursor::new(pages, index, kind, root);
        let mut check = TopologyCheck {
            edge_type: u32::from(id.0),
            meta,
            topo,
            layout: EntryLayout::of(meta),
            lists: ListCheck::new(self, meta)?,
            gmap: GmapCheck::new(pages, index, roots.gmap_root, &trees),
            unclaimed: &unclaimed,
            hub: None,
            hubs: cursor(TreeKind::H, roots.h_root),
            waiting: Vec::new(),
            window: self.window(topo)?,
            last_node: None,
            num_l_pages: 0,
            num_h_lists: 0,
            lost: false,
        };
        let l_cursor = cursor(TreeKind::L, roots.l_root).claiming(&trees);
        let h_cursor = cursor(TreeKind::H, roots.h_root).claiming(&trees);
        let walked = check.walk(self, l_cursor, h_cursor);
        if let Err(error) = &walked {
            self.report.add_error(&data_file(&index.meta.name), error);
        }
        if self.stopped {
            return Ok(());
        }
        if walked.is_ok() && complete {
            check.compare_counts(self);
            self.check_unclaimed(index, &trees);
            self.check_unclaimed(topo, &unclaimed);
        }
        drop(check);
        self.check_blocks(topo, &unclaimed.into_inner())
    }

    /// Pages of `segment` that nothing leads to.
    fn check_unclaimed(&mut self, segment: &Segment, unclaimed: &Unclaimed) {
        let (count, first) = (unclaimed.borrow().len(), unclaimed.borrow().next(0));
        if count > 0 {
            let what = format!("no pointer leads to this page, the first of {count} such pages");
            self.report.add(&data_file(&segment.meta.name), first, None, what);
        }
    }
}

impl TopologyCheck<'_> {
    fn walk(
        &mut self,
        run: &mut Run<'_>,
        mut l_cursor: TreeCursor<'_>,
        mut h_cursor: TreeCursor<'_>,
    ) -> Result<(), ReadError> {
        self.hub = self.hubs.next()?.map(|record| record.key);
        while let Some(record) = l_cursor.next()? {
            self.num_l_pages += 1;
            self.wait_for(run, record.page, Part::Short { key: record.key })?;
        }
        self.read_waiting(run);
        while let Some(record) = h_cursor.next()? {
            self.num_h_lists += 1;
            self.gmap.hub(record.key)?;
            self.long_list(run, record)?;
        }
        self.read_waiting(run);
        self.gmap.finish()
    }

    fn long_list(&mut self, run: &mut Run<'_>, record: Record) -> Result<(), ReadError> {
        let (node, degree) = (record.key, degree_of(record.extra));
        let pages = HLayout::new(self.layout, self.topo.meta.page_bytes).pages(degree);
        if pages == 0 {
            return Err(self.wrong(record.page, format!("the long list of node {node} is empty")));
        }
        for part in 0..pages {
            let page = record.page.saturating_add(part);
            self.wait_for(run, page, Part::Long { node, degree, part })?;
        }
        Ok(())
    }

    fn wait_for(&mut self, run: &mut Run<'_>, page: u64, part: Part) -> Result<(), ReadError> {
        claim(self.unclaimed, self.topo, page)?;
        self.waiting.push((page, part));
        if self.waiting.len() >= self.window.pages {
            self.read_waiting(run);
        }
        Ok(())
    }

    /// Reads the pages that wait and checks them in the order of the index.
    fn read_waiting(&mut self, run: &mut Run<'_>) {
        if run.stopped || self.waiting.is_empty() {
            return self.waiting.clear();
        }
        let waiting = std::mem::take(&mut self.waiting);
        let mut pages: Vec<u64> = waiting.iter().map(|(page, _)| *page).collect();
        pages.sort_unstable();
        let states = run.read_pages(self.topo, &pages, &mut self.window);
        let page_bytes = self.topo.meta.page_bytes as usize;
        let bytes = std::mem::take(&mut self.window.bytes);
        for (page, part) in &waiting {
            let at = pages.partition_point(|other| other < page);
            run.report.pages += 1;
            if states.get(at) != Some(&PageState::Sound) {
                self.lost = true;
                continue;
            }
            let bytes = &bytes[at * page_bytes..(at + 1) * page_bytes];
            if let Err(error) = self.page(*page, *part, bytes) {
                self.lost = true;
                run.report.add_error(&data_file(&self.topo.meta.name), &error);
            }
        }
        self.window.bytes = bytes;
        self.waiting = waiting;
        self.waiting.clear();
    }

    fn wrong(&self, page: u64, what: impl Into<String>) -> ReadError {
        self.topo.damaged(page, &Damage::new(what.into()))
    }

    /// An error if there is something to say.
    fn checked(&self, page: u64, what: Option<String>) -> Result<(), ReadError> {
        what.map_or(Ok(()), |what| Err(self.wrong(page, what)))
    }

    fn page(&mut self, page: u64, part: Part, bytes: &[u8]) -> Result<(), ReadError> {
        match part {
            Part::Short { key } => {
                // Pages that follow are compared with what the index says, not with the damage.
                let result = self.l_page(page, bytes, key);
                self.last_node = Some(key);
                result
            }
            Part::Long { node, degree, part } => self.h_page(page, bytes, (node, degree), part),
        }
    }

    fn l_page(&mut self, page: u64, bytes: &[u8], key: u64) -> Result<(), ReadError> {
        let topo = self.topo;
        let wrong = |damage: Damage| topo.damaged(page, &damage);
        let typed = LPage::check(bytes, self.edge_type, self.layout).map_err(wrong)?;
        for index in 0..typed.len() {
            let (node, list) = typed.slot(index).map_err(wrong)?;
            if self.last_node.replace(node) >= Some(node) {
                return Err(self.wrong(page, "node ranges of L-type pages overlap"));
            }
            while self.hub.is_some_and(|hub| hub < node) {
                self.hub = self.hubs.next()?.map(|record| record.key);
            }
            if self.hub == Some(node) {
                return Err(
                    self.wrong(page, format!("node {node} has both a short and a long list"))
                );
            }
            let what = self.lists.begin(node)?;
            self.checked(page, what)?;
            let what = self.lists.entries(node, list)?;
            self.checked(page, what)?;
            let what = self.lists.end(node);
            self.checked(page, what)?;
        }
        if self.last_node != Some(key) {
            return Err(self.wrong(page, "the largest node of the page differs from the L index"));
        }
        Ok(())
    }

    fn h_page(
        &mut self,
        page: u64,
        bytes: &[u8],
        (node, degree): (u64, u64),
        part: u64,
    ) -> Result<(), ReadError> {
        let count = check_h_page(bytes, self.edge_type, self.layout, (node, degree), part)
            .map_err(|damage| self.topo.damaged(page, &damage))?;
        if part == 0 {
            let what = self.lists.begin(node)?;
            self.checked(page, what)?;
        }
        let (h_layout, width) =
            (HLayout::new(self.layout, bytes.len() as u32), self.layout.entry_bytes());
        for (start, count) in h_layout.blocks(count) {
            let raw = &bytes[start..start + count * width];
            let what = self.lists.entries(node, raw)?;
            self.checked(page, what)?;
        }
        if part + 1 == h_layout.pages(degree) {
            let what = self.lists.end(node);
            self.checked(page, what)?;
        }
        Ok(())
    }

    fn compare_counts(&self, run: &mut Run<'_>) {
        let topology = &self.meta.topology;
        let expected = (self.meta.num_edges, topology.num_l_pages, topology.num_h_lists);
        let found = (self.lists.num_edges, self.num_l_pages, self.num_h_lists);
        if !self.lost && expected != found {
            let what = format!(
                "(edges, L-type pages, H-type lists) are {found:?}, and the catalog says \
                 {expected:?}"
            );
            run.report.add(&data_file(&self.topo.meta.name), None, None, what);
        }
    }
}
