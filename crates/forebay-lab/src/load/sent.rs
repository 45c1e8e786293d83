//! Counts the input tokens of a trace beside those that are sent, and looks for turns that are not
//! what they should be.
//!
//! Whether a row of a conversation holds all of it so far or only what is new cannot be seen in one
//! row. A generator that takes whole conversations for increments sends the second turn twice as
//! long, and reports a server's collapse. Rows are sent here as they stand, each as long as it
//! says; and rows that look like increments are counted, since then the trace itself asks for less
//! than its conversations would.

use std::sync::Arc;

use hashbrown::HashMap;

use super::body::Bodies;
use crate::trace::TraceRequest;

/// Conversations whose last turn is kept in mind. Of more, later turns are not looked at.
const SESSIONS_MAX: usize = 1 << 17;

/// What was asked for in the trace, and what was sent.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    requests: u64,
    trace_tokens: u64,
    tokens: u64,
    later_turns: u64,
    apart: u64,
    last: HashMap<u64, Turn, foldhash::fast::FixedState>,
}

/// A turn as far as the next one is held against it.
#[derive(Clone, Debug)]
struct Turn {
    prompt: u64,
    ids: Arc<[u64]>,
    id_tokens: u32,
}

impl Sent {
    /// Counts a request whose body was made.
    pub fn add(&mut self, request: &TraceRequest, bodies: &Bodies) {
        self.requests += 1;
        self.trace_tokens += request.prompt.0;
        self.tokens += bodies.prompt_tokens(request);
        let Some(session) = request.session else { return };
        let (prompt, id_tokens) = (request.prompt.0, request.id_tokens);
        let turn = Turn { prompt, ids: Arc::clone(&request.ids), id_tokens };
        if let Some(last) = self.last.get_mut(&session) {
            self.later_turns += 1;
            self.apart += u64::from(!last.begins(&turn));
            *last = turn;
        } else if self.last.len() < SESSIONS_MAX {
            self.last.insert(session, turn);
        }
    }

    /// Input tokens of the requests, by the trace.
    pub const fn trace_tokens(&self) -> u64 {
        self.trace_tokens
    }

    /// Input tokens of the prompts that were made for them, as far as is known.
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Sentences for whoever reads the results.
    pub fn notes(&self) -> Vec<String> {
        let Self { requests, trace_tokens, tokens, later_turns, apart, .. } = self;
        let mut notes = vec![format!(
            "input tokens of the {requests} requests planned: {trace_tokens} in the trace, \
             {tokens} in the prompts made for them"
        )];
        if *apart > 0 {
            notes.push(format!(
                "{apart} of {later_turns} later turns do not begin with the turn before them: if \
                 the trace's rows are increments, its conversations are longer than what was sent"
            ));
        }
        notes
    }
}

impl Turn {
    /// Whether another turn holds this one: all blocks that this one fills, or, where a trace has
    /// no ids, at least as many tokens.
    fn begins(&self, later: &Self) -> bool {
        let whole = (self.prompt / u64::from(self.id_tokens.max(1))) as usize;
        match (self.ids.is_empty(), later.ids.is_empty()) {
            (false, false) if self.id_tokens == later.id_tokens => {
                later.ids.get(..whole) == self.ids.get(..whole)
            }
            _ => later.prompt >= self.prompt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sent;
    use crate::load::{Ask, Bodies, Calibration, Form};
    use crate::trace;

    fn sent(rows: &str, bodies: &Bodies) -> (Sent, Vec<String>) {
        let file = std::env::temp_dir().join(format!("forebay-sent-{}", rows.len()));
        std::fs::write(&file, rows).unwrap();
        let mut sent = Sent::default();
        let mut prompts = Vec::new();
        for (nth, request) in (0..).zip(trace::open(&file).unwrap()) {
            let request = request.unwrap();
            sent.add(&request, bodies);
            let body = bodies.body(nth, &request);
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            prompts.push(body["messages"][0]["content"].as_str().unwrap().to_owned());
        }
        std::fs::remove_file(&file).unwrap();
        (sent, prompts)
    }

    fn bodies() -> Bodies {
        Bodies::new(&Ask::new("m", Form::Chat, true))
    }

    fn row(chat: i64, parent: i64, at: u32, input: u64, ids: &[u64]) -> String {
        format!(
            "{{\"chat_id\":{chat},\"parent_chat_id\":{parent},\"timestamp\":{at},\"input_length\":\
             {input},\"output_length\":9,\"type\":\"text\",\"turn\":1,\"hash_ids\":{ids:?}}}\n"
        )
    }

    #[test]
    fn a_later_turn_is_as_long_as_its_row_and_shares_whole_blocks_with_the_one_before() {
        // Six whole blocks of 16 and a part of a seventh; the child goes on behind the sixth.
        let parent = row(1, -1, 0, 100, &[0, 1, 2, 3, 4, 5, 6]);
        let ids = [0, 1, 2, 3, 4, 5, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29];
        let child = row(2, 1, 5, 250, &ids);
        let (sent, prompts) = sent(&(parent + &child), &bodies());
        let words: Vec<Vec<&str>> = prompts.iter().map(|text| text.split(' ').collect()).collect();
        assert_eq!((words[0].len(), words[1].len()), (100, 250));
        assert_eq!(words[0][..96], words[1][..96]);
        assert_ne!(words[0][96..], words[1][96..100]);
        assert_eq!((sent.trace_tokens(), sent.tokens()), (350, 350));
        let said = "input tokens of the 2 requests planned: 350 in the trace, 350 in the prompts \
                    made for them";
        assert_eq!(sent.notes(), [said]);
    }

    #[test]
    fn rows_that_look_like_increments_are_sent_as_they_stand_and_named() {
        let rows = "{\"session_id\":\"a\",\"timestamp\":0,\"input_length\":600,\
                    \"output_length\":5}\n\
                    {\"session_id\":\"a\",\"delay\":5,\"input_length\":40,\"output_length\":5}\n";
        let (sent, prompts) = sent(rows, &bodies());
        assert_eq!(prompts[1].split(' ').count(), 40);
        assert_eq!((sent.trace_tokens(), sent.tokens()), (640, 640));
        assert!(sent.notes()[1].starts_with("1 of 1 later turns do not begin with"));
    }

    #[test]
    fn what_calibration_can_not_meet_is_seen_in_the_sum() {
        let calibration = Calibration { per_word: 1.0, overhead: 30.0, error: 0.0 };
        let rows = "{\"timestamp\":0,\"input_length\":10,\"output_length\":5}\n";
        let (sent, _) = sent(rows, &bodies().with_calibration(calibration));
        assert_eq!((sent.trace_tokens(), sent.tokens()), (10, 31));
    }
}
