//! Infers when the first token was made, for requests whose answers come in one piece.
//!
//! The core counts a request as prefill work until its first token, and holds others back for it. A
//! streamed answer shows that moment; one that is not streamed shows nothing before its end. Left
//! alone, such a request would keep its worker closed for as long as it generates. So the moment is
//! inferred: engines prefill in the order of arrival, hence whatever was dispatched before a
//! request that has its first token has had its own; a worker that says that nothing waits inside
//! it has begun everything; and otherwise the work before it, at the rate that was seen, says when.

use std::collections::{BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use forebay_core::{Input, Moment, Observation, Outcome, RequestId, Span, Why, WorkerId};
use hashbrown::HashMap;

/// Prefill tokens a second of a worker that nothing is known of: about what a large model does on
/// one accelerator. Too high only fills the engine's own queue a little; too low leaves it idle.
const RATE_START: f64 = 4_000.0;
/// The newest sight's weight in the learned rate.
const NEWEST: f64 = 0.1;
/// Prompts with less work before them, in tokens, say more of a step's base time than of the rate.
const AHEAD_MIN: u64 = 64;
/// Sooner than this no first token is taken for granted.
const LEAST: Span = Span::millis(20);

/// Requests whose first token has not come, as far as anybody saw.
#[derive(Debug, Default)]
pub(super) struct Prefills {
    lines: HashMap<WorkerId, Line, FixedState>,
    open: HashMap<RequestId, Open, FixedState>,
    due: BTreeSet<(Moment, RequestId)>,
}

/// A request that waits for its worker, or for its first token there.
#[derive(Debug, Default)]
struct Open {
    /// Nobody will see its first token.
    blind: bool,
    worker: Option<WorkerId>,
    due: Option<Moment>,
}

/// What one worker has to prefill, in the order of dispatch.
#[derive(Debug)]
struct Line {
    requests: VecDeque<Prefill>,
    uncached: u64,
    /// Prefill tokens a second, as seen.
    rate: f64,
}

#[derive(Debug)]
struct Prefill {
    request: RequestId,
    at: Moment,
    uncached: u64,
    /// Uncached tokens before it and of its own, at its dispatch.
    ahead: u64,
}

impl Default for Line {
    fn default() -> Self {
        Self { requests: VecDeque::new(), uncached: 0, rate: RATE_START }
    }
}

impl Prefills {
    /// A request is about to arrive.
    pub(super) fn expect(&mut self, request: RequestId, blind: bool) {
        self.open.insert(request, Open { blind, ..Open::default() });
    }

    /// A request was sent to a worker.
    pub(super) fn dispatched(&mut self, now: Moment, request: RequestId, to: WorkerId, why: &Why) {
        self.leave(request);
        let cached = why.candidates.first().map_or(0, |chosen| chosen.cached.0);
        let uncached = why.prompt.0.saturating_sub(cached);
        let line = self.lines.entry(to).or_default();
        line.uncached += uncached;
        let ahead = line.uncached;
        line.requests.push_back(Prefill { request, at: now, uncached, ahead });
        let Some(open) = self.open.get_mut(&request) else { return };
        open.worker = Some(to);
        if open.blind {
            let due = now + Span::secs_f64(ahead as f64 / line.rate).max(LEAST);
            open.due = Some(due);
            self.due.insert((due, request));
        }
    }

    /// What an input says of other requests' first tokens, the earliest first.
    pub(super) fn hear(&mut self, now: Moment, input: &Input) -> Vec<RequestId> {
        let implied = match input {
            Input::FirstToken(request)
            | Input::Prefilled(request)
            | Input::Finished(request, Outcome::Completed { .. }) => self.before(*request),
            _ => Vec::new(),
        };
        match input {
            Input::FirstToken(request) | Input::Prefilled(request) => self.seen(now, *request),
            Input::Finished(request, Outcome::Backpressure | Outcome::Broke) => {
                self.leave(*request);
            }
            Input::Finished(request, _) | Input::Abandoned(request) => self.gone(*request),
            Input::Observed(
                worker,
                Observation::Left | Observation::Lost | Observation::Joined(_),
            ) => {
                self.lines.remove(worker);
            }
            _ => {}
        }
        implied
    }

    /// Blind requests dispatched to a worker no later than this.
    pub(super) fn dispatched_before(&self, worker: WorkerId, at: Moment) -> Vec<RequestId> {
        let Some(line) = self.lines.get(&worker) else { return Vec::new() };
        let early = line.requests.iter().take_while(|prefill| prefill.at <= at);
        early.map(|it| it.request).filter(|request| self.is_blind(*request)).collect()
    }

    /// Blind requests whose first token is taken for granted by now.
    pub(super) fn overdue(&self, now: Moment) -> Vec<RequestId> {
        self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, request)| *request).collect()
    }

    /// When to look at them next.
    pub(super) fn next(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A request is over.
    pub(super) fn gone(&mut self, request: RequestId) {
        self.leave(request);
        self.open.remove(&request);
    }

    fn is_blind(&self, request: RequestId) -> bool {
        self.open.get(&request).is_some_and(|open| open.blind)
    }

    /// Blind requests before this one on its worker.
    fn before(&self, request: RequestId) -> Vec<RequestId> {
        let worker = self.open.get(&request).and_then(|open| open.worker);
        let Some(line) = worker.and_then(|worker| self.lines.get(&worker)) else {
            return Vec::new();
        };
        let before = line.requests.iter().take_while(|it| it.request != request);
        before.map(|it| it.request).filter(|request| self.is_blind(*request)).collect()
    }

    fn seen(&mut self, now: Moment, request: RequestId) {
        let visible = !self.is_blind(request);
        let Some((worker, prefill)) = self.leave(request) else { return };
        let took = now.since(prefill.at).as_secs_f64();
        if let Some(line) = self.lines.get_mut(&worker)
            && visible
            && prefill.ahead >= AHEAD_MIN
            && took > 0.0
        {
            line.rate += NEWEST * (prefill.ahead as f64 / took - line.rate);
        }
    }

    /// Takes a request out of its worker's line.
    fn leave(&mut self, request: RequestId) -> Option<(WorkerId, Prefill)> {
        let open = self.open.get_mut(&request)?;
        if let Some(due) = open.due.take() {
            self.due.remove(&(due, request));
        }
        let worker = open.worker.take()?;
        let line = self.lines.get_mut(&worker)?;
        let nth = line.requests.iter().position(|it| it.request == request)?;
        let prefill = line.requests.remove(nth)?;
        line.uncached -= prefill.uncached;
        Some((worker, prefill))
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{
        Candidate, Cause, Input, Moment, Outcome, RequestId, Span, Tokens, Why, WorkerId,
    };

    use super::Prefills;

    fn why(prompt: u64, cached: u64) -> Why {
        let chosen = Candidate {
            worker: WorkerId(0),
            score: 0.0,
            cached: Tokens(cached),
            backlog: Tokens(0),
        };
        Why {
            cause: Cause::Pushed,
            mode: "hold",
            prompt: Tokens(prompt),
            expected_output: Tokens(1),
            occupancy: Tokens::ZERO,
            waited: Span::ZERO,
            predicted_wait: None,
            candidates: vec![chosen],
            workers_open: 1,
            gate: None,
            queue_len: 0,
            passed: 0,
            behind: None,
            attempt: 1,
        }
    }

    /// Dispatches requests 0, 1, … of 4,000 tokens each; says which are blind.
    fn line(blind: &[bool]) -> Prefills {
        let mut prefills = Prefills::default();
        for (nth, blind) in blind.iter().enumerate() {
            let request = RequestId(nth as u64);
            prefills.expect(request, *blind);
            prefills.dispatched(Moment::START, request, WorkerId(0), &why(4_000, 0));
        }
        prefills
    }

    #[test]
    fn a_first_token_implies_those_of_the_blind_before_it_and_of_no_others() {
        let mut prefills = line(&[true, false, true, false, true]);
        let told = prefills.hear(Moment::START, &Input::FirstToken(RequestId(3)));
        assert_eq!(told, [RequestId(0), RequestId(2)]);
        for request in told {
            assert_eq!(prefills.hear(Moment::START, &Input::Prefilled(request)), []);
        }
        let done = Input::Finished(RequestId(4), Outcome::Completed { output: Tokens(1) });
        assert_eq!(prefills.hear(Moment::START, &done), []);
    }

    #[test]
    fn a_blind_first_token_is_taken_for_granted_after_the_work_before_it() {
        let mut prefills = line(&[false, true]);
        assert_eq!(prefills.next(), Some(Moment::START + Span::secs(2)));
        assert_eq!(prefills.overdue(Moment::START + Span::secs(1)), []);
        assert_eq!(prefills.overdue(Moment::START + Span::secs(2)), [RequestId(1)]);
        prefills.hear(Moment::START, &Input::Prefilled(RequestId(1)));
        assert_eq!(prefills.next(), None);
    }

    #[test]
    fn the_rate_is_learned_from_the_first_tokens_that_are_seen() {
        let mut prefills = line(&[false; 40]);
        for nth in 0..40 {
            let now = Moment::START + Span::millis(100 * (nth + 1));
            prefills.hear(now, &Input::FirstToken(RequestId(nth)));
        }
        prefills.expect(RequestId(50), true);
        prefills.dispatched(Moment::START, RequestId(50), WorkerId(0), &why(4_000, 0));
        let due = prefills.next().expect("it is blind").since(Moment::START);
        assert!(due < Span::millis(120), "{due}");
    }

    #[test]
    fn nothing_is_left_of_requests_that_are_over_whatever_their_end() {
        let mut prefills = line(&[true, true, true, true]);
        let finished = |nth, outcome| Input::Finished(RequestId(nth), outcome);
        prefills.hear(Moment::START, &finished(0, Outcome::Backpressure));
        prefills.hear(Moment::START, &finished(0, Outcome::ClientFault));
        prefills.hear(Moment::START, &finished(1, Outcome::BrokeMidStream));
        prefills.hear(Moment::START, &Input::Abandoned(RequestId(2)));
        prefills.hear(Moment::START, &finished(3, Outcome::Completed { output: Tokens(1) }));
        assert!(prefills.open.is_empty() && prefills.due.is_empty());
        assert!(prefills.lines.values().all(|it| it.requests.is_empty() && it.uncached == 0));
    }
}
