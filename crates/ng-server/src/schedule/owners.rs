//! [`Owners`]: whose request has the next lane.
//!
//! An owner is a token; callers without one and jobs are owner 0 together. What must not live here:
//! requests. The invariants: the next request is one of an owner who has the fewest lanes, and of
//! those the one that came first; and a token leaves one lane to others, so that nobody waits for
//! what another one has asked.

use std::collections::HashMap;

/// What owners have in a queue and in lanes.
pub(super) struct Owners {
    lanes: usize,
    /// Those who have something.
    all: HashMap<u64, Own>,
}

/// Requests that wait, and lanes that compute some.
#[derive(Clone, Copy, Default)]
struct Own {
    waiting: usize,
    lanes: usize,
}

impl Owners {
    pub fn new(lanes: usize) -> Self {
        Self { lanes, all: HashMap::new() }
    }

    /// A request comes.
    pub fn comes(&mut self, owner: u64) {
        self.all.entry(owner).or_default().waiting += 1;
    }

    /// A request goes, into a lane or not.
    pub fn goes(&mut self, owner: u64) {
        self.change(owner, |own| own.waiting -= 1);
    }

    /// A lane begins with requests of an owner, or has done with them.
    pub fn has_lane(&mut self, owner: u64, begins: bool) {
        if begins {
            self.all.entry(owner).or_default().lanes += 1;
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

    /// The place of the next request among those that wait, by their owners; `None` if none of them
    /// may have another lane.
    pub fn next(&self, mut waiting: impl Iterator<Item = u64>) -> Option<usize> {
        let lanes = |owner: u64| {
            let lanes = self.all.get(&owner).map_or(0, |own| own.lanes);
            (owner == 0 || lanes < (self.lanes - 1).max(1)).then_some(lanes)
        };
        let first = lanes(waiting.next()?);
        let several = self.all.values().filter(|own| own.waiting > 0).nth(1).is_some();
        if first == Some(0) || !several {
            return first.map(|_| 0);
        }
        let first = first.map(|lanes| (lanes, 0));
        let others = (1..).zip(waiting).filter_map(|(at, owner)| Some((lanes(owner)?, at)));
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
        assert_eq!(next(4, &[5, 6, 7], &[5, 6, 6, 7]), Some(0));
        assert_eq!(next(4, &[5, 5, 0], &[5, 0, 0]), Some(0));
    }

    #[test]
    fn a_token_leaves_a_lane_to_others_and_callers_without_one_do_not() {
        assert_eq!(next(4, &[5, 5], &[5, 5]), Some(0));
        assert_eq!(next(4, &[5, 5], &[5, 5, 5]), None);
        assert_eq!(next(4, &[5, 5, 6], &[5, 5, 5]), Some(2));
        assert_eq!(next(4, &[0, 0], &[0, 0, 0]), Some(0));
        assert_eq!(
            (next(1, &[5], &[]), next(1, &[5], &[5]), next(2, &[5], &[5])),
            (Some(0), None, None)
        );
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
