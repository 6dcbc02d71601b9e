//! How a server is set up: from options, from a file, or both.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::jobs::bounds::JobBounds;
use crate::schedule::Switches;

/// The port of a server that was not given another.
pub const PORT: u16 = 7400;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Address {
    /// A host's address and port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// An address that is none.
#[derive(Debug, thiserror::Error)]
#[error("{given:?} is no address to listen at: 127.0.0.1:7400 and unix:/run/neargraph.sock are")]
pub struct BadAddress {
    given: String,
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress { given: text.to_owned() };
        match text.strip_prefix("unix:") {
            Some("") => Err(bad()),
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => Ok(Self::Tcp(text.parse().map_err(|_| bad())?)),
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
        }
    }
}

/// How a server is set up.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The folder whose stores and models are served.
    pub folder: PathBuf,
    /// Where it listens.
    pub listen: Vec<Address>,
    /// Where the side port is; the port after that of the first TCP address unless given.
    pub side: Option<SocketAddr>,
    /// Memory of a graph in bytes; a quarter of the machine's unless given.
    pub memory: Option<u64>,
    /// Nothing is changed.
    pub read_only: bool,
    /// Which parts of the scheduler are on.
    pub scheduler: Switches,
    /// Bytes of answers that are kept.
    pub cache: u64,
    /// What jobs may take.
    pub jobs: JobBounds,
    /// The bundle of devices that computes at first.
    pub bundle: String,
    /// The folder that plug-ins are loaded from; none are loaded without one.
    pub plugins: Option<PathBuf>,
    /// The program that tries plug-ins, and its arguments; a number of seconds follows them.
    pub plugin_trial: Vec<String>,
    /// How long a trial may take.
    pub plugin_trial_time: Duration,
    /// Groups that are computed at the same time.
    pub lanes: usize,
    /// Threads of a group.
    pub threads: usize,
    /// How long requests are waited for once it has to end.
    pub drain: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("."),
            listen: vec![Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT))],
            side: None,
            memory: None,
            read_only: false,
            scheduler: Switches::default(),
            cache: 256 << 20,
            jobs: JobBounds::default(),
            bundle: "cpu".to_owned(),
            plugins: None,
            plugin_trial: Vec::new(),
            plugin_trial_time: Duration::from_secs(20),
            lanes: 2,
            threads: 1,
            drain: Duration::from_secs(30),
        }
    }
}
