//! Follows the jobs of one request: what the engine writes down and the answer reads.
//!
//! There is no queue of tokens between the two. A ticket says how far each job has come, and the
//! text is made when the connection can take it, so a slow reader costs no memory and gets what it
//! missed in one event, as from vLLM.

use std::cell::{Cell, RefCell};
use std::task::Waker;

/// How far one job has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Prompt tokens found in the cache.
    pub(super) cached: u32,
    /// Tokens generated.
    pub(super) generated: u32,
    /// Whether that was the last one.
    pub(super) ended: bool,
}

/// The jobs of one request, in the order of its answers.
#[derive(Debug)]
pub(super) struct Ticket {
    progress: RefCell<Vec<Progress>>,
    dead: Cell<bool>,
    /// Whether only the end is something to read.
    only_end: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Ticket {
    /// So many jobs of which nothing is known.
    pub(super) fn new(jobs: usize) -> Self {
        Self {
            progress: RefCell::new(vec![Progress::default(); jobs]),
            dead: Cell::new(false),
            only_end: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    /// How far a job has come.
    pub(super) fn progress(&self, job: usize) -> Progress {
        self.progress.borrow()[job]
    }

    /// Whether all jobs have ended.
    pub(super) fn all_ended(&self) -> bool {
        self.progress.borrow().iter().all(|progress| progress.ended)
    }

    /// Whether the engine died before the end.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.get()
    }

    /// Writes down news of a job and wakes the reader if that is something to read.
    pub(super) fn note(&self, job: usize, news: impl FnOnce(&mut Progress)) {
        let before = self.progress(job);
        news(&mut self.progress.borrow_mut()[job]);
        let after = self.progress(job);
        let has_token = before.generated != after.generated && !self.only_end.get();
        if has_token || before.ended != after.ended {
            self.wake();
        }
    }

    /// Says that the engine has died.
    pub(super) fn note_death(&self) {
        self.dead.set(true);
        self.wake();
    }

    /// Says that the reader wants to know of the end only.
    pub(super) fn wait_for_end_only(&self) {
        self.only_end.set(true);
    }

    /// Remembers whom to wake.
    pub(super) fn wait(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
