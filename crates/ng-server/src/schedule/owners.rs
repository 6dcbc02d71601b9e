//! [`Owners`]: whose request has the next lane.
//!
//! An owner is a token; callers without one and jobs are owner 0 together. What must not live here:
//! requests. The invariants: the next request is the oldest one of an owner who has the fewest
//! lanes, and of those had a turn longest ago; and a token leaves lanes to others, so that nobody
//! waits for what another one has asked: one, and half of them if others asked lately.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long an owner who has asked counts as one who will ask.
pub(super) const LATELY: Duration = Duration::from_secs(1);

/// What owners have in a queue and in lanes.
pub(super) struct Owners {
    lanes: usize,
    /// Those who have something.
    all: HashMap<u64, Own>,
    turns: u64,
    /// The two who asked last, and when.
    latest: [Option<(u64, Instant)>; 2],
}

/// Requests that wait, lanes that compute some, and when an owner had a turn last.
#[derive(Clone, Copy, Default)]
struct Own {
    waiting: usize,
    lanes: usize,
    turn: u64,
}

impl Owners {
    pub fn new(lanes: usize) -> Self {
        Self { lanes, all: HashMap::new(), turns: 0, latest: [None; 2] }
    }

    /// A request comes.
    pub fn comes(&mut self, owner: u64) {
        if self.latest[0].is_some_and(|(latest, _)| latest != owner) {
            self.latest.swap(0, 1);
        }
        self.latest[0] = Some((owner, Instant::now()));
        // Whoever comes anew is behind those who have waited for a turn since then.
        let turn = self.turns;
        self.all.entry(owner).or_insert(Own { turn, ..Own::default() }).waiting += 1;
    }

    /// A request goes, into a lane or not.
    pub fn goes(&mut self, owner: u64) {
        self.change(owner, |own| own.waiting -= 1);
    }

    /// A lane begins with requests of an owner, or has done with them.
    pub fn has_lane(&mut self, owner: u64, begins: bool) {
        if begins {
            self.turns += 1;
            let own = self.all.entry(owner).or_default();
            (own.lanes, own.turn) = (own.lanes + 1, self.turns);
        } else {
            self.change(owner, |own| own.lanes -= 1);
        }
    }

    fn change(&mut self, owner: u64, change: impl FnOnce(&mut Own)) {
        if let Some(own) = self.all.get_mut(&owner) {
            change(own);
            if own.waiting + own.lanes == 0 {
                self.all.remove(&owner);
            }
        }
    }

    /// How many lanes an owner may have.
    fn most(&self, owner: u64) -> usize {
        if owner == 0 {
            return usize::MAX;
        }
        let mut others = self.latest.iter().flatten().filter(|(other, _)| *other != owner);
        let are_others = others.any(|(_, asked)| asked.elapsed() < LATELY);
        (if are_others { self.lanes / 2 } else { self.lanes - 1 }).max(1)
    }

    /// The place of the next request among those that wait, by their owners; `None` if none of them
    /// may have another lane.
    pub fn next(&self, mut waiting: impl Iterator<Item = u64>) -> Option<usize> {
        let place = |owner: u64| {
            let own = self.all.get(&owner).copied().unwrap_or_default();
            (own.lanes < self.most(owner)).then_some((own.lanes, own.turn))
        };
        let first = place(waiting.next()?).map(|place| (place, 0));
        if self.all.values().filter(|own| own.waiting > 0).nth(1).is_none() {
            return first.map(|(_, at)| at);
        }
        let others = (1..).zip(waiting).filter_map(|(at, owner)| Some((place(owner)?, at)));
        first.into_iter().chain(others).min().map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(lanes: usize, waiting: &[u64], computing: &[u64]) -> Owners {
        let mut owners = Owners::new(lanes);
        waiting.iter().for_each(|owner| owners.comes(*owner));
        computing.iter().for_each(|owner| owners.has_lane(*owner, true));
        owners
    }

    fn next(lanes: usize, waiting: &[u64], computing: &[u64]) -> Option<usize> {
        owners(lanes, waiting, computing).next(waiting.iter().copied())
    }

    #[test]
    fn whoever_has_the_fewest_lanes_is_next_and_of_those_the_first() {
        assert_eq!(next(4, &[], &[]), None);
        assert_eq!(next(4, &[5, 6, 5], &[]), Some(0));
        assert_eq!(next(4, &[5, 5, 6, 7], &[5]), Some(2));
        assert_eq!(next(4, &[5, 6], &[6]), Some(0));
        // 6 has two lanes, and 7 has had its turn before 5.
        assert_eq!(next(6, &[6, 5, 7], &[7, 6, 6, 5]), Some(2));
        assert_eq!(next(4, &[5, 5, 0], &[5, 0, 0]), Some(0));
    }

    #[test]
    fn a_token_leaves_lanes_to_others_and_callers_without_one_do_not() {
        assert_eq!(next(4, &[5, 5], &[5, 5]), Some(0));
        assert_eq!(next(4, &[5, 5], &[5, 5, 5]), None);
        assert_eq!(next(4, &[5, 5, 6], &[5, 5, 5]), Some(2));
        // Others asked lately, and wait no more.
        let mut half = owners(4, &[6, 5], &[5, 5]);
        half.goes(6);
        assert_eq!((half.next([5].into_iter()), half.most(5), half.most(6)), (None, 2, 2));
        half.latest = half.latest.map(|one| one.map(|(owner, at)| (owner, at - 2 * LATELY)));
        assert_eq!((half.next([5].into_iter()), half.most(5)), (Some(0), 3));
        assert_eq!(next(4, &[0, 0], &[0, 0, 0]), Some(0));
        assert_eq!(
            (next(1, &[5], &[]), next(1, &[5], &[5]), next(2, &[5], &[5])),
            (Some(0), None, None)
        );
    }

    #[test]
    fn owners_take_turns_where_there_is_one_lane() {
        let mut waiting = vec![5, 5, 5, 6, 7, 6];
        let mut owners = owners(1, &waiting, &[]);
        let mut taken = Vec::new();
        while let Some(at) = owners.next(waiting.iter().copied()) {
            let owner = waiting.remove(at);
            owners.goes(owner);
            owners.has_lane(owner, true);
            assert!(owner != 5 || owners.next([5].into_iter()).is_none());
            owners.has_lane(owner, false);
            taken.push(owner);
        }
        assert_eq!(taken, [5, 6, 7, 5, 6, 5]);
    }

    #[test]
    fn those_who_come_again_and_again_do_not_keep_one_waiting_who_has_more() {
        let mut waiting = vec![7, 7, 7];
        let mut owners = owners(1, &waiting, &[]);
        let mut taken = Vec::new();
        for round in 0..12 {
            // Two who send one request at a time, each when the other one has a lane.
            let comes = 5 + round % 2;
            owners.comes(comes);
            waiting.push(comes);
            let owner = waiting.remove(owners.next(waiting.iter().copied()).expect("a lane"));
            owners.goes(owner);
            owners.has_lane(owner, true);
            owners.has_lane(owner, false);
            taken.push(owner);
        }
        let last = taken.iter().rposition(|owner| *owner == 7);
        assert!(last.is_some_and(|last| last < 9), "{taken:?}");
    }

    #[test]
    fn nothing_is_kept_of_owners_who_have_nothing() {
        let mut owners = owners(4, &[5, 6], &[5]);
        owners.goes(5);
        owners.goes(6);
        assert_eq!(owners.all.len(), 1);
        owners.has_lane(5, false);
        assert!(owners.all.is_empty());
    }
}
