//! `ServerService`: the server itself.

use ng_rpc::v1::server_service_server::ServerService;
use ng_rpc::{Request, Response, Status, Stream, async_trait, v1};

use super::Service;

#[async_trait]
impl ServerService for Service {
    async fn server_info(
        &self,
        _: Request<v1::ServerInfoRequest>,
    ) -> Result<Response<v1::ServerInfoResponse>, Status> {
        let state = &self.0;
        Ok(Response::new(v1::ServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: state.started.elapsed().as_secs_f64(),
            addresses: state.addresses.clone(),
            side_address: state.side_address.clone(),
            read_only: state.config.read_only,
            ..v1::ServerInfoResponse::default()
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
