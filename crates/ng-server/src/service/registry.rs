//! `RegistryService`: what is served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_rpc::v1::registry_service_server::RegistryService;
use ng_rpc::{Problem, Request, Response, Status, async_trait, v1};

use super::{Service, deadline_of};
use crate::guard::{deadline, shutting_down};
use crate::state::State;

impl Service {
    /// Changes what is served, one change after the other.
    async fn chore<M, T: Send + 'static>(
        &self,
        request: Request<M>,
        chore: impl FnOnce(&State, M) -> Result<T, Problem> + Send + 'static,
    ) -> Result<Response<T>, Status>
    where
        M: Send + 'static,
    {
        let (state, deadline) = (Arc::clone(&self.0), deadline_of(&request));
        let message = request.into_inner();
        let done = self.0.work.chore(deadline, move || chore(&state, message)).await?;
        Ok(Response::new(done))
    }

    /// Looks at what is served.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&State) -> T + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let state = Arc::clone(&self.0);
        Ok(Response::new(self.0.work.read(None, move || Ok(look(&state))).await?))
    }
}

#[async_trait]
impl RegistryService for Service {
    async fn graph_register(
        &self,
        request: Request<v1::GraphRegisterRequest>,
    ) -> Result<Response<v1::GraphRegisterResponse>, Status> {
        let deadline = deadline_of(&request);
        self.chore(request, move |state, message| {
            let go_on = || match deadline {
                _ if state.guard.is_draining() => Err(shutting_down()),
                Some(deadline) if deadline <= Instant::now() => Err(deadline::over()),
                _ => Ok(()),
            };
            let graph = state.catalogue.take_in_graph(&message, &go_on)?;
            Ok(v1::GraphRegisterResponse { graph: Some(graph.info()) })
        })
        .await
    }

    async fn graph_unregister(
        &self,
        request: Request<v1::GraphUnregisterRequest>,
    ) -> Result<Response<v1::GraphUnregisterResponse>, Status> {
        self.chore(request, |state, message| {
            state.catalogue.unregister_graph(&message.graph)?;
            Ok(v1::GraphUnregisterResponse {})
        })
        .await
    }

    async fn model_register(
        &self,
        request: Request<v1::ModelRegisterRequest>,
    ) -> Result<Response<v1::ModelRegisterResponse>, Status> {
        self.chore(request, |state, message| {
            let model = state.catalogue.register_model(&message)?;
            let model = Some(state.catalogue.model_info(&model));
            Ok(v1::ModelRegisterResponse { model })
        })
        .await
    }

    async fn model_unregister(
        &self,
        request: Request<v1::ModelUnregisterRequest>,
    ) -> Result<Response<v1::ModelUnregisterResponse>, Status> {
        self.chore(request, |state, message| {
            state.catalogue.unregister_model(&message.graph, &message.model)?;
            Ok(v1::ModelUnregisterResponse {})
        })
        .await
    }

    async fn set_alias(
        &self,
        request: Request<v1::SetAliasRequest>,
    ) -> Result<Response<v1::SetAliasResponse>, Status> {
        self.chore(request, |state, message| {
            let v1::SetAliasRequest { graph, alias, model } = &message;
            state.catalogue.set_alias(graph, alias, model)?;
            Ok(v1::SetAliasResponse {})
        })
        .await
    }

    async fn list_graphs(
        &self,
        _: Request<v1::ListGraphsRequest>,
    ) -> Result<Response<v1::ListGraphsResponse>, Status> {
        let graphs = |state: &State| state.catalogue.graph_infos();
        self.look(move |state| v1::ListGraphsResponse { graphs: graphs(state) }).await
    }

    async fn list_models(
        &self,
        _: Request<v1::ListModelsRequest>,
    ) -> Result<Response<v1::ListModelsResponse>, Status> {
        let models = |state: &State| state.catalogue.model_infos();
        self.look(move |state| v1::ListModelsResponse { models: models(state) }).await
    }

    async fn pin_snapshot(
        &self,
        request: Request<v1::PinSnapshotRequest>,
    ) -> Result<Response<v1::PinSnapshotResponse>, Status> {
        let deadline = deadline_of(&request);
        let v1::PinSnapshotRequest { graph, seconds } = request.into_inner();
        let graph = self.0.catalogue.graph(&graph)?;
        let of = Arc::downgrade(&graph);
        let pinned = self.0.work.write(deadline, move || graph.pin(seconds)).await?;
        let seconds = pinned.seconds;
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(u64::from(seconds) + 1)).await;
            of.upgrade().map(|graph| graph.pinned())
        });
        Ok(Response::new(pinned))
    }

    async fn unpin_snapshot(
        &self,
        request: Request<v1::UnpinSnapshotRequest>,
    ) -> Result<Response<v1::UnpinSnapshotResponse>, Status> {
        let v1::UnpinSnapshotRequest { graph, commit } = request.into_inner();
        self.0.catalogue.graph(&graph)?.unpin(commit)?;
        Ok(Response::new(v1::UnpinSnapshotResponse {}))
    }
}
