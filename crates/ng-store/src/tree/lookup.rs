//! Looking up a sorted batch of keys in a static tree: every page is visited once for all of its
//! keys, and each level is one fetch.

use std::ops::Range;

use crate::catalog::TreeRoot;
use crate::error::{Damage, ReadError};
use crate::page::{Pages, Segment};
use crate::tree::{Record, TreeKind, TreePage};

/// Keys of the batch (a range of places) that end at one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub keys: Range<usize>,
    pub record: Record,
}

/// Finds for each key the first record with a key that is not smaller. Keys ascend, repeats are
/// fine; keys above the last record have no hit. Hits come in order of keys.
pub(crate) fn lookup(
    pages: &Pages,
    index: &Segment,
    root: TreeRoot,
    kind: TreeKind,
    keys: &[u64],
) -> Result<Vec<Hit>, ReadError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let whole = Record { key: u64::MAX, page: root.page, extra: 0 };
    let mut hits = vec![Hit { keys: 0..keys.len(), record: whole }];
    for level in (0..=root.level).rev() {
        let mut groups = std::mem::take(&mut hits);
        let blocks = sort_by_page(index, &mut groups)?;
        let mut visit = |place: usize, bytes: &[u8]| {
            let Some(group) = groups.get(place) else {
                return Ok(());
            };
            let wrong = |damage: &Damage| index.damaged(group.record.page, damage);
            let page = TreePage::decode(bytes, kind, level).map_err(|damage| wrong(&damage))?;
            let last = page.key(page.len().saturating_sub(1));
            if level < root.level && last != group.record.key {
                return Err(wrong(&Damage::new(
                    "index page: its largest key differs from its parent",
                )));
            }
            split(&page, keys, group.keys.clone(), &mut hits);
            Ok(())
        };
        pages.fetch(index, &blocks, 1, &mut visit)?;
        if !hits.is_sorted_by_key(|hit| hit.keys.start) {
            hits.sort_unstable_by_key(|hit| hit.keys.start);
        }
    }
    Ok(hits)
}

/// Sorts hits by the page that they lead to and returns the pages: they are read in that order, and
/// no two hits may lead to one page.
pub(crate) fn sort_by_page(index: &Segment, hits: &mut [Hit]) -> Result<Vec<u64>, ReadError> {
    if !hits.is_sorted_by_key(|hit| hit.record.page) {
        hits.sort_unstable_by_key(|hit| hit.record.page);
    }
    let pages: Vec<u64> = hits.iter().map(|hit| hit.record.page).collect();
    if pages.is_sorted_by(|a, b| a < b) {
        return Ok(pages);
    }
    Err(index.damaged(0, &Damage::new("index: two records lead to one page")))
}

/// Appends the records of one page that keys of `range` end at.
fn split(page: &TreePage<'_>, keys: &[u64], range: Range<usize>, hits: &mut Vec<Hit>) {
    let (mut at, mut cursor) = (range.start, 0);
    let keys = &keys[..range.end];
    while let Some(key) = keys.get(at) {
        cursor = page.lower_bound(cursor, *key);
        let Some(record) = page.record(cursor) else {
            return;
        };
        let rest = &keys[at..];
        let count = rest.iter().take_while(|key| **key <= record.key).count().max(1);
        hits.push(Hit { keys: at..at + count, record });
        at += count;
    }
}
