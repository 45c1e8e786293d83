//! Starts gateways for tests, reads what they count, and replays what they recorded.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_gateway::Running;
use forebay_gateway::config::Config;

use crate::client::Client;
use crate::stub::Stub;

/// The longest that something may take that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Where the gateways of tests listen.
const LISTEN: &str = "[listen]\naddress = \"127.0.0.1:0\"\nthreads = 2\n";

/// A gateway that runs.
pub(crate) struct House {
    pub(crate) addr: SocketAddr,
    running: Running,
    recording: Option<PathBuf>,
}

impl House {
    /// A gateway with the plain configuration and this text behind it, whose first lines may be
    /// further keys of `[listen]`.
    pub(crate) fn open(more: &str) -> Self {
        Self::of(config(more), None)
    }

    /// One that records what is decided.
    pub(crate) fn recorded(more: &str) -> Self {
        let mut config = config(more);
        let dir = folder("recording");
        config.record_to(dir.clone());
        Self::of(config, Some(dir))
    }

    /// One pool with these workers, and these keys of its table.
    pub(crate) fn pool(workers: &[&Stub], keys: &str) -> Self {
        Self::open(&pool(workers, keys))
    }

    pub(crate) fn of(config: Config, recording: Option<PathBuf>) -> Self {
        let workers: usize = config.pools.iter().map(|pool| pool.workers.len()).sum();
        let running = forebay_gateway::start(config).expect("the gateway starts");
        let house = Self { addr: running.addr(), running, recording };
        eventually("its workers are found well", || {
            house.count("forebay_worker_usable", "") == workers
        });
        house
    }

    pub(crate) fn client(&self) -> Client {
        Client::open(self.addr)
    }

    /// One of the pages that are read, with its head.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut socket = TcpStream::connect(self.addr).expect("the gateway listens");
        let asked = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        socket.write_all(asked.as_bytes()).expect("the gateway reads");
        let mut page = String::new();
        socket.read_to_string(&mut page).expect("the gateway writes text");
        page
    }

    /// The sum of a metric over those of its series whose line has this in it.
    pub(crate) fn metric(&self, name: &str, with: &str) -> f64 {
        let page = self.get("/metrics");
        let of = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(with)
        };
        let values = page.lines().filter(of);
        values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    }

    /// The same of a metric that counts.
    pub(crate) fn count(&self, name: &str, with: &str) -> usize {
        self.metric(name, with).round() as usize
    }

    /// Requests that wait and run.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.count("forebay_requests_waiting", ""), self.count("forebay_requests_running", ""))
    }

    /// Waits until nothing is left of any request, in any account.
    pub(crate) fn rests(&self) {
        let accounts = [
            "forebay_requests_open",
            "forebay_requests_waiting",
            "forebay_requests_running",
            "forebay_worker_running",
            "forebay_worker_backlog_tokens",
            "forebay_worker_kv_committed_tokens",
            "forebay_bodies_held_bytes",
        ];
        for name in accounts {
            let begun = Instant::now();
            while self.metric(name, "") > 0.0 {
                let page = || self.get("/metrics");
                assert!(begun.elapsed() < SOON, "{name} is still above zero\n{}", page());
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Asks it to stop, and waits for nothing.
    pub(crate) fn ask_to_stop(&self) {
        self.running.ask_to_stop();
    }

    /// Begins to stop, and says how long it took to end once that is waited for.
    pub(crate) fn stop(self) -> Stopped {
        let begun = Instant::now();
        self.running.stop().expect("it stops well");
        Stopped { took: begun.elapsed(), recording: self.recording }
    }
}

/// A gateway that has ended.
pub(crate) struct Stopped {
    pub(crate) took: Duration,
    recording: Option<PathBuf>,
}

impl Stopped {
    /// Decides again what was recorded; how many decisions there were.
    pub(crate) fn replays(self) -> u64 {
        let dir = self.recording.expect("it recorded");
        let mut decisions = 0;
        for entry in std::fs::read_dir(&dir).expect("the folder is there") {
            let file = entry.expect("it can be read").path();
            let report = forebay_lab::recording::replay(&file).expect("it is a recording");
            assert!(report.is_equal() && !report.is_torn, "{}: {report}", file.display());
            decisions += report.decisions;
        }
        std::fs::remove_dir_all(&dir).expect("it is ours");
        assert!(decisions > 0, "nothing was recorded");
        decisions
    }
}

/// The table of one pool with these workers, and these further keys.
pub(crate) fn pool(workers: &[&Stub], keys: &str) -> String {
    let urls: Vec<String> = workers.iter().map(|it| format!("\"{}\"", it.url())).collect();
    format!("[[pool]]\nworker = [{}]\n{keys}\n", urls.join(", "))
}

/// The plain configuration with this text behind it.
pub(crate) fn config(more: &str) -> Config {
    let text = format!("{LISTEN}{more}");
    match Config::parse(Path::new("forebay.toml"), &text) {
        Ok(config) => config,
        Err(faults) => panic!("{faults}"),
    }
}

/// A new folder that is nobody else's.
pub(crate) fn folder(name: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let nth = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{name}-{}-{nth}", std::process::id());
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("the folder for tests is there");
    dir
}

/// Waits for something that must come to be so.
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < SOON, "it never was so that {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Says a figure that a test has measured.
pub(crate) fn say(what: &str) {
    let said = writeln!(std::io::stderr(), "measured: {what}");
    said.expect("the error stream is there");
}
