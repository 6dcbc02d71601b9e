//! [`ServeError`]: why a server does not start.

use std::io;
use std::path::PathBuf;

use crate::catalogue::CatalogueError;
use crate::config::ConfigError;
use crate::guard::tokens::TokenError;
use crate::telemetry::traces::BadCollector;

/// Why a server does not start, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system gives no threads or no sockets.
    #[error("the server cannot start: {source}")]
    System {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot listen at an address.
    #[error("nothing can listen at {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder, or what was registered, cannot be read.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// Settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The token file is wrong.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// Certificates are wrong, or cannot be read.
    #[error("{}: {source}", path.display())]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Traces cannot be told to the collector that is named.
    #[error(transparent)]
    Traces(#[from] BadCollector),
    /// There is no such bundle of devices.
    #[error("{message}: {remedy}")]
    Bundle {
        /// What is wrong.
        message: String,
        /// What to do.
        remedy: String,
    },
    /// The descriptors of this build are broken.
    #[error("the interface of this build is broken: {message}")]
    Interface {
        /// How.
        message: String,
    },
}
