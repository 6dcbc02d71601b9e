//! The interface of the server: messages, services, transports, and errors that say what to do.
//!
//! What lives here: what `proto/` compiles to, how a server listens and a client connects, and how
//! errors become a status with details. This crate alone names the RPC library. What must not live
//! here: what a request means. The invariant: the services are the same on each transport.

#![forbid(unsafe_code)]

pub mod call;
pub mod connect;
pub mod listen;
mod status;

pub use status::{Problem, problem_of, problem_told};
pub use tonic::{Code, Request, Response, Status, Streaming, async_trait};
pub use {http, tonic, tower};

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

/// What a streaming call answers.
pub type Stream<T> = tonic::codegen::BoxStream<T>;

/// Health checks, as probes ask for them.
pub mod health {
    pub use tonic_health::ServingStatus;
    pub use tonic_health::server::{HealthReporter, health_reporter};
}

/// Descriptors of all services, encoded.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The reflection service, which tells clients what there is.
///
/// # Errors
/// The descriptors of this build are broken.
pub fn reflection() -> Result<
    tonic_reflection::server::v1::ServerReflectionServer<
        impl tonic_reflection::server::v1::ServerReflection,
    >,
    tonic_reflection::server::Error,
> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
}
