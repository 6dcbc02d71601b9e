//! `InferenceService`: answers at once, and jobs.

use std::time::Instant;

use ng_rpc::v1::inference_service_server::InferenceService;
use ng_rpc::{Problem, Request, Response, Status, Stream, async_trait, v1};

use super::{Service, unavailable};
use crate::guard::Caller;
use crate::guard::cost::cost_of;
use crate::schedule::Question;
use crate::targets::Targets;

#[async_trait]
impl InferenceService for Service {
    async fn run(
        &self,
        request: Request<v1::RunRequest>,
    ) -> Result<Response<v1::RunResponse>, Status> {
        let (start, caller) = (Instant::now(), Caller::of(&request));
        let request = request.into_inner();
        let Some(v1::run_request::Dfg::Model(name)) = &request.dfg else {
            let problem = Problem::argument("model", "the request names no model");
            return Err(problem.remedy("name a model that is registered").into());
        };
        let model = self.0.catalogue.model(&request.graph, name)?;
        let at =
            request.at_snapshot.map(|commit| model.graph.snapshot(Some(commit))).transpose()?;
        let targets = Targets::try_from(request.targets)?;
        let cost = cost_of(&model, &targets);
        let permit = Some(self.0.guard.admit(&caller, targets.len() as u64, cost)?);
        let (seed, lag, deadline) = (request.seed, request.max_lag_commits, caller.deadline);
        let question = Question { model: model.clone(), targets, seed, at, lag, deadline, permit };
        let answered = self.0.scheduler.ask(question).await?;
        caller.in_time()?;
        self.0.metrics.stage("queue", answered.queued);
        self.0.metrics.stage("run", answered.engine);
        let groups = self.0.metrics.histogram("neargraph_group_requests", &[]);
        groups.record(f64::from(answered.group));
        let (commit, fingerprint) = answered.snapshot;
        let micros = |time: std::time::Duration| time.as_micros() as u64;
        Ok(Response::new(v1::RunResponse {
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
        }))
    }

    async fn graph_analysis(
        &self,
        _: Request<v1::GraphAnalysisRequest>,
    ) -> Result<Response<v1::GraphAnalysisResponse>, Status> {
        Err(unavailable("jobs"))
    }

    async fn get_analysis_result(
        &self,
        _: Request<v1::GetAnalysisResultRequest>,
    ) -> Result<Response<v1::GetAnalysisResultResponse>, Status> {
        Err(unavailable("jobs"))
    }

    type WatchAnalysisStream = Stream<v1::WatchAnalysisResponse>;

    async fn watch_analysis(
        &self,
        _: Request<v1::WatchAnalysisRequest>,
    ) -> Result<Response<Self::WatchAnalysisStream>, Status> {
        Err(unavailable("jobs"))
    }

    async fn cancel_analysis(
        &self,
        _: Request<v1::CancelAnalysisRequest>,
    ) -> Result<Response<v1::CancelAnalysisResponse>, Status> {
        Err(unavailable("jobs"))
    }

    async fn list_analyses(
        &self,
        _: Request<v1::ListAnalysesRequest>,
    ) -> Result<Response<v1::ListAnalysesResponse>, Status> {
        Err(unavailable("jobs"))
    }
}
