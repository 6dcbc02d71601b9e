//! Where a server listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Address {
    /// A host's address and port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// Rings in shared memory, which clients of this machine ask for at a path.
    Shm(PathBuf),
}

/// Not an address to listen at.
#[derive(Debug, thiserror::Error)]
#[error(
    "{given:?} is not an address to listen at: expected for example 127.0.0.1:7400 (an IP \
         address, not a name), unix:/run/neargraph.sock or shm:/run/neargraph.shm"
)]
pub struct BadAddress {
    given: String,
}

impl Address {
    /// Whether other machines can reach it.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress { given: text.to_owned() };
        match text.split_once(':') {
            Some(("unix" | "shm", "")) => Err(bad()),
            Some(("unix", path)) => Ok(Self::Unix(PathBuf::from(path))),
            Some(("shm", path)) => Ok(Self::Shm(PathBuf::from(path))),
            _ => Ok(Self::Tcp(text.parse().map_err(|_| bad())?)),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = BadAddress;

    fn try_from(text: String) -> Result<Self, BadAddress> {
        text.parse()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Shm(path) => write!(f, "shm:{}", path.display()),
        }
    }
}
