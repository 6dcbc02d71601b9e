//! A transaction on pages: reads through to a version, keeps what it changes to itself.
//!
//! Everything that mutates a store (lists, trees, bitmaps, rows) works on an [`Edit`] and knows
//! nothing of files, logs or other versions. Dropping an edit undoes all of it.

use std::collections::HashMap;
use std::sync::Arc;

use ng_types::{IdHash, MemoryUser};

use crate::catalog::{Catalog, SegmentMeta};
use crate::error::{Damage, ReadError};
use crate::page::{Page, PagePool, Placed, Segment, Slot, segment_of};
use crate::store::Inner;
use crate::version::base::Version;
use crate::version::changes::Touched;

/// What edits did to L-type and H-type lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EditCounts {
    /// Entries put into or taken out of lists.
    pub list_updates: u64,
    /// Updates that found their L-type page full and had to evict.
    pub evictions: u64,
    /// Lists that these moved.
    pub lists_evicted: u64,
    /// Lists that became H-type.
    pub promotions: u64,
    /// Lists that became L-type again.
    pub demotions: u64,
}

impl EditCounts {
    /// Adds what another edit did.
    pub(crate) fn add(&mut self, other: &Self) {
        self.list_updates += other.list_updates;
        self.evictions += other.evictions;
        self.lists_evicted += other.lists_evicted;
        self.promotions += other.promotions;
        self.demotions += other.demotions;
    }
}

/// Pages that edits have read and not changed, by segment and page, so that a transaction does not
/// go through the caches again and again.
#[derive(Default)]
pub(crate) struct CleanPages {
    pages: HashMap<(u32, u64), Arc<Page>, IdHash>,
    bytes: u64,
}

impl CleanPages {
    /// Forgets all: after a checkpoint, pages are elsewhere.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.bytes = 0;
    }

    fn insert(&mut self, segment: u32, page: u64, held: Page) {
        self.bytes += held.bytes().len() as u64;
        self.pages.insert((segment, page), Arc::new(held));
    }

    fn remove(&mut self, segment: u32, page: u64) {
        if let Some(held) = self.pages.remove(&(segment, page)) {
            self.bytes -= held.bytes().len() as u64;
        }
    }
}

/// Pages of more bytes are read together only if the budget has room for them.
const MUCH_BYTES: u64 = 1 << 20;

/// A transaction on pages.
pub(crate) struct Edit {
    /// What the transaction makes of the catalog.
    pub catalog: Catalog,
    /// What it did.
    pub counts: EditCounts,
    /// Which lists, rows and nodes it changed.
    pub touched: Touched,
    /// What it makes of the segments.
    pub segments: Vec<Segment>,
    /// Kept from one transaction to the next.
    pub clean: CleanPages,
    pool: Arc<PagePool>,
    store: Option<Arc<Inner>>,
    /// What is done cannot be given up for want of memory: it is in the log already.
    is_durable: bool,
    /// The nodes that operations name were looked up when these were drafted.
    pub nodes_are_checked: bool,
}

impl Edit {
    /// An edit of `version`.
    pub fn new(store: &Arc<Inner>, pool: &Arc<PagePool>, version: &Version) -> Self {
        let edit = Self::owning(store, pool, version.clone(), CleanPages::default());
        Self { is_durable: false, ..edit }
    }

    /// An edit that owns `version`, to do what the log holds: where no snapshot shares them, pages
    /// are changed in place, and the budget may be passed by what one transaction changes.
    pub fn owning(
        store: &Arc<Inner>,
        pool: &Arc<PagePool>,
        version: Version,
        clean: CleanPages,
    ) -> Self {
        Self {
            catalog: Arc::unwrap_or_clone(version.catalog),
            counts: EditCounts::default(),
            touched: Touched::new(store.budget.share(MemoryUser::Changes)),
            segments: version.segments,
            clean,
            pool: Arc::clone(pool),
            store: Some(Arc::clone(store)),
            is_durable: true,
            nodes_are_checked: false,
        }
    }

    /// An edit with nothing under it: every page that it reads it has made itself.
    #[cfg(test)]
    pub fn detached(catalog: Catalog) -> Self {
        let fresh = |(id, meta): (usize, &SegmentMeta)| {
            let placed = Placed::fresh(id as u32, meta.clone());
            Segment { num_pages: meta.num_pages, ..Segment::unchanged(Arc::new(placed)) }
        };
        let segments = catalog.segments.iter().enumerate().map(fresh).collect();
        Self {
            catalog,
            counts: EditCounts::default(),
            touched: Touched::default(),
            segments,
            clean: CleanPages::default(),
            pool: Arc::default(),
            store: None,
            is_durable: false,
            nodes_are_checked: false,
        }
    }

    /// The store whose pages lie under the edit.
    pub fn store(&self) -> Option<Arc<Inner>> {
        self.store.clone()
    }

    /// Bytes of a page of `segment`.
    pub fn page_bytes(&self, segment: u32) -> usize {
        self.segments.get(segment as usize).map_or(0, |s| s.meta.page_bytes as usize)
    }

    /// The segment, as the transaction has made it.
    pub fn segment(&self, id: u32) -> Result<&Segment, ReadError> {
        segment_of(&self.segments, id)
    }

    /// The bytes of a page.
    pub fn read(&mut self, segment: u32, page: u64) -> Result<Arc<Page>, ReadError> {
        match self.segment(segment)?.changed.get(page) {
            Some(Slot::Changed(held)) => Ok(Arc::clone(held)),
            Some(Slot::Dead) => Err(self.nowhere(segment, page)),
            None => self.read_clean(segment, page),
        }
    }

    /// The bytes of a page, for no longer than until the next change.
    pub fn look(&mut self, segment: u32, page: u64) -> Result<&[u8], ReadError> {
        let is_known = match self.segment(segment)?.changed.get(page) {
            Some(Slot::Changed(_)) => true,
            Some(Slot::Dead) => return Err(self.nowhere(segment, page)),
            None => self.clean.pages.contains_key(&(segment, page)),
        };
        if !is_known {
            self.load(segment, &[page])?;
        }
        let changed = self.segments.get(segment as usize).and_then(|s| s.changed.get(page));
        match changed {
            Some(Slot::Changed(held)) => Some(held),
            _ => self.clean.pages.get(&(segment, page)),
        }
        .map(|held| held.bytes())
        .ok_or_else(|| self.nowhere(segment, page))
    }

    fn read_clean(&mut self, segment: u32, page: u64) -> Result<Arc<Page>, ReadError> {
        if let Some(held) = self.clean.pages.get(&(segment, page)) {
            return Ok(Arc::clone(held));
        }
        self.load(segment, &[page])?;
        let held = self.clean.pages.get(&(segment, page));
        held.cloned().ok_or_else(|| self.nowhere(segment, page))
    }

    /// Reads pages, ascending, that a transaction will need, all at once.
    pub fn prefetch(&mut self, segment: u32, pages: &[u64]) -> Result<(), ReadError> {
        let changed = &self.segment(segment)?.changed;
        let is_unknown = |page: &&u64| {
            changed.get(**page).is_none() && !self.clean.pages.contains_key(&(segment, **page))
        };
        let wanted: Vec<u64> = pages.iter().filter(is_unknown).copied().collect();
        if wanted.is_empty() { Ok(()) } else { self.load(segment, &wanted) }
    }

    fn load(&mut self, segment: u32, pages: &[u64]) -> Result<(), ReadError> {
        let Some(store) = self.store.clone() else {
            return Err(self.nowhere(segment, pages.first().copied().unwrap_or(0)));
        };
        if self.clean.bytes > store.budget.share(MemoryUser::CleanPages) {
            self.clean.clear();
        }
        let found = self.segment(segment)?;
        let per_page = found.blocks_per_page();
        let bytes = pages.len() as u64 * u64::from(found.meta.page_bytes);
        if bytes > MUCH_BYTES && !self.is_durable {
            // Whether there is room is asked before the pages are there, not after.
            drop(store.try_reserve(bytes)?);
        }
        let first = |page: &u64| page.checked_mul(per_page);
        let firsts: Option<Vec<u64>> = pages.iter().map(first).collect();
        let firsts = firsts.ok_or_else(|| self.nowhere(segment, u64::MAX))?;
        let (pool, clean) = (&self.pool, &mut self.clean);
        let mut visit = |index: usize, bytes: &[u8]| {
            if let Some(page) = pages.get(index) {
                clean.insert(segment, *page, Page::copy_of(pool, bytes));
            }
            Ok(())
        };
        let found = segment_of(&self.segments, segment)?;
        store.pages.fetch(found, &firsts, per_page as usize, &mut visit)?;
        self.settle()
    }

    fn settle(&self) -> Result<(), ReadError> {
        match &self.store {
            Some(store) => match self.pool.settle(|bytes| store.try_reserve(bytes)) {
                Err(error) if !self.is_durable => Err(error.into()),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// The bytes of a page, to be changed.
    pub fn write(&mut self, segment: u32, page: u64) -> Result<&mut [u8], ReadError> {
        if self.segment(segment)?.changed.get(page).is_none() {
            let held = self.read_clean(segment, page)?;
            self.clean.remove(segment, page);
            if let Some(found) = self.segments.get_mut(segment as usize) {
                found.changed.set(page, Slot::Changed(held));
            }
        }
        self.settle()?;
        let Some(found) = self.segments.get_mut(segment as usize) else {
            return Err(ReadError::Missing { what: format!("segment {segment}") });
        };
        let placed = &found.placed;
        found.changed.get_mut(page).ok_or_else(|| placed.nowhere(page))
    }

    /// Replaces a whole page, or brings one into being that [`Edit::reserve_pages`] numbered.
    pub fn put(&mut self, segment: u32, page: u64, bytes: Vec<u8>) -> Result<(), ReadError> {
        debug_assert_eq!(bytes.len(), self.page_bytes(segment));
        let slot = Slot::Changed(Arc::new(Page::new(&self.pool, bytes.into())));
        self.set(segment, page, slot);
        self.settle()
    }

    fn set(&mut self, segment: u32, page: u64, slot: Slot) {
        self.clean.remove(segment, page);
        if let Some(found) = self.segments.get_mut(segment as usize) {
            found.changed.set(page, slot);
        }
    }

    /// Numbers `count` consecutive new pages and returns the first; they have no bytes before
    /// [`Edit::put`].
    pub fn reserve_pages(&mut self, segment: u32, count: u64) -> u64 {
        let Some(found) = self.segments.get_mut(segment as usize) else {
            return 0;
        };
        let first = found.num_pages;
        found.num_pages += count;
        if let Some(meta) = self.catalog.segments.get_mut(segment as usize) {
            meta.num_pages = found.num_pages;
        }
        first
    }

    /// A new page with these bytes.
    pub fn create(&mut self, segment: u32, bytes: Vec<u8>) -> Result<u64, ReadError> {
        let page = self.reserve_pages(segment, 1);
        self.put(segment, page, bytes)?;
        Ok(page)
    }

    /// Gives a page up; its number is never used again.
    pub fn remove(&mut self, segment: u32, page: u64) {
        self.set(segment, page, Slot::Dead);
    }

    /// A new segment without pages; its files come into being at the next checkpoint.
    pub fn add_segment(&mut self, name: String, page_bytes: u32) -> u32 {
        let id = self.segments.len() as u32;
        let meta = SegmentMeta { name, page_bytes, ..SegmentMeta::default() };
        self.catalog.segments.push(meta.clone());
        self.segments.push(Segment::unchanged(Arc::new(Placed::fresh(id, meta))));
        id
    }

    fn nowhere(&self, segment: u32, page: u64) -> ReadError {
        let what = Damage::new("a pointer leads to a page that has no physical page");
        self.damaged(segment, page, &what)
    }

    /// An error about a page.
    pub fn damaged(&self, segment: u32, page: u64, what: &Damage) -> ReadError {
        match self.segments.get(segment as usize) {
            Some(found) => found.damaged(page, what),
            None => ReadError::Missing { what: format!("segment {segment}") },
        }
    }
}
