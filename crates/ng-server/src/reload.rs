//! What changes without a restart: tokens, quotas, certificates, limits.
//!
//! The invariant: what is wrong changes nothing, and requests under way keep what they began with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ng_rpc::tls::{Pem, Tls};
use tokio::time::sleep;

use crate::config::Config;
use crate::error::ServeError;
use crate::guard::Rules;
use crate::guard::tokens::Tokens;
use crate::state::State;
use crate::telemetry::Metrics;

/// Bytes of a file of certificates at most.
const PEM_BYTES_MAX: u64 = 1 << 20;
/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Changes a server that runs.
pub struct Reloader {
    state: Arc<State>,
    tls: Option<Arc<Tls>>,
    current: Mutex<Config>,
}

impl Reloader {
    /// Of a server with the settings with which it started.
    pub fn new(state: Arc<State>, tls: Option<Arc<Tls>>) -> Self {
        let current = Mutex::new(state.config.clone());
        Self { state, tls, current }
    }

    /// Puts other settings in place where that needs no restart. Returns the names of those that
    /// differ and need one.
    ///
    /// # Errors
    /// Tokens or certificates are wrong; nothing is changed then.
    pub fn reload(&self, mut config: Config) -> Result<Vec<&'static str>, ServeError> {
        config.check()?;
        let start = &self.state.config;
        let fixed = start.fixed_changes(&config);
        // Who needs a token, and whether there is TLS, is fixed when the server starts.
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
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(fixed)
    }

    fn current(&self) -> Config {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counts a reload.
pub fn count(metrics: &Metrics, is_done: bool) {
    let outcome = if is_done { "done" } else { "refused" };
    metrics.counter("neargraph_reloads_total", &[("outcome", outcome)]).increment(1);
}

/// Reads certificates and tokens again when their files change.
pub async fn watch_files(reloader: Weak<Reloader>) {
    let mut seen = None;
    loop {
        let Some(reloader) = reloader.upgrade() else { return };
        let config = reloader.current();
        let files = [&config.tls_cert, &config.tls_key, &config.client_ca, &config.token_file];
        let stamps = files.map(|path| path.as_deref().and_then(ng_io::stamp_of));
        let now = (files.map(Clone::clone), stamps);
        let has_changed = seen.as_ref().is_some_and(|before| *before != now);
        if has_changed {
            let reloaded = reloader.reload(config);
            count(&reloader.state.metrics, reloaded.is_ok());
            match reloaded {
                Ok(_) => tracing::info!("certificates and tokens were read again"),
                Err(error) => tracing::error!(%error, "certificates and tokens stay as they were"),
            }
        }
        seen = Some(now);
        drop(reloader);
        sleep(LOOK).await;
    }
}

/// The rules that settings make.
///
/// # Errors
/// The token file is wrong.
pub fn rules_of(config: &Config) -> Result<Rules, ServeError> {
    let tokens = config.token_file.as_deref().map(|path| Tokens::read(path, config.quota));
    Ok(Rules { tokens: tokens.transpose()?, limits: config.limits.clone() })
}

/// The certificates that settings name, if they do.
///
/// # Errors
/// They cannot be read, or are wrong.
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
    let failed = |path: &Path, source| ServeError::Certificate { path: path.to_owned(), source };
    let none = PathBuf::new();
    let (certificate, key) =
        (config.tls_cert.as_ref().unwrap_or(&none), config.tls_key.as_ref().unwrap_or(&none));
    let public =
        |path: &Path| ng_io::small_file(path, PEM_BYTES_MAX).map_err(|source| failed(path, source));
    let pem = public(certificate)?;
    let secret = ng_io::private_file(key, PEM_BYTES_MAX).map_err(|source| failed(key, source))?;
    let client_ca = config.client_ca.as_deref().map(public).transpose()?;
    let pem = Pem { certificate: &pem, key: &secret, client_ca: client_ca.as_deref() };
    make(pem).map_err(|error| failed(certificate, error.into()))
}
