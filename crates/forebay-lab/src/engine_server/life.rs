//! Runs one worker on a thread of its own, from life to life.
//!
//! A thread for each worker, with everything of it on that thread: no locks, and no worker waits
//! for another. A life is what lies between a start and an end; a runtime belongs to each, so that
//! with a life all of its connections, jobs and sockets end, as those of a process do.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::mixed;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use super::Options;
use super::door::Door;
use super::fault::Fault;
use super::kv_events::Events;
use super::kv_sockets::{KvSockets, UNSENT_MAX};
use super::metrics::Metrics;
use super::service::{Service, now};
use super::worker::{Ending, Shared, Worker, keep_time};

/// How long a dead engine's server goes on: vLLM's is gone within seconds.
const DEAD_FOR: Duration = Duration::from_secs(2);
/// How long a connection may idle: uvicorn's default. A client that is slow to send its head has as
/// long.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Connections that wait to be accepted.
const BACKLOG: u32 = 4_096;
/// How often an address is tried that the last life may hold still.
const BIND_TRIES: u32 = 50;

/// What a worker is told to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Let something go wrong, and say so when it does.
    Fault(Fault, Option<oneshot::Sender<()>>),
    /// End for good.
    Stop,
}

/// Where a worker's KV events are published and can be asked for again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvAddrs {
    /// The PUB socket, if events are sent.
    pub live: Option<SocketAddr>,
    /// The ROUTER socket for replays, if there is one.
    pub replay: Option<SocketAddr>,
}

/// A worker's place: what is the same in all of its lives.
pub(super) struct Post {
    /// What was asked for.
    pub(super) options: Arc<Options>,
    /// Its place among the workers.
    pub(super) nth: usize,
    /// Where it listens.
    pub(super) at: SocketAddr,
    /// Where it publishes; port 0 until it is bound.
    pub(super) kv: KvAddrs,
    /// Its orders.
    pub(super) orders: mpsc::Receiver<Order>,
    /// Where each worker takes orders.
    pub(super) posts: Vec<mpsc::Sender<Order>>,
    /// Whom to tell once the life has ended, or the next one has begun where it begins at once.
    pub(super) untold: Vec<oneshot::Sender<()>>,
}

impl Post {
    /// Tells that what was ordered has happened.
    fn tell(&mut self) {
        for told in self.untold.drain(..) {
            // Whoever ordered it may have lost interest.
            let _ = told.send(());
        }
    }
}

/// Tells whoever started the worker where it publishes, or why it can't.
pub(super) type Ready = oneshot::Sender<io::Result<KvAddrs>>;

/// Binds a listener of many waiting connections.
pub(super) fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Runs a worker until it is told to stop.
pub(super) fn run(mut post: Post, first: std::net::TcpListener, ready: Ready) {
    let (mut first, mut ready) = (Some(first), Some(ready));
    let mut fault = post.options.fault.clone();
    loop {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        let life = live(&mut post, first.take(), ready.take(), std::mem::take(&mut fault));
        let ending = LocalSet::new().block_on(&runtime, life);
        // With the runtime go the connections.
        drop(runtime);
        let Ending::Away(millis) = ending else { return };
        if millis != Some(0) {
            post.tell();
        }
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        if !runtime.block_on(away(&mut post, millis)) {
            return;
        }
    }
}

/// Waits until a worker is to come back, and says whether it is.
async fn away(post: &mut Post, millis: Option<u64>) -> bool {
    let wait = async {
        match millis {
            Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(wait);
    loop {
        let order = tokio::select! {
            biased;
            order = post.orders.recv() => order,
            () = &mut wait => return true,
        };
        match order {
            None | Some(Order::Stop) => return false,
            Some(Order::Fault(fault, told)) => {
                post.untold.extend(told);
                if fault.restart {
                    return true;
                }
                post.tell();
            }
        }
    }
}

/// One life, and how it ends.
async fn live(
    post: &mut Post,
    first: Option<std::net::TcpListener>,
    ready: Option<Ready>,
    fault: Fault,
) -> Ending {
    let (worker, listener) = match begin(post, first).await {
        Ok(begun) => begun,
        Err(error) => {
            ready.map(|ready| ready.send(Err(error)));
            return Ending::Stop;
        }
    };
    worker.borrow_mut().take_fault(&fault);
    ready.map(|ready| ready.send(Ok(post.kv)));
    post.tell();
    tokio::task::spawn_local(keep_time(worker.clone()));
    let service = service(post, &worker);
    tokio::task::spawn_local(accept(listener, service));
    let ended = worker.borrow().ended();
    let mut gone_at = None;
    loop {
        let gone = async {
            match gone_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = post.orders.recv() => match order {
                None | Some(Order::Stop) => worker.borrow_mut().end(Ending::Stop),
                Some(Order::Fault(fault, told)) => {
                    worker.borrow_mut().take_fault(&fault);
                    post.untold.extend(told);
                    if worker.borrow().ending().is_none() {
                        post.tell();
                    }
                }
            },
            () = ended.notified() => {}
            () = gone => {
                let ending = worker.borrow().dead();
                return ending.unwrap_or(Ending::Away(None));
            }
        }
        let worker = worker.borrow();
        if let Some(ending) = worker.ending() {
            return ending;
        }
        if worker.dead().is_some() && gone_at.is_none() {
            gone_at = Some(tokio::time::Instant::now() + DEAD_FOR);
        }
    }
}

/// Opens a life's sockets and makes its worker.
async fn begin(
    post: &mut Post,
    first: Option<std::net::TcpListener>,
) -> io::Result<(Shared, TcpListener)> {
    let listener = match first {
        Some(first) => TcpListener::from_std(first)?,
        None => listen_again(post.at).await?,
    };
    let options = &post.options;
    let events = match post.kv.live {
        Some(live) => {
            let (sockets, live, replay) = KvSockets::bind(live, post.kv.replay).await?;
            post.kv = KvAddrs { live: Some(live), replay };
            let (to, batches) = mpsc::channel(UNSENT_MAX);
            let dropping = Rc::new(Cell::new(false));
            sockets.spawn(batches, dropping.clone());
            Some(Events::new(options.preset.block_size, dropping, to))
        }
        None => None,
    };
    let created = now() as f64;
    let metrics = Metrics::new(&options.preset, &options.model, options.tokens_max(), created);
    let report_every = options.stream_interval.max(1);
    let worker = Worker::new(&options.preset, options.speed, report_every, events, metrics);
    Ok((Rc::new(worker.into()), listener))
}

async fn listen_again(at: SocketAddr) -> io::Result<TcpListener> {
    for _ in 0..BIND_TRIES {
        if let Ok(listener) = listen(at) {
            return Ok(listener);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    listen(at)
}

fn service(post: &Post, worker: &Shared) -> Rc<Service> {
    let options = &post.options;
    // Another preset or another version of the model has another fingerprint, as in vLLM.
    let name = options.preset.name.bytes().chain(options.model.bytes());
    let print = name.fold(0, |word, byte| mixed(word ^ u64::from(byte)));
    Rc::new(Service {
        worker: worker.clone(),
        door: Door::default(),
        nth: post.nth,
        posts: post.posts.clone(),
        model: options.model.as_str().into(),
        model_json: json!(options.model).to_string().into(),
        fingerprint: format!("vllm-0.32.0-{:08x}", print as u32).into(),
        tokens_max: options.tokens_max(),
        block_size: options.preset.block_size,
        has_events: post.kv.live.is_some(),
        seed: options.seed,
        created: now(),
        count: Cell::default(),
        spellings: std::cell::RefCell::default(),
    })
}

/// Takes connections, for ever.
async fn accept(listener: TcpListener, service: Rc<Service>) {
    loop {
        let Ok((connection, _)) = listener.accept().await else {
            // Out of descriptors, most likely: those that are open end some time.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let _ = connection.set_nodelay(true);
        let service = service.clone();
        let answer = service_fn(move |request| service.clone().answer(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_MAX)
            .serve_connection(TokioIo::new(connection), answer);
        tokio::task::spawn_local(async move {
            // A client that breaks off is no fault of the worker's.
            let _ = connection.await;
        });
    }
}
