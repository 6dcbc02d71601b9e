//! How a client reaches a server: `HOST:PORT`, `unix:PATH`, or `shm:PATH`.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tokio::net::UnixStream;
use tonic::body::Body;
use tonic::transport::{Endpoint, Uri};
use tower::{BoxError, Service, service_fn};

use crate::ring::{RingChannel, RingOptions};

/// Bytes of a message that a client takes; a server limits what it sends by itself.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// What is in flight of one answer before the reader takes it: large tensors come in one go.
const WINDOW_BYTES: u32 = 4 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What precedes the path of a Unix socket.
pub const UNIX: &str = "unix:";
/// What precedes the path where a server gives out rings in shared memory.
pub const SHM: &str = "shm:";

/// An address that is none.
#[derive(Debug, thiserror::Error)]
#[error("{address:?} is no address of a server: HOST:PORT, unix:PATH or shm:PATH is")]
pub struct BadAddress {
    /// What was given.
    pub address: String,
}

/// A channel to a server, over whichever transport its address names. It connects when it is first
/// used and again when it is lost.
#[derive(Clone)]
pub struct Channel(Way);

#[derive(Clone)]
enum Way {
    Http(tonic::transport::Channel),
    Ring(RingChannel),
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.0 {
            Way::Http(channel) => channel.poll_ready(cx).map_err(Into::into),
            Way::Ring(channel) => channel.poll_ready(cx),
        }
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match &mut self.0 {
            Way::Http(channel) => {
                let answer = channel.call(request);
                Box::pin(async move { Ok(answer.await?) })
            }
            Way::Ring(channel) => channel.call(request),
        }
    }
}

/// A channel to the server at an address.
///
/// # Errors
/// [`BadAddress`].
pub fn channel(address: &str) -> Result<Channel, BadAddress> {
    channel_with(address, RingOptions::default())
}

/// The same; `rings` says how rings in shared memory are used, if the address names some.
///
/// # Errors
/// [`BadAddress`].
pub fn channel_with(address: &str, rings: RingOptions) -> Result<Channel, BadAddress> {
    match address.strip_prefix(SHM) {
        Some("") => Err(BadAddress { address: address.to_owned() }),
        Some(path) => Ok(Channel(Way::Ring(RingChannel::new(Path::new(path), rings)))),
        None => Ok(Channel(Way::Http(over_http(address)?))),
    }
}

fn over_http(address: &str) -> Result<tonic::transport::Channel, BadAddress> {
    let bad = || BadAddress { address: address.to_owned() };
    let endpoint = |uri: String| {
        let endpoint = Endpoint::from_shared(uri).map_err(|_| bad())?;
        Ok(endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES))
    };
    match address.strip_prefix(UNIX) {
        Some("") => Err(bad()),
        Some(path) => {
            // The name of a host is wanted; the path is none.
            let (path, endpoint) = (path.to_owned(), endpoint("http://localhost".to_owned())?);
            Ok(endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
                let path = path.clone();
                async move { Ok::<_, std::io::Error>(Io::new(UnixStream::connect(path).await?)) }
            })))
        }
        None if address.contains("://") || !address.contains(':') => Err(bad()),
        None => Ok(endpoint(format!("http://{address}"))?.connect_lazy()),
    }
}

type Io<T> = hyper_util::rt::TokioIo<T>;
