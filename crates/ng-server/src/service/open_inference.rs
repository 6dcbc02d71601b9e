//! `GRPCInferenceService`: the Open Inference Protocol over gRPC.

use ng_rpc::open_inference as oip;
use ng_rpc::{Request, Response, Status, async_trait};
use oip::grpc_inference_service_server::GrpcInferenceService;

use super::Service;
use crate::guard::Caller;
use crate::open_inference::{infer, is_ready, model, model_metadata, server_metadata};

#[async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(
        &self,
        _: Request<oip::ServerLiveRequest>,
    ) -> Result<Response<oip::ServerLiveResponse>, Status> {
        Ok(Response::new(oip::ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        _: Request<oip::ServerReadyRequest>,
    ) -> Result<Response<oip::ServerReadyResponse>, Status> {
        Ok(Response::new(oip::ServerReadyResponse { ready: self.0.not_ready().is_none() }))
    }

    async fn model_ready(
        &self,
        request: Request<oip::ModelReadyRequest>,
    ) -> Result<Response<oip::ModelReadyResponse>, Status> {
        let asked = request.get_ref();
        let ready = is_ready(&*model(&self.0, &asked.name, &asked.version)?);
        Ok(Response::new(oip::ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<oip::ServerMetadataRequest>,
    ) -> Result<Response<oip::ServerMetadataResponse>, Status> {
        Ok(Response::new(server_metadata()))
    }

    async fn model_metadata(
        &self,
        request: Request<oip::ModelMetadataRequest>,
    ) -> Result<Response<oip::ModelMetadataResponse>, Status> {
        let (caller, asked) = (Caller::of(&request), request.get_ref());
        let found = model_metadata(&self.0, &asked.name, &asked.version, &caller).await?;
        Ok(Response::new(found))
    }

    async fn model_infer(
        &self,
        request: Request<oip::ModelInferRequest>,
    ) -> Result<Response<oip::ModelInferResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(infer(&self.0, request.into_inner(), &caller).await?))
    }
}
