//! `SamplingService`: mini-batches for trainers elsewhere.

use std::sync::Arc;

use ng_rpc::listen::Peer;
use ng_rpc::v1::sampling_service_server::SamplingService;
use ng_rpc::{Code, Problem, Request, Response, Status, Stream, async_trait, v1};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::Service;
use crate::guard::Caller;

#[async_trait]
impl SamplingService for Service {
    type SampleStream = Stream<v1::SampleResponse>;

    async fn sample(
        &self,
        request: Request<v1::SampleRequest>,
    ) -> Result<Response<Self::SampleStream>, Status> {
        let (caller, peer) = (Caller::of(&request), request.extensions().get::<Peer>().cloned());
        let (state, request) = (Arc::clone(&self.0), request.into_inner());
        let start = move || {
            let graph = state.catalogue.graph(&request.graph)?;
            let who = (&*state.guard, &caller, peer);
            let is_full = state.scheduler.is_full();
            let batches = state.sampling.start(&graph, &request, who, is_full)?;
            Ok((graph, batches))
        };
        let started = tokio::task::spawn_blocking(start).await;
        let message = "the stream did not start because of a server bug";
        let lost = |_| Err(Problem::new(Code::Internal, "DEFECT", message));
        let (graph, batches) = started.unwrap_or_else(lost)?;
        let batches = ReceiverStream::new(batches)
            .map(move |batch| batch.map_err(|ended| Status::from(graph.blamed(ended.problem))));
        Ok(Response::new(Box::pin(batches)))
    }
}
