//! Gives a request a seat: it waits there for its decision, and whatever becomes of it, the core is
//! told exactly once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use forebay_core::{Input, Outcome, RequestId, Tokens};

use super::{Pool, Remembered, Verdict};

/// The part of a seat that the pool holds, too.
#[derive(Debug, Default)]
pub(super) struct Shared {
    news: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    decision: Option<Remembered>,
    waker: Option<Waker>,
}

impl Shared {
    /// Puts a decision down, and says whom to wake. A newer one replaces one not yet read: the
    /// worker of the older one has gone.
    pub(super) fn give(&self, decision: Remembered) -> Option<Waker> {
        let mut inner = self.lock();
        inner.decision = Some(decision);
        self.news.store(true, Ordering::Release);
        inner.waker.take()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that the core knows of. Dropping it tells the core that the client has gone, unless
/// it was settled before.
#[derive(Debug)]
pub(crate) struct Seat {
    pool: Arc<Pool>,
    request: RequestId,
    shared: Arc<Shared>,
    /// The core has let go of it, or is about to.
    settled: bool,
    last: Option<Input>,
    /// Whom the pool will wake, as far as this side knows.
    waits: Option<Waker>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Seat {
    pub(super) fn new(pool: Arc<Pool>, request: RequestId, shared: Arc<Shared>) -> Self {
        Self { pool, request, shared, settled: false, last: None, waits: None }
    }

    /// The pool it sits in.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Waits for the next decision.
    #[cfg(test)]
    pub(crate) async fn decision(&mut self) -> Remembered {
        std::future::poll_fn(|cx| self.poll_decision(cx)).await
    }

    /// The next decision, if there is one. Costs one load where there is none and the waker stays
    /// the same.
    pub(crate) fn poll_decision(&mut self, cx: &mut Context<'_>) -> Poll<Remembered> {
        let mut inner = self.shared.lock();
        if let Some(decision) = inner.decision.take() {
            self.waits = None;
            self.shared.news.store(false, Ordering::Relaxed);
            if !matches!(decision.what, Verdict::Dispatched(..)) {
                // The core has let go of it.
                self.settled = true;
            }
            return Poll::Ready(decision);
        }
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
            self.waits.clone_from(&inner.waker);
        }
        Poll::Pending
    }

    /// Ready once a decision lies there unread: the worker was lost under a running request. Costs
    /// one load where nothing has changed.
    pub(crate) fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_news() {
            return Poll::Ready(());
        }
        if !self.waits.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            let mut inner = self.shared.lock();
            inner.waker = Some(cx.waker().clone());
            self.waits.clone_from(&inner.waker);
            drop(inner);
            // It may have come before the waker was there.
            return if self.has_news() { Poll::Ready(()) } else { Poll::Pending };
        }
        Poll::Pending
    }

    fn has_news(&self) -> bool {
        self.shared.news.load(Ordering::Acquire)
    }

    /// Tells the core of the first token.
    pub(crate) fn first_token(&self) {
        self.pool.tell(Input::FirstToken(self.request));
    }

    /// Tells the core how far the answer has come.
    pub(crate) fn progress(&self, generated: u64) {
        self.pool.tell(Input::Progress(self.request, Tokens(generated)));
    }

    /// The worker was of no use before the first byte: another decision comes.
    pub(crate) fn try_elsewhere(&self, outcome: Outcome) {
        debug_assert!(
            matches!(outcome, Outcome::Backpressure | Outcome::Broke),
            "no byte was sent"
        );
        let state = self.pool.lock();
        // A decision that lies there unread says that the core knows: the worker has left.
        if !self.has_news() {
            drop(self.pool.round(state, Input::Finished(self.request, outcome)));
        }
    }

    /// The request is over.
    pub(crate) fn settle(mut self, outcome: Outcome) {
        if !self.settled {
            self.settled = true;
            self.last = Some(Input::Finished(self.request, outcome));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.settled {
            self.last = Some(Input::Abandoned(self.request));
        }
        self.pool.leave(self.request, self.last.take());
    }
}
