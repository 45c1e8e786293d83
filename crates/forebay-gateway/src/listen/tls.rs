//! Loads certificates and keys, and swaps them while connections go on.
//!
//! The cryptography is aws-lc's, and is named wherever rustls wants to know: a process-wide default
//! would be set by whoever comes first.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};

/// The name of HTTP/2 in a TLS handshake.
pub(super) const HTTP2: &[u8] = b"h2";

/// Files of a TLS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The certificate and those between it and its authority, in PEM.
    pub(crate) certificates: PathBuf,
    /// The key of the first certificate, in PEM.
    pub(crate) key: PathBuf,
    /// Whose certificates clients have to show.
    pub(crate) clients: Option<TlsClients>,
}

/// What is asked of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsClients {
    /// The authorities of client certificates, in PEM.
    pub(crate) authorities: PathBuf,
    /// Whether clients without a certificate are refused.
    pub(crate) required: bool,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read.
    #[error("{}: cannot be read: {cause}\nhint: {READABLE}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What went wrong. It is in the message, so it is no `source` of it.
        cause: io::Error,
    },
    /// A file that is not what it should be.
    #[error("{}: {what}\nhint: {hint}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What to do.
        hint: &'static str,
    },
}

const READABLE: &str = "the user that the gateway runs as has to be able to read it";

/// A TLS server whose certificate can be renewed.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    current: Arc<Current>,
    /// When the files were last changed, as far as that is known.
    changed: RwLock<[Option<SystemTime>; 2]>,
    /// For [`super::Listening::tls`].
    pub(crate) config: Arc<rustls::ServerConfig>,
}

impl Tls {
    /// Loads the files.
    pub(crate) fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let changed = changed(&files);
        let current = Arc::new(Current(RwLock::new(certified(&files, &provider)?)));
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("aws-lc has ciphers for every version that rustls knows");
        let builder = match &files.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(verifier(clients, provider)?),
        };
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Current>::clone(&current);
        let mut config = builder.with_cert_resolver(resolver);
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        Ok(Self { files, current, changed: RwLock::new(changed), config: Arc::new(config) })
    }

    /// Loads certificate and key again, for handshakes from now on. On an error the old ones stay.
    /// Authorities of clients stay as they are until the gateway starts anew.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let changed = changed(&self.files);
        let renewed = certified(&self.files, self.config.crypto_provider())?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        *self.changed.write().unwrap_or_else(PoisonError::into_inner) = changed;
        Ok(())
    }

    /// Whether a file was written since it was loaded.
    pub(crate) fn is_stale(&self) -> bool {
        *self.changed.read().unwrap_or_else(PoisonError::into_inner) != changed(&self.files)
    }
}

fn changed(files: &TlsFiles) -> [Option<SystemTime>; 2] {
    [&files.certificates, &files.key]
        .map(|path| path.metadata().and_then(|meta| meta.modified()).ok())
}

/// The certificate in force.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn certified(files: &TlsFiles, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = certificates(&files.certificates)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|error| {
        unusable(&files.key, error_of(&error, "key"), "give a file with BEGIN PRIVATE KEY")
    })?;
    let certified = CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        let hint = "give the key that the first certificate was made for";
        unusable(
            &files.key,
            format!("does not fit {}: {error}", files.certificates.display()),
            hint,
        )
    })?;
    Ok(Arc::new(certified))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let hint = "give a file with BEGIN CERTIFICATE, the server's own first";
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let chain = chain.map_err(|error| unusable(path, error_of(&error, "certificate"), hint))?;
    if chain.is_empty() {
        return Err(unusable(path, error_of(&pem::Error::NoItemsFound, "certificate"), hint));
    }
    Ok(chain)
}

fn verifier(
    clients: &TlsClients,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let path = &clients.authorities;
    let hint = "give the certificates that client certificates are signed with";
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots.add(authority).map_err(|error| unusable(path, error.to_string(), hint))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if clients.required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| unusable(path, error.to_string(), hint))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|cause| TlsError::Unreadable { path: path.to_owned(), cause })
}

fn error_of(error: &pem::Error, wanted: &str) -> String {
    match error {
        pem::Error::NoItemsFound => format!("holds no {wanted}"),
        other => format!("holds no {wanted} that can be read: {other}"),
    }
}

fn unusable(path: &Path, what: String, hint: &'static str) -> TlsError {
    TlsError::Unusable { path: path.to_owned(), what, hint }
}

/// The SHA-256 of a certificate: what `openssl x509 -fingerprint -sha256` shows. Whoever holds the
/// certificate's key is its only owner, while names in it are up to its authority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint(pub(crate) [u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
