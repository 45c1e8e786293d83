//! Wakes a pool's core when it asked for it.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::Moment;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::clock::Clock;

/// An alarm clock that can be set from any thread.
#[derive(Debug)]
pub(super) struct Alarm {
    at: AtomicU64,
    changed: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { at: AtomicU64::new(u64::MAX), changed: Notify::new() }
    }
}

impl Alarm {
    /// Sets it. Only an earlier moment than the one it is set to wakes whoever waits: ringing once
    /// too often costs less than a wake-up at every change.
    pub(super) fn set(&self, at: Option<Moment>) {
        let at = at.map_or(u64::MAX, |at| at.0);
        if at < self.at.fetch_min(at, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }

    /// Waits until it rings, and clears it.
    pub(super) async fn rings(&self, clock: &Clock) {
        loop {
            let at = Moment(self.at.load(Ordering::Acquire));
            let changed = self.changed.notified();
            if at == Moment::MAX {
                changed.await;
                continue;
            }
            tokio::select! {
                () = sleep_until(Instant::from_std(clock.instant(at))) => {
                    if clock.now() >= at {
                        self.at.store(u64::MAX, Ordering::Release);
                        return;
                    }
                }
                () = changed => {}
            }
        }
    }
}
