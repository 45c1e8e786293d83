//! Reads traces with one JSON object a line: Mooncake's, `AIPerf`'s variant of it, Bailian's, and
//! our own.
//!
//! | field | meaning |
//! |---|---|
//! | `timestamp` | ms since the start; seconds in a row with `chat_id` (Bailian) |
//! | `input_length`, `output_length` | tokens of the *whole* prompt, and of the answer |
//! | `hash_ids` | chained ids of the prompt's blocks, the last one partial |
//! | `id_tokens` | tokens an id stands for, where it can't be told from the counts |
//! | `session_id`, `delay` | the conversation; ms after its last turn's end, instead of a time |
//! | `chat_id`, `parent_chat_id` | Bailian's way to name a conversation |
//! | `class`, `tenant` | names of the class of service and of the tenant |
//!
//! Every row is the whole conversation so far, never an increment: its `hash_ids` say so. Whatever
//! else a row holds (`text_input`, `messages`, `payload`) is skipped and never kept: traces are
//! about sizes, not texts.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use forebay_core::{Span, Tokens, mixed};
use hashbrown::HashMap;
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use serde_json::value::RawValue;

use super::lines::Lines;
use super::order::{Row, TIME_MAX};
use super::{TraceError, TraceRequest, decimal};

/// Tokens an id stands for in Mooncake's traces.
pub const MOONCAKE_ID_TOKENS: u32 = 512;
/// Tokens an id stands for in Bailian's traces and in those of vLLM's default block size.
pub const BAILIAN_ID_TOKENS: u32 = 16;
/// The longest prompt or answer, in tokens: beyond every model, and small enough that sums never
/// overflow.
pub const LENGTH_TOKENS_MAX: u64 = 1_000_000_000;
/// Conversations of a Bailian trace that are kept in mind to find a child's parent.
pub const CHATS_MAX: usize = 1 << 17;
/// Names of classes or tenants of which one copy is shared; more are allowed, each with a copy of
/// its own.
const NAMES_MAX: usize = 4096;

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    input_length: Option<&'a RawValue>,
    #[serde(borrow)]
    output_length: Option<&'a RawValue>,
    hash_ids: Option<Vec<Id>>,
    #[serde(borrow)]
    id_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    delay: Option<&'a RawValue>,
    chat_id: Option<i64>,
    parent_chat_id: Option<i64>,
    class: Option<String>,
    tenant: Option<String>,
}

/// One id of `hash_ids`. All 64 bits count: cut to 32 or to a float's 53, different prefixes become
/// equal.
struct Id(u64);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl Visitor<'_> for Whole {
            type Value = Id;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("hash_ids as whole numbers from 0 to 18446744073709551615")
            }
            fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<Id, E> {
                Ok(Id(id))
            }
            fn visit_i64<E: serde::de::Error>(self, id: i64) -> Result<Id, E> {
                u64::try_from(id).map(Id).map_err(|_| E::custom(format!("hash_ids holds {id}")))
            }
            fn visit_f64<E: serde::de::Error>(self, id: f64) -> Result<Id, E> {
                Err(E::custom(format!("hash_ids holds {id:?}")))
            }
        }
        deserializer.deserialize_u64(Whole)
    }
}

/// The rows of a file of JSON lines.
pub(super) struct JsonRows {
    lines: Lines,
    id_tokens: Option<u32>,
    previous: Span,
    chats: Chats,
    names: HashMap<String, Arc<str>, foldhash::fast::FixedState>,
}

/// Roots of the conversations seen last.
#[derive(Default)]
struct Chats {
    roots: HashMap<i64, u64, foldhash::fast::FixedState>,
    order: VecDeque<i64>,
}

impl Chats {
    /// The conversation that this chat continues or begins.
    fn session(&mut self, chat: i64, parent: Option<i64>) -> u64 {
        let root = parent.and_then(|parent| self.roots.get(&parent).copied());
        let root = root.unwrap_or(chat.cast_unsigned());
        if self.roots.insert(chat, root).is_none() {
            self.order.push_back(chat);
        }
        if self.order.len() > CHATS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.roots.remove(&oldest);
        }
        root
    }
}

impl Iterator for JsonRows {
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.lines.advance() {
            Ok(true) => Some(self.row()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl JsonRows {
    pub(super) fn new(lines: Lines) -> Self {
        Self {
            lines,
            id_tokens: None,
            previous: Span::ZERO,
            chats: Chats::default(),
            names: HashMap::default(),
        }
    }

    fn row(&mut self) -> Result<Row, TraceError> {
        let fields: Fields<'_> = serde_json::from_slice(self.lines.line())
            .map_err(|error| not_a_row(&self.lines, &error))?;
        let bailian = fields.chat_id.is_some();
        let prompt = length(&self.lines, "input_length", fields.input_length)?;
        let output = length(&self.lines, "output_length", fields.output_length)?;
        let delay = match fields.delay {
            Some(raw) => Some(time(&self.lines, "delay", raw, 6)?),
            None => None,
        };
        let session = match (fields.session_id, fields.chat_id) {
            (Some(raw), _) => Some(session(&self.lines, raw)?),
            (None, Some(chat)) => Some(self.chats.session(chat, fields.parent_chat_id)),
            (None, None) => None,
        };
        let (at, delay) = match fields.timestamp {
            Some(raw) => (time(&self.lines, "timestamp", raw, if bailian { 9 } else { 6 })?, delay),
            // AIPerf gives only a session's first turn a time. Later ones stand here at the row
            // before them.
            None if session.is_some() => (self.previous, Some(delay.unwrap_or(Span::ZERO))),
            None => {
                let remedy = "give every row a timestamp in ms, or a session_id and a delay";
                return Err(self.lines.fault("timestamp is missing", remedy));
            }
        };
        self.previous = at;
        let ids = fields.hash_ids.unwrap_or_default();
        let stated = match fields.id_tokens {
            Some(raw) => Some(id_tokens(&self.lines, raw)?),
            None => None,
        };
        let (class, tenant) = (fields.class, fields.tenant);
        let (ids, id_tokens) = self.ids(ids, prompt, stated, bailian)?;
        let (class, tenant) = (self.name("class", class)?, self.name("tenant", tenant)?);
        let (prompt, output) = (Tokens(prompt), Tokens(output));
        let request =
            TraceRequest { at, prompt, output, ids, id_tokens, session, delay, class, tenant };
        Ok(Row { line: self.lines.number(), request })
    }

    /// Matches the ids with the prompt's length, and learns from the first that can tell how many
    /// tokens one stands for.
    fn ids(
        &mut self,
        ids: Vec<Id>,
        prompt: u64,
        stated: Option<u32>,
        bailian: bool,
    ) -> Result<(Arc<[u64]>, u32), TraceError> {
        let usual = if bailian { BAILIAN_ID_TOKENS } else { MOONCAKE_ID_TOKENS };
        let known = stated.or(self.id_tokens);
        if ids.is_empty() {
            return Ok((Arc::from([]), stated.unwrap_or(usual)));
        }
        let count = ids.len() as u64;
        let needed = |tokens: u32| prompt.div_ceil(u64::from(tokens));
        let mut ids: Vec<u64> = ids.into_iter().map(|Id(id)| id).collect();
        let tokens = known.unwrap_or_else(|| {
            let fits = count == needed(usual) || bailian;
            if fits || count != needed(BAILIAN_ID_TOKENS) { usual } else { BAILIAN_ID_TOKENS }
        });
        if bailian && count + 1 == needed(tokens) {
            // The writer gave ids to full blocks only. The last, partial one is nobody else's.
            ids.push(mixed(mixed(self.lines.number()) ^ count));
        } else if count != needed(tokens) {
            let what = format!(
                "hash_ids has {count} ids, but input_length {prompt} needs {} (one for \
                 each {tokens} tokens)",
                needed(tokens)
            );
            let remedy = "see that the row is whole; if an id stands for another number of tokens, \
                          add \"id_tokens\": N to the rows";
            return Err(self.lines.fault(what, remedy));
        }
        // A prompt this short has one id whatever an id stands for, so it teaches nothing.
        if stated.is_none() && prompt > u64::from(BAILIAN_ID_TOKENS) {
            self.id_tokens = Some(tokens);
        }
        Ok((ids.into(), tokens))
    }

    /// One shared copy of a name.
    fn name(&mut self, field: &str, name: Option<String>) -> Result<Option<Arc<str>>, TraceError> {
        let Some(name) = name else { return Ok(None) };
        if name.is_empty() {
            return Err(self
                .lines
                .fault(format!("{field} is empty"), "give it a name or leave it out"));
        }
        if let Some(shared) = self.names.get(&name) {
            return Ok(Some(Arc::clone(shared)));
        }
        let shared: Arc<str> = Arc::from(name.as_str());
        if self.names.len() < NAMES_MAX {
            self.names.insert(name, Arc::clone(&shared));
        }
        Ok(Some(shared))
    }
}

/// What is wrong with a line that is no row.
fn not_a_row(lines: &Lines, error: &serde_json::Error) -> TraceError {
    if error.is_eof() {
        let what = format!("the line is cut off after {} bytes", lines.line().len());
        return lines
            .fault(what, "the file was not written to its end: fetch it again, or drop the line");
    }
    if error.is_data() && !lines.line().trim_ascii_start().starts_with(b"{") {
        return lines.fault("the line is no JSON object", "one JSON object a line is expected");
    }
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    // The library says types as Rust spells them.
    let what = what.replace("expected i64", "expected a whole number");
    let what = what.replace("expected a sequence", "expected a list");
    let remedy = if what.contains("hash_ids") {
        "ids must be whole numbers from 0 to 18446744073709551615, without quotes or fraction"
    } else if error.is_data() {
        "give the field its type: lengths and ids are whole numbers, class and tenant are strings"
    } else {
        "one JSON object a line is expected"
    };
    lines.fault(format!("{what} (column {})", error.column()), remedy)
}

fn length(lines: &Lines, field: &str, raw: Option<&RawValue>) -> Result<u64, TraceError> {
    let Some(raw) = raw else {
        let remedy = format!("give every row its {field} in tokens");
        return Err(lines.fault(format!("{field} is missing"), remedy));
    };
    let text = raw.get();
    let remedy = format!("{field} is a whole number of tokens from 1 to {LENGTH_TOKENS_MAX}");
    match text.parse::<u64>() {
        Ok(length @ 1..=LENGTH_TOKENS_MAX) => Ok(length),
        _ => Err(lines.fault(format!("{field} is {}", shown(text)), remedy)),
    }
}

fn id_tokens(lines: &Lines, raw: &RawValue) -> Result<u32, TraceError> {
    match raw.get().parse::<u32>() {
        Ok(tokens) if tokens > 0 => Ok(tokens),
        _ => {
            let what = format!("id_tokens is {}", shown(raw.get()));
            Err(lines.fault(what, "id_tokens is a whole number of tokens, at least 1"))
        }
    }
}

fn time(lines: &Lines, field: &str, raw: &RawValue, digits: u32) -> Result<Span, TraceError> {
    let span = decimal::nanos(raw.get(), digits).map(Span);
    span.filter(|span| *span <= TIME_MAX).ok_or_else(|| {
        let unit = if digits == 6 { "milliseconds" } else { "seconds" };
        let what = format!("{field} is {}", shown(raw.get()));
        let remedy = format!(
            "{field} is a number of {unit} from 0 to {}, counted from the trace's own start",
            TIME_MAX.0 / 10_u64.pow(digits)
        );
        lines.fault(what, remedy)
    })
}

/// A number names a session as it is, text by its hash.
fn session(lines: &Lines, raw: &RawValue) -> Result<u64, TraceError> {
    let text = raw.get();
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let Ok(name) = serde_json::from_str::<String>(text) else {
        let what = format!("session_id is {}", shown(text));
        return Err(lines.fault(what, "session_id is a string, or a whole number"));
    };
    let plain = name == "0" || !name.starts_with(['0', '+']);
    match name.parse() {
        Ok(number) if plain => Ok(number),
        _ => Ok(name
            .bytes()
            .fold(mixed(name.len() as u64), |word, byte| mixed(word ^ u64::from(byte)))),
    }
}

/// A value as it stands in a message: never more than a few words of it.
fn shown(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
