//! Says what holds for requests: who may ask for what, and within which bounds. All of it can be
//! replaced while requests run; each request keeps the rules that it began with.

use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use forebay_core::{ClassId, TenantId};
use hashbrown::HashMap;

use crate::config::{ApiKey, Config};

/// What holds for requests.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Who presents which key.
    pub(crate) keys: Keys,
    /// Whoever presents none, if that is allowed.
    pub(crate) anonymous: Option<Identity>,
    /// The pool of each model.
    pub(crate) models: HashMap<String, usize, FixedState>,
    /// The pool of a request that names a model nobody lists, or none: there is only one pool, and
    /// its models were not listed.
    pub(crate) sole_pool: Option<usize>,
    /// Names of the classes; a [`ClassId`] is a place in this list.
    pub(crate) classes: Vec<ClassRule>,
    /// Names of the tenants that are listed.
    pub(crate) tenants: Vec<String>,
    /// The bounds in time.
    pub(crate) timeouts: Timeouts,
    /// The bounds on bodies.
    pub(crate) bodies: Bodies,
    /// Whether streams are made to tell their usage, by pool.
    pub(crate) ask_usage: Vec<bool>,
    /// Retries of what broke, as a share of a tenant's requests.
    pub(crate) retry_share: f64,
    /// Retries that a tenant has for nothing, however few its requests.
    pub(crate) retry_floor: u32,
    /// How often a streaming client that waits is sent a comment; never if `None`.
    pub(crate) progress: Option<Duration>,
    /// Signs tickets. The same on every gateway that may see a client again.
    pub(crate) secret: Vec<u8>,
}

impl Rules {
    /// The rules of a configuration; `secret` signs tickets.
    pub(crate) fn of(config: &Config, secret: Vec<u8>) -> Self {
        let identity = |key: &ApiKey| Identity {
            tenant: key.tenant,
            class: key.class,
            models: key.models.as_deref().map(Arc::from),
            admin: key.admin,
        };
        let models = config.pools.iter().enumerate();
        let models = models.flat_map(|(nth, pool)| pool.models.iter().map(move |it| (it, nth)));
        let classes = config.service.classes.iter();
        Self {
            keys: Keys::new(config.keys.iter().map(|key| (key.sha256, identity(key)))),
            anonymous: config.anonymous.map(|tenant| Identity {
                tenant,
                class: config.service.tenants[tenant.0 as usize]
                    .class
                    .map(|class| ClassId(class as u16)),
                models: None,
                admin: config.admin_is_open,
            }),
            models: models.map(|(model, nth)| (model.clone(), nth)).collect(),
            sole_pool: match config.pools.as_slice() {
                [only] if only.models.is_empty() => Some(0),
                _ => None,
            },
            classes: classes.map(|class| ClassRule { name: class.name.clone() }).collect(),
            tenants: config.service.tenants.iter().map(|tenant| tenant.name.clone()).collect(),
            timeouts: Timeouts {
                connect: config.timeouts.connect,
                first_byte: config.timeouts.first_byte_max.unwrap_or(FOREVER),
                idle: config.timeouts.idle_max,
                total: config.timeouts.total_max,
            },
            bodies: Bodies {
                bytes_max: config.listen.body_bytes_max,
                held_bytes_max: config.listen.bodies_bytes_max,
                time_max: config.listen.body_time_max,
            },
            ask_usage: config.pools.iter().map(|pool| pool.ask_usage).collect(),
            retry_share: config.retries.budget_share,
            retry_floor: config.retries.budget_floor,
            progress: config.progress,
            secret,
        }
    }
}

/// Longer than anything is waited for: a year.
const FOREVER: Duration = Duration::from_hours(365 * 24);

/// What a request needs to know of its class.
#[derive(Clone, Debug)]
pub(crate) struct ClassRule {
    /// Its name.
    pub(crate) name: String,
}

/// The bounds in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// To connect to a worker, TLS included.
    pub(crate) connect: Duration,
    /// From a dispatch to the first byte of the answer.
    pub(crate) first_byte: Duration,
    /// Between two pieces of an answer.
    pub(crate) idle: Duration,
    /// From the arrival of a request to the end of its answer.
    pub(crate) total: Duration,
}

/// The bounds on bodies.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "a bound's name ends in `_max`")]
pub(crate) struct Bodies {
    /// Most bytes of one.
    pub(crate) bytes_max: u64,
    /// Most bytes of all together.
    pub(crate) held_bytes_max: u64,
    /// The time that one may take to come.
    pub(crate) time_max: Duration,
}

/// Whoever a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Whom it is accounted to.
    pub(crate) tenant: TenantId,
    /// Its class, unless it may choose.
    pub(crate) class: Option<ClassId>,
    /// The models it may ask for; all of them if `None`.
    pub(crate) models: Option<Arc<[String]>>,
    /// Whether it may use the admin API.
    pub(crate) admin: bool,
}

/// Digests of keys, and who presents them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(HashMap<[u8; 8], Vec<Key>, FixedState>);

/// The digest of a key, and who presents it.
type Key = ([u8; 32], Identity);

impl Keys {
    /// These keys.
    pub(crate) fn new(keys: impl IntoIterator<Item = ([u8; 32], Identity)>) -> Self {
        let mut table: HashMap<_, Vec<_>, FixedState> = HashMap::default();
        for (digest, identity) in keys {
            table.entry(beginning(&digest)).or_default().push((digest, identity));
        }
        Self(table)
    }

    /// Whether there are none, so that nobody needs one.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who presents the key with this digest.
    ///
    /// The table is entered by a part of the digest, which tells a stranger nothing: he can't
    /// choose keys by what their digests begin with. The rest is compared in constant time all the
    /// same.
    pub(crate) fn holder(&self, digest: &[u8; 32]) -> Option<&Identity> {
        use subtle::ConstantTimeEq as _;
        let bucket = self.0.get(&beginning(digest))?;
        let mut holder = None;
        for (known, identity) in bucket {
            if bool::from(known.ct_eq(digest)) {
                holder = Some(identity);
            }
        }
        holder
    }
}

fn beginning(digest: &[u8; 32]) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    bytes
}
