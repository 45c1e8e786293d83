//! Checks that a changed file takes effect for workers that are in use.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use super::Reload;
use crate::clock::Clock;
use crate::config::Config;
use crate::fixture;
use crate::gateway::Gateway;
use crate::observe::Observe;
use crate::rules::Rules;
use crate::workers::{Fleet, Reach, WatchOptions};

/// What a worker was asked: the heads of all requests.
type Heads = Arc<Mutex<Vec<String>>>;

/// A certificate for this name, in PEM, and who shows it.
fn certificate(name: &str) -> (String, TlsAcceptor) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (made.cert.pem(), TlsAcceptor::from(Arc::new(config)))
}

/// A worker that answers everything with 200; its address and what it was asked.
async fn worker(tls: Option<TlsAcceptor>) -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, heads) = (listener.local_addr().unwrap(), Heads::default());
    let told = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (heads, tls) = (Arc::clone(&told), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => answer(socket, heads).await,
                    Some(tls) => {
                        if let Ok(socket) = tls.accept(socket).await {
                            answer(socket, heads).await;
                        }
                    }
                }
            });
        }
    });
    (addr.to_string(), heads)
}

async fn answer(mut socket: impl AsyncRead + AsyncWrite + Unpin, heads: Heads) {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let Some(end) = read.windows(4).position(|end| end == b"\r\n\r\n") else {
            match socket.read(&mut buffer).await {
                Ok(more) if more > 0 => read.extend_from_slice(&buffer[..more]),
                _ => return,
            }
            continue;
        };
        let head = read.drain(..end + 4).collect();
        heads.lock().unwrap().push(String::from_utf8(head).unwrap());
        drop(socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await);
    }
}

/// A gateway's files, in a folder that goes with them.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let name = format!("forebay-reload-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes the configuration: a pool with these keys, probed often.
    fn pool(&self, keys: &str) -> PathBuf {
        let text = format!("[[pool]]\n{keys}\n[health]\ninterval_ms = 10\ntimeout_ms = 500\n");
        self.write("forebay.toml", &text)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A gateway of one pool that runs by this file.
fn running(file: PathBuf) -> Reload {
    let config = Config::load(&file).unwrap();
    let clock = Clock::start();
    let pool = fixture::pool("main", clock, None);
    let rules = Rules::of(&config, Vec::new());
    let observe = Observe::new(["main"], &rules);
    let gateway = Arc::new(Gateway::new(clock, vec![Arc::clone(&pool)], rules, observe));
    let meant = &config.pools[0];
    let reach = Reach { headers: meant.headers.clone(), tls: meant.tls.clone() };
    let watched = [(pool, reach, WatchOptions::of(&config, meant))];
    gateway.fleet.get_or_init(|| Fleet::new(Handle::current(), watched));
    let mut reload = Reload::new(gateway, config, Some(file), None);
    reload.begin();
    reload
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}

fn usable(reload: &Reload) -> bool {
    reload.gateway.pools[0].workers().iter().any(|worker| worker.usable)
}

#[tokio::test]
async fn a_worker_in_use_is_sent_the_new_headers_and_the_new_key_on_new_connections() {
    let (addr, heads) = worker(None).await;
    let files = Files::new("headers");
    files.write("key", "first-key");
    let pool = |team: &str| {
        let headers = format!("headers = [\"X-Team: {team}\"]");
        files.pool(&format!("worker = \"http://{addr}\"\nkey_file = \"key\"\n{headers}"))
    };
    let mut reload = running(pool("one"));
    until("it is used", || usable(&reload)).await;
    let last = |what: &str| heads.lock().unwrap().last().is_some_and(|head| head.contains(what));
    assert!(last("x-team: one") && last("authorization: Bearer first-key"));
    let worker = Arc::clone(&reload.gateway.pools[0].roster.all()[0]);
    let second = Duration::from_secs(20);
    let [idle, busy] = [worker.connect(0, second).await, worker.connect(0, second).await];
    let (idle, busy) = (idle.unwrap(), busy.unwrap());
    worker.keep(idle);
    files.write("key", "second-key");
    pool("two");
    reload.read();
    until("it is asked in the new way", || last("x-team: two")).await;
    assert!(last("authorization: Bearer second-key"));
    assert_eq!(busy.manner.headers["x-team"], "one", "what runs goes on as it began");
    worker.keep(busy);
    let next = worker.connect(0, second).await.unwrap();
    assert!(!next.reused, "nothing new goes over a connection of the old kind");
    assert_eq!(next.manner.headers["x-team"], "two");
    assert!(usable(&reload), "it did not leave for that");
}

#[tokio::test]
async fn tls_to_workers_follows_the_file_and_the_certificates_that_it_names() {
    let (shown, acceptor) = certificate("worker.test");
    let (addr, heads) = worker(Some(acceptor)).await;
    let files = Files::new("tls");
    files.write("ca.pem", &certificate("other.test").0);
    let pool = |name: &str| {
        let tls = format!("[pool.tls]\nca = \"ca.pem\"\nserver_name = \"{name}\"");
        files.pool(&format!("worker = \"https://{addr}\"\n{tls}"))
    };
    let mut reload = running(pool("elsewhere.test"));
    // Writes in one tick of the file system's clock can't be told apart.
    sleep(Duration::from_millis(20)).await;
    files.write("ca.pem", &shown);
    reload.worker_certificates();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(heads.lock().unwrap().len(), 0, "it is not the worker of that name");
    pool("worker.test");
    reload.read();
    until("it is trusted and used", || usable(&reload)).await;
    files.write("ca.pem", "# nothing\n");
    pool("third.test");
    reload.read();
    let name = |reload: &Reload| reload.config.pools[0].tls.server_name.clone();
    assert_eq!(name(&reload).as_deref(), Some("worker.test"), "nothing of it is in force");
    assert!(usable(&reload));
}

#[tokio::test]
async fn probes_of_a_worker_in_use_follow_the_file() {
    let (addr, heads) = worker(None).await;
    let files = Files::new("probes");
    let path = files.pool(&format!("worker = \"http://{addr}\""));
    let mut reload = running(path.clone());
    until("it is used", || usable(&reload)).await;
    let text = std::fs::read_to_string(&path).unwrap() + "path = \"/alive\"\n";
    std::fs::write(&path, text).unwrap();
    reload.read();
    let asked = |path: &str| heads.lock().unwrap().iter().any(|head| head.contains(path));
    until("it is probed in the new way", || asked("GET /alive ")).await;
}

#[test]
fn what_workers_keep_until_they_join_again_is_said() {
    let parse = |text: &str| {
        Config::parse("forebay.toml".as_ref(), &format!("[[pool]]\nworker = []\n{text}")).unwrap()
    };
    let before = parse("seqs_max = 8\n");
    assert_eq!(before.diff_for_newcomers(&before), Vec::<String>::new());
    let said = before.diff_for_newcomers(&parse("seqs_max = 9\nbytes_per_token = 5\n"));
    let expected = [
        "`seqs_max` of the pool `main`, which workers that have joined keep until they join again",
        "`bytes_per_token` of the pool `main`, which by now is learned",
    ];
    assert_eq!(said, expected);
}
