//! The shared state of all requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_engine::{EmbeddingCache, StageTimes};
use ng_rpc::Problem;
use ng_rpc::listen::Open;

use crate::accelerators::Accelerators;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::guard::cost::cost_of;
use crate::guard::{Caller, Guard};
use crate::jobs::Jobs;
use crate::sampling::Sampling;
use crate::schedule::{Answered, Question, Scheduler};
use crate::targets::Targets;
use crate::telemetry::{Metrics, Stages};
use crate::work::Work;

/// Shorter requests are computed on the network thread, as waking a lane and being woken by it
/// takes 30 to 80 us.
const QUICK: Duration = Duration::from_micros(200);

/// The shared state of all requests.
pub struct State {
    /// The configuration at the start. A reload changes the rules in `guard`.
    pub config: Config,
    /// Access control and limits.
    pub guard: Arc<Guard>,
    /// The metrics of the server.
    pub metrics: Metrics,
    /// Served graphs and models.
    pub catalogue: Catalogue,
    /// Threads for blocking work on graphs.
    pub work: Work,
    /// The devices of all models.
    pub accelerators: Accelerators,
    /// Jobs, including finished ones whose results are kept.
    pub jobs: Jobs,
    /// Streams of mini-batches.
    pub sampling: Sampling,
    /// The scheduler of inference requests.
    pub scheduler: Scheduler,
    /// The answer cache, if enabled.
    pub answers: Option<Arc<EmbeddingCache>>,
    /// The time of the start.
    pub started: Instant,
    /// The addresses at which the server listens.
    pub addresses: Vec<String>,
    /// The address of the side port.
    pub side_address: String,
    /// Connections that are open.
    pub open: Arc<Open>,
}

impl State {
    /// Why the server is not ready, or `None` if it is.
    pub fn not_ready(&self) -> Option<String> {
        if self.guard.is_draining() {
            return Some("the server is shutting down".to_owned());
        }
        None
    }

    /// Why answers are still slower than after preparation, or `None` if they are not.
    pub fn not_prepared(&self) -> Option<String> {
        let models = self.catalogue.models();
        let waits = models.iter().find(|model| model.engine.prepared().is_none())?;
        let share = waits.engine.ready() * 100.0;
        Some(format!("model {} is being prepared: {share:.0} % done", waits.title()))
    }

    /// Admits an inference request and waits for its answer.
    ///
    /// # Errors
    /// The request is not admitted; those of [`Scheduler::ask`].
    pub async fn ask(&self, caller: &Caller, question: Question) -> Result<Answered, Problem> {
        let (targets, asked) = (question.targets.len() as u64, Instant::now());
        self.guard.bounded("targets", targets)?;
        // What is known needs no room, and tells nothing of how fast the engine is.
        let answered = match self.scheduler.known(&question) {
            Some(answered) => {
                self.guard.take_targets(caller, targets)?;
                answered
            }
            None => {
                let cost = cost_of(&question.model, &question.targets);
                let permit = Some(self.guard.admit(caller, targets, cost)?);
                let question = Question { permit, ..question };
                if self.is_quick(&question) {
                    self.scheduler.ask_here(question).await?
                } else {
                    // That its rows are not all known has just been seen.
                    self.scheduler.ask_of(question, None).await?
                }
            }
        };
        caller.in_time()?;
        self.guard.hold(caller, answered.rows.data.len() as u64)?;
        let StageTimes { sample, gather, .. } = answered.stages;
        let run = answered.engine.saturating_sub(sample + gather);
        let stages = Stages { asked, queue: answered.queued, sample, gather, run };
        stages.named().into_iter().for_each(|(stage, took)| self.metrics.stage(stage, took));
        caller.took(stages);
        let groups = self.metrics.histogram("neargraph_group_requests", &[]);
        groups.record(f64::from(answered.group));
        Ok(answered)
    }

    /// Whether a question is worth no lane. Threads of the network must not wait for long.
    fn is_quick(&self, question: &Question) -> bool {
        let targets = &question.targets;
        question.at.is_none()
            && matches!(targets, Targets::Nodes(_))
            && question.model.is_quick(targets.nodes(), QUICK)
            && self.accelerators.are_own()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.open.count()
    }
}
