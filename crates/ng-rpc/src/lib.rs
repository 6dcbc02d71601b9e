//! The interface of the server: messages, services, transports, and errors that say what to do.
//!
//! What lives here: the code generated from `proto/`, listening and connecting, and the conversion
//! of errors to a status with details. Only this crate depends on the RPC library. What must not
//! live here: the meaning of requests. The invariant: the services are the same on each transport.

#![forbid(unsafe_code)]

pub mod call;
pub mod connect;
mod connection;
pub mod direct;
pub mod listen;
mod local;
mod open;
pub mod ring;
mod status;
pub mod tls;

pub use prost::Message;
pub use status::{Problem, problem_of, problem_told, retry_after};
pub use tonic::{Code, Request, Response, Status, Streaming, async_trait};
pub use {http, tonic, tonic_prost, tonic_types, tower};

/// Messages and services of `proto/neargraph/v1`.
#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
pub mod v1 {
    tonic::include_proto!("neargraph.v1");
}

/// Messages and services of the Open Inference Protocol.
#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
pub mod open_inference {
    tonic::include_proto!("inference");
}

/// The answer of a streaming call.
pub type Stream<T> = tonic::codegen::BoxStream<T>;

/// Health checks, as probes ask for them.
pub mod health {
    pub use tonic_health::server::{HealthReporter, health_reporter};
    pub use tonic_health::{ServingStatus, pb};
}

/// Descriptors of all services, encoded.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The paths of all methods of a server, such as `/neargraph.v1.InferenceService/Run`, including
/// those of health and reflection.
///
/// # Errors
/// The descriptors of this build are damaged.
pub fn methods() -> Result<Vec<String>, prost::DecodeError> {
    use prost::Message;
    let health = tonic_health::pb::FILE_DESCRIPTOR_SET;
    let reflection = tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET;
    let older = tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET;
    let mut found = Vec::new();
    for encoded in [DESCRIPTORS, health, reflection, older] {
        for file in prost_types::FileDescriptorSet::decode(encoded)?.file {
            for service in &file.service {
                let full = format!("/{}.{}", file.package(), service.name());
                found.extend(service.method.iter().map(|m| format!("{full}/{}", m.name())));
            }
        }
    }
    Ok(found)
}

/// The service names for health checks, such as `neargraph.v1.InferenceService`, and `""` for the
/// server as a whole.
pub fn services() -> Vec<String> {
    let methods = methods().unwrap_or_default();
    let names = methods.iter().filter_map(|path| path.split('/').nth(1));
    let mut all: Vec<String> = std::iter::once("").chain(names).map(str::to_owned).collect();
    all.dedup();
    all
}

/// The reflection service, which describes all services to clients.
///
/// # Errors
/// The descriptors of this build are damaged.
pub fn reflection() -> Result<
    tonic_reflection::server::v1::ServerReflectionServer<
        impl tonic_reflection::server::v1::ServerReflection,
    >,
    tonic_reflection::server::Error,
> {
    described().build_v1()
}

/// The reflection service under its earlier name, which some clients still use.
///
/// # Errors
/// As [`reflection`].
pub fn reflection_v1alpha() -> Result<
    tonic_reflection::server::v1alpha::ServerReflectionServer<
        impl tonic_reflection::server::v1alpha::ServerReflection,
    >,
    tonic_reflection::server::Error,
> {
    described().build_v1alpha()
}

fn described() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
