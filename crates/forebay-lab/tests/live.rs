//! Holds live drills against modelled engines on loopback.
#![expect(clippy::unwrap_used, reason = "a test that can't go on may panic")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use forebay_lab::engine::Preset;
use forebay_lab::engine_server::{EngineServer, Options};
use forebay_lab::live::{Design, Drill, Event, hold, table};
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// An empty folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("forebay-live-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    root
}

const LOAD: &str = "[load]\nsynth = \"evidence\"\nmodel = \"qwen3-8b\"\n\
                    endpoint = \"completions\"\nrequests = 30\nspeed = 200\nwarmup = 2\n\
                    [blocks]\nleast = 2\nmost = 2\n";

fn design(folder: &Path, text: &str) -> Design {
    let file = folder.join("drill.toml");
    fs::write(&file, text).unwrap();
    Design::load(&file).unwrap()
}

async fn engines(workers: u16) -> (EngineServer, Vec<String>) {
    let preset = Preset::resolve("a100-40gb/qwen3-8b").unwrap();
    let options = Options { workers, port: 0, speed: 200.0, ..Options::new(preset) };
    let server = EngineServer::start(options).await.unwrap();
    let urls = server.addrs().iter().map(|addr| format!("http://{addr}")).collect();
    (server, urls)
}

#[tokio::test]
async fn arms_take_turns_forward_and_backward_and_leave_their_runs() {
    let (server, urls) = engines(1).await;
    let root = scratch("turns");
    let arm = |name: &str| {
        let url = &urls[0];
        format!(
            "[[arm]]\nname = \"{name}\"\nurl = \"{url}\"\nmetrics = \"/metrics\"\n\
             refusals = \"vllm:no_such_counter\"\n"
        )
    };
    let text = format!(
        "{LOAD}[engines]\nurls = [\"{}\"]\nreset = \"POST /reset_prefix_cache\"\n{}{}",
        urls[0],
        arm("one"),
        arm("two")
    );
    let design = design(&root, &text);
    let out = root.join("out");
    let mut order = Vec::new();
    let tell = |event: Event<'_>| {
        if let Event::Begins { round, arm, .. } = event {
            order.push(format!("{arm} {round}"));
        }
    };
    let drill: Drill = hold(design, &out, tell, std::future::pending()).await.unwrap();
    assert_eq!(order, ["one 0", "two 0", "two 1", "one 1"]);
    let cell = &drill.cells[0];
    assert_eq!(cell.rounds, 2);
    // Both arms of a round had the same requests, and the rounds others.
    let plan = |arm: usize, round: usize| cell.blocks[arm][round].run.about.plan.clone().unwrap();
    assert_eq!(plan(0, 0), plan(1, 0));
    assert_ne!(plan(0, 0), plan(0, 1));
    let seen = &cell.blocks[1][1].seen;
    assert_eq!((seen.refused_by_clients, seen.refused_by_server), (0, Some(0)));
    assert!(!seen.engines[&urls[0]].is_empty());
    for path in [
        "drill.toml",
        "comparison.json",
        "n1-load1/two/block-02/requests.jsonl",
        "n1-load1/two/block-02/summary.json",
        "n1-load1/two/block-02.servers.json",
    ] {
        assert!(out.join(path).is_file(), "{path}");
    }
    let text = table::render(&drill);
    assert!(text.contains("N = 1, load 1, 2 blocks of each arm"), "{text}");
    assert!(text.contains("refusals of two: 0 counted by the server, 0 seen by clients: equal"));
    server.stop().await;
    fs::remove_dir_all(root).unwrap();
}

#[tokio::test]
async fn a_stopped_drill_counts_complete_rounds_only_and_is_inconclusive() {
    let (server, urls) = engines(1).await;
    let root = scratch("stopped");
    let text = format!("{LOAD}[[arm]]\nname = \"a\"\nurl = \"{}\"\n", urls[0]);
    let design = design(&root, &text);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut stop = Some(stop);
    let tell = |event: Event<'_>| {
        if matches!(event, Event::Begins { round: 1, .. })
            && let Some(stop) = stop.take()
        {
            let _ = stop.send(());
        }
    };
    let until = async {
        let _ = stopped.await;
    };
    let drill = hold(design, &root.join("out"), tell, until).await.unwrap();
    assert!(drill.was_interrupted);
    assert_eq!((drill.cells[0].rounds, drill.cells[0].blocks[0].len()), (1, 1));
    assert_eq!(drill.exit_code(), 3);
    server.stop().await;
    fs::remove_dir_all(root).unwrap();
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_and_a_command_that_fails_are_named() {
    let root = scratch("absent");
    let text = format!(
        "{LOAD}[[arm]]\nname = \"broken\"\n\
         command = [\"/bin/sh\", \"-c\", \"echo no model; exit 1\"]\n"
    );
    let out = root.join("out");
    let failed = hold(design(&root, &text), &out, |_| {}, std::future::pending());
    let said = failed.await.unwrap_err().to_string();
    assert!(said.contains("broken ended") && said.ends_with("no model"), "{said}");
    let taken = design(&root, &text).check(&root.join("out")).unwrap_err().to_string();
    assert!(taken.contains("exists and is not empty"), "{taken}");
    fs::remove_dir_all(root).unwrap();
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
    let text = format!(
        "{LOAD}[[arm]]\nname = \"a\"\ncommand = [\"/bin/sh\", \"-c\", \"touch started\"]\n\
         key_env = \"FOREBAY_NO_SUCH_KEY\"\n"
    );
    let out = root.join("out");
    let failed = hold(design(&root, &text), &out, |_| {}, std::future::pending());
    let said = failed.await.unwrap_err().to_string();
    assert!(said.contains("the environment has no FOREBAY_NO_SUCH_KEY"), "{said}");
    assert!(!root.join("started").exists() && !out.exists());
    fs::remove_dir_all(root).unwrap();
}
