//! [`Queue`]: requests that wait, and which of them are taken together.
//!
//! The one that has waited longest is always taken of those of the owner whose turn it is
//! ([`Owners`]), so none waits for ever. What must not live here: how a group is computed.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ng_engine::Computing;
use ng_rpc::Problem;
use serde::Deserialize;
use tokio::sync::oneshot;

use super::owners::{LATELY, Owners};
use super::{Answered, Question, Switches};
use crate::config::units::de_time;
use crate::targets::Targets;

/// Requests that are looked through for a group.
const LOOKED_AT: usize = 4096;
/// Groups are ordered only while at least this many groups wait. With fewer, ordering costs more
/// reads than it saves (`benchmarks.serving.glist --only depth`).
const ORDERED_FROM: usize = 64;
/// Requests without a group that may go before the oldest one, where they are ordered.
const PASSES_MAX: usize = 256;

/// Where a group ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// Requests in it.
    pub requests: usize,
    /// Time that it is foreseen to take.
    #[serde(deserialize_with = "de_time")]
    pub time: Duration,
    /// How long a lane waits for more while another one computes.
    #[serde(deserialize_with = "de_time")]
    pub window: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { requests: 1024, time: Duration::from_millis(15), window: Duration::ZERO }
    }
}

/// A request that waits.
pub(super) struct Waiting {
    pub question: Question,
    /// What computes it, if not what does when its turn comes.
    pub computing: Option<Computing>,
    pub since: Instant,
    pub reply: oneshot::Sender<Result<Answered, Problem>>,
}

/// A group, and who has the lane that computes it.
pub(super) struct Taken {
    pub requests: Vec<Waiting>,
    pub owner: u64,
}

struct State {
    waiting: VecDeque<Waiting>,
    computing: usize,
    owners: Owners,
    ended: bool,
    sweep: Sweep,
}

/// The order of requests that are ordered and not grouped.
#[derive(Default)]
struct Sweep {
    /// The node of the last one.
    last: u64,
    /// How often the oldest one was not the next.
    passes: usize,
}

impl Sweep {
    /// Which request is next: upwards from the last one and then from the lowest again, so that
    /// repeats come one after the other and lists of near nodes, too.
    fn next(&mut self, nodes: impl Iterator<Item = u64>) -> usize {
        let last = self.last;
        let nodes: Vec<u64> = nodes.collect();
        let ahead = |at: &usize| (nodes[*at] < last, nodes[*at], *at);
        let next = (0..nodes.len()).min_by_key(ahead).unwrap_or(0);
        let next = if self.passes >= PASSES_MAX { 0 } else { next };
        self.passes = if next == 0 { 0 } else { self.passes + 1 };
        self.last = nodes.get(next).copied().unwrap_or(last);
        next
    }
}

/// Requests that wait.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    switches: Switches,
    bounds: Bounds,
}

impl Queue {
    pub fn new(lanes: usize, switches: Switches, bounds: Bounds) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            computing: 0,
            owners: Owners::new(lanes),
            ended: false,
            sweep: Sweep::default(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), switches, bounds }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests that wait.
    pub fn waiting(&self) -> u64 {
        self.lock().waiting.len() as u64
    }

    /// Groups that are computed.
    pub fn computing(&self) -> usize {
        self.lock().computing
    }

    /// Whether it was taken: none is once the server ends.
    pub fn push(&self, waiting: Waiting) -> bool {
        let mut state = self.lock();
        if state.ended {
            return false;
        }
        state.owners.comes(waiting.question.owner());
        state.waiting.push_back(waiting);
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Begins a request without a lane; gives it back if another one is computed or waits, or the
    /// server ends. [`Queue::is_done`] has to be told in the end.
    #[allow(clippy::result_large_err)]
    pub fn begin_alone(&self, waiting: Waiting) -> Result<Taken, Waiting> {
        let mut state = self.lock();
        if state.ended || state.computing > 0 || !state.waiting.is_empty() {
            return Err(waiting);
        }
        state.computing = 1;
        let owner = waiting.question.owner();
        state.owners.has_lane(owner, true);
        Ok(Taken { requests: vec![waiting], owner })
    }

    /// Takes no more requests; those that wait are still computed.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Whether the server ends.
    pub fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// A lane has computed its group.
    pub fn is_done(&self, owner: u64) {
        let mut state = self.lock();
        state.computing -= 1;
        state.owners.has_lane(owner, false);
        if !state.waiting.is_empty() {
            // There may be lanes that had to leave them.
            self.changed.notify_one();
        } else if state.ended {
            self.changed.notify_all();
        }
    }

    /// The next group; `None` once there will be none.
    pub fn take(&self) -> Option<Taken> {
        let mut state = self.lock();
        loop {
            let Some(next) =
                state.owners.next(state.waiting.iter().map(|one| one.question.owner()))
            else {
                if state.ended && state.waiting.is_empty() {
                    return None;
                }
                // What waits may have no lane only for so long.
                let most = if state.waiting.is_empty() { Duration::MAX } else { LATELY };
                let waited = self.changed.wait_timeout(state, most);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            };
            if next > 0
                && let Some(one) = state.waiting.remove(next)
            {
                state.waiting.push_front(one);
            }
            let left =
                state.waiting.front().map_or(Duration::ZERO, |it| self.time_left(&state, it));
            if left.is_zero() || !self.has_room(&state) {
                return Some(self.taken(&mut state));
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn taken(&self, state: &mut State) -> Taken {
        state.computing += 1;
        let requests = self.group(state);
        for one in &requests {
            state.owners.goes(one.question.owner());
        }
        let owner = requests.first().map_or(0, |first| first.question.owner());
        state.owners.has_lane(owner, true);
        if !state.waiting.is_empty() {
            // Whoever was woken for them may have been this lane.
            self.changed.notify_one();
        }
        Taken { requests, owner }
    }

    /// How long more requests may be waited for. With an idle engine that would only cost time.
    fn time_left(&self, state: &State, first: &Waiting) -> Duration {
        if !self.switches.group || state.computing == 0 || state.ended {
            return Duration::ZERO;
        }
        let by_window = self.bounds.window.saturating_sub(first.since.elapsed());
        let by_deadline = first.question.deadline.map(|end| {
            // Half of what is left is for computing.
            end.saturating_duration_since(Instant::now()) / 2
        });
        by_deadline.map_or(by_window, |left| left.min(by_window))
    }

    fn has_room(&self, state: &State) -> bool {
        let Some(first) = state.waiting.front() else { return true };
        let room = room(&first.question, self.bounds);
        let alike = state.waiting.iter().take(LOOKED_AT).filter(|one| are_alike(first, one));
        alike.map(|one| one.question.targets.nodes()).sum::<usize>() < room
    }

    /// Takes the oldest request and those that are computed with it.
    fn group(&self, state: &mut State) -> Vec<Waiting> {
        let State { waiting, sweep, .. } = state;
        if self.switches.order && !self.switches.group {
            let looked_at = waiting.iter().take(LOOKED_AT);
            let next = sweep.next(looked_at.map(|one| one.question.targets.first().unwrap_or(0)));
            return waiting.remove(next).into_iter().collect();
        }
        let Some(first) = waiting.front() else { return Vec::new() };
        let room = room(&first.question, self.bounds);
        if !self.switches.group || room <= first.question.targets.nodes() {
            return waiting.pop_front().into_iter().collect();
        }
        let looked_at = waiting.iter().take(LOOKED_AT).enumerate();
        let alike = looked_at.filter(|(_, one)| are_alike(first, one));
        let alike = alike.map(|(at, one)| Alike::new(at, &one.question.targets)).collect();
        let mut chosen = chosen(alike, room, self.bounds.requests, self.switches.order);
        chosen.sort_unstable_by_key(|at| Reverse(*at));
        let mut group: Vec<Waiting> =
            chosen.into_iter().filter_map(|at| waiting.remove(at)).collect();
        group.reverse();
        group
    }
}

/// How many nodes a group around a request may have.
fn room(question: &Question, bounds: Bounds) -> usize {
    question.model.nodes_within(bounds.time)
}

/// Whether two requests can be computed together.
fn are_alike(one: &Waiting, other: &Waiting) -> bool {
    let same_computing = one.computing == other.computing;
    let (one, other) = (&one.question, &other.question);
    let same_version = match (&one.at, &other.at) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    };
    let same_kind = matches!(
        (&one.targets, &other.targets),
        (Targets::Nodes(_), Targets::Nodes(_))
            | (Targets::Edges(..), Targets::Edges(..))
            | (Targets::Graphs(_), Targets::Graphs(_))
    );
    let same_model = Arc::ptr_eq(&one.model, &other.model) && same_computing;
    same_kind && same_version && one.seed == other.seed && same_model
}

/// A request that can be computed with the oldest one.
#[derive(Clone, Copy)]
struct Alike {
    /// Its place among those that wait.
    at: usize,
    nodes: usize,
    first_node: u64,
}

impl Alike {
    fn new(at: usize, targets: &Targets) -> Self {
        Self { at, nodes: targets.nodes(), first_node: targets.first().unwrap_or(0) }
    }
}

/// Places of those that are computed together, in `room` for nodes and at most `most`: of `alike`,
/// which begins with the oldest, the oldest, or those whose lists lie nearest to those of the
/// oldest one. Lists stand in the order of ids, so near ids share pages.
fn chosen(mut alike: Vec<Alike>, room: usize, most: usize, is_ordered: bool) -> Vec<usize> {
    let waiting: usize = alike.iter().map(|one| one.nodes).sum();
    if let Some(oldest) = alike.first().copied()
        && is_ordered
        && waiting >= ORDERED_FROM.saturating_mul(room)
    {
        // The oldest one has distance 0 and the smallest place of all that have.
        alike.sort_by_key(|one| (one.first_node.abs_diff(oldest.first_node), one.at));
    }
    let (mut left, mut places) = (room, Vec::new());
    for one in alike.into_iter().take(most.max(1)) {
        if places.is_empty() || one.nodes <= left {
            left = left.saturating_sub(one.nodes);
            places.push(one.at);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_goes_upwards_begins_again_and_leaves_none_behind_for_ever() {
        let mut sweep = Sweep { last: 5, passes: 0 };
        let mut waiting = vec![9, 2, 7, 7, 5];
        let mut taken = Vec::new();
        while !waiting.is_empty() {
            taken.push(waiting.remove(sweep.next(waiting.iter().copied())));
        }
        assert_eq!(taken, [5, 7, 7, 9, 2]);
        let others = (0..=PASSES_MAX).map(|_| sweep.next([1, 2].into_iter()));
        let others: Vec<usize> = others.collect();
        assert!(others[..PASSES_MAX].iter().all(|next| *next == 1), "2 stays ahead of 1");
        assert_eq!(others[PASSES_MAX], 0, "the oldest one had waited for long enough");
    }

    #[test]
    fn the_nearest_are_taken_where_many_groups_wait_and_the_oldest_where_few_do() {
        let waiting = |count: usize| {
            let of = |at| Alike { at, nodes: 1, first_node: if at % 50 == 0 { 7 } else { 900 } };
            (0..count).map(of).collect::<Vec<_>>()
        };
        let many = 3 * ORDERED_FROM;
        assert_eq!(chosen(waiting(many), 3, 1024, true), [0, 50, 100], "repeats of the oldest");
        assert_eq!(chosen(waiting(many - 1), 3, 1024, true), [0, 1, 2], "too few wait");
        assert_eq!(chosen(waiting(many), 3, 1024, false), [0, 1, 2], "not ordered");
        assert_eq!(chosen(waiting(many), 3, 2, true), [0, 50], "requests are bounded");
        let mut large = waiting(many);
        large[0].nodes = 9;
        assert_eq!(chosen(large, 3, 1024, true), [0], "the oldest one is always taken");
    }
}
