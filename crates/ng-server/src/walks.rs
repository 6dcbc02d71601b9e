//! [`Walks`]: how far it pays to search for the answers that a commit ended.
//!
//! The search walks from what changed to the nodes that it can reach. It takes a lane that could
//! compute, and answers that are kept are of no use until it ends. If it is not done, or does not
//! end, all answers that are kept end with the commit, which is right, too, and costs that they are
//! computed again. So the search may take a part of the time that kept answers have saved, and only
//! a little at once. What must not live here: the search itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ng_engine::{WalkLimit, Walked};

/// The part of the time that kept answers saved which searches may take.
const PART_OF_SAVED: f64 = 0.5;
/// The part of all time that they may take in any case.
const PART_OF_TIME: f64 = 0.02;
/// Seconds that a search takes at most, as far as that is foreseen.
const MOST: f64 = 0.02;
/// Seconds that a list and its entries take, before there is a better guess.
const LIST_AT_FIRST: f64 = 20e-6;
/// Entries that take as long as a list.
const ENTRIES: u64 = 128;
/// What the last search counts in a mean.
const NEWEST: f64 = 0.25;
/// How a guess of what a commit takes falls each time that nothing is searched for it: the graph
/// may have come to be changed elsewhere.
const FORGOTTEN: f64 = 0.97;

/// How far it pays to search.
#[derive(Debug)]
pub struct Walks {
    /// Rows that were known.
    known: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Seconds that searches may take.
    left: f64,
    /// When that was told last, and how many rows had been known.
    told: Instant,
    known: u64,
    /// Seconds of a list.
    list: f64,
    /// Lists that a commit takes at least.
    of_commit: f64,
}

impl Default for Walks {
    fn default() -> Self {
        let (left, told) = (MOST, Instant::now());
        let state = State { left, told, known: 0, list: LIST_AT_FIRST, of_commit: 0.0 };
        Self { known: AtomicU64::new(0), state: Mutex::new(state) }
    }
}

impl Walks {
    /// Rows were known, and not computed.
    pub fn saved(&self, rows: u64) {
        self.known.fetch_add(rows, Ordering::Relaxed);
    }

    /// How far to search for what `commits` ended, if a row takes `row` to compute. A limit of 0
    /// lists ends a search before it begins.
    pub fn limit(&self, commits: u64, row: Duration) -> WalkLimit {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.load(Ordering::Relaxed);
        let saved = (known - state.known) as f64 * row.as_secs_f64();
        let passed = state.told.elapsed().as_secs_f64();
        state.left = (state.left + PART_OF_SAVED * saved + PART_OF_TIME * passed).min(MOST);
        (state.told, state.known) = (Instant::now(), known);
        let lists = (state.left.max(0.0) / state.list) as u64;
        if (lists as f64) < state.of_commit * commits as f64 {
            state.of_commit *= FORGOTTEN;
            return WalkLimit { lists: 0, entries: 0 };
        }
        WalkLimit { lists, entries: lists * ENTRIES }
    }

    /// A search for what `commits` ended has ended.
    pub fn took(&self, commits: u64, walked: &Walked, took: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.left -= took.as_secs_f64();
        let lists = walked.lists + walked.entries / ENTRIES;
        if lists == 0 {
            return;
        }
        let mean = |old: f64, new: f64| old + NEWEST * (new - old);
        state.list = mean(state.list, took.as_secs_f64() / lists as f64);
        state.of_commit = mean(state.of_commit, lists as f64 / commits.max(1) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Duration = Duration::from_micros(200);

    fn walked(lists: u64) -> Walked {
        Walked { lists, ..Walked::default() }
    }

    #[test]
    fn a_search_is_bounded_and_one_that_cannot_end_is_not_begun() {
        let walks = Walks::default();
        let first = walks.limit(1, ROW);
        assert!((990..=1000).contains(&first.lists), "{first:?} are not 20 ms of 20 us each");
        // Each commit takes 50 lists of 20 us: a few commits are searched for, and many are not.
        for _ in 0..20 {
            walks.saved(100_000);
            let _limit = walks.limit(1, ROW);
            walks.took(1, &walked(50), Duration::from_micros(1000));
        }
        walks.saved(100_000);
        assert!(walks.limit(10, ROW).lists >= 900);
        assert_eq!(walks.limit(100, ROW).lists, 0);
    }

    #[test]
    fn what_kept_answers_save_is_what_searches_may_take() {
        let walks = Walks::default();
        walks.took(1, &walked(1000), Duration::from_millis(20));
        let begin = Instant::now();
        let rows = 50;
        walks.saved(rows);
        let earned = PART_OF_SAVED * rows as f64 * ROW.as_secs_f64();
        let lists = walks.limit(0, ROW).lists as f64;
        let by_time = PART_OF_TIME * begin.elapsed().as_secs_f64();
        let most = (earned + by_time + 1e-4) / LIST_AT_FIRST;
        assert!(lists > 0.9 * earned / LIST_AT_FIRST && lists <= most, "{lists} of {most}");
    }

    #[test]
    fn after_a_search_in_vain_there_is_another_one_some_time() {
        let walks = Walks::default();
        walks.took(1, &walked(1_000_000), Duration::from_millis(20));
        let tried = (0..1000).position(|_| {
            walks.saved(100_000);
            walks.limit(1, ROW).lists > 0
        });
        assert!(tried.is_some_and(|tried| tried > 10), "{tried:?}");
    }
}
