//! The certificates of a server, which can be replaced while it serves.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};

/// The PEM files of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PemFile {
    /// The certificate chain of the server.
    Certificate,
    /// The private key of the server.
    Key,
    /// The certificates of the CAs that sign those of clients.
    ClientCa,
}

/// The content of a PEM file is not valid.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct BadCertificate {
    /// The file.
    pub file: PemFile,
    /// What is wrong, and what to do.
    pub message: String,
}

/// The certificates and the key of a server, as PEM.
#[derive(Clone, Copy, Debug)]
pub struct Pem<'a> {
    /// The certificate of the server, followed by the intermediate ones.
    pub certificate: &'a [u8],
    /// The private key of the server.
    pub key: &'a [u8],
    /// The certificates of the CAs that sign those of clients. `None`: clients need no certificate.
    pub client_ca: Option<&'a [u8]>,
}

/// The certificates of a server. Open connections keep the certificates of their handshake.
#[derive(Debug)]
pub struct Tls(RwLock<Arc<ServerConfig>>);

impl Tls {
    /// Parses and checks certificates.
    ///
    /// # Errors
    /// A file is not valid PEM, or the key does not match the certificate.
    pub fn new(pem: Pem<'_>) -> Result<Self, BadCertificate> {
        Ok(Self(RwLock::new(Arc::new(config_of(pem)?))))
    }

    /// Replaces the certificates for new connections.
    ///
    /// # Errors
    /// As [`Tls::new`]. The old certificates stay in use then.
    pub fn replace(&self, pem: Pem<'_>) -> Result<(), BadCertificate> {
        let config = Arc::new(config_of(pem)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// The configuration for the next handshake.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn config_of(pem: Pem<'_>) -> Result<ServerConfig, BadCertificate> {
    let bad = |file, message: String| BadCertificate { file, message };
    let certificates = certificates(pem.certificate, PemFile::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(pem.key).map_err(|error| {
        let what = "the file has no readable private key";
        bad(PemFile::Key, format!("{what} ({error}); give an unencrypted key in PEM format"))
    })?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(PemFile::Certificate, error.to_string()))?;
    let builder = match pem.client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let unusable = |error: &dyn std::fmt::Display| {
                let message = format!("a certificate is not usable as a CA of clients: {error}");
                bad(PemFile::ClientCa, message)
            };
            let mut roots = RootCertStore::empty();
            for root in self::certificates(pem, PemFile::ClientCa)? {
                roots.add(root).map_err(|error| unusable(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|e| unusable(&e))?)
        }
    };
    let made = builder.with_single_cert(certificates, key);
    let mut config = made.map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            let what = "the private key does not match the certificate";
            bad(PemFile::Key, format!("{what}; give the key of the first certificate in the chain"))
        }
        other => bad(PemFile::Certificate, format!("the certificate is not usable: {other}")),
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(pem: &[u8], file: PemFile) -> Result<Vec<CertificateDer<'static>>, BadCertificate> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let cause = match found {
        Ok(found) if !found.is_empty() => return Ok(found),
        Ok(_) => String::new(),
        Err(error) => format!(" ({error})"),
    };
    let message = format!("the file has no readable certificate{cause}; give it in PEM format");
    Err(BadCertificate { file, message })
}

impl From<BadCertificate> for io::Error {
    fn from(error: BadCertificate) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}
