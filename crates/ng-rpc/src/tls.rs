//! Certificates of a server, which can be put in place of others while it serves.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Certificates that are wrong.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {message}")]
pub struct BadCertificate {
    /// Which of the files.
    pub what: &'static str,
    /// What is wrong.
    pub message: String,
}

/// What proves who a server is, and who its clients have to be. All of it is PEM.
#[derive(Clone, Copy, Debug)]
pub struct Pem<'a> {
    /// The certificate, and those between it and the root.
    pub certificate: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
    /// Who signs the certificates of clients; they need none unless given.
    pub client_ca: Option<&'a [u8]>,
}

/// Certificates of a server. Connections that are there keep those with which they were made.
#[derive(Debug)]
pub struct Tls(RwLock<Arc<ServerConfig>>);

impl Tls {
    /// Serves with certificates.
    ///
    /// # Errors
    /// They are not what they should be, or do not fit the key.
    pub fn new(pem: Pem<'_>) -> Result<Self, BadCertificate> {
        Ok(Self(RwLock::new(Arc::new(config_of(pem)?))))
    }

    /// Serves new connections with other certificates.
    ///
    /// # Errors
    /// As [`Tls::new`]; those of before stay in place then.
    pub fn replace(&self, pem: Pem<'_>) -> Result<(), BadCertificate> {
        let config = Arc::new(config_of(pem)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// What the next handshake is made with.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn config_of(pem: Pem<'_>) -> Result<ServerConfig, BadCertificate> {
    let bad =
        |what, error: &dyn std::fmt::Display| BadCertificate { what, message: error.to_string() };
    let certificates = certificates(pem.certificate, "certificate of the server")?;
    let key = PrivateKeyDer::from_pem_slice(pem.key).map_err(|e| bad("key of the server", &e))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| bad("TLS", &e))?;
    let builder = match pem.client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let what = "certificates of those who sign those of clients";
            let mut roots = RootCertStore::empty();
            for root in self::certificates(pem, what)? {
                roots.add(root).map_err(|e| bad(what, &e))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|e| bad(what, &e))?)
        }
    };
    let made = builder.with_single_cert(certificates, key);
    let mut config = made.map_err(|e| bad("certificate and key of the server", &e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(
    pem: &[u8],
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, BadCertificate> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(BadCertificate { what, message: "there is none in the file".to_owned() })
        }
        Ok(found) => Ok(found),
        Err(error) => Err(BadCertificate { what, message: error.to_string() }),
    }
}

impl From<BadCertificate> for io::Error {
    fn from(error: BadCertificate) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}
