//! One group: what is known is taken, the rest computed at once, and each request gets its rows.
//!
//! What must not live here: which requests make a group. The invariant: a request that cannot be
//! answered takes no other one with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use ng_engine::{On, Reach, StageTimes, Version};
use ng_rpc::{Code, Problem, problem_of};

use super::queue::Waiting;
use super::stats::Counters;
use super::{Answered, Question, Switches};
use crate::guard::deadline;
use crate::model::{Generation, Model};
use crate::rows::Rows;
use crate::targets::Targets;

/// Nodes that are computed at once and kept with what they were made of, which takes up to 10 KiB
/// for each of them until they are. More are kept until the next commit.
const REACHES_MAX: usize = 1024;
/// Targets of a request that is answered without a lane at most.
const KNOWN_MAX: usize = 256;

/// Answers a group of requests that are alike.
pub(super) fn answer(requests: Vec<Waiting>, switches: Switches, counters: &Counters) {
    let start = Instant::now();
    let mut live = Vec::with_capacity(requests.len());
    for waiting in requests {
        if waiting.reply.is_closed() {
            waiting.question.skip();
            continue;
        }
        if waiting.question.deadline.is_some_and(|end| end <= start) {
            counters.late();
            waiting.question.skip();
            let _gone = waiting.reply.send(Err(deadline::over()));
            continue;
        }
        live.push(waiting);
    }
    // An id that there is not fails all that are computed with it.
    let (live, odd): (Vec<Waiting>, Vec<Waiting>) =
        live.into_iter().partition(|one| one.question.model.knows(&one.question.targets));
    for one in odd {
        answer_together(vec![one], start, switches, counters);
    }
    if !live.is_empty() {
        answer_together(live, start, switches, counters);
    }
}

/// Computes requests together, and sends each its rows.
fn answer_together(live: Vec<Waiting>, start: Instant, switches: Switches, counters: &Counters) {
    let queued = live.iter().map(|one| start.duration_since(one.since).as_micros() as u64);
    counters.group(live.len() as u64, queued.sum());
    let before = StageTimes::of_thread();
    let answers = computed(&live, switches, counters);
    let answers = match answers {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(problem) if live.len() == 1 => vec![Err(problem)],
        // Which of them it is of shows when each is alone.
        Err(_) => {
            let alone = |one| {
                let one = std::slice::from_ref(one);
                computed(one, switches, counters).and_then(|mut all| all.pop().ok_or_else(ended))
            };
            live.iter().map(alone).collect()
        }
    };
    let stages = StageTimes::of_thread().since(before);
    let (engine, group) = (start.elapsed(), live.len() as u32);
    for (Waiting { question, since, reply, .. }, answer) in live.into_iter().zip(answers) {
        drop(question);
        let queued = start.duration_since(since);
        let answered = answer.map(|found: Found| Answered {
            rows: found.rows,
            snapshot: found.snapshot,
            cached: found.cached,
            queued,
            engine,
            stages,
            group,
        });
        let _gone = reply.send(answered);
    }
}

/// The answer to a question whose rows are all known.
pub(super) fn known(question: &Question) -> Option<Answered> {
    let Targets::Nodes(ids) = &question.targets else { return None };
    if ids.is_empty() || ids.len() > KNOWN_MAX || question.at.is_some() {
        return None;
    }
    let start = Instant::now();
    let model = &question.model;
    let kept = model.generation(&model.engine.computing())?;
    let like = kept.like()?;
    let newest = model.graph.store.snapshot();
    let mut rows = like.like(ids.len());
    let mut oldest = newest.lsn();
    let found = model.all_kept((&*kept, question.seed), ids, (newest.lsn(), question.lag))?;
    for (at, (row, lsn)) in found.iter().enumerate() {
        rows.set(at, row);
        oldest = oldest.min(*lsn);
    }
    let fingerprint = if oldest == newest.lsn() { newest.fingerprint() } else { 0 };
    Some(Answered {
        rows,
        snapshot: (oldest, fingerprint),
        cached: ids.len() as u64,
        queued: std::time::Duration::ZERO,
        engine: start.elapsed(),
        stages: StageTimes::default(),
        group: 1,
    })
}

fn ended() -> Problem {
    Problem::new(Code::Internal, "DEFECT", "a group has fewer answers than requests")
}

/// The rows of one request.
struct Found {
    rows: Rows,
    snapshot: (u64, u64),
    cached: u64,
}

/// The rows of all requests, or why one of them has none. All are of what computes at the begin,
/// those that were kept, too.
fn computed(
    live: &[Waiting],
    switches: Switches,
    counters: &Counters,
) -> Result<Vec<Found>, Problem> {
    let Some(Waiting { question: first, computing, .. }) = live.first() else {
        return Ok(Vec::new());
    };
    let model = &first.model;
    let lag = live.iter().map(|one| one.question.lag).min().unwrap_or(0);
    let newest = model.graph.store.snapshot().lsn();
    let version = match &first.at {
        Some(snapshot) => model.version_of(snapshot)?,
        None => model.version(lag)?,
    };
    let version = match computing {
        Some(computing) => version.computed_by(computing.clone()),
        None => version,
    };
    // What the version lags behind, its kept rows must not lag behind once more.
    let lag = lag.saturating_sub(newest.saturating_sub(version.snapshot().lsn()));
    let go_on = || {
        let now = Instant::now();
        let waits = |one: &Waiting| {
            !one.reply.is_closed() && one.question.deadline.is_none_or(|end| end > now)
        };
        live.iter().any(waits)
    };
    let on = On { version: &version, go_on: &go_on };
    let keeps = switches.cache && first.at.is_none();
    let kept = keeps.then(|| model.generation(version.computing())).flatten();
    let all = Asked { model, on, seed: first.seed, lag, kept };
    match &first.targets {
        Targets::Nodes(_) => all.nodes(live, counters),
        Targets::Edges(..) if !model.decodes() => all.dots(live, counters),
        Targets::Edges(..) => {
            let (mut from, mut to) = (Vec::new(), Vec::new());
            for one in live {
                if let Targets::Edges(sources, destinations) = &one.question.targets {
                    from.extend_from_slice(sources);
                    to.extend_from_slice(destinations);
                }
            }
            let answer = model.engine.each_pair((&from, &to), first.seed, on);
            all.cut(live, &Rows::from(&answer.map_err(|e| problem_of(&e))?), counters)
        }
        Targets::Graphs(_) => {
            let ids = live.iter().flat_map(|one| match &one.question.targets {
                Targets::Graphs(ids) => ids.as_slice(),
                _ => &[],
            });
            let ids: Vec<u64> = ids.copied().collect();
            let answer = model.engine.each_graph(&ids, on).map_err(|e| problem_of(&e))?;
            all.cut(live, &Rows::from(&answer), counters)
        }
    }
}

/// What a group is computed with.
struct Asked<'a> {
    model: &'a Arc<Model>,
    on: On<'a>,
    seed: u64,
    lag: u64,
    /// Where answers are kept that are computed alike, if they are.
    kept: Option<Arc<Generation>>,
}

/// Rows of distinct nodes.
struct Nodes {
    rows: Rows,
    places: HashMap<u64, usize>,
    /// By place, the commit of a row that was known.
    known: Vec<Option<u64>>,
}

impl Asked<'_> {
    fn version(&self) -> &Version {
        self.on.version
    }

    /// The commit and fingerprint of an answer whose oldest row is of `commit`.
    fn snapshot(&self, commit: u64) -> (u64, u64) {
        let snapshot = self.version().snapshot();
        let fingerprint = if commit == snapshot.lsn() { snapshot.fingerprint() } else { 0 };
        (commit, fingerprint)
    }

    /// Cuts rows that stand in the order of the requests.
    fn cut(
        &self,
        live: &[Waiting],
        all: &Rows,
        counters: &Counters,
    ) -> Result<Vec<Found>, Problem> {
        counters.targets(all.count, 0, 0);
        let (width, mut start) = (all.row_bytes(), 0);
        let of = |one: &Waiting| {
            let count = one.question.targets.len();
            let mut rows = all.like(count);
            rows.data.copy_from_slice(&all.data[start * width..(start + count) * width]);
            start += count;
            let snapshot = self.snapshot(self.version().snapshot().lsn());
            Found { rows, snapshot, cached: 0 }
        };
        Ok(live.iter().map(of).collect())
    }

    /// The rows of all nodes that requests have, each once.
    fn rows<'n>(
        &self,
        ids: impl Iterator<Item = &'n u64>,
        counters: &Counters,
    ) -> Result<Nodes, Problem> {
        let (mut distinct, mut places, mut asked) = (Vec::new(), HashMap::new(), 0);
        for id in ids {
            asked += 1;
            places.entry(*id).or_insert_with(|| {
                distinct.push(*id);
                distinct.len() - 1
            });
        }
        let lsn = self.version().snapshot().lsn();
        let generation = self.kept.as_deref();
        let keep = |id: &u64| self.model.kept((generation?, self.seed), *id, (lsn, self.lag));
        let kept: Vec<Option<(Arc<[u8]>, u64)>> = distinct.iter().map(keep).collect();
        let missing: Vec<u64> = distinct
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| kept.is_none())
            .map(|(id, _)| *id)
            .collect();
        let known = (distinct.len() - missing.len()) as u64;
        counters.targets(missing.len() as u64, asked - distinct.len() as u64, known);
        let (computed, reaches) = match missing.is_empty() && known > 0 {
            true => (None, Vec::new()),
            false => self.compute(&missing)?,
        };
        let like = computed.as_ref().or_else(|| generation?.like()).ok_or_else(ended)?;
        let mut rows = like.like(distinct.len());
        let mut next = 0;
        for (at, (id, kept)) in distinct.iter().zip(&kept).enumerate() {
            match (kept, &computed) {
                (Some((row, _)), _) => rows.set(at, row),
                (None, Some(computed)) => {
                    let row = computed.get(next);
                    rows.set(at, row);
                    if let Some(generation) = generation {
                        let (of, reach) = ((generation, self.seed), reaches.get(next));
                        let reach = reach.and_then(Option::as_ref);
                        self.model.keep(of, (*id, lsn), (computed, row), reach);
                    }
                    next += 1;
                }
                (None, None) => return Err(ended()),
            }
        }
        let known = kept.into_iter().map(|kept| kept.map(|(_, lsn)| lsn)).collect();
        Ok(Nodes { rows, places, known })
    }

    /// The rows of distinct nodes, and what each was made of if that will be wanted.
    fn compute(&self, ids: &[u64]) -> Result<(Option<Rows>, Vec<Option<Reach>>), Problem> {
        let (engine, seed) = (&self.model.engine, self.seed);
        let is_kept = self.kept.is_some() && ids.len() <= REACHES_MAX;
        let answer = if is_kept && self.model.keeps_reaches() {
            engine.each_reaching(ids, seed, self.on)
        } else {
            engine.each_on(ids, seed, self.on).map(|answer| (answer, Vec::new()))
        };
        let (answer, reaches) = answer.map_err(|e| problem_of(&e))?;
        Ok((Some(Rows::from(&answer)), reaches))
    }

    fn nodes(&self, live: &[Waiting], counters: &Counters) -> Result<Vec<Found>, Problem> {
        let ids_of = |one: &Waiting| match &one.question.targets {
            Targets::Nodes(ids) => ids.clone(),
            _ => Vec::new(),
        };
        let requests: Vec<Vec<u64>> = live.iter().map(ids_of).collect();
        let all = self.rows(requests.iter().flatten(), counters)?;
        let of = |ids: &Vec<u64>| {
            let mut rows = all.rows.like(ids.len());
            let places = ids.iter().map(|id| all.places[id]);
            for (at, place) in places.enumerate() {
                rows.set(at, all.rows.get(place));
            }
            self.found(rows, ids.iter(), &all)
        };
        Ok(requests.iter().map(of).collect())
    }

    fn found<'n>(&self, rows: Rows, ids: impl Iterator<Item = &'n u64>, all: &Nodes) -> Found {
        let known: Vec<u64> = ids.filter_map(|id| all.known[all.places[id]]).collect();
        let newest = self.version().snapshot().lsn();
        let commit = known.iter().fold(newest, |oldest, lsn| oldest.min(*lsn));
        Found { rows, snapshot: self.snapshot(commit), cached: known.len() as u64 }
    }

    /// Pairs as the embeddings of their nodes, and which of them each is made of (GLIST, 4.2.1).
    fn dots(&self, live: &[Waiting], counters: &Counters) -> Result<Vec<Found>, Problem> {
        let ends = |one: &'_ Waiting| match &one.question.targets {
            Targets::Edges(from, to) => (from.clone(), to.clone()),
            _ => (Vec::new(), Vec::new()),
        };
        let requests: Vec<(Vec<u64>, Vec<u64>)> = live.iter().map(ends).collect();
        let ids = requests.iter().flat_map(|(from, to)| from.iter().chain(to));
        let all = self.rows(ids, counters)?;
        let of = |(from, to): &(Vec<u64>, Vec<u64>)| {
            let places = from.iter().zip(to).map(|(a, b)| (all.places[a], all.places[b]));
            let places: Vec<(usize, usize)> = places.collect();
            let rows = all.rows.dots(places.into_iter()).ok_or_else(|| {
                let message = "the model returns no f32 vectors, so pairs have no scores";
                Problem::argument("targets.edges", message).remedy("request nodes")
            })?;
            Ok(self.found(rows, from.iter().chain(to), &all))
        };
        requests.iter().map(of).collect()
    }
}
