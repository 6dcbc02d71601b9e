//! How a server is set up: from options, from a file, or both.
//!
//! What must not live here: what is done with a setting. The invariant: what a file says and nobody
//! knows is refused, never ignored.

mod address;
mod limits;
mod options;
pub mod units;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

pub use self::address::{Address, BadAddress};
pub use self::limits::Limits;
pub use self::options::Options;
use crate::guard::quota::Quotas;
use crate::jobs::bounds::JobBounds;
use crate::schedule::{Bounds, Switches};
use crate::telemetry::Traces;
use units::{de_bytes, de_some_bytes, de_some_time, de_time};

/// The port of a server that was not given another.
pub const PORT: u16 = 7400;
/// Bytes of a file of settings at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Settings that cannot be read, are not valid, or contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file of settings cannot be read.
    #[error("settings file {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file of settings says what is not understood.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// What, and where.
        message: String,
    },
    /// Settings that do not fit together.
    #[error("{message}")]
    Contradiction {
        /// Which, and what to do.
        message: String,
    },
}

/// A lane waits no longer for more requests.
const WINDOW_MAX: Duration = Duration::from_millis(2);

/// How a server is set up.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The folder whose stores and models are served.
    pub folder: PathBuf,
    /// Where it listens.
    pub listen: Vec<Address>,
    /// Where the side port is; the port after that of the first TCP address unless given, and on
    /// this machine alone.
    pub side: Option<SocketAddr>,
    /// Where backups are made; in the served folder, below `.neargraph`, unless given.
    pub backups: Option<PathBuf>,
    /// Memory of a graph in bytes; a quarter of the machine's unless given.
    #[serde(deserialize_with = "de_some_bytes")]
    pub memory: Option<u64>,
    /// Memory for answers that are kept, in bytes.
    #[serde(deserialize_with = "de_bytes")]
    pub cache: u64,
    /// Nothing is changed.
    pub read_only: bool,
    /// Groups that are computed at the same time; two more than there are cores unless given, as
    /// one or the other waits for the device.
    pub lanes: usize,
    /// Threads of a group.
    pub threads: usize,
    /// Parts of the scheduler that are on.
    pub scheduler: Switches,
    /// Where a group of requests ends.
    pub group: Bounds,
    /// How long a thread looks at shared memory for the next request before it sleeps; as the cores
    /// allow unless given.
    #[serde(deserialize_with = "de_some_time")]
    pub shm_spin: Option<Duration>,
    /// What jobs may take.
    pub jobs: JobBounds,
    /// The bundle of devices that computes at first.
    pub bundle: String,
    /// The folder that plug-ins are loaded from; none are loaded without one.
    pub plugins: Option<PathBuf>,
    /// The program that tries plug-ins, and its arguments; a number of seconds follows them.
    pub plugin_trial: Vec<String>,
    /// How long a trial may take.
    #[serde(deserialize_with = "de_time")]
    pub plugin_trial_time: Duration,
    /// How long requests are waited for once it has to end.
    #[serde(deserialize_with = "de_time")]
    pub drain: Duration,
    /// How long it says that it is about to end before it takes no more connections.
    #[serde(deserialize_with = "de_time")]
    pub drain_delay: Duration,
    /// The certificates with which it proves who it is, in PEM.
    pub tls_cert: Option<PathBuf>,
    /// Their key, in PEM. Others must not be able to read it.
    pub tls_key: Option<PathBuf>,
    /// Who signs the certificates that clients need; they need none unless given.
    pub client_ca: Option<PathBuf>,
    /// The tokens that callers need; they need none unless given.
    pub token_file: Option<PathBuf>,
    /// Quotas of tokens whose lines name none.
    pub quota: Quotas,
    /// Bounds on what comes from outside.
    pub limits: Limits,
    /// What is logged: `info`, `debug`, `ng_server=debug,info`.
    pub log: String,
    /// How lines of the log look.
    pub log_format: LogFormat,
    /// The collector of OpenTelemetry that is told of requests, such as `http://127.0.0.1:4317`;
    /// none is unless given.
    pub traces: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("."),
            listen: vec![Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT))],
            side: None,
            backups: None,
            memory: None,
            cache: 256 << 20,
            read_only: false,
            lanes: std::thread::available_parallelism().map_or(3, |cores| cores.get() + 2),
            threads: 1,
            scheduler: Switches::default(),
            group: Bounds::default(),
            shm_spin: None,
            jobs: JobBounds::default(),
            bundle: "cpu".to_owned(),
            plugins: None,
            plugin_trial: Vec::new(),
            plugin_trial_time: Duration::from_secs(20),
            drain: Duration::from_secs(30),
            drain_delay: Duration::ZERO,
            tls_cert: None,
            tls_key: None,
            client_ca: None,
            token_file: None,
            quota: Quotas::default(),
            limits: Limits::default(),
            log: "info".to_owned(),
            log_format: LogFormat::Auto,
            traces: None,
        }
    }
}

impl Config {
    /// Reads a file of settings.
    ///
    /// # Errors
    /// It cannot be read, or says what is not understood.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::File { path: path.to_owned(), source };
        let bytes = ng_io::small_file(path, FILE_BYTES_MAX).map_err(failed)?;
        let wrong = |message| ConfigError::Syntax { path: path.to_owned(), message };
        let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        toml::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    /// What is wrong with it.
    ///
    /// # Errors
    /// Settings contradict each other, or let others in without TLS and tokens.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |message: String| Err(ConfigError::Contradiction { message });
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            let missing = if self.tls_key.is_none() { "tls_key" } else { "tls_cert" };
            return wrong(format!("TLS needs tls_cert and tls_key: set {missing}, too"));
        }
        if self.client_ca.is_some() && self.tls_cert.is_none() {
            return wrong("client_ca needs TLS: set tls_cert and tls_key, too".into());
        }
        let side = self.side.map(Address::Tcp);
        let is_safe = self.tls_cert.is_some() && self.token_file.is_some();
        if let Some(open) = self.listen.iter().chain(&side).find(|a| a.is_public() && !is_safe) {
            return wrong(format!(
                "other machines can reach {open}, so the server requires TLS and tokens: set \
                 tls_cert, tls_key and token_file, or listen at 127.0.0.1 or a Unix socket"
            ));
        }
        if self.listen.is_empty() {
            return wrong("listen is empty: give at least one address".into());
        }
        if self.lanes == 0 || self.threads == 0 {
            return wrong("lanes and threads must be at least 1".into());
        }
        if self.group.window > WINDOW_MAX || self.group.requests == 0 {
            return wrong(format!(
                "group.window must be at most {} ms, and group.requests at least 1",
                WINDOW_MAX.as_millis()
            ));
        }
        if [self.quota.requests, self.quota.seeds].contains(&Some(0)) {
            return wrong("a quota of 0 rejects every request: use 1 or more, or no quota".into());
        }
        if self.traces.is_some() && !Traces::ARE_BUILT {
            return wrong(
                "this build does not send traces: leave out traces=, or build the server with \
                 the feature \"otel\""
                    .into(),
            );
        }
        self.limits.check().or_else(wrong)
    }

    /// The names of settings that differ and that only a restart can change.
    pub fn fixed_changes(&self, new: &Self) -> Vec<&'static str> {
        let (old_limits, limits) = (&self.limits, &new.limits);
        let all = [
            ("limits.message_bytes", old_limits.message_bytes != limits.message_bytes),
            ("limits.header_bytes", old_limits.header_bytes != limits.header_bytes),
            (
                "limits.streams_per_connection",
                old_limits.streams_per_connection != limits.streams_per_connection,
            ),
            ("limits.ping", old_limits.ping != limits.ping),
            ("limits.ring_connections", old_limits.ring_connections != limits.ring_connections),
            ("folder", self.folder != new.folder),
            ("listen", self.listen != new.listen),
            ("side", self.side != new.side),
            ("backups", self.backups != new.backups),
            ("memory", self.memory != new.memory),
            ("cache", self.cache != new.cache),
            ("read_only", self.read_only != new.read_only),
            ("lanes", self.lanes != new.lanes),
            ("threads", self.threads != new.threads),
            ("scheduler", self.scheduler != new.scheduler),
            ("group", self.group != new.group),
            ("shm_spin", self.shm_spin != new.shm_spin),
            ("jobs", self.jobs != new.jobs),
            ("bundle", self.bundle != new.bundle),
            ("plugins", self.plugins != new.plugins),
            ("plugin_trial", self.plugin_trial != new.plugin_trial),
            ("plugin_trial_time", self.plugin_trial_time != new.plugin_trial_time),
            ("drain", self.drain != new.drain),
            ("drain_delay", self.drain_delay != new.drain_delay),
            ("tls_cert", self.tls_cert.is_some() != new.tls_cert.is_some()),
            ("token_file", self.token_file.is_some() != new.token_file.is_some()),
            ("log_format", self.log_format != new.log_format),
            ("traces", self.traces != new.traces),
        ];
        all.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_everything_and_nothing_unknown() {
        let text = r#"
            folder = "/srv/graphs"
            listen = ["127.0.0.1:7400", "unix:/run/ng.sock"]
            memory = "4GB"
            cache = 1000
            drain = "5s"
            shm_spin = "20us"
            [group]
            requests = 64
            [limits]
            message_bytes = "1MB"
            deadline = "250ms"
            [quota]
            seeds = 5000
        "#;
        let config: Config = toml::from_str(text).expect("config");
        assert_eq!((config.memory, config.cache), (Some(4_000_000_000), 1000));
        assert_eq!(config.limits.deadline, Duration::from_millis(250));
        assert_eq!(config.limits.queue, Limits::default().queue);
        assert_eq!(config.group, Bounds { requests: 64, ..Bounds::default() });
        assert_eq!(config.shm_spin, Some(Duration::from_micros(20)));
        assert!(config.check().is_ok());
        assert!(
            Config { group: Bounds { requests: 0, ..config.group }, ..config }.check().is_err()
        );
        for unknown in ["memroy = 1", "[limits]\nmesage_bytes = 1", "[quota]\nseed = 1"] {
            let error = toml::from_str::<Config>(unknown).expect_err(unknown).to_string();
            assert!(error.contains("unknown field"), "{error}");
        }
    }

    #[test]
    fn other_machines_need_tls_and_tokens() {
        let at = |text: &str| Config {
            listen: vec![text.parse().expect("address")],
            ..Config::default()
        };
        let (cert, key) = (Some(PathBuf::from("cert")), Some(PathBuf::from("key")));
        assert!(at("127.0.0.1:1").check().is_ok() && at("[::1]:1").check().is_ok());
        assert!(at("unix:/tmp/x").check().is_ok());
        for open in ["0.0.0.0:1", "[::]:1", "10.1.2.3:1"] {
            let error = at(open).check().expect_err(open).to_string();
            assert!(error.contains("requires TLS and tokens"), "{error}");
            let tls = Config { tls_cert: cert.clone(), tls_key: key.clone(), ..at(open) };
            assert!(tls.check().is_err());
            let tokens = Config { token_file: cert.clone(), ..at(open) };
            assert!(tokens.check().is_err());
            assert!(Config { token_file: cert.clone(), ..tls }.check().is_ok());
        }
        let side = Some(SocketAddr::from(([0, 0, 0, 0], 1)));
        assert!(Config { side, ..Config::default() }.check().is_err());
        assert!(Config { tls_cert: cert, ..Config::default() }.check().is_err());
    }
}
