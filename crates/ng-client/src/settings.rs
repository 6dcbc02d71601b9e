//! What a client is made with.

use std::fmt;
use std::io;
use std::time::Duration;

use ng_rpc::connect::{BadAddress, Tls};

/// Why a client is not made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address, or the certificates that go with it.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// The token holds what no header may hold.
    #[error("the token is not visible ASCII text")]
    Token,
    /// The system gives no thread.
    #[error("the client cannot start: {0}")]
    System(#[from] io::Error),
}

/// Where a server is, who the client is, and how long it waits.
#[derive(Clone, Default)]
pub struct Settings {
    /// `HOST:PORT`, or `unix:PATH`.
    pub address: String,
    /// Says who the client is.
    pub token: Option<String>,
    /// How long a call waits, all tries together. A stream waits this long for each message.
    pub timeout: Option<Duration>,
    /// How long a call that can be repeated without harm is tried again while the server cannot be
    /// reached or sheds load.
    pub retry: Duration,
    /// Certificates; without them the connection is not encrypted.
    pub tls: Option<Tls>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the token nor keys come into logs.
        f.debug_struct("Settings")
            .field("address", &self.address)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("timeout", &self.timeout)
            .field("retry", &self.retry)
            .field("tls", &self.tls.is_some())
            .finish()
    }
}
