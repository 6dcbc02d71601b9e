//! Which rows of a tensor a newer version has changed: for those who hold rows in memory and go on
//! to that version.
//!
//! What must not live here: what the rows are. The invariant: a row that is left out has the same
//! bytes in both versions; one that is named may have, too, since whole pages are compared.

use std::ops::Range;
use std::sync::Arc;

use crate::catalog::{Owner, TensorRef};
use crate::error::ReadError;
use crate::page::{Located, Pages, Segment};
use crate::store::Snapshot;

/// Pages whose places are compared at a time.
const TOGETHER: u64 = 4096;

impl Snapshot {
    /// Rows, in ascending ranges, whose bytes may differ from those that `before` has, an earlier
    /// snapshot of the same open store; rows that `before` does not have are left out. `None` where
    /// rows lie in another order than nodes, are stored sparse, or `before` is later or of another
    /// store.
    ///
    /// As long as somebody holds `before`, no page of it is written anew, so equal places are equal
    /// bytes: page tables are compared, and rows are not read.
    ///
    /// # Errors
    /// [`ReadError::Missing`], and those of reading the page tables.
    pub fn rows_changed_since(
        &self,
        before: &Self,
        tensor: TensorRef,
    ) -> Result<Option<Vec<Range<u64>>>, ReadError> {
        let (meta, new, layout) = self.version.tensor(tensor)?;
        let Ok((old_meta, old, old_layout)) = before.version.tensor(tensor) else {
            return Ok(None);
        };
        let has_order = match tensor.owner {
            Owner::Node(id) => {
                self.version.node_type(id)?.has_order() || before.version.node_type(id)?.has_order()
            }
            Owner::Edge(_) => false,
        };
        let is_same = Arc::ptr_eq(&self.inner, &before.inner)
            && !self.is_older_than(before)
            && (new.id, layout) == (old.id, old_layout)
            && !(meta.is_sparse() || old_meta.is_sparse() || has_order);
        if !is_same {
            return Ok(None);
        }
        let num_rows = meta.num_rows.min(old_meta.num_rows);
        let pages = changed_pages(&self.inner.pages, old, new)?;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for page in pages {
            let rows = layout.rows_on(page);
            let rows = rows.start.min(num_rows)..rows.end.min(num_rows);
            match ranges.last_mut() {
                Some(last) if rows.start <= last.end => last.end = last.end.max(rows.end),
                _ if rows.is_empty() => {}
                _ => ranges.push(rows),
            }
        }
        Ok(Some(ranges))
    }
}

/// Pages that both versions have, ascending, of which anything differs.
fn changed_pages(pages: &Pages, old: &Segment, new: &Segment) -> Result<Vec<u64>, ReadError> {
    let mut changed = Vec::new();
    for segment in [old, new] {
        segment.changed.for_each(&mut |page, _| changed.push(page));
    }
    if !Arc::ptr_eq(&old.placed, &new.placed) {
        let end = old.num_pages.min(new.num_pages);
        let per_page = new.blocks_per_page();
        for first in (0..end).step_by(TOGETHER as usize) {
            let some: Vec<u64> = (first..end.min(first + TOGETHER)).collect();
            // Pages are written whole, so the first block tells.
            let blocks: Vec<u64> = some.iter().map(|page| page * per_page).collect();
            let before = pages.resolve(&old.placed, &blocks)?;
            let after = pages.resolve(&new.placed, &blocks)?;
            let places = some.into_iter().zip(before.into_iter().zip(after));
            let moved = |a: &Located, b: &Located| a != b || *a == Located::NOWHERE;
            changed.extend(places.filter(|(_, (a, b))| moved(a, b)).map(|(page, _)| page));
        }
    }
    changed.sort_unstable();
    changed.dedup();
    Ok(changed)
}
