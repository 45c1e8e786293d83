//! Knows the workers of a pool and how to reach them.
//!
//! | module | answers |
//! |---|---|
//! | `connect` | how does a request get a connection to its worker? |
//! | `discover` | which workers are there, by lists and names? |
//! | `fetch` | what does a worker answer to a question of our own? |
//! | `figures` | what is known of a worker by its own figures, and since when? |
//! | `fleet` | which workers are watched, and what is asked for them? |
//! | `models` | which models does a worker serve? |
//! | `options` | how often, how long, how much? |
//! | `scrape` | what does a worker say of itself? |
//! | `silence` | has a worker stalled, and does it work again? |
//! | `state` | what becomes of a worker when something happens to it? |
//! | `watch` | is a worker well? |

pub(crate) mod connect;
pub(crate) mod discover;
mod fetch;
mod figures;
pub(crate) mod fleet;
mod models;
pub(crate) mod options;
mod scrape;
pub(crate) mod silence;
mod state;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use forebay_core::{Moment, WorkerId};
use http::HeaderValue;

use crate::config::WorkerUrl;
use connect::{IdleConnections, Manner};
pub(crate) use figures::FiguresView;
pub(crate) use fleet::{Fleet, JoinFault, Reach, Source, WorkerReport};
pub(crate) use models::Model;
use models::Models;
pub(crate) use options::WatchOptions;

/// One worker: where it is and how it is spoken to.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Its name for the core.
    pub(crate) id: WorkerId,
    /// Its URL, as its name in logs and metrics.
    pub(crate) name: Arc<str>,
    /// Where it is.
    pub(crate) url: WorkerUrl,
    /// What `Host` says to it.
    pub(crate) authority: HeaderValue,
    /// How it is spoken to from now on.
    manner: RwLock<Arc<Manner>>,
    /// Connections that wait for the next request.
    pub(crate) idle: IdleConnections,
    /// When the last byte came from it, on whatever connection.
    last_byte: AtomicU64,
    /// Streams that have begun and wait for its next piece.
    owing: AtomicU32,
    /// What it serves, as far as it says so.
    pub(crate) models: Models,
}

/// What a worker is made of.
pub(crate) struct WorkerParts {
    /// Where it is.
    pub(crate) url: WorkerUrl,
    /// How it is spoken to.
    pub(crate) manner: Manner,
}

impl Worker {
    /// Takes note of a sign of life.
    pub(crate) fn alive(&self, now: Moment) {
        self.last_byte.store(now.0, Ordering::Relaxed);
    }

    /// How it is spoken to.
    pub(crate) fn manner(&self) -> Arc<Manner> {
        Arc::clone(&self.manner.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has it spoken to in another way. What is on its way goes on as it began, and connections
    /// that were opened in the old way are used for nothing new.
    pub(crate) fn speak(&self, manner: Manner) {
        *self.manner.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(manner);
        self.idle.close();
    }

    /// Streams that have begun and wait for its next piece. One whose client is slow to read does
    /// not count: that is no fault of the worker.
    pub(crate) fn owing(&self) -> u32 {
        self.owing.load(Ordering::Relaxed)
    }

    /// When the last byte came from it; the start if none did.
    pub(crate) fn last_byte(&self) -> Moment {
        Moment(self.last_byte.load(Ordering::Relaxed))
    }
}

/// The workers of one pool, by their names for the core.
#[derive(Debug)]
pub(crate) struct Roster {
    lanes: usize,
    workers: RwLock<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    present: BTreeMap<WorkerId, Arc<Worker>>,
    /// Names already given, so that a worker that comes back keeps its own.
    names: BTreeMap<String, WorkerId>,
    next: u32,
}

/// Most workers whose names are remembered after they have left.
const NAMES_MAX: usize = 65_536;

impl Roster {
    /// A roster without workers, for a gateway with so many lanes.
    pub(crate) fn new(lanes: usize) -> Self {
        Self { lanes, workers: RwLock::default() }
    }

    /// Lists a worker; one that is listed already is replaced under the same name. The pool is told
    /// by whoever knows its profile.
    pub(crate) fn join(&self, parts: WorkerParts) -> Arc<Worker> {
        let mut listed = self.workers.write().unwrap_or_else(PoisonError::into_inner);
        let name = parts.url.to_string();
        if listed.names.len() >= NAMES_MAX {
            let Listed { present, names, .. } = &mut *listed;
            names.retain(|_, id| present.contains_key(id));
        }
        let id = listed.names.get(&name).copied().unwrap_or(WorkerId(listed.next));
        if id.0 == listed.next {
            listed.next += 1;
        }
        let authority = HeaderValue::from_str(&parts.url.authority)
            .unwrap_or_else(|_| HeaderValue::from_static("worker"));
        let worker = Arc::new(Worker {
            id,
            name: Arc::from(name.as_str()),
            url: parts.url,
            authority,
            manner: RwLock::new(Arc::new(parts.manner)),
            idle: IdleConnections::new(self.lanes),
            last_byte: AtomicU64::new(0),
            owing: AtomicU32::new(0),
            models: Models::default(),
        });
        listed.names.insert(name, id);
        listed.present.insert(id, Arc::clone(&worker));
        worker
    }

    /// Strikes a worker off the list. What runs on it goes on until it ends.
    pub(crate) fn leave(&self, id: WorkerId) -> Option<Arc<Worker>> {
        self.workers.write().unwrap_or_else(PoisonError::into_inner).present.remove(&id)
    }

    /// A worker by its name.
    pub(crate) fn get(&self, id: WorkerId) -> Option<Arc<Worker>> {
        let listed = self.workers.read().unwrap_or_else(PoisonError::into_inner);
        listed.present.get(&id).cloned()
    }

    /// All workers, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Worker>> {
        let listed = self.workers.read().unwrap_or_else(PoisonError::into_inner);
        listed.present.values().cloned().collect()
    }
}
