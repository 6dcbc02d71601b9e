//! Accepting connections, and the address of the side port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ng_rpc::listen::{Bound, Bounds, Connection, Door, Open};
use ng_rpc::tls::Tls;
use tokio::sync::mpsc;

use crate::config::{Address, Config};
use crate::state::State;

/// The longest time to wait for the side port at the end of a shutdown.
pub const SIDE_PATIENCE: Duration = Duration::from_secs(2);

/// A [`Door`] with the limits of the server.
pub fn of(state: &State, tls: Option<Arc<Tls>>, open: Arc<Open>) -> Arc<Door> {
    let (guard, metrics) = (Arc::clone(&state.guard), state.metrics.clone());
    Arc::new(Door {
        tls,
        open,
        bounds: Box::new(move || {
            let limits = &guard.rules().limits;
            Bounds {
                connections: limits.connections,
                streams: limits.streams_per_connection,
                header_bytes: limits.header_bytes.try_into().unwrap_or(u32::MAX),
                handshake: limits.handshake,
                silence: limits.silence,
                ping: limits.ping,
                reading: limits.reading,
            }
        }),
        refused: Box::new(move |reason| metrics.shed(reason)),
    })
}

/// The configured address, or 127.0.0.1 and the port after that of the first TCP address.
pub fn side_address(config: &Config, bound: &[Bound]) -> SocketAddr {
    if let Some(given) = config.side {
        return given;
    }
    let first = bound.iter().find_map(Bound::address);
    let is_any = config
        .listen
        .iter()
        .any(|listen| matches!(listen, Address::Tcp(address) if address.port() == 0));
    let mut address = match first {
        Some(address) if address.ip().is_loopback() => address,
        Some(address) => SocketAddr::from(([127, 0, 0, 1], address.port())),
        None => SocketAddr::from(([127, 0, 0, 1], 0)),
    };
    let is_none = address.port() == 0 || is_any;
    address.set_port(if is_none { 0 } else { address.port().wrapping_add(1) });
    address
}

/// The side port's connections, accepted by a door like all others.
pub struct SideListener {
    connections: mpsc::Receiver<io::Result<Connection>>,
    address: SocketAddr,
}

impl SideListener {
    /// Accepts the connections of a socket.
    pub fn new(socket: Bound, door: Arc<Door>, address: SocketAddr) -> Self {
        Self { connections: socket.connections(door), address }
    }
}

impl axum::serve::Listener for SideListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.connections.recv().await {
                Some(Ok(connection)) => return (connection, self.address),
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
