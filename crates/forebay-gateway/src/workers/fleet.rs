//! Watches all workers: lists them, and takes what is asked for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use forebay_core::{Span, WorkerId, WorkerView};
use http::header::HeaderMap;
use tokio::runtime::Handle;

use super::connect::{Manner, WorkerTls, WorkerTlsError};
use super::figures::FiguresView;
use super::options::WatchOptions;
use super::state::Event;
use super::watch::{ProbeFault, Watched};
use super::{Model, WorkerParts};
use crate::config::{PoolTls, WorkerUrl};
use crate::pool::Pool;

/// How the workers of a pool are spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// What is sent along with every request.
    pub(crate) headers: HeaderMap,
    /// With what TLS is spoken to those whose URL says so.
    pub(crate) tls: PoolTls,
}

/// Where a worker was named. One that is named in several places leaves with the last of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// In the configuration.
    List,
    /// Behind a DNS name.
    Name(String),
    /// Through the admin API.
    Admin,
}

/// Why a worker can't join.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinFault {
    /// There is no such pool.
    #[error("there is no such pool")]
    NoPool,
    /// The pool has as many workers as it may.
    #[error("the pool has {0} workers, and may have no more")]
    Full(u32),
    /// TLS can't be spoken to it as configured.
    #[error(transparent)]
    Tls(#[from] WorkerTlsError),
}

/// What is shown of a worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerReport {
    /// Its URL.
    pub(crate) name: Arc<str>,
    /// Its state in one word.
    pub(crate) state: &'static str,
    /// Why its last probe failed, if it did.
    pub(crate) probe_fault: Option<ProbeFault>,
    /// Its account in the core, if the core knows it.
    pub(crate) account: Option<WorkerView>,
    /// What it says of itself.
    pub(crate) figures: FiguresView,
    /// Since its last byte, if one came.
    pub(crate) quiet: Option<Span>,
    /// What it serves.
    pub(crate) models: Arc<[Model]>,
}

/// All workers that are watched.
#[derive(Clone)]
pub(crate) struct Fleet(Arc<Inner>);

struct Inner {
    /// Where the watching goes on.
    house: Handle,
    pools: Vec<Watch>,
}

/// The watch over one pool.
struct Watch {
    pool: Arc<Pool>,
    meant: RwLock<(Reach, Arc<WatchOptions>)>,
    kept: Mutex<BTreeMap<String, Kept>>,
}

struct Kept {
    watched: Arc<Watched>,
    sources: BTreeSet<Source>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fleet")
    }
}

impl Fleet {
    /// A watch over these pools, on this runtime, without workers yet. A pool's place in the list
    /// is its id.
    pub(crate) fn new(
        house: Handle,
        pools: impl IntoIterator<Item = (Arc<Pool>, Reach, WatchOptions)>,
    ) -> Self {
        let watch = |(pool, reach, options)| Watch {
            pool,
            meant: RwLock::new((reach, Arc::new(options))),
            kept: Mutex::default(),
        };
        Self(Arc::new(Inner { house, pools: pools.into_iter().map(watch).collect() }))
    }

    /// Has workers spoken to and watched in another way: those that join, and with their next
    /// request, probe or reading those that are there. What is assumed of a worker where its
    /// engine tells nothing changes only when it joins or starts anew.
    pub(crate) fn reconfigure(&self, pool: usize, reach: Reach, options: WatchOptions) {
        let Some(watch) = self.0.pools.get(pool) else { return };
        let options = Arc::new(options);
        let before = {
            let mut meant = watch.meant.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *meant, (reach, Arc::clone(&options))).0
        };
        for known in watch.kept().values() {
            known.watched.take_options(Arc::clone(&options));
        }
        if before != watch.meant().0 {
            self.speak_anew(pool);
        }
    }

    /// Reads the files of a pool's TLS again, and has all of its workers spoken to by what they
    /// hold now. Where they have faults nothing changes, and the log says so.
    pub(crate) fn speak_anew(&self, pool: usize) {
        let Some(watch) = self.0.pools.get(pool) else { return };
        let (reach, _) = watch.meant();
        let kept = watch.kept();
        let workers = || kept.values().map(|known| &known.watched.worker);
        let config = workers().any(|it| it.url.tls).then(|| WorkerTls::config(&reach.tls));
        let spoken = config.transpose().and_then(|config| {
            for worker in workers() {
                let config = config.clone().filter(|_| worker.url.tls);
                let with = |config| WorkerTls::with(config, &reach.tls, &worker.url);
                let tls = config.map(with).transpose()?;
                worker.speak(Manner { headers: reach.headers.clone(), tls });
            }
            Ok(())
        });
        if let Err(fault) = spoken {
            let pool = &watch.pool.name;
            tracing::error!(pool, %fault, "the pool's workers are spoken to as before");
        }
    }

    /// The pools, in order.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.0.pools.iter().map(|watch| &watch.pool)
    }

    /// Takes a worker in, or takes back that it should leave.
    pub(crate) fn join(
        &self,
        pool: usize,
        url: &WorkerUrl,
        source: Source,
    ) -> Result<WorkerId, JoinFault> {
        let watch = self.0.pools.get(pool).ok_or(JoinFault::NoPool)?;
        let name = url.to_string();
        let mut kept = watch.kept();
        if let Some(known) = kept.get_mut(&name)
            && !known.watched.is_gone()
        {
            // Named again after it had been dropped everywhere, or by the one who drained it.
            if known.sources.is_empty() || source == Source::Admin {
                known.watched.happens(Event::Undrain);
            }
            known.sources.insert(source);
            return Ok(known.watched.worker.id);
        }
        let workers_max = watch.pool.settings().limits.workers_max;
        if kept.len() >= workers_max as usize {
            return Err(JoinFault::Full(workers_max));
        }
        let (reach, options) = watch.meant();
        let tls = WorkerTls::of(&reach.tls, url)?;
        let manner = Manner { headers: reach.headers, tls };
        let parts = WorkerParts { url: url.clone(), manner };
        let worker = watch.pool.roster.join(parts);
        let id = worker.id;
        let watched = Arc::new(Watched::new(worker, Arc::clone(&watch.pool), options));
        let fleet = Arc::downgrade(&self.0);
        self.0.house.spawn(keep(fleet, pool, name.clone(), Arc::clone(&watched)));
        kept.insert(name, Kept { watched, sources: BTreeSet::from([source]) });
        Ok(id)
    }

    /// A source does not name a worker any more: it leaves once nothing runs on it, unless another
    /// source names it.
    pub(crate) fn unlist(&self, pool: usize, name: &str, source: &Source) {
        let Some(watch) = self.0.pools.get(pool) else { return };
        let mut kept = watch.kept();
        let Some(known) = kept.get_mut(name) else { return };
        if known.sources.remove(source) && known.sources.is_empty() {
            known.watched.happens(Event::Leave);
        }
    }

    /// Takes this list for the one of a source: joins what is new in it, and drops what is not in
    /// it any more. What was there before and is there still is left alone, whatever was asked
    /// for it through the admin API.
    pub(crate) fn list(
        &self,
        pool: usize,
        source: &Source,
        before: &BTreeMap<String, WorkerUrl>,
        urls: &BTreeMap<String, WorkerUrl>,
    ) {
        for (name, url) in urls.iter().filter(|(name, _)| !before.contains_key(*name)) {
            if let Err(fault) = self.join(pool, url, source.clone()) {
                let pool = self.0.pools.get(pool).map(|watch| watch.pool.name.as_str());
                tracing::error!(pool, worker = %name, %fault, "worker can't join");
            }
        }
        for name in before.keys().filter(|name| !urls.contains_key(*name)) {
            self.unlist(pool, name, source);
        }
    }

    /// Drains a worker; whether there is one of that name. It stays drained until it is undrained
    /// or leaves.
    pub(crate) fn drain(&self, name: &str) -> bool {
        self.each(name, |known| known.watched.happens(Event::Drain))
    }

    /// Takes a drain back; whether there is a worker of that name.
    pub(crate) fn undrain(&self, name: &str) -> bool {
        self.each(name, |known| known.watched.happens(Event::Undrain))
    }

    /// Lets a worker leave, once nothing runs on it or `now`; whether there is one of that name.
    /// Sources that still name it don't bring it back before they have dropped it once.
    pub(crate) fn leave(&self, name: &str, now: bool) -> bool {
        self.each(name, |known| {
            known.sources.clear();
            known.watched.happens(if now { Event::LeaveNow } else { Event::Leave });
        })
    }

    /// The workers of a pool, in the order of their names.
    pub(crate) fn reports(&self, pool: usize) -> Vec<WorkerReport> {
        let Some(watch) = self.0.pools.get(pool) else { return Vec::new() };
        let accounts: BTreeMap<WorkerId, WorkerView> =
            watch.pool.workers().into_iter().map(|view| (view.worker, view)).collect();
        let kept = watch.kept();
        let present = kept.values().filter(|known| !known.watched.is_gone());
        present.map(|known| report(&known.watched, &accounts)).collect()
    }

    /// The state of a worker in one word, if there is one of that name.
    pub(crate) fn state(&self, name: &str) -> Option<&'static str> {
        let states = self.0.pools.iter().filter_map(|watch| {
            let kept = watch.kept();
            kept.get(name)
                .filter(|known| !known.watched.is_gone())
                .map(|known| known.watched.word())
        });
        states.into_iter().next()
    }

    /// Where the watching goes on.
    pub(super) fn house(&self) -> &Handle {
        &self.0.house
    }

    fn each(&self, name: &str, mut act: impl FnMut(&mut Kept)) -> bool {
        let mut found = false;
        for watch in &self.0.pools {
            if let Some(known) = watch.kept().get_mut(name)
                && !known.watched.is_gone()
            {
                act(known);
                found = true;
            }
        }
        found
    }
}

impl Watch {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meant(&self) -> (Reach, Arc<WatchOptions>) {
        self.meant.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Watches a worker until it is forgotten, and strikes it off the lists.
async fn keep(fleet: Weak<Inner>, pool: usize, name: String, watched: Arc<Watched>) {
    // Boxed, since it holds all that is asked of a worker at once.
    Box::pin(watched.watch()).await;
    let Some(fleet) = fleet.upgrade() else { return };
    let Some(watch) = fleet.pools.get(pool) else { return };
    let mut kept = watch.kept();
    // Another one may have its name by now.
    if kept.get(&name).is_some_and(|known| Arc::ptr_eq(&known.watched, &watched)) {
        kept.remove(&name);
        watch.pool.roster.leave(watched.worker.id);
    }
}

fn report(watched: &Watched, accounts: &BTreeMap<WorkerId, WorkerView>) -> WorkerReport {
    let worker = &watched.worker;
    let last = Some(worker.last_byte()).filter(|at| *at > forebay_core::Moment::START);
    WorkerReport {
        name: Arc::clone(&worker.name),
        state: watched.word(),
        probe_fault: watched.fault(),
        account: accounts.get(&worker.id).copied(),
        figures: watched.figures(),
        quiet: last.map(|at| watched.now().since(at)),
        models: worker.models.get(),
    }
}
