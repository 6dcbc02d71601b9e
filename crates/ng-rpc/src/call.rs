//! Calls by path, so that one function serves all methods of all services.

use prost::Message;
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::connect::{Channel, MESSAGE_BYTES_MAX, with_causes};

/// Calls a method with one request and one answer. `path` is `/PACKAGE.SERVICE/METHOD`.
///
/// # Errors
/// The status of the server, or `Unavailable` if it cannot be reached.
pub async fn unary<Q, A>(
    channel: &Channel,
    path: &'static str,
    request: Request<Q>,
) -> Result<A, Status>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let mut grpc = ready(channel).await?;
    let path = http::uri::PathAndQuery::from_static(path);
    let codec = ProstCodec::<Q, A>::default();
    let answer = grpc.unary(request, path, codec).await.map_err(|status| told(channel, status))?;
    Ok(answer.into_inner())
}

/// Calls a method with one request and a stream of answers.
///
/// # Errors
/// As [`unary`].
pub async fn stream<Q, A>(
    channel: &Channel,
    path: &'static str,
    request: Request<Q>,
) -> Result<Streaming<A>, Status>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let mut grpc = ready(channel).await?;
    let path = http::uri::PathAndQuery::from_static(path);
    let codec = ProstCodec::<Q, A>::default();
    Ok(grpc
        .server_streaming(request, path, codec)
        .await
        .map_err(|status| told(channel, status))?
        .into_inner())
}

/// Calls a method with a stream of requests and one answer.
///
/// # Errors
/// As [`unary`].
pub async fn upload<S, Q, A>(
    channel: &Channel,
    path: &'static str,
    request: Request<S>,
) -> Result<A, Status>
where
    S: Stream<Item = Q> + Send + 'static,
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let mut grpc = ready(channel).await?;
    let path = http::uri::PathAndQuery::from_static(path);
    let codec = ProstCodec::<Q, A>::default();
    let answer = grpc
        .client_streaming(request, path, codec)
        .await
        .map_err(|status| told(channel, status))?;
    Ok(answer.into_inner())
}

async fn ready(channel: &Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel.clone())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::from(channel.unreachable(&with_causes(&*error))))?;
    Ok(grpc)
}

/// A status of the transport says what happened only in its causes. What breaks on the way is worth
/// another try, whatever the library calls it.
fn told(channel: &Channel, status: Status) -> Status {
    match (status.code(), std::error::Error::source(&status)) {
        (Code::Unavailable | Code::Unknown | Code::Cancelled, Some(cause)) => {
            channel.unreachable(&with_causes(cause)).into()
        }
        // What came has no frames of HTTP/2, as from a server with TLS.
        _ if status.message().starts_with("h2 protocol error: http2 error") => {
            channel.unreachable(status.message()).into()
        }
        // What came has no frames of gRPC.
        (Code::Internal, _) if status.message().contains("invalid compression flag") => {
            channel.speaks_otherwise().into()
        }
        _ => status,
    }
}
