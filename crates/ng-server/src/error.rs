//! [`ServeError`]: the errors of starting a server.

use std::io;
use std::path::PathBuf;

use crate::catalogue::CatalogueError;
use crate::config::ConfigError;
use crate::guard::tokens::TokenError;
use crate::telemetry::traces::BadCollector;

/// An error that keeps a server from starting or running.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The operating system provides no threads or no sockets.
    #[error("the server cannot start: {source}")]
    System {
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The server cannot listen at an address.
    #[error("cannot listen at {address}: {source}; free the address, or choose another")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The folder or the catalogue cannot be read.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// Settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The token file cannot be read or is not valid.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// A file of certificates or of the key cannot be read or is not valid.
    #[error("{what} {}: {source}", path.display())]
    Certificate {
        /// The kind of file.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// What is wrong, and what to do.
        #[source]
        source: io::Error,
    },
    /// The collector of traces is not valid.
    #[error(transparent)]
    Traces(#[from] BadCollector),
    /// The bundle of devices is unknown.
    #[error("{message}: {remedy}")]
    Bundle {
        /// What is wrong.
        message: String,
        /// What to do.
        remedy: String,
    },
    /// The descriptors of this build are broken.
    #[error("the interface descriptors of this build are damaged: {message}")]
    Interface {
        /// The cause.
        message: String,
    },
}
