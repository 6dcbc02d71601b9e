//! From requests to groups: who is computed together, and when.
//!
//! What must not live here: what a model computes, messages. The invariant: an answer does not
//! depend on the group in which it was computed.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use ng_engine::Answer;
use ng_rpc::{Code, Problem};
use tokio::sync::oneshot;

use crate::guard::admission::Permit;
use crate::guard::deadline;
use crate::model::Model;
use crate::targets::Targets;

/// A request for answers of a model.
pub struct Question {
    /// Who answers.
    pub model: Arc<Model>,
    /// About what.
    pub targets: Targets,
    /// Of the draws of neighbours.
    pub seed: u64,
    /// When nobody waits for it any more.
    pub deadline: Option<Instant>,
    /// What it was admitted for: dropped with the question when it has been computed.
    pub permit: Arc<Permit>,
}

/// What a request is answered.
pub struct Answered {
    /// A row for each target.
    pub answer: Answer,
    /// How long it waited.
    pub queued: Duration,
    /// How long it was computed.
    pub engine: Duration,
    /// Requests that were computed together.
    pub group: u32,
}

struct Waiting {
    question: Question,
    since: Instant,
    reply: oneshot::Sender<Result<Answered, Problem>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Computes groups of requests on threads of its own.
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl Scheduler {
    /// Starts `lanes` threads.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(lanes: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        for _ in 0..lanes.max(1) {
            let shared = Arc::clone(&shared);
            Builder::new().name("ng-lane".into()).spawn(move || shared.work())?;
        }
        Ok(Self { shared })
    }

    /// Waits for the answer to a question.
    ///
    /// # Errors
    /// Those of the engine, a deadline that is over, a server that ends.
    pub async fn ask(&self, question: Question) -> Result<Answered, Problem> {
        let (reply, answer) = oneshot::channel();
        {
            let mut queue = self.shared.lock();
            if queue.ended {
                return Err(ending());
            }
            queue.waiting.push_back(Waiting { question, since: Instant::now(), reply });
        }
        self.shared.changed.notify_one();
        answer.await.unwrap_or_else(|_| Err(ending()))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

fn ending() -> Problem {
    Problem::new(Code::Unavailable, "SHUTTING_DOWN", "the server is shutting down")
        .remedy("try again on another replica, or when it is back")
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(waiting) = self.next() {
            // The caller has gone.
            if waiting.reply.is_closed() {
                waiting.question.permit.skip();
                continue;
            }
            let Waiting { question, since, reply } = waiting;
            let start = Instant::now();
            let answer = match question.deadline {
                Some(end) if end <= start => {
                    question.permit.skip();
                    Err(deadline::over())
                }
                _ => question.model.answer(&question.targets, question.seed),
            };
            drop(question);
            let engine = start.elapsed();
            let answered = answer.map(|answer| Answered {
                answer,
                queued: start.duration_since(since),
                engine,
                group: 1,
            });
            let _gone = reply.send(answered);
        }
    }

    fn next(&self) -> Option<Waiting> {
        let mut queue = self.lock();
        loop {
            if let Some(waiting) = queue.waiting.pop_front() {
                return Some(waiting);
            }
            if queue.ended {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
