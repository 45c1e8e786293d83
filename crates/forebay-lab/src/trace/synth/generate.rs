//! Makes the requests of a description, one by one and in bounded memory.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use forebay_core::{Rng, Span, Tokens};

use super::description::{Description, Kind, Names, Session, Way};
use super::length::Deck;
use crate::trace::{Requests, TraceRequest, bounded};

impl Description {
    /// The requests, in order of time. The same seed gives the same requests; `limit` replaces the
    /// description's own number of them.
    ///
    /// Memory holds one window of arrivals and the conversations that may still be continued,
    /// however many requests are asked for.
    pub fn requests(&self, seed: u64, limit: Option<u64>) -> Requests {
        let limit = limit.unwrap_or(self.requests);
        let made = Generator::new(self.clone(), seed, limit).map(Ok);
        bounded(Box::new(made), Path::new(&self.name))
    }
}

/// A conversation that may be continued.
#[derive(Clone)]
struct Conversation {
    session: u64,
    prompt: u64,
    output: u64,
    ids: Arc<[u64]>,
    class: Option<Arc<str>>,
    tenant: Option<Arc<str>>,
}

/// The sources of draws of one kind: one for each question, so that a change in one shifts no
/// other's.
struct Draws {
    prefix: Rng,
    suffix: Deck,
    output: Deck,
    question: Deck,
    goes_on: Deck,
    delay: Deck,
    parent: Rng,
}

impl Draws {
    fn new(root: &Rng, nth: usize) -> Self {
        let fork = |question: &str| root.fork(&format!("kind {nth} {question}"));
        Self {
            prefix: fork("prefix"),
            suffix: Deck::new(fork("suffix")),
            output: Deck::new(fork("output")),
            question: Deck::new(fork("question")),
            goes_on: Deck::new(fork("goes on")),
            delay: Deck::new(fork("delay")),
            parent: fork("parent"),
        }
    }
}

struct Generator {
    description: Arc<Description>,
    arrivals: Rng,
    kinds: Deck,
    names: Rng,
    draws: Vec<Draws>,
    left: u64,
    /// Arrival times of the current window, the latest first.
    window: Vec<Span>,
    windows: u64,
    /// Turns of the current session that are still to be given.
    turns: VecDeque<TraceRequest>,
    /// For each kind, the conversations seen last.
    recent: Vec<Vec<Conversation>>,
    /// For each kind, conversations begun or continued so far.
    seen: Vec<usize>,
    /// For each kind, the id of its first prefix's first block.
    prefix_start: Vec<u64>,
    id_next: u64,
    session_next: u64,
}

impl Generator {
    fn new(description: Description, seed: u64, limit: u64) -> Self {
        let mut id_next = 0;
        let prefix_start = description
            .kinds
            .iter()
            .map(|kind| {
                let start = id_next;
                id_next += kind.prefix_ids * kind.prefixes.0.len() as u64;
                start
            })
            .collect();
        let root = Rng::new(seed).fork("synth");
        let kinds = description.kinds.len();
        Self {
            description: Arc::new(description),
            arrivals: root.fork("arrivals"),
            kinds: Deck::new(root.fork("kinds")),
            names: root.fork("names"),
            draws: (0..kinds).map(|nth| Draws::new(&root, nth)).collect(),
            left: limit,
            window: Vec::new(),
            windows: 0,
            turns: VecDeque::new(),
            recent: vec![Vec::new(); kinds],
            seen: vec![0; kinds],
            prefix_start,
            id_next,
            session_next: 1,
        }
    }

    /// Draws the times of the next window. Within a window each arrival falls anywhere by itself,
    /// as in a Poisson process whose count is known, so only the count per window is even.
    fn next_window(&mut self) {
        let window_s = self.description.window_s();
        let per_window = self.description.per_s * window_s;
        let count_to = |windows: u64| (per_window * windows as f64).round() as u64;
        let count = count_to(self.windows + 1) - count_to(self.windows);
        let rng = &mut self.arrivals;
        let times: Vec<Span> = match self.description.bursts {
            None => {
                let start = window_s * self.windows as f64;
                (0..count).map(|_| Span::secs_f64(start + window_s * rng.unit())).collect()
            }
            Some(bursts) => {
                let period = Span::secs_f64(bursts.period_s).0;
                let first = self.windows * u64::from(bursts.even_over);
                let within = |rng: &mut Rng| Span::secs_f64(bursts.width_s * rng.unit()).0;
                (0..count)
                    .map(|_| {
                        let burst = first + rng.below(u64::from(bursts.even_over));
                        let start = period.saturating_mul(burst);
                        Span(start.saturating_add(if bursts.width_s > 0.0 {
                            within(rng)
                        } else {
                            0
                        }))
                    })
                    .collect()
            }
        };
        self.window = times;
        self.window.sort_unstable_by(|one, other| other.cmp(one));
        self.windows += 1;
    }

    fn arrival(&mut self, at: Span) -> TraceRequest {
        let nth = self.description.kind_shares.place(self.kinds.unit());
        let description = Arc::clone(&self.description);
        let kind = &description.kinds[nth];
        let Some(session) = &kind.session else {
            let conversation = self.begun(nth, kind, false);
            return self.request(at, &conversation, None);
        };
        match &session.way {
            Way::Continues { share, recent } => {
                let conversation = self.continued(nth, kind, session, *share);
                let conversation = conversation.unwrap_or_else(|| self.begun(nth, kind, true));
                self.remember(nth, *recent, &conversation);
                self.request(at, &conversation, None)
            }
            Way::Turns { turns, delay_s } => {
                let turns = turns.draw_whole(&mut self.draws[nth].goes_on).max(1);
                let mut conversation = self.begun(nth, kind, true);
                let first = self.request(at, &conversation, None);
                for _ in 1..turns {
                    let Some(next) = self.next_turn(nth, kind, session, &conversation) else {
                        break;
                    };
                    conversation = next;
                    let delay = Span::secs_f64(delay_s.draw(&mut self.draws[nth].delay));
                    let turn = self.request(at, &conversation, Some(delay));
                    self.turns.push_back(turn);
                }
                first
            }
        }
    }

    /// A new conversation behind one of the kind's prefixes.
    fn begun(&mut self, nth: usize, kind: &Kind, in_session: bool) -> Conversation {
        let prefix = kind.prefixes.place(self.draws[nth].prefix.unit()) as u64;
        let start = self.prefix_start[nth] + prefix * kind.prefix_ids;
        let prompt =
            kind.prefix_tokens + kind.suffix.draw_whole(&mut self.draws[nth].suffix).max(1);
        let shared: Vec<u64> = (start..start + kind.prefix_ids).collect();
        let session = self.session_next;
        self.session_next += u64::from(in_session);
        let (class, tenant) = (kind.class.clone(), kind.tenant.clone());
        Conversation {
            session: if in_session { session } else { 0 },
            prompt,
            output: kind.output.draw_whole(&mut self.draws[nth].output).max(1),
            ids: self.ids(shared, prompt),
            class: class.or_else(|| named(&self.description.classes, &mut self.names)),
            tenant: tenant.or_else(|| named(&self.description.tenants, &mut self.names)),
        }
    }

    /// The next turn of one of the conversations seen last, if this arrival is to continue one.
    fn continued(
        &mut self,
        nth: usize,
        kind: &Kind,
        session: &Session,
        share: f64,
    ) -> Option<Conversation> {
        let continues = self.draws[nth].goes_on.unit() < share;
        let known = self.recent[nth].len() as u64;
        if !continues || known == 0 {
            return None;
        }
        let parent = self.recent[nth][self.draws[nth].parent.below(known) as usize].clone();
        self.next_turn(nth, kind, session, &parent)
    }

    /// The turn after `parent`: its prompt, its answer, and a further question. `None` where that
    /// is too long.
    fn next_turn(
        &mut self,
        nth: usize,
        kind: &Kind,
        session: &Session,
        parent: &Conversation,
    ) -> Option<Conversation> {
        let question = session.question.draw_whole(&mut self.draws[nth].question).max(1);
        let prompt = parent.prompt + parent.output + question;
        if prompt > session.prompt_tokens_max {
            return None;
        }
        // The parent's last id covers less than a whole block, or one that went on with its answer.
        let whole = parent.prompt / u64::from(self.description.id_tokens);
        let ids = self.ids(parent.ids[..whole as usize].to_vec(), prompt);
        let output = kind.output.draw_whole(&mut self.draws[nth].output).max(1);
        Some(Conversation { prompt, output, ids, ..parent.clone() })
    }

    /// Keeps the conversation in place of the oldest of the `recent` ones.
    fn remember(&mut self, nth: usize, recent: usize, conversation: &Conversation) {
        let place = self.seen[nth] % recent;
        self.seen[nth] += 1;
        match self.recent[nth].get_mut(place) {
            Some(oldest) => *oldest = conversation.clone(),
            None => self.recent[nth].push(conversation.clone()),
        }
    }

    /// The shared ids, and new ones up to the prompt's end.
    fn ids(&mut self, mut ids: Vec<u64>, prompt: u64) -> Arc<[u64]> {
        let count = prompt.div_ceil(u64::from(self.description.id_tokens));
        let missing = count - ids.len() as u64;
        ids.extend(self.id_next..self.id_next + missing);
        self.id_next += missing;
        ids.into()
    }

    fn request(&self, at: Span, conversation: &Conversation, delay: Option<Span>) -> TraceRequest {
        TraceRequest {
            at,
            prompt: Tokens(conversation.prompt),
            output: Tokens(conversation.output),
            ids: Arc::clone(&conversation.ids),
            id_tokens: self.description.id_tokens,
            session: (conversation.session > 0).then_some(conversation.session),
            delay,
            class: conversation.class.clone(),
            tenant: conversation.tenant.clone(),
        }
    }
}

fn named(names: &Names, rng: &mut Rng) -> Option<Arc<str>> {
    names.names.get(names.shares.place(rng.unit())).cloned()
}

impl Iterator for Generator {
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        self.left = self.left.checked_sub(1)?;
        if let Some(turn) = self.turns.pop_front() {
            return Some(turn);
        }
        while self.window.is_empty() {
            self.next_window();
        }
        let at = self.window.pop()?;
        Some(self.arrival(at))
    }
}
