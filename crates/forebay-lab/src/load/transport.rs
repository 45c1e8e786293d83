//! Says how targets are reached: in which version of HTTP, and whose certificates are believed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// How targets are reached.
#[derive(Clone, Debug, Default)]
pub struct Transport {
    /// The version of HTTP.
    pub http: Http,
    /// What holds for targets with TLS; `None` where there are none.
    pub tls: Option<Tls>,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1: one request at a time on a connection.
    #[default]
    One,
    /// HTTP/2: many at a time. It is spoken at once where there is no TLS, and agreed on where
    /// there is.
    Two,
}

/// How TLS is spoken.
#[derive(Clone)]
pub struct Tls(pub(super) Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Why TLS can't be spoken as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}\nhint: name a readable PEM file with the certificates of the authorities")]
pub struct TlsError {
    file: String,
    what: String,
}

impl Tls {
    /// Believes the authorities in this file, or the system's where none is named.
    pub fn trusting(file: Option<&Path>, http: Http) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        if let Some(file) = file {
            let unusable = |what: String| TlsError { file: file.display().to_string(), what };
            let found: Result<Vec<CertificateDer<'static>>, _> =
                CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
            for certificate in found.map_err(|error| unusable(error.to_string()))? {
                roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unusable("it holds no certificate".to_owned()));
            }
        } else {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        let config = builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Self::speaking(config, http))
    }

    /// Believes every certificate. What is sent can be read by whoever is in between.
    pub fn trusting_anyone(http: Http) -> Self {
        let provider = aws_lc_rs::default_provider();
        let anyone = Arc::new(Anyone(provider));
        let config = builder().dangerous().with_custom_certificate_verifier(anyone);
        Self::speaking(config.with_no_client_auth(), http)
    }

    fn speaking(mut config: ClientConfig, http: Http) -> Self {
        let protocol: &[u8] = match http {
            Http::One => b"http/1.1",
            Http::Two => b"h2",
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        Self(Arc::new(config))
    }
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("aws-lc has ciphers for every version that rustls knows")
}

/// Whose certificates are believed: everybody's.
#[derive(Debug)]
struct Anyone(CryptoProvider);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::{Http, Tls};

    #[test]
    fn a_file_without_certificates_is_refused_with_its_name() {
        let file = std::env::temp_dir().join(format!("forebay-no-ca-{}.pem", std::process::id()));
        std::fs::write(&file, "nothing").unwrap();
        let error = Tls::trusting(Some(&file), Http::One).unwrap_err().to_string();
        assert!(error.contains("forebay-no-ca") && error.contains("hint: "), "{error}");
        std::fs::remove_file(&file).unwrap();
        assert!(Tls::trusting(Some(&file), Http::One).is_err());
    }
}
