//! The options of the command line, over those of a file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::{Address, Config, ConfigError, LogFormat, units};
use crate::schedule::Switches;

/// Serves predictions, rows and neighbours of graphs on disk over gRPC and HTTP.
#[derive(Clone, Debug, Parser)]
#[command(name = "neargraph-server", version)]
pub struct Options {
    /// Folder whose stores (NAME.ng) are served. Default: `folder` in the settings file, or the
    /// current folder.
    pub folder: Option<PathBuf>,
    /// Settings file (TOML). Options on the command line override it. On SIGHUP, the server reads
    /// the file again.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen at: IP:PORT or unix:PATH. May be repeated. Default: 127.0.0.1:7400. An
    /// address that other machines can reach needs --tls-cert, --tls-key and --token-file.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<Address>,
    /// Socket at which clients on this machine set up connections over shared memory. Default:
    /// none.
    #[arg(long, value_name = "PATH")]
    pub shm: Option<PathBuf>,
    /// Address of metrics, health, REST and the dashboard. Default: 127.0.0.1, with the port after
    /// the port of the first TCP address of --listen.
    #[arg(long, value_name = "IP:PORT")]
    pub side: Option<SocketAddr>,
    /// Folder for backups. Default: .neargraph/backups in the served folder.
    #[arg(long, value_name = "FOLDER")]
    pub backups: Option<PathBuf>,
    /// Folder from which plug-ins may be loaded. Default: no plug-in may be loaded.
    #[arg(long, value_name = "FOLDER")]
    pub plugins: Option<PathBuf>,
    /// Memory budget of each graph, e.g. 4GB. Default: a quarter of the machine's memory.
    #[arg(long, value_parser = units::bytes, value_name = "BYTES")]
    pub memory: Option<u64>,
    /// Memory of the answer cache, e.g. 1GB. Default: 256MiB.
    #[arg(long, value_parser = units::bytes, value_name = "BYTES")]
    pub cache: Option<u64>,
    /// Number of threads that compute one group of requests (see --scheduler). Default: 1.
    #[arg(long)]
    pub threads: Option<usize>,
    /// Number of groups of requests that are computed at the same time. Default: the number of
    /// cores plus 2.
    #[arg(long)]
    pub lanes: Option<usize>,
    /// Letters of the scheduler parts that are on: G groups requests, S orders requests by node id,
    /// C caches answers; N turns all parts off. Default: CG.
    #[arg(long, value_name = "PARTS")]
    pub scheduler: Option<Switches>,
    /// Reject every request that makes changes, such as updates and registrations of models.
    #[arg(long)]
    pub read_only: bool,
    /// PEM file with the certificate chain of the server. Default: no TLS.
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert. The file must have mode 600 or 640.
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// PEM file with CA certificates. Each client then needs a certificate that one of these CAs
    /// signed (mTLS). Default: clients need no certificate.
    #[arg(long, value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
    /// File of access tokens. The file must have mode 600 or 640. Each line is
    /// `RIGHT NAME TOKEN-OR-SHA256 [EXPIRES] [requests=N] [seeds=N]`. Default: clients need no
    /// token.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Maximum time to wait for requests in flight after SIGTERM or Ctrl-C, e.g. 1m. Default: 30s.
    #[arg(long, value_parser = units::time, value_name = "TIME")]
    pub drain: Option<Duration>,
    /// Log level: error, warn, info or debug. Also levels by module, e.g. ng_server=debug,info.
    /// Default: info.
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,
    /// Format of log lines. Default: text on a terminal, JSON elsewhere.
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
}

impl Options {
    /// The settings that these options and their file make.
    ///
    /// # Errors
    /// The file cannot be read or is not understood, or settings contradict each other.
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        let given = self.clone();
        macro_rules! set {
            ($($name:ident),*) => {$(
                if let Some(value) = given.$name { config.$name = value; }
            )*};
        }
        macro_rules! set_some {
            ($($name:ident),*) => {$(
                if given.$name.is_some() { config.$name = given.$name; }
            )*};
        }
        set!(folder, cache, threads, lanes, scheduler, drain, log, log_format);
        set_some!(side, backups, plugins, memory, tls_cert, tls_key, client_ca, token_file);
        if !given.listen.is_empty() {
            config.listen = given.listen;
        }
        config.listen.extend(given.shm.map(Address::Shm));
        config.read_only |= given.read_only;
        config.check()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_over_the_file() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("server.toml");
        let text = "folder = \"/a\"\nlanes = 3\nmemory = \"1GB\"\nlog = \"debug\"\n";
        std::fs::write(&path, text).expect("written");
        let path = path.display().to_string();
        let given = ["x", "--config", &path, "--memory", "2GB", "--listen", "127.0.0.1:0", "/b"];
        let config = Options::try_parse_from(given).expect("options").resolve().expect("config");
        assert_eq!((config.folder.as_path(), config.lanes), (std::path::Path::new("/b"), 3));
        assert_eq!((config.memory, config.log.as_str()), (Some(2_000_000_000), "debug"));
        assert!(Options::try_parse_from(["x", "--memory", "much"]).is_err());
        let open = Options::try_parse_from(["x", "--listen", "0.0.0.0:7400"]).expect("options");
        assert!(open.resolve().is_err());
        let none = Options::try_parse_from(["x", "--config", "/nowhere.toml"]).expect("options");
        assert!(matches!(none.resolve(), Err(ConfigError::File { .. })));
    }
}
