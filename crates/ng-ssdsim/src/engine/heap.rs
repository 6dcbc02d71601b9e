//! Events in the order of their time, and of their making where times are equal.
//!
//! A 4-ary heap: half the levels of a binary one, and the four children lie in one cache line.

use crate::time::Picos;

const WAYS: usize = 4;

/// What happens, to whom: time (64 bits), sequence number (32), kind (4), subject (28). One number,
/// which is compared without a branch, so that equal runs repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event(u128);

/// Commands of one run at most: what an event has bits for.
pub(crate) const SUBJECTS_MAX: usize = 1 << 28;

impl Event {
    #[inline]
    pub fn time(self) -> Picos {
        (self.0 >> 64) as Picos
    }

    #[inline]
    pub fn kind(self) -> u8 {
        (self.0 >> 28) as u8 & 0xF
    }

    #[inline]
    pub fn subject(self) -> u32 {
        self.0 as u32 & (SUBJECTS_MAX as u32 - 1)
    }
}

/// Pending events.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    events: Vec<Event>,
    sequence: u32,
    /// Events taken out since the last `clear`.
    pub taken: u64,
}

impl Heap {
    pub fn clear(&mut self) {
        self.events.clear();
        (self.sequence, self.taken) = (0, 0);
    }

    #[inline(always)]
    pub fn push(&mut self, time: Picos, kind: u8, subject: u32) {
        let key = u64::from(self.sequence) << 32 | u64::from(kind) << 28 | u64::from(subject);
        self.sequence += 1;
        let event = Event(u128::from(time) << 64 | u128::from(key));
        let mut at = self.events.len();
        self.events.push(event);
        while at > 0 {
            let above = (at - 1) / WAYS;
            if self.events[above] <= event {
                break;
            }
            self.events[at] = self.events[above];
            at = above;
        }
        self.events[at] = event;
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let last = self.events.pop()?;
        self.taken += 1;
        let Some(&first) = self.events.first() else { return Some(last) };
        let count = self.events.len();
        let mut at = 0;
        loop {
            let below = at * WAYS + 1;
            if below >= count {
                break;
            }
            let mut least = below;
            for child in below + 1..(below + WAYS).min(count) {
                if self.events[child] < self.events[least] {
                    least = child;
                }
            }
            if last <= self.events[least] {
                break;
            }
            self.events[at] = self.events[least];
            at = least;
        }
        self.events[at] = last;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ng_types::{DrawKey, EdgeTypeId};

    #[test]
    fn events_come_by_time_and_then_as_they_were_made() {
        let mut heap = Heap::default();
        let draws = DrawKey::new(3, 0).draws(EdgeTypeId(0), 0);
        let times: Vec<u64> = (0..1000).map(|index| draws.below(index, 50)).collect();
        for (subject, &time) in times.iter().enumerate() {
            heap.push(time, subject as u8 % 5, subject as u32);
        }
        let mut wanted: Vec<(u64, u32)> = times.iter().copied().zip(0..).collect();
        wanted.sort_unstable();
        for (time, subject) in wanted {
            let event = heap.pop().expect("as many as were pushed");
            assert_eq!((event.time(), event.subject()), (time, subject));
            assert_eq!(event.kind(), subject as u8 % 5);
        }
        assert!(heap.pop().is_none());
        assert_eq!(heap.taken, 1000);
    }
}
