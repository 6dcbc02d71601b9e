//! Whether and when a call is tried again.

use std::time::{Duration, Instant};

use ng_rpc::{Code, Status, problem_told};
use ng_types::philox4x32_10;
use tokio::time::sleep;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What `attempt` gives within the time that it is told, tried again while that may help.
pub(crate) async fn tried<T, F: Future<Output = Result<T, Status>>>(
    retry: Duration,
    timeout: Option<Duration>,
    attempt: impl Fn(Option<Duration>) -> F,
) -> Result<T, Status> {
    let end = timeout.map(|timeout| Instant::now() + timeout);
    let mut tries = Tries::new(retry, timeout);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        match attempt(left).await {
            Ok(answer) => return Ok(answer),
            Err(status) => match tries.next(&status) {
                Some(pause) => sleep(pause).await,
                None => return Err(status),
            },
        }
    }
}

/// The tries of one call.
struct Tries {
    /// Until when failed tries are followed by others.
    until: Instant,
    pause: Duration,
    chance: Chance,
}

impl Tries {
    fn new(retry: Duration, timeout: Option<Duration>) -> Self {
        Self::with(retry, timeout, Chance::new())
    }

    fn with(retry: Duration, timeout: Option<Duration>, chance: Chance) -> Self {
        let patience = timeout.map_or(retry, |timeout| timeout.min(retry));
        Self { until: Instant::now() + patience, pause: FIRST_PAUSE, chance }
    }

    /// How long to wait before the next try; `None` if there is none.
    fn next(&mut self, status: &Status) -> Option<Duration> {
        let asked = problem_told(status).retry_after;
        // A server that sheds load says when it takes more; other exhaustion does not pass.
        let passes = match status.code() {
            Code::Unavailable => true,
            Code::ResourceExhausted => asked.is_some(),
            _ => false,
        };
        let own = self.pause;
        self.pause = (2 * own).min(PAUSE_MAX);
        // Clients that were refused together must not come together: they come at any time between
        // the one that the server names and twice that, or in the second half of their own pause.
        let (least, spread) = match asked {
            Some(asked) => (asked, asked.max(own)),
            None => (own / 2, own / 2),
        };
        let left = self.until.saturating_duration_since(Instant::now());
        let room = left.checked_sub(least)?.min(spread);
        (passes && !left.is_zero()).then(|| least + room.mul_f64(self.chance.next()))
    }
}

/// Numbers from 0 to 1, without 1.
struct Chance {
    seed: u64,
    drawn: u32,
}

impl Chance {
    /// Those that other calls and processes do not have.
    fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self { seed: RandomState::new().hash_one(0), drawn: 0 }
    }

    fn next(&mut self) -> f64 {
        self.drawn = self.drawn.wrapping_add(1);
        let bits =
            philox4x32_10([self.drawn, 0, 0, 0], [self.seed as u32, (self.seed >> 32) as u32]);
        f64::from(bits[0]) / (f64::from(u32::MAX) + 1.0)
    }
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

    #[test]
    fn clients_that_were_shed_together_come_back_at_different_times() {
        const CLIENTS: u64 = 2_000;
        const PARTS: usize = 10;
        let seed = Chance::new().seed;
        println!("seed {seed}");
        for (asked, patience) in [(800, 5_000), (800, 1_200), (0, 5_000)] {
            let (asked, patience) = (Duration::from_millis(asked), Duration::from_millis(patience));
            let shed = Problem::new(Code::ResourceExhausted, "SHED", "busy").retry_after(asked);
            let shed = Status::from(shed);
            let (least, last) = (asked, (asked + asked.max(FIRST_PAUSE)).min(patience));
            let mut parts = [0_u64; PARTS];
            for client in 0..CLIENTS {
                let chance = Chance { seed: seed.wrapping_add(client), drawn: 0 };
                let pause = Tries::with(patience, None, chance).next(&shed).expect("again");
                assert!((least..=last).contains(&pause), "{pause:?} of {least:?} to {last:?}");
                let share = (pause - least).as_secs_f64() / (last - least).as_secs_f64();
                parts[((share * PARTS as f64) as usize).min(PARTS - 1)] += 1;
            }
            let fair = CLIENTS / PARTS as u64;
            assert!(parts.iter().all(|part| (fair / 2..2 * fair).contains(part)), "{parts:?}");
        }
    }
}
