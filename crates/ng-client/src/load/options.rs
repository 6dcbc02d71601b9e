//! The options of a load.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use ng_io::SourceFile;
use ng_rpc::connect::Tls;

use crate::settings::Settings;

/// Bytes of a certificate, a key or a token at most.
const SECRET_BYTES_MAX: u64 = 1 << 20;

/// Which nodes are asked for where no file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Draw {
    /// All nodes equally often.
    Uniform,
    /// Nodes with probabilities 1 / rank; which node has which rank looks random.
    Zipf,
}

/// Asks a server at times that are fixed beforehand, and tells rates and latencies.
///
/// First a closed loop until its rate is steady, then a closed loop that is counted (saturation),
/// then open loops at falling shares of that rate until the 99th percentile is within the limit.
/// In an open loop a latency counts from the arrival that was planned, so a server that stalls is
/// not asked less. Errors and shed requests are missed, by code. The last line is JSON.
#[derive(Clone, Debug, Parser)]
#[command(name = "neargraph-bench-server", version)]
pub struct Options {
    /// File of requests: lines `arrival_us,count,id,...` after a line `#JSON`. Default: drawn ones.
    pub stream: Option<PathBuf>,
    /// Address of the server: HOST:PORT or unix:PATH.
    #[arg(long, default_value = "127.0.0.1:7400", conflicts_with = "to")]
    pub address: String,
    /// Model that answers.
    #[arg(long, default_value = "", conflicts_with = "to")]
    pub model: String,
    /// Graph. Default: the only one.
    #[arg(long, default_value = "")]
    pub graph: String,
    /// Both in one: neargraph:ADDRESS:MODEL, or peer:HOST:PORT-PORT for the peer of the benchmarks.
    #[arg(long)]
    pub to: Option<String>,
    /// Token that the server asks for. Default: what NEARGRAPH_TOKEN holds, which no list of
    /// processes shows.
    #[arg(long)]
    pub token: Option<String>,
    /// File that holds the token alone.
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// Certificates of those who sign the certificate of the server (PEM). Default: the connection
    /// is not encrypted.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate of the client (PEM), where the server wants one.
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    pub cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Name in the certificate of the server, where it is not that of the address.
    #[arg(long, value_name = "NAME", requires = "ca")]
    pub server_name: Option<String>,
    /// How nodes are drawn without a file.
    #[arg(long, value_enum, default_value = "uniform")]
    pub draw: Draw,
    /// Nodes to draw from: ids 0 to N - 1 of the type that the model answers for. Default: all
    /// nodes of the graph, which must have one type of nodes; give N where it has several.
    #[arg(long, value_name = "N")]
    pub ids: Option<u64>,
    /// Nodes of a request that is drawn.
    #[arg(long, default_value_t = 1)]
    pub nodes: usize,
    /// Connections to each address.
    #[arg(long, default_value_t = 2)]
    pub connections: usize,
    /// Requests under way in closed loops.
    #[arg(long, default_value_t = 16)]
    pub in_flight: usize,
    /// Seconds of a window while warming.
    #[arg(long, default_value_t = 3.0)]
    pub window: f64,
    /// Seconds of warming at most; 0 does not warm.
    #[arg(long, default_value_t = 120.0)]
    pub warm_seconds: f64,
    /// Seconds of each loop that is counted.
    #[arg(long, default_value_t = 20.0)]
    pub seconds: f64,
    /// Requests of the closed loop that is counted, however long they take, in place of seconds.
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "as_recorded"])]
    pub requests: Option<usize>,
    /// Limit of the 99th percentile in ms.
    #[arg(long, alias = "p99-ms", default_value_t = 50.0)]
    pub limit_ms: f64,
    /// Shares of the saturated rate that open loops try.
    #[arg(long, num_args = 0.., default_values_t = [1.0, 0.9, 0.8, 0.7, 0.55, 0.4, 0.25])]
    pub shares: Vec<f64>,
    /// One open loop at this many requests/s, and no closed one.
    #[arg(long, conflicts_with_all = ["shares", "find_rate"])]
    pub rate: Option<f64>,
    /// One open loop at the arrivals of the file, and no closed one.
    #[arg(long, requires = "stream", conflicts_with_all = ["shares", "find_rate", "rate"])]
    pub as_recorded: bool,
    /// Search for the highest rate within the limit in place of trying shares.
    #[arg(long)]
    pub find_rate: bool,
    /// Seconds for which a shed request is tried again, not before the server says, and at a random
    /// time after that. Its latency counts from its arrival. Default: it is missed at once.
    #[arg(long, default_value_t = 0.0, hide_default_value = true)]
    pub retry: f64,
    /// Milliseconds after which a request is missed.
    #[arg(long, default_value_t = 10_000)]
    pub timeout_ms: u64,
    /// File on the disk whose reads are counted meanwhile.
    #[arg(long)]
    pub disk: Option<PathBuf>,
    /// Seed of arrivals and of drawn nodes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Options {
    /// How each connection to an address is made.
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
                return Err(format!("{name} is {value}; use more than 0, and at most a day"));
            }
        }
        if !(0.0..=86_400.0).contains(&self.retry) {
            return Err(format!("retry is {}; use 0 to 86,400 seconds", self.retry));
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e6)) {
            return Err(
                "a rate is out of range: use more than 0, and at most 1,000,000/s".to_owned()
            );
        }
        let counts =
            [self.nodes, self.connections, self.in_flight].iter().all(|n| (1..=65_536).contains(n));
        if !counts || self.ids == Some(0) || self.requests == Some(0) {
            return Err("nodes, connections and requests in flight must be 1 to 65,536".to_owned());
        }
        Ok(())
    }
}
