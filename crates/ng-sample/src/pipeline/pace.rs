//! How long the consumer keeps a batch before it asks for the next one.
//!
//! What must not live here: what follows from that. The invariant: one batch that takes far longer
//! than the others, such as one before a validation, does not change the answer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The first batches of a training loop take longer: kernels are compiled, buffers are made.
const WARM_UP: u64 = 2;

/// Batches that the answer is about.
const RECENT: usize = 9;

/// The pace of a consumer.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When it took the batch that it has.
    taken: Option<Instant>,
    /// Batches that it has asked after.
    asked: u64,
    recent: VecDeque<Duration>,
}

impl Pace {
    /// The consumer takes a batch.
    pub fn take(&mut self) {
        self.taken = Some(Instant::now());
    }

    /// The consumer asks for a batch. Asking again before it gets one changes nothing.
    pub fn ask(&mut self) {
        let Some(taken) = self.taken.take() else { return };
        self.asked += 1;
        if self.asked > WARM_UP {
            self.add(taken.elapsed());
        }
    }

    fn add(&mut self, kept: Duration) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(kept);
    }

    /// Seconds a batch, the median of the last few; `None` until enough were taken to know.
    pub fn seconds(&self) -> Option<f64> {
        let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).map(Duration::as_secs_f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_batches_do_not_count_and_one_long_pause_changes_nothing() {
        let mut pace = Pace::default();
        for _ in 0..WARM_UP {
            pace.ask();
            pace.take();
            pace.ask();
            pace.ask();
        }
        assert_eq!(pace.seconds(), None);
        for ms in [20, 21, 9_000, 19, 22] {
            pace.add(Duration::from_millis(ms));
        }
        assert_eq!(pace.seconds(), Some(0.021));
    }

    #[test]
    fn only_the_last_batches_count() {
        let mut pace = Pace::default();
        for ms in [200; 20].into_iter().chain([10; RECENT]) {
            pace.add(Duration::from_millis(ms));
        }
        assert_eq!(pace.seconds(), Some(0.01));
    }
}
