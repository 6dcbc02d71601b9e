//! The settings of a client.

use std::fmt;
use std::io;
use std::time::Duration;

use ng_rpc::connect::{BadAddress, Tls};

/// Why a client cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address or its certificates are not valid.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// The token has characters that are not valid in a header.
    #[error("the token is not valid: use visible ASCII characters only")]
    Token,
    /// The operating system provides no thread.
    #[error("the client cannot start: {0}")]
    System(#[from] io::Error),
}

/// The server's address, the client's credentials, and timeouts.
#[derive(Clone, Default)]
pub struct Settings {
    /// `HOST:PORT`, `unix:PATH` or `shm:PATH`.
    pub address: String,
    /// The token, if the server requires one.
    pub token: Option<String>,
    /// The longest time of a call, with all retries. A stream waits this long for each message.
    pub timeout: Option<Duration>,
    /// How long a repeatable call is retried while the server cannot be reached or sheds load.
    pub retry: Duration,
    /// Certificates. Without them, the connection is not encrypted.
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
