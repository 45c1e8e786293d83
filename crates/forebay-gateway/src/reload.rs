//! Puts a changed configuration in force while requests run.
//!
//! The file is read again at SIGHUP and whenever it has changed. One with faults changes nothing;
//! one that asks for what can't change while the gateway runs changes nothing either, and says what
//! it was. Certificates are read again when their files have changed, those for clients and those
//! for workers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay_core::PoolId;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::config::{Config, PoolTls};
use crate::gateway::Gateway;
use crate::listen::tls::Tls;
use crate::rules::Rules;
use crate::workers::connect::{WorkerTls, WorkerTlsError};
use crate::workers::discover::{Urls, by_name};
use crate::workers::{Reach, Source, WatchOptions};

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Follows the files that the gateway was started from.
pub(crate) struct Reload {
    gateway: Arc<Gateway>,
    config: Config,
    file: Option<PathBuf>,
    changed: Option<SystemTime>,
    tls: Option<Tls>,
    asked: Arc<Notify>,
    /// The names that are followed, by pool.
    names: Vec<Vec<AbortHandle>>,
    /// When the files of TLS to workers were last changed, by pool.
    worker_tls: Vec<TlsChanged>,
}

/// When the files of one pool's TLS were last changed, as far as that is known.
type TlsChanged = [Option<SystemTime>; 3];

impl Reload {
    /// Starts from what is in force, without workers yet: [`Reload::begin`] lists them.
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        config: Config,
        file: Option<PathBuf>,
        tls: Option<Tls>,
    ) -> Self {
        let names = config.pools.iter().map(|_| Vec::new()).collect();
        let worker_tls = config.pools.iter().map(|pool| tls_changed(&pool.tls)).collect();
        let changed = file.as_deref().and_then(changed);
        Self { gateway, config, file, changed, tls, asked: Arc::default(), names, worker_tls }
    }

    /// Whoever is told here has the files read at once.
    pub(crate) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.asked)
    }

    /// Lists the workers of the configuration.
    pub(crate) fn begin(&mut self) {
        let nothing = self.config.clone().without_workers();
        let config = std::mem::replace(&mut self.config, nothing);
        self.list(&config);
        self.config = config;
    }

    /// Follows the files for as long as it is polled.
    pub(crate) async fn follow(mut self) {
        loop {
            let asked = timeout(EVERY, self.asked.notified()).await.is_ok();
            self.certificates(asked);
            self.worker_certificates();
            let now = self.file.as_deref().and_then(changed);
            if asked || (now.is_some() && now != self.changed) {
                self.changed = now;
                self.read();
            }
        }
    }

    fn certificates(&self, asked: bool) {
        let Some(tls) = &self.tls else { return };
        if asked || tls.is_stale() {
            match tls.reload() {
                Ok(()) => tracing::info!("the certificate was read again"),
                Err(fault) => tracing::error!(%fault, "the certificate stays as it was"),
            }
        }
    }

    fn worker_certificates(&mut self) {
        let Some(fleet) = self.gateway.fleet.get() else { return };
        for (nth, pool) in self.config.pools.iter().enumerate() {
            let now = tls_changed(&pool.tls);
            if std::mem::replace(&mut self.worker_tls[nth], now) != now {
                tracing::info!(
                    pool = pool.name,
                    "the files of TLS to the pool's workers have changed"
                );
                fleet.speak_anew(nth);
            }
        }
    }

    fn read(&mut self) {
        let Some(file) = &self.file else { return };
        let new = match Config::load(file) {
            Ok(new) => new,
            Err(faults) => {
                return tracing::error!(%faults, "the configuration stays as it was");
            }
        };
        let fixed = self.config.diff_needs_restart(&new);
        if !fixed.is_empty() {
            let what = fixed.join(", ");
            return tracing::error!(
                what,
                "the configuration stays as it was: these need a new start"
            );
        }
        if let Err(fault) = tls_of_workers(&new) {
            return tracing::error!(%fault, "the configuration stays as it was");
        }
        let new = new.numbered_as(&self.config);
        if new == self.config {
            return tracing::info!("the configuration was read again, and is the same");
        }
        self.apply(&new);
        for what in self.config.diff_for_newcomers(&new) {
            tracing::warn!(what, "this holds only of what begins from now on");
        }
        new.cautions().iter().for_each(|caution| tracing::warn!("{caution}"));
        self.config = new;
        tracing::info!("the new configuration is in force");
    }

    fn apply(&mut self, new: &Config) {
        let secret = self.gateway.rules().secret.clone();
        let rules = Rules::of(new, secret);
        self.gateway.replace_rules(rules);
        for (nth, pool) in self.gateway.pools.iter().enumerate() {
            let settings = new.settings(PoolId(nth as u16));
            let running = pool.settings();
            // What was learned or decided while it runs is not in the file.
            let (block_size, accepting) = (running.block_size, running.accepting);
            let settings = forebay_core::Settings { block_size, accepting, ..settings };
            if settings != running {
                pool.reconfigure(settings);
            }
        }
        self.list(new);
    }

    /// Lists the workers of another configuration in place of those in force.
    fn list(&mut self, new: &Config) {
        let Some(fleet) = self.gateway.fleet.get() else { return };
        for (nth, (is, was)) in new.pools.iter().zip(&self.config.pools).enumerate() {
            let reach = Reach { headers: is.headers.clone(), tls: is.tls.clone() };
            fleet.reconfigure(nth, reach, WatchOptions::of(new, is));
            self.worker_tls[nth] = tls_changed(&is.tls);
            let urls = |of: &[_]| -> Urls { by_name(of.iter().cloned()) };
            fleet.list(nth, &Source::List, &urls(&was.workers), &urls(&is.workers));
            if (&is.dns, is.dns_interval) != (&was.dns, was.dns_interval) {
                self.names[nth].drain(..).for_each(|followed| followed.abort());
                let follow = |name: &_| fleet.follow_name(nth, Clone::clone(name), is.dns_interval);
                self.names[nth] = is.dns.iter().map(follow).collect();
            }
        }
    }
}

impl Drop for Reload {
    fn drop(&mut self) {
        self.names.iter().flatten().for_each(AbortHandle::abort);
    }
}

/// Whether TLS can be spoken to the workers of a configuration as it says: what can't be read of
/// the certificates is said before anything depends on it.
pub(crate) fn tls_of_workers(config: &Config) -> Result<(), WorkerTlsError> {
    for pool in &config.pools {
        for url in pool.workers.iter().chain(&pool.dns) {
            WorkerTls::of(&pool.tls, url)?;
        }
    }
    Ok(())
}

fn tls_changed(tls: &PoolTls) -> TlsChanged {
    let (cert, key) = tls.identity.as_ref().map(|(cert, key)| (cert, key)).unzip();
    [tls.ca.as_ref(), cert, key].map(|file| file.and_then(|file| changed(file)))
}

fn changed(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|meta| meta.modified()).ok()
}

#[cfg(test)]
mod tests;
