//! From a trace and a layout to the commands of a plan.
//!
//! Only pages that hold a drawn position are read, and the page with the row of features. Two ways:
//! *by hops*, where whoever issues commands knows all pages of a node; and *streaming*, where a
//! primary section has to be read before its secondary ones, and a node before whom it leads to.
//! A sampler on a die draws for the whole list where the list starts, so that its secondary
//! sections come after that page by hops, too. A host that has one read under way at a time reads
//! the pages of all hops in one chain, in the order of hops.

use ng_types::Trace;
use ng_types::canary::planted;

use crate::config::Payload;
use crate::layout::{Layout, Page};
use crate::plan::{Plan, flag};

/// What a platform asks of its dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Dies sample, and send rows of features and ids alone; else whole pages leave them.
    pub sampled: bool,
    /// Results bring forth the next commands; else a hop is issued at once.
    pub streaming: bool,
    /// Parts of a page that leave the die, a sector for each draw and those of the row; 0 is all.
    pub sector_bytes: u32,
    /// One page after the other, whatever it is of.
    pub chained: bool,
}

const ROOT: u32 = u32::MAX;

/// One command to be: which page of which entry.
#[derive(Clone, Copy)]
struct Wanted {
    entry: u32,
    page: Page,
}

/// The commands of one batch of a trace.
pub fn plan(trace: &Trace, batch: usize, layout: &Layout, payload: &Payload, asked: Asked) -> Plan {
    let plan = Planner::new(trace, batch, layout, payload, asked).run();
    if asked.chained { plan.in_a_chain() } else { plan }
}

struct Planner<'a> {
    trace: &'a Trace,
    batch: usize,
    layout: &'a Layout,
    payload: &'a Payload,
    asked: Asked,
    /// The draw that finds each entry first, as (entry, draw of it).
    parent: Vec<u32>,
    wanted: Vec<Wanted>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    fn new(
        trace: &'a Trace,
        batch: usize,
        layout: &'a Layout,
        payload: &'a Payload,
        asked: Asked,
    ) -> Self {
        let parent = parents(trace, batch);
        let plan = Plan { feature_bytes: layout.feature_bytes_of_page(), ..Plan::default() };
        Self { trace, batch, layout, payload, asked, parent, wanted: Vec::new(), plan }
    }

    fn run(mut self) -> Plan {
        let first = self.trace.entries_of(self.batch).start;
        let entries = self.parent.len() as u32;
        if self.asked.streaming {
            for entry in 0..entries {
                if self.parent[entry as usize] == ROOT {
                    self.want_first(entry);
                }
            }
            self.plan.roots = self.wanted.len() as u32;
            let mut at = 0;
            while let Some(&wanted) = self.wanted.get(at) {
                self.plan.children.push(self.wanted.len() as u32);
                let before = self.wanted.len();
                let draws = self.bring_forth(wanted);
                self.put(wanted, first, draws, self.wanted.len() - before);
                at += 1;
            }
        } else {
            self.by_hops(first, entries);
        }
        self.plan.children.push(self.wanted.len() as u32);
        self.plan
    }

    fn by_hops(&mut self, first: usize, entries: u32) {
        let mut order: Vec<u32> = (0..entries).collect();
        order.sort_by_key(|&entry| self.trace.hop[first + entry as usize]);
        // What has to be drawn first: the page that draws, and how many draws fall into each other.
        let mut later: Vec<(usize, Vec<(Page, usize)>)> = Vec::new();
        for entry in order {
            let mut pages = self.pages_of(entry);
            let after =
                if self.asked.sampled { self.behind_primary(&mut pages) } else { Vec::new() };
            for (page, draws) in pages {
                let children = if page == Page::List(0) { draws + after.len() } else { 0 };
                self.wanted.push(Wanted { entry, page });
                self.put(Wanted { entry, page }, first, draws, children);
            }
            if !after.is_empty() {
                later.push((self.wanted.len() - 1, after));
            }
        }
        self.plan.roots = self.wanted.len() as u32;
        let mut later = later.into_iter().peekable();
        for command in 0..self.plan.roots as usize {
            self.plan.children.push(self.wanted.len() as u32);
            let Some((_, after)) = later.next_if(|(parent, _)| *parent == command) else {
                continue;
            };
            for (page, draws) in after {
                let wanted = Wanted { entry: self.wanted[command].entry, page };
                self.wanted.push(wanted);
                self.put(wanted, first, draws, 0);
                self.plan.flags[self.wanted.len() - 1] |= flag::AFTER;
            }
        }
        let all = self.wanted.len();
        self.plan.children.resize(all, all as u32);
    }

    /// Takes those pages out that a die asks for once it has drawn; the one that draws is the last
    /// that stays, and is read even if no draw falls into it.
    fn behind_primary(&self, pages: &mut Vec<(Page, usize)>) -> Vec<(Page, usize)> {
        let is_first = |page: &Page| matches!(page, Page::Row(_) | Page::List(0));
        let at = pages.iter().position(|(page, _)| !is_first(page)).unwrap_or(pages.len());
        let after = pages.split_off(at);
        if !after.is_empty() && pages.last().is_none_or(|(page, _)| *page != Page::List(0)) {
            pages.push((Page::List(0), 0));
        }
        after
    }

    /// All pages of an entry with the draws that fall into each; those of its row come first, with
    /// draws or without.
    fn pages_of(&self, entry: u32) -> Vec<(Page, usize)> {
        let node = self.node(entry);
        let mut pages: Vec<(Page, usize)> =
            self.layout.pages_of_row(node).map(|page| (page, 0)).collect();
        let of_row = pages.len();
        for (position, _) in self.trace.draws_of(self.batch, entry) {
            let page = self.layout.page_of(node, position);
            match pages.iter_mut().find(|(known, _)| *known == page) {
                Some((_, draws)) => *draws += 1,
                None => pages.push((page, 1)),
            }
        }
        pages[of_row..].sort_unstable();
        pages
    }

    /// The pages that start an entry: its primary section, or list and row where they lie apart.
    fn want_first(&mut self, entry: u32) {
        let pages = self.pages_of(entry);
        if self.layout.has_lists_apart() {
            self.wanted.extend(pages.into_iter().map(|(page, _)| Wanted { entry, page }));
        } else if !pages.is_empty() {
            self.wanted.push(Wanted { entry, page: Page::List(0) });
        }
    }

    /// Adds what a command brings forth: secondary sections of its node, and entries that its own
    /// draws find first. How many draws it makes itself.
    fn bring_forth(&mut self, wanted: Wanted) -> usize {
        if matches!(wanted.page, Page::Row(_)) {
            return 0;
        }
        let (trace, batch, node) = (self.trace, self.batch, self.node(wanted.entry));
        let mut draws = 0;
        for (position, found) in trace.draws_of(batch, wanted.entry) {
            if self.layout.page_of(node, position) == wanted.page {
                draws += 1;
                // Once, whichever of its draws find the same entry.
                let lost = planted("last_entry_is_lost") && found as usize + 1 == self.parent.len();
                if self.parent[found as usize] == wanted.entry && !lost {
                    self.parent[found as usize] = ROOT;
                    self.want_first(found);
                }
            }
        }
        if wanted.page == Page::List(0) && !self.layout.has_lists_apart() {
            let pages = self.pages_of(wanted.entry).into_iter();
            let more = pages.filter(|(page, _)| *page != Page::List(0));
            self.wanted.extend(more.map(|(page, _)| Wanted { entry: wanted.entry, page }));
        }
        draws
    }

    /// Adds a command's columns.
    fn put(&mut self, wanted: Wanted, first: usize, draws: usize, children: usize) {
        let node = self.node(wanted.entry);
        let address = self.layout.address(node, wanted.page);
        let mut row_pages = self.layout.pages_of_row(node);
        let parts = row_pages.len() as u32;
        let feature = row_pages.any(|page| page == wanted.page);
        // Pages of a row have equal shares of it.
        let of_row = if feature { self.layout.feature_bytes().div_ceil(parts) } else { 0 };
        let secondary = !matches!(wanted.page, Page::List(0) | Page::Row(0));
        let mut flags = if feature { flag::FEATURE } else { 0 };
        flags |= if secondary { flag::SECONDARY } else { 0 };
        flags |= if self.asked.sampled { flag::SAMPLED } else { 0 };
        let bytes = if self.asked.sampled {
            of_row
                + self.payload.header_bytes
                + self.payload.child_bytes * draws.max(children) as u32
        } else {
            self.brought(of_row, draws as u32)
        };
        let plan = &mut self.plan;
        plan.die.push(address.die);
        plan.row.push(address.row);
        plan.plane.push(address.plane);
        plan.sense.extend(self.layout.sense_of(&address));
        plan.bytes.push(bytes);
        plan.flags.push(flags);
        plan.entry.push(wanted.entry);
        plan.hop.push(self.trace.hop[first + wanted.entry as usize]);
    }

    /// Bytes that leave a die where nothing is sampled on it.
    fn brought(&self, of_row: u32, draws: u32) -> u32 {
        let (page, sector) = (self.layout.page_bytes(), self.asked.sector_bytes);
        if sector == 0 {
            return page;
        }
        let row = of_row.next_multiple_of(sector);
        (row + draws * sector).clamp(sector, page)
    }

    fn node(&self, entry: u32) -> u64 {
        self.trace.node[self.trace.entries_of(self.batch).start + entry as usize]
    }
}

/// The first entry that leads to each entry; [`ROOT`] for entries that none leads to.
fn parents(trace: &Trace, batch: usize) -> Vec<u32> {
    let range = trace.entries_of(batch);
    let mut parent = vec![ROOT; range.len()];
    for at in range.clone() {
        let entry = (at - range.start) as u32;
        for (_, found) in trace.draws_of(batch, entry) {
            let seed = trace.hop[range.start + found as usize] == 0;
            if parent[found as usize] == ROOT && !seed {
                parent[found as usize] = entry;
            }
        }
    }
    parent
}
