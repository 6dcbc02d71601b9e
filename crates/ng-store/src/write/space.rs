//! Which physical pages of a file hold something: one bit a page, found out from the page table
//! when a writer first needs room in the file.
//!
//! What a checkpoint replaced is not free at once: versions that are older still read it.
//! Invariant: [`Space::take`] gives out a page only if no root and no version reaches it.

use std::ops::Range;
use std::sync::Weak;

use ng_types::canary::planted;

use crate::version::base::Base;

/// Pages of one file.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// A set bit is a page in use.
    words: Vec<u64>,
    /// Pages that the file has.
    len: u64,
    /// Where the search for free pages goes on.
    next: u64,
    free: u64,
    /// Pages that were given out again.
    pub reused: u64,
    retired: Vec<Retired>,
}

/// Pages that the newest root does not reach, and who may still read them.
#[derive(Debug)]
struct Retired {
    /// The last checkpoint that reaches them; dead once no version of this process stands on it.
    base: Weak<Base>,
    /// They were in use before this checkpoint.
    checkpoint_id: u64,
    pages: Vec<u64>,
}

impl Space {
    /// A file of `len` pages, all free; [`Space::mark`] those in use.
    pub fn new(len: u64) -> Self {
        let words = vec![0; len.div_ceil(64) as usize];
        Self { words, len, free: len, ..Self::default() }
    }

    /// Pages that the file must have room for.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Notes that a page is in use; false if that was known: then two pointers lead to it.
    pub fn mark(&mut self, page: u64) -> bool {
        let Some(word) = self.words.get_mut((page / 64) as usize) else {
            return false;
        };
        let bit = 1 << (page % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.free -= u64::from(is_new);
        is_new
    }

    fn is_used(&self, page: u64) -> bool {
        self.words.get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Withholds all free pages until nobody reads below `checkpoint_id`: readers in other
    /// processes may need any of them.
    pub fn withhold_free(&mut self, checkpoint_id: u64) {
        let pages: Vec<u64> = (0..self.len).filter(|page| !self.is_used(*page)).collect();
        for page in &pages {
            self.mark(*page);
        }
        self.retired.push(Retired { base: Weak::new(), checkpoint_id, pages });
    }

    /// Gives out `count` pages, in runs as long as there are.
    pub fn take(&mut self, count: u64) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut left = count;
        let (mut at, mut seen) = (self.next, 0);
        while left > 0 && self.free > 0 && seen <= self.len {
            if at >= self.len {
                at = 0;
            }
            if at.is_multiple_of(64) && self.words.get((at / 64) as usize) == Some(&u64::MAX) {
                (at, seen) = (at + 64, seen + 64);
                continue;
            }
            if at < self.len && self.mark(at) {
                push(&mut runs, at);
                left -= 1;
                self.reused += 1;
            }
            (at, seen) = (at + 1, seen + 1);
        }
        self.next = at;
        for page in self.len..self.len + left {
            push(&mut runs, page);
        }
        self.grow(left);
        runs
    }

    fn grow(&mut self, count: u64) {
        let from = self.len;
        self.len += count;
        self.words.resize(self.len.div_ceil(64) as usize, 0);
        self.free += count;
        for page in from..self.len {
            self.mark(page);
        }
    }

    /// Gives back pages that were taken and never reached by a root.
    pub fn give_back(&mut self, runs: &[Range<u64>]) {
        runs.iter().cloned().flatten().for_each(|page| self.clear(page));
    }

    fn clear(&mut self, page: u64) {
        if let Some(word) = self.words.get_mut((page / 64) as usize) {
            let bit = 1 << (page % 64);
            self.free += u64::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    /// Notes pages that the root of `checkpoint_id` does not reach any more, though `base` does.
    pub fn retire(&mut self, base: Weak<Base>, checkpoint_id: u64, pages: Vec<u64>) {
        if !pages.is_empty() {
            self.retired.push(Retired { base, checkpoint_id, pages });
        }
    }

    /// Frees what nobody can read any more: `is_pinned_below` tells of other processes.
    pub fn free_retired(&mut self, is_pinned_below: &mut dyn FnMut(u64) -> bool) {
        let is_dead =
            |retired: &Retired| retired.base.strong_count() == 0 || planted("reuse_pages_in_use");
        // What is retired later is reached by later checkpoints, and by earlier ones, too.
        let mut count = self.retired.iter().take_while(|retired| is_dead(retired)).count();
        while let Some(last) = count.checked_sub(1).and_then(|at| self.retired.get(at)) {
            if !is_pinned_below(last.checkpoint_id) || planted("reuse_pages_in_use") {
                break;
            }
            count -= 1;
        }
        for retired in self.retired.drain(..count).collect::<Vec<_>>() {
            retired.pages.into_iter().for_each(|page| self.clear(page));
        }
    }
}

fn push(runs: &mut Vec<Range<u64>>, page: u64) {
    match runs.last_mut() {
        Some(run) if run.end == page => run.end += 1,
        _ => runs.push(page..page + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use std::sync::Arc;

    fn pages(space: &mut Space, count: u64) -> Vec<u64> {
        space.take(count).into_iter().flatten().collect()
    }

    fn base(checkpoint_id: u64) -> Arc<Base> {
        let catalog: Arc<Catalog> = Arc::default();
        let (placed, pin) = (Vec::new(), None);
        Arc::new(Base { checkpoint_id, lsn: 0, catalog, placed, fingerprint: 0, _pin: pin })
    }

    #[test]
    fn a_page_is_given_out_again_only_after_all_who_read_it() {
        let mut space = Space::new(200);
        (0..200).for_each(|page| assert!(space.mark(page)));
        assert!(!space.mark(7));
        let old = base(1);
        space.retire(Arc::downgrade(&old), 2, vec![3, 4, 150]);
        space.free_retired(&mut |_| false);
        assert_eq!(pages(&mut space, 1), [200]);
        drop(old);
        space.free_retired(&mut |checkpoint_id| checkpoint_id >= 2);
        assert_eq!(pages(&mut space, 1), [201]);
        space.free_retired(&mut |_| false);
        assert_eq!(pages(&mut space, 2), [3, 4]);
        assert_eq!(pages(&mut space, 3), [150, 202, 203]);
        assert_eq!((space.reused, space.len()), (3, 204));
    }

    #[test]
    fn an_earlier_version_protects_what_was_retired_after_it() {
        let mut space = Space::new(10);
        (0..10).for_each(|page| assert!(space.mark(page)));
        let (first, second) = (base(1), base(2));
        space.retire(Arc::downgrade(&first), 2, vec![1]);
        space.retire(Arc::downgrade(&second), 3, vec![2]);
        drop(second);
        space.free_retired(&mut |_| false);
        assert_eq!(pages(&mut space, 1), [10]);
        drop(first);
        space.free_retired(&mut |_| false);
        assert_eq!(pages(&mut space, 2), [1, 2]);
    }

    #[test]
    fn pages_that_are_free_at_the_start_can_be_withheld() {
        let mut space = Space::new(4);
        space.mark(0);
        space.withhold_free(5);
        space.free_retired(&mut |checkpoint_id| checkpoint_id == 5);
        assert_eq!(pages(&mut space, 1), [4]);
        space.free_retired(&mut |_| false);
        assert_eq!(pages(&mut space, 3), [1, 2, 3]);
    }
}
