//! Dictionaries: keys ascend, names are complete, and each is the inverse of the other.

use ng_types::NodeTypeId;

use crate::dictionary::page::StringPage;
use crate::error::{Damage, ReadError};
use crate::page::{Segment, data_file};
use crate::store::Snapshot;
use crate::tree::{TreeCursor, TreeKind, read_page};
use crate::verify::Run;

/// A page of keys on the way down: number, level, bytes, next entry.
type Open = (u64, u8, Vec<u8>, usize);

impl Run<'_> {
    pub(super) fn check_dictionary(&mut self, snapshot: &Snapshot, id: NodeTypeId) {
        let (inner, version) = (self.inner, self.version);
        let Ok(owner) = version.node_type(id) else {
            return;
        };
        let Some(meta) = owner.dictionary else { return };
        let segments =
            [meta.names, meta.names_index, meta.keys].map(|segment| version.segment(segment));
        let [Ok(names), Ok(index), Ok(keys)] = segments else {
            return;
        };
        let cursor = TreeCursor::new(&inner.pages, index, TreeKind::Names, meta.names_root);
        if let Err(error) = check_names(snapshot, names, index, cursor, owner.num_nodes) {
            self.report.add_error(&data_file(&names.meta.name), &error);
            return;
        }
        if let Err(error) = check_keys(snapshot, id, keys) {
            self.report.add_error(&data_file(&keys.meta.name), &error);
        }
    }
}

fn check_names(
    snapshot: &Snapshot,
    names: &Segment,
    index: &Segment,
    mut cursor: TreeCursor<'_>,
    num_nodes: u64,
) -> Result<(), ReadError> {
    let (mut next, mut page_count) = (0, 0);
    while let Some(record) = cursor.next()? {
        let bytes = read_page(&snapshot.inner.pages, names, record.page)?;
        let wrong = |damage: Damage| names.damaged(record.page, &damage);
        let page = StringPage::check(&bytes, names.id, 0).map_err(wrong)?;
        for entry in 0..page.len() {
            let (id, text) = page.entry(entry).map_err(wrong)?;
            if id != next || std::str::from_utf8(text).is_err() {
                return Err(wrong(Damage::new(format!(
                    "the name of node {id} is in the place of node {next}, or is not UTF-8"
                ))));
            }
            next += 1;
        }
        if record.key.saturating_add(1) != next || record.page != page_count {
            return Err(wrong(Damage::new(
                "the page or its last node differs from the index of names",
            )));
        }
        page_count += 1;
    }
    let found = (next, page_count, cursor.num_pages);
    let expected = (num_nodes, names.num_pages, index.num_pages);
    if found != expected {
        let what = format!("(names, pages, index pages) are {found:?}, expected {expected:?}");
        return Err(names.damaged(0, &Damage::new(what)));
    }
    Ok(())
}

fn check_keys(snapshot: &Snapshot, id: NodeTypeId, keys: &Segment) -> Result<(), ReadError> {
    let inner = &snapshot.inner;
    let owner = snapshot.version.node_type(id)?;
    let root = owner.dictionary.and_then(|meta| meta.keys_root);
    let mut stack: Vec<Open> = Vec::new();
    let (mut num_pages, mut num_keys, mut last) = (0, 0, None::<Vec<u8>>);
    let mut open = |page: u64, level: u8| {
        let bytes = read_page(&inner.pages, keys, page)?;
        StringPage::check(&bytes, keys.id, level).map_err(|d| keys.damaged(page, &d))?;
        num_pages += 1;
        Ok::<Open, ReadError>((page, level, bytes, 0))
    };
    if let Some(root) = root {
        stack.push(open(root.page, root.level)?);
    }
    while let Some((number, level, bytes, at)) = stack.last_mut() {
        let number = *number;
        let wrong = |what: &'static str| keys.damaged(number, &Damage::new(what));
        let page = StringPage::decode(bytes, keys.id, *level)
            .map_err(|damage| keys.damaged(number, &damage))?;
        if *level > 0 {
            // Coming back from a child, its largest key is the last one seen.
            let above = at.checked_sub(1).map(|at| page.entry(at)).transpose();
            let above = above.map_err(|damage| keys.damaged(number, &damage))?;
            if above.is_some_and(|(_, text)| last.as_deref() != Some(text)) {
                return Err(wrong("dictionary: the largest key of a page differs from its parent"));
            }
            if *at == page.len() {
                stack.pop();
                continue;
            }
            let (child, _) = page.entry(*at).map_err(|damage| keys.damaged(number, &damage))?;
            *at += 1;
            let child = open(child, *level - 1)?;
            stack.push(child);
            continue;
        }
        let entries = (0..page.len()).map(|index| page.entry(index));
        let entries: Vec<(u64, &[u8])> =
            entries.collect::<Result<_, _>>().map_err(|d| keys.damaged(number, &d))?;
        for (_, text) in &entries {
            if last.as_deref().is_some_and(|last| last >= *text) {
                return Err(wrong("dictionary: keys are not ascending"));
            }
            last = Some(text.to_vec());
        }
        let ids: Vec<u64> = entries.iter().map(|(id, _)| *id).collect();
        let names = snapshot.names(id, &ids)?;
        if names.iter().zip(&entries).any(|(name, (_, text))| name.as_bytes() != *text) {
            return Err(wrong("dictionary: a key leads to a node with another name"));
        }
        num_keys += entries.len() as u64;
        stack.pop();
    }
    if (num_keys, num_pages) != (owner.num_nodes, keys.num_pages) {
        let what = format!("{num_keys} keys on {num_pages} pages differ from the catalog");
        return Err(keys.damaged(0, &Damage::new(what)));
    }
    Ok(())
}
