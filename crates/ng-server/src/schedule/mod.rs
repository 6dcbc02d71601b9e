//! From requests to groups: who is computed together, and when (GLIST, section 4.2.1).
//!
//! A lane is a thread that takes a group of waiting requests, computes it, and takes the next. A
//! request waits for nothing while a lane is idle, and one that takes less time than waking a lane
//! is computed where it came in. What must not live here: what a model computes, messages. The
//! invariant: an answer does not depend on the group in which it was computed.

mod group;
mod owners;
mod queue;
mod stats;
mod switches;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use ng_engine::{Computing, StageTimes};
use ng_rpc::{Code, Problem};
use ng_store::Snapshot;
use tokio::sync::oneshot;

pub use self::queue::Bounds;
use self::queue::{Queue, Taken, Waiting};
use self::stats::Counters;
pub use self::stats::ScheduleStats;
pub use self::switches::{BadSwitches, Switches};
use crate::guard::admission::Permit;
use crate::model::Model;
use crate::rows::Rows;
use crate::targets::Targets;

/// A request for answers of a model.
#[derive(Clone)]
pub struct Question {
    /// Who answers.
    pub model: Arc<Model>,
    /// About what.
    pub targets: Targets,
    /// Of the draws of neighbours.
    pub seed: u64,
    /// From which snapshot; the newest if absent.
    pub at: Option<Arc<Snapshot>>,
    /// Answers may be as many commits older.
    pub lag: u64,
    /// When nobody waits for it any more.
    pub deadline: Option<Instant>,
    /// What it was admitted for, until it has been computed.
    pub permit: Option<Arc<Permit>>,
}

impl Question {
    /// Who asks: a number for a token, and 0 for callers without one and for jobs.
    fn owner(&self) -> u64 {
        self.permit.as_ref().map_or(0, |permit| permit.owner())
    }

    /// Nothing is computed for it.
    fn skip(&self) {
        if let Some(permit) = &self.permit {
            permit.skip();
        }
    }
}

/// What a request is answered.
pub struct Answered {
    /// A row for each target.
    pub rows: Rows,
    /// The snapshot that all rows are of; with a lag, the oldest one: its commit and fingerprint.
    pub snapshot: (u64, u64),
    /// Targets whose rows were known.
    pub cached: u64,
    /// How long it waited.
    pub queued: Duration,
    /// How long it was computed.
    pub engine: Duration,
    /// The stages of the engine in that time.
    pub stages: StageTimes,
    /// Requests that were computed together.
    pub group: u32,
}

/// Computes groups of requests on threads of its own.
pub struct Scheduler {
    shared: Arc<Shared>,
}

struct Shared {
    lanes: usize,
    queue: Queue,
    switches: Switches,
    counters: Counters,
}

impl Scheduler {
    /// Starts `lanes` threads.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(lanes: usize, switches: Switches, bounds: Bounds) -> std::io::Result<Self> {
        let lanes = lanes.max(1);
        let (queue, counters) = (Queue::new(lanes, switches, bounds), Counters::default());
        let shared = Arc::new(Shared { lanes, queue, switches, counters });
        for _ in 0..lanes {
            let shared = Arc::clone(&shared);
            Builder::new().name("ng-lane".into()).spawn(move || shared.work())?;
        }
        Ok(Self { shared })
    }

    /// Waits for the answer to a question. One whose rows are all known is answered at once.
    ///
    /// # Errors
    /// Those of the engine, a deadline that is over, a server that ends.
    pub async fn ask(&self, question: Question) -> Result<Answered, Problem> {
        if let Some(answered) = self.known(&question) {
            question.skip();
            return Ok(answered);
        }
        self.ask_of(question, None).await
    }

    /// As [`Scheduler::ask`], of what computed earlier questions; of what computes when its turn
    /// comes if absent.
    ///
    /// # Errors
    /// As [`Scheduler::ask`].
    pub async fn ask_of(
        &self,
        question: Question,
        computing: Option<Computing>,
    ) -> Result<Answered, Problem> {
        let (waiting, answer) = waiting(question, computing);
        self.answered(waiting, answer, Queue::push).await
    }

    /// As [`Scheduler::ask`], on the thread of the caller if no request is computed and none
    /// waits. For questions that take less time than waking a lane does.
    ///
    /// # Errors
    /// As [`Scheduler::ask`].
    pub async fn ask_here(&self, question: Question) -> Result<Answered, Problem> {
        let (waiting, answer) = waiting(question, None);
        let put = |queue: &Queue, waiting| match queue.begin_alone(waiting) {
            Ok(taken) => {
                self.shared.answer(taken);
                true
            }
            Err(waiting) => queue.push(waiting),
        };
        self.answered(waiting, answer, put).await
    }

    /// Puts a request where it is computed, and waits for its answer.
    async fn answered(
        &self,
        waiting: Waiting,
        answer: oneshot::Receiver<Result<Answered, Problem>>,
        put: impl FnOnce(&Queue, Waiting) -> bool,
    ) -> Result<Answered, Problem> {
        let graph = Arc::clone(&waiting.question.model.graph);
        if !put(&self.shared.queue, waiting) {
            return Err(ending());
        }
        let answered = answer.await.unwrap_or_else(|_| Err(self.shared.unanswered()));
        answered.map_err(|problem| graph.blamed(problem))
    }

    /// The answer to a question whose rows are all known, which costs next to nothing.
    pub fn known(&self, question: &Question) -> Option<Answered> {
        let answered = self.shared.switches.cache.then(|| group::known(question)).flatten()?;
        self.shared.counters.known(&answered);
        Some(answered)
    }

    /// What was done, and what waits.
    pub fn stats(&self) -> ScheduleStats {
        self.shared.counters.stats(self.shared.queue.waiting())
    }

    /// Lanes that compute.
    pub fn busy(&self) -> usize {
        self.shared.queue.computing()
    }

    /// Tells whether all lanes compute, for as long as it is kept.
    pub fn is_full(&self) -> impl Fn() -> bool + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.queue.computing() >= shared.lanes
    }

    /// What is switched on.
    pub fn switches(&self) -> Switches {
        self.shared.switches
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.queue.end();
    }
}

/// A request from now on, and what it is answered.
fn waiting(
    question: Question,
    computing: Option<Computing>,
) -> (Waiting, oneshot::Receiver<Result<Answered, Problem>>) {
    let (reply, answer) = oneshot::channel();
    (Waiting { question, computing, since: Instant::now(), reply }, answer)
}

fn ending() -> Problem {
    Problem::new(Code::Unavailable, "SHUTTING_DOWN", "the server is shutting down")
        .remedy("try again on another replica, or after a restart")
}

impl Shared {
    fn work(&self) {
        while let Some(taken) = self.queue.take() {
            self.answer(taken);
        }
    }

    fn answer(&self, taken: Taken) {
        let Taken { requests, owner } = taken;
        let answer = || group::answer(requests, self.switches, &self.counters);
        // A defect takes its group with it, and no lane.
        if catch_unwind(AssertUnwindSafe(answer)).is_err() {
            tracing::error!("a group of requests failed because of a server bug");
        }
        self.queue.is_done(owner);
    }

    /// Why a request that was taken has no answer.
    fn unanswered(&self) -> Problem {
        if self.queue.has_ended() {
            return ending();
        }
        let message = "the request failed because of a server bug; see the server's log";
        Problem::new(Code::Internal, "DEFECT", message)
    }
}
