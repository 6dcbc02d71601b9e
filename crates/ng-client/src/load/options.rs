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
    /// Nodes with probabilities proportional to 1 / rank. The ranks are spread over the node ids.
    Zipf,
}

/// Sends requests to a server and reports its request rate and latencies.
///
/// 1. A closed loop warms the server up until its request rate is steady.
/// 2. A closed loop measures the saturated rate.
/// 3. Open loops run at decreasing shares of the saturated rate until p99 is within --limit-ms.
///
/// In open loops, the latency of a request counts from its planned arrival. Latencies therefore
/// include stalls of the server (no coordinated omission). Requests that fail or that the server
/// sheds count as missed. The output counts missed requests by error code. The last line of the
/// output is JSON.
#[derive(Clone, Debug, Parser)]
#[command(name = "neargraph-bench-server", version)]
pub struct Options {
    /// File of requests. Each line is `arrival_us,count,id,...`. A line that starts with `#`
    /// describes the file as JSON. Default: random requests.
    pub stream: Option<PathBuf>,
    /// Address of the server: HOST:PORT or unix:PATH.
    #[arg(long, default_value = "127.0.0.1:7400", conflicts_with = "to")]
    pub address: String,
    /// Name of the model, or NAME@VERSION.
    #[arg(long, default_value = "", conflicts_with = "to")]
    pub model: String,
    /// Name of the graph. Default: the only graph of the server.
    #[arg(long, default_value = "")]
    pub graph: String,
    /// Address and model in one value: neargraph:ADDRESS:MODEL. For the PyG server in the
    /// repository's benchmarks: peer:HOST:FIRST_PORT-LAST_PORT.
    #[arg(long)]
    pub to: Option<String>,
    /// Access token for the server. Default: the environment variable NEARGRAPH_TOKEN, which `ps`
    /// does not show.
    #[arg(long)]
    pub token: Option<String>,
    /// File that contains only the access token.
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// PEM file with the certificate of the CA that signed the server's certificate. Default: no
    /// TLS.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// PEM file with the client certificate, for servers that require one. Needs --ca and --key.
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    pub cert: Option<PathBuf>,
    /// PEM file with the private key of --cert.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Name in the server's certificate, if it differs from --address. Needs --ca.
    #[arg(long, value_name = "NAME", requires = "ca")]
    pub server_name: Option<String>,
    /// Distribution of the nodes of random requests.
    #[arg(long, value_enum, default_value = "uniform")]
    pub draw: Draw,
    /// Draw random nodes from ids 0 to N - 1 of the model's node type. Default: all nodes. Required
    /// if the graph has several node types.
    #[arg(long, value_name = "N")]
    pub ids: Option<u64>,
    /// Number of nodes per random request.
    #[arg(long, default_value_t = 1)]
    pub nodes: usize,
    /// Number of connections to each server address.
    #[arg(long, default_value_t = 2)]
    pub connections: usize,
    /// Number of requests in flight in closed loops.
    #[arg(long, default_value_t = 16)]
    pub in_flight: usize,
    /// Length of a warm-up interval in seconds. The warm-up ends when the rates of three intervals
    /// in a row differ by at most 5 %.
    #[arg(long, default_value_t = 3.0)]
    pub window: f64,
    /// Maximum length of the warm-up in seconds; 0 = no warm-up.
    #[arg(long, default_value_t = 120.0)]
    pub warm_seconds: f64,
    /// Seconds for which each loop (closed, then open) is measured.
    #[arg(long, default_value_t = 20.0)]
    pub seconds: f64,
    /// End the measured closed loop after N requests, instead of after --seconds.
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "as_recorded"])]
    pub requests: Option<usize>,
    /// Limit of the p99 latency in milliseconds.
    #[arg(long, alias = "p99-ms", default_value_t = 50.0)]
    pub limit_ms: f64,
    /// Rates of the open loops, as shares of the saturated rate.
    #[arg(long, num_args = 0.., default_values_t = [1.0, 0.9, 0.8, 0.7, 0.55, 0.4, 0.25])]
    pub shares: Vec<f64>,
    /// After the warm-up, run only one open loop, with RATE requests per second.
    #[arg(long, conflicts_with_all = ["shares", "find_rate"])]
    pub rate: Option<f64>,
    /// After the warm-up, run only one open loop, with the arrival times of STREAM.
    #[arg(long, requires = "stream", conflicts_with_all = ["shares", "find_rate", "rate"])]
    pub as_recorded: bool,
    /// Search for the highest rate whose p99 latency is within --limit-ms, instead of trying
    /// --shares. Print this rate.
    #[arg(long)]
    pub find_rate: bool,
    /// Retry requests that the server sheds, for up to this many seconds. Each retry waits for the
    /// delay that the server returned, plus a random time. The latency still counts from the
    /// planned arrival. Default: no retry.
    #[arg(long, default_value_t = 0.0, hide_default_value = true)]
    pub retry: f64,
    /// Milliseconds after which a request without an answer counts as missed.
    #[arg(long, default_value_t = 10_000)]
    pub timeout_ms: u64,
    /// File or folder on a disk whose reads are also counted. Default: count no disk reads.
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
                return Err(format!(
                    "--{name} is {value} seconds; use more than 0 and at most 86,400 seconds"
                ));
            }
        }
        if !(0.0..=86_400.0).contains(&self.retry) {
            return Err(format!("--retry is {} seconds; use 0 to 86,400 seconds", self.retry));
        }
        if let Some(rate) = self.rate.filter(|rate| !(*rate > 0.0 && *rate <= 1e6)) {
            return Err(format!(
                "--rate is {rate}; use more than 0 and at most 1,000,000 requests/s"
            ));
        }
        let counts = [
            ("nodes", self.nodes),
            ("connections", self.connections),
            ("in-flight", self.in_flight),
        ];
        for (name, count) in counts {
            if !(1..=65_536).contains(&count) {
                return Err(format!("--{name} is {count}; use 1 to 65,536"));
            }
        }
        if self.ids == Some(0) || self.requests == Some(0) {
            return Err("--ids and --requests must be at least 1".to_owned());
        }
        Ok(())
    }
}
