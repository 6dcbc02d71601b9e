//! A load on a server: which requests come when, and what becomes of them.
//!
//! What must not live here: what a server does with a request. The invariants: when a request comes
//! does not depend on how the server does, and what it does not answer counts as missed.

mod clock;
mod loops;
mod options;
mod requests;
mod target;

use std::cell::RefCell;
use std::ffi::OsString;
use std::rc::Rc;
use std::time::Instant;

use clap::Parser;
pub use loops::{Latency, Loop};
pub use options::{Draw, Options};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use self::loops::{End, Loops};
use self::requests::{Requests, poisson};
use self::target::Target;

const STEADY_WINDOWS: usize = 3;
const STEADY_SPREAD: f64 = 0.05;
/// Open loops that a search makes at most.
const SEARCH_LOOPS: usize = 8;
/// A search ends when the rate is known this well.
const SEARCH_WIDTH: f64 = 0.03;
/// A search ends when a rate that is this share of the saturated one is past the limit.
const LONELY_SHARE: f64 = 0.06;
const REQUESTS_MIN: usize = 20;
const FAILED: u8 = 2;

/// What a load found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How the requests were made.
    pub stream: Value,
    /// What was asked.
    pub to: String,
    /// Rates while warming, by window.
    pub warm_rates: Vec<f64>,
    /// At saturation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Loop>,
    /// Counters of the peer's workers.
    pub stats: Map<String, Value>,
    /// Open loops, one after the other.
    pub open: Vec<Loop>,
    /// The fastest open loop that was within the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_limit: Option<Loop>,
}

impl Report {
    /// The result of a search in words.
    fn highest_rate(&self, limit_ms: f64) -> String {
        match &self.within_limit {
            Some(best) => format!(
                "highest rate with p99 <= {limit_ms} ms: {:.0} requests/s",
                best.requests_per_s
            ),
            None => format!("no measured rate has p99 <= {limit_ms} ms"),
        }
    }
}

/// Runs a load as a command. `args` begin with the name of the program; the result is the exit
/// code.
pub fn run_command<A: Into<OsString> + Clone>(args: impl IntoIterator<Item = A>) -> u8 {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(error) => {
            let _unheard = error.print();
            return error.exit_code().try_into().unwrap_or(FAILED);
        }
    };
    let found = run(&options, |line| println!("{line}"));
    match found.and_then(|report| serde_json::to_string(&report).map_err(|e| e.to_string())) {
        Ok(line) => {
            println!("{line}");
            0
        }
        Err(message) => {
            eprintln!("error: {message}");
            FAILED
        }
    }
}

/// Puts a load on a server. `say` is called with a line about each loop.
///
/// # Errors
/// The options contradict each other, a file cannot be read, or the system gives no thread.
/// Requests without an answer are counted, and are not an error.
pub fn run(options: &Options, say: impl Fn(&str)) -> Result<Report, String> {
    options.check()?;
    // One thread: the load has to stay small beside what it measures.
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    LocalSet::new().block_on(&runtime, measured(options, &say))
}

async fn measured(options: &Options, say: &dyn Fn(&str)) -> Result<Report, String> {
    let target = Target::new(options)?;
    let requests = match (&options.stream, options.ids) {
        (Some(path), _) => Requests::read(path)?,
        (None, ids) => {
            let ids = match ids {
                Some(ids) => ids,
                None => target.num_nodes().await?,
            };
            Requests::drawn(options.draw, ids, options.nodes, options.seed)
        }
    };
    let default = || format!("neargraph:{}:{}", options.address, options.model);
    let mut report = Report {
        stream: requests.about(),
        to: options.to.clone().unwrap_or_else(default),
        warm_rates: Vec::new(),
        closed: None,
        stats: Map::new(),
        open: Vec::new(),
        within_limit: None,
    };
    let requests = Rc::new(RefCell::new(requests));
    let loops = Loops { target, requests, disk: options.disk.as_deref() };
    report.warm_rates = warmed(&loops, options).await?;
    say(&format!("rates of the warm-up: {:.0?} requests/s", report.warm_rates));
    if options.as_recorded {
        let arrivals = loops.requests.borrow().recorded_arrivals();
        let begin = arrivals.first().copied().unwrap_or(0);
        let arrivals: Vec<u64> = arrivals.iter().map(|at| at - begin).collect();
        let seconds = arrivals.last().map_or(0.0, |last| *last as f64 / 1e6);
        let asked_per_s = Some(arrivals.len() as f64 / seconds.max(1e-6));
        let found = Loop { asked_per_s, ..loops.open(arrivals).await? };
        keep(&mut report, found, options, say);
    } else if let Some(rate) = options.rate {
        let found = at_rate(&loops, options, rate, 0).await?;
        keep(&mut report, found, options, say);
    } else {
        let end = options.requests.map_or(End::Seconds(options.seconds), End::Requests);
        let closed = loops.closed(options.in_flight, end).await?;
        say(&closed.line());
        let saturated = closed.requests_per_s;
        report.closed = Some(closed);
        report.stats = loops.target.stats().await;
        if options.find_rate {
            search(&loops, options, saturated, &mut report, say).await?;
        } else {
            for (number, share) in options.shares.iter().enumerate() {
                let rate = share * saturated;
                let found = at_rate(&loops, options, rate, number as u64).await?;
                if keep(&mut report, found, options, say) {
                    break;
                }
            }
        }
    }
    if options.find_rate {
        say(&report.highest_rate(options.limit_ms));
    }
    Ok(report)
}

/// Asks until the rate of the last windows differs by little; gives the rate of each.
async fn warmed(loops: &Loops<'_>, options: &Options) -> Result<Vec<f64>, String> {
    let start = Instant::now();
    let mut rates: Vec<f64> = Vec::new();
    while start.elapsed().as_secs_f64() < options.warm_seconds {
        let found = loops.closed(options.in_flight, End::Seconds(options.window)).await?;
        if found.requests == found.missed {
            let codes = &found.missed_by_code;
            return Err(format!("no request was answered ({codes:?}); {}", loops.target.advice()));
        }
        rates.push(found.requests_per_s);
        let last = &rates[rates.len().saturating_sub(STEADY_WINDOWS)..];
        let most = last.iter().copied().fold(0.0, f64::max);
        let least = last.iter().copied().fold(f64::MAX, f64::min);
        if last.len() == STEADY_WINDOWS && most <= (1.0 + STEADY_SPREAD) * least {
            break;
        }
    }
    Ok(rates)
}

async fn at_rate(
    loops: &Loops<'_>,
    options: &Options,
    rate: f64,
    number: u64,
) -> Result<Loop, String> {
    let seed = options.seed.wrapping_add(number);
    let count = ((rate * options.seconds) as usize).max(REQUESTS_MIN);
    let found = loops.open(poisson(rate, count, seed)).await?;
    Ok(Loop { asked_per_s: Some(rate), arrival_seed: Some(seed), ..found })
}

/// Notes a loop; whether it was within the limit.
fn keep(report: &mut Report, found: Loop, options: &Options, say: &dyn Fn(&str)) -> bool {
    say(&found.line());
    let is_within = found.is_within(options.limit_ms);
    let best = report.within_limit.as_ref().map_or(0.0, |best| best.requests_per_s);
    if is_within && found.requests_per_s > best {
        report.within_limit = Some(found.clone());
    }
    report.open.push(found);
    is_within
}

/// Halves what is between a rate that was within the limit and one that was not.
async fn search(
    loops: &Loops<'_>,
    options: &Options,
    saturated: f64,
    report: &mut Report,
    say: &dyn Fn(&str),
) -> Result<(), String> {
    let (mut low, mut high) = (0.0, 2.0 * saturated);
    let mut rate = 0.8 * saturated;
    for number in 0..SEARCH_LOOPS {
        // Where requests are late that hardly ever meet, slower ones are late, too.
        let is_hopeless = low == 0.0 && rate < LONELY_SHARE * saturated;
        if rate <= 0.0 || high - low < SEARCH_WIDTH * high || is_hopeless {
            break;
        }
        let found = at_rate(loops, options, rate, number as u64).await?;
        if keep(report, found, options, say) {
            low = rate;
        } else {
            high = rate;
        }
        rate = (low + high) / 2.0;
    }
    Ok(())
}
