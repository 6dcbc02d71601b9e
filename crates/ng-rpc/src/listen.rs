//! Where a server listens.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use ng_io::{SocketFile, listen_at};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::service::Routes;
use tonic::transport::Server;
use tower::BoxError;

use crate::ring::{Ring, RingLimits};

/// What is in flight of one request before it is read.
const WINDOW_BYTES: u32 = 1 << 20;
/// Requests of one connection at a time.
const STREAMS_MAX: u32 = 1024;

fn builder() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
}

/// A socket that is bound, and not served yet.
pub enum Bound {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket, which is removed at the end.
    Unix(UnixListener, SocketFile),
    /// Rings in shared memory.
    Ring(Ring),
}

impl Bound {
    /// Binds TCP.
    ///
    /// # Errors
    /// The address is taken, or is not of this machine.
    pub async fn tcp(address: SocketAddr) -> io::Result<Self> {
        Ok(Self::Tcp(TcpListener::bind(address).await?))
    }

    /// Binds a Unix socket that this user alone may connect to. What a dead server left there is
    /// replaced.
    ///
    /// # Errors
    /// A server lives there, something else is there, or its folder cannot be written.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let (listener, file) = listen_at(path).map_err(io::Error::other)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(UnixListener::from_std(listener)?, file))
    }

    /// Gives out rings in shared memory at a path.
    ///
    /// # Errors
    /// As [`Bound::unix`].
    pub fn ring(path: &Path, limits: RingLimits) -> io::Result<Self> {
        Ok(Self::Ring(Ring::bind(path, limits).map_err(io::Error::other)?))
    }

    /// The address of a TCP socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) | Self::Ring(_) => None,
        }
    }

    /// Serves until `end` is over and requests under way have been answered.
    ///
    /// # Errors
    /// The socket failed.
    pub async fn serve(
        self,
        routes: Routes,
        end: impl Future<Output = ()>,
    ) -> Result<(), BoxError> {
        match self {
            Self::Tcp(listener) => {
                let incoming = TcpListenerStream::new(listener);
                let router = builder().add_routes(routes);
                Ok(router.serve_with_incoming_shutdown(incoming, end).await?)
            }
            Self::Unix(listener, _removed) => {
                let incoming = UnixListenerStream::new(listener);
                let router = builder().add_routes(routes);
                Ok(router.serve_with_incoming_shutdown(incoming, end).await?)
            }
            Self::Ring(ring) => Ok(ring.serve(routes, end).await?),
        }
    }
}
