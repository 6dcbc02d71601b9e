//! `AcceleratorService`: what computes.

use std::sync::Arc;

use ng_rpc::v1::accelerator_service_server::AcceleratorService;
use ng_rpc::{Code, Problem, Request, Response, Status, async_trait, v1};

use super::Service;
use crate::state::State;

#[async_trait]
impl AcceleratorService for Service {
    async fn plugin(
        &self,
        request: Request<v1::PluginRequest>,
    ) -> Result<Response<v1::PluginResponse>, Status> {
        let request = request.into_inner();
        let devices = apart(&self.0, move |state| {
            state.accelerators.add((&state.config, &state.catalogue), &request)
        })
        .await?;
        Ok(Response::new(v1::PluginResponse { devices }))
    }

    async fn program(
        &self,
        request: Request<v1::ProgramRequest>,
    ) -> Result<Response<v1::ProgramResponse>, Status> {
        let bundle = request.into_inner().bundle;
        let devices =
            apart(&self.0, move |state| state.accelerators.program(&state.catalogue, &bundle))
                .await?;
        Ok(Response::new(v1::ProgramResponse { devices }))
    }

    async fn list_devices(
        &self,
        _: Request<v1::ListDevicesRequest>,
    ) -> Result<Response<v1::ListDevicesResponse>, Status> {
        Ok(Response::new(v1::ListDevicesResponse::clone(&self.0.accelerators.told())))
    }
}

/// Work on a thread that is not of the network: trials and plans take seconds. It goes on where the
/// caller does not wait for it.
async fn apart<T: Send + 'static>(
    state: &Arc<State>,
    change: impl FnOnce(&State) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let state = Arc::clone(state);
    let done = tokio::task::spawn_blocking(move || change(&state)).await;
    done.unwrap_or_else(|_| {
        let message = "changing the devices failed because of a server bug";
        Err(Problem::new(Code::Internal, "DEFECT", message))
    })
}
