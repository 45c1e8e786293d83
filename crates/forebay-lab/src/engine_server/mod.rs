//! Serves engine models over HTTP so that a router takes them for vLLM 0.32.
//!
//! The engine is the one that the simulator runs, on a clock that follows the wall's, some times
//! faster: a step ends at the moment that the engine says, however late the thread is that writes
//! it down. Forms are those of captured answers of vLLM 0.32; the text is made up.
//!
//! What is not there: stop strings, log probabilities, tools and structured output are accepted and
//! change nothing; the blocks of answers are not shared, as in the engine model.
//!
//! | module | does |
//! |---|---|
//! | `life`, `worker`, `clock`, `fault` | run an engine, and let it fail |
//! | `service`, `door`, `ask`, `prompt`, `problem` | take requests, or refuse them |
//! | `tokenizer`, `hashes`, `answer` | know tokens, blocks and texts |
//! | `generate`, `ticket`, `stream`, `format`, `usage` | follow jobs and write answers |
//! | `kv_events`, `kv_sockets` | tell of the cache |
//! | `metrics`, `exposition` | count |

mod answer;
mod ask;
mod clock;
mod door;
mod exposition;
mod fault;
mod format;
mod generate;
mod hashes;
mod kv_events;
mod kv_sockets;
mod life;
mod metrics;
mod problem;
mod prompt;
mod service;
mod stream;
mod ticket;
mod tokenizer;
mod usage;
mod worker;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::engine::Preset;
use life::{Order, Post};

pub use fault::{Death, Fault};
pub use life::KvAddrs;

/// Orders that wait for one worker.
const ORDERS_MAX: usize = 64;

/// What engines to serve, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The engine of every worker.
    pub preset: Preset,
    /// Number of workers.
    pub workers: u16,
    /// Where they listen.
    pub host: IpAddr,
    /// Port of the first worker, the others' follow; 0 for any free ones.
    pub port: u16,
    /// How many times faster than real the engines are.
    pub speed: f64,
    /// Seed of the answers.
    pub seed: u64,
    /// The model's name.
    pub model: String,
    /// The longest prompt and answer together, in tokens; all of the KV cache without it.
    pub max_model_len: Option<u32>,
    /// Tokens between two events of a stream (vLLM's `--stream-interval`).
    pub stream_interval: u32,
    /// Port of the first worker's KV events, the others' follow; 0 for any free ones.
    pub kv_events_port: Option<u16>,
    /// Port of the first worker's replays of KV events, the others' follow; 0 for any free ones.
    pub kv_replay_port: Option<u16>,
    /// What goes wrong with every worker from the start.
    pub fault: Fault,
}

impl Options {
    /// One worker of this preset on any port of the loopback interface, in real time.
    pub fn new(preset: Preset) -> Self {
        // The part behind the accelerator's name is the model's.
        let model = preset.name.rsplit('/').next().unwrap_or("model").to_owned();
        Self {
            preset,
            workers: 1,
            host: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            speed: 1.0,
            seed: 1,
            model,
            max_model_len: None,
            stream_interval: 1,
            kv_events_port: None,
            kv_replay_port: None,
            fault: Fault::default(),
        }
    }

    /// The longest prompt and answer together that can always be served, in tokens.
    fn tokens_max(&self) -> u32 {
        let kv_tokens = self.preset.blocks().saturating_mul(self.preset.block_size);
        self.max_model_len.map_or(kv_tokens, |asked| asked.min(kv_tokens)).max(2)
    }

    /// Refuses what can't be served.
    fn check(&self) -> io::Result<()> {
        let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if !(1e-3..=1e5).contains(&self.speed) {
            return wrong(format!("speed is {}, and must be from 0.001 to 100000", self.speed));
        }
        if self.workers == 0 {
            return wrong("there must be one worker at least".to_owned());
        }
        for port in [Some(self.port), self.kv_events_port, self.kv_replay_port] {
            if port.unwrap_or(0).checked_add(self.workers - 1).is_none() {
                return wrong(format!("there are not {} ports behind it", self.workers));
            }
        }
        self.fault.check().or_else(wrong)
    }

    /// The address of the `nth` worker from a base port.
    fn at(&self, base: u16, nth: u16) -> SocketAddr {
        SocketAddr::new(self.host, if base == 0 { 0 } else { base + nth })
    }
}

/// Workers that run.
#[derive(Debug)]
pub struct EngineServer {
    addrs: Vec<SocketAddr>,
    kv_addrs: Vec<KvAddrs>,
    posts: Vec<mpsc::Sender<Order>>,
    threads: Vec<JoinHandle<()>>,
}

impl EngineServer {
    /// Starts workers, each on a thread of its own, and waits until they listen. To be called
    /// within a runtime of tokio.
    pub async fn start(options: Options) -> io::Result<Self> {
        options.check()?;
        let options = Arc::new(options);
        let workers = usize::from(options.workers);
        let mailboxes = (0..workers).map(|_| mpsc::channel(ORDERS_MAX));
        let (posts, orders): (Vec<_>, Vec<_>) = mailboxes.unzip();
        let mut server = Self {
            addrs: Vec::with_capacity(workers),
            kv_addrs: Vec::with_capacity(workers),
            posts,
            threads: Vec::with_capacity(workers),
        };
        for (nth, orders) in (0..options.workers).zip(orders) {
            let at = options.at(options.port, nth);
            let told = |error: io::Error| io::Error::new(error.kind(), format!("{at}: {error}"));
            let listener = life::listen(at).and_then(tokio::net::TcpListener::into_std);
            let listener = listener.map_err(told)?;
            let at = listener.local_addr()?;
            let kv = |port: Option<u16>| port.map(|port| options.at(port, nth));
            let replay = options.kv_replay_port.filter(|_| options.kv_events_port.is_some());
            let post = Post {
                options: options.clone(),
                nth: usize::from(nth),
                at,
                kv: KvAddrs { live: kv(options.kv_events_port), replay: kv(replay) },
                orders,
                posts: server.posts.clone(),
                untold: Vec::new(),
            };
            let (ready, begun) = oneshot::channel();
            let name = format!("engine-{nth}");
            let thread = std::thread::Builder::new().name(name);
            server.threads.push(thread.spawn(move || life::run(post, listener, ready))?);
            let is_gone = |_| io::Error::other("the worker's thread is gone");
            server.kv_addrs.push(begun.await.map_err(is_gone)??);
            server.addrs.push(at);
        }
        Ok(server)
    }

    /// Where each worker listens.
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Where each worker publishes KV events.
    pub fn kv_addrs(&self) -> &[KvAddrs] {
        &self.kv_addrs
    }

    /// Lets something go wrong with a worker, and returns when it has: when a killed worker's
    /// connections are cut, and when one that restarts at once listens again. What waits for
    /// tokens is only noted.
    pub async fn fault(&self, worker: usize, fault: Fault) -> io::Result<()> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        fault.check().map_err(wrong)?;
        let post = self.posts.get(worker);
        let post = post.ok_or_else(|| wrong(format!("there is no worker {worker}")))?;
        let (told, known) = oneshot::channel();
        let is_gone = || io::Error::other("the worker has stopped");
        post.send(Order::Fault(fault, Some(told))).await.map_err(|_| is_gone())?;
        known.await.map_err(|_| is_gone())
    }

    /// Stops all workers and waits for their threads.
    pub async fn stop(mut self) {
        for post in &self.posts {
            let _ = post.send(Order::Stop).await;
        }
        let threads = std::mem::take(&mut self.threads);
        let joined = tokio::task::spawn_blocking(|| {
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        let _ = joined.await;
    }
}

impl Drop for EngineServer {
    fn drop(&mut self) {
        // Without waiting: a full mailbox means that the worker does not look at it.
        self.posts.iter().for_each(|post| drop(post.try_send(Order::Stop)));
    }
}
