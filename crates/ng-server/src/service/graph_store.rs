//! `GraphStoreService`: reading and changing graphs.

use ng_rpc::v1::graph_store_service_server::GraphStoreService;
use ng_rpc::{Request, Response, Status, Streaming, async_trait, v1};

use super::{Service, unavailable};

#[async_trait]
impl GraphStoreService for Service {
    async fn update_graph(
        &self,
        _: Request<Streaming<v1::UpdateGraphRequest>>,
    ) -> Result<Response<v1::UpdateGraphResponse>, Status> {
        Err(unavailable("UpdateGraph"))
    }

    async fn apply_batch(
        &self,
        _: Request<v1::ApplyBatchRequest>,
    ) -> Result<Response<v1::ApplyBatchResponse>, Status> {
        Err(unavailable("ApplyBatch"))
    }

    async fn add_vertex(
        &self,
        _: Request<v1::AddVertexRequest>,
    ) -> Result<Response<v1::AddVertexResponse>, Status> {
        Err(unavailable("AddVertex"))
    }

    async fn delete_vertex(
        &self,
        _: Request<v1::DeleteVertexRequest>,
    ) -> Result<Response<v1::DeleteVertexResponse>, Status> {
        Err(unavailable("DeleteVertex"))
    }

    async fn add_edge(
        &self,
        _: Request<v1::AddEdgeRequest>,
    ) -> Result<Response<v1::AddEdgeResponse>, Status> {
        Err(unavailable("AddEdge"))
    }

    async fn delete_edge(
        &self,
        _: Request<v1::DeleteEdgeRequest>,
    ) -> Result<Response<v1::DeleteEdgeResponse>, Status> {
        Err(unavailable("DeleteEdge"))
    }

    async fn update_embed(
        &self,
        _: Request<v1::UpdateEmbedRequest>,
    ) -> Result<Response<v1::UpdateEmbedResponse>, Status> {
        Err(unavailable("UpdateEmbed"))
    }

    async fn get_embed(
        &self,
        _: Request<v1::GetEmbedRequest>,
    ) -> Result<Response<v1::GetEmbedResponse>, Status> {
        Err(unavailable("GetEmbed"))
    }

    async fn get_neighbors(
        &self,
        _: Request<v1::GetNeighborsRequest>,
    ) -> Result<Response<v1::GetNeighborsResponse>, Status> {
        Err(unavailable("GetNeighbors"))
    }
}
