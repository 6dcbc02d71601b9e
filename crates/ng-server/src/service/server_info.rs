//! `ServerService`: the server itself.

use ng_rpc::v1::server_service_server::ServerService;
use ng_rpc::{Request, Response, Status, Stream, async_trait, v1};

use super::Service;
use crate::guard::Caller;

#[async_trait]
impl ServerService for Service {
    async fn server_info(
        &self,
        request: Request<v1::ServerInfoRequest>,
    ) -> Result<Response<v1::ServerInfoResponse>, Status> {
        let state = &self.0;
        let limits = &state.guard.rules().limits;
        Ok(Response::new(v1::ServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: state.started.elapsed().as_secs_f64(),
            addresses: state.addresses.clone(),
            side_address: state.side_address.clone(),
            right: Caller::of(&request).right.name().to_owned(),
            read_only: state.config.read_only,
            scheduler: state.config.scheduler.to_string(),
            limits: limits.named().into_iter().map(|(name, n)| (name.to_owned(), n)).collect(),
        }))
    }

    type BackupStream = Stream<v1::BackupResponse>;

    async fn backup(
        &self,
        request: Request<v1::BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        self.copy_graph(request).await
    }
}
