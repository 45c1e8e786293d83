//! Reads the description of a synthetic trace, and reports all of its faults at once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use forebay_service::Faults;
use forebay_service::reader::{At, Gathered};
use forebay_service::text_file::{self, UnreadableFile};

use super::document::{BurstsDocument, Document, KindDocument, Popularity, SEE};
use super::length::{Length, Written};
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

/// Why a description could not be used.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// There is none, or it can't be changed as asked.
    #[error(transparent)]
    Unusable(#[from] TraceError),
    /// It was read, and these are its faults.
    #[error(transparent)]
    Faulty(#[from] Faults),
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
    pub fn named(name: &str) -> Result<Self, DescriptionError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Ok(Self::parse(name, Path::new(name), text)?);
        }
        Err(TraceError {
            file: name.into(),
            line: None,
            what: "no synthetic trace has this name".to_owned(),
            remedy: format!(
                "take one of {}, or the path of a description that ends in .toml",
                Self::names().collect::<Vec<_>>().join(", ")
            ),
        }
        .into())
    }

    /// A description from a file.
    pub fn load(path: &Path) -> Result<Self, DescriptionError> {
        let text = text_file::read(path).map_err(|UnreadableFile { file, what, remedy }| {
            TraceError { file, line: None, what, remedy }
        })?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self::parse(&name.unwrap_or_default(), path, &text)?)
    }

    /// A shipped description by its name, or one from a file where the text looks like a path.
    pub fn find(text: &str) -> Result<Self, DescriptionError> {
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

    fn parse(name: &str, file: &Path, text: &str) -> Result<Self, Faults> {
        let mut found = Gathered::new(text);
        let document = Document::read(text, &mut found);
        let description = document.and_then(|document| resolve(name, document, &mut found));
        let faults = found.into_sorted();
        match description {
            Some(description) if faults.is_empty() => Ok(description),
            _ => Err(Faults { file: file.to_owned(), faults }),
        }
    }
}

/// The description that a document means. With a fault found it is not to be used.
fn resolve(name: &str, document: Document, found: &mut Gathered) -> Option<Description> {
    let id_tokens = document.id_tokens.as_ref().map_or(MOONCAKE_ID_TOKENS, |at| at.value);
    if let Some(at) = document.id_tokens.filter(|at| !(1..=65_536).contains(&at.value)) {
        found.add(at.line, "id_tokens must lie in 1..=65536", SEE);
    }
    let At { value: requests, line } = document.requests;
    if requests == 0 {
        found.add(line, "requests must be at least 1", SEE);
    }
    let At { value: arrivals, line } = document.arrivals;
    let bursts = arrivals.bursts.map(|BurstsDocument { period_s, width_s, even_over }| Bursts {
        period_s,
        width_s,
        even_over,
    });
    if bursts.is_some_and(|bursts| {
        !(0.001..=1e6).contains(&bursts.period_s)
            || !(0.0..=bursts.period_s).contains(&bursts.width_s)
            || !(1..=1_000_000).contains(&bursts.even_over)
    }) {
        let what = "arrivals.bursts needs period_s from 0.001, width_s from 0 to the period, and \
                    even_over from 1";
        found.add(line, what, SEE);
    }
    if let Some(what) = rate_fault(arrivals.per_s, bursts) {
        found.add(line, what, "choose another rate");
    }
    let classes = names("classes", document.classes, found);
    let tenants = names("tenants", document.tenants, found);
    for kind in &document.kinds {
        let share = kind.value.share;
        if !share.is_finite() || share <= 0.0 {
            found.add(kind.line, format!("kind {}: share must be above 0", kind.value.name), SEE);
        }
    }
    if document.kinds.is_empty() {
        found.add(1, "there is no `[[kind]]` of prompts", SEE);
    }
    let shares: Vec<f64> = document.kinds.iter().map(|kind| kind.value.share).collect();
    let id_tokens_min_1 = u64::from(id_tokens.max(1));
    let kinds: Vec<Option<Kind>> = document
        .kinds
        .into_iter()
        .map(|At { value, line }| {
            let mut faults = Vec::new();
            let kind = resolve_kind(value, id_tokens_min_1, &mut faults);
            faults.into_iter().for_each(|what| found.add(line, what, SEE));
            kind
        })
        .collect();
    Some(Description {
        name: name.to_owned(),
        about: document.about,
        requests,
        id_tokens,
        per_s: arrivals.per_s,
        bursts,
        classes,
        tenants,
        kinds: kinds.into_iter().collect::<Option<_>>()?,
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

fn names(field: &str, shares: Option<At<BTreeMap<String, f64>>>, found: &mut Gathered) -> Names {
    let At { value: shares, line } = shares.unwrap_or(At { value: BTreeMap::new(), line: 1 });
    if shares.iter().any(|(name, share)| name.is_empty() || !share.is_finite() || *share <= 0.0) {
        found.add(line, format!("{field} must have names, with shares above 0"), SEE);
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
