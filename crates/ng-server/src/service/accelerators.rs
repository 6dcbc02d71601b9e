//! `AcceleratorService`: what computes.

use ng_rpc::v1::accelerator_service_server::AcceleratorService;
use ng_rpc::{Request, Response, Status, async_trait, v1};

use super::{Service, unavailable};

#[async_trait]
impl AcceleratorService for Service {
    async fn plugin(
        &self,
        _: Request<v1::PluginRequest>,
    ) -> Result<Response<v1::PluginResponse>, Status> {
        Err(unavailable("Plugin"))
    }

    async fn program(
        &self,
        _: Request<v1::ProgramRequest>,
    ) -> Result<Response<v1::ProgramResponse>, Status> {
        Err(unavailable("Program"))
    }

    async fn list_devices(
        &self,
        _: Request<v1::ListDevicesRequest>,
    ) -> Result<Response<v1::ListDevicesResponse>, Status> {
        Err(unavailable("ListDevices"))
    }
}
