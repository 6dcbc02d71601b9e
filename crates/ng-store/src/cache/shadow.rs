//! [`Shadow`]: what a cache would miss if it were a little larger or smaller.
//!
//! A sample of the keys goes through three caches without content, of the size that the cache has
//! and of a step more and less, so the difference in their misses is what a step is worth under the
//! same eviction (mini-simulations, after Waldspurger et al., USENIX ATC 2017). What must not live
//! here: what is done about it.

use std::sync::{Mutex, PoisonError};

use crate::cache::division::Worth;
use crate::cache::key_map::hash;
use crate::cache::sieve::Sieve;

/// Keys are sampled so that a shadow has about so many slots.
const SLOTS: u64 = 512;

/// Misses of a cache of the size it has, and with a step more and less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Misses {
    now: u64,
    more: u64,
    less: u64,
}

/// The three caches.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// One key in two to the power of this is looked at.
    rate_log: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of the size now, with more, with less.
    sieves: [Resizable; 3],
    misses: [u64; 3],
}

#[derive(Debug, Default)]
struct Resizable {
    sieve: Sieve,
    slots: u32,
}

impl Resizable {
    fn resize(&mut self, slots: u32) {
        if slots < self.slots {
            self.sieve.remove_slots(slots, self.slots);
        } else {
            self.sieve.add_slots(self.slots, slots);
        }
        self.slots = slots;
    }
}

impl Shadow {
    /// One for a cache of about `slots` slots; without slots until it is told how many.
    pub fn new(slots: u64) -> Self {
        let rate_log = (slots / SLOTS).max(1).ilog2();
        Self { rate_log, state: Mutex::default() }
    }

    /// The cache has so many slots now, and may get or lose so many.
    pub fn resize(&self, slots: u64, step: u64) {
        let sampled = |slots: u64| (slots >> self.rate_log) as u32;
        let sizes = [slots, slots + step, slots.saturating_sub(step)].map(sampled);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sieves.iter_mut().zip(sizes).for_each(|(sieve, size)| sieve.resize(size));
    }

    /// A key was looked up.
    #[inline]
    pub fn look(&self, key: u64) {
        // The bits in the middle: others choose shards and buckets.
        if (hash(key) >> 20) & ((1 << self.rate_log) - 1) == 0 {
            self.look_at(key);
        }
    }

    fn look_at(&self, key: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { sieves, misses } = &mut *state;
        for (Resizable { sieve, .. }, misses) in sieves.iter_mut().zip(misses) {
            if sieve.find(key).is_none() {
                sieve.insert(key);
                *misses += 1;
            }
        }
    }

    /// Sampled misses since the last time one asked.
    fn take_misses(&self) -> Misses {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let [now, more, less] = std::mem::take(&mut state.misses);
        Misses { now, more, less }
    }

    /// What the step would have been worth since the last time one asked, of all keys, if a miss
    /// takes `seconds`.
    pub fn take_worth(&self, seconds: f64) -> Worth {
        let Misses { now, more, less } = self.take_misses();
        let (gain, loss) = (now.saturating_sub(more), less.saturating_sub(now));
        let all = |sampled: u64| (sampled << self.rate_log) as f64 * seconds;
        Worth { signs: gain + loss, gain: all(gain), loss: all(loss) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Misses of looking at keys below `keys` in turn, in random order.
    fn misses(shadow: &Shadow, keys: u64) -> Misses {
        for round in 0..20_u64 {
            if round == 4 {
                shadow.take_misses();
            }
            for step in 0..keys {
                shadow.look(hash(round * keys + step) % keys);
            }
        }
        shadow.take_misses()
    }

    #[test]
    fn a_step_is_worth_nothing_where_all_keys_fit_and_something_where_they_do_not() {
        for slots in [1_000, 40_000] {
            println!("{slots} slots");
            let shadow = Shadow::new(slots);
            shadow.resize(slots, slots / 4);
            let fit = misses(&shadow, slots / 2);
            assert!(fit.now * 50 <= (slots >> shadow.rate_log), "{fit:?}");
            assert_eq!(fit.now, fit.more);
            let few = misses(&shadow, slots * 4);
            assert!(few.more < few.now && few.now < few.less, "{few:?}");
            // Of 64 times the slots about three quarters miss, and a quarter of the slots more is
            // a sixteenth of the keys.
            let all = ((slots * 64) >> shadow.rate_log) as f64;
            assert!((few.now as f64 / all - 0.75).abs() < 0.05, "{few:?}");
            let gain = (few.now - few.more) as f64 / all;
            assert!((gain * 16.0 - 1.0).abs() < 0.3, "{few:?}");
        }
    }

    #[test]
    fn sizes_follow_the_cache() {
        let shadow = Shadow::new(1_000);
        shadow.resize(1_000, 100);
        let before = misses(&shadow, 2_000);
        shadow.resize(1_900, 100);
        let larger = misses(&shadow, 2_000);
        shadow.resize(1_000, 100);
        let again = misses(&shadow, 2_000);
        assert!(larger.now * 3 < before.now, "{before:?} {larger:?}");
        assert!(again.now.abs_diff(before.now) * 10 < before.now, "{before:?} {again:?}");
        shadow.resize(0, 0);
        assert_eq!(misses(&shadow, 10), Misses { now: 160, more: 160, less: 160 });
    }
}
