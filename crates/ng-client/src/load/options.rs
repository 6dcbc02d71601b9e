//! The options of a load.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use ng_io::SourceFile;
use ng_rpc::connect::Tls;

use crate::settings::Settings;

/// Maximum number of bytes of a certificate, a key or a token.
const SECRET_BYTES_MAX: u64 = 1 << 20;

/// The distribution of random nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Draw {
    /// All nodes equally often.
    Uniform,
    /// Nodes with probabilities proportional to 1 / rank. Ranks are scattered over the ids.
    Zipf,
}

/// Sends requests to a server on a fixed schedule and reports rates and latencies.
///
/// 1. A closed loop warms the server up until its rate is steady.
/// 2. A closed loop measures the saturated rate.
/// 3. Open loops at decreasing shares of that rate run until p99 is within the limit.
///
/// Latencies of open loops are measured from the planned arrival, so stalls of the server count (no
/// coordinated omission). Failed and shed requests count as missed; the output counts them by error
/// code. The last line of the output is JSON.
#[derive(Clone, Debug, Parser)]
#[command(name = "neargraph-bench-server", version)]
pub struct Options {
    /// File of requests. Each line is `arrival_us,count,id,...`. A line that starts with `#`
    /// contains a description as JSON. Default: random requests.
    pub stream: Option<PathBuf>,
    /// Address of the server: HOST:PORT or unix:PATH.
    #[arg(long, default_value = "127.0.0.1:7400", conflicts_with = "to")]
    pub address: String,
    /// Name of the model, or NAME@VERSION.
    #[arg(long, default_value = "", conflicts_with = "to")]
    pub model: String,
    /// Name of the graph. Default: the only one.
    #[arg(long, default_value = "")]
    pub graph: String,
    /// Address and model in one: neargraph:ADDRESS:MODEL. For the PyG server in the repository's
    /// benchmarks: peer:HOST:FIRST_PORT-LAST_PORT.
    #[arg(long)]
    pub to: Option<String>,
    /// Token that the server requires. Default: the variable NEARGRAPH_TOKEN, which `ps` does not
    /// show.
    #[arg(long)]
    pub token: Option<String>,
    /// File that contains only the token.
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// Certificates of the CAs that signed the server's certificate (PEM). Default: no TLS.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate of the client (PEM), if the server requires one.
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    pub cert: Option<PathBuf>,
    /// Private key of --cert (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Name in the server's certificate, if it differs from the address.
    #[arg(long, value_name = "NAME", requires = "ca")]
    pub server_name: Option<String>,
    /// Distribution of the nodes of random requests.
    #[arg(long, value_enum, default_value = "uniform")]
    pub draw: Draw,
    /// Draw random nodes from ids 0 to N - 1 of the model's node type. Default: all nodes. Required
    /// if the graph has several node types.
    #[arg(long, value_name = "N")]
    pub ids: Option<u64>,
    /// Nodes per random request.
    #[arg(long, default_value_t = 1)]
    pub nodes: usize,
    /// Connections to each address.
    #[arg(long, default_value_t = 2)]
    pub connections: usize,
    /// Requests in flight in closed loops.
    #[arg(long, default_value_t = 16)]
    pub in_flight: usize,
    /// Length in seconds of the intervals whose rates the warm-up compares.
    #[arg(long, default_value_t = 3.0)]
    pub window: f64,
    /// Maximum length of the warm-up in seconds; 0 = no warm-up.
    #[arg(long, default_value_t = 120.0)]
    pub warm_seconds: f64,
    /// Length of each measured loop in seconds.
    #[arg(long, default_value_t = 20.0)]
    pub seconds: f64,
    /// Number of requests of the measured closed loop, instead of --seconds.
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "as_recorded"])]
    pub requests: Option<usize>,
    /// Limit of p99 in milliseconds.
    #[arg(long, alias = "p99-ms", default_value_t = 50.0)]
    pub limit_ms: f64,
    /// Shares of the saturated rate for the open loops.
    #[arg(long, num_args = 0.., default_values_t = [1.0, 0.9, 0.8, 0.7, 0.55, 0.4, 0.25])]
    pub shares: Vec<f64>,
    /// Run only one open loop, at this many requests/s.
    #[arg(long, conflicts_with_all = ["shares", "find_rate"])]
    pub rate: Option<f64>,
    /// Run only one open loop, with the arrival times of STREAM.
    #[arg(long, requires = "stream", conflicts_with_all = ["shares", "find_rate", "rate"])]
    pub as_recorded: bool,
    /// Search for the highest rate within the limit instead of trying shares, and print it.
    #[arg(long)]
    pub find_rate: bool,
    /// Retry shed requests for this many seconds. Each retry waits for the delay that the server
    /// returned, plus a random time. Latency still counts from the planned arrival. Default: no
    /// retry.
    #[arg(long, default_value_t = 0.0, hide_default_value = true)]
    pub retry: f64,
    /// Milliseconds after which a request counts as missed.
    #[arg(long, default_value_t = 10_000)]
    pub timeout_ms: u64,
    /// Also count the reads of the disk that holds this file or folder.
    #[arg(long)]
    pub disk: Option<PathBuf>,
    /// Random seed of arrival times and nodes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Options {
    /// Returns the settings of the connections to an address.
    pub(crate) fn settings(&self, address: String) -> Result<Settings, String> {
        let read = |path: &Path| {
            SourceFile::open(path)
                .and_then(|file| file.read_whole(SECRET_BYTES_MAX))
                .map_err(|error| error.to_string())
        };
        let token = match &self.token_file {
            None => self.token.clone().or_else(|| std::env::var("NEARGRAPH_TOKEN").ok()),
            Some(path) => {
                let text = String::from_utf8(read(path)?)
                    .map_err(|_| format!("{}: the token is not valid UTF-8", path.display()))?;
                Some(text.trim().to_owned())
            }
        };
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            _ => None,
        };
        let tls = match &self.ca {
            None => None,
            Some(ca) => {
                Some(Tls { ca: read(ca)?, identity, server_name: self.server_name.clone() })
            }
        };
        let timeout = Some(Duration::from_millis(self.timeout_ms));
        Ok(Settings { address, token, timeout, retry: Duration::from_secs_f64(self.retry), tls })
    }

    /// Bounds of what loops can do.
    pub(crate) fn check(&self) -> Result<(), String> {
        let positive = [("seconds", self.seconds), ("window", self.window)];
        for (name, value) in positive {
            if !(value > 0.0 && value <= 86_400.0) {
                return Err(format!("{name} is {value}; use more than 0, and at most 86,400"));
            }
        }
        if !(0.0..=86_400.0).contains(&self.retry) {
            return Err(format!("retry is {}; use 0 to 86,400 seconds", self.retry));
        }
        if let Some(rate) = self.rate.filter(|rate| !(*rate > 0.0 && *rate <= 1e6)) {
            return Err(format!(
                "rate is {rate}; use more than 0, and at most 1,000,000 requests/s"
            ));
        }
        let counts = [
            ("nodes", self.nodes),
            ("connections", self.connections),
            ("in_flight", self.in_flight),
        ];
        for (name, count) in counts {
            if !(1..=65_536).contains(&count) {
                return Err(format!("{name} is {count}; use 1 to 65,536"));
            }
        }
        if self.ids == Some(0) || self.requests == Some(0) {
            return Err("ids and requests must be at least 1".to_owned());
        }
        Ok(())
    }
}
