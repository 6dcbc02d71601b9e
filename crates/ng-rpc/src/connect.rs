//! Channels to a server at `HOST:PORT`, `unix:PATH` or `shm:PATH`.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tokio::net::UnixStream;
use tonic::Code;
use tonic::body::Body;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Uri};
use tower::{BoxError, Service, service_fn};

use crate::local::LocalStream;
use crate::ring::{RingChannel, RingOptions};
use crate::status::Problem;

/// The largest message that a client accepts. A server has its own limit for what it sends.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// What is in flight of one answer before the reader takes it: large tensors come in one go.
pub(crate) const WINDOW_BYTES: u32 = 4 << 20;
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A silent connection is asked this often whether it still lives, while calls wait on it.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The prefix of a Unix socket's path.
pub const UNIX: &str = "unix:";
/// The prefix of the path at which a server sets up rings in shared memory.
pub const SHM: &str = "shm:";

/// Why a channel to a server cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum BadAddress {
    /// The address is not valid.
    #[error(
        "{address:?} is not the address of a server: expected HOST:PORT, unix:PATH or shm:PATH"
    )]
    Address {
        /// The given address.
        address: String,
    },
    /// The certificates cannot be used.
    #[error("cannot make a TLS connection to {address:?}: {message}")]
    Tls {
        /// The address of the server.
        address: String,
        /// What is wrong.
        message: String,
    },
}

/// The certificates of a client, as PEM.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The certificates of the CAs that sign the server's certificate.
    pub ca: Vec<u8>,
    /// The certificate of the client and its key, if the server requires them.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the server's certificate, if it differs from that of the address.
    pub server_name: Option<String>,
}

/// A channel to a server, over the transport of its address. It connects when it is first used, and
/// reconnects after the connection is lost.
#[derive(Clone)]
pub struct Channel {
    way: Way,
    /// The address, for errors; unknown if the channel was made elsewhere.
    address: Option<Arc<str>>,
    is_encrypted: bool,
}

#[derive(Clone)]
enum Way {
    Http(tonic::transport::Channel),
    Ring(RingChannel),
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = match &self.way {
            Way::Http(_) => "HTTP/2",
            Way::Ring(_) => "rings in shared memory",
        };
        write!(f, "Channel over {way}")
    }
}

impl Channel {
    /// Why the server cannot be reached, with what a client can do about it.
    pub(crate) fn unreachable(&self, why: &str) -> Problem {
        // The causes say more than the RPC library.
        let why = why.trim_start_matches("transport error: ");
        let message = match &self.address {
            Some(address) => format!("cannot reach the server at {address}: {why}"),
            None => format!("cannot reach the server: {why}"),
        };
        let is_local = |address: &str| address.starts_with(UNIX) || address.starts_with(SHM);
        let is_tcp = self.address.as_deref().is_some_and(|address| !is_local(address));
        let (reason, remedy) = match self.is_encrypted {
            // A server with TLS accepts the connection and then ends it.
            false if is_tcp && !why.contains("connect error") => (
                "CONNECTION_BROKEN",
                "if the server uses TLS, give its CA certificates; else check that it still runs",
            ),
            true if why.contains("invalid peer certificate") => (
                "CERTIFICATE_REFUSED",
                "check the CA certificates, and the names in the certificate of the server",
            ),
            true if why.contains("corrupt message") => {
                ("TLS_MISSING", "leave out the CA certificates: the server has no TLS")
            }
            _ => (
                "SERVER_UNREACHABLE",
                "start it with `neargraph serve`, or give another address with address=",
            ),
        };
        Problem::new(Code::Unavailable, reason, message).remedy(remedy)
    }

    /// An answer that is not one of gRPC.
    pub(crate) fn speaks_otherwise(&self) -> Problem {
        let what = self.address.as_deref().unwrap_or("the server");
        let message = format!("{what} answers, but not in gRPC");
        Problem::new(Code::Unimplemented, "NOT_GRPC", message)
            .remedy("give the gRPC address of the server with address=, not that of its side port")
    }
}

impl From<tonic::transport::Channel> for Channel {
    fn from(channel: tonic::transport::Channel) -> Self {
        Self { way: Way::Http(channel), address: None, is_encrypted: false }
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.way {
            Way::Http(channel) => channel.poll_ready(cx).map_err(Into::into),
            Way::Ring(channel) => channel.poll_ready(cx),
        }
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match &mut self.way {
            Way::Http(channel) => {
                let answer = channel.call(request);
                Box::pin(async move { Ok(answer.await?) })
            }
            Way::Ring(channel) => channel.call(request),
        }
    }
}

/// Creates a channel to the server at an address.
///
/// # Errors
/// Every variant of [`BadAddress`].
pub fn channel(address: &str) -> Result<Channel, BadAddress> {
    channel_with(address, None, RingOptions::default())
}

/// Like [`channel`], with certificates for a server at `HOST:PORT`, and settings for rings in
/// shared memory.
///
/// # Errors
/// Every variant of [`BadAddress`].
pub fn channel_with(
    address: &str,
    tls: Option<&Tls>,
    rings: RingOptions,
) -> Result<Channel, BadAddress> {
    let way = match address.strip_prefix(SHM) {
        Some("") => return Err(BadAddress::Address { address: address.to_owned() }),
        Some(path) => Way::Ring(RingChannel::new(Path::new(path), rings)),
        None => Way::Http(over_http(address, tls)?),
    };
    Ok(Channel { way, address: Some(address.into()), is_encrypted: tls.is_some() })
}

fn over_http(address: &str, tls: Option<&Tls>) -> Result<tonic::transport::Channel, BadAddress> {
    let bad = || BadAddress::Address { address: address.to_owned() };
    let endpoint = |uri: String| {
        let endpoint = Endpoint::from_shared(uri).map_err(|_| bad())?;
        Ok(endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
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
                async move {
                    let stream = LocalStream::new(UnixStream::connect(path).await?)?;
                    Ok::<_, std::io::Error>(Io::new(stream))
                }
            })))
        }
        None if address.contains("://") || !address.contains(':') => Err(bad()),
        None => match tls {
            None => Ok(endpoint(format!("http://{address}"))?.connect_lazy()),
            Some(tls) => {
                let secure = endpoint(format!("https://{address}"))?.tls_config(config(tls));
                let said = |error: tonic::transport::Error| BadAddress::Tls {
                    address: address.to_owned(),
                    message: with_causes(&error),
                };
                Ok(secure.map_err(said)?.connect_lazy())
            }
        },
    }
}

fn config(tls: &Tls) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    match &tls.server_name {
        Some(name) => config.domain_name(name),
        None => config,
    }
}

/// A message with those of its causes: the RPC library's own say little.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = inner.source();
    }
    text
}

type Io<T> = hyper_util::rt::TokioIo<T>;
