//! Puts the gateway together from its configuration, and runs it until it is told to stop.
//!
//! Two kinds of threads: *lanes* carry connections with everything that happens on them, and the
//! *house*, the thread that calls [`serve`], takes connections in, wakes the cores, watches the
//! workers and listens for signals.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_core::PoolId;
use forebay_service::Start;
use forebay_wire::openai::Endpoint;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::runtime;
use tokio::task::AbortHandle;

use crate::admin;
use crate::clock::Clock;
use crate::config::{Access, Config, ConfigError};
use crate::gateway::Gateway;
use crate::listen::signals::obey_signals;
use crate::listen::tls::{Tls, TlsClients, TlsError, TlsFiles};
use crate::listen::{
    Bound, ConnectionCounts, Handle, Handling, Listening, Peer, Phase, Stop, StopTimes,
};
use crate::observe::{AccessLog, LogTo, Observe};
use crate::otel::{self, TracerError};
use crate::pool::{Pool, PoolParts};
use crate::record::{Recordings, UnwritableRecording};
use crate::reload::{Reload, tls_of_workers};
use crate::request::{self, From, ReplyBody};
use crate::rules::Rules;
use crate::tickets;
use crate::workers::connect::WorkerTlsError;
use crate::workers::{Fleet, Reach, WatchOptions};

/// Why the gateway could not run: what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can't be listened on.
    #[error(
        "{addr}: {cause}\nhint: see that the port is free and may be used, or listen elsewhere: \
         `--listen`, or `address` under `[listen]` of the file"
    )]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// What the system says. It is in the message, so it is no `source` of it.
        cause: io::Error,
    },
    /// The certificates of the gateway can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// TLS to workers can't be spoken as configured.
    #[error(transparent)]
    WorkerTls(#[from] WorkerTlsError),
    /// The folder for recordings can't be used.
    #[error(transparent)]
    Recording(#[from] UnwritableRecording),
    /// The system refuses something that every program needs.
    #[error("{what}: {cause}\nhint: see what the system's limits on threads and files are")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says. It is in the message, so it is no `source` of it.
        cause: io::Error,
    },
    /// A new configuration could not be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl std::convert::From<TracerError> for ServeError {
    fn from(error: TracerError) -> Self {
        match error {
            TracerError::Tls(error) => Self::WorkerTls(error),
            TracerError::System(cause) => Self::System { what: "requests can't be traced", cause },
        }
    }
}

/// The longest that the end waits for spans to be sent: a collector that answers takes them in
/// milliseconds, and who stops a gateway does not want to wait for one that does not.
const SPANS_TIME_MAX: Duration = Duration::from_secs(3);

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |cause| ServeError::System { what, cause }
}

/// A gateway that runs in the background.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    stop: Stop,
    house: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Running {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Asks it to stop; asked again it hurries.
    pub fn ask_to_stop(&self) {
        self.stop.ask();
    }

    /// Stops it, unless it was asked to stop before, and waits until it has ended. What it has
    /// accepted has the time that is configured.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.stop.begin();
        self.wait()
    }

    fn wait(&mut self) -> Result<(), ServeError> {
        match self.house.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.house.is_some() {
            for _ in 0..3 {
                self.stop.ask();
            }
            drop(self.wait());
        }
    }
}

/// Runs a gateway in the background. Signals are not listened to.
pub fn start(config: Config) -> Result<Running, ServeError> {
    let built = Built::of(config)?;
    let (addr, stop) = (built.bound.local_addr(), Stop::default());
    let told = stop.clone();
    let house = std::thread::Builder::new()
        .name("house".to_owned())
        .spawn(move || built.run(&told, Told::default()))
        .map_err(system("a thread can't be started"))?;
    Ok(Running { addr, stop, house: Some(house) })
}

/// Runs a gateway until a signal has stopped it. `file` is read again at SIGHUP and whenever it
/// changes; `listening` is called once connections are taken.
pub fn serve(
    config: Config,
    file: Option<PathBuf>,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let built = Built::of(config)?;
    listening(built.bound.local_addr());
    built.run(&Stop::default(), Told { file, by_signals: true })
}

/// What a gateway hears of besides requests while it runs.
#[derive(Debug, Default)]
struct Told {
    /// The file that it was started from, which may change.
    file: Option<PathBuf>,
    /// Whether signals of the system stop it, or have the file read.
    by_signals: bool,
}

/// A gateway that is put together, and listens to nobody yet.
struct Built {
    gateway: Arc<Gateway>,
    config: Config,
    bound: Bound,
    counts: Arc<ConnectionCounts>,
    tls: Option<Tls>,
    recordings: Option<Recordings>,
}

impl Built {
    fn of(config: Config) -> Result<Self, ServeError> {
        config.cautions().iter().for_each(|caution| tracing::warn!("{caution}"));
        let clock = Clock::start();
        let lanes = lanes(&config);
        let mut recordings = match &config.record {
            None => None,
            Some(to) => {
                Some(Recordings::prepare(&to.dir, to.bytes_max, config.pools.len(), &clock)?)
            }
        };
        let mut pools = Vec::new();
        for nth in 0..config.pools.len() {
            pools.push(pool(&config, nth, (lanes, clock), recordings.as_mut())?);
        }
        let secret = match &config.ticket_secret {
            Some(secret) => secret.0.clone(),
            None => tickets::random_secret().map_err(system("no random bytes can be had"))?,
        };
        let rules = Rules::of(&config, secret);
        let mut observe = Observe::new(config.pools.iter().map(|pool| pool.name.as_str()), &rules);
        if config.log.access == Access::Json {
            let to = config.log.file.clone().map_or(LogTo::Stderr, LogTo::File);
            let log =
                AccessLog::open(to, clock).map_err(system("the access log can't be opened"))?;
            observe = observe.with_access_log(log);
        }
        observe = observe.with_tracer(otel::tracer(&config, clock)?);
        if let Some(recordings) = &recordings {
            observe = observe.with_recordings(recordings.states());
        }
        let gateway = Gateway::new(clock, pools, rules, observe);
        let tls = tls(&config)?;
        let bound = listening(&config, lanes, tls.as_ref())
            .bind()
            .map_err(|cause| ServeError::Bind { addr: config.listen.address, cause })?;
        let counts = Arc::<ConnectionCounts>::default();
        gateway.observe.show_connections(Arc::clone(&counts));
        Ok(Self { gateway: Arc::new(gateway), config, bound, counts, tls, recordings })
    }

    /// Runs until stopped, on the thread that it is called on.
    fn run(mut self, stop: &Stop, told: Told) -> Result<(), ServeError> {
        let house = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(system("a runtime can't be made"))?;
        house.block_on(async {
            let chores = self.chores(stop, told)?;
            let served = self.bound.serve(
                Arc::new(Door { gateway: Arc::clone(&self.gateway) }),
                self.counts,
                stop.clone(),
            );
            let served = served.await.map_err(system("connections can't be taken"))?;
            chores.iter().for_each(AbortHandle::abort);
            if let Some(recordings) = self.recordings {
                self.gateway.pools.iter().for_each(|pool| pool.forget_diary());
                recordings.finish();
            }
            if served.cut > 0 {
                tracing::warn!(connections = served.cut, "stopped: connections were cut in use");
            } else {
                tracing::info!("stopped: nothing is left");
            }
            // Nothing else is left to do on this thread, so that it may wait.
            if let Some(tracer) = self.gateway.observe.tracer() {
                tracer.close(SPANS_TIME_MAX);
            }
            Ok(())
        })
    }

    /// The watch over the workers, which goes on on this thread.
    fn watch(&self) {
        let pools = self.gateway.pools.iter().zip(&self.config.pools).map(|(pool, meant)| {
            let reach = Reach { headers: meant.headers.clone(), tls: meant.tls.clone() };
            (Arc::clone(pool), reach, WatchOptions::of(&self.config, meant))
        });
        let house = runtime::Handle::current();
        self.gateway.fleet.get_or_init(|| Fleet::new(house, pools));
    }

    /// Everything that goes on beside the connections.
    fn chores(&mut self, stop: &Stop, told: Told) -> Result<Vec<AbortHandle>, ServeError> {
        let mut chores = Vec::new();
        self.watch();
        for pool in &self.gateway.pools {
            let pool = Arc::clone(pool);
            chores.push(tokio::spawn(pool.keep_awake()).abort_handle());
        }
        tls_of_workers(&self.config)?;
        let (gateway, tls) = (Arc::clone(&self.gateway), self.tls.take());
        let mut reload = Reload::new(gateway, self.config.clone(), told.file, tls);
        reload.begin();
        if told.by_signals {
            let bell = reload.bell();
            let obeyed = obey_signals(stop.clone(), move || bell.notify_one());
            chores.push(tokio::spawn(async { drop(obeyed.await) }).abort_handle());
        }
        chores.push(tokio::spawn(reload.follow()).abort_handle());
        chores.push(tokio::spawn(leave(Arc::clone(&self.gateway), stop.clone())).abort_handle());
        Ok(chores)
    }
}

/// One pool of the configuration, with its recording if there is one.
fn pool(
    config: &Config,
    nth: usize,
    (lanes, clock): (usize, Clock),
    recordings: Option<&mut Recordings>,
) -> Result<Arc<Pool>, ServeError> {
    let (id, meant) = (PoolId(nth as u16), &config.pools[nth]);
    let (settings, seed) = (config.settings(id), nth as u64);
    let classes = names(config.service.classes.iter().map(|class| &class.name));
    let tenants = names(config.service.tenants.iter().map(|tenant| &tenant.name));
    let start = Start { settings: &settings, seed, classes: &classes, tenants: &tenants };
    let diary = match recordings {
        None => None,
        Some(recordings) => Some(recordings.begin(&meant.name, &start)?),
    };
    let parts = PoolParts {
        id,
        name: meant.name.clone(),
        settings,
        seed,
        bytes_per_token: meant.bytes_per_token,
        lanes,
        diary,
    };
    Ok(Arc::new(Pool::new(parts, clock)))
}

fn names<'a>(of: impl Iterator<Item = &'a String>) -> Vec<String> {
    of.cloned().collect()
}

/// Follows a stop through its stages, and says of each what is left as it begins.
async fn leave(gateway: Arc<Gateway>, stop: Stop) {
    stop.reached(Phase::Unready).await;
    gateway.leave();
    let (waiting, running) = left(&gateway);
    tracing::info!(waiting, running, "stopping: not ready any more, and still serves");
    stop.reached(Phase::Draining).await;
    gateway.pools.iter().for_each(|pool| pool.close());
    let (waiting, running) = left(&gateway);
    tracing::info!(waiting, running, "stopping: takes no connections, and answers what is here");
    stop.reached(Phase::Ending).await;
    let (refused, broken_off) = left(&gateway);
    gateway.pools.iter().for_each(|pool| pool.end());
    if refused + broken_off > 0 {
        tracing::warn!(
            refused,
            broken_off,
            "stopping: the time is over; what waits is refused as draining, what runs is broken off"
        );
    }
}

/// Requests that wait, and that run.
fn left(gateway: &Gateway) -> (usize, usize) {
    let census = gateway.pools.iter().map(|pool| pool.census());
    census.fold((0, 0), |(waiting, running), it| (waiting + it.waiting, running + it.running))
}

fn lanes(config: &Config) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    config.listen.threads.unwrap_or_else(cores).max(1)
}

/// The listener's part of the configuration.
fn listening(config: &Config, lanes: usize, tls: Option<&Tls>) -> Listening {
    let listen = &config.listen;
    Listening {
        addr: listen.address,
        tls: tls.map(|tls| Arc::clone(&tls.config)),
        connections_max: Some(listen.connections_max),
        connections_per_peer_max: listen.connections_per_peer_max,
        headers_bytes_max: listen.headers_bytes_max,
        headers_max: listen.headers_max,
        header_time_max: listen.header_time_max,
        idle_time_max: listen.idle_time_max,
        streams_max: listen.streams_max,
        lanes: Some(lanes),
        stop: StopTimes {
            notice: notice(config),
            drain_max: config.timeouts.drain_max,
            ..StopTimes::default()
        },
        ..Listening::default()
    }
}

/// How long connections are taken after readiness has gone down: whoever sends traffic from
/// elsewhere takes a few seconds to notice, and nobody does on the same machine.
fn notice(config: &Config) -> Duration {
    if config.listen.address.ip().is_loopback() {
        return Duration::ZERO;
    }
    StopTimes::default().notice.min(config.timeouts.drain_max / 4)
}

/// The certificates that the gateway shows and asks for, if it speaks TLS.
pub(crate) fn tls(config: &Config) -> Result<Option<Tls>, TlsError> {
    let Some(files) = &config.listen.tls else { return Ok(None) };
    let clients = files.client_ca.clone();
    let files = TlsFiles {
        certificates: files.cert.clone(),
        key: files.key.clone(),
        clients: clients.map(|authorities| TlsClients { authorities, required: true }),
    };
    Tls::load(files).map(Some)
}

/// Hands each request to whoever answers it.
struct Door {
    gateway: Arc<Gateway>,
}

impl Handle for Door {
    type Body = ReplyBody;

    fn handle(self: Arc<Self>, request: Request<Incoming>, peer: &Peer) -> Handling<ReplyBody> {
        let gateway = Arc::clone(&self.gateway);
        let from = From { peer: peer.addr, lane: peer.lane };
        if Endpoint::from_path(request.uri().path()).is_none() {
            return Box::pin(own_page(gateway, request, from));
        }
        Box::pin(request::serve(&gateway, request, (from, peer.patience.clone())))
    }
}

/// Answers what is asked of the gateway itself.
async fn own_page(
    gateway: Arc<Gateway>,
    request: Request<Incoming>,
    from: From,
) -> Response<ReplyBody> {
    let (head, body) = request.into_parts();
    let fleet = gateway.fleet.get();
    let page = match fleet.filter(|_| admin::workers::is_for(head.uri.path())) {
        Some(fleet) => admin::workers::workers(&gateway, fleet, (&head, body), from).await,
        None => admin::page(&gateway, &head, from),
    };
    page.unwrap_or_else(|denial| request::deny(&gateway, head, &denial))
}
