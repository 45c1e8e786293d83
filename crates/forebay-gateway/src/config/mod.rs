//! Reads what was configured: the gateway's file, or its few flags.
//!
//! The file goes through two forms. `document.rs` holds it as typed; `resolve.rs` and its siblings
//! turn that into what is meant, and find every fault on the way. [`defaults`] is the one table of
//! what holds where nothing was said. The classes, tenants, the gate and limits are read by
//! `forebay-service`, as the lab reads them.

mod cautions;
pub mod defaults;
mod document;
mod keys;
mod listen;
mod otel;
mod pools;
mod reload;
mod resolve;
mod shown;
#[cfg(test)]
mod tests;
mod worker_url;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_core::{ClassId, Knowledge, Overload, PoolId, Settings, TenantId, Tokens};
use forebay_core::{ClassSettings, WorkerProfile};
use forebay_service::reader::{Gathered, Section};
use forebay_service::text_file::{self, UnreadableFile};
use forebay_service::{Door, Faults, Service};
use http::HeaderMap;

pub use forebay_core::Mode;
pub use worker_url::{WorkerUrl, WorkerUrlError};

/// Tokens in a block of the prefix hashes where nobody said, until a worker's engine and its model
/// say more: a prompt of 220 KB has 430 blocks then, which cost 40 µs.
pub const BLOCK_SIZE_START: u32 = 128;

/// What was configured, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where the gateway listens, and its bounds on connections and requests.
    pub listen: Listen,
    /// Classes, tenants, the gate and limits, as the lab reads them. A [`ClassId`] and a
    /// [`TenantId`] are places in its lists; a class spills to places in [`Config::pools`].
    pub service: Service,
    /// The pools, at least one. A [`PoolId`] is a place in this list.
    pub pools: Vec<Pool>,
    /// The keys that clients present. Without any, see [`Config::anonymous`].
    pub keys: Vec<ApiKey>,
    /// Whom a request without a key is accounted to; `None` where a key is needed.
    pub anonymous: Option<TenantId>,
    /// Whether the admin API needs no key: there is none, and only this machine can connect.
    pub admin_is_open: bool,
    /// Bounds in time.
    pub timeouts: Timeouts,
    /// Bounds on retries.
    pub retries: Retries,
    /// How workers are probed.
    pub health: Health,
    /// How workers' metrics are read.
    pub scrape: Scrape,
    /// Where the core's inputs are recorded, if they are.
    pub record: Option<Record>,
    /// What is logged.
    pub log: Log,
    /// How often a streaming client that waits is sent a comment line; never if `None`.
    pub progress: Option<Duration>,
    /// Signs the tickets of refused clients; drawn at the start if `None`.
    pub ticket_secret: Option<Secret>,
    /// Where requests go as traces, if they do; only in builds with the feature `otel`.
    pub otel: Option<Otel>,
}

/// Where the gateway listens, and its bounds on connections and requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: SocketAddr,
    /// Number of threads; one for each core if `None`.
    pub threads: Option<usize>,
    /// Most connections at once.
    pub connections_max: usize,
    /// Most connections at once from one address; as many as there may be if `None`.
    pub connections_per_peer_max: Option<usize>,
    /// Most bytes of a request's line and headers.
    pub headers_bytes_max: usize,
    /// Most headers of a request.
    pub headers_max: usize,
    /// The longest that a request's line and headers may take to come.
    pub header_time_max: Duration,
    /// Most bytes of one body.
    pub body_bytes_max: u64,
    /// The longest that a body may take to come.
    pub body_time_max: Duration,
    /// Most bytes of all bodies that are held at once.
    pub bodies_bytes_max: u64,
    /// The longest that a connection without a request is kept.
    pub idle_time_max: Duration,
    /// Most requests at once on one HTTP/2 connection.
    pub streams_max: u32,
    /// With what TLS is spoken, if it is.
    pub tls: Option<ListenTls>,
}

/// With what TLS is spoken to clients. All are PEM files that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenTls {
    /// The certificate and those it was signed by.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Signs the certificates that clients must present, if they must.
    pub client_ca: Option<PathBuf>,
}

/// One pool: the workers that serve the same models.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// The models that clients ask it for. If empty and this is the only pool, whatever its
    /// workers say; if empty and there are others, requests come by spilling only.
    pub models: Vec<String>,
    /// How a worker is chosen.
    pub mode: Mode,
    /// Where knowledge of the workers' caches comes from.
    pub knowledge: Knowledge,
    /// Tokens in one block of the prefix hashes; if `None`, as fine as the engine's own and as
    /// coarse as the longest prompt of its model asks for.
    pub block_size: Option<u32>,
    /// Bytes of text in one token, until that is learned.
    pub bytes_per_token: f64,
    /// A constant in place of the learned mean output.
    pub expected_output: Option<Tokens>,
    /// What holds of a worker where its engine tells nothing.
    pub profile: WorkerProfile,
    /// The workers that are listed.
    pub workers: Vec<WorkerUrl>,
    /// Names: every address behind one is a worker.
    pub dns: Vec<WorkerUrl>,
    /// How often the names are asked for.
    pub dns_interval: Duration,
    /// What is sent along with every request, for instance a key of the workers. Values are marked
    /// as sensitive.
    pub headers: HeaderMap,
    /// Whether streams are made to tell their usage. It is taken out again for clients that did
    /// not ask for it.
    pub ask_usage: bool,
    /// With what TLS is spoken to workers whose URL says so.
    pub tls: PoolTls,
}

/// With what TLS is spoken to workers. All are PEM files that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolTls {
    /// Signs the workers' certificates; the system's own authorities do if `None`.
    pub ca: Option<PathBuf>,
    /// The certificate that is presented, and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name in the workers' certificates; that of the URL if `None`.
    pub server_name: Option<String>,
}

/// A key that clients present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its SHA-256 digest.
    pub sha256: [u8; 32],
    /// Whom its requests are accounted to.
    pub tenant: TenantId,
    /// The class of its requests: its own, else its tenant's.
    pub class: Option<ClassId>,
    /// The models it may ask for; all if `None`.
    pub models: Option<Vec<String>>,
    /// Whether it opens the admin API.
    pub admin: bool,
}

/// Bounds in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect to a worker, TLS included.
    pub connect: Duration,
    /// From a dispatch to the first byte of the answer; without limit if `None`.
    pub first_byte_max: Option<Duration>,
    /// Between two pieces of an answer.
    pub idle_max: Duration,
    /// From the arrival of a request to the end of its answer.
    pub total_max: Duration,
    /// From the signal to stop until what still runs is broken off.
    pub drain_max: Duration,
}

/// Bounds on retries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retries {
    /// The share of a tenant's requests that may be retries, 0 to 1.
    pub budget_share: f64,
    /// Retries that a tenant has beside its share.
    pub budget_floor: u32,
}

/// How workers are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The path that is asked for.
    pub path: String,
    /// From the end of one probe to the next.
    pub interval: Duration,
    /// The longest that an answer may take.
    pub timeout: Duration,
    /// Failures in a row after which a worker is not sent anything new.
    pub failures: u32,
    /// Successes in a row after which it is again.
    pub successes: u32,
}

/// How workers' metrics are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrape {
    /// The path that is asked for.
    pub path: String,
    /// From the end of one reading to the next.
    pub interval: Duration,
    /// The age above which figures are not believed any more.
    pub stale_max: Duration,
}

/// Where the core's inputs are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The folder.
    pub dir: PathBuf,
    /// Most bytes of one pool's recording.
    pub bytes_max: u64,
}

/// What is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The access log.
    pub access: Access,
    /// The file that it is appended to; standard error if `None`.
    pub file: Option<PathBuf>,
}

/// Where requests go as traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Otel {
    /// The collector, without the path of traces.
    pub endpoint: WorkerUrl,
    /// Signs its certificate; the system's own authorities do if `None`.
    pub ca: Option<PathBuf>,
    /// What is sent along, for instance a key. Values are marked as sensitive.
    pub headers: HeaderMap,
    /// What the gateway is called in traces.
    pub service_name: String,
    /// The share of requests that are traced, 0 to 1, where their clients have not decided.
    pub sample_ratio: f64,
    /// Most requests that wait to be sent.
    pub queue_len_max: usize,
    /// Most requests that are sent together.
    pub batch_len_max: usize,
    /// The longest that a request waits for others to be sent with.
    pub interval: Duration,
    /// The longest that sending may take, from the connection to the answer.
    pub timeout: Duration,
}

/// The form of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// There is none.
    #[default]
    Off,
    /// A JSON object for each request, one a line.
    Json,
}

/// Bytes that nobody must see.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why a configuration could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read at all.
    #[error(transparent)]
    Unreadable(#[from] UnreadableFile),
    /// It was read, and these are its faults.
    #[error(transparent)]
    Faulty(#[from] Faults),
    /// The flags have faults: what and what to do, one after the other.
    #[error("{0}")]
    Flags(String),
}

impl Config {
    /// Reads the gateway's file, and the files that it names.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Ok(Self::parse(file, &text_file::read(file)?)?)
    }

    /// Reads the text of a gateway's file; `file` names it in faults, and the files that it names
    /// are looked for beside it.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let mut found = Gathered::new(text);
        let table = found.toml(text);
        let mut root = Section::root(&table);
        let document = document::Document::read(&mut root, &mut found);
        let service = Service::door(&mut root, &document.pool_names(), &mut found);
        root.finish(&mut found);
        let folder = file.parent().unwrap_or(Path::new(""));
        let config = resolve::resolve(&document, service, folder, &mut found);
        found.finish(file, config)
    }

    /// What holds without a file: one pool of these workers, one class that queues.
    pub fn from_flags(
        listen: Option<&str>,
        mode: Mode,
        workers: &[String],
    ) -> Result<Self, ConfigError> {
        let mut found = Gathered::new("");
        let document = document::Document::of_flags(listen, mode, workers);
        let config = resolve::resolve(&document, Service::single(), Path::new(""), &mut found);
        let told = |faults: Faults| {
            let fault =
                |fault: &forebay_service::Fault| format!("{}\nhint: {}", fault.what, fault.remedy);
            faults.faults.iter().map(fault).collect::<Vec<_>>().join("\n")
        };
        found.finish(Path::new(""), config).map_err(|faults| ConfigError::Flags(told(faults)))
    }

    /// Records to this folder, whatever was configured, and as much as was.
    pub fn record_to(&mut self, dir: PathBuf) {
        let bytes_max = defaults::RECORD_BYTES_MAX.value() as u64;
        let bytes_max = self.record.as_ref().map_or(bytes_max, |record| record.bytes_max);
        self.record = Some(Record { dir, bytes_max });
    }

    /// What the core of one pool is told.
    ///
    /// Only pools that clients ask for a model apply the tenants' rates and limits of concurrency:
    /// what was let in there and then spilled is the same request, and must not be counted twice.
    pub fn settings(&self, pool: PoolId) -> Settings {
        let meant = &self.pools[usize::from(pool.0)];
        let class = |settings: ClassSettings| match settings.overload {
            // Where it was spilled to it waits for as long as it takes.
            Overload::Spill(target) if target == pool => {
                ClassSettings { overload: Overload::Queue, wait_max: None, ..settings }
            }
            _ => settings,
        };
        let classes = self.service.classes.iter().map(|known| class(known.settings)).collect();
        let lets_in = self.pools.len() == 1 || !meant.models.is_empty();
        let door = Door {
            mode: meant.mode,
            knowledge: meant.knowledge,
            block_size: meant.block_size.unwrap_or(BLOCK_SIZE_START),
            expected_output: meant.expected_output,
        };
        self.service.settings_of(classes, lets_in, door)
    }
}
