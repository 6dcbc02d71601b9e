//! What all requests share.

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

/// What takes no longer is computed where it comes in: waking a lane and being woken by it takes
/// 30 to 80 us.
const QUICK: Duration = Duration::from_micros(200);

/// What all requests share.
pub struct State {
    /// How the server was set up when it started; a reload changes what `guard` has.
    pub config: Config,
    /// Who may ask for what, and how much.
    pub guard: Arc<Guard>,
    /// The numbers of this server.
    pub metrics: Metrics,
    /// What is served.
    pub catalogue: Catalogue,
    /// Who has room to read and to change graphs.
    pub work: Work,
    /// The devices of all models.
    pub accelerators: Accelerators,
    /// Jobs that wait, run and are kept.
    pub jobs: Jobs,
    /// Streams of mini-batches.
    pub sampling: Sampling,
    /// What computes.
    pub scheduler: Scheduler,
    /// Answers that are kept, if they are.
    pub answers: Option<Arc<EmbeddingCache>>,
    /// When it started.
    pub started: Instant,
    /// Where it can be reached.
    pub addresses: Vec<String>,
    /// Where the side port is.
    pub side_address: String,
    /// Connections that are open.
    pub open: Arc<Open>,
}

impl State {
    /// Why requests should not be sent here; `None` if they should.
    pub fn not_ready(&self) -> Option<String> {
        if self.guard.is_draining() {
            return Some("the server is about to end".to_owned());
        }
        None
    }

    /// Why answers are slower here than they are going to be; `None` if they are not.
    pub fn not_prepared(&self) -> Option<String> {
        let models = self.catalogue.models();
        let waits = models.iter().find(|model| model.engine.prepared().is_none())?;
        let share = waits.engine.ready() * 100.0;
        Some(format!("{} is prepared to {share:.0} %", waits.title()))
    }

    /// Admits a question of a caller, and waits for its answer.
    ///
    /// # Errors
    /// It is not admitted, and those of [`Scheduler::ask`].
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
