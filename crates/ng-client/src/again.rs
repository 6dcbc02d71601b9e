//! Whether and when a call is tried again.

use std::time::{Duration, Instant};

use ng_rpc::{Code, Status, problem_told};

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The tries of one call.
pub(crate) struct Tries {
    /// Until when failed tries are followed by others.
    until: Instant,
    pause: Duration,
}

impl Tries {
    pub(crate) fn new(retry: Duration, timeout: Option<Duration>) -> Self {
        let patience = timeout.map_or(retry, |timeout| timeout.min(retry));
        Self { until: Instant::now() + patience, pause: FIRST_PAUSE }
    }

    /// How long to wait before the next try; `None` if there is none.
    pub(crate) fn next(&mut self, status: &Status) -> Option<Duration> {
        let asked = problem_told(status).retry_after;
        // A server that sheds load says when it takes more; other exhaustion does not pass.
        let passes = match status.code() {
            Code::Unavailable => true,
            Code::ResourceExhausted => asked.is_some(),
            _ => false,
        };
        let own = self.pause;
        self.pause = (2 * own).min(PAUSE_MAX);
        // Half of it is by chance, so that clients that were refused together do not come together.
        let spread = own / 2 + own.mul_f64(chance() / 2.0);
        let pause = asked.map_or(spread, |asked| asked + spread / 2);
        (passes && Instant::now() + pause < self.until).then_some(pause)
    }
}

/// A number from 0 to 1 that other calls and processes do not have.
fn chance() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use ng_rpc::Problem;

    use super::*;

    #[test]
    fn only_what_passes_by_itself_is_tried_again_and_not_before_the_server_says() {
        let after = Duration::from_millis(300);
        let shed = Problem::new(Code::ResourceExhausted, "SHED", "busy").retry_after(after);
        let mut tries = Tries::new(Duration::from_secs(5), None);
        assert!(tries.next(&shed.clone().into()).is_some_and(|pause| pause >= after));
        assert!(tries.next(&Status::unavailable("gone")).is_some());
        assert!(tries.next(&Status::resource_exhausted("memory")).is_none());
        assert!(tries.next(&Status::not_found("no model")).is_none());
        let mut short = Tries::new(Duration::from_secs(5), Some(Duration::from_millis(200)));
        assert!(short.next(&shed.into()).is_none(), "the timeout is over before");
        assert!(Tries::new(Duration::ZERO, None).next(&Status::unavailable("gone")).is_none());
    }
}
