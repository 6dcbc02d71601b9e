//! Which requests for answers are taken: a budget of foreseen bytes, a bound on how many wait, and
//! deadlines that can be kept.
//!
//! The wait that a request would have is foreseen by Little's law: the bytes that were admitted
//! before it and are not computed yet, over the bytes that have been computed in a second of work
//! lately. A request that would come too late is refused at once with the time after which it is
//! worth trying again, so that the server computes nothing that nobody waits for. The invariant:
//! when nothing is under way, the next request is taken, so that a wrong estimate is corrected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge};
use ng_rpc::{Code, Problem};
use ng_types::canary::planted;

use super::share::{PART, UnderWay};
use crate::config::Limits;
use crate::telemetry::Metrics;

/// A rate is measured over this much time of work.
const WINDOW: Duration = Duration::from_millis(50);
/// How much of a new rate goes into the estimate.
const NEW: f64 = 0.3;
/// How much of the time that is left may be spent by what is foreseen: the rest is for what is not.
const MARGIN: f64 = 0.8;
const RETRY_MIN: Duration = Duration::from_millis(1);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Decides which requests for answers are taken.
pub struct Admission {
    inner: Mutex<Inner>,
    metrics: Metrics,
    requests: Gauge,
    bytes: Gauge,
    foreseen: Counter,
}

#[derive(Default)]
struct Inner {
    bytes: u64,
    requests: usize,
    /// By who asks, of those who have something under way.
    owners: HashMap<u64, Own>,
    /// Bytes in a second of work; 0 until it is known.
    rate: f64,
    /// Of the window that is open: bytes computed, time of work, and since when there is work.
    done: u64,
    busy: Duration,
    since: Option<Instant>,
}

/// What one owner has under way.
#[derive(Clone, Copy, Default)]
struct Own {
    bytes: u64,
    requests: usize,
}

/// The right to have a request computed. What it was foreseen to cost counts until it is dropped.
#[must_use = "the request counts as computed when this is dropped"]
pub struct Permit {
    admission: Arc<Admission>,
    owner: Option<Arc<UnderWay>>,
    bytes: u64,
    is_work: AtomicBool,
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({} bytes)", self.bytes)
    }
}

/// A number for a token, and 0 for callers without one. Nobody else has it as long as it is held.
fn number(owner: Option<&Arc<UnderWay>>) -> u64 {
    owner.map_or(0, |owner| Arc::as_ptr(owner).addr() as u64)
}

impl Permit {
    /// Who asks: a number for a token, and 0 for callers without one.
    pub fn owner(&self) -> u64 {
        number(self.owner.as_ref())
    }

    /// Says that nothing was computed for it: then it tells nothing of how fast that goes.
    pub fn skip(&self) {
        self.is_work.store(false, Ordering::Relaxed);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.give_back(self.owner(), self.bytes, self.is_work.load(Ordering::Relaxed));
    }
}

impl Admission {
    /// Nothing is under way.
    pub fn new(metrics: Metrics) -> Self {
        Self {
            inner: Mutex::default(),
            requests: metrics.gauge("neargraph_admitted_requests", &[]),
            bytes: metrics.gauge("neargraph_admitted_bytes", &[]),
            foreseen: metrics.counter("neargraph_foreseen_bytes_total", &[]),
            metrics,
        }
    }

    /// Takes a request of `owner` that is foreseen to read `bytes`.
    ///
    /// # Errors
    /// It is larger than the budget, the budget or the queue is full, or a token has its part of
    /// them, or the answer would come too late.
    pub fn take(
        self: &Arc<Self>,
        limits: &Limits,
        owner: Option<&Arc<UnderWay>>,
        (bytes, deadline): (u64, Option<Instant>),
    ) -> Result<Permit, Problem> {
        let bytes = bytes.max(1);
        if bytes > limits.bytes_in_flight {
            let message = format!(
                "the request is expected to read {bytes} bytes, and the limit for all requests \
             together is {}",
                limits.bytes_in_flight
            );
            let problem = Problem::argument("targets", message);
            return Err(problem.remedy("request fewer targets at once, or use a job"));
        }
        let now = Instant::now();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((reason, after)) = inner.refuses(limits, number(owner), (bytes, deadline), now)
        {
            drop(inner);
            self.metrics.shed(reason);
            return Err(shed(reason, after));
        }
        inner.add(number(owner), bytes, now);
        self.show(&inner);
        self.foreseen.increment(bytes);
        let is_work = AtomicBool::new(true);
        Ok(Permit { admission: Arc::clone(self), owner: owner.cloned(), bytes, is_work })
    }

    /// How many requests and bytes are under way.
    pub fn under_way(&self) -> (usize, u64) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (inner.requests, inner.bytes)
    }

    fn give_back(&self, owner: u64, bytes: u64, is_work: bool) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.give_back(owner, bytes, is_work, Instant::now());
        self.show(&inner);
    }

    fn show(&self, inner: &Inner) {
        self.requests.set(inner.requests as f64);
        self.bytes.set(inner.bytes as f64);
    }
}

impl Inner {
    /// Why a request is not taken, and when it is worth trying again.
    fn refuses(
        &self,
        limits: &Limits,
        owner: u64,
        (bytes, deadline): (u64, Option<Instant>),
        now: Instant,
    ) -> Option<(&'static str, Duration)> {
        if self.requests == 0 {
            return None;
        }
        let rate = self.rate(now);
        let time_of = |bytes: u64| {
            let seconds = if rate > 0.0 { bytes as f64 / rate } else { 0.0 };
            Duration::from_secs_f64(seconds.min(3600.0))
        };
        let own = self.owners.get(&owner).copied().unwrap_or_default();
        let is_token = owner != 0;
        let has_part = is_token && own.requests >= limits.queue.div_ceil(PART);
        if self.requests >= limits.queue || has_part {
            return Some(("queue", time_of(self.bytes / self.requests as u64)));
        }
        let over = (self.bytes + bytes).saturating_sub(limits.bytes_in_flight);
        // One request of a token may be larger than its part.
        let part = if is_token { limits.bytes_in_flight / PART as u64 } else { u64::MAX };
        let over_part = if own.requests > 0 { (own.bytes + bytes).saturating_sub(part) } else { 0 };
        if over.max(over_part) > 0 {
            return Some(("bytes", time_of(over.max(over_part))));
        }
        let left = deadline?.saturating_duration_since(now).mul_f64(MARGIN);
        // Lanes are shared out by owner: as much of each other's work goes before it as of its own.
        let others = self.owners.len() as u64 - u64::from(own.requests > 0);
        let ahead =
            own.bytes.saturating_add(bytes).saturating_mul(others).min(self.bytes - own.bytes);
        let late = time_of(own.bytes + bytes + ahead).saturating_sub(left);
        (late > Duration::ZERO && !planted("too_late_is_taken")).then_some(("deadline", late))
    }

    /// Bytes in a second of work; 0 if that is not known. Less than the estimate where nothing
    /// has come to its end for longer than that lets expect: then work has slowed down.
    fn rate(&self, now: Instant) -> f64 {
        let open = self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let busy = self.busy + open;
        if busy < WINDOW || self.requests == 0 {
            return self.rate;
        }
        // As if the next request ended now.
        let next = self.bytes / self.requests as u64;
        let seen = (self.done + next) as f64 / busy.as_secs_f64();
        if self.rate > 0.0 { self.rate.min(seen) } else { seen }
    }

    fn add(&mut self, owner: u64, bytes: u64, now: Instant) {
        self.bytes += bytes;
        self.requests += 1;
        let own = self.owners.entry(owner).or_default();
        *own = Own { bytes: own.bytes + bytes, requests: own.requests + 1 };
        self.since.get_or_insert(now);
    }

    fn give_back(&mut self, owner: u64, bytes: u64, is_work: bool, now: Instant) {
        self.bytes -= bytes;
        self.requests -= 1;
        if let Some(own) = self.owners.get_mut(&owner) {
            *own = Own { bytes: own.bytes - bytes, requests: own.requests - 1 };
            if own.requests == 0 {
                self.owners.remove(&owner);
            }
        }
        if is_work {
            self.done += bytes;
        }
        let since = self.since.take().unwrap_or(now);
        self.busy += now.saturating_duration_since(since);
        self.since = (self.requests > 0).then_some(now);
        if self.busy >= WINDOW {
            let rate = self.done as f64 / self.busy.as_secs_f64();
            self.rate = if self.rate > 0.0 { self.rate + NEW * (rate - self.rate) } else { rate };
            (self.done, self.busy) = (0, Duration::ZERO);
        }
    }
}

fn shed(reason: &str, after: Duration) -> Problem {
    let after = after.clamp(RETRY_MIN, RETRY_MAX);
    let (word, message) = match reason {
        "queue" => ("QUEUE_FULL", "the request queue is full"),
        "bytes" => ("BYTES_EXHAUSTED", "requests in flight read as many bytes as the limit allows"),
        _ => ("TOO_LATE", "the answer would be later than the deadline"),
    };
    let problem = Problem::new(Code::ResourceExhausted, word, message).retry_about(after);
    let after = problem.retry_after.unwrap_or(after);
    problem.remedy(format!("try again after {} ms", after.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Arc<Admission> {
        Arc::new(Admission::new(Metrics::new()))
    }

    fn limits(bytes: u64, queue: usize) -> Limits {
        Limits { bytes_in_flight: bytes, queue, ..Limits::default() }
    }

    #[test]
    fn bytes_and_requests_are_bounded_and_given_back() {
        let (admission, limits) = (admission(), limits(100, 3));
        let never = admission.take(&limits, None, (101, None)).expect_err("too large");
        assert_eq!((never.code, never.retry_after), (Code::InvalidArgument, None));
        assert!(never.message.contains("together is 100"), "{}", never.message);
        let first = admission.take(&limits, None, (60, None)).expect("room");
        let full = admission.take(&limits, None, (41, None)).expect_err("no room");
        assert_eq!((full.code, full.reason.as_str()), (Code::ResourceExhausted, "BYTES_EXHAUSTED"));
        assert!(full.retry_after.is_some_and(|after| after >= RETRY_MIN));
        let others =
            [admission.take(&limits, None, (1, None)), admission.take(&limits, None, (1, None))];
        let full = admission.take(&limits, None, (1, None)).expect_err("no place");
        assert_eq!(full.reason, "QUEUE_FULL");
        drop((first, others));
        assert_eq!(admission.under_way(), (0, 0));
        drop(admission.take(&limits, None, (100, None)).expect("room again"));
    }

    #[test]
    fn what_would_come_too_late_is_refused_until_the_queue_is_short_again() {
        let limits = limits(u64::MAX, usize::MAX);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut inner = Inner::default();
        (0..10).for_each(|_| inner.add(0, 100, start));
        assert_eq!(inner.refuses(&limits, 0, (100, Some(at(1))), start), None, "no rate is known");
        // 500 bytes in 100 ms.
        for done in 1..=5 {
            inner.give_back(0, 100, true, at(done * 20));
        }
        let now = at(100);
        assert!((4_000.0..6_000.0).contains(&inner.rate), "{}", inner.rate);
        // 500 bytes are before it: 120 ms with its own.
        assert_eq!(inner.refuses(&limits, 0, (100, None), now), None);
        assert_eq!(inner.refuses(&limits, 0, (100, Some(at(400))), now), None);
        let (reason, after) =
            inner.refuses(&limits, 0, (100, Some(at(150))), now).expect("too late");
        assert_eq!(reason, "deadline");
        assert!((50..120).contains(&after.as_millis()), "{after:?}");
        // Nothing has ended for a second since: what is expected is less.
        assert!(inner.refuses(&limits, 0, (100, Some(at(1_400))), at(1_000)).is_some());
        assert_eq!(inner.refuses(&limits, 0, (100, Some(at(60_000))), at(1_000)), None);
        let idle = Inner { rate: 1e-3, ..Inner::default() };
        assert_eq!(idle.refuses(&limits, 0, (100, Some(at(1))), start), None, "a wrong estimate");
    }

    #[test]
    fn a_token_has_half_of_what_there_is_and_waits_for_as_much_of_others_as_of_its_own() {
        let (admission, limits) = (admission(), limits(100, 6));
        let [one, other] = [(); 2].map(|()| Arc::new(UnderWay::default()));
        let take = |owner: Option<&Arc<UnderWay>>, bytes| {
            admission.take(&limits, owner, (bytes, None)).map_err(|problem| problem.reason)
        };
        let large = take(Some(&one), 60).expect("alone, it may have more than its part");
        assert_eq!(take(Some(&one), 1).expect_err("more than its part"), "BYTES_EXHAUSTED");
        let others = [take(Some(&other), 1), take(Some(&other), 1), take(Some(&other), 1)];
        assert!(others.iter().all(Result::is_ok));
        assert_eq!(take(Some(&other), 1).expect_err("half of the places"), "QUEUE_FULL");
        drop(take(None, 30).expect("callers without tokens have all that is left"));
        drop((large, others));
        assert_eq!(admission.under_way(), (0, 0));
        assert!(admission.inner.lock().expect("inner").owners.is_empty());
        // 10 bytes/ms; 10,000 bytes of one token are before those of another one.
        let (start, limits) = (Instant::now(), self::limits(u64::MAX, usize::MAX));
        let mut inner = Inner { rate: 10_000.0, ..Inner::default() };
        inner.add(1, 10_000, start);
        let refused = |owner, bytes, ms| {
            let end = start + Duration::from_millis(ms);
            inner.refuses(&limits, owner, (bytes, Some(end)), start).is_some()
        };
        assert!(refused(1, 100, 1_000) && !refused(1, 100, 1_300));
        assert!(refused(2, 100, 20) && !refused(2, 100, 30));
    }

    /// Plays a server of one lane that reads 100 bytes in a millisecond, with requests of 50 to
    /// 150 bytes that nobody waits for after 50 ms, at `load` times what it can do for 20 seconds.
    /// Returns the bytes that were answered in time, too late, and refused.
    fn played(load: f64, seed: u64) -> (u64, u64, u64) {
        const US_OF_BYTE: u64 = 10;
        let (limits, mut random) = (limits(u64::MAX, usize::MAX), ng_testing::Random::new(seed));
        let start = Instant::now();
        let at = |us: u64| start + Duration::from_micros(us);
        let mut inner = Inner::default();
        // When each of those taken is done: a lane works on one after the other.
        let mut taken: std::collections::VecDeque<(u64, u64, u64)> = Default::default();
        let (mut good, mut late, mut refused) = (0, 0, 0);
        let (mut now, mut free) = (0_u64, 0_u64);
        while now < 20_000_000 {
            now += (1000.0 / load * (random.below(1000) as f64 / 500.0)) as u64;
            while let Some((done, bytes, end)) = taken.front().copied().filter(|t| t.0 <= now) {
                taken.pop_front();
                inner.give_back(0, bytes, true, at(done));
                *(if done <= end { &mut good } else { &mut late }) += bytes;
            }
            let (bytes, end) = (50 + random.below(101), now + 50_000);
            if inner.refuses(&limits, 0, (bytes, Some(at(end))), at(now)).is_some() {
                refused += bytes;
                continue;
            }
            inner.add(0, bytes, at(now));
            free = free.max(now) + bytes * US_OF_BYTE;
            taken.push_back((free, bytes, end));
        }
        (good, late, refused)
    }

    #[test]
    fn goodput_at_four_and_ten_times_the_load_is_that_of_the_peak() {
        for seed in [1, 2, 3] {
            let plays = [0.5, 0.9, 1.0, 2.0, 4.0, 10.0].map(|load| played(load, seed));
            let peak = plays.iter().map(|play| play.0).max().unwrap_or(0);
            println!("seed {seed}: answered in time, late, refused: {plays:?}");
            assert!(peak > 1_800_000, "{peak} of 2,000,000 that it could do at most");
            for (good, late, _) in &plays[3..] {
                assert!(good * 10 >= peak * 9, "seed {seed}: {good} of {peak}");
                assert!(late * 20 <= *good, "seed {seed}: {late} were computed for nobody");
            }
            assert_eq!(plays[0].2, 0, "seed {seed}: refused without need");
        }
    }
}
