//! Changes without a restart: tokens, quotas, certificates, limits.
//!
//! The invariant: an error changes nothing, and requests in flight keep the rules that they started
//! with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ng_rpc::tls::{Pem, PemFile, Tls};
use tokio::time::sleep;

use crate::config::Config;
use crate::error::ServeError;
use crate::guard::Rules;
use crate::guard::tokens::Tokens;
use crate::state::State;
use crate::telemetry::Metrics;

/// The largest size of a PEM file in bytes.
const PEM_BYTES_MAX: u64 = 1 << 20;
/// How often files are checked for changes.
const LOOK: Duration = Duration::from_secs(1);

/// Changes the settings of a running server.
pub struct Reloader {
    state: Arc<State>,
    tls: Option<Arc<Tls>>,
    /// The settings in force. The lock is held during a change, so that changes do not overlap.
    current: Mutex<Config>,
}

impl Reloader {
    /// A reloader for a server that has just started.
    pub fn new(state: Arc<State>, tls: Option<Arc<Tls>>) -> Self {
        let current = Mutex::new(state.config.clone());
        Self { state, tls, current }
    }

    fn current(&self) -> MutexGuard<'_, Config> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the settings that need no restart. Returns the names of changed settings that need
    /// one.
    ///
    /// # Errors
    /// Tokens or certificates are not valid. Nothing is changed then.
    pub fn reload(&self, config: Config) -> Result<Vec<&'static str>, ServeError> {
        let mut current = self.current();
        let reloaded = self.put(config, &mut current);
        count(&self.state.metrics, reloaded.is_ok());
        reloaded
    }

    /// Reads the files of the settings in force again.
    fn read_files(&self) -> Result<(), ServeError> {
        let mut current = self.current();
        let reloaded = self.put(current.clone(), &mut current);
        count(&self.state.metrics, reloaded.is_ok());
        reloaded.map(drop)
    }

    fn put(
        &self,
        mut config: Config,
        current: &mut Config,
    ) -> Result<Vec<&'static str>, ServeError> {
        config.check()?;
        let start = &self.state.config;
        let fixed = start.fixed_changes(&config);
        // Whether tokens and TLS are required is fixed at the start.
        if start.token_file.is_none() || config.token_file.is_none() {
            config.token_file.clone_from(&start.token_file);
        }
        if start.tls_cert.is_none() || config.tls_cert.is_none() {
            config.tls_cert.clone_from(&start.tls_cert);
            config.tls_key.clone_from(&start.tls_key);
            config.client_ca.clone_from(&start.client_ca);
        }
        let rules = rules_of(&config)?;
        if let Some(tls) = &self.tls {
            with_pem(&config, |pem| tls.replace(pem))?;
        }
        self.state.guard.replace(rules);
        *current = config;
        Ok(fixed)
    }
}

/// Counts a reload.
fn count(metrics: &Metrics, is_done: bool) {
    let outcome = if is_done { "done" } else { "refused" };
    metrics.counter("neargraph_reloads_total", &[("outcome", outcome)]).increment(1);
}

/// The watched files, with stamps of their content.
type Files = [(Option<PathBuf>, Option<ng_io::Stamp>); 4];

fn files_of(config: &Config) -> Files {
    [&config.tls_cert, &config.tls_key, &config.client_ca, &config.token_file]
        .map(|path| (path.clone(), path.as_deref().and_then(ng_io::stamp_of)))
}

/// Reads certificates and tokens again when their files have changed. A file is read only after its
/// stamp was the same twice, so not while it is written. After an error, the old ones stay in force
/// until the file changes again.
pub async fn watch_files(reloader: Weak<Reloader>) {
    let Some(first) = reloader.upgrade().map(|found| files_of(&found.current())) else { return };
    let (mut read, mut before) = (first.clone(), first);
    loop {
        sleep(LOOK).await;
        let Some(reloader) = reloader.upgrade() else { return };
        let now = files_of(&reloader.current());
        if now == before && now != read {
            match reloader.read_files() {
                Ok(()) => tracing::info!("reloaded certificates and tokens"),
                Err(error) => {
                    tracing::warn!(%error, "reload failed; certificates and tokens are unchanged");
                }
            }
            read = now.clone();
        }
        before = now;
    }
}

/// The rules of the settings, with the token file read.
///
/// # Errors
/// The token file cannot be read or is not valid.
pub fn rules_of(config: &Config) -> Result<Rules, ServeError> {
    let tokens = config.token_file.as_deref().map(|path| Tokens::read(path, config.quota));
    Ok(Rules { tokens: tokens.transpose()?, limits: config.limits.clone() })
}

/// The certificates of the settings, or `None` without TLS.
///
/// # Errors
/// A file cannot be read or is not valid.
pub fn tls_of(config: &Config) -> Result<Option<Arc<Tls>>, ServeError> {
    if config.tls_cert.is_none() {
        return Ok(None);
    }
    with_pem(config, Tls::new).map(|tls| Some(Arc::new(tls)))
}

fn with_pem<T>(
    config: &Config,
    make: impl FnOnce(Pem<'_>) -> Result<T, ng_rpc::tls::BadCertificate>,
) -> Result<T, ServeError> {
    let none = PathBuf::new();
    let failed = |file: PemFile, source| {
        let (what, path) = match file {
            PemFile::Certificate => ("TLS certificate", &config.tls_cert),
            PemFile::Key => ("TLS private key", &config.tls_key),
            PemFile::ClientCa => ("CA certificates of clients", &config.client_ca),
        };
        ServeError::Certificate { what, path: path.clone().unwrap_or_default(), source }
    };
    let (certificate, key) =
        (config.tls_cert.as_ref().unwrap_or(&none), config.tls_key.as_ref().unwrap_or(&none));
    let public = |file: PemFile, path: &Path| {
        ng_io::small_file(path, PEM_BYTES_MAX).map_err(|source| failed(file, source))
    };
    let pem = public(PemFile::Certificate, certificate)?;
    let secret =
        ng_io::private_file(key, PEM_BYTES_MAX).map_err(|source| failed(PemFile::Key, source))?;
    let client_ca = config.client_ca.as_deref();
    let client_ca = client_ca.map(|path| public(PemFile::ClientCa, path)).transpose()?;
    let pem = Pem { certificate: &pem, key: &secret, client_ca: client_ca.as_deref() };
    make(pem).map_err(|error| failed(error.file, error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Address, Limits};
    use crate::serve::serve;

    #[test]
    fn files_that_are_read_again_do_not_undo_settings_that_come_at_the_same_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let listen = vec!["127.0.0.1:0".parse::<Address>().expect("an address")];
        let config = Config { folder: folder.path().to_owned(), listen, ..Config::default() };
        let serving = serve(config.clone()).expect("served");
        let reloader = serving.reloader();
        for ids in 1..500 {
            let limits = Limits { ids, ..Limits::default() };
            let config = Config { limits, ..config.clone() };
            std::thread::scope(|scope| {
                scope.spawn(|| reloader.read_files().expect("read"));
                scope.spawn(|| reloader.reload(config).expect("put in place"));
            });
            assert_eq!(serving.state().guard.rules().limits.ids, ids);
        }
        serving.end();
    }
}
