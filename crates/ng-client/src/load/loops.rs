//! Loops of requests: closed ones, and open ones whose arrivals are fixed beforehand.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ng_io::{cpu_time, device_reads};
use ng_rpc::Code;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::{JoinSet, spawn_local, yield_now};

use super::clock::Clock;
use super::requests::Requests;
use super::target::Target;

/// Threads and connections get ready before the first arrival.
const LEAD: Duration = Duration::from_millis(50);

/// Arrivals that are this close are sent together: waking up for each would cost more than sending
/// it. Their latencies count the time that they waited for it.
const TICK: Duration = Duration::from_micros(250);

/// What a loop found. Latencies are those of answers; an open loop's count from the planned
/// arrival.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Loop {
    /// Requests/s that were asked for, in an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_per_s: Option<f64>,
    /// Requests under way, in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<usize>,
    /// Requests, missed ones too.
    pub requests: usize,
    /// Answers a second.
    pub requests_per_s: f64,
    /// Latencies by percentile.
    #[serde(flatten)]
    pub latency: Latency,
    /// Requests without an answer.
    pub missed: usize,
    /// The same by code.
    pub missed_by_code: BTreeMap<String, usize>,
    /// How late a request was sent at most, which its latency counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_late_ms: Option<f64>,
    /// This process's share of a core: where it is large, the load is what is measured.
    pub load_cores: f64,
    /// Seed of the arrivals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_seed: Option<u64>,
    /// Reads of the disk meanwhile, of all processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_reads: Option<u64>,
}

/// Percentiles in milliseconds; none where nothing was answered.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Latency {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
}

impl Latency {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |share: f64| {
            let place = (share * all.len() as f64).ceil() as usize;
            all.get(place.clamp(1, all.len().max(1)) - 1).map(|time| time.as_secs_f64() * 1e3)
        };
        Self {
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: at(1.0),
        }
    }
}

impl Loop {
    /// Whether all was answered, and 99 % within a limit.
    pub fn is_within(&self, limit_ms: f64) -> bool {
        self.missed == 0 && self.latency.p99_ms.is_some_and(|p99| p99 <= limit_ms)
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.2}"));
        let Latency { p50_ms, p90_ms, p99_ms, p999_ms, max_ms } = self.latency;
        let kind = match (self.asked_per_s, self.in_flight) {
            (Some(rate), _) => format!("open loop, {rate:.0} requests/s planned"),
            (_, in_flight) => format!("closed loop, {} requests in flight", in_flight.unwrap_or(0)),
        };
        format!(
            "{kind}: {:.0} requests/s, p50 {} p90 {} p99 {} p99.9 {} max {} ms, {} missed {:?}, \
             {:.2} cores used by this client",
            self.requests_per_s,
            ms(p50_ms),
            ms(p90_ms),
            ms(p99_ms),
            ms(p999_ms),
            ms(max_ms),
            self.missed,
            self.missed_by_code,
            self.load_cores
        )
    }
}

/// Where a closed loop ends.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Seconds(f64),
    Requests(usize),
}

/// What all loops of a load share.
pub(crate) struct Loops<'a> {
    pub target: Target,
    pub requests: Rc<RefCell<Requests>>,
    pub disk: Option<&'a Path>,
}

struct Meter<'a> {
    disk: Option<&'a Path>,
    start: Instant,
    cpu: Duration,
    reads: Option<u64>,
}

impl<'a> Meter<'a> {
    fn start(disk: Option<&'a Path>) -> Self {
        let reads = disk.and_then(device_reads);
        Self { disk, start: Instant::now(), cpu: cpu_time(), reads }
    }

    fn found(&self, outcomes: Vec<Result<Duration, Code>>) -> Loop {
        let took = self.start.elapsed().as_secs_f64();
        let cpu = (cpu_time() - self.cpu).as_secs_f64();
        let reads = self.disk.and_then(device_reads);
        let requests = outcomes.len();
        let mut latencies = Vec::with_capacity(requests);
        let mut missed_by_code = BTreeMap::new();
        for outcome in outcomes {
            match outcome {
                Ok(latency) => latencies.push(latency),
                Err(code) => *missed_by_code.entry(format!("{code:?}")).or_insert(0) += 1,
            }
        }
        Loop {
            requests,
            requests_per_s: latencies.len() as f64 / took,
            missed: requests - latencies.len(),
            missed_by_code,
            latency: Latency::of(latencies),
            load_cores: cpu / took,
            device_reads: reads.zip(self.reads).map(|(now, before)| now.saturating_sub(before)),
            ..Loop::default()
        }
    }
}

impl Loops<'_> {
    /// `in_flight` requests at any time, until the end.
    pub(crate) async fn closed(&self, in_flight: usize, end: End) -> Result<Loop, String> {
        let meter = Meter::start(self.disk);
        let (until, left) = match end {
            End::Seconds(seconds) => {
                (Some(meter.start + Duration::from_secs_f64(seconds)), usize::MAX)
            }
            End::Requests(count) => (None, count),
        };
        let left = Rc::new(Cell::new(left));
        let mut askers = JoinSet::new();
        for _ in 0..in_flight {
            let (target, requests) = (self.target.clone(), Rc::clone(&self.requests));
            let left = Rc::clone(&left);
            askers.spawn_local(async move {
                let mut outcomes = Vec::new();
                while left.get() > 0 && until.is_none_or(|until| Instant::now() < until) {
                    left.set(left.get() - 1);
                    let ids = requests.borrow_mut().take()?;
                    let asked = Instant::now();
                    outcomes.push(target.ask(ids).await.map(|()| asked.elapsed()));
                }
                Ok::<_, String>(outcomes)
            });
        }
        let mut all = Vec::new();
        while let Some(outcomes) = askers.join_next().await {
            all.extend(outcomes.map_err(|error| error.to_string())??);
        }
        Ok(Loop { in_flight: Some(in_flight), ..meter.found(all) })
    }

    /// Requests at arrivals that are fixed beforehand, in microseconds from the start.
    pub(crate) async fn open(&self, arrivals_us: Vec<u64>) -> Result<Loop, String> {
        let clock = Clock::new().map_err(|error| error.to_string())?;
        let first = Instant::now() + LEAD;
        clock.until(first).await.map_err(|error| error.to_string())?;
        let meter = Meter::start(self.disk);
        let outcomes = Rc::new(Outcomes::default());
        let (mut late, mut woken) = (Duration::ZERO, first);
        for arrival in &arrivals_us {
            let at = first + Duration::from_micros(*arrival);
            if at > Instant::now() {
                clock.until(at.max(woken + TICK)).await.map_err(|error| error.to_string())?;
                woken = Instant::now();
            } else {
                // Requests that are late are sent in turn with answers that have come.
                yield_now().await;
            }
            let ids = self.requests.borrow_mut().take()?;
            late = late.max(at.elapsed());
            let (target, outcomes) = (self.target.clone(), Rc::clone(&outcomes));
            spawn_local(async move {
                let outcome = target.ask(ids).await.map(|()| at.elapsed());
                outcomes.all.borrow_mut().push(outcome);
                outcomes.one_more.notify_one();
            });
        }
        while outcomes.all.borrow().len() < arrivals_us.len() {
            outcomes.one_more.notified().await;
        }
        let all = outcomes.all.take();
        Ok(Loop { sent_late_ms: Some(late.as_secs_f64() * 1e3), ..meter.found(all) })
    }
}

/// What became of the requests of an open loop.
#[derive(Default)]
struct Outcomes {
    all: RefCell<Vec<Result<Duration, Code>>>,
    one_more: Notify,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_latencies() {
        let all = (1..=1_000).rev().map(Duration::from_millis).collect();
        let Latency { p50_ms, p90_ms, p99_ms, p999_ms, max_ms } = Latency::of(all);
        assert_eq!((p50_ms, p90_ms, p99_ms), (Some(500.0), Some(900.0), Some(990.0)));
        assert_eq!((p999_ms, max_ms), (Some(999.0), Some(1000.0)));
        assert_eq!(Latency::of(Vec::new()).p50_ms, None);
    }
}
