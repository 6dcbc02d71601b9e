//! SIEVE eviction (Zhang et al., NSDI 2024) over numbered slots: who is in, who goes next.
//!
//! A hit only sets a flag, so it needs no exclusive access. New keys enter at the head of a list;
//! the hand walks from its tail to its head, spares whom the flag protects once, and evicts the
//! first without it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::cache::key_map::{KeyMap, hash};

const NONE: u32 = u32::MAX;

/// Bytes of bookkeeping for a slot, counted against the budget with the slot.
pub(crate) const SLOT_OVERHEAD_BYTES: usize = 48;

#[derive(Debug)]
struct Link {
    key: u64,
    previous: u32,
    next: u32,
    hit: AtomicBool,
    taken: bool,
}

/// Keys in slots, with the order in which they leave.
#[derive(Debug)]
pub(crate) struct Sieve {
    links: Vec<Link>,
    map: KeyMap,
    free: Vec<u32>,
    head: u32,
    tail: u32,
    hand: u32,
}

impl Default for Sieve {
    fn default() -> Self {
        let (map, links, free) = (KeyMap::default(), Vec::new(), Vec::new());
        Self { links, map, free, head: NONE, tail: NONE, hand: NONE }
    }
}

impl Sieve {
    /// Makes slots `from..to` usable. Slots below `from` were added before, in use or not.
    pub fn add_slots(&mut self, from: u32, to: u32) {
        while self.links.len() < to as usize {
            let hit = AtomicBool::new(false);
            self.links.push(Link { key: 0, previous: NONE, next: NONE, hit, taken: false });
        }
        if !self.map.fits(self.links.len()) {
            let mut map = KeyMap::with_slots(self.links.len());
            for (slot, link) in self.links.iter().enumerate().filter(|(_, link)| link.taken) {
                map.insert(hash(link.key), slot as u32);
            }
            self.map = map;
        }
        self.free.extend((from..to).rev());
    }

    /// Makes slots `from..to` unusable and forgets their keys.
    pub fn remove_slots(&mut self, from: u32, to: u32) {
        for slot in from..to {
            if self.links[slot as usize].taken {
                self.unlink(slot);
            }
        }
        self.free.retain(|slot| !(from..to).contains(slot));
    }

    /// The slot of `key`, which is spared at the next round.
    #[inline]
    pub fn find(&self, key: u64) -> Option<u32> {
        let slot = self.map.find(hash(key), |slot| self.links[slot as usize].key == key)?;
        let hit = &self.links[slot as usize].hit;
        // Looking first keeps the line shared between readers of a hot slot.
        if !hit.load(Ordering::Relaxed) {
            hit.store(true, Ordering::Relaxed);
        }
        Some(slot)
    }

    /// Whether an insertion takes a free slot and evicts nobody.
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Gives `key`, which must not be in, a slot: a free one or that of the key that leaves.
    pub fn insert(&mut self, key: u64) -> Option<u32> {
        let slot = self.free.pop().or_else(|| self.evict())?;
        let head = self.head;
        let link = &mut self.links[slot as usize];
        (link.key, link.previous, link.next, link.taken) = (key, NONE, head, true);
        *link.hit.get_mut() = false;
        match head {
            NONE => self.tail = slot,
            old => self.links[old as usize].previous = slot,
        }
        self.head = slot;
        self.map.insert(hash(key), slot);
        Some(slot)
    }

    fn evict(&mut self) -> Option<u32> {
        if self.tail == NONE {
            return None;
        }
        let mut at = if self.hand == NONE { self.tail } else { self.hand };
        while std::mem::take(self.links[at as usize].hit.get_mut()) {
            at = self.links[at as usize].previous;
            if at == NONE {
                at = self.tail;
            }
        }
        self.hand = at;
        self.unlink(at);
        Some(at)
    }

    /// Forgets `key` and frees its slot.
    pub fn remove(&mut self, key: u64) {
        if let Some(slot) = self.find(key) {
            self.unlink(slot);
            self.free.push(slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let links = &self.links;
        self.map.remove(slot, |slot| hash(links[slot as usize].key));
        let Link { previous, next, .. } = self.links[slot as usize];
        self.links[slot as usize].taken = false;
        match previous {
            NONE => self.head = next,
            other => self.links[other as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            other => self.links[other as usize].previous = previous,
        }
        if self.hand == slot {
            self.hand = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sieve(slots: u32) -> Sieve {
        let mut sieve = Sieve::default();
        sieve.add_slots(0, slots);
        sieve
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_hit() {
        let mut sieve = sieve(8);
        for key in 0..4 {
            sieve.insert(key);
        }
        for key in 100..10_000 {
            for hot in 0..4 {
                assert!(sieve.find(hot).is_some(), "{hot} left before {key}");
            }
            sieve.insert(key);
        }
    }

    #[test]
    fn removed_slots_are_never_handed_out_again_until_added() {
        let mut sieve = sieve(8);
        for key in 0..8 {
            sieve.insert(key);
        }
        sieve.remove_slots(4, 8);
        for key in 10..100 {
            assert!(sieve.insert(key).is_some_and(|slot| slot < 4));
        }
        sieve.add_slots(4, 8);
        let slots: Vec<u32> = (200..204).filter_map(|key| sieve.insert(key)).collect();
        assert_eq!(slots, [4, 5, 6, 7]);
        sieve.remove_slots(0, 8);
        assert_eq!((sieve.insert(1), sieve.find(200)), (None, None));
    }
}
