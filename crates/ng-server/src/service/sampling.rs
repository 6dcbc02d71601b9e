//! `SamplingService`: mini-batches for trainers elsewhere.

use ng_rpc::v1::sampling_service_server::SamplingService;
use ng_rpc::{Request, Response, Status, Stream, async_trait, v1};

use super::{Service, unavailable};

#[async_trait]
impl SamplingService for Service {
    type SampleStream = Stream<v1::SampleResponse>;

    async fn sample(
        &self,
        _: Request<v1::SampleRequest>,
    ) -> Result<Response<Self::SampleStream>, Status> {
        Err(unavailable("Sample"))
    }
}
