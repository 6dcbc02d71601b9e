//! Pages in memory that a commit has changed and no checkpoint has written yet.
//!
//! A [`PageMap`] is a persistent radix tree over logical page numbers: cloning it is one reference
//! count, and a change copies only what a clone still shares. So every version of the store has a
//! map of its own, and versions share all that did not change between them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ng_types::{BudgetExceeded, Reservation};

use crate::io::BLOCK_BYTES;

/// Bits of a page number that one node decides.
const BITS: u32 = 4;
const FANOUT: usize = 1 << BITS;

/// Memory is taken from the budget in steps of this.
const STEP_BYTES: u64 = 1 << 20;

/// Counts the bytes of all pages that a writer holds, in any version, and takes them from the
/// budget.
#[derive(Debug, Default)]
pub(crate) struct PagePool {
    bytes: AtomicU64,
    charged: AtomicU64,
    charge: Mutex<Option<Reservation>>,
    /// Memory of pages that died, for those that come: a transaction makes and drops as many.
    spare: Mutex<Vec<Box<[u8]>>>,
}

/// So many spare pages are kept.
const SPARE_MAX: usize = 512;

impl PagePool {
    /// Bytes of pages alive.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A copy of `bytes`, in the memory of a page that died if there is one of that length.
    fn copy(&self, bytes: &[u8]) -> Box<[u8]> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match spare {
            Some(mut memory) if memory.len() == bytes.len() => {
                memory.copy_from_slice(bytes);
                memory
            }
            _ => bytes.into(),
        }
    }

    fn keep(&self, memory: Box<[u8]>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX && memory.len() == BLOCK_BYTES {
            spare.push(memory);
        }
    }

    /// Takes from the budget what is held beyond what was taken before, or gives back what is not
    /// held any more. Call it after pages were made.
    pub fn settle(
        &self,
        reserve: impl FnOnce(u64) -> Result<Reservation, BudgetExceeded>,
    ) -> Result<(), BudgetExceeded> {
        let (bytes, charged) = (self.bytes(), self.charged.load(Ordering::Relaxed));
        // Some room for what comes next, and none where nothing is held: a small budget needs it.
        let slack = bytes.next_multiple_of(STEP_BYTES).min(4 * STEP_BYTES);
        if bytes <= charged && charged <= bytes + slack {
            return Ok(());
        }
        let mut charge = self.charge.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = bytes.next_multiple_of(STEP_BYTES);
        let held = charge.as_ref().map_or(0, Reservation::bytes);
        if wanted > held {
            let more = reserve(wanted - held)?;
            match charge.as_mut() {
                Some(charge) => charge.merge(more),
                None => *charge = Some(more),
            }
        } else if let Some(charge) = charge.as_mut() {
            charge.resize(wanted)?;
        }
        self.charged.store(wanted, Ordering::Relaxed);
        Ok(())
    }
}

/// The bytes of one changed page.
#[derive(Debug)]
pub(crate) struct Page {
    bytes: Box<[u8]>,
    pool: Arc<PagePool>,
}

impl Page {
    /// A page with these bytes.
    pub fn new(pool: &Arc<PagePool>, bytes: Box<[u8]>) -> Self {
        pool.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Self { bytes, pool: Arc::clone(pool) }
    }

    /// A page with a copy of these bytes.
    pub fn copy_of(pool: &Arc<PagePool>, bytes: &[u8]) -> Self {
        Self::new(pool, pool.copy(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        Self::copy_of(&self.pool, &self.bytes)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.pool.bytes.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
        self.pool.keep(std::mem::take(&mut self.bytes));
    }
}

/// What a version says of a logical page that differs from the last checkpoint.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// Its bytes are these.
    Changed(Arc<Page>),
    /// Nothing refers to it any more.
    Dead,
}

#[derive(Clone, Debug)]
enum Node {
    Inner(Box<[Option<Arc<Node>>; FANOUT]>),
    Leaf(Box<[Option<Slot>; FANOUT]>),
}

/// A persistent map from logical pages to what a commit made of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageMap {
    root: Option<Arc<Node>>,
    /// Levels above the leaves.
    height: u32,
    len: usize,
}

impl PageMap {
    /// Pages in the map.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no page differs from the last checkpoint.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What is known of `page`; `None` if it is as the last checkpoint left it.
    #[inline]
    pub fn get(&self, page: u64) -> Option<&Slot> {
        let mut node = self.root.as_deref()?;
        if page >> (BITS * self.height) >= FANOUT as u64 {
            return None;
        }
        let mut shift = BITS * self.height;
        loop {
            let place = (page >> shift) as usize % FANOUT;
            match node {
                Node::Leaf(slots) => return slots.get(place)?.as_ref(),
                Node::Inner(children) => node = children.get(place)?.as_deref()?,
            }
            shift = shift.saturating_sub(BITS);
        }
    }

    /// Sets what is known of `page`.
    pub fn set(&mut self, page: u64, slot: Slot) {
        let place = self.place(page);
        let is_new = place.replace(slot).is_none();
        self.len += usize::from(is_new);
    }

    /// The bytes of `page` to be changed, if the map has them; copied first where another version
    /// shares them.
    pub fn get_mut(&mut self, page: u64) -> Option<&mut [u8]> {
        if page >> (BITS * self.height) >= FANOUT as u64 {
            return None;
        }
        let mut shift = BITS * self.height;
        let mut link = self.root.as_mut()?;
        loop {
            let place = (page >> shift) as usize % FANOUT;
            match Arc::make_mut(link) {
                Node::Leaf(slots) => match slots.get_mut(place)?.as_mut()? {
                    Slot::Changed(held) => return Some(&mut Arc::make_mut(held).bytes),
                    Slot::Dead => return None,
                },
                Node::Inner(children) => link = children.get_mut(place)?.as_mut()?,
            }
            shift = shift.saturating_sub(BITS);
        }
    }

    /// Forgets `page`.
    pub fn unset(&mut self, page: u64) {
        if self.get(page).is_some() && self.place(page).take().is_some() {
            self.len -= 1;
        }
    }

    /// The place of `page`, with every node on the way to it unshared.
    fn place(&mut self, page: u64) -> &mut Option<Slot> {
        while page >> (BITS * self.height) >= FANOUT as u64 {
            self.grow();
        }
        let mut shift = BITS * self.height;
        let mut link = &mut self.root;
        loop {
            let empty = || Arc::new(empty_node(shift == 0));
            let place = (page >> shift) as usize % FANOUT;
            match Arc::make_mut(link.get_or_insert_with(empty)) {
                Node::Leaf(slots) => return &mut slots[place],
                Node::Inner(children) => link = &mut children[place],
            }
            shift = shift.saturating_sub(BITS);
        }
    }

    fn grow(&mut self) {
        if let Some(root) = self.root.take() {
            let mut children: [Option<Arc<Node>>; FANOUT] = Default::default();
            children[0] = Some(root);
            self.root = Some(Arc::new(Node::Inner(Box::new(children))));
        }
        self.height += 1;
    }

    /// Every page of the map, ascending.
    pub fn for_each<'a>(&'a self, visit: &mut dyn FnMut(u64, &'a Slot)) {
        if let Some(root) = &self.root {
            walk(root, 0, visit);
        }
    }
}

fn empty_node(is_leaf: bool) -> Node {
    if is_leaf { Node::Leaf(Box::default()) } else { Node::Inner(Box::default()) }
}

fn walk<'a>(node: &'a Node, prefix: u64, visit: &mut dyn FnMut(u64, &'a Slot)) {
    match node {
        Node::Inner(children) => {
            for (place, child) in children.iter().enumerate() {
                if let Some(child) = child {
                    walk(child, (prefix << BITS) | place as u64, visit);
                }
            }
        }
        Node::Leaf(slots) => {
            for (place, slot) in slots.iter().enumerate() {
                if let Some(slot) = slot {
                    visit((prefix << BITS) | place as u64, slot);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn page(pool: &Arc<PagePool>, byte: u8) -> Slot {
        Slot::Changed(Arc::new(Page::new(pool, vec![byte; 8].into())))
    }

    fn contents(map: &PageMap) -> BTreeMap<u64, Option<u8>> {
        let mut found = BTreeMap::new();
        map.for_each(&mut |number, slot| {
            let byte = match slot {
                Slot::Changed(page) => Some(page.bytes()[0]),
                Slot::Dead => None,
            };
            found.insert(number, byte);
        });
        found
    }

    #[test]
    fn pages_that_are_gone_leave_the_budget() {
        let (pool, budget) = (Arc::<PagePool>::default(), ng_types::Budget::new(100 << 20));
        let settle = || pool.settle(|bytes| budget.reserve(bytes)).expect("settled");
        let many: Vec<Page> =
            (0..10).map(|_| Page::new(&pool, vec![0; STEP_BYTES as usize].into())).collect();
        settle();
        assert_eq!(budget.used_bytes(), 10 * STEP_BYTES);
        let one = Page::new(&pool, vec![0; 4096].into());
        drop(many);
        settle();
        assert_eq!(budget.used_bytes(), STEP_BYTES);
        drop(one);
        settle();
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_map_and_its_older_clones_each_keep_their_own_content() {
        let pool = Arc::default();
        let (mut map, mut model) = (PageMap::default(), BTreeMap::new());
        let mut versions = Vec::new();
        let mut state = 7_u64;
        for step in 0..4_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (state >> 33) % [10, 1_000, 1 << 40][(step % 3) as usize];
            match step % 5 {
                0 => {
                    map.unset(number);
                    model.remove(&number);
                }
                1 => {
                    map.set(number, Slot::Dead);
                    model.insert(number, None);
                }
                2 => {
                    let known: Option<&mut Option<u8>> = model.get_mut(&number);
                    let wanted = known.and_then(Option::as_mut);
                    let found = map.get_mut(number).map(|bytes| &mut bytes[0]);
                    assert_eq!(found.is_some(), wanted.is_some());
                    if let (Some(found), Some(wanted)) = (found, wanted) {
                        (*found, *wanted) = (step as u8, step as u8);
                    }
                }
                _ => {
                    map.set(number, page(&pool, step as u8));
                    model.insert(number, Some(step as u8));
                }
            }
            if step % 500 == 0 {
                versions.push((map.clone(), model.clone()));
            }
        }
        versions.push((map, model));
        for (map, model) in &versions {
            assert_eq!((&contents(map), map.len()), (model, model.len()));
        }
        assert!(pool.bytes() > 0);
        drop(versions);
        assert_eq!(pool.bytes(), 0);
    }
}
