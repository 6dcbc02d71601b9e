//! What the scheduler has done.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Answered;

/// Groups by their number of requests: up to 1, 2, 4 ... 2^15, and more.
const SIZES: usize = 17;

/// What the scheduler has done since it started, and what waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleStats {
    /// Requests that wait.
    pub waiting: u64,
    /// Groups that were computed.
    pub groups: u64,
    /// Requests in them.
    pub requests: u64,
    /// Groups by size: place i counts those of at most 2^i requests, the last one all others.
    pub sizes: [u64; SIZES],
    /// Targets that were computed.
    pub computed: u64,
    /// Targets whose answer another one of the same group had.
    pub duplicates: u64,
    /// Targets whose answer was known.
    pub cached: u64,
    /// Requests whose deadline was over before they were computed.
    pub late: u64,
    /// Microseconds that requests waited, summed.
    pub queued_us: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    groups: AtomicU64,
    requests: AtomicU64,
    sizes: [AtomicU64; SIZES],
    computed: AtomicU64,
    duplicates: AtomicU64,
    cached: AtomicU64,
    late: AtomicU64,
    queued_us: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Counters {
    /// A request whose rows were all known.
    pub fn known(&self, answered: &Answered) {
        add(&self.requests, 1);
        add(&self.cached, answered.cached);
    }

    /// A group of requests that waited for `queued_us` together.
    pub fn group(&self, requests: u64, queued_us: u64) {
        add(&self.groups, 1);
        add(&self.requests, requests);
        add(&self.queued_us, queued_us);
        let place = requests.next_power_of_two().trailing_zeros() as usize;
        add(&self.sizes[place.min(SIZES - 1)], 1);
    }

    /// The targets of a group.
    pub fn targets(&self, computed: u64, duplicates: u64, cached: u64) {
        add(&self.computed, computed);
        add(&self.duplicates, duplicates);
        add(&self.cached, cached);
    }

    /// A request that came too late to be computed.
    pub fn late(&self) {
        add(&self.late, 1);
    }

    pub fn stats(&self, waiting: u64) -> ScheduleStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ScheduleStats {
            waiting,
            groups: of(&self.groups),
            requests: of(&self.requests),
            sizes: std::array::from_fn(|at| of(&self.sizes[at])),
            computed: of(&self.computed),
            duplicates: of(&self.duplicates),
            cached: of(&self.cached),
            late: of(&self.late),
            queued_us: of(&self.queued_us),
        }
    }
}
