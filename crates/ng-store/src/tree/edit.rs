//! Changing trees page by page: find, insert, update, rekey, remove.
//!
//! Pages are those of `page.rs` and change at their logical number, since a segment has a page
//! table. What must not live here: what the records mean. The invariant that readers check: the
//! key of an inner record is exactly the largest key below its child, so a change of a page's
//! largest key goes up. No page is empty, and a root with one child gives way to it.

use crate::bytes::{le_u16, le_u64, put};
use crate::catalog::TreeRoot;
use crate::error::{Damage, ReadError};
use crate::limits::TREE_LEVELS_MAX;
use crate::page::Edit;
use crate::tree::page::{HEADER_BYTES, encode_page};
use crate::tree::{Record, TreeKind, TreePage};

/// A tree of an index segment; whoever changes it keeps its new root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The segment of its pages.
    pub segment: u32,
    /// What its pages say they are.
    pub kind: TreeKind,
    /// `None` while it has no record.
    pub root: Option<TreeRoot>,
}

/// A page on the way to a key.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    page: u64,
    /// The record of the way; in the leaf it may be one past the last.
    place: usize,
    /// Records in the page.
    count: usize,
}

/// The steps of a way by level.
type Path = [Step; TREE_LEVELS_MAX as usize];

/// What stands at the place of a key.
#[derive(Clone, Copy, Default)]
struct Found {
    /// The first record whose key is not smaller.
    at: Option<Record>,
    /// The one before it in the same leaf.
    before: Option<Record>,
}

impl Tree {
    /// The first record whose key is at least `key`.
    pub fn lower_bound(&self, edit: &mut Edit, key: u64) -> Result<Option<Record>, ReadError> {
        Ok(self.descend(edit, key, None)?.at)
    }

    /// The record with exactly this key.
    pub fn find(&self, edit: &mut Edit, key: u64) -> Result<Option<Record>, ReadError> {
        Ok(self.lower_bound(edit, key)?.filter(|record| record.key == key))
    }

    /// The first record whose key is at least `key`, or else the last one.
    pub fn at_or_last(&self, edit: &mut Edit, key: u64) -> Result<Option<Record>, ReadError> {
        let Found { at, before } = self.descend(edit, key, None)?;
        Ok(at.or(before))
    }

    /// The record with the largest key.
    #[cfg(test)]
    pub fn last(&self, edit: &mut Edit) -> Result<Option<Record>, ReadError> {
        self.at_or_last(edit, u64::MAX)
    }

    /// Puts in a record whose key the tree does not have.
    pub fn insert(&mut self, edit: &mut Edit, record: Record) -> Result<(), ReadError> {
        let Some(root) = self.root else {
            let page = edit.create(self.segment, self.page_of(0, &[record]))?;
            self.root = Some(TreeRoot { page, level: 0 });
            return Ok(());
        };
        let (mut path, mut record) = (Path::default(), record);
        let found = self.descend(edit, record.key, Some(&mut path))?;
        debug_assert!(found.at.is_none_or(|at| at.key != record.key), "{record:?} is there");
        for level in 0..=root.level {
            let step = path[usize::from(level)];
            debug_assert!(step.count <= self.kind.capacity(level), "{step:?} was decoded");
            if step.count < self.kind.capacity(level) {
                let width = self.kind.record_bytes(level);
                insert_record(edit.write(self.segment, step.page)?, width, step.place, record);
                // Past all others it is the largest key of the page, which the pages above name.
                if step.place == step.count {
                    self.raise(edit, &path, level, record.key)?;
                }
                return Ok(());
            }
            let (left_key, right) = self.split(edit, level, step, record)?;
            // The old page keeps its number and its record above, with a smaller key; the new one
            // needs a record after that, which may split the page above in turn.
            if level == root.level {
                let left = Record { key: left_key, page: root.page, extra: 0 };
                return self.grow(edit, level, left, right);
            }
            let above = &mut path[usize::from(level) + 1];
            put_key(edit.write(self.segment, above.page)?, 16, above.place, left_key);
            above.place += 1;
            record = right;
        }
        Ok(())
    }

    /// Gives the record of the same key another page and extra; says whether there is one.
    pub fn update(&mut self, edit: &mut Edit, record: Record) -> Result<bool, ReadError> {
        self.replace(edit, record.key, record)
    }

    /// Replaces a record by another in the same place of the order; says whether there was one.
    pub fn replace(&mut self, edit: &mut Edit, key: u64, by: Record) -> Result<bool, ReadError> {
        let mut path = Path::default();
        let found = self.descend(edit, key, Some(&mut path))?;
        if found.at.is_none_or(|at| at.key != key) {
            return Ok(false);
        }
        debug_assert!(found.before.is_none_or(|before| before.key < by.key), "order of {by:?}");
        let (leaf, width) = (path[0], self.kind.record_bytes(0));
        // Unless it is the last of its page, the key may change without a word to the pages above.
        put_record(edit.write(self.segment, leaf.page)?, width, leaf.place, by);
        if leaf.place + 1 == leaf.count && by.key != key {
            self.raise(edit, &path, 0, by.key)?;
        }
        Ok(true)
    }

    /// Takes a record out and returns it.
    pub fn remove(&mut self, edit: &mut Edit, key: u64) -> Result<Option<Record>, ReadError> {
        let mut path = Path::default();
        let found = self.descend(edit, key, Some(&mut path))?.at.filter(|at| at.key == key);
        let (Some(root), Some(record)) = (self.root, found) else {
            return Ok(None);
        };
        for level in 0..=root.level {
            let step = path[usize::from(level)];
            // No page is empty: its only record takes it along, and the page above loses one, too.
            if step.count == 1 {
                edit.remove(self.segment, step.page);
                continue;
            }
            let width = self.kind.record_bytes(level);
            let largest = remove_record(edit.write(self.segment, step.page)?, width, step.place);
            if step.place + 1 == step.count {
                self.raise(edit, &path, level, largest)?;
            }
            if level == root.level {
                self.collapse(edit)?;
            }
            return Ok(Some(record));
        }
        self.root = None;
        Ok(Some(record))
    }

    /// Goes to the first record whose key is at least `key`, or past the last one. Who is going to
    /// change the tree keeps the way there.
    fn descend(
        &self,
        edit: &mut Edit,
        key: u64,
        mut path: Option<&mut Path>,
    ) -> Result<Found, ReadError> {
        let mut found = Found::default();
        let Some(root) = self.root else {
            return Ok(found);
        };
        let mut page = root.page;
        for level in (0..=root.level).rev() {
            let bytes = edit.look(self.segment, page)?;
            let typed = match TreePage::decode(bytes, self.kind, level) {
                Ok(typed) => typed,
                Err(damage) => return Err(edit.damaged(self.segment, page, &damage)),
            };
            let (count, mut place) = (typed.len(), typed.lower_bound(0, key));
            // A key above all others belongs below the last record, where it can be inserted.
            if level > 0 {
                place = place.min(count - 1);
            }
            found.at = typed.record(place);
            found.before = place.checked_sub(1).and_then(|place| typed.record(place));
            if let Some(path) = path.as_deref_mut() {
                let Some(step) = path.get_mut(usize::from(level)) else {
                    return Err(self.too_high(edit, page));
                };
                *step = Step { page, place, count };
            }
            if level > 0 {
                page = found.at.map_or(page, |record| record.page);
            }
        }
        Ok(found)
    }

    /// Tells the pages above `level` that the largest key below them is now `key`.
    fn raise(&self, edit: &mut Edit, path: &Path, level: u8, key: u64) -> Result<(), ReadError> {
        let height = self.root.map_or(0, |root| root.level);
        for above in level + 1..=height {
            let step = path[usize::from(above)];
            debug_assert!(step.place < step.count, "{step:?} leads to no page");
            let held = edit.read(self.segment, step.page)?;
            let known = le_u64(held.bytes(), HEADER_BYTES + step.place * 16);
            drop(held);
            // A page that is not changed is not marked as such: a checkpoint writes all that are.
            if known == key {
                return Ok(());
            }
            put_key(edit.write(self.segment, step.page)?, 16, step.place, key);
            // Only the last record of a page is named by the one above.
            if step.place + 1 != step.count {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Puts a record into a full page by making a page to the right of it; returns the largest key
    /// of the old page, and the record of the new one.
    fn split(
        &self,
        edit: &mut Edit,
        level: u8,
        step: Step,
        record: Record,
    ) -> Result<(u64, Record), ReadError> {
        let width = self.kind.record_bytes(level);
        assert_eq!(step.count, self.kind.capacity(level), "only a full page is split");
        let bytes = edit.write(self.segment, step.page)?;
        let key = |records: &[u8], place: usize| le_u64(records, place * width);
        // What ascends leaves full pages behind.
        let is_append = step.place == step.count;
        let middle = if is_append { step.count } else { step.count / 2 };
        let (start, end) = (HEADER_BYTES + middle * width, HEADER_BYTES + step.count * width);
        let tail = &mut bytes[start..end];
        let mut moved = tail.to_vec();
        tail.fill(0);
        put(bytes, 4, &(middle as u16).to_le_bytes());
        // At the middle it ends the old page, where its key is the largest.
        if step.place <= middle && !is_append {
            insert_record(bytes, width, step.place, record);
        } else {
            let at = (step.place - middle) * width;
            let mut encoded = Vec::with_capacity(width);
            record.encode(width, &mut encoded);
            moved.splice(at..at, encoded);
        }
        let left_count = usize::from(le_u16(bytes, 4));
        let left_key = key(&bytes[HEADER_BYTES..], left_count - 1);
        let right_key = key(&moved, moved.len() / width - 1);
        assert!(left_count > 0 && !moved.is_empty(), "no page is empty");
        let page = edit.create(self.segment, encode_page(self.kind, level, &moved))?;
        Ok((left_key, Record { key: right_key, page, extra: 0 }))
    }

    /// A root above two pages.
    fn grow(
        &mut self,
        edit: &mut Edit,
        level: u8,
        left: Record,
        right: Record,
    ) -> Result<(), ReadError> {
        let level = level + 1;
        if level >= TREE_LEVELS_MAX {
            return Err(self.too_high(edit, left.page));
        }
        let page = edit.create(self.segment, self.page_of(level, &[left, right]))?;
        self.root = Some(TreeRoot { page, level });
        Ok(())
    }

    /// Makes the only child of a root the root.
    fn collapse(&mut self, edit: &mut Edit) -> Result<(), ReadError> {
        while let Some(TreeRoot { page, level: level @ 1.. }) = self.root {
            let held = edit.read(self.segment, page)?;
            let typed = TreePage::decode(held.bytes(), self.kind, level)
                .map_err(|damage| edit.damaged(self.segment, page, &damage))?;
            let Some(child) = typed.record(0).filter(|_| typed.len() == 1) else {
                return Ok(());
            };
            edit.remove(self.segment, page);
            self.root = Some(TreeRoot { page: child.page, level: level - 1 });
        }
        Ok(())
    }

    fn page_of(&self, level: u8, records: &[Record]) -> Vec<u8> {
        let mut encoded = Vec::new();
        for record in records {
            record.encode(self.kind.record_bytes(level), &mut encoded);
        }
        encode_page(self.kind, level, &encoded)
    }

    fn too_high(&self, edit: &Edit, page: u64) -> ReadError {
        let what = Damage::new("index: the tree has too many levels");
        edit.damaged(self.segment, page, &what)
    }
}

fn put_key(page: &mut [u8], width: usize, place: usize, key: u64) {
    put(page, HEADER_BYTES + place * width, &key.to_le_bytes());
}

fn put_record(page: &mut [u8], width: usize, place: usize, record: Record) {
    let at = HEADER_BYTES + place * width;
    put(page, at, &record.key.to_le_bytes());
    put(page, at + 8, &record.page.to_le_bytes());
    if width == 24 {
        put(page, at + 16, &record.extra.to_le_bytes());
    }
}

/// Opens a place in a page that has room.
fn insert_record(page: &mut [u8], width: usize, place: usize, record: Record) {
    let count = usize::from(le_u16(page, 4));
    assert!(place <= count, "place {place} of {count} records");
    let (at, end) = (HEADER_BYTES + place * width, HEADER_BYTES + count * width);
    page.copy_within(at..end, at + width);
    put_record(page, width, place, record);
    put(page, 4, &(count as u16 + 1).to_le_bytes());
}

/// Closes a place of a page with more than one record; returns the largest key of the rest.
fn remove_record(page: &mut [u8], width: usize, place: usize) -> u64 {
    let count = usize::from(le_u16(page, 4));
    assert!(place < count && count > 1, "place {place} of {count} records");
    let (at, end) = (HEADER_BYTES + place * width, HEADER_BYTES + count * width);
    page.copy_within(at + width..end, at);
    page[end - width..end].fill(0);
    put(page, 4, &(count as u16 - 1).to_le_bytes());
    le_u64(page, end - 2 * width)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use ng_testing::Random;

    use super::*;
    use crate::catalog::{Catalog, SegmentMeta};

    /// An empty segment.
    pub(crate) fn segment(name: &str, page_bytes: u32) -> SegmentMeta {
        SegmentMeta {
            physical_pages: None,
            name: name.into(),
            page_bytes,
            num_pages: 0,
            map_blocks: 0,
            table: Vec::new(),
        }
    }

    /// Pages of a segment that have bytes.
    pub(crate) fn live_pages(edit: &mut Edit, segment: u32) -> u64 {
        let numbered = edit.catalog.segments[segment as usize].num_pages;
        (0..numbered).filter(|page| edit.read(segment, *page).is_ok()).count() as u64
    }

    /// All records of a tree and the number of its pages, with every page checked.
    pub(crate) fn check_tree(edit: &mut Edit, tree: Tree) -> (Vec<Record>, u64) {
        let (mut records, mut num_pages) = (Vec::new(), 0);
        if let Some(root) = tree.root {
            assert!(root.level < TREE_LEVELS_MAX);
            let count = walk(edit, tree, root, None, &mut records, &mut num_pages);
            assert!(root.level == 0 || count > 1, "a root with one child");
        }
        assert!(records.is_sorted_by(|a, b| a.key < b.key), "keys of {tree:?}");
        (records, num_pages)
    }

    fn walk(
        edit: &mut Edit,
        tree: Tree,
        at: TreeRoot,
        largest: Option<u64>,
        records: &mut Vec<Record>,
        num_pages: &mut u64,
    ) -> usize {
        *num_pages += 1;
        let held = edit.read(tree.segment, at.page).expect("a page");
        let typed = TreePage::check(held.bytes(), tree.kind, at.level).expect("sound");
        assert!(largest.is_none_or(|largest| largest == typed.key(typed.len() - 1)), "{at:?}");
        for place in 0..typed.len() {
            let record = typed.record(place).expect("a record");
            if at.level == 0 {
                records.push(record);
            } else {
                let child = TreeRoot { page: record.page, level: at.level - 1 };
                walk(edit, tree, child, Some(record.key), records, num_pages);
            }
        }
        typed.len()
    }

    fn fixture(kind: TreeKind) -> (Edit, Tree) {
        let catalog = Catalog {
            fill: 0.9,
            reuse_ids: false,
            log: None,
            keys: None,
            page_bytes: 4096,
            node_types: Vec::new(),
            edge_types: Vec::new(),
            segments: vec![segment("other", 4096), segment("tree", 4096)],
        };
        (Edit::detached(catalog), Tree { segment: 1, kind, root: None })
    }

    fn check(edit: &mut Edit, tree: Tree, model: &BTreeMap<u64, Record>) {
        let (records, num_pages) = check_tree(edit, tree);
        assert!(records.iter().eq(model.values()), "records differ");
        assert_eq!(live_pages(edit, 1), num_pages);
        assert_eq!(tree.last(edit).expect("reads"), model.values().next_back().copied());
    }

    struct Model {
        edit: Edit,
        tree: Tree,
        records: BTreeMap<u64, Record>,
    }

    impl Model {
        fn step(&mut self, random: &mut Random, bound: u64, insert_percent: u64) {
            let Self { edit, tree, records } = self;
            let key = random.below(bound);
            let extra = if tree.kind == TreeKind::H { random.next_u64() } else { 0 };
            let record = Record { key, page: random.next_u64(), extra };
            let next = records.range(key..).next().map(|(_, record)| *record);
            assert_eq!(tree.lower_bound(edit, key).expect("reads"), next);
            let last = records.values().next_back().copied();
            assert_eq!(tree.at_or_last(edit, key).expect("reads"), next.or(last));
            let is_there = records.contains_key(&key);
            if random.below(100) < insert_percent {
                assert_eq!(tree.update(edit, record).expect("updates"), is_there);
                if !is_there {
                    tree.insert(edit, record).expect("inserts");
                }
                records.insert(key, record);
            } else if let Some(next) = next {
                if random.below(4) == 0 {
                    // The gap below a record ends at the record before it.
                    let before = records.range(..next.key).next_back().map_or(0, |(k, _)| k + 1);
                    let by = Record { key: before + random.below(next.key - before + 1), ..next };
                    assert!(tree.replace(edit, next.key, by).expect("rekeys"));
                    records.remove(&next.key);
                    records.insert(by.key, by);
                } else {
                    assert_eq!(tree.remove(edit, next.key).expect("removes"), Some(next));
                    records.remove(&next.key);
                }
            } else {
                assert_eq!(tree.remove(edit, key).expect("reads"), None);
            }
        }
    }

    #[test]
    fn a_tree_is_a_sorted_map_whatever_is_done_to_it() {
        for (seed, kind, bound, peak) in [
            (1, TreeKind::H, 1 << 40, 30_000),
            (2, TreeKind::L, 1 << 63, 30_000),
            (3, TreeKind::Gmap, 700, 2_000),
        ] {
            println!("seed {seed}");
            let (edit, tree) = fixture(kind);
            let mut model = Model { edit, tree, records: BTreeMap::new() };
            let mut random = Random::new(seed);
            for insert_percent in [95, 50, 20] {
                for step in 0..peak {
                    model.step(&mut random, bound, insert_percent);
                    if step % 5_000 == 0 {
                        check(&mut model.edit, model.tree, &model.records);
                    }
                }
            }
            check(&mut model.edit, model.tree, &model.records);
            while !model.records.is_empty() {
                model.step(&mut random, bound, 0);
            }
            check(&mut model.edit, model.tree, &model.records);
            assert_eq!(model.tree.root, None);
        }
    }

    #[test]
    fn three_levels_grow_by_ascending_keys_with_full_pages_and_shrink_from_either_end() {
        for from_front in [false, true] {
            let (mut edit, mut tree) = fixture(TreeKind::Names);
            let record = |key| Record { key, page: 2 * key, extra: 0 };
            let total = 255 * 255 + 600;
            for key in 0..total {
                tree.insert(&mut edit, record(key)).expect("inserts");
            }
            assert_eq!(tree.root.map(|root| root.level), Some(2));
            assert_eq!(check_tree(&mut edit, tree).1, total.div_ceil(255) + 2 + 1);
            for step in 0..total {
                let key = if from_front { step } else { total - 1 - step };
                assert_eq!(tree.remove(&mut edit, key).expect("removes"), Some(record(key)));
                if step % 9_973 == 0 {
                    assert_eq!(check_tree(&mut edit, tree).0.len() as u64, total - 1 - step);
                }
            }
            assert_eq!((tree.root, live_pages(&mut edit, 1)), (None, 0));
        }
    }
}
