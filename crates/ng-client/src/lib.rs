//! The client of the server: one connection, blocking calls for programs without a runtime.
//!
//! What must not live here: messages, transports (`ng-rpc` has them), Python. The invariant: a call
//! returns an answer or an error, and never waits longer than its timeout.

#![forbid(unsafe_code)]

use std::io;
use std::time::Duration;

use ng_rpc::connect::{BadAddress, Channel, MESSAGE_BYTES_MAX, channel_with};
use ng_rpc::ring::RingOptions;
use ng_rpc::v1::inference_service_client::InferenceServiceClient;
use ng_rpc::v1::registry_service_client::RegistryServiceClient;
use ng_rpc::v1::server_service_client::ServerServiceClient;
use ng_rpc::{Request, Status, v1};
use tokio::runtime::{Builder, Runtime};

/// Why a client is not made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// The system gives no thread.
    #[error("the client cannot start: {0}")]
    System(#[from] io::Error),
}

/// A client whose calls wait for their answers.
pub struct Client {
    runtime: Runtime,
    channel: Channel,
    timeout: Option<Duration>,
}

impl Client {
    /// A client of the server at `address`: `HOST:PORT`, `unix:PATH` or `shm:PATH`. It connects
    /// when it is first used.
    ///
    /// # Errors
    /// Every variant of [`ClientError`].
    pub fn new(address: &str, timeout: Option<Duration>) -> Result<Self, ClientError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let entered = runtime.enter();
        // Each call waits on the thread of its caller.
        let rings = RingOptions { blocking: true, ..RingOptions::default() };
        let channel = channel_with(address, rings)?;
        drop(entered);
        Ok(Self { runtime, channel, timeout })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
        }
        request
    }

    /// Answers of a model at once.
    ///
    /// # Errors
    /// What the server says, or that it cannot be reached.
    pub fn run(&self, message: v1::RunRequest) -> Result<v1::RunResponse, Status> {
        let mut client = InferenceServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let answer = self.runtime.block_on(client.run(self.request(message)))?;
        Ok(answer.into_inner())
    }

    /// Serves a model on a graph.
    ///
    /// # Errors
    /// As [`Client::run`].
    pub fn model_register(
        &self,
        message: v1::ModelRegisterRequest,
    ) -> Result<v1::ModelRegisterResponse, Status> {
        let mut client = RegistryServiceClient::new(self.channel.clone())
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let answer = self.runtime.block_on(client.model_register(self.request(message)))?;
        Ok(answer.into_inner())
    }

    /// The server itself.
    ///
    /// # Errors
    /// As [`Client::run`].
    pub fn server_info(&self) -> Result<v1::ServerInfoResponse, Status> {
        let mut client = ServerServiceClient::new(self.channel.clone());
        let request = self.request(v1::ServerInfoRequest {});
        Ok(self.runtime.block_on(client.server_info(request))?.into_inner())
    }
}
