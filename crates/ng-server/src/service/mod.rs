//! The services: messages to questions, answers to messages. One file for each service.
//!
//! What must not live here: how anything is done.

mod accelerators;
mod graph_store;
mod inference;
mod jobs;
mod open_inference;
mod registry;
mod sampling;
mod server_info;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_rpc::open_inference as oip;
use ng_rpc::tonic::service::Routes;
use ng_rpc::{Code, Problem, Request, Status, v1};

use crate::state::State;

pub(crate) use inference::run;

/// Bytes of a request at most, unless set otherwise.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A service of this server.
#[derive(Clone)]
struct Service(Arc<State>);

/// All services on one state.
pub fn routes(state: &Arc<State>) -> Routes {
    let service = || Service(Arc::clone(state));
    macro_rules! add {
        ($routes:expr, $($server:path),+ $(,)?) => {{
            let mut routes = $routes;
            $(routes = routes.add_service(
                <$server>::new(service())
                    .max_decoding_message_size(MESSAGE_BYTES_MAX)
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

/// What is not there yet in this release.
fn unavailable(what: &str) -> Status {
    Problem::new(Code::Unimplemented, "UNIMPLEMENTED", format!("this release has no {what}")).into()
}

/// When the caller stops waiting, as the request says.
fn deadline_of<T>(request: &Request<T>) -> Option<Instant> {
    let text = request.metadata().get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number = number.parse::<u64>().ok()?;
    let left = match unit {
        "H" => Duration::from_secs(number.checked_mul(3600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    Instant::now().checked_add(left)
}
