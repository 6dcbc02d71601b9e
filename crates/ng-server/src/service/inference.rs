//! `InferenceService`: answers at once, and jobs.

use std::sync::Arc;
use std::time::Instant;

use ng_rpc::v1::inference_service_server::InferenceService;
use ng_rpc::v1::run_request::Dfg;
use ng_rpc::{Problem, Request, Response, Status, Stream, async_trait, v1};
use tokio_stream::StreamExt;

use super::{Service, jobs};
use crate::guard::Caller;
use crate::guard::policy::Right;
use crate::model::Model;
use crate::schedule::Question;
use crate::state::State;
use crate::targets::Targets;

#[async_trait]
impl InferenceService for Service {
    async fn run(
        &self,
        request: Request<v1::RunRequest>,
    ) -> Result<Response<v1::RunResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(run(&self.0, request.into_inner(), &caller).await?))
    }

    async fn graph_analysis(
        &self,
        request: Request<v1::GraphAnalysisRequest>,
    ) -> Result<Response<v1::GraphAnalysisResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(jobs::submit(&self.0, &caller, request.into_inner()).await?))
    }

    async fn get_analysis_result(
        &self,
        request: Request<v1::GetAnalysisResultRequest>,
    ) -> Result<Response<v1::GetAnalysisResultResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(jobs::result(&self.0, &caller, request.into_inner()).await?))
    }

    type WatchAnalysisStream = Stream<v1::WatchAnalysisResponse>;

    async fn watch_analysis(
        &self,
        request: Request<v1::WatchAnalysisRequest>,
    ) -> Result<Response<Self::WatchAnalysisStream>, Status> {
        let steps = jobs::watch(&self.0, &Caller::of(&request), request.get_ref())?;
        Ok(Response::new(Box::pin(steps.map(Ok))))
    }

    async fn cancel_analysis(
        &self,
        request: Request<v1::CancelAnalysisRequest>,
    ) -> Result<Response<v1::CancelAnalysisResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(jobs::cancel(&self.0, &caller, request.get_ref()).await?))
    }

    async fn list_analyses(
        &self,
        request: Request<v1::ListAnalysesRequest>,
    ) -> Result<Response<v1::ListAnalysesResponse>, Status> {
        Ok(Response::new(jobs::list(&self.0, &Caller::of(&request))))
    }
}

/// The model that a request names, or brings along; the files are taken out of it.
pub(super) async fn model_of(
    state: &Arc<State>,
    request: &mut v1::RunRequest,
    caller: &Caller,
) -> Result<Arc<Model>, Problem> {
    let how = (std::mem::take(&mut request.fanouts), std::mem::take(&mut request.output));
    let files = match request.dfg.take() {
        Some(Dfg::Files(files)) => files,
        Some(Dfg::Model(name)) => {
            let odd = [("fanouts", !how.0.is_empty()), ("output", !how.1.is_empty())];
            if let Some((field, _)) = odd.iter().find(|(_, given)| *given) {
                let message =
                    format!("{field} of a registered model cannot be changed in a request");
                return Err(Problem::argument(field, message).remedy(format!(
                    "leave out {field}, register the model with this value of {field}, or send the \
                     model's files"
                )));
            }
            return state.catalogue.model(&request.graph, &name);
        }
        None => {
            let problem = Problem::argument("model", "the request has no model");
            return Err(problem.remedy("give the name of a registered model, or send its files"));
        }
    };
    // It computes what it likes, so that it needs more than reading answers does.
    caller.require(Right::Write).map_err(|problem| problem.at("files"))?;
    let (all, graph, owner) = (Arc::clone(state), request.graph.clone(), caller.name());
    let owner = owner.map(str::to_owned);
    let open = move || all.catalogue.sent_model(&graph, files, how, owner.as_deref());
    state.work.open(caller.deadline, open).await
}

/// Answers at once.
pub(crate) async fn run(
    state: &Arc<State>,
    mut request: v1::RunRequest,
    caller: &Caller,
) -> Result<v1::RunResponse, Problem> {
    let start = Instant::now();
    let model = model_of(state, &mut request, caller).await?;
    let at = request.at_snapshot.map(|commit| model.graph.snapshot(Some(commit))).transpose()?;
    let targets = Targets::try_from(request.targets)?;
    let (seed, lag, deadline) = (request.seed, request.max_lag_commits, caller.deadline);
    let model_of = Arc::clone(&model);
    let question = Question { model: model_of, targets, seed, at, lag, deadline, permit: None };
    let answered = state.ask(caller, question).await?;
    let (commit, fingerprint) = answered.snapshot;
    let micros = |time: std::time::Duration| time.as_micros() as u64;
    Ok(v1::RunResponse {
        snapshot: Some(v1::Snapshot { commit, fingerprint }),
        rows: Some(answered.rows.into()),
        model: model.title(),
        rows_cached: answered.cached,
        timing: Some(v1::Timing {
            queued_us: micros(answered.queued),
            engine_us: micros(answered.engine),
            total_us: micros(start.elapsed()),
            group_requests: answered.group,
        }),
    })
}
