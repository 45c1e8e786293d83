//! Reads the description of a synthetic trace, and reports all of its faults at once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::length::{Length, Written};
use crate::text_file::{self, UnreadableFile};
use crate::trace::{MOONCAKE_ID_TOKENS, TraceError};

/// Arrivals of one window of time that are drawn and sorted together.
pub const WINDOW_ARRIVALS_MAX: u64 = 1_000_000;
/// Conversations of one kind that can be continued.
pub const RECENT_MAX: usize = 100_000;
/// The longest prompt or answer that a description may ask for, in tokens.
const TOKENS_MAX: f64 = 10_000_000.0;
/// Turns of one session.
const TURNS_MAX: f64 = 10_000.0;
/// Different prefixes of one kind.
const PREFIXES_MAX: u32 = 1_000_000;

/// The descriptions that are shipped.
const SHIPPED: [(&str, &str); 3] = [
    ("agents", include_str!("../../../synth/agents.toml")),
    ("chat", include_str!("../../../synth/chat.toml")),
    ("evidence", include_str!("../../../synth/evidence.toml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    about: String,
    requests: u64,
    id_tokens: Option<u32>,
    arrivals: Arrivals,
    #[serde(default)]
    classes: BTreeMap<String, f64>,
    #[serde(default)]
    tenants: BTreeMap<String, f64>,
    kind: Vec<KindDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arrivals {
    per_s: f64,
    bursts: Option<BurstsDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BurstsDocument {
    period_s: f64,
    #[serde(default)]
    width_s: f64,
    even_over: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Popularity {
    #[default]
    Even,
    Zipf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindDocument {
    name: String,
    share: f64,
    #[serde(default)]
    prefix_tokens: u64,
    prefixes: Option<u32>,
    #[serde(default)]
    popularity: Popularity,
    suffix: Written,
    output: Written,
    session: Option<SessionDocument>,
    class: Option<String>,
    tenant: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionDocument {
    continues: Option<f64>,
    recent: Option<usize>,
    turns: Option<Written>,
    delay_s: Option<Written>,
    question: Written,
    prompt_tokens_max: u64,
}

/// What a synthetic trace looks like.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name: a shipped one's, or the file's without folder and ending.
    pub name: String,
    /// What it imitates, in one sentence.
    pub about: String,
    /// Requests that it has unless told otherwise.
    pub requests: u64,
    pub(super) id_tokens: u32,
    pub(super) per_s: f64,
    pub(super) bursts: Option<Bursts>,
    pub(super) classes: Names,
    pub(super) tenants: Names,
    pub(super) kinds: Vec<Kind>,
    /// Places in `kinds`, by share.
    pub(super) kind_shares: Shares,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    pub(super) period_s: f64,
    pub(super) width_s: f64,
    pub(super) even_over: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) prefix_ids: u64,
    pub(super) prefix_tokens: u64,
    pub(super) prefixes: Shares,
    pub(super) suffix: Length,
    pub(super) output: Length,
    pub(super) session: Option<Session>,
    pub(super) class: Option<Arc<str>>,
    pub(super) tenant: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) question: Length,
    pub(super) prompt_tokens_max: u64,
    pub(super) way: Way,
}

/// How a conversation goes on.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// This share of the arrivals continues one of the conversations seen last, whether that has
    /// ended or not.
    Continues { share: f64, recent: usize },
    /// Each arrival is a session; its later turns come a delay after the answer before them.
    Turns { turns: Length, delay_s: Length },
}

/// Places 0.. with a share each, as the running sum up to 1.
#[derive(Clone, Debug)]
pub(super) struct Shares(pub(super) Vec<f64>);

impl Shares {
    fn of(weights: impl Iterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        for share in &mut sums {
            *share /= sum;
        }
        Self(sums)
    }

    /// The place that a draw from `[0, 1)` falls on.
    pub(super) fn place(&self, draw: f64) -> usize {
        self.0.partition_point(|share| *share <= draw).min(self.0.len().saturating_sub(1))
    }
}

/// Names with their shares; none is allowed.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) names: Vec<Arc<str>>,
    pub(super) shares: Shares,
}

impl Description {
    /// Names of the shipped descriptions.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// A shipped description.
    pub fn named(name: &str) -> Result<Self, TraceError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Self::parse(name, Path::new(name), text);
        }
        Err(TraceError {
            file: name.into(),
            line: None,
            what: "no synthetic trace has this name".to_owned(),
            remedy: format!(
                "take one of {}, or the path of a description that ends in .toml",
                Self::names().collect::<Vec<_>>().join(", ")
            ),
        })
    }

    /// A description from a file.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let text = text_file::read(path).map_err(|UnreadableFile { file, what, remedy }| {
            TraceError { file, line: None, what, remedy }
        })?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Self::parse(&name.unwrap_or_default(), path, &text)
    }

    /// A shipped description by its name, or one from a file where the text looks like a path.
    pub fn find(text: &str) -> Result<Self, TraceError> {
        let is_path = text.contains(['/', '\\'])
            || Path::new(text)
                .extension()
                .is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
        if is_path { Self::load(Path::new(text)) } else { Self::named(text) }
    }

    /// The same requests at another rate of arrivals, per second. Bursts keep their period and
    /// grow.
    pub fn with_arrivals_per_s(mut self, per_s: f64) -> Result<Self, TraceError> {
        self.per_s = per_s;
        match rate_fault(per_s, self.bursts) {
            None => Ok(self),
            Some(what) => Err(TraceError {
                file: self.name.into(),
                line: None,
                what,
                remedy: "choose another rate".to_owned(),
            }),
        }
    }

    /// Arrivals per second; of sessions, where the kinds have turns.
    pub fn arrivals_per_s(&self) -> f64 {
        self.per_s
    }

    /// The length of one window. All arrivals of a window are drawn together.
    pub(super) fn window_s(&self) -> f64 {
        window_s(self.per_s, self.bursts)
    }

    fn parse(name: &str, file: &Path, text: &str) -> Result<Self, TraceError> {
        let document: Document = toml::from_str(text).map_err(|error| TraceError {
            file: file.to_path_buf(),
            line: error.span().map(|span| text[..span.start].matches('\n').count() as u64 + 1),
            what: error.message().trim().to_owned(),
            remedy: "see `forebay trace synth --help`, and the shipped descriptions".to_owned(),
        })?;
        let mut faults = Vec::new();
        let description = resolve(name, document, &mut faults);
        match description {
            Some(description) if faults.is_empty() => Ok(description),
            _ => Err(TraceError {
                file: file.to_path_buf(),
                line: None,
                what: faults.join("\n  "),
                remedy: "mend the description; the shipped ones are examples".to_owned(),
            }),
        }
    }
}

/// The description that a document means. Faults are added to the list; with any there, it is not
/// to be used.
fn resolve(name: &str, document: Document, faults: &mut Vec<String>) -> Option<Description> {
    let id_tokens = document.id_tokens.unwrap_or(MOONCAKE_ID_TOKENS);
    if !(1..=65_536).contains(&id_tokens) {
        faults.push("id_tokens must lie in 1..=65536".to_owned());
    }
    if document.requests == 0 {
        faults.push("requests must be at least 1".to_owned());
    }
    let bursts = document.arrivals.bursts.as_ref().map(|bursts| Bursts {
        period_s: bursts.period_s,
        width_s: bursts.width_s,
        even_over: bursts.even_over,
    });
    if bursts.is_some_and(|bursts| {
        !(0.001..=1e6).contains(&bursts.period_s)
            || !(0.0..=bursts.period_s).contains(&bursts.width_s)
            || !(1..=1_000_000).contains(&bursts.even_over)
    }) {
        faults.push(
            "arrivals.bursts needs period_s from 0.001, width_s from 0 to the period, and \
             even_over from 1"
                .to_owned(),
        );
    }
    faults.extend(rate_fault(document.arrivals.per_s, bursts));
    let classes = names("classes", &document.classes, faults);
    let tenants = names("tenants", &document.tenants, faults);
    let shares: Vec<f64> = document.kind.iter().map(|kind| kind.share).collect();
    if shares.iter().any(|share| !share.is_finite() || *share <= 0.0) || shares.is_empty() {
        faults.push("there must be a kind, and every kind's share must be above 0".to_owned());
    }
    let kinds: Option<Vec<Kind>> = document
        .kind
        .into_iter()
        .map(|kind| resolve_kind(kind, u64::from(id_tokens.max(1)), faults))
        .collect();
    Some(Description {
        name: name.to_owned(),
        about: document.about,
        requests: document.requests,
        id_tokens,
        per_s: document.arrivals.per_s,
        bursts,
        classes,
        tenants,
        kinds: kinds?,
        kind_shares: Shares::of(shares.into_iter()),
    })
}

/// Bursts that are drawn together, or the time in which a thousand arrivals are due.
fn window_s(per_s: f64, bursts: Option<Bursts>) -> f64 {
    match bursts {
        Some(bursts) => bursts.period_s * f64::from(bursts.even_over),
        None => 1000.0 / per_s,
    }
}

fn rate_fault(per_s: f64, bursts: Option<Bursts>) -> Option<String> {
    if !(1e-6..=1e6).contains(&per_s) {
        return Some("arrivals.per_s must lie in 0.000001..=1000000".to_owned());
    }
    let arrivals = per_s * window_s(per_s, bursts);
    (!(0.5..=WINDOW_ARRIVALS_MAX as f64).contains(&arrivals)).then(|| {
        format!(
            "arrivals.bursts.even_over bursts must hold 1 to {WINDOW_ARRIVALS_MAX} arrivals, \
             not {arrivals:.1}"
        )
    })
}

fn names(field: &str, shares: &BTreeMap<String, f64>, faults: &mut Vec<String>) -> Names {
    if shares.iter().any(|(name, share)| name.is_empty() || !share.is_finite() || *share <= 0.0) {
        faults.push(format!("{field} must have names, with shares above 0"));
    }
    Names {
        names: shares.keys().map(|name| Arc::from(name.as_str())).collect(),
        shares: Shares::of(shares.values().copied()),
    }
}

fn resolve_kind(kind: KindDocument, id_tokens: u64, faults: &mut Vec<String>) -> Option<Kind> {
    let name = kind.name;
    let prefixes = kind.prefixes.unwrap_or(1);
    if !(1..=PREFIXES_MAX).contains(&prefixes) {
        faults.push(format!("kind {name}: prefixes must lie in 1..={PREFIXES_MAX}"));
    }
    if kind.prefix_tokens as f64 > TOKENS_MAX {
        faults.push(format!("kind {name}: prefix_tokens must be at most {TOKENS_MAX}"));
    }
    let mut length = |field: &str, written: &Written, least: f64, most: f64| {
        let fault = |what| faults.push(format!("kind {name}: {field} {what}"));
        written.resolve(least, most).map_err(fault).ok()
    };
    let suffix = length("suffix", &kind.suffix, 1.0, TOKENS_MAX);
    let output = length("output", &kind.output, 1.0, TOKENS_MAX);
    let session = kind.session.map(|session| {
        let question = length("session.question", &session.question, 1.0, TOKENS_MAX);
        let way = match (session.continues, session.recent, &session.turns, &session.delay_s) {
            (Some(share), Some(recent), None, None)
                if (0.0..=1.0).contains(&share) && (1..=RECENT_MAX).contains(&recent) =>
            {
                Some(Way::Continues { share, recent })
            }
            (None, None, Some(turns), Some(delay_s)) => {
                let turns = length("session.turns", turns, 1.0, TURNS_MAX);
                let delay_s = length("session.delay_s", delay_s, 0.0, 1e6);
                turns.zip(delay_s).map(|(turns, delay_s)| Way::Turns { turns, delay_s })
            }
            _ => None,
        };
        (question, way, session.prompt_tokens_max)
    });
    let session = match session {
        None => None,
        Some((Some(question), Some(way), prompt_tokens_max)) => {
            Some(Session { question, prompt_tokens_max, way })
        }
        Some(_) => {
            faults.push(format!(
                "kind {name}: session needs either continues (0 to 1) and recent (1 to \
                 {RECENT_MAX}), or turns and delay_s"
            ));
            None
        }
    };
    let rank_weight = |rank: u32| match kind.popularity {
        Popularity::Even => 1.0,
        Popularity::Zipf => 1.0 / f64::from(rank + 1),
    };
    Some(Kind {
        prefix_ids: kind.prefix_tokens / id_tokens,
        prefix_tokens: kind.prefix_tokens,
        prefixes: Shares::of((0..prefixes.min(PREFIXES_MAX)).map(rank_weight)),
        suffix: suffix?,
        output: output?,
        session,
        class: kind.class.map(Arc::from),
        tenant: kind.tenant.map(Arc::from),
    })
}
