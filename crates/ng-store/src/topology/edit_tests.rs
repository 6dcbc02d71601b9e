//! Lists that change, against a map of vectors, and the rules of eviction one by one.

use std::collections::BTreeMap;

use ng_testing::Random;
use ng_types::{EdgeTypeId, NodeTypeId};

use crate::catalog::{Catalog, EdgeTypeMeta, TopologyMeta};
use crate::error::ReadError;
use crate::page::{Edit, EditCounts};
use crate::topology::{
    Entry, EntryLayout, HLayout, LPage, ROOM_BIT, TopologyEdit, check_h_page, degree_of,
};
use crate::tree::edit::tests::{check_tree, live_pages, segment};
use crate::tree::{Record, Tree, TreeKind};

const EDGE_TYPE: EdgeTypeId = EdgeTypeId(1);
const TOPO: u32 = 1;
const INDEX: u32 = 2;

const PLAIN: EntryLayout =
    EntryLayout { id_width: 4, has_edge_ids: false, has_time: false, has_weight: false };

const LAYOUTS: [EntryLayout; 5] = [
    PLAIN,
    EntryLayout { id_width: 5, ..PLAIN },
    EntryLayout { has_edge_ids: true, ..PLAIN },
    EntryLayout { has_time: true, has_edge_ids: true, ..PLAIN },
    EntryLayout { id_width: 5, has_edge_ids: true, has_time: true, has_weight: true },
];

/// Lists in a transaction and what they should be.
struct Model {
    edit: Edit,
    layout: EntryLayout,
    page_bytes: usize,
    fill: f64,
    lists: BTreeMap<u64, Vec<Entry>>,
    updates: u64,
}

impl Model {
    fn new(layout: EntryLayout, page_bytes: usize, fill: f64) -> Self {
        let edge_type = |topology| EdgeTypeMeta {
            source: NodeTypeId(0),
            relation: "to".into(),
            destination: NodeTypeId(0),
            num_edges: 0,
            num_edge_ids: 0,
            undirected: false,
            unique: false,
            reverse: None,
            has_edge_ids: layout.has_edge_ids,
            has_time: layout.has_time,
            has_weight: layout.has_weight,
            tensors: Vec::new(),
            topology,
        };
        let id_width = layout.id_width;
        let topology =
            TopologyMeta { id_width, pages: TOPO, index: INDEX, ..TopologyMeta::default() };
        let catalog = Catalog {
            fill: 0.9,
            reuse_ids: false,
            log: None,
            keys: None,
            page_bytes: page_bytes as u32,
            node_types: Vec::new(),
            edge_types: vec![edge_type(TopologyMeta::default()), edge_type(topology)],
            segments: vec![
                segment("other", 4096),
                segment("topo", page_bytes as u32),
                segment("index", 4096),
            ],
        };
        let edit = Edit::detached(catalog);
        Self { edit, layout, page_bytes, fill, lists: BTreeMap::new(), updates: 0 }
    }

    fn lists(&mut self) -> TopologyEdit<'_> {
        TopologyEdit::new(&mut self.edit, EDGE_TYPE, self.fill).expect("an edge type")
    }

    fn meta(&self) -> &EdgeTypeMeta {
        &self.edit.catalog.edge_types[1]
    }

    fn tree(&self, kind: TreeKind) -> Tree {
        let topology = &self.meta().topology;
        let root = match kind {
            TreeKind::H => topology.h_root,
            TreeKind::Gmap => topology.gmap_root,
            _ => topology.l_root,
        };
        Tree { segment: INDEX, kind, root }
    }

    fn check_tree(&mut self, kind: TreeKind) -> (Vec<Record>, u64) {
        let tree = self.tree(kind);
        check_tree(&mut self.edit, tree)
    }

    /// An entry with only the columns that the layout has.
    fn entry(&self, source: u64, edge_id: u64, time: i64, weight: f32) -> Entry {
        let mut raw = Vec::new();
        self.layout.encode(&Entry { source, edge_id, time, weight }, &mut raw);
        self.layout.decode(&raw)
    }

    fn insert(&mut self, node: u64, entry: Entry) {
        self.lists().insert(node, &entry).expect("inserts");
        let list = self.lists.entry(node).or_default();
        let at = match self.layout.has_time {
            true => list.partition_point(|other| other.time <= entry.time),
            false => list.len(),
        };
        list.insert(at, entry);
        self.updates += 1;
    }

    fn insert_many(&mut self, node: u64, count: u64) {
        for source in 0..count {
            let entry = self.entry(source, 1, 0, 0.0);
            self.insert(node, entry);
        }
    }

    fn remove(&mut self, node: u64, source: u64, edge_id: Option<u64>) {
        let list = self.lists.entry(node).or_default();
        let is_wanted =
            |e: &mut Entry| e.source == source && edge_id.is_none_or(|id| e.edge_id == id);
        let expected: Vec<Entry> = list.extract_if(.., is_wanted).collect();
        if list.is_empty() {
            self.lists.remove(&node);
        }
        let removed = self.lists().remove(node, source, edge_id).expect("removes");
        assert_eq!(removed, expected);
        self.updates += removed.len() as u64;
    }

    fn take(&mut self, node: u64) {
        let expected = self.lists.remove(&node).unwrap_or_default();
        assert_eq!(self.lists().take(node).expect("takes"), expected);
        self.updates += expected.len() as u64;
    }

    /// Compares everything with the model and all structures with each other.
    fn check(&mut self) {
        let (l_records, l_tree_pages) = self.check_tree(TreeKind::L);
        let mut nodes = Vec::new();
        for record in &l_records {
            self.check_l_page(*record, &mut nodes);
        }
        assert!(nodes.is_sorted_by(|a, b| a < b), "node ranges overlap");
        let (h_records, h_tree_pages) = self.check_tree(TreeKind::H);
        let mut h_pages = 0;
        for record in &h_records {
            h_pages += self.check_h_list(*record);
            nodes.push(record.key);
        }
        nodes.sort_unstable();
        assert!(nodes.iter().eq(self.lists.keys()), "a list is lost or too many");
        let hubs: Vec<u64> = h_records.iter().map(|record| record.key).collect();
        let gmap_pages = self.check_gmap(&hubs);
        assert_eq!(live_pages(&mut self.edit, INDEX), l_tree_pages + h_tree_pages + gmap_pages);
        assert_eq!(live_pages(&mut self.edit, TOPO), l_records.len() as u64 + h_pages);
        let entries: usize = self.lists.values().map(Vec::len).sum();
        let meta = self.meta();
        let counts = (meta.num_edges, meta.topology.num_l_pages, meta.topology.num_h_lists);
        assert_eq!(counts, (entries as u64, l_records.len() as u64, h_records.len() as u64));
        assert_eq!(self.edit.counts.list_updates, self.updates);
    }

    fn check_l_page(&mut self, record: Record, nodes: &mut Vec<u64>) {
        let held = self.edit.read(TOPO, record.page).expect("a page");
        let page = LPage::check(held.bytes(), 1, self.layout).expect("a canonical page");
        for slot in 0..page.len() {
            let (node, raw) = page.slot(slot).expect("a slot");
            let list: Vec<Entry> = raw
                .chunks_exact(self.layout.entry_bytes())
                .map(|e| self.layout.decode(e))
                .collect();
            assert_eq!(Some(&list), self.lists.get(&node), "list of {node}");
            assert!(raw.len() <= (self.page_bytes - 32) / 2, "a list too long for the page");
            nodes.push(node);
        }
        assert_eq!(nodes.last(), Some(&record.key), "key of page {}", record.page);
    }

    fn check_h_list(&mut self, record: Record) -> u64 {
        let (node, degree) = (record.key, degree_of(record.extra));
        let pages = HLayout::new(self.layout, self.page_bytes as u32).pages(degree);
        for part in 0..pages {
            let held = self.edit.read(TOPO, record.page + part).expect("a page");
            check_h_page(held.bytes(), 1, self.layout, (node, degree), part).expect("a part");
        }
        let bytes = degree as usize * self.layout.entry_bytes();
        assert!(bytes > (self.page_bytes - 32) / 4, "a list too short for pages of its own");
        let list = self.lists().list(node).expect("reads");
        assert_eq!(Some(&list), self.lists.get(&node), "list of {node}");
        pages
    }

    /// Compares the gmap with the H index; returns its pages.
    fn check_gmap(&mut self, hubs: &[u64]) -> u64 {
        let (records, tree_pages) = self.check_tree(TreeKind::Gmap);
        let mut nodes = Vec::new();
        for record in &records {
            let held = self.edit.read(INDEX, record.page).expect("a bitmap");
            let bits = |at: usize| (0..8).filter(move |bit| held.bytes()[at] >> bit & 1 == 1);
            let found = (0..4096).flat_map(|at| bits.clone()(at).map(move |bit| at * 8 + bit));
            let before = nodes.len();
            nodes.extend(found.map(|bit| record.key * 32_768 + bit as u64));
            assert!(nodes.len() > before, "an empty bitmap");
        }
        assert_eq!(nodes, hubs);
        tree_pages + records.len() as u64
    }

    fn node(&self, random: &mut Random, range: Range) -> u64 {
        match random.below(10) {
            // Some nodes are met again and again, so that their lists get long.
            0..4 => range.of(random.below(3) * 7),
            4 => self.lists.range(range.of(random.below(range.len))..).next().map_or(0, |l| *l.0),
            _ => range.of(random.below(range.len)),
        }
    }

    fn step(&mut self, random: &mut Random, range: Range, insert_percent: u64) {
        let node = self.node(random, range);
        let degree = self.lists.get(&node).map_or(0, Vec::len) as u64;
        let position = random.below(degree);
        let chosen = self.lists.get(&node).map(|list| list[position as usize]);
        if random.below(100) < insert_percent {
            let bound = if random.below(8) == 0 { 1 << 32 } else { 14 };
            let source = random.below(bound);
            let time = random.below(1_000) as i64 - 500;
            let weight = random.below(99) as f32;
            let entry = self.entry(source, random.below(1 << 40), time, weight);
            return self.insert(node, entry);
        }
        let takes = random.below(if degree > 50 { 1_000 } else { 30 }) == 0;
        match (random.below(40), chosen) {
            _ if takes => self.take(node),
            (0..4, Some(entry)) => {
                let new = self.entry(random.below(14), random.below(9), entry.time, 0.5);
                self.lists().set(node, position, &new).expect("sets");
                self.lists.get_mut(&node).expect("there")[position as usize] = new;
            }
            (4..7, _) => self.compare_reads(node, random.below(14), degree),
            (7..20, Some(entry)) => self.remove(node, entry.source, None),
            (_, Some(entry)) => {
                let edge_id = self.layout.has_edge_ids.then_some(entry.edge_id);
                self.remove(node, entry.source, edge_id);
            }
            (_, None) => self.remove(node, random.below(14), None),
        }
    }

    fn compare_reads(&mut self, node: u64, source: u64, degree: u64) {
        let list = self.lists.get(&node).cloned().unwrap_or_default();
        let numbered = (0..).zip(list.iter().copied());
        let expected: Vec<(u64, Entry)> = numbered.filter(|(_, e)| e.source == source).collect();
        let mut lists = self.lists();
        assert_eq!(lists.find(node, source).expect("reads"), expected);
        assert_eq!(lists.list(node).expect("reads"), list);
        assert_eq!(lists.degree(node).expect("reads"), degree);
        let outcome = lists.set(node, degree, &Entry::default());
        assert!(matches!(outcome, Err(ReadError::PositionOutOfRange { .. })));
    }

    /// The pages of the L index: (largest node, page, lists).
    fn l_pages(&mut self) -> Vec<(u64, u64, usize)> {
        let records = self.check_tree(TreeKind::L).0;
        let mut pages = Vec::new();
        for record in records {
            let held = self.edit.read(TOPO, record.page).expect("a page");
            let page = LPage::check(held.bytes(), 1, self.layout).expect("canonical");
            pages.push((record.key, record.page, page.len()));
        }
        pages
    }
}

/// Nodes of a test: `len` of them, in groups of 25 that are `gap` apart.
#[derive(Clone, Copy, Debug)]
struct Range {
    len: u64,
    gap: u64,
}

impl Range {
    fn of(self, index: u64) -> u64 {
        index % 25 + index / 25 * self.gap
    }
}

#[test]
fn lists_are_vectors_whatever_is_done_to_them() {
    let mut total = EditCounts::default();
    let ranges = [Range { len: 40, gap: 25 }, Range { len: 3_000, gap: 40 }];
    let far = [Range { len: 1_000, gap: 1 << 30 }, Range { len: 700, gap: (1 << 33) + 5 }];
    let mut seed = 100;
    for (place, layout) in LAYOUTS.into_iter().enumerate() {
        for (page_bytes, fill) in [(4096, 0.9), (4096, 1.0), (8192, 0.9), (8192, 1.0)] {
            for range in ranges.into_iter().chain([far[place % 2]]) {
                seed += 1;
                println!("seed {seed}: {layout:?}, pages of {page_bytes}, fill {fill}, {range:?}");
                let mut random = Random::new(seed);
                let mut model = Model::new(layout, page_bytes, fill);
                for (steps, insert_percent) in [(4_000, 99), (1_000, 60), (1_500, 10)] {
                    for step in 0..steps {
                        model.step(&mut random, range, insert_percent);
                        if step % 500 == 499 {
                            model.check();
                        }
                    }
                }
                total.evictions += model.edit.counts.evictions;
                total.lists_evicted += model.edit.counts.lists_evicted;
                total.promotions += model.edit.counts.promotions;
                total.demotions += model.edit.counts.demotions;
                for node in model.lists.keys().copied().collect::<Vec<_>>() {
                    model.take(node);
                }
                model.check();
                assert_eq!(live_pages(&mut model.edit, TOPO), 0);
            }
        }
    }
    println!("{total:?}");
    assert!(total.evictions > 1_000 && total.lists_evicted > total.evictions, "{total:?}");
    assert!(total.promotions > 100 && total.demotions > 50, "{total:?}");
}

#[test]
fn a_low_fill_and_long_lists_still_leave_every_page_sound() {
    for (seed, fill) in [(301, 0.1), (302, 0.3), (303, 0.5)] {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut model = Model::new(LAYOUTS[4], 4096, fill);
        for step in 0..20_000 {
            model.step(
                &mut random,
                Range { len: 30, gap: 25 },
                if step % 4_000 < 3_000 { 98 } else { 20 },
            );
            if step % 500 == 499 {
                model.check();
            }
        }
        assert!(model.edit.counts.demotions > 0, "{:?}", model.edit.counts);
    }
}

#[test]
fn a_hub_grows_over_many_pages_and_shrinks_back_in_order() {
    for (layout, page_bytes) in [(PLAIN, 4096), (LAYOUTS[3], 8192)] {
        let mut model = Model::new(layout, page_bytes, 0.9);
        model.insert_many(4, 3);
        let mut random = Random::new(17);
        let total = 40 * page_bytes as u64 / layout.entry_bytes() as u64;
        for source in 0..total {
            let time = if source % 50 == 0 { random.below(source + 1) } else { source };
            let entry = model.entry(source % 400, source, time as i64, 0.0);
            model.insert(5, entry);
            if source % 5_000 == 0 {
                model.check();
            }
        }
        model.check();
        let record = model.check_tree(TreeKind::H).0[0];
        assert_ne!(record.extra & ROOM_BIT, 0);
        let numbered = model.edit.catalog.segments[TOPO as usize].num_pages;
        assert!(numbered <= 2 + 1 + 2 + 4 + 8 + 16 + 32 + 64, "{numbered} pages numbered");
        for source in 0..400 {
            model.remove(5, source * 7 % 400, None);
            if source % 20 == 0 {
                model.check();
            }
        }
        assert!(!model.lists.contains_key(&5));
        model.check();
        assert_eq!((model.edit.counts.promotions, model.edit.counts.demotions), (1, 1));
    }
}

#[test]
fn a_run_without_room_moves_once_and_then_uses_its_room() {
    let mut model = Model::new(PLAIN, 4096, 0.9);
    let per_page = HLayout::new(PLAIN, 4096).per_page();
    let entries: Vec<Entry> = (0..3 * per_page).map(|s| model.entry(s, 0, 0, 0.0)).collect();
    let mut raw = Vec::new();
    entries.iter().for_each(|entry| PLAIN.encode(entry, &mut raw));
    model.lists().h_create(8, &raw).expect("creates");
    model.edit.catalog.edge_types[1].num_edges = entries.len() as u64;
    model.lists.insert(8, entries);
    model.check();
    // (entries added, first page, pages numbered)
    for (count, first_page, numbered) in
        [(1, 3, 7), (per_page - 1, 3, 7), (1, 7, 15), (4 * per_page - 1, 7, 15), (1, 15, 31)]
    {
        model.insert_many(8, count);
        let record = model.check_tree(TreeKind::H).0[0];
        let found = (record.page, model.edit.catalog.segments[TOPO as usize].num_pages);
        assert_eq!(found, (first_page, numbered));
        assert_ne!(record.extra & ROOM_BIT, 0);
        model.check();
    }
}

#[test]
fn a_node_above_all_goes_to_the_last_page_until_that_is_full() {
    let mut model = Model::new(PLAIN, 4096, 0.9);
    for node in 0..1_000 {
        model.insert_many(node, 1);
    }
    // A list of one entry takes 12 bytes of 4064.
    let expected = vec![(337, 0, 338), (675, 1, 338), (999, 2, 324)];
    assert_eq!(model.l_pages(), expected);
    assert_eq!(model.edit.counts.evictions, 0);
    model.check();
}

#[test]
fn a_full_page_moves_its_largest_lists_to_a_new_page_until_the_rest_is_within_fill() {
    let mut model = Model::new(PLAIN, 4096, 0.9);
    for node in 0..338 {
        model.insert_many(2 * node, 1);
    }
    // 338 x 12 and 12 more are 4068; within 3657 are 304 lists, the new one among them.
    model.insert_many(101, 1);
    assert_eq!(model.l_pages(), vec![(604, 0, 304), (674, 1, 35)]);
    let counts = model.edit.counts;
    assert_eq!((counts.evictions, counts.lists_evicted), (1, 35));
    model.check();
}

#[test]
fn evicted_lists_join_the_next_page_if_they_fit_there_within_fill() {
    let mut model = Model::new(PLAIN, 4096, 0.9);
    for node in 0..380 {
        model.insert_many(2 * node, 1);
    }
    assert_eq!(model.l_pages(), vec![(674, 0, 338), (758, 1, 42)]);
    model.insert_many(101, 1);
    assert_eq!(model.l_pages(), vec![(604, 0, 304), (758, 1, 77)]);
    model.check();
    // The next page is now too full for what the first evicts.
    for node in 1_000..1_240 {
        model.insert_many(node, 1);
    }
    for node in 0..35 {
        model.insert_many(2 * node + 1, 1);
    }
    let pages = model.l_pages();
    assert_eq!(pages.len(), 3);
    assert_eq!(pages[2], (1_239, 1, 317));
    model.check();
}

#[test]
fn the_list_that_grows_may_be_the_one_that_is_evicted() {
    let mut model = Model::new(PLAIN, 4096, 0.9);
    for node in 0..4 {
        model.insert_many(node, 200);
    }
    model.insert_many(9, 202);
    // 4 x 808 and 816 are 4048 bytes: 4 more entries fit.
    model.insert_many(9, 4);
    assert_eq!(model.l_pages(), vec![(9, 0, 5)]);
    model.insert_many(9, 1);
    assert_eq!(model.l_pages(), vec![(3, 0, 4), (9, 1, 1)]);
    model.check();
}

#[test]
fn nodes_farther_apart_than_32_bits_never_share_a_page() {
    let mut model = Model::new(PLAIN, 4096, 0.9);
    let far = u64::from(u32::MAX);
    model.insert_many(far + 7, 1);
    model.insert_many(7, 1);
    assert_eq!(model.l_pages(), vec![(far + 7, 0, 2)]);
    model.insert_many(6, 1);
    assert_eq!(model.l_pages(), vec![(6, 1, 1), (far + 7, 0, 2)]);
    model.insert_many(far + 8, 1);
    assert_eq!(model.l_pages(), vec![(6, 1, 1), (far + 7, 0, 2), (far + 8, 2, 1)]);
    model.check();
}

#[test]
fn a_list_is_promoted_above_half_a_page_and_demoted_at_a_quarter() {
    let mut model = Model::new(PLAIN, 4096, 0.9);
    model.insert_many(7, 508);
    assert_eq!(model.edit.counts.promotions, 0);
    model.insert_many(7, 1);
    assert_eq!((model.edit.counts.promotions, model.l_pages().len()), (1, 0));
    model.check();
    let mut sources: Vec<u64> = (1..508).rev().collect();
    while model.lists[&7].len() > 255 {
        model.remove(7, sources.pop().expect("a source"), None);
    }
    assert_eq!(model.edit.counts.demotions, 0);
    model.remove(7, sources.pop().expect("a source"), None);
    assert_eq!((model.edit.counts.demotions, model.l_pages().len()), (1, 1));
    assert_eq!(model.tree(TreeKind::Gmap).root, None);
    model.check();
}
