//! Holds the description of a synthetic trace as typed, and finds what is not of its form.
//!
//! Each table is read by itself, so that a fault in one does not hide those of the others.

use std::collections::BTreeMap;

use forebay_service::reader::{At, Gathered, listed, nearest};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::length::Written;

/// What a file may say, in the order of the reference.
const KEYS: [&str; 7] =
    ["about", "requests", "id_tokens", "arrivals", "classes", "tenants", "kind"];
/// What to do about a key or value that has no remedy of its own.
pub(super) const SEE: &str = "see docs/reference/synth.md, and the descriptions that ship";

/// The whole file.
pub(super) struct Document {
    pub(super) about: String,
    pub(super) requests: At<u64>,
    pub(super) id_tokens: Option<At<u32>>,
    pub(super) arrivals: At<Arrivals>,
    pub(super) classes: Option<At<BTreeMap<String, f64>>>,
    pub(super) tenants: Option<At<BTreeMap<String, f64>>>,
    pub(super) kinds: Vec<At<KindDocument>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arrivals {
    pub(super) per_s: f64,
    pub(super) bursts: Option<BurstsDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BurstsDocument {
    pub(super) period_s: f64,
    #[serde(default)]
    pub(super) width_s: f64,
    pub(super) even_over: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Popularity {
    #[default]
    Even,
    Zipf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KindDocument {
    pub(super) name: String,
    pub(super) share: f64,
    #[serde(default)]
    pub(super) prefix_tokens: u64,
    pub(super) prefixes: Option<u32>,
    #[serde(default)]
    pub(super) popularity: Popularity,
    pub(super) suffix: Written,
    pub(super) output: Written,
    pub(super) session: Option<SessionDocument>,
    pub(super) class: Option<String>,
    pub(super) tenant: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionDocument {
    pub(super) continues: Option<f64>,
    pub(super) recent: Option<usize>,
    pub(super) turns: Option<Written>,
    pub(super) delay_s: Option<Written>,
    pub(super) question: Written,
    pub(super) prompt_tokens_max: u64,
}

impl Document {
    /// Reads the text; `None` where a part of it can't be read, which is a fault then.
    pub(super) fn read(text: &str, found: &mut Gathered) -> Option<Self> {
        let root = found.toml(text);
        let root = root.get_ref();
        for key in root.keys().filter(|key| !KEYS.contains(&key.get_ref().as_ref())) {
            let remedy = match nearest(key.get_ref(), KEYS.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys are {}", listed(KEYS.into_iter())),
            };
            let line = found.line(key.span().start);
            found.add(line, format!("there is no key `{}`", key.get_ref()), remedy);
        }
        let about = required::<String>(root, "about", found);
        let requests = required(root, "requests", found);
        let id_tokens = optional(root, "id_tokens", found);
        let arrivals = required(root, "arrivals", found);
        let classes = optional(root, "classes", found);
        let tenants = optional(root, "tenants", found);
        let kinds = kinds(root, found);
        Some(Self {
            about: about?.value,
            requests: requests?,
            id_tokens,
            arrivals: arrivals?,
            classes,
            tenants,
            kinds: kinds?,
        })
    }
}

fn kinds(root: &DeTable<'_>, found: &mut Gathered) -> Option<Vec<At<KindDocument>>> {
    let Some(value) = root.get("kind") else {
        found.add(1, "there is no `[[kind]]` of prompts", SEE);
        return None;
    };
    let Some(kinds) = value.get_ref().as_array() else {
        let line = found.line(value.span().start);
        found.add(
            line,
            "`kind` is no list of tables",
            "write `[[kind]]` on its own line before each",
        );
        return None;
    };
    // All are read, also those after a faulty one.
    let kinds: Vec<Option<At<KindDocument>>> =
        kinds.iter().map(|kind| piece(kind, found)).collect();
    kinds.into_iter().collect()
}

fn optional<T: DeserializeOwned>(
    root: &DeTable<'_>,
    key: &str,
    found: &mut Gathered,
) -> Option<At<T>> {
    root.get(key).and_then(|value| piece(value, found))
}

fn required<T: DeserializeOwned>(
    root: &DeTable<'_>,
    key: &str,
    found: &mut Gathered,
) -> Option<At<T>> {
    if root.get(key).is_none() {
        found.add(1, format!("`{key}` is missing"), SEE);
    }
    optional(root, key, found)
}

/// One value or table of the file.
fn piece<T: DeserializeOwned>(value: &Spanned<DeValue<'_>>, found: &mut Gathered) -> Option<At<T>> {
    let line = found.line(value.span().start);
    match T::deserialize(ValueDeserializer::from(value.clone())) {
        Ok(value) => Some(At { value, line }),
        Err(error) => {
            let line = error.span().map_or(line, |span| found.line(span.start));
            let (what, remedy) = told(error.message().trim());
            found.add(line, what, remedy);
            None
        }
    }
}

/// What the library says of a value, and what to do, in words of the file instead of Rust's.
fn told(message: &str) -> (String, String) {
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    if let Some(key) = what.strip_prefix("missing field ") {
        return (format!("{key} is missing"), SEE.to_owned());
    }
    if let Some(key) = what.strip_prefix("unknown field ") {
        let keys = expected.trim_start_matches("one of ");
        return (format!("there is no key {key} here"), format!("the keys are {keys}"));
    }
    if let Some(word) = what.strip_prefix("unknown variant ") {
        return (format!("{word} is not known here"), format!("choose {expected}"));
    }
    let wanted = match expected.split(' ').next().unwrap_or_default() {
        "" => return (what.to_owned(), SEE.to_owned()),
        "f64" => "a number",
        "u64" | "u32" | "usize" => "a whole number that is not negative",
        "struct" => "a table",
        "an" | "a" if expected.contains("array") || expected.contains("tuple") => "two numbers",
        _ if expected == "a sequence" => "a list",
        _ if expected == "a map" => "a table",
        _ => expected,
    };
    (what.to_owned(), format!("give {wanted}"))
}
