//! Listening, and accepting connections.
//!
//! What must not live here: the meaning of requests, and the rights of callers. The invariant: a
//! connection that is idle or does not read its answers is closed; the number of connections is
//! bounded.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ng_io::{SocketError, SocketFile, listen_at};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tower::BoxError;

use crate::ring::{Ring, RingLimits};

pub use crate::connection::{Answering, Connection, Peer};
use crate::connection::{Io, Patience};
use crate::local::LocalStream;
pub use crate::open::Open;
use crate::open::Slot;
use crate::tls::Tls;

/// What is in flight of one request before it is read.
const WINDOW_BYTES: u32 = 1 << 20;
/// Connections that have been accepted and wait to be served.
const WAITING: usize = 64;
/// Requests that a connection may take back before they are looked at, as a multiple of those that
/// it may have under way: a client whose deadlines are over takes back all of them, and the next.
const TAKEN_BACK: usize = 4;
/// How long nothing is accepted after the system had no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most connections of all sockets that share a [`Door`]. One origin may have half of them.
    pub connections: usize,
    /// The most requests of a connection at a time.
    pub streams: u32,
    /// The most bytes of all headers of a request.
    pub header_bytes: u32,
    /// The longest time for the TLS handshake and the first bytes.
    pub handshake: Duration,
    /// The time without a byte after which a connection is closed.
    pub silence: Duration,
    /// The interval of pings.
    pub ping: Duration,
    /// The longest time in which a client must read an answer.
    pub reading: Duration,
}

/// The checks for new connections. They can be changed at any time.
pub struct Door {
    /// The certificates; connections are not encrypted without them.
    pub tls: Option<Arc<Tls>>,
    /// The limits of new connections.
    pub bounds: Box<dyn Fn() -> Bounds + Send + Sync>,
    /// Called for each rejected connection, with the reason.
    pub refused: Box<dyn Fn(&'static str) + Send + Sync>,
    /// The open connections.
    pub open: Arc<Open>,
}

/// A socket that is bound but not served yet.
pub enum Bound {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket, whose file is removed at the end.
    Unix(UnixListener, SocketFile),
    /// Rings in shared memory.
    Ring(Ring),
}

impl Bound {
    /// Binds a TCP socket.
    ///
    /// # Errors
    /// The address is in use, or is not an address of this machine.
    pub async fn tcp(address: SocketAddr) -> io::Result<Self> {
        Ok(Self::Tcp(TcpListener::bind(address).await?))
    }

    /// Binds a Unix socket to which only this user can connect. A socket that a dead server left is
    /// replaced.
    ///
    /// # Errors
    /// A server listens there, another kind of file exists, or the folder is not writable.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let named = |error: SocketError| match error {
            SocketError::Io { source, .. } => source,
            other @ (SocketError::BadPath { .. }
            | SocketError::InUse { .. }
            | SocketError::Foreign { .. }) => io::Error::new(io::ErrorKind::AddrInUse, other),
        };
        let (listener, file) = listen_at(path).map_err(named)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(UnixListener::from_std(listener)?, file))
    }

    /// Sets up rings in shared memory for clients that connect at a path.
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

    /// Serves until `end` resolves and requests in flight have been answered.
    ///
    /// # Errors
    /// The socket failed.
    pub async fn serve(
        self,
        routes: Routes,
        door: Arc<Door>,
        end: impl Future<Output = ()>,
    ) -> Result<(), BoxError> {
        let bounds = (door.bounds)();
        if let Self::Ring(ring) = self {
            return Ok(ring.serve(routes, end).await?);
        }
        let router = Server::builder()
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_concurrent_streams(bounds.streams)
            .http2_max_pending_accept_reset_streams(Some(TAKEN_BACK * bounds.streams as usize))
            .http2_max_header_list_size(bounds.header_bytes)
            .http2_keepalive_interval(Some(bounds.ping))
            .http2_keepalive_timeout(Some(bounds.ping))
            .add_routes(routes);
        let incoming = ReceiverStream::new(self.connections(door));
        Ok(router.serve_with_incoming_shutdown(incoming, end).await?)
    }

    /// Accepts connections until the receiver is dropped.
    pub fn connections(self, door: Arc<Door>) -> mpsc::Receiver<io::Result<Connection>> {
        let (give, taken) = mpsc::channel(WAITING);
        tokio::spawn(accept(self, door, give));
        taken
    }

    async fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(listener) => Socket::Tcp(listener.accept().await?.0),
            Self::Unix(listener, _) => Socket::Unix(listener.accept().await?.0),
            Self::Ring(_) => return std::future::pending().await,
        })
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// The address that it comes from, if it does not come from this machine's files.
    fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|peer| peer.ip()),
            Self::Unix(_) => None,
        }
    }
}

type Give = mpsc::Sender<io::Result<Connection>>;

async fn accept(bound: Bound, door: Arc<Door>, give: Give) {
    loop {
        let socket = tokio::select! {
            biased;
            () = give.closed() => return,
            socket = bound.accept() => socket,
        };
        let Ok(socket) = socket else {
            (door.refused)("accept");
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let bounds = (door.bounds)();
        let Some(slot) = Slot::take(&door.open, bounds.connections, socket.address()) else {
            (door.refused)("connections");
            continue;
        };
        tokio::spawn(greet(socket, slot, bounds, Arc::clone(&door), give.clone()));
    }
}

/// Makes a connection of a socket, off the way of those that come after it.
async fn greet(socket: Socket, slot: Slot, bounds: Bounds, door: Arc<Door>, give: Give) {
    let Bounds { handshake, silence, reading, .. } = bounds;
    let io = match (socket, &door.tls) {
        (Socket::Unix(stream), _) => match LocalStream::new(stream) {
            Ok(stream) => Io::Unix(stream),
            Err(_) => return (door.refused)("accept"),
        },
        (Socket::Tcp(stream), tls) => {
            let _slower = stream.set_nodelay(true);
            match tls {
                None => Io::Tcp(stream),
                Some(tls) => {
                    let accepting = TlsAcceptor::from(tls.config()).accept(stream);
                    match tokio::time::timeout(handshake, accepting).await {
                        Ok(Ok(stream)) => Io::Tls(Box::new(stream)),
                        Ok(Err(_)) | Err(_) => return (door.refused)("tls"),
                    }
                }
            }
        }
    };
    let patience = Patience { first: handshake, silence, reading };
    let _ended = give.send(Ok(Connection::new(io, slot, patience))).await;
}
