//! Tests HTTP/2 and TLS against a server of hyper.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use forebay_core::Span;
use http::{Response, Version};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use super::{DONE, TOKEN, ran};
use crate::load::{Ended, Http, Planned, Settings, Tls, Transport};
use crate::results::{Fault, Outcome, Row};

/// A server that answers with a token, by HTTP/1.1 or 2, and with TLS where it has a certificate.
struct Server {
    address: SocketAddr,
    certificate: PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.certificate);
    }
}

impl Server {
    async fn start(has_tls: bool) -> Self {
        Self::leaving(has_tls, 0).await
    }

    /// The same, whose first connections end in good order before a request is looked at.
    async fn leaving(has_tls: bool, leaves: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let name = format!("forebay-load-{}-{}.pem", std::process::id(), address.port());
        let certificate = std::env::temp_dir().join(name);
        std::fs::write(&certificate, cert.pem()).unwrap();
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![cert.der().clone()], signing_key.into())
                .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn(async move {
            let mut nth = 0;
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, leaves) = (acceptor.clone(), nth < leaves);
                nth += 1;
                tokio::spawn(async move {
                    if leaves {
                        leave(socket).await;
                    } else if !has_tls {
                        serve(socket).await;
                    } else if let Ok(socket) = acceptor.accept(socket).await {
                        serve(socket).await;
                    }
                });
            }
        });
        Self { address, certificate, task }
    }

    fn settings(&self, scheme: &str, transport: Transport) -> Settings {
        let url = format!("{scheme}://localhost:{}/v1/completions", self.address.port());
        let targets = vec![url.parse().unwrap()];
        Settings { transport, patience: Span::secs(30), ..Settings::for_targets(targets) }
    }
}

/// Two requests at once on a connection of HTTP/2.
async fn serve<S>(socket: S)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| async move {
        sleep(std::time::Duration::from_millis(20)).await;
        let is_two = request.version() == Version::HTTP_2;
        let said = format!(
            "data: {{\"usage\":{{\"cached_tokens\":0,\"prompt_tokens\":{}}}}}\n\n",
            1 + u8::from(is_two)
        );
        let body = Full::new(Bytes::from(format!("{TOKEN}{said}{DONE}")));
        let answer = Response::builder().header("content-type", "text/event-stream").body(body);
        Ok::<_, Infallible>(answer.unwrap())
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(2);
    drop(builder.serve_connection(TokioIo::new(socket), service).await);
}

/// Says goodbye, in the frames of RFC 9113, to a request that it leaves unread.
async fn leave(mut socket: TcpStream) {
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    socket.write_all(&settings).await.unwrap();
    let mut seen = Vec::new();
    // The request's body is the last that comes of it.
    while !seen.ends_with(b"\"prompt\":\"a\"}") {
        if !matches!(socket.read_buf(&mut seen).await, Ok(1..)) {
            return;
        }
    }
    socket.write_all(&goaway).await.unwrap();
    while matches!(socket.read_buf(&mut seen).await, Ok(1..)) {}
}

async fn sent(settings: &Settings, count: u64) -> (Vec<Row>, Ended) {
    let body = Bytes::from("{\"prompt\":\"a\"}");
    ran(settings, (0..count).map(|_| Planned { body: body.clone(), ..Planned::default() })).await
}

/// The version of HTTP that the server saw, as it says.
fn version(row: &Row) -> Option<u64> {
    assert_eq!(row.outcome, Outcome::Completed, "{row:?}");
    row.last().unwrap().usage.prompt_tokens
}

#[tokio::test]
async fn both_versions_are_spoken_with_and_without_tls() {
    for has_tls in [false, true] {
        let server = Server::start(has_tls).await;
        let scheme = if has_tls { "https" } else { "http" };
        for (http, expected) in [(Http::One, 1), (Http::Two, 2)] {
            let tls = has_tls.then(|| Tls::trusting(Some(&server.certificate), http).unwrap());
            let settings = server.settings(scheme, Transport { http, tls });
            let (rows, _) = sent(&settings, 1).await;
            assert_eq!(version(&rows[0]), Some(expected));
            let last = rows[0].last().unwrap();
            assert!(last.written.is_some() && last.written <= last.first_byte, "{last:?}");
        }
    }
}

#[tokio::test]
async fn requests_share_a_connection_up_to_what_its_server_allows() {
    let server = Server::start(false).await;
    let transport = Transport { http: Http::Two, tls: None };
    let settings = server.settings("http", transport);
    // The first learns what the server allows.
    let plan = (0..9).map(|nth| Planned {
        at: if nth == 0 { Span::ZERO } else { Span::millis(200) },
        ..Planned::default()
    });
    let (rows, ended) = ran(&settings, plan).await;
    assert!(rows.iter().all(|row| version(row) == Some(2)));
    assert!(ended.generator.connections >= 2, "{:?}", ended.generator);
    let alone = Settings { reuse: false, ..settings };
    let (_, ended) = sent(&alone, 3).await;
    assert_eq!(ended.generator.connections, 3);
}

#[tokio::test]
async fn a_request_that_no_server_looked_at_is_sent_on_another_connection() {
    let transport = || Transport { http: Http::Two, tls: None };
    let server = Server::leaving(false, 2).await;
    let (rows, ended) = sent(&server.settings("http", transport()), 1).await;
    assert_eq!(version(&rows[0]), Some(2));
    // It is one attempt: nobody has worked on what was not looked at.
    assert_eq!((rows[0].attempts.len(), ended.generator.connections), (1, 1));
    let never = Server::leaving(false, usize::MAX).await;
    let (rows, _) = sent(&never.settings("http", transport()), 1).await;
    assert_eq!(rows[0].last().unwrap().fault, Some(Fault::NoAnswer));
}

#[tokio::test]
async fn a_target_that_agrees_on_no_http_2_is_named() {
    let server = Server::start(true).await;
    let tls = Some(Tls::trusting_anyone(Http::One));
    let (rows, _) = sent(&server.settings("https", Transport { http: Http::Two, tls }), 1).await;
    let said = rows[0].last().unwrap().error.as_deref().unwrap();
    assert_eq!(said, "the target does not speak HTTP/2: ask it in HTTP/1.1");
}

#[tokio::test]
async fn a_certificate_of_nobody_known_is_a_fault_unless_anybody_is_believed() {
    let server = Server::start(true).await;
    let http = Http::One;
    let trusting = Transport { http, tls: Some(Tls::trusting(None, http).unwrap()) };
    let (rows, _) = sent(&server.settings("https", trusting), 1).await;
    assert_eq!(rows[0].last().unwrap().fault, Some(Fault::Connect));
    let anyone = Transport { http, tls: Some(Tls::trusting_anyone(http)) };
    let (rows, _) = sent(&server.settings("https", anyone), 1).await;
    assert_eq!(version(&rows[0]), Some(1));
    let unset = Transport::default();
    let (rows, _) = sent(&server.settings("https", unset), 1).await;
    assert_eq!(rows[0].last().unwrap().error.as_deref(), Some("TLS is not set up"));
}
