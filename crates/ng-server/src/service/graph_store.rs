//! `GraphStoreService`: reading and changing graphs.

use std::sync::Arc;
use std::time::Instant;

use ng_rpc::v1::change::Change as Kind;
use ng_rpc::v1::graph_store_service_server::GraphStoreService;
use ng_rpc::{Problem, Request, Response, Status, Streaming, async_trait, v1};

use super::{Service, deadline_of};
use crate::graph::Applied;
use crate::guard::Caller;

/// The key of a batch, and a commit that there was before it was first sent.
type Key = (Vec<u8>, Option<u64>);

impl Service {
    /// Commits changes to a graph.
    async fn apply(
        &self,
        graph: &str,
        changes: Vec<v1::Change>,
        key: Key,
        deadline: Option<Instant>,
    ) -> Result<Applied, Problem> {
        self.0.catalogue.check_writable()?;
        let graph = self.0.catalogue.graph(graph)?;
        let apply =
            move || graph.apply(&changes, (&key.0, key.1)).map_err(|problem| graph.blamed(problem));
        self.0.work.write(deadline, apply).await
    }

    /// Commits one change.
    async fn apply_one(
        &self,
        graph: &str,
        change: Option<Kind>,
        key: Key,
        deadline: Option<Instant>,
    ) -> Result<(Option<v1::Snapshot>, v1::ChangeResult), Status> {
        let applied = self.apply(graph, vec![v1::Change { change }], key, deadline).await?;
        Ok((Some(applied.snapshot), applied.results.first().copied().unwrap_or_default()))
    }
}

#[async_trait]
impl GraphStoreService for Service {
    async fn update_graph(
        &self,
        request: Request<Streaming<v1::UpdateGraphRequest>>,
    ) -> Result<Response<v1::UpdateGraphResponse>, Status> {
        Ok(Response::new(super::bulk::update(&self.0, request).await?))
    }

    async fn apply_transaction(
        &self,
        request: Request<v1::ApplyTransactionRequest>,
    ) -> Result<Response<v1::ApplyTransactionResponse>, Status> {
        let deadline = deadline_of(&request);
        let v1::ApplyTransactionRequest { graph, changes, idempotency_key, key_since_commit } =
            request.into_inner();
        let applied =
            self.apply(&graph, changes, (idempotency_key, key_since_commit), deadline).await?;
        let Applied { snapshot, results, repeated } = applied;
        let snapshot = Some(snapshot);
        Ok(Response::new(v1::ApplyTransactionResponse { snapshot, results, repeated }))
    }

    async fn add_vertex(
        &self,
        request: Request<v1::AddVertexRequest>,
    ) -> Result<Response<v1::AddVertexResponse>, Status> {
        let deadline = deadline_of(&request);
        let v1::AddVertexRequest { graph, vertex, idempotency_key, key_since_commit } =
            request.into_inner();
        let change = vertex.map(Kind::AddVertex);
        let done =
            self.apply_one(&graph, change, (idempotency_key, key_since_commit), deadline).await?;
        let (snapshot, result) = done;
        let id = result.node.unwrap_or_default();
        Ok(Response::new(v1::AddVertexResponse { snapshot, id }))
    }

    async fn delete_vertex(
        &self,
        request: Request<v1::DeleteVertexRequest>,
    ) -> Result<Response<v1::DeleteVertexResponse>, Status> {
        let deadline = deadline_of(&request);
        let v1::DeleteVertexRequest { graph, vertex, idempotency_key, key_since_commit } =
            request.into_inner();
        let change = vertex.map(Kind::DeleteVertex);
        let (snapshot, _) =
            self.apply_one(&graph, change, (idempotency_key, key_since_commit), deadline).await?;
        Ok(Response::new(v1::DeleteVertexResponse { snapshot }))
    }

    async fn add_edge(
        &self,
        request: Request<v1::AddEdgeRequest>,
    ) -> Result<Response<v1::AddEdgeResponse>, Status> {
        let deadline = deadline_of(&request);
        let v1::AddEdgeRequest { graph, edge, idempotency_key, key_since_commit } =
            request.into_inner();
        let change = edge.map(Kind::AddEdge);
        let done =
            self.apply_one(&graph, change, (idempotency_key, key_since_commit), deadline).await?;
        let (snapshot, v1::ChangeResult { edge: edge_id, .. }) = done;
        Ok(Response::new(v1::AddEdgeResponse { snapshot, edge_id }))
    }

    async fn delete_edge(
        &self,
        request: Request<v1::DeleteEdgeRequest>,
    ) -> Result<Response<v1::DeleteEdgeResponse>, Status> {
        let deadline = deadline_of(&request);
        let v1::DeleteEdgeRequest { graph, edge, idempotency_key, key_since_commit } =
            request.into_inner();
        let change = edge.map(Kind::DeleteEdge);
        let done =
            self.apply_one(&graph, change, (idempotency_key, key_since_commit), deadline).await?;
        let (snapshot, v1::ChangeResult { deleted, .. }) = done;
        let deleted = deleted.unwrap_or_default();
        Ok(Response::new(v1::DeleteEdgeResponse { snapshot, deleted }))
    }

    async fn update_embed(
        &self,
        request: Request<v1::UpdateEmbedRequest>,
    ) -> Result<Response<v1::UpdateEmbedResponse>, Status> {
        let deadline = deadline_of(&request);
        let v1::UpdateEmbedRequest { graph, embed, idempotency_key, key_since_commit } =
            request.into_inner();
        let change = embed.map(Kind::UpdateEmbed);
        let (snapshot, _) =
            self.apply_one(&graph, change, (idempotency_key, key_since_commit), deadline).await?;
        Ok(Response::new(v1::UpdateEmbedResponse { snapshot }))
    }

    async fn get_embed(
        &self,
        request: Request<v1::GetEmbedRequest>,
    ) -> Result<Response<v1::GetEmbedResponse>, Status> {
        let caller = Caller::of(&request);
        let message = request.into_inner();
        let ids = message.nodes.as_ref().map_or(0, |nodes| nodes.ids.len());
        self.0.guard.bounded("nodes.ids", ids as u64)?;
        let graph = self.0.catalogue.graph(&message.graph)?;
        let (deadline, guard) = (caller.deadline, Arc::clone(&self.0.guard));
        let read = move || {
            let answer = graph.embed(&message, &|bytes| guard.hold(&caller, bytes));
            answer.map_err(|problem| graph.blamed(problem))
        };
        Ok(Response::new(self.0.work.read(deadline, read).await?))
    }

    async fn get_neighbors(
        &self,
        request: Request<v1::GetNeighborsRequest>,
    ) -> Result<Response<v1::GetNeighborsResponse>, Status> {
        let caller = Caller::of(&request);
        let message = request.into_inner();
        self.0.guard.bounded("ids", message.ids.len() as u64)?;
        let graph = self.0.catalogue.graph(&message.graph)?;
        let (deadline, guard) = (caller.deadline, Arc::clone(&self.0.guard));
        let read = move || {
            let answer = graph.neighbors(&message, &|bytes| guard.hold(&caller, bytes));
            answer.map_err(|problem| graph.blamed(problem))
        };
        Ok(Response::new(self.0.work.read(deadline, read).await?))
    }
}
