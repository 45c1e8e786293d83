//! Drills a service behind TLS that wants a key.
#![expect(clippy::unwrap_used, reason = "a test that can't go on may panic")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use forebay_lab::live::{Design, hold};
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// An empty folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("forebay-vendor-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    root
}

fn design(folder: &Path, text: &str) -> Design {
    let file = folder.join("drill.toml");
    fs::write(&file, text).unwrap();
    Design::load(&file).unwrap()
}

/// The variable whose value is the key of this test: one that every test has.
const KEY: &str = "CARGO_MANIFEST_DIR";

/// A vendor's service: TLS, a key, and a page that nobody sees without it. Notes the heads of all
/// requests.
async fn vendor(root: &Path) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(root.join("ca.pem"), cert.pem()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], signing_key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
            tokio::spawn(async move {
                let Ok(mut socket) = acceptor.accept(socket).await else { return };
                let (mut seen, mut some) = (Vec::new(), [0; 16_384]);
                while let Ok(read @ 1..) = socket.read(&mut some).await {
                    seen.extend_from_slice(&some[..read]);
                    let text = String::from_utf8_lossy(&seen).to_lowercase();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let len = head.split("content-length: ").nth(1).unwrap_or("0");
                    let len: usize = len.lines().next().unwrap().parse().unwrap();
                    if body.len() < len {
                        continue;
                    }
                    let key = std::env::var(KEY).unwrap().to_lowercase();
                    let answer = if !head.contains(&format!("authorization: bearer {key}\r\n")) {
                        "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"
                    } else if head.starts_with("get /v1/models ") {
                        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
                    } else {
                        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                         content-length: 49\r\n\r\n\
                         data: {\"choices\":[{\"text\":\" a\"}]}\n\ndata: [DONE]\n\n"
                    };
                    noted.lock().unwrap().push(format!("{head}\r\n"));
                    if socket.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                    seen.clear();
                }
            });
        }
    });
    (address, heads)
}

#[tokio::test]
async fn a_vendor_behind_tls_sees_its_key_and_the_names_and_no_file_has_the_key() {
    let root = scratch("vendor");
    let (address, heads) = vendor(&root).await;
    let row = |at: u32, class: &str, tenant: &str| {
        format!(
            "{{\"timestamp\":{at},\"input_length\":4,\"output_length\":1,\"hash_ids\":[],\
             \"class\":\"{class}\",\"tenant\":\"{tenant}\"}}\n"
        )
    };
    let rows = row(0, "chat", "light") + &row(50, "batch", "flood");
    fs::write(root.join("trace.jsonl"), rows).unwrap();
    let port = address.port();
    let text = format!(
        "[load]\ntrace = \"trace.jsonl\"\nmodel = \"m\"\nendpoint = \"completions\"\n\
         requests = 2\nwarmup = 0\nca_file = \"ca.pem\"\nplain = true\n\
         tenant_header = \"x-tenant\"\nheaders = [\"x-lane: fast\"]\n\
         [blocks]\nleast = 1\nmost = 1\n[[arm]]\nname = \"vendor\"\n\
         url = \"https://localhost:{port}\"\nhealth = \"/v1/models\"\nkey_env = \"{KEY}\"\n"
    );
    let out = root.join("out");
    let drill = hold(design(&root, &text), &out, |_| {}, std::future::pending()).await.unwrap();
    let rows = &drill.cells[0].blocks[0][0].run.rows;
    assert!(rows.iter().all(|row| row.e2e().is_some()), "{rows:?}");
    let heads = heads.lock().unwrap();
    let asked: Vec<&String> = heads.iter().filter(|head| head.starts_with("post ")).collect();
    assert_eq!(asked.len(), 2);
    for (head, names) in asked.iter().zip([["chat", "light"], ["batch", "flood"]]) {
        for line in [
            format!("x-forebay-class: {}\r\n", names[0]),
            format!("x-tenant: {}\r\n", names[1]),
            "x-lane: fast\r\n".to_owned(),
        ] {
            assert!(head.contains(&line), "{line} is not in {head}");
        }
    }
    let key = std::env::var(KEY).unwrap();
    for file in ["requests.jsonl", "summary.json", "profile_export.jsonl"] {
        let text = fs::read_to_string(out.join("load1/vendor/block-01").join(file)).unwrap();
        assert!(!text.contains(&key), "{file}");
    }
    fs::remove_dir_all(root).unwrap();
}

#[tokio::test]
async fn a_key_that_is_not_there_is_told_before_anything_starts() {
    let root = scratch("key");
    let text = "[load]\nsynth = \"evidence\"\nmodel = \"m\"\n[[arm]]\nname = \"a\"\n\
         command = [\"/bin/sh\", \"-c\", \"touch started\"]\n\
         key_env = \"FOREBAY_NO_SUCH_KEY\"\n";
    let out = root.join("out");
    let failed = hold(design(&root, text), &out, |_| {}, std::future::pending());
    let said = failed.await.unwrap_err().to_string();
    assert!(said.contains("the environment has no FOREBAY_NO_SUCH_KEY"), "{said}");
    assert!(!root.join("started").exists() && !out.exists());
    fs::remove_dir_all(root).unwrap();
}
