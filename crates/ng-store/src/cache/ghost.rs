//! [`Ghost`]: which keys a cache let go lately, so that one can tell what a little more memory
//! would have saved.
//!
//! What must not live here: what is done about it. Keys are remembered by a part of their hash, in
//! the place of an older one: about as many as asked for, roughly the latest.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::cache::key_map::hash;

/// The keys, and how many of them were wanted again.
#[derive(Debug)]
pub(crate) struct Ghost {
    /// Marks of keys, never 0, by their hash; 0 is none.
    marks: Box<[AtomicU32]>,
    returns: AtomicU64,
}

impl Ghost {
    /// One that remembers about `keys` keys.
    pub fn new(keys: u64) -> Self {
        let marks = (0..keys).map(|_| AtomicU32::new(0)).collect();
        Self { marks, returns: AtomicU64::new(0) }
    }

    fn place(&self, key: u64) -> Option<(&AtomicU32, u32)> {
        let hash = hash(key);
        let at = ((hash >> 32) * self.marks.len() as u64) >> 32;
        Some((self.marks.get(at as usize)?, hash as u32 | 1))
    }

    /// A key has left.
    pub fn remember(&self, key: u64) {
        if let Some((place, mark)) = self.place(key) {
            place.store(mark, Ordering::Relaxed);
        }
    }

    /// A key has come; counts it if it had left lately.
    pub fn welcome(&self, key: u64) {
        let Some((place, mark)) = self.place(key) else { return };
        if place.load(Ordering::Relaxed) == mark {
            place.store(0, Ordering::Relaxed);
            self.returns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many came back since the last time one asked.
    pub fn take_returns(&self) -> u64 {
        self.returns.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_whom_it_remembers_once_and_nobody_else() {
        let ghost = Ghost::new(1 << 12);
        (0..400).for_each(|key| ghost.remember(key));
        (1_000_000..1_000_400).for_each(|key| ghost.welcome(key));
        assert!(ghost.take_returns() <= 1);
        (0..400).chain(0..400).for_each(|key| ghost.welcome(key));
        let found = ghost.take_returns();
        // Some have taken each other's place.
        assert!((360..=400).contains(&found), "{found}");
        assert_eq!(ghost.take_returns(), 0);
    }

    #[test]
    fn it_forgets_the_oldest_and_one_without_room_remembers_nothing() {
        let (few, none) = (Ghost::new(64), Ghost::new(0));
        for key in 0..6_400 {
            few.remember(key);
            none.remember(key);
        }
        (0..6_000).for_each(|key| few.welcome(key));
        let old = few.take_returns();
        (0..6_400).for_each(|key| none.welcome(key));
        assert!(old <= 8, "{old}");
        assert_eq!(none.take_returns(), 0);
    }
}
