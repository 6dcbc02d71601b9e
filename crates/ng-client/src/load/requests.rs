//! What is asked, and when: from a file, or drawn.

use std::path::Path;

use ng_io::SourceFile;
use ng_types::philox4x32_10;
use serde_json::Value;

use super::options::Draw;

/// Bytes of a file of requests at most.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Tags of the counters, so that arrivals and nodes never share draws.
const ARRIVALS: u32 = 1;
const NODES: u32 = 2;

/// Requests, each given once.
pub(crate) enum Requests {
    /// Those of a file.
    Recorded { about: Value, arrivals_us: Vec<u64>, ids: Vec<u64>, ends: Vec<usize>, next: usize },
    /// Drawn ones, without end.
    Drawn { draw: Draw, ids: u64, size: usize, seed: u64, next: u64 },
}

impl Requests {
    /// Reads a file of requests.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let bytes = SourceFile::open(path)
            .and_then(|file| file.read_whole(FILE_BYTES_MAX))
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes)
            .map_err(|_| format!("{}: the file is not valid UTF-8", path.display()))?;
        let wrong = |line: usize, what: &str| format!("{}, line {line}: {what}", path.display());
        let mut about = Value::Null;
        let (mut arrivals_us, mut ids, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
            if let Some(head) = line.strip_prefix('#') {
                about = serde_json::from_str(head).map_err(|e| wrong(number, &e.to_string()))?;
                continue;
            }
            let mut fields = line.split(',').map(|field| field.trim().parse::<u64>());
            let (Some(Ok(arrival)), Some(Ok(count))) = (fields.next(), fields.next()) else {
                return Err(wrong(number, "expected `arrival_us,count,id,...`"));
            };
            let before = ids.len();
            for id in fields {
                ids.push(id.map_err(|_| wrong(number, "an id is not a number"))?);
            }
            let found = (ids.len() - before) as u64;
            if found != count {
                return Err(wrong(
                    number,
                    &format!("the count is {count}, but {found} ids follow"),
                ));
            }
            if arrivals_us.last().is_some_and(|last| arrival < *last) {
                return Err(wrong(number, "the arrival time is before that of the previous line"));
            }
            arrivals_us.push(arrival);
            ends.push(ids.len());
        }
        Ok(Self::Recorded { about, arrivals_us, ids, ends, next: 0 })
    }

    /// Requests of `size` nodes each.
    pub(crate) fn drawn(draw: Draw, ids: u64, size: usize, seed: u64) -> Self {
        Self::Drawn { draw, ids, size, seed, next: 0 }
    }

    /// How they were made.
    pub(crate) fn about(&self) -> Value {
        match self {
            Self::Recorded { about, .. } => about.clone(),
            Self::Drawn { draw, ids, size, seed, .. } => serde_json::json!({
                "kind": format!("{draw:?}").to_lowercase(),
                "ids": ids, "nodes_per_request": size, "seed": seed,
            }),
        }
    }

    /// The arrivals of a file, from its first request that was not given yet.
    pub(crate) fn recorded_arrivals(&self) -> Vec<u64> {
        match self {
            Self::Recorded { arrivals_us, next, .. } => arrivals_us[*next..].to_vec(),
            Self::Drawn { .. } => Vec::new(),
        }
    }

    /// The next request. No request of a file is given twice: repeating a short one would make
    /// caches look better than they are.
    pub(crate) fn take(&mut self) -> Result<Vec<u64>, String> {
        match self {
            Self::Recorded { ids, ends, next, .. } => {
                let Some(end) = ends.get(*next).copied() else {
                    return Err(format!(
                        "all {next} requests of the file were sent before the end of the \
                         measurement; use a file with more requests"
                    ));
                };
                let start = if *next == 0 { 0 } else { ends[*next - 1] };
                *next += 1;
                Ok(ids[start..end].to_vec())
            }
            Self::Drawn { draw, ids, size, seed, next } => {
                let (ids, seed) = (*ids, *seed);
                let first = *next * *size as u64;
                *next += 1;
                let draws = (first..first + *size as u64).map(|at| bits(seed, NODES, at));
                Ok(draws.map(|bits| node(*draw, bits, ids)).collect())
            }
        }
    }
}

/// Arrivals of a Poisson process of `rate` a second, in microseconds.
pub(crate) fn poisson(rate: f64, count: usize, seed: u64) -> Vec<u64> {
    let mut at = 0.0;
    let gaps = (0..count as u64).map(|number| -(1.0 - share(bits(seed, ARRIVALS, number))).ln());
    gaps.map(|gap| {
        at += gap * 1e6 / rate;
        at as u64
    })
    .collect()
}

fn bits(seed: u64, tag: u32, at: u64) -> u64 {
    let counter = [at as u32, (at >> 32) as u32, 0, tag];
    let block = philox4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
    u64::from(block[0]) | u64::from(block[1]) << 32
}

/// From 0 to 1, without 1.
fn share(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

fn node(draw: Draw, bits: u64, ids: u64) -> u64 {
    match draw {
        Draw::Uniform => ((u128::from(bits) * u128::from(ids)) >> 64) as u64,
        Draw::Zipf => {
            let rank = (share(bits) * (ids as f64).ln()).exp() as u64;
            scattered(rank.clamp(1, ids) - 1, ids)
        }
    }
}

/// Another number below `ids` for each: ranks next to each other lie far apart.
fn scattered(rank: u64, ids: u64) -> u64 {
    let mut step = (ids as f64 * 0.618_033_988_749_895) as u64 | 1;
    while common_divisor(step, ids) != 1 {
        step += 2;
    }
    ((u128::from(rank) * u128::from(step)) % u128::from(ids)) as u64
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_asks_for_few_nodes_often_and_scatters_them_over_all() {
        let mut requests = Requests::drawn(Draw::Zipf, 100_000, 10, 3);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..2_000 {
            for node in requests.take().expect("without end") {
                assert!(node < 100_000);
                *counts.entry(node).or_insert(0) += 1;
            }
        }
        // Rank 1 has the share 1 - log(1) / log(N) .. log(2) / log(N) = 6 %.
        assert!((1_000..1_500).contains(&counts[&0]), "{}", counts[&0]);
        let mut ranks: Vec<u64> = (0..1_000).map(|rank| scattered(rank, 1_000)).collect();
        ranks.sort_unstable();
        assert!(ranks.into_iter().eq(0..1_000), "each node has one rank");
    }

    #[test]
    fn arrivals_come_at_the_rate_and_are_the_same_again() {
        let arrivals = poisson(500.0, 20_000, 7);
        let seconds = *arrivals.last().expect("many") as f64 / 1e6;
        assert!((38.0..42.0).contains(&seconds), "{seconds}");
        assert!(arrivals.is_sorted());
        assert_eq!(arrivals, poisson(500.0, 20_000, 7));
    }

    #[test]
    fn a_file_gives_each_request_once_and_wrong_lines_are_named() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("stream.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            Requests::read(&path)
        };
        let mut requests = read("#{\"seed\": 4}\n10,2,7,8\n30,1,9\n").expect("a stream");
        assert_eq!(requests.about()["seed"], 4);
        assert_eq!(requests.recorded_arrivals(), [10, 30]);
        assert_eq!(requests.take(), Ok(vec![7, 8]));
        assert_eq!(requests.take(), Ok(vec![9]));
        assert!(requests.take().is_err());
        for text in ["10,2,7\n", "x\n", "10,1,7\n9,1,7\n", "10,1,-7\n"] {
            let error = read(text).err().expect("refused");
            assert!(error.contains("line"), "{error}");
        }
    }
}
