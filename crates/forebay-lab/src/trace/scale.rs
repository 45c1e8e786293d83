//! Changes the rate of a trace and keeps what its requests share.
//!
//! *Thinning* leaves out whole conversations: with single requests left out at random, the turns
//! that stay would lose the prefixes that they share with those that went, and the trace would get
//! harder, not only thinner. *Superposition* adds copies, as if more people of the same sort came.
//! A copy's conversations are new ones, so the ids that only they hold are new; the prefixes that
//! many requests share (see [`FORKS_MIN`](super::FORKS_MIN)), such as a system prompt, stay the
//! same in every copy. Each copy starts a little later than the one before, else every burst would
//! come out as many times as high. *Time* scaling ([`speed_up`]) is the simplest: the same
//! requests, sooner.

use std::collections::BinaryHeap;

use forebay_core::{Rng, Span, mixed};
use hashbrown::HashSet;

use super::order::{Held, Row};
use super::prefixes::Prefixes;
use super::{Requests, TraceError, TraceRequest};

/// The largest factor: beyond it, a description with a higher rate says more.
pub const FACTOR_MAX: f64 = 1000.0;

/// How a trace's rate is to change.
#[derive(Clone, Copy, Debug)]
pub struct Scaling {
    /// The new rate as a multiple of the old, above 0.
    pub factor: f64,
    /// Which conversations stay, and when copies start.
    pub seed: u64,
    /// Copies start within this time of the original.
    pub spread: Span,
}

/// The same requests at a rate `factor` times as high: every time is divided by it.
///
/// Delays stay as they are. They are the time that people or tools take between turns, which a
/// busier service does not shorten; and as sessions begin `factor` times as often, so do their
/// later turns.
pub fn speed_up(requests: Requests, factor: f64) -> Requests {
    assert!(factor > 0.0 && factor.is_finite(), "a rate's factor is above 0, not {factor}");
    // The rounded quotient is monotone, so the order of time stays.
    let sooner = move |at: Span| Span((at.0 as f64 / factor).round() as u64);
    Box::new(requests.map(move |request| {
        request.map(|request| TraceRequest { at: sooner(request.at), ..request })
    }))
}

/// What the first reading of a trace teaches.
struct Survey {
    /// Ids that end a prefix shared by many.
    shared: HashSet<u64, foldhash::fast::FixedState>,
    /// Ids a copy is moved by; `None` where they are too large for that.
    id_step: Option<u64>,
    session_step: Option<u64>,
}

impl Survey {
    fn of(requests: Requests, copies: u64) -> Result<Self, TraceError> {
        let mut prefixes = Prefixes::new();
        let (mut id_max, mut session_max) = (0, 0);
        for request in requests {
            let request = request?;
            id_max = request.ids.iter().copied().fold(id_max, u64::max);
            session_max = session_max.max(request.session.unwrap_or(0));
            prefixes.learn(&request);
        }
        let entries = prefixes.ids.into_entries();
        let shared = entries.filter(|(_, seen)| seen.is_shared()).map(|(id, _)| id).collect();
        let step = |max: u64| max.checked_add(1).filter(|step| step.checked_mul(copies).is_some());
        Ok(Self { shared, id_step: step(id_max), session_step: step(session_max) })
    }

    /// Ids at the prompt's start that stay the same in every copy.
    fn shared_ids(&self, request: &TraceRequest) -> usize {
        request.ids.iter().rposition(|id| self.shared.contains(id)).map_or(0, |last| last + 1)
    }
}

/// The number that a copy has in place of `number`: apart from all others exactly where there is
/// room to move, else by a bijection per copy that makes a collision unlikely.
fn moved(number: u64, step: Option<u64>, copy: u64) -> u64 {
    match (copy, step) {
        (0, _) => number,
        (_, Some(step)) => number + step * copy,
        (_, None) => mixed(number ^ mixed(copy)),
    }
}

/// The requests at `factor` times their rate, thinned or superposed. Reads the trace twice, so
/// `reopen` is called twice and must give the same requests.
pub fn scale(
    reopen: impl Fn() -> Result<Requests, TraceError>,
    scaling: Scaling,
) -> Result<Requests, TraceError> {
    let factor = scaling.factor;
    assert!(factor > 0.0 && factor <= FACTOR_MAX, "a rate's factor is above 0, not {factor}");
    let whole = factor.floor() as u64;
    let copies = factor.ceil() as u64;
    let survey = Survey::of(reopen()?, copies)?;
    let mut rng = Rng::new(scaling.seed).fork("scale");
    let salt = rng.next_u64();
    let shifts = (0..copies).map(|copy| match copy {
        0 => Span::ZERO,
        _ => Span(rng.below(scaling.spread.0.saturating_add(1))),
    });
    let shifts = shifts.collect();
    Ok(Box::new(Scaled {
        source: Some(reopen()?),
        survey,
        whole,
        fraction: factor - whole as f64,
        shifts,
        salt,
        held: BinaryHeap::new(),
        read: 0,
        pushed: 0,
        now: Span::ZERO,
    }))
}

struct Scaled {
    source: Option<Requests>,
    survey: Survey,
    /// Copies that are complete, the original among them.
    whole: u64,
    /// Share of conversations in the copy after those.
    fraction: f64,
    shifts: Vec<Span>,
    salt: u64,
    /// Requests of later copies whose time has not come.
    held: BinaryHeap<Held>,
    read: u64,
    pushed: u64,
    now: Span,
}

impl Scaled {
    /// Puts the copies of a request among those held.
    fn copy(&mut self, request: &TraceRequest) {
        self.now = request.at;
        self.read += 1;
        let shared = self.survey.shared_ids(request);
        // A conversation is known by its session, else by its first id that nobody else holds, else
        // it is one request.
        let key = request.session.or_else(|| request.ids.get(shared).copied());
        let key = key.map_or(mixed(!self.read), mixed);
        for copy in 0..self.shifts.len() as u64 {
            let draw = (mixed(key ^ self.salt) >> 11) as f64 / (1_u64 << 53) as f64;
            if copy >= self.whole && draw >= self.fraction {
                continue;
            }
            let mut request = request.clone();
            request.at = request.at + self.shifts[copy as usize];
            if copy > 0 {
                let step = self.survey.id_step;
                let ids = request.ids.iter().enumerate();
                request.ids = ids
                    .map(|(nth, id)| if nth < shared { *id } else { moved(*id, step, copy) })
                    .collect();
                let session_step = self.survey.session_step;
                request.session = request.session.map(|session| moved(session, session_step, copy));
            }
            self.held.push(Held(Row { line: self.pushed, request }));
            self.pushed += 1;
        }
    }
}

impl Iterator for Scaled {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // What is read later is not earlier than what was read last.
            let due = self.held.peek().is_some_and(|Held(row)| row.request.at <= self.now);
            let Some(source) = self.source.as_mut().filter(|_| !due) else {
                return self.held.pop().map(|Held(row)| Ok(row.request));
            };
            match source.next() {
                Some(Ok(request)) => self.copy(&request),
                Some(Err(error)) => {
                    self.source = None;
                    self.held.clear();
                    return Some(Err(error));
                }
                None => self.source = None,
            }
        }
    }
}
