//! TLS: certificates of both sides, and their renewal.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::super::Listening;
use super::super::tls::{Fingerprint, Tls, TlsClients, TlsFiles};
use super::{FOREVER, Gate, LAST, listening, open, rest, until};

/// A folder of its own for each test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An authority, and whom it signs for.
struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), pem)
    }

    /// A certificate and its key, in PEM.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn files(&self, folder: &Folder, clients: Option<bool>) -> TlsFiles {
        let (certificate, key) = self.sign("localhost");
        let authorities = folder.write("ca.pem", &self.1);
        TlsFiles {
            certificates: folder.write("cert.pem", &certificate),
            key: folder.write("key.pem", &key),
            clients: clients.map(|required| TlsClients { authorities, required }),
        }
    }

    fn client(&self, shows: Option<&(String, String)>, alpn: &[&[u8]]) -> TlsConnector {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.1.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shows {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|it| it.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

/// The server's certificate, the protocol, and what it answered.
type Heard = (CertificateDer<'static>, Option<Vec<u8>>, String);

#[tokio::main(flavor = "current_thread")]
async fn ask(gate: &Gate, connector: &TlsConnector) -> std::io::Result<Heard> {
    let socket = TcpStream::connect(gate.addr).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let asked = async {
        let mut socket = connector.connect(name, socket).await?;
        let multiplexed = socket.get_ref().1.alpn_protocol().filter(|it| *it == b"h2");
        let multiplexed = multiplexed.map(<[u8]>::to_vec);
        socket.write_all(LAST.as_bytes()).await?;
        let mut heard = Vec::new();
        // Over HTTP/2 this was no request, and the connection ends without a goodbye.
        let read = socket.read_to_end(&mut heard).await;
        if multiplexed.is_none() {
            read?;
        }
        let heard = String::from_utf8_lossy(&heard).into_owned();
        let session = socket.get_ref().1;
        let certificate = session.peer_certificates().unwrap()[0].clone();
        Ok((certificate, session.alpn_protocol().map(<[u8]>::to_vec), heard))
    };
    timeout(FOREVER, asked).await.unwrap()
}

fn open_tls(files: TlsFiles) -> (Gate, Tls) {
    let tls = Tls::load(files).unwrap();
    (open(Listening { tls: Some(Arc::clone(&tls.config)), ..listening() }), tls)
}

#[test]
fn both_protocols_are_offered() {
    let (folder, authority) = (Folder::new("both"), Authority::new());
    let (gate, _tls) = open_tls(authority.files(&folder, None));
    for (asked, agreed) in [
        (&[b"h2".as_slice(), b"http/1.1"][..], Some(b"h2".to_vec())),
        (&[b"http/1.1"], Some(b"http/1.1".to_vec())),
        (&[], None),
    ] {
        let (_, protocol, heard) = ask(&gate, &authority.client(None, asked)).unwrap();
        assert_eq!(protocol, agreed);
        assert_eq!(heard.contains("[GET /last ]"), agreed != Some(b"h2".to_vec()), "{heard}");
    }
    gate.close();
}

#[test]
fn a_renewed_certificate_is_shown_from_the_next_handshake_on() {
    let (folder, authority) = (Folder::new("renewed"), Authority::new());
    let files = authority.files(&folder, None);
    let (gate, tls) = open_tls(files.clone());
    let (first, ..) = ask(&gate, &authority.client(None, &[])).unwrap();
    assert!(!tls.is_stale());
    let (certificate, key) = authority.sign("localhost");
    folder.write("cert.pem", &certificate);
    // Until the key fits, the old ones stay.
    let error = tls.reload().unwrap_err().to_string();
    assert!(error.contains("key.pem: does not fit"), "{error}");
    assert_eq!(ask(&gate, &authority.client(None, &[])).unwrap().0, first);
    folder.write("key.pem", &key);
    assert!(tls.is_stale());
    tls.reload().unwrap();
    assert!(!tls.is_stale());
    assert_ne!(ask(&gate, &authority.client(None, &[])).unwrap().0, first);
    gate.close();
}

#[test]
fn a_clients_certificate_is_asked_for_checked_and_told() {
    let (folder, authority) = (Folder::new("clients"), Authority::new());
    for required in [false, true] {
        let (gate, _tls) = open_tls(authority.files(&folder, Some(required)));
        let own = authority.sign("client");
        let der = CertificateDer::from_pem_slice(own.0.as_bytes()).unwrap();
        let (.., heard) = ask(&gate, &authority.client(Some(&own), &[])).unwrap();
        assert!(heard.ends_with(&format!("]{}", Fingerprint::of(&der))), "{heard}");
        let strange = Authority::new().sign("client");
        assert!(ask(&gate, &authority.client(Some(&strange), &[])).is_err());
        assert_eq!(ask(&gate, &authority.client(None, &[])).is_err(), required);
        let failed = 1 + u64::from(required);
        until("the count", || gate.counts.handshake_failed_total.load(SeqCst) == failed);
        gate.close();
    }
}

#[test]
fn a_handshake_that_takes_too_long_is_cut() {
    let (folder, authority) = (Folder::new("slow"), Authority::new());
    let tls = Tls::load(authority.files(&folder, None)).unwrap();
    let header_time_max = Duration::from_millis(50);
    let gate = open(Listening { tls: Some(tls.config), header_time_max, ..listening() });
    assert_eq!(rest(&mut gate.client()), "");
    assert!(!gate.talk(LAST).contains("HTTP"), "plain text on a TLS port");
    gate.close();
}

#[test]
fn faults_of_files_say_which_and_what_to_do() {
    let (folder, authority) = (Folder::new("faults"), Authority::new());
    let good = authority.files(&folder, None);
    let empty = folder.write("empty.pem", "");
    let error = |files: TlsFiles| Tls::load(files).unwrap_err().to_string();
    let with = |certificates: &Path, key: &Path| {
        error(TlsFiles { certificates: certificates.into(), key: key.into(), clients: None })
    };
    let heard = with(&empty, &good.key);
    assert!(heard.contains("empty.pem: holds no certificate\nhint: "), "{heard}");
    let heard = with(&good.certificates, &empty);
    assert!(heard.contains("empty.pem: holds no key\nhint: "), "{heard}");
    let heard = with(&folder.0.join("none.pem"), &good.key);
    assert!(heard.contains("none.pem: cannot be read: "), "{heard}");
    let heard = with(&good.key, &good.key);
    assert!(heard.contains("key.pem: holds no certificate"), "{heard}");
    let clients = Some(TlsClients { authorities: empty, required: true });
    let heard = error(TlsFiles { clients, ..good });
    assert!(heard.contains("empty.pem: holds no certificate"), "{heard}");
}
