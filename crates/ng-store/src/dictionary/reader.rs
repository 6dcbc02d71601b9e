//! Looking up string ids: keys to node ids and node ids to names, a batch at a time.

use std::ops::Range;

use ng_types::NodeId;

use crate::catalog::{DictionaryMeta, TreeRoot};
use crate::dictionary::page::StringPage;
use crate::error::{Damage, ReadError};
use crate::page::{Pages, Segment};
use crate::tree::TreeKind;
use crate::tree::lookup;

/// The dictionary of one node type in an open store.
pub(crate) struct DictionaryReader<'a> {
    pub pages: &'a Pages,
    pub meta: DictionaryMeta,
    pub names: &'a Segment,
    pub names_index: &'a Segment,
    pub keys: &'a Segment,
    pub num_nodes: u64,
}

/// A page and the keys (places in sorted order) that lead to it.
struct Group {
    page: u64,
    keys: Range<usize>,
}

impl DictionaryReader<'_> {
    /// The node id of each key, in request order.
    pub fn lookup(&self, keys: &[&str]) -> Result<Vec<Option<u64>>, ReadError> {
        let mut out = vec![None; keys.len()];
        let Some(root) = self.meta.keys_root else {
            return Ok(out);
        };
        let mut sorted: Vec<(&[u8], usize)> =
            keys.iter().enumerate().map(|(place, key)| (key.as_bytes(), place)).collect();
        sorted.sort_unstable();
        let mut groups = vec![Group { page: root.page, keys: 0..sorted.len() }];
        for level in (0..=root.level).rev() {
            groups = self.descend(level, groups, &sorted, &mut out)?;
        }
        Ok(out)
    }

    /// Visits the pages of one level; returns the children, or fills `out` at the leaves.
    fn descend(
        &self,
        level: u8,
        mut groups: Vec<Group>,
        sorted: &[(&[u8], usize)],
        out: &mut [Option<u64>],
    ) -> Result<Vec<Group>, ReadError> {
        groups.sort_unstable_by_key(|group| group.page);
        let blocks: Vec<u64> = groups.iter().map(|group| group.page).collect();
        self.check_distinct(&blocks)?;
        let mut children: Vec<Group> = Vec::new();
        let mut visit = |index: usize, bytes: &[u8]| {
            let Some(group) = groups.get(index) else {
                return Ok(());
            };
            let wrong = |damage: Damage| self.keys.damaged(group.page, &damage);
            let page = StringPage::decode(bytes, self.keys.id, level).map_err(wrong)?;
            let first = children.len();
            for place in group.keys.clone() {
                let Some((key, request)) = sorted.get(place) else {
                    continue;
                };
                let Some((value, text)) = page.lower_bound(key).map_err(wrong)? else {
                    continue;
                };
                if level == 0 {
                    if let Some(found) = out.get_mut(*request).filter(|_| text == *key) {
                        *found = Some(self.check_id(value, group.page)?);
                    }
                    continue;
                }
                match children.get_mut(first..).and_then(<[Group]>::last_mut) {
                    Some(last) if last.page == value => last.keys.end = place + 1,
                    _ => children.push(Group { page: value, keys: place..place + 1 }),
                }
            }
            Ok(())
        };
        self.pages.fetch(self.keys, &blocks, 1, &mut visit)?;
        children.sort_by_key(|group| group.keys.start);
        Ok(children)
    }

    fn check_id(&self, id: u64, page: u64) -> Result<u64, ReadError> {
        if id < self.num_nodes {
            return Ok(id);
        }
        Err(self.keys.damaged(page, &Damage::new(format!("dictionary: node {id} does not exist"))))
    }

    fn check_distinct(&self, blocks: &[u64]) -> Result<(), ReadError> {
        if blocks.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        Err(self.keys.damaged(0, &Damage::new("dictionary: two records lead to one page")))
    }

    /// The name of each node, in request order. Ids were checked.
    pub fn names(&self, ids: &[NodeId]) -> Result<Vec<String>, ReadError> {
        let mut out = vec![String::new(); ids.len()];
        let mut sorted: Vec<(u64, usize)> =
            ids.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        sorted.sort_unstable();
        let keys: Vec<u64> = sorted.iter().map(|(id, _)| *id).collect();
        let missing = || {
            let what = Damage::new("dictionary: an id has no string");
            self.names_index.damaged(0, &what)
        };
        let root: TreeRoot = match self.meta.names_root {
            Some(root) => root,
            None if ids.is_empty() => return Ok(out),
            None => return Err(missing()),
        };
        let mut hits = lookup::lookup(self.pages, self.names_index, root, TreeKind::Names, &keys)?;
        if hits.last().map_or(0, |hit| hit.keys.end) != keys.len() {
            return Err(missing());
        }
        let blocks = lookup::sort_by_page(self.names_index, &mut hits)?;
        let mut visit = |index: usize, bytes: &[u8]| {
            let Some(hit) = hits.get(index) else {
                return Ok(());
            };
            let wrong = |damage: Damage| self.names.damaged(hit.record.page, &damage);
            let page = StringPage::decode(bytes, self.names.id, 0).map_err(wrong)?;
            let (first, _) = page.entry(0).map_err(wrong)?;
            for (id, place) in &sorted[hit.keys.clone()] {
                let (found, text) = page.entry(id.saturating_sub(first) as usize).map_err(wrong)?;
                let text = std::str::from_utf8(text).ok().filter(|_| found == *id);
                let text =
                    text.ok_or_else(|| wrong(Damage::new("dictionary: a string is not valid")))?;
                if let Some(name) = out.get_mut(*place) {
                    text.clone_into(name);
                }
            }
            Ok(())
        };
        self.pages.fetch(self.names, &blocks, 1, &mut visit)?;
        Ok(out)
    }
}
