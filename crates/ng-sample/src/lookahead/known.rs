//! What is known of batches and of the disk: the studies of the first samples, and what reading
//! and sampling have taken since.
//!
//! What must not live here: what follows from that, which is [`super::decide`]'s. The invariant:
//! times are those of one plan, from when it is in full swing until it ends or is looked at.

use super::chosen::Chosen;
use super::engine::LookAhead;
use super::pieces::Sampled;
use super::policy::Reading;
use super::study::TableStudy;
use crate::clock::Work;
use crate::note::Times;

/// Batches that a plan is given at least before it is compared with others again.
pub(super) const TRIED_MIN: u64 = 64;

/// The same in windows.
const TRIED_WINDOWS: u64 = 4;

/// Windows that a scan may take to grow to its length. What they take does not count.
const GROWING_WINDOWS: u64 = 2;

/// Measured and expected reading differ by so much at most; what is beyond is chance.
const FACTOR_MAX: f64 = 100.0;

/// What decisions are made from.
pub(super) struct Known {
    pub studies: Vec<TableStudy>,
    /// How rows are read was decided.
    pub is_decided: bool,
    pub measured: Times,
    /// Measured seconds of reading by expected ones, by reading.
    factors: Vec<(Reading, f64)>,
    trial: Option<Trial>,
}

/// A plan that is being measured.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The first batch whose time counts.
    from: u64,
    /// The batch with which it is compared with others.
    due: u64,
    reading: Reading,
    /// Seconds of the device a batch, as the studies tell.
    expected: f64,
    /// What the clock showed at `from`.
    begun: Option<Marks>,
}

#[derive(Clone, Copy, Debug)]
struct Marks {
    batch: u64,
    sampled: u64,
    reading_s: f64,
    sampling_s: f64,
}

impl Known {
    pub fn new(studies: Vec<TableStudy>) -> Self {
        let measured = Times::default();
        Self { studies, is_decided: false, measured, factors: Vec::new(), trial: None }
    }

    /// Studies a sample.
    pub fn add(&mut self, sampled: &Sampled) {
        self.studies.iter_mut().for_each(|study| study.add(sampled));
    }

    /// Seconds of the device by expected ones: those of this reading, else of the last one that
    /// was measured.
    pub fn factor(&self, reading: Reading) -> f64 {
        let own = self.factors.iter().find(|(known, _)| *known == reading);
        own.or(self.factors.last()).map_or(1.0, |(_, factor)| *factor)
    }

    /// A plan begins with batch `at`, and has grown to its window soon after.
    pub fn begin_trial(&mut self, at: u64, chosen: &Chosen) {
        let tried = TRIED_MIN.max(TRIED_WINDOWS * chosen.window);
        let reading = chosen.reading;
        let grows = reading != Reading::Distribute;
        let grown = (GROWING_WINDOWS * chosen.window).min(tried / 2);
        let from = if grows { at + grown } else { at };
        let expected = chosen.seconds / self.factor(reading);
        self.trial = Some(Trial { from, due: at + tried, reading, expected, begun: None });
    }

    /// The plan is not read by after all.
    pub fn forget_trial(&mut self) {
        self.trial = None;
    }

    /// Whether the plan has been tried for long enough by batch `at` of `end`, and there are enough
    /// left for another one.
    pub fn is_due(&self, at: u64, end: u64) -> bool {
        self.trial.is_some_and(|trial| at >= trial.due) && end - at >= TRIED_MIN
    }

    /// Keeps what reading took, where a plan was expected to take `expected` seconds a batch.
    fn learn(&mut self, reading: Reading, expected: f64, seconds: f64) {
        if expected <= 0.0 {
            return;
        }
        let factor = (seconds / expected).clamp(1.0 / FACTOR_MAX, FACTOR_MAX);
        self.factors.retain(|(known, _)| *known != reading);
        self.factors.push((reading, factor));
    }
}

impl LookAhead {
    /// Starts the clock of the trial once the plan is in full swing.
    pub(super) fn watch(&self, known: &mut Known, at: u64) {
        let Some(trial) = &mut known.trial else { return };
        if trial.begun.is_none() && at >= trial.from {
            trial.begun = Some(self.marks(at));
        }
    }

    /// Ends a trial with batch `at`, and keeps what it has shown.
    pub(super) fn end_trial(&self, known: &mut Known, at: u64) {
        known.measured.consumer = self.shared.lock().pace.seconds();
        let Some(Trial { reading, expected, begun: Some(begun), .. }) = known.trial.take() else {
            return;
        };
        let now = self.marks(at);
        let each = |seconds: f64, count: u64| (count > 0).then(|| seconds / count as f64);
        let threads = self.settings.threads() as f64;
        if let Some(seconds) = each(now.sampling_s - begun.sampling_s, now.sampled - begun.sampled)
        {
            known.measured.sampling = Some(seconds / threads);
        }
        known.measured.reading = each(now.reading_s - begun.reading_s, now.batch - begun.batch);
        if let Some(seconds) = known.measured.reading {
            known.learn(reading, expected, seconds);
        }
    }

    fn marks(&self, batch: u64) -> Marks {
        let sampled = self.shared.lock().way.begun;
        let clock = &self.shared.clock;
        let (reading_s, sampling_s) = (clock.seconds(Work::Read), clock.seconds(Work::Sample));
        Marks { batch, sampled, reading_s, sampling_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reading_has_a_factor_of_its_own_and_others_the_last_one() {
        let mut known = Known::new(Vec::new());
        assert_eq!(known.factor(Reading::Scan), 1.0);
        known.learn(Reading::Scan, 0.05, 0.1);
        assert_eq!([Reading::Scan, Reading::Window].map(|how| known.factor(how)), [2.0, 2.0]);
        known.learn(Reading::Window, 0.1, 0.4);
        assert_eq!([Reading::Scan, Reading::Window].map(|how| known.factor(how)), [2.0, 4.0]);
        assert_eq!(known.factor(Reading::Distribute), 4.0);
        known.learn(Reading::Scan, 0.05, 9.0);
        assert_eq!(known.factor(Reading::Scan), FACTOR_MAX);
        known.learn(Reading::Scan, 0.0, 9.0);
        assert_eq!(known.factor(Reading::Scan), FACTOR_MAX);
    }
}
