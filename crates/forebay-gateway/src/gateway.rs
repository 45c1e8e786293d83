//! Holds what all requests share: pools, rules, bounds, and what is observed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::clock::Clock;
use crate::observe::Observe;
use crate::pool::Pool;
use crate::request::Retries;
use crate::rules::Rules;
use crate::tickets::Tickets;
use crate::workers::Fleet;

/// The gateway as a request sees it.
pub(crate) struct Gateway {
    /// The time of everything.
    pub(crate) clock: Clock,
    /// The pools; a [`PoolId`](forebay_core::PoolId) is a place in this list.
    pub(crate) pools: Vec<Arc<Pool>>,
    /// Places that are kept for clients who were refused.
    pub(crate) tickets: Tickets,
    /// Who may still repeat what broke.
    pub(crate) retries: Retries,
    /// The watch over the workers, once it has begun.
    pub(crate) fleet: OnceLock<Fleet>,
    /// What is counted and logged.
    pub(crate) observe: Observe,
    /// Bytes of bodies that are held at this moment.
    pub(crate) held: Held,
    rules: RwLock<Arc<Rules>>,
    leaving: AtomicBool,
    requests: AtomicU64,
    /// Told apart from other gateways' and other starts' requests by this.
    boot: u32,
}

impl Gateway {
    /// A gateway over these pools.
    pub(crate) fn new(clock: Clock, pools: Vec<Arc<Pool>>, rules: Rules, observe: Observe) -> Self {
        let boot = clock.unix_millis(clock.now()) as u32;
        Self {
            clock,
            pools,
            tickets: Tickets::new(&rules.secret),
            retries: Retries::default(),
            fleet: OnceLock::new(),
            observe,
            held: Held::default(),
            rules: RwLock::new(Arc::new(rules)),
            leaving: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            boot,
        }
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other rules in force, for requests from now on.
    pub(crate) fn replace_rules(&self, rules: Rules) {
        self.observe.reconfigure(&rules);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Says that the gateway is about to stop: it is not ready any more, and still serves.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// Whether the gateway is about to stop.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Whether a request that came now could be served: some pool has a worker that may be sent
    /// something.
    pub(crate) fn is_ready(&self) -> bool {
        let can_serve = |pool: &Arc<Pool>| pool.workers().iter().any(|worker| worker.usable);
        !self.is_leaving() && self.pools.iter().any(can_serve)
    }

    /// A name for a request whose client gave it none.
    pub(crate) fn name_request(&self) -> String {
        let nth = self.requests.fetch_add(1, Ordering::Relaxed);
        format!("req-{:08x}-{nth}", self.boot)
    }
}

/// Counts the bytes of bodies that are held, and gives them back when a [`Load`] goes.
#[derive(Debug, Default)]
pub(crate) struct Held(Arc<AtomicU64>);

/// Bytes of one body on the account of all.
#[derive(Debug)]
pub(crate) struct Load {
    held: Arc<AtomicU64>,
    bytes: u64,
}

impl Held {
    /// An account without bytes yet.
    pub(crate) fn open(&self) -> Load {
        Load { held: Arc::clone(&self.0), bytes: 0 }
    }

    /// Bytes that are held at this moment.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Load {
    /// Takes so many more, unless that would be more than there may be in all.
    pub(crate) fn grow(&mut self, bytes: u64, bytes_max: u64) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > bytes_max {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
