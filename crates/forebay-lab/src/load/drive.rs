//! Sends each request when it is due.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Rng, Span};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet, yield_now};
use tokio::time::Instant;

use super::alarm::Alarm;
use super::call::{self, Job, Run, Told};
use super::connect::Dialer;
use super::due::Agenda;
use super::secrets::Secrets;
use super::witness::{Ended, Witness};
use super::{Planned, Settings};
use crate::results::{Attempt, Fault, Outcome, Row};
use crate::simulate::Heard;

/// Requests are taken from the plan ahead of time only while nothing is due for so long: making
/// the body of the longest prompts takes a millisecond or two.
const CALM: Duration = Duration::from_millis(5);

/// Sends a plan, in the order of its moments, and hands over each row as its request ends.
///
/// A few requests are taken from the plan ahead of their moments, so that making their bodies is
/// not lag; no further ones are, so that a long plan needs no memory. What is due while
/// `in_flight_max` requests are under way goes out when one of them ends, and is late. The run is
/// over when the last request is, or when `stop` is: then what is under way is cancelled, and the
/// rest of the plan, which must have an end, is handed over as not sent.
pub async fn run(
    plan: impl Iterator<Item = Planned>,
    settings: &Settings,
    each: impl FnMut(Row),
    stop: impl Future<Output = ()>,
) -> Ended {
    if settings.targets.is_empty() {
        return Ended::default();
    }
    let mut driver = Driver::new(plan, settings, each);
    let mut alarm = Alarm::new();
    let mut stop = pin!(stop);
    loop {
        let next = driver.agenda.next().map(|at| driver.run.moment(at));
        if next.is_none() && driver.calls.is_empty() {
            return driver.over(false);
        }
        let has_room = driver.calls.len() < settings.in_flight_max.max(1);
        let due = next.filter(|_| has_room).unwrap_or_else(Instant::now);
        let is_calm = next.is_none_or(|next| next > Instant::now() + CALM);
        tokio::select! {
            biased;
            () = &mut stop => break,
            () = alarm.wait_until(due), if has_room && next.is_some() => {
                driver.begin();
                if driver.is_behind() {
                    // What was begun gets on its way before the next body is made: else a backlog
                    // would be begun as a whole, and be later than it says.
                    yield_now().await;
                }
            }
            Some(ended) = driver.calls.join_next(), if !driver.calls.is_empty() => {
                driver.settle(joined(ended), has_room);
            }
            () = yield_now(), if is_calm && driver.agenda.look_ahead() => {}
        }
        while let Some(ended) = driver.calls.try_join_next() {
            driver.settle(joined(ended), has_room);
        }
    }
    driver.stop().await;
    driver.over(true)
}

struct Driver<P: Iterator<Item = Planned>, E> {
    run: Arc<Run>,
    agenda: Agenda<P>,
    calls: JoinSet<Box<Job>>,
    each: E,
    rng: Rng,
    sent: u64,
    retries: u64,
    /// When there was room again after there had been none.
    room_since: Span,
}

impl<P: Iterator<Item = Planned>, E: FnMut(Row)> Driver<P, E> {
    fn new(plan: P, settings: &Settings, each: E) -> Self {
        let (start, witness) = (Instant::now(), Witness::new());
        settings.pulse.start(start);
        let dialer = |target| {
            Dialer::new(
                target,
                (&settings.transport, settings.reuse),
                start,
                Arc::clone(&witness.open),
            )
        };
        let dialers = settings.targets.iter().cloned().map(dialer).collect();
        let run = Run {
            settings: settings.clone(),
            dialers,
            secrets: Secrets::of(&settings.headers),
            start,
            witness,
            is_stopping: watch::Sender::new(false),
        };
        Self {
            run: Arc::new(run),
            agenda: Agenda::new(plan, settings),
            calls: JoinSet::new(),
            each,
            rng: Rng::new(settings.seed).fork("retries"),
            sent: 0,
            retries: 0,
            room_since: Span::ZERO,
        }
    }

    /// Sends what is due.
    fn begin(&mut self) {
        let Some(job) = self.agenda.take() else { return };
        let is_first = job.row.attempts.is_empty();
        self.sent += u64::from(is_first);
        let was_held_back = is_first && job.due < self.room_since;
        // What is spawned is moved several times on its way; a pointer is cheaper to move.
        self.calls.spawn(Box::pin(call::call(Arc::clone(&self.run), job)));
        self.run.witness.begins(self.calls.len(), was_held_back);
        self.run.settings.pulse.set_in_flight(self.calls.len());
    }

    /// Whether the next request is due already.
    fn is_behind(&self) -> bool {
        // Where nothing has been taken from the plan, nobody knows yet.
        self.agenda.known().is_none_or(|at| at <= self.run.elapsed())
    }

    /// An attempt has ended: the request comes back, or is over.
    fn settle(&mut self, mut job: Box<Job>, had_room: bool) {
        self.run.settings.pulse.set_in_flight(self.calls.len());
        let now = self.run.elapsed();
        if !had_room {
            self.room_since = now;
        }
        if let Some(due) = self.returns(&mut job) {
            job.due = due;
            self.agenda.again(job);
            return;
        }
        let end = job.row.last().map_or(now, |last| last.end);
        self.agenda.ended(&job, end);
        self.hand_over(job.row, false);
    }

    fn hand_over(&mut self, row: Row, was_interrupted: bool) {
        self.run.witness.ends(&row.attempts, row.is_warmup, was_interrupted);
        (self.each)(row);
    }

    /// When a client that was not served comes back, if it does.
    fn returns(&mut self, job: &mut Job) -> Option<Span> {
        let retry = self.run.settings.retry;
        let attempts = job.row.attempts.len() as u32;
        let is_over = job.is_given_up;
        let last = job.row.last().filter(|_| !is_over)?;
        let heard = heard(last, &job.told)?;
        let within = |budget| (self.retries + 1) as f64 <= budget * self.sent as f64;
        if !retry.budget.is_none_or(within) {
            return None;
        }
        let back = retry.client.returns_to(&heard, attempts, &mut self.rng)?;
        // Who is told to wait for longer than an answer may take goes away: a run has to end.
        if back.after > self.run.settings.patience {
            return None;
        }
        let due = last.end + back.after;
        let leaves = job.planned.leaves_after.map(|after| job.row.scheduled + after);
        if leaves.is_some_and(|leaves| due >= leaves) {
            return None;
        }
        job.shows_ticket = back.ticket;
        self.retries += 1;
        Some(due)
    }

    /// Ends everything that is under way, and hands over the rest.
    async fn stop(&mut self) {
        self.run.settings.pulse.stop();
        self.run.is_stopping.send_replace(true);
        while let Some(ended) = self.calls.join_next().await {
            self.hand_over(joined(ended).row, true);
        }
    }

    fn over(mut self, was_interrupted: bool) -> Ended {
        let seconds = self.run.elapsed().as_secs_f64();
        for row in self.agenda.left() {
            self.run.witness.ends(&row.attempts, row.is_warmup, was_interrupted);
            (self.each)(row);
        }
        self.run.settings.pulse.set_in_flight(0);
        let run = Arc::into_inner(self.run).expect("every call has ended");
        run.witness.ended(&run.settings, seconds, was_interrupted)
    }
}

/// What a client heard that may ask again; nothing where it was served, has left, or was sent the
/// beginning of a stream, which no client asks for twice.
fn heard(last: &Attempt, told: &Told) -> Option<Heard> {
    let is_success = last.status.is_some_and(|status| (200..300).contains(&status));
    let is_lost = match last.outcome {
        Outcome::Refused => false,
        // The SDKs read a whole answer before they return it, and a lost half is a lost whole.
        Outcome::TimedOut => !told.is_stream,
        Outcome::Failed if is_success => !told.is_stream && last.fault == Some(Fault::Cut),
        Outcome::Failed => last.status.is_none(),
        Outcome::Completed | Outcome::Cancelled | Outcome::NotSent => return None,
    };
    if is_success && !is_lost {
        return None;
    }
    let nothing = Heard { status: None, retry_after: None, should_retry: None };
    let Some(status) = last.status.filter(|_| !is_lost) else { return Some(nothing) };
    let (retry_after, should_retry) = (last.retry_after, told.should_retry);
    Some(Heard { status: Some(status), retry_after, should_retry })
}

fn joined(ended: Result<Box<Job>, JoinError>) -> Box<Job> {
    ended.expect("a call is never aborted, and a panic in one is a bug of ours")
}
