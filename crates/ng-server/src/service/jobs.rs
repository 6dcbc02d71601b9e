//! The jobs of `InferenceService` as messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_rpc::{Problem, v1};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

use super::inference::model_of;
use crate::guard::Caller;
use crate::jobs::{About, Found, JobState, Jobs, Outcome, Progress, Work};
use crate::state::State;
use crate::targets::Targets;

/// How long a caller may wait for the end of a job in one call.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Takes a job.
pub(super) async fn submit(
    state: &Arc<State>,
    caller: &Caller,
    request: v1::GraphAnalysisRequest,
) -> Result<v1::GraphAnalysisResponse, Problem> {
    let missing = || Problem::argument("request", "the job has no request");
    let mut asked = request
        .request
        .ok_or_else(|| missing().remedy("give an inference request, as for the method Run"))?;
    let bounds = state.jobs.bounds();
    let keep = match Duration::from_secs(request.keep_seconds.into()) {
        Duration::ZERO => bounds.keep,
        keep if keep > bounds.keep_max => {
            let (keep, most) = (keep.as_secs(), bounds.keep_max.as_secs());
            let message = format!("a result cannot be kept for {keep} s");
            return Err(
                Problem::argument("keep_seconds", message).remedy(format!("use at most {most} s"))
            );
        }
        keep => keep,
    };
    let model = model_of(state, &mut asked, caller).await?;
    let snapshot = model.graph.snapshot(asked.at_snapshot)?;
    let targets = Targets::try_from(asked.targets)?;
    if targets.is_empty() {
        let problem = Problem::argument("request.targets", "the job has no targets");
        return Err(problem.remedy("give nodes, edges or graphs"));
    }
    state.guard.take_targets(caller, targets.len() as u64)?;
    let owner = caller.name().map(str::to_owned);
    let work = Work { model, targets, seed: asked.seed, snapshot, keep, owner };
    Ok(v1::GraphAnalysisResponse { job: Jobs::submit(state, work)? })
}

/// How a job stands, after its end or after a while.
pub(super) async fn result(
    state: &State,
    caller: &Caller,
    request: v1::GetAnalysisResultRequest,
) -> Result<v1::GetAnalysisResultResponse, Problem> {
    let Found { about, mut progress } = state.jobs.find(&request.job, caller)?;
    let wait = Duration::from_millis(request.wait_ms.into()).min(WAIT_MAX);
    // The state is told in time, whatever it is then.
    let left = caller.deadline.map(|end| end.saturating_duration_since(Instant::now()));
    let wait = left.map_or(wait, |left| wait.min(left.mul_f64(0.9)));
    let ended = progress.wait_for(|progress| progress.state.has_ended());
    let _late = tokio::time::timeout(wait, ended).await.is_ok();
    let now = progress.borrow().clone();
    if let Some(outcome) = &now.result {
        state.guard.hold(caller, outcome.rows.data.len() as u64)?;
    }
    let result = now.result.as_deref().map(|outcome| answer(&about, outcome));
    Ok(v1::GetAnalysisResultResponse { job: Some(job(&about, &now)), result })
}

/// How far a job is, now and whenever that changes. One who reads slowly misses steps.
pub(super) fn watch(
    state: &State,
    caller: &Caller,
    request: &v1::WatchAnalysisRequest,
) -> Result<impl tokio_stream::Stream<Item = v1::WatchAnalysisResponse> + use<>, Problem> {
    let Found { about, progress } = state.jobs.find(&request.job, caller)?;
    let told = move |now: Progress| v1::WatchAnalysisResponse { job: Some(job(&about, &now)) };
    Ok(WatchStream::new(progress).map(told))
}

/// Cancels a job.
pub(super) async fn cancel(
    state: &State,
    caller: &Caller,
    request: &v1::CancelAnalysisRequest,
) -> Result<v1::CancelAnalysisResponse, Problem> {
    let Found { about, mut progress } = state.jobs.cancel(&request.job, caller)?;
    let _gone = progress.wait_for(|progress| progress.state.has_ended()).await.is_err();
    let now = progress.borrow().clone();
    Ok(v1::CancelAnalysisResponse { job: Some(job(&about, &now)) })
}

/// All jobs.
pub(super) fn list(state: &State, caller: &Caller) -> v1::ListAnalysesResponse {
    let jobs = state.jobs.all(caller).into_iter().map(|found| {
        let now = found.progress.borrow().clone();
        job(&found.about, &now)
    });
    v1::ListAnalysesResponse { jobs: jobs.collect() }
}

fn job(about: &About, now: &Progress) -> v1::Job {
    let state = match now.state {
        JobState::Queued => v1::JobState::Queued,
        JobState::Running => v1::JobState::Running,
        JobState::Done => v1::JobState::Done,
        JobState::Failed => v1::JobState::Failed,
        JobState::Cancelled => v1::JobState::Cancelled,
    };
    v1::Job {
        job: about.id.clone(),
        state: state.into(),
        targets: about.targets,
        targets_done: now.done,
        problem: now.problem.clone(),
        graph: about.graph.clone(),
        model: about.model.clone(),
    }
}

fn answer(about: &About, outcome: &Outcome) -> v1::RunResponse {
    let micros = |time: Duration| time.as_micros() as u64;
    v1::RunResponse {
        snapshot: Some(outcome.snapshot),
        rows: Some(outcome.rows.clone()),
        model: about.model.clone(),
        rows_cached: outcome.cached,
        timing: Some(v1::Timing {
            queued_us: micros(outcome.queued),
            engine_us: micros(outcome.ran),
            total_us: micros(outcome.queued + outcome.ran),
            group_requests: 1,
        }),
    }
}
