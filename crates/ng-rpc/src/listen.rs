//! Where a server listens.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::service::Routes;
use tonic::transport::Server;

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
    /// A Unix socket.
    Unix(UnixListener),
}

impl Bound {
    /// Binds TCP.
    ///
    /// # Errors
    /// The address is taken, or is not of this machine.
    pub async fn tcp(address: SocketAddr) -> io::Result<Self> {
        Ok(Self::Tcp(TcpListener::bind(address).await?))
    }

    /// Binds a Unix socket.
    ///
    /// # Errors
    /// The path is taken, or its folder cannot be written.
    pub fn unix(path: &Path) -> io::Result<Self> {
        Ok(Self::Unix(UnixListener::bind(path)?))
    }

    /// The address of a TCP socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
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
    ) -> Result<(), tonic::transport::Error> {
        let router = builder().add_routes(routes);
        match self {
            Self::Tcp(listener) => {
                let incoming = TcpListenerStream::new(listener);
                router.serve_with_incoming_shutdown(incoming, end).await
            }
            Self::Unix(listener) => {
                let incoming = UnixListenerStream::new(listener);
                router.serve_with_incoming_shutdown(incoming, end).await
            }
        }
    }
}
