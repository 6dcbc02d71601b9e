//! How a client reaches a server: `HOST:PORT`, or `unix:PATH`.

use std::time::Duration;

use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// Bytes of a message that a client takes; a server limits what it sends by itself.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// What is in flight of one answer before the reader takes it: large tensors come in one go.
const WINDOW_BYTES: u32 = 4 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What precedes the path of a Unix socket.
pub const UNIX: &str = "unix:";

/// An address that is none.
#[derive(Debug, thiserror::Error)]
#[error("{address:?} is no address of a server: HOST:PORT or unix:PATH is")]
pub struct BadAddress {
    /// What was given.
    pub address: String,
}

/// A channel to a server, which connects when it is first used and again when it is lost.
///
/// # Errors
/// [`BadAddress`].
pub fn channel(address: &str) -> Result<Channel, BadAddress> {
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
