//! Walking a tree in key order with one page per level, checking it on the way.

use std::cell::RefCell;

use crate::catalog::TreeRoot;
use crate::error::{Damage, ReadError};
use crate::io::BLOCK_BYTES;
use crate::page::{PageSet, Pages, Segment};
use crate::tree::{Record, TreeKind, TreePage};

/// Pages of a segment that nothing has led to so far.
pub(crate) type Unclaimed = RefCell<PageSet>;

pub(crate) struct TreeCursor<'a> {
    pages: &'a Pages,
    index: &'a Segment,
    kind: TreeKind,
    root: Option<TreeRoot>,
    unclaimed: Option<&'a Unclaimed>,
    /// Pages from the root down: number, level, bytes, next record.
    stack: Vec<(u64, u8, Vec<u8>, usize)>,
    last_key: Option<u64>,
    /// Pages visited so far.
    pub num_pages: u64,
}

impl<'a> TreeCursor<'a> {
    pub fn new(
        pages: &'a Pages,
        index: &'a Segment,
        kind: TreeKind,
        root: Option<TreeRoot>,
    ) -> Self {
        let (stack, last_key) = (Vec::new(), None);
        Self { pages, index, kind, root, unclaimed: None, stack, last_key, num_pages: 0 }
    }

    /// The same, taking each page of the tree from `unclaimed`.
    pub fn claiming(mut self, unclaimed: &'a Unclaimed) -> Self {
        self.unclaimed = Some(unclaimed);
        self
    }

    /// The next record of the leaves.
    pub fn next(&mut self) -> Result<Option<Record>, ReadError> {
        if let Some(root) = self.root.take() {
            self.push(root.page, root.level, None)?;
        }
        while let Some((number, level, bytes, at)) = self.stack.last_mut() {
            let wrong = |damage: Damage| self.index.damaged(*number, &damage);
            let page = TreePage::decode(bytes, self.kind, *level).map_err(wrong)?;
            let Some(record) = page.record(*at) else {
                self.stack.pop();
                continue;
            };
            *at += 1;
            let level = *level;
            if level > 0 {
                self.push(record.page, level - 1, Some(record.key))?;
                continue;
            }
            if self.last_key.replace(record.key) >= Some(record.key) {
                return Err(wrong(Damage::new("index: keys are not ascending across pages")));
            }
            return Ok(Some(record));
        }
        Ok(None)
    }

    fn push(&mut self, page: u64, level: u8, largest: Option<u64>) -> Result<(), ReadError> {
        if let Some(unclaimed) = self.unclaimed {
            claim(unclaimed, self.index, page)?;
        }
        let bytes = read_page(self.pages, self.index, page)?;
        let wrong = |damage: Damage| self.index.damaged(page, &damage);
        let typed = TreePage::check(&bytes, self.kind, level).map_err(wrong)?;
        let found = typed.key(typed.len().saturating_sub(1));
        if largest.is_some_and(|largest| largest != found) {
            return Err(wrong(Damage::new("index page: its largest key differs from its parent")));
        }
        self.num_pages += 1;
        self.stack.push((page, level, bytes, 0));
        Ok(())
    }
}

/// Notes that something leads to a page; it is an error if it is not there, or not for the first
/// time.
pub(crate) fn claim(unclaimed: &Unclaimed, segment: &Segment, page: u64) -> Result<(), ReadError> {
    if unclaimed.borrow_mut().remove(page) {
        return Ok(());
    }
    Err(segment
        .damaged(page, &Damage::new("two pointers lead to this page, or it has no physical page")))
}

/// Copies one 4 KiB page of an index or dictionary segment.
pub(crate) fn read_page(pages: &Pages, index: &Segment, page: u64) -> Result<Vec<u8>, ReadError> {
    let mut copy = vec![0; BLOCK_BYTES];
    let mut visit = |_: usize, bytes: &[u8]| {
        copy.copy_from_slice(bytes);
        Ok(())
    };
    pages.fetch(index, &[page], 1, &mut visit)?;
    Ok(copy)
}
