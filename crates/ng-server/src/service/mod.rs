//! The services: messages to questions, answers to messages. One file for each service.
//!
//! What must not live here: how anything is done.

mod accelerators;
mod backup;
mod bulk;
mod graph_store;
mod inference;
mod jobs;
mod open_inference;
mod registry;
mod sampling;
mod server_info;

use std::sync::Arc;
use std::time::Instant;

use ng_rpc::open_inference as oip;
use ng_rpc::tonic::service::Routes;
use ng_rpc::{Request, v1};

use crate::guard::Caller;
use crate::state::State;

pub(crate) use inference::run;

/// A service of this server.
#[derive(Clone)]
struct Service(Arc<State>);

/// All services on one state.
pub fn routes(state: &Arc<State>) -> Routes {
    let service = || Service(Arc::clone(state));
    let bytes_max = usize::try_from(state.guard.rules().limits.message_bytes).unwrap_or(usize::MAX);
    macro_rules! add {
        ($routes:expr, $($server:path),+ $(,)?) => {{
            let mut routes = $routes;
            $(routes = routes.add_service(
                <$server>::new(service())
                    .max_decoding_message_size(bytes_max)
                    .max_encoding_message_size(usize::MAX),
            );)+
            routes
        }};
    }
    add!(
        Routes::default(),
        v1::accelerator_service_server::AcceleratorServiceServer<Service>,
        v1::graph_store_service_server::GraphStoreServiceServer<Service>,
        oip::grpc_inference_service_server::GrpcInferenceServiceServer<Service>,
        v1::inference_service_server::InferenceServiceServer<Service>,
        v1::registry_service_server::RegistryServiceServer<Service>,
        v1::sampling_service_server::SamplingServiceServer<Service>,
        v1::server_service_server::ServerServiceServer<Service>,
    )
}

/// When the caller of a request stops waiting.
fn deadline_of<T>(request: &Request<T>) -> Option<Instant> {
    Caller::of(request).deadline
}
